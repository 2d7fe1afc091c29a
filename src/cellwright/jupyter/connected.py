"""A Jupyter server in use, for everybody or as one caller may use it."""

from dataclasses import dataclass, replace

from cellwright.core.types import Principal
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.inside.permitted import PermittedJupyter, permitted_queues, permitted_rooms
from cellwright.jupyter.kernels.live import LiveKernels
from cellwright.jupyter.server.connect import FoundServer


@dataclass(frozen=True, slots=True)
class Connected:
    """A Jupyter server in use."""

    found: FoundServer
    rooms: Rooms
    kernels: LiveKernels

    def permitted(self, principal: Principal) -> "Connected":
        """The same for one caller. Where Jupyter decides what each user may do, every use is checked."""
        if principal.leaves is None:
            return self
        return Connected(
            replace(self.found, jupyter=PermittedJupyter(self.found.jupyter, principal)),
            permitted_rooms(self.rooms, principal),
            permitted_queues(self.kernels, principal),
        )
