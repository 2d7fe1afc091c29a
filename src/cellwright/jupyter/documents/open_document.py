"""A document that is open: as its users work with it, as lists show it, and as its changes are announced."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, TypeVar

from cellwright.core.errors import CellwrightError, Conflict
from cellwright.jupyter.documents.backing import Acknowledged, Backing, RoomBacking
from cellwright.jupyter.documents.room import Room
from cellwright.jupyter.documents.saving import After
from cellwright.jupyter.documents.text import TextDocument
from cellwright.jupyter.edits.lost import LostEdits, Noted, UnsavedEdits
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


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of a document's edits until they are in its file, and of those that are gone."""

    unsaved: UnsavedEdits
    lost: LostEdits


@dataclass(frozen=True, slots=True)
class OnDisk:
    """Whether what was changed is in the file; None if nobody knows."""

    saved: bool | None
    not_saved: str = ""


class OpenDocument(Generic[View]):
    """A document while it is leased: read `view` freely, change it through `change`."""

    def __init__(
        self,
        path: DocPath,
        view: View,
        backing: Backing,
        may_change: MayChange = anybody_may_change,
        memory: Memory | None = None,
    ) -> None:
        self.path = path
        self.view: View = view
        self._backing = backing
        self._may_change = may_change
        self._memory = memory

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
        """Wait until all changes so far have arrived, and see to it that they are saved."""
        self._move_cursor()
        noted = self._note_edits()
        loads = self._loads
        acknowledged = await self._backing.acknowledge()
        if acknowledged.saved:
            return acknowledged
        if save:
            return replace(acknowledged, saved=await self._backing.save())
        # A notebook that is `unheard` changes without the server noticing: it is not written by itself.
        if isinstance(self.view, LiveNotebook) and self.view.unheard:
            return replace(acknowledged, saved=await self._save_unheard())
        reason = await self._backing.settle(After.EDIT)
        if self._loads > loads:
            self._check_kept(noted)
        return replace(acknowledged, saved=self.live and not reason, not_saved=reason)

    async def arrive(self) -> None:
        """Wait until all changes so far have arrived. Saving them is left to others."""
        await self._backing.acknowledge()

    async def settle_run(self) -> OnDisk:
        """See to it that the outputs of a run are saved."""
        room = self.room
        if room is None:
            return OnDisk(saved=True)
        reason = await self._backing.settle(After.RUN)
        return OnDisk(not reason, reason)

    def on_disk(self) -> OnDisk:
        """Whether the file has everything that was changed here."""
        backing = self._backing
        if not isinstance(backing, RoomBacking):
            return OnDisk(saved=True)
        if not backing.room.answers_saves:
            return OnDisk(saved=None, not_saved=backing.saver.why_not())
        reason = backing.saver.why_not() or ("people's last changes are being saved" if backing.unwritten else "")
        return OnDisk(not reason, reason)

    @property
    def _loads(self) -> int:
        return self._backing.writes.loads if isinstance(self._backing, RoomBacking) else 0

    def _note_edits(self) -> list[Noted]:
        """Remember the edits until they are in the file."""
        room = self.room
        return (
            self._memory.unsaved.note(room.changes, self.view) if self._memory is not None and room is not None else []
        )

    def _check_kept(self, noted: Sequence[Noted]) -> None:
        """Raise if Jupyter dropped one of these edits because another program had written the file."""
        if self._memory is not None and self._memory.lost.holds(self.path.text, noted):
            raise Conflict(
                f"another program wrote {self.path} meanwhile, and Jupyter loaded that: your edit is not in it",
                hint="Read it again; undo_nb_edit with again: true makes edits of a notebook again, if they still fit",
            )

    async def _save_unheard(self) -> bool:
        try:
            return await self._backing.save()
        except CellwrightError:
            # The change has arrived. That it is not in the file yet is no failure of the edit.
            return False

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
