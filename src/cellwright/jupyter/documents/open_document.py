"""A document that is open: as its users work with it, as lists show it, and as its changes are announced."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from cellwright.core.errors import CellwrightError
from cellwright.jupyter.documents.backing import Acknowledged, Backing, RoomBacking
from cellwright.jupyter.documents.room import Room
from cellwright.jupyter.documents.text import TextDocument
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import RoomKind
from cellwright.jupyter.notebooks.notebook import LiveNotebook

View = TypeVar("View", LiveNotebook, TextDocument)
AnyView = LiveNotebook | TextDocument
T = TypeVar("T")
MayChange = Callable[[], None]
"""Raises if whoever has the document may only look at it."""


def anybody_may_change() -> None:
    """Permits every change: for documents whose users are not told apart."""


@dataclass(frozen=True, slots=True)
class DocumentChanged:
    """The contents of an open document have changed."""

    path: str
    kind: RoomKind
    cells: frozenset[str]
    """Of a notebook: the ids of cells that came, went or changed."""
    order: bool
    """Of a notebook: whether cells came, went or moved."""
    ours: bool


@dataclass(frozen=True, slots=True)
class OpenRoom:
    """A document that is open, or was until a while ago."""

    path: str
    kind: RoomKind
    room_id: str | None
    connected: bool
    live: bool
    opened: datetime
    last_activity: datetime
    in_use: int
    others: tuple[str, ...]
    cell_count: int | None = None
    """Of a notebook: how many cells it has, or had when it was left."""
    left: datetime | None = None
    saved: bool | None = None
    """Whether its changes were on disk when it was left; None if nothing was changed, or that was not checked."""

    @property
    def file_id(self) -> str | None:
        return self.room_id.rpartition(":")[2] if self.room_id else None


class OpenDocument(Generic[View]):
    """A document while it is leased: read `view` freely, change it through `change`."""

    def __init__(self, path: DocPath, view: View, backing: Backing, may_change: MayChange = anybody_may_change) -> None:
        self.path = path
        self.view: View = view
        self._backing = backing
        self._may_change = may_change

    @property
    def live(self) -> bool:
        """Whether people share this document now. Otherwise it was read from the file."""
        return self._backing.live

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(self._backing.room.others()) if isinstance(self._backing, RoomBacking) else ()

    @property
    def room(self) -> Room | None:
        """The room in which it is shared; None if it was read from the file."""
        return self._backing.room if isinstance(self._backing, RoomBacking) else None

    @property
    def is_open(self) -> bool:
        """False once its connection is lost or it was left: the view no longer follows the document."""
        return self._backing.is_open

    async def catch_up(self) -> None:
        """Wait until what others did up to now is here: before cells are taken away in which somebody may be typing."""
        await self._backing.catch_up()

    async def change(self, edit: Callable[[View], T], *, save: bool = False) -> tuple[T, Acknowledged]:
        """Make a change and wait until it has arrived. Returns the result of `edit`, and what is known of the change.

        `edit` runs at once and must not wait. If it raises, nothing is sent. After UnknownOutcome, look before you repeat it.
        """
        self._may_change()
        self._backing.check_open()
        result = edit(self.view)
        return result, await self.acknowledge(save=save)

    async def acknowledge(self, *, save: bool = False) -> Acknowledged:
        """Wait until all changes so far have arrived."""
        self._move_cursor()
        acknowledged = await self._backing.acknowledge()
        # The server may not notice the change of a notebook that is `unheard`, and so not write it by itself.
        unheard = isinstance(self.view, LiveNotebook) and self.view.unheard
        if acknowledged.saved or not (save or unheard):
            return acknowledged
        try:
            saved = await self._backing.save()
        except CellwrightError:
            # The change has arrived. That it is not in the file yet is a failure only for a caller with `save`.
            if save:
                raise
            saved = False
        return Acknowledged(acknowledged.live, saved, acknowledged.reaches_others)

    async def save(self) -> bool:
        """Write the file now. Returns whether it was written."""
        self._may_change()
        return await self._backing.save()

    def check_open(self) -> None:
        """Raise if nothing can be changed here any more: lease the document again."""
        self._backing.check_open()

    def _move_cursor(self) -> None:
        """Show people where the agent works."""
        if not isinstance(self._backing, RoomBacking):
            return
        view = self.view
        if isinstance(view, TextDocument):
            if (offset := view.take_touched()) is not None:
                self._backing.room.point_at(view.shared_text, offset)
        elif (text := view.last_touched) is not None:
            self._backing.room.point_at(text, len(text))
