"""Open documents, kept and shared by all callers: one per file, opened when needed, left when nobody has needed it for a while."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from pycrdt import Doc

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument, NotFound, Unavailable
from cellwright.jupyter.backing import Acknowledged, Backing, FileBacking, RoomBacking
from cellwright.jupyter.cellindex import CellsChanged
from cellwright.jupyter.document import NotText, TextDocument
from cellwright.jupyter.history import History
from cellwright.jupyter.model import FileKind, RoomKind, joined
from cellwright.jupyter.notebook import Notebook
from cellwright.jupyter.paths import DocPath, NotebookPath
from cellwright.jupyter.port import Documents
from cellwright.jupyter.presence import Collaborator
from cellwright.jupyter.room import Room

log = logging.getLogger(__name__)

IDLE_SECONDS = 300.0
REMEMBER_SECONDS = 3600.0
REMEMBERED_HISTORIES = 64
ATTEMPTS = 3

View = TypeVar("View", Notebook, TextDocument)
AnyView = Notebook | TextDocument
T = TypeVar("T")
Key = tuple[str, RoomKind]


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

    def __init__(self, path: DocPath, view: View, backing: Backing) -> None:
        self.path = path
        self.view: View = view
        self._backing = backing

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
        self._backing.check_open()
        result = edit(self.view)
        return result, await self.acknowledge(save=save)

    async def acknowledge(self, *, save: bool = False) -> Acknowledged:
        """Return when all that was changed so far has arrived."""
        self._point()
        known = await self._backing.acknowledge()
        if not save or known.saved:
            return known
        return Acknowledged(known.live, await self._backing.save(), known.reaches_others)

    async def save(self) -> bool:
        """Write the file now. Whether it was written."""
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
    idle: asyncio.TimerHandle | None = None
    changed: bool = False
    saved: bool | None = None

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
            cell_count=self.view.cell_count if isinstance(self.view, Notebook) else None,
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
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._documents = documents
        self._who = who
        self._idle_seconds = idle_seconds
        self._now = now
        self._entries: dict[Key, _Entry] = {}
        self._opening: dict[Key, asyncio.Task[_Entry]] = {}
        self._left: dict[Key, OpenRoom] = {}
        self._histories: dict[str, History] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[Callable[[DocumentChanged], None]] = []

    @asynccontextmanager
    async def notebook(self, path: NotebookPath) -> AsyncGenerator[OpenDocument[Notebook]]:
        """The notebook, opened if it is not. It stays open at least as long as the block runs."""
        async with self._lease(path, RoomKind.NOTEBOOK) as entry:
            assert isinstance(entry.view, Notebook)
            yield OpenDocument(path, entry.view, entry.backing)

    @asynccontextmanager
    async def document(self, path: DocPath) -> AsyncGenerator[OpenDocument[TextDocument]]:
        """The text file, opened if it is not."""
        async with self._lease(path, RoomKind.TEXT) as entry:
            assert isinstance(entry.view, TextDocument)
            yield OpenDocument(path, entry.view, entry.backing)

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

    def subscribe(self, listener: Callable[[DocumentChanged], None]) -> Callable[[], None]:
        """Call `listener` for every change of an open document, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def end(self, path: DocPath, kind: RoomKind) -> bool:
        """Save a document if it was changed, and leave it. False if it is not open; Conflict while something runs in it."""
        entry = self._entries.get((path.text, kind))
        if entry is None:
            return False
        _check_unused([entry])
        await self._save_and_leave(entry)
        return True

    async def let_go(self, path: DocPath) -> tuple[str, ...]:
        """Save and leave a document, or all in a folder, before its file moves or goes. Who else was there.

        A change that is still to be written must not meet the move: the server would write it under the old name.
        """
        found = [entry for (name, _), entry in self._entries.items() if f"{name}/".startswith(f"{path}/")]
        _check_unused(found)
        people = [name for entry in found for name in entry.status(self._now(), connected=True).others]
        for entry in found:
            await self._save_and_leave(entry)
        return tuple(people)

    async def _save_and_leave(self, entry: _Entry) -> None:
        if entry.changed and entry.backing.is_open:
            active = entry.last_activity
            entry.leases += 1
            try:
                entry.saved = await entry.backing.save()
            except CellwrightError as error:
                entry.saved = False
                log.info("document not saved path=%s error=%s", entry.path, error)
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
                log.warning("document not saved error=%s", outcome)
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
    async def _lease(self, path: DocPath, kind: RoomKind) -> AsyncGenerator[_Entry]:
        entry = await self._take(path, kind)
        try:
            yield entry
        finally:
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
        if entry.leases == 0 and self._entries.get(entry.key) is entry:
            entry.idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._leave_later, entry)
        elif entry.leases == 0:
            self._spawn(entry.backing.close())

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
            log.info("document not opened path=%s error=%s", key[0], error)

    async def _open(self, path: DocPath, kind: RoomKind) -> _Entry:
        text = await self._text_of(path) if kind is RoomKind.TEXT else ""
        view, backing = await self._join(path, kind) if await self._documents.live() else await self._read(path, kind)
        if isinstance(view, TextDocument):
            view.rewrites_line_ends = view.adapted(text) != text
        now = self._now()
        entry = _Entry((path.text, kind), path, view, backing, now, now)
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
        room = Room(await self._documents.join(path, kind), self._who)
        view = self._view(room.doc, path, kind, shared=True)
        await room.join()
        return view, RoomBacking(room, self._documents, path)

    async def _read(self, path: DocPath, kind: RoomKind) -> tuple[AnyView, Backing]:
        file_kind = FileKind.NOTEBOOK if kind is RoomKind.NOTEBOOK else FileKind.FILE
        found = await self._documents.read(path, file_kind)
        view = self._view(Doc(), path, kind, shared=False)
        if isinstance(view, Notebook):
            view.fill(found.content)
            return view, FileBacking(self._documents, path, file_kind, found.info, view.as_json)
        view.fill(joined(found.content))
        return view, FileBacking(self._documents, path, file_kind, found.info, lambda: view.text)

    def _view(self, doc: Doc[Any], path: DocPath, kind: RoomKind, *, shared: bool) -> AnyView:
        if kind is RoomKind.TEXT:
            return TextDocument(doc, path.text, shared=shared)
        return Notebook(doc, path.text, self._history(path))

    def _history(self, path: DocPath) -> History:
        """What agents did is remembered past a lost connection: undo works on the notebook as it then is."""
        history = self._histories.pop(path.text, None) or History()
        self._histories[path.text] = history
        if len(self._histories) > REMEMBERED_HISTORIES:
            self._histories.pop(next(iter(self._histories)))
        return history

    def _announce_changes(self, entry: _Entry) -> None:
        path, kind = entry.key

        def cells(change: CellsChanged) -> None:
            entry.changed = True
            self._announce(DocumentChanged(path, kind, change.cells, change.order, change.ours))

        def text(ours: bool) -> None:
            entry.changed = True
            self._announce(DocumentChanged(path, kind, frozenset(), order=False, ours=ours))

        if isinstance(entry.view, Notebook):
            entry.view.on_change(cells)
        else:
            entry.view.on_change(text)

    def _announce(self, change: DocumentChanged) -> None:
        for listener in tuple(self._listeners):
            listener(change)

    def _leave_later(self, entry: _Entry) -> None:
        if entry.leases == 0:
            # Forgotten at once: whoever asks from now on opens it anew, instead of being given one that is closing.
            self._forget(entry)
            self._spawn(entry.backing.close())

    async def _leave(self, entry: _Entry) -> None:
        self._forget(entry)
        await entry.backing.close()

    def _drop(self, entry: _Entry) -> None:
        """No longer offer this replica to anybody; close it as soon as nobody reads it."""
        self._forget(entry)
        if entry.leases == 0:
            self._spawn(entry.backing.close())

    def _forget(self, entry: _Entry) -> None:
        if entry.idle is not None:
            entry.idle.cancel()
            entry.idle = None
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
            self._left[entry.key] = entry.status(self._now(), connected=False)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _check_unused(entries: Sequence[_Entry]) -> None:
    for entry in entries:
        if entry.leases:
            raise Conflict(
                f"{entry.path} is in use: something runs or is being changed in it; nothing was done",
                hint="Wait until it has ended (get_execution), or stop it with cancel_execution",
            )
