"""cellwright in Jupyter Server with the probing toolset, and one tool that tells what reached it. Used by tests only."""

from collections.abc import Sequence
from dataclasses import dataclass

from cellwright import __version__
from cellwright.app.extension.app import CellwrightExtension
from cellwright.app.protocol.server import CellwrightServer, Context
from cellwright.app.workspace import Workspace
from cellwright.core.toolset import Toolset, read
from cellwright.core.types import Call
from probe import Probe, probe_toolset


@dataclass
class Seen:
    """The last request, as it reached the server."""

    request: str = ""


SEEN = Seen()


class SeeingServer(CellwrightServer):
    def call_of(self, ctx: Context) -> Call:
        scope = getattr(ctx.request, "scope", {})
        SEEN.request = repr({key: value for key, value in scope.items() if key != "app"})
        return super().call_of(ctx)


async def probe_seen(seen: Seen) -> Seen:
    """Everything that reached the server of this very request."""
    return seen


class ProbeExtension(CellwrightExtension):
    def more_toolsets(self) -> Sequence[Toolset]:
        return [probe_toolset(Probe()), Toolset("seen", "tells what reached it", (read(probe_seen),), SEEN)]

    def open_server(self, workspace: Workspace) -> CellwrightServer:
        return SeeingServer(
            version=__version__,
            instructions=workspace.instructions,
            catalogue=workspace.catalogue,
            resources=workspace.resources,
            changes=workspace.changes,
            tasks=workspace.tasks,
            result_tokens=workspace.settings.result_tokens,
            secrets=workspace.secrets,
        )


def _jupyter_server_extension_points() -> list[dict[str, object]]:  # pyright: ignore[reportUnusedFunction] - Jupyter calls it
    return [{"module": "probe_extension", "app": ProbeExtension}]
