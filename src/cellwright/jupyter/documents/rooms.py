"""Open documents, kept and shared by all callers: one per file, opened when needed, left when nobody has needed it for a while."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from pycrdt import Doc

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument, NotFound, Unavailable
from cellwright.jupyter.documents.backing import Acknowledged, Backing, FileBacking, RoomBacking
from cellwright.jupyter.documents.first_alone import FirstAlone
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.room import Room
from cellwright.jupyter.documents.shareable import not_shared
from cellwright.jupyter.documents.text import NotText, TextDocument
from cellwright.jupyter.edits.history import Histories
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.files.unreadable import opened
from cellwright.jupyter.model import FileKind, RoomKind, joined
from cellwright.jupyter.notebooks.cellindex import CellsChanged
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.whole import read_heads
from cellwright.jupyter.port import Documents
from cellwright.notebook.model import InvalidFormat

log = logging.getLogger(__name__)

IDLE_SECONDS = 300.0
IDLE_BYTES = 16 * 1024 * 1024
"""What all documents that are open and idle may have together; the ones idle longest are left first."""
REMEMBER_SECONDS = 3600.0
MOST_REMEMBERED = 1_000
"""Documents that were left, and those whose last change may not be in the file: the oldest are forgotten first."""
ATTEMPTS = 3
FIRST_JOIN_SECONDS = 15.0
"""How long others wait for the first document: Jupyter makes the store of all of them then, and two at once break each other's."""

View = TypeVar("View", LiveNotebook, TextDocument)
AnyView = LiveNotebook | TextDocument
T = TypeVar("T")
Key = tuple[str, RoomKind]
RunEnded = Callable[[], bool]
MayChange = Callable[[], None]
"""Raises if whoever has the document may only look at it."""


def _everybody() -> None:
    """Where nobody else decides who may change what."""


@dataclass(frozen=True, slots=True)
class DocumentChanged:
    """An open document has other contents."""

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
    """Whether what was changed was on disk when it was left; None if nothing was changed, or nobody looked."""

    @property
    def file_id(self) -> str | None:
        return self.room_id.rpartition(":")[2] if self.room_id else None


class OpenDocument(Generic[View]):
    """A document while it is leased: read `view` freely, change it through `change`."""

    def __init__(self, path: DocPath, view: View, backing: Backing, may_change: MayChange = _everybody) -> None:
        self.path = path
        self.view: View = view
        self._backing = backing
        self._may_change = may_change

    @property
    def live(self) -> bool:
        """Whether people share this document now, as opposed to it being read from the file."""
        return self._backing.live

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(self._backing.room.others()) if isinstance(self._backing, RoomBacking) else ()

    @property
    def room(self) -> Room | None:
        """Where it is shared; None if it is read from the file."""
        return self._backing.room if isinstance(self._backing, RoomBacking) else None

    @property
    def is_open(self) -> bool:
        """False once its connection is lost or it was left: changes are not heard of any more."""
        return self._backing.is_open

    async def change(self, edit: Callable[[View], T], *, save: bool = False) -> tuple[T, Acknowledged]:
        """Make a change and return when it has arrived. What `edit` returns, and what is known of the change.

        `edit` runs at once and must not wait. If it raises, nothing is sent. UnknownOutcome means: look before you repeat.
        """
        self._may_change()
        self._backing.check_open()
        result = edit(self.view)
        return result, await self.acknowledge(save=save)

    async def acknowledge(self, *, save: bool = False) -> Acknowledged:
        """Return when all that was changed so far has arrived."""
        self._point()
        known = await self._backing.acknowledge()
        if known.saved or not (save or self._unheard):
            return known
        try:
            saved = await self._backing.save()
        except CellwrightError:
            # The change has arrived; that it was not written yet is a failure only for who asked for that.
            if save:
                raise
            saved = False
        return Acknowledged(known.live, saved, known.reaches_others)

    @property
    def _unheard(self) -> bool:
        """Whether the server may not notice a change, and so not write it by itself."""
        return isinstance(self.view, LiveNotebook) and self.view.unheard

    async def save(self) -> bool:
        """Write the file now. Whether it was written."""
        self._may_change()
        return await self._backing.save()

    def check_open(self) -> None:
        """Raise if nothing can be changed here any more: lease the document again."""
        self._backing.check_open()

    def _point(self) -> None:
        """Show people where the agent works."""
        if not isinstance(self._backing, RoomBacking):
            return
        view = self.view
        if isinstance(view, TextDocument):
            if (place := view.take_touched()) is not None:
                self._backing.room.point_at(view.shared_text, place)
        elif (text := view.last_touched) is not None:
            self._backing.room.point_at(text, len(text))


