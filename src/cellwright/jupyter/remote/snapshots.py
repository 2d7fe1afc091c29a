"""Lists of a remote server's files, remembered for a while: where there are many files, a walk through all folders takes seconds."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from cellwright.core.errors import NotFound
from cellwright.jupyter.files import rules as filerules
from cellwright.jupyter.files.paths import DocPath, is_path
from cellwright.jupyter.model import (
    WALK_SECONDS_ASKING,
    FileInfo,
    FileKind,
    FileListing,
    FoundFile,
    FoundFiles,
    FoundList,
)

CONCURRENT_LISTINGS = 8
MAX_FOLDERS = 20_000
MAX_DEPTH = 40
FRESH_SECONDS = 30.0
"""An older snapshot is still used, while the server is walked again in the background."""
KEEP_SECONDS = 300.0
"""An older snapshot is not used any more."""
QUICK_SECONDS = 1.0
QUICK_FILES = 100
"""A list that takes no longer and fits into one page is not remembered: it is made anew each time, and never old."""
MAX_SNAPSHOTS = 8

ListFolder = Callable[[DocPath | None], Awaitable[Sequence[FileInfo]]]
Key = tuple[DocPath | None, str]


@dataclass(eq=False)
class Snapshot:
    """The files below a folder as they were when its walk began, with the changes that we made ourselves since."""

    folder: DocPath | None
    suffix: str
    began: float
    cut: str = ""
    is_torn: bool = False
    """Whether a change happened during the walk that it may have missed."""
    _files: dict[str, FoundFile] = field(default_factory=dict[str, FoundFile])
    _changes: list[tuple[str, FoundFile | None]] | None = field(default_factory=list[tuple[str, FoundFile | None]])
    """Our own changes during the walk; None when it is over."""
    _sorted: FoundFiles | None = None

    @property
    def files(self) -> FoundFiles:
        if self._sorted is None:
            self._sorted = FoundList([self._files[path] for path in sorted(self._files)], complete=not self.cut)
        return self._sorted

    def fill(self, files: Sequence[FoundFile], cut: str) -> None:
        """Take the files that the walk found, then apply our changes meanwhile, which the walk may have seen or not."""
        self._files = {file.path: file for file in files}
        self.cut, self._sorted = cut, None
        for path, file in self._changes or ():
            self._apply(path, file)
        self._changes = None

    def change(self, path: str, file: FoundFile | None) -> None:
        """Put a new or changed file into the list. With None, remove it, and everything below it."""
        inside = self.folder is None or path.startswith(f"{self.folder}/")
        if not inside or not is_path(path) or (file is not None and file.info and not self._belongs(file.info)):
            return
        if self._changes is not None:
            self._changes.append((path, file))
        self._apply(path, file)

    def _belongs(self, info: FileInfo) -> bool:
        return bool(filerules.matching([info], self.suffix)) and not DocPath(info.path).is_hidden

    def _apply(self, path: str, file: FoundFile | None) -> None:
        self._sorted = None
        if file is not None:
            self._files[path] = file
            return
        below = f"{path}/"
        for name in [name for name in self._files if name == path or name.startswith(below)]:
            del self._files[name]


class Snapshots:
    """The snapshots of one server."""

    def __init__(self, list_folder: ListFolder, clock: Callable[[], float] = time.monotonic) -> None:
        self._list_folder, self._clock = list_folder, clock
        self._snapshots: dict[Key, Snapshot] = {}
        self._walks: dict[Key, tuple[Snapshot, asyncio.Task[Snapshot]]] = {}

    async def listing(self, folder: DocPath | None, suffix: str, *, refresh: bool = False) -> FileListing:
        """The files below `folder`, from a snapshot if there is one that is not too old."""
        key = (folder, suffix)
        snapshot = self._snapshots.get(key)
        age = self._clock() - snapshot.began if snapshot else 0.0
        if snapshot is None or refresh or age > KEEP_SECONDS:
            if refresh and key in self._walks:
                # That walk began before this call.
                await asyncio.wait({self._walks[key][1]})
            joined = key in self._walks
            snapshot = await asyncio.shield(self._walk_of(key))
            return FileListing(snapshot.files, self._clock() - snapshot.began if joined else None, snapshot.cut)
        if age > FRESH_SECONDS:
            self._walk_of(key)
        return FileListing(snapshot.files, age, snapshot.cut)

    def changed(self, info: FileInfo) -> None:
        """We made this file, or changed it."""
        for snapshot in self._all():
            snapshot.change(info.path, FoundFile(info.path, info.kind, info))

    def gone(self, path: DocPath) -> None:
        """We deleted this file or folder."""
        for snapshot in self._all():
            snapshot.change(path.text, None)

    def moved(self, path: DocPath, info: FileInfo) -> None:
        """We gave a file or folder another path. Files below a folder move along, without being named here."""
        if info.kind is FileKind.DIRECTORY:
            for snapshot in self._all():
                snapshot.is_torn = True
            self._snapshots.clear()
            return
        self.gone(path)
        self.changed(info)

    async def close(self) -> None:
        tasks = [task for _, task in self._walks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _all(self) -> list[Snapshot]:
        return list(chain(self._snapshots.values(), (snapshot for snapshot, _ in self._walks.values())))

    def _walk_of(self, key: Key) -> asyncio.Task[Snapshot]:
        """The walk that is under way, or a new one. It goes on if its caller is cancelled: others wait for it, or will."""
        under_way = self._walks.get(key)
        if under_way is not None:
            return under_way[1]
        snapshot = Snapshot(*key, began=self._clock())
        task = asyncio.create_task(self._fill(key, snapshot), name=f"walk {key[0] or '/'}")
        self._walks[key] = (snapshot, task)
        # A walk that nobody waits for may fail. The exception is retrieved here; the next caller starts a walk of its own.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    async def _fill(self, key: Key, snapshot: Snapshot) -> Snapshot:
        try:
            snapshot.fill(*await Walk(self._list_folder, snapshot.folder, snapshot.suffix).result())
        finally:
            del self._walks[key]
        is_quick = self._clock() - snapshot.began < QUICK_SECONDS and len(snapshot.files) <= QUICK_FILES
        self._snapshots.pop(key, None)
        if not is_quick and not snapshot.is_torn:
            self._snapshots[key] = snapshot
        if len(self._snapshots) > MAX_SNAPSHOTS:
            del self._snapshots[next(iter(self._snapshots))]
        return snapshot


class Walk:
    """One walk through all folders below one, with several requests at a time."""

    def __init__(self, list_folder: ListFolder, start: DocPath | None, suffix: str) -> None:
        self._list_folder, self._start, self._suffix = list_folder, start, suffix
        self._files: list[FoundFile] = []
        self._pending: deque[tuple[DocPath | None, int]] = deque([(start, 0)])
        self._room = MAX_FOLDERS
        self._cut = ""
        self._end = time.monotonic() + WALK_SECONDS_ASKING

    async def result(self) -> tuple[list[FoundFile], str]:
        """The files that were found, and a sentence about what was left out."""
        requests: dict[asyncio.Task[Sequence[FileInfo]], int] = {}
        try:
            while self._pending or requests:
                if self._pending and time.monotonic() > self._end:
                    self._cut = f"the server was asked for {WALK_SECONDS_ASKING:g} s; list a folder further down"
                    self._pending.clear()
                    if not requests:
                        break
                while self._pending and len(requests) < CONCURRENT_LISTINGS:
                    folder, depth = self._pending.popleft()
                    requests[asyncio.create_task(self._contents_of(folder))] = depth
                finished, _ = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
                for task in finished:
                    self._add_folder(task.result(), requests.pop(task))
        finally:
            for task in requests:
                task.cancel()
            await asyncio.gather(*requests, return_exceptions=True)
        return self._files, self._cut

    def _add_folder(self, infos: Sequence[FileInfo], depth: int) -> None:
        self._files += filerules.matching(infos, self._suffix)
        if len(self._files) > filerules.MAX_LISTED:
            del self._files[filerules.MAX_LISTED :]
            self._cut = f"more than {filerules.MAX_LISTED} files; list a folder further down"
            self._room = 0
            self._pending.clear()
            return
        inner = filerules.enterable(infos)
        if inner and depth >= MAX_DEPTH:
            self._cut = f"folders more than {MAX_DEPTH} deep were not entered; list one of them"
            return
        if len(inner) > self._room:
            self._cut = self._cut or f"more than {MAX_FOLDERS} folders; list a folder further down"
        self._pending += [(folder, depth + 1) for folder in inner[: self._room]]
        self._room -= min(self._room, len(inner))

    async def _contents_of(self, folder: DocPath | None) -> Sequence[FileInfo]:
        """The contents of a folder; none if it was deleted during the walk. The start must be there."""
        try:
            return await self._list_folder(folder)
        except NotFound:
            if folder is self._start:
                raise
            return []
