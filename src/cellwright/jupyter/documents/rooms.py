"""The open documents of a workspace, shared by all callers: one for each file, opened when needed, left after a while without use."""

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from cellwright.core.errors import CellwrightError, Conflict, NotFound, Unavailable
from cellwright.jupyter.documents.backing import Backing, RoomBacking
from cellwright.jupyter.documents.open_document import (
    AnyView,
    DocumentChanged,
    MayChange,
    Memory,
    OnDisk,
    OpenDocument,
    OpenRoom,
    anybody_may_change,
)
from cellwright.jupyter.documents.opening import Opener
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.text import TextDocument
from cellwright.jupyter.edits.lost import LostEdits, UnsavedEdits
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import RoomKind
from cellwright.jupyter.notebooks.cellindex import CellsChanged
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.whole import read_heads
from cellwright.jupyter.port import Documents

log = logging.getLogger(__name__)

IDLE_SECONDS = 300.0
IDLE_BYTES = 16 * 1024 * 1024
"""Of all documents together that are open and idle; those idle longest are left first."""
REMEMBER_SECONDS = 3600.0
MOST_REMEMBERED = 1_000
"""Of the documents that were left, and of those whose last change may not be in the file; the oldest are forgotten first."""
ATTEMPTS = 3

T = TypeVar("T")
K = TypeVar("K")
Key = tuple[str, RoomKind]
RunEnded = Callable[[], bool]


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
    """How many of the leases only look on: a page, a subscription. They keep the document open, but may lose it when its file moves."""
    runs: list[RunEnded] = field(default_factory=list[RunEnded])
    """For each lease that a run holds: whether the run has ended, so that the lease will end by itself."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever a lease ends."""
    idle: asyncio.TimerHandle | None = None
    changed: bool = False
    unwritten: bool = False
    """True from a change until the server says that it is in the file. The server tries once, a second after a change."""
    saved: bool | None = None
    unsaved: UnsavedEdits = field(default_factory=UnsavedEdits)
    used: bool = False
    """Whether a lease has ended. A document that was only just opened has none yet, but is about to be leased."""

    @property
    def may_go(self) -> bool:
        """Whether the document can be left at once, with nothing lost and nobody disturbed."""
        return self.used and self.leases == 0 and self.backing.settled

    @property
    def in_use(self) -> bool:
        """Whether somebody works in the document. A run that has ended and only writes its last outputs does not count."""
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
            # A document in use is active now, however long ago its use began.
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
        collaborator: Collaborator,
        *,
        idle_seconds: float = IDLE_SECONDS,
        idle_bytes: int = IDLE_BYTES,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        lost: LostEdits | None = None,
        root: Path | None = None,
    ) -> None:
        """`lost` outlives this server. `root` is the folder that the server shows, if it is on this machine."""
        self._lost = LostEdits() if lost is None else lost
        self._root = root
        self._loaded: dict[Key, int] = {}
        """How often each document was loaded anew because another program wrote its file."""
        self._told_of_loads: dict[tuple[Key, str], int] = {}
        self._opener = Opener(documents, collaborator)
        self._idle_seconds = idle_seconds
        self._idle_bytes = idle_bytes
        self._now = now
        self._entries: dict[Key, _Entry] = {}
        self._opening: dict[Key, asyncio.Task[_Entry]] = {}
        self._left: dict[Key, OpenRoom] = {}
        self._unwritten: dict[Key, None] = {}
        """Documents that were lost before their last change was known to be in the file."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[Callable[[DocumentChanged], None]] = []

    @property
    def lost(self) -> LostEdits:
        """Edits that were gone when their documents were opened again."""
        return self._lost

    @asynccontextmanager
    async def notebook(
        self,
        path: NotebookPath,
        *,
        run_ended: RunEnded | None = None,
        looks: bool = False,
        may_change: MayChange = anybody_may_change,
    ) -> AsyncGenerator[OpenDocument[LiveNotebook]]:
        """Lease the notebook, opening it if necessary. It stays open at least as long as the block runs.

        `run_ended` is for the lease of a run: once it returns True, those who want to close the notebook wait for the block to end.
        With `looks` the block only looks on, for as long as it likes: the notebook is closed under it when its file moves or goes.
        """
        async with self._lease(path, RoomKind.NOTEBOOK, looks=looks) as entry:
            assert isinstance(entry.view, LiveNotebook)
            if run_ended is not None:
                entry.runs.append(run_ended)
            try:
                await read_heads(entry.view)
                yield OpenDocument(path, entry.view, entry.backing, may_change, self._memory(entry))
            finally:
                if run_ended is not None:
                    entry.runs.remove(run_ended)

    @asynccontextmanager
    async def document(
        self, path: DocPath, *, may_change: MayChange = anybody_may_change
    ) -> AsyncGenerator[OpenDocument[TextDocument]]:
        """Lease the text file, opening it if necessary."""
        async with self._lease(path, RoomKind.TEXT) as entry:
            assert isinstance(entry.view, TextDocument)
            yield OpenDocument(path, entry.view, entry.backing, may_change, self._memory(entry))

    def _memory(self, entry: _Entry) -> Memory:
        return Memory(entry.unsaved, self._lost)

    def news(self, path: DocPath, kind: RoomKind, author: str) -> list[str]:
        """What this author should know of the document beside what was asked, told once: edits that are gone, a file that changed."""
        key = (path.text, kind)
        news = [self._lost.news(path.text, author)]
        loads, told = self._loaded.get(key, 0), self._told_of_loads.get((key, author))
        if loads != told:
            _remember(self._told_of_loads, (key, author), loads)
        if told is not None and loads > told:
            news.append(f"another program wrote {path} on disk, and Jupyter loaded that into the shared document")
        return [text for text in news if text]

    def open_rooms(self) -> list[OpenRoom]:
        """Documents that are open, then those that were until at most an hour ago."""
        now = self._now()
        oldest = now - timedelta(seconds=REMEMBER_SECONDS)
        self._left = {key: room for key, room in self._left.items() if room.left and room.left > oldest}
        closed = [room for key, room in self._left.items() if key not in self._entries]
        return [entry.status(now, connected=True) for entry in self._entries.values()] + closed

    def find(self, path: DocPath, kind: RoomKind) -> OpenRoom | None:
        """The document if it is open, or was until at most an hour ago."""
        return next((room for room in self.open_rooms() if (room.path, room.kind) == (path.text, kind)), None)

    def open_notebook(self, path: NotebookPath) -> OpenDocument[LiveNotebook] | None:
        """The notebook if it is open now. This is no lease: the notebook may be closed at any time."""
        entry = self._entries.get((path.text, RoomKind.NOTEBOOK))
        if entry is None or not isinstance(entry.view, LiveNotebook):
            return None
        return OpenDocument(path, entry.view, entry.backing, memory=self._memory(entry))

    def left_on_disk(self, path: DocPath, kind: RoomKind) -> OnDisk:
        """Whether the file has everything of a document that is not open now."""
        if (path.text, kind) in self._unwritten:
            return OnDisk(False, f"{path} was left before all changes were in its file; open it to see what is there")
        return OnDisk(True)

    def subscribe(self, listener: Callable[[DocumentChanged], None]) -> Callable[[], None]:
        """Call `listener` for every change of an open document, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def end(self, path: DocPath, kind: RoomKind) -> bool:
        """Save a document if it was changed, and leave it. Returns False if it is not open; raises Conflict while somebody needs it."""
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
        """Save and leave a document, or all documents in a folder, before its file moves or goes. Returns the names of others in them.

        No change may be unwritten when the file moves: the server would write it under the old name.
        """
        entries = [entry for (name, _), entry in self._entries.items() if f"{name}/".startswith(f"{path}/")]
        await _until_unused(entries)
        people = [name for entry in entries for name in entry.status(self._now(), connected=True).others]
        for entry in entries:
            await self._save_and_leave(entry)
        return tuple(people)

    async def _save_and_leave(self, entry: _Entry) -> None:
        if (entry.changed or entry.unwritten) and entry.backing.is_open:
            last_activity = entry.last_activity
            entry.leases += 1
            try:
                entry.saved = await entry.backing.save()
            except CellwrightError as error:
                entry.saved = False
                log.info("document_not_saved path=%s error=%s", entry.path, error)
            finally:
                self._release(entry)
            _check_unused([entry])
            entry.last_activity = last_activity
        await self._leave(entry)

    async def save_all(self) -> None:
        """Ask the server to write every open document to disk, before the server itself ends."""
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
            usable = False
            try:
                usable = await self._is_usable(entry)
            finally:
                if not usable:
                    self._release(entry)
            if usable:
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
        """Leave the documents idle longest if all idle ones are too large together. The latest stays: it is likely to be needed next."""
        idle = sorted(
            (entry for entry in self._entries.values() if entry.may_go), key=lambda entry: entry.last_activity
        )
        excess = sum(entry.backing.size for entry in idle) - self._idle_bytes
        for entry in idle:
            if excess <= 0:
                return
            if entry is not latest:
                excess -= entry.backing.size
                self._leave_later(entry)

    async def _is_usable(self, entry: _Entry) -> bool:
        """Whether the document can be used; if not, it is to be opened anew. Raises NotFound if its file is gone or renamed."""
        try:
            await entry.backing.refresh()
        except NotFound:
            self._drop(entry)
            raise
        if not entry.backing.is_open:
            self._drop(entry)
        return entry.backing.is_open

    async def _entry(self, path: DocPath, kind: RoomKind) -> _Entry:
        """The open document. Callers that need it while it is being opened wait for the same task."""
        key = (path.text, kind)
        entry = self._entries.get(key)
        if entry is not None:
            return entry
        task = self._opening.get(key)
        if task is None:
            task = self._opening[key] = asyncio.create_task(self._open(path, kind))
            task.add_done_callback(lambda task: self._opened(key, task))
        # A caller that is cancelled must not take the document from the others.
        return await asyncio.shield(task)

    def _opened(self, key: Key, task: asyncio.Task[_Entry]) -> None:
        del self._opening[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            # Retrieved here, because all callers may have been cancelled by now.
            log.info("document_not_opened path=%s error=%s", key[0], error)

    async def _open(self, path: DocPath, kind: RoomKind) -> _Entry:
        view, backing = await self._opener.open(path, kind)
        now = self._now()
        entry = _Entry((path.text, kind), path, view, backing, now, now)
        entry.unwritten = entry.key in self._unwritten
        self._lost.compare(path.text, view)
        self._announce_changes(entry)
        self._entries[entry.key] = entry
        if isinstance(backing, RoomBacking):
            backing.room.when_lost(lambda: self._drop(entry))
            backing.saver.free_space = lambda: _free_space(self._root, path)
        entry.idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._leave_later, entry)
        return entry

    def _announce_changes(self, entry: _Entry) -> None:
        path, kind = entry.key

        def note_change() -> None:
            entry.changed = entry.unwritten = True
            if isinstance(entry.backing, RoomBacking):
                entry.backing.unwritten = True

        def on_cells_changed(change: CellsChanged) -> None:
            note_change()
            self._announce(DocumentChanged(path, kind, change.cells, change.order, change.ours))

        def on_text_changed(ours: bool) -> None:
            note_change()
            self._announce(DocumentChanged(path, kind, frozenset(), order=False, ours=ours))

        def on_written() -> None:
            entry.unwritten = False
            self._unwritten.pop(entry.key, None)
            if isinstance(entry.backing, RoomBacking):
                entry.backing.unwritten = False
                entry.unsaved.confirm(entry.backing.writes.written)

        def on_loaded() -> None:
            entry.unwritten = False
            _remember(self._loaded, entry.key, self._loaded.get(entry.key, 0) + 1)
            self._lost.suspect(entry.path.text, entry.unsaved)
            # Once the document has taken in all that came with it.
            asyncio.get_running_loop().call_soon(self._lost.compare, entry.path.text, entry.view)

        if isinstance(entry.view, LiveNotebook):
            entry.view.on_change(on_cells_changed)
        else:
            entry.view.on_change(on_text_changed)
        if isinstance(entry.backing, RoomBacking):
            entry.backing.writes.when_written(on_written)
            entry.backing.writes.when_loaded(on_loaded)

    def _announce(self, change: DocumentChanged) -> None:
        for listener in tuple(self._listeners):
            listener(change)

    def _leave_later(self, entry: _Entry) -> None:
        if isinstance(entry.backing, RoomBacking) and entry.backing.is_open and entry.backing.saver.fails:
            # Jupyter forgets a document that nobody has open, and with it what could not be written so far.
            entry.idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._leave_later, entry)
            return
        if entry.leases == 0:
            # Forgotten at once, so that the next caller opens it anew instead of getting a document that is closing.
            self._forget(entry)
            self._spawn(self._write_and_close(entry))

    async def _write_and_close(self, entry: _Entry) -> None:
        """Save before closing: the server does not try again where writing failed, and forgets a document that nobody has open."""
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
        """Lease this replica to nobody any more, and close it as soon as its last lease ends."""
        self._forget(entry)
        if entry.leases == 0:
            self._spawn(entry.close())

    def _forget(self, entry: _Entry) -> None:
        if entry.idle is not None:
            entry.idle.cancel()
            entry.idle = None
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
            if isinstance(entry.backing, RoomBacking):
                self._lost.suspect(entry.path.text, entry.unsaved)
            if entry.unwritten and isinstance(entry.backing, RoomBacking):
                _remember(self._unwritten, entry.key, None)
            _remember(self._left, entry.key, entry.status(self._now(), connected=False))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _free_space(root: Path | None, path: DocPath) -> int | None:
    """The bytes that are free where the file is, if its disk is on this machine."""
    if root is None:
        return None
    try:
        return shutil.disk_usage((root / path.text).parent).free
    except OSError:
        return None


def _remember(memory: dict[K, T], key: K, value: T) -> None:
    memory.pop(key, None)
    memory[key] = value
    if len(memory) > MOST_REMEMBERED:
        del memory[next(iter(memory))]


async def _until_unused(entries: Sequence[_Entry]) -> None:
    """Return when nobody works in these documents, after runs that have ended have written their outputs. Otherwise raise Conflict."""
    while leased := [entry for entry in entries if entry.leases > entry.looks]:
        _check_unused(leased)
        leased[0].released.clear()
        await leased[0].released.wait()


def _check_unused(entries: Sequence[_Entry]) -> None:
    for entry in entries:
        if entry.in_use:
            raise Conflict(
                f"{entry.path} is in use: something runs or is being changed in it; nothing was done",
                hint="Wait until it has ended (get_execution), or stop it with cancel_execution",
            )