@dataclass(slots=True, eq=False)
class _Entry:
    key: Key
    path: DocPath
    view: AnyView
    backing: Backing
    opened: datetime
    last_activity: datetime
    leases: int = 0
    looks: int = 0
    """How many of these only look on: a page, a subscription. They keep it open, and nobody from moving or deleting it."""
    runs: list[Callable[[], bool]] = field(default_factory=list[Callable[[], bool]])
    """For each lease that a run holds: whether the run has ended, and what is left will end by itself."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever somebody lets go of it."""
    idle: asyncio.TimerHandle | None = None
    changed: bool = False
    unwritten: bool = False
    """Whether the server has not said since the last change that it is in the file. It tries once, a second after a change."""
    saved: bool | None = None
    used: bool = False
    """Whether somebody had it and let go of it: one that was only just opened is about to be taken."""

    @property
    def may_go(self) -> bool:
        """Whether it can be left at once, with nothing lost and nobody disturbed."""
        return self.used and self.leases == 0 and self.backing.settled

    @property
    def in_use(self) -> bool:
        """Whether somebody works in it, as opposed to a run that has ended and only sees its last outputs off."""
        return self.leases - self.looks > sum(ended() for ended in self.runs)

    async def close(self) -> None:
        self.view.close()
        await self.backing.close()

    def status(self, now: datetime, *, connected: bool) -> OpenRoom:
        room = self.backing.room if isinstance(self.backing, RoomBacking) else None
        return OpenRoom(
            path=self.path.text,
            kind=self.key[1],
            room_id=room.id if room else None,
            connected=connected,
            live=self.backing.live,
            opened=self.opened,
            # What is in use is active now, however long ago that began.
            last_activity=now if self.leases and connected else self.last_activity,
            in_use=self.leases,
            others=tuple(room.others()) if room and connected else (),
            cell_count=self.view.cell_count if isinstance(self.view, LiveNotebook) else None,
            left=None if connected else now,
            saved=self.saved,
        )


class Rooms:
    """All open documents of one workspace."""

    def __init__(
        self,
        documents: Documents,
        who: Collaborator,
        *,
        idle_seconds: float = IDLE_SECONDS,
        idle_bytes: int = IDLE_BYTES,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._documents = documents
        self._who = who
        self._idle_seconds = idle_seconds
        self._idle_bytes = idle_bytes
        self._now = now
        self._entries: dict[Key, _Entry] = {}
        self._opening: dict[Key, asyncio.Task[_Entry]] = {}
        self._joining = FirstAlone(FIRST_JOIN_SECONDS)
        self._left: dict[Key, OpenRoom] = {}
        self._unwritten: dict[Key, None] = {}
        """Documents that were lost before their last change was known to be in the file."""
        self._histories = Histories()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[Callable[[DocumentChanged], None]] = []

    @asynccontextmanager
    async def notebook(
        self,
        path: NotebookPath,
        *,
        run_ended: RunEnded | None = None,
        looks: bool = False,
        may_change: MayChange = _everybody,
    ) -> AsyncGenerator[OpenDocument[LiveNotebook]]:
        """The notebook, opened if it is not. It stays open at least as long as the block runs.

        `run_ended` is for a run that holds it: who wants to leave the notebook after the run waits for what the block has left to do.
        With `looks` the block only looks on, for as long as it likes: the notebook is closed under it when its file moves or goes.
        """
        async with self._lease(path, RoomKind.NOTEBOOK, looks=looks) as entry:
            assert isinstance(entry.view, LiveNotebook)
            if run_ended is not None:
                entry.runs.append(run_ended)
            try:
                await read_heads(entry.view)
                yield OpenDocument(path, entry.view, entry.backing, may_change)
            finally:
                if run_ended is not None:
                    entry.runs.remove(run_ended)

    @asynccontextmanager
    async def document(
        self, path: DocPath, *, may_change: MayChange = _everybody
    ) -> AsyncGenerator[OpenDocument[TextDocument]]:
        """The text file, opened if it is not."""
        async with self._lease(path, RoomKind.TEXT) as entry:
            assert isinstance(entry.view, TextDocument)
            yield OpenDocument(path, entry.view, entry.backing, may_change)

    def open_rooms(self) -> list[OpenRoom]:
        """Documents that are open, then those that were until at most an hour ago."""
        now = self._now()
        oldest = now - timedelta(seconds=REMEMBER_SECONDS)
        self._left = {key: room for key, room in self._left.items() if room.left and room.left > oldest}
        gone = [room for key, room in self._left.items() if key not in self._entries]
        return [entry.status(now, connected=True) for entry in self._entries.values()] + gone

    def find(self, path: DocPath, kind: RoomKind) -> OpenRoom | None:
        """The document if it is open, or was until at most an hour ago."""
        return next((room for room in self.open_rooms() if (room.path, room.kind) == (path.text, kind)), None)

    def open_notebook(self, path: NotebookPath) -> OpenDocument[LiveNotebook] | None:
        """The notebook if it is open now. Nobody is kept from leaving it by that."""
        entry = self._entries.get((path.text, RoomKind.NOTEBOOK))
        if entry is None or not isinstance(entry.view, LiveNotebook):
            return None
        return OpenDocument(path, entry.view, entry.backing)

    def subscribe(self, listener: Callable[[DocumentChanged], None]) -> Callable[[], None]:
        """Call `listener` for every change of an open document, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def end(self, path: DocPath, kind: RoomKind) -> bool:
        """Save a document if it was changed, and leave it. False if it is not open; Conflict while somebody needs it open."""
        entry = self._entries.get((path.text, kind))
        if entry is None:
            return False
        await _until_unused([entry])
        if entry.looks:
            raise Conflict(
                f"somebody looks at {path}, on the page or with a subscription; it stays open for them",
                hint="Leave it: it is closed by itself when nobody looks any more",
            )
        await self._save_and_leave(entry)
        return True

    async def let_go(self, path: DocPath) -> tuple[str, ...]:
        """Save and leave a document, or all in a folder, before its file moves or goes. Who else was there.

        A change that is still to be written must not meet the move: the server would write it under the old name.
        """
        found = [entry for (name, _), entry in self._entries.items() if f"{name}/".startswith(f"{path}/")]
        await _until_unused(found)
        people = [name for entry in found for name in entry.status(self._now(), connected=True).others]
        for entry in found:
            await self._save_and_leave(entry)
        return tuple(people)

    async def _save_and_leave(self, entry: _Entry) -> None:
        if (entry.changed or entry.unwritten) and entry.backing.is_open:
            active = entry.last_activity
            entry.leases += 1
            try:
                entry.saved = await entry.backing.save()
            except CellwrightError as error:
                entry.saved = False
                log.info("document_not_saved path=%s error=%s", entry.path, error)
            finally:
                self._release(entry)
            _check_unused([entry])
            entry.last_activity = active
        await self._leave(entry)

    async def save_all(self) -> None:
        """Write every open document to disk, as far as the server does: for when the server itself will end."""
        saving = [entry.backing.save() for entry in self._entries.values() if entry.backing.is_open]
        for outcome in await asyncio.gather(*saving, return_exceptions=True):
            if isinstance(outcome, CellwrightError):
                log.warning("document_not_saved error=%s", outcome)
            elif isinstance(outcome, BaseException):
                raise outcome

    async def close(self) -> None:
        """Leave everything."""
        for task in tuple(self._opening.values()):
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        await asyncio.gather(*(self._leave(entry) for entry in tuple(self._entries.values())))
        while self._tasks:
            await asyncio.gather(*self._tasks)

    @asynccontextmanager
    async def _lease(self, path: DocPath, kind: RoomKind, *, looks: bool = False) -> AsyncGenerator[_Entry]:
        entry = await self._take(path, kind)
        entry.looks += looks
        try:
            yield entry
        finally:
            entry.looks -= looks
            self._release(entry)

    async def _take(self, path: DocPath, kind: RoomKind) -> _Entry:
        for _ in range(ATTEMPTS):
            entry = await self._entry(path, kind)
            if not entry.backing.is_open:
                self._drop(entry)
                continue
            entry.leases += 1
            if entry.idle is not None:
                entry.idle.cancel()
                entry.idle = None
            kept = False
            try:
                kept = await self._still_good(entry)
            finally:
                if not kept:
                    self._release(entry)
            if kept:
                entry.last_activity = self._now()
                return entry
        raise Unavailable(f"{path} changes faster than it can be opened", hint="Try again")

    def _release(self, entry: _Entry) -> None:
        entry.leases -= 1
        entry.last_activity = self._now()
        entry.used = True
        entry.released.set()
        if entry.leases == 0 and self._entries.get(entry.key) is entry:
            if entry.idle is not None:
                entry.idle.cancel()
            entry.idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._leave_later, entry)
            self._bound_idle(entry)
        elif entry.leases == 0:
            self._spawn(entry.close())

    def _bound_idle(self, latest: _Entry) -> None:
        """Leave those idle longest if all idle ones are too large together. The latest stays: it is likely to be asked for next."""
        idle = sorted((one for one in self._entries.values() if one.may_go), key=lambda one: one.last_activity)
        excess = sum(one.backing.size for one in idle) - self._idle_bytes
        for entry in idle:
            if excess <= 0:
                return
            if entry is not latest:
                excess -= entry.backing.size
                self._leave_later(entry)

    async def _still_good(self, entry: _Entry) -> bool:
        """Whether it can be used, or is to be opened anew. Raises NotFound if its file is gone or renamed."""
        try:
            await entry.backing.refresh()
        except NotFound:
            self._drop(entry)
            raise
        if not entry.backing.is_open:
            self._drop(entry)
        return entry.backing.is_open

    async def _entry(self, path: DocPath, kind: RoomKind) -> _Entry:
        """The open document; those who ask while it is being opened wait for the same opening."""
        key = (path.text, kind)
        known = self._entries.get(key)
        if known is not None:
            return known
        task = self._opening.get(key)
        if task is None:
            task = self._opening[key] = asyncio.create_task(self._open(path, kind))
            task.add_done_callback(lambda done: self._opened(key, done))
        # One who gives up must not take the others' document away.
        return await asyncio.shield(task)

    def _opened(self, key: Key, done: asyncio.Task[_Entry]) -> None:
        del self._opening[key]
        if not done.cancelled() and (error := done.exception()) is not None:
            # Looked at here, because all who asked may have given up by now.
            log.info("document_not_opened path=%s error=%s", key[0], error)

    async def _open(self, path: DocPath, kind: RoomKind) -> _Entry:
        text = await self._text_of(path) if kind is RoomKind.TEXT else ""
        opening = self._join(path, kind) if await self._documents.live() else self._read(path, kind)
        view, backing = await (opening if kind is RoomKind.TEXT else opened(self._documents, path, opening))
        if isinstance(view, TextDocument):
            view.rewrites_line_ends = view.adapted(text) != text
        now = self._now()
        entry = _Entry((path.text, kind), path, view, backing, now, now)
        entry.unwritten = entry.key in self._unwritten
        self._announce_changes(entry)
        self._entries[entry.key] = entry
        if isinstance(backing, RoomBacking):
            backing.room.when_lost(lambda: self._drop(entry))
        entry.idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._leave_later, entry)
        return entry

    async def _text_of(self, path: DocPath) -> str:
        """What the file has. Asked before a room is made of it: one that is not text would be taken for its own base64."""
        info = await self._documents.stat(path)
        if info.kind is FileKind.DIRECTORY:
            raise InvalidArgument(f"{path} is a folder", hint="list_documents shows what is in it")
        found = await self._documents.read(path, FileKind.FILE)
        if found.format != "text":
            raise NotText(
                f"{path} is not text: {info.size or 0:,} bytes of {info.mime_type or 'unknown kind'}",
                hint="get_document_info describes it, and with include_content shows a picture",
                details={"size": info.size, "mimetype": info.mime_type},
            )
        return joined(found.content)

    async def _join(self, path: DocPath, kind: RoomKind) -> tuple[AnyView, Backing]:
        async with self._joining.turn():
            room = Room(await self._documents.join(path, kind), self._who)
            view = self._view(room.doc, path, kind, shared=True)
            try:
                await room.join()
            finally:
                if not room.is_open:
                    view.close()
        return view, RoomBacking(room, self._documents, path)

    async def _read(self, path: DocPath, kind: RoomKind) -> tuple[AnyView, Backing]:
        file_kind = FileKind.NOTEBOOK if kind is RoomKind.NOTEBOOK else FileKind.FILE
        found = await self._documents.read(path, file_kind)
        if wrong := not_shared(found.content):
            raise InvalidFormat(f"{path} cannot be opened: it {wrong}", hint="mend that in the file with a text editor")
        view = self._view(Doc(), path, kind, shared=False)
        if isinstance(view, LiveNotebook):
            view.fill(found.content)
            return view, FileBacking(self._documents, path, file_kind, found.info, view.as_json)
        view.fill(joined(found.content))
        return view, FileBacking(self._documents, path, file_kind, found.info, lambda: view.text)

    def _view(self, doc: Doc[Any], path: DocPath, kind: RoomKind, *, shared: bool) -> AnyView:
        if kind is RoomKind.TEXT:
            return TextDocument(doc, path.text, shared=shared)
        return LiveNotebook(doc, path.text, self._histories.of(path.text))

    def _announce_changes(self, entry: _Entry) -> None:
        path, kind = entry.key

        def cells(change: CellsChanged) -> None:
            entry.changed = entry.unwritten = True
            self._announce(DocumentChanged(path, kind, change.cells, change.order, change.ours))

        def text(ours: bool) -> None:
            entry.changed = entry.unwritten = True
            self._announce(DocumentChanged(path, kind, frozenset(), order=False, ours=ours))

        def written() -> None:
            entry.unwritten = False
            self._unwritten.pop(entry.key, None)

        if isinstance(entry.view, LiveNotebook):
            entry.view.on_change(cells)
        else:
            entry.view.on_change(text)
        if isinstance(entry.backing, RoomBacking):
            entry.backing.when_written(written)

    def _announce(self, change: DocumentChanged) -> None:
        for listener in tuple(self._listeners):
            listener(change)

    def _leave_later(self, entry: _Entry) -> None:
        if entry.leases == 0:
            # Forgotten at once: whoever asks from now on opens it anew, instead of being given one that is closing.
            self._forget(entry)
            self._spawn(self._write_and_close(entry))

    async def _write_and_close(self, entry: _Entry) -> None:
        """The server does not try again by itself where writing failed, and forgets a document that nobody has open."""
        if entry.unwritten and entry.backing.is_open:
            try:
                await entry.backing.save()
            except CellwrightError as error:
                log.info("document_not_saved path=%s error=%s", entry.path, error)
        await entry.close()

    async def _leave(self, entry: _Entry) -> None:
        self._forget(entry)
        await entry.close()

    def _drop(self, entry: _Entry) -> None:
        """No longer offer this replica to anybody; close it as soon as nobody reads it."""
        self._forget(entry)
        if entry.leases == 0:
            self._spawn(entry.close())

    def _forget(self, entry: _Entry) -> None:
        if entry.idle is not None:
            entry.idle.cancel()
            entry.idle = None
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
            if entry.unwritten and isinstance(entry.backing, RoomBacking):
                _remember(self._unwritten, entry.key, None)
            _remember(self._left, entry.key, entry.status(self._now(), connected=False))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _remember(known: dict[Key, T], key: Key, value: T) -> None:
    known.pop(key, None)
    known[key] = value
    if len(known) > MOST_REMEMBERED:
        del known[next(iter(known))]


async def _until_unused(entries: Sequence[_Entry]) -> None:
    """Return when nobody works in these documents: at once, or when the outputs of runs that have ended are there. Else Conflict."""
    while held := [entry for entry in entries if entry.leases > entry.looks]:
        _check_unused(held)
        held[0].released.clear()
        await held[0].released.wait()


def _check_unused(entries: Sequence[_Entry]) -> None:
    for entry in entries:
        if entry.in_use:
            raise Conflict(
                f"{entry.path} is in use: something runs or is being changed in it; nothing was done",
                hint="Wait until it has ended (get_execution), or stop it with cancel_execution",
            )
