"""The file behind a room: asking the server to write it, and knowing whether it did.

The server says "success" also where it wrote nothing. What proves a write is the hash of the file, which the server puts into the
document after each; servers that put none there are asked for the file's time.
"""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Any, cast

from pycrdt import Map, MapEvent, Subscription

from cellwright.core.errors import CellwrightError
from cellwright.jupyter.documents.room import SAVE_SECONDS, Room, Saved
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import FileInfo
from cellwright.jupyter.port import Documents

HASH_SECONDS = 0.3
"""For how long the hash of a write may come after the server's answer, or after its word that the document is clean."""
CANCELLED_SECONDS = 0.05
SMALL_BYTES = 1024 * 1024
"""Up to this size of a document, asking for the hash of its file costs no more than asking for its time."""
LOAD_SECONDS = 2.0
"""The server looks once a second whether another program wrote the file, and loads it then."""


class Outcome(StrEnum):
    """What became of a request to write the file."""

    WRITTEN = "written"
    READ_ONLY = "read-only"
    FAILED = "failed"
    OVERTAKEN = "overtaken"
    """A change that came meanwhile cancelled it: the server begins anew after each change."""
    LOADED = "loaded"
    """Another program had written the file, and the server loaded that instead."""
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    UNKNOWN = "unknown"
    """This server answers no request to save."""


class FileWrites:
    """What is known of the writes of one room's file."""

    def __init__(self, room: Room, documents: Documents, path: DocPath) -> None:
        self._room = room
        self._documents = documents
        self._path = path
        self._state: Map[Any] = room.doc.get("state", type=Map)
        self._subscription: Subscription | None = self._state.observe(self._follow)
        self._on_written: list[Callable[[], None]] = []
        self._on_loaded: list[Callable[[], None]] = []
        self._news = asyncio.Event()
        self._seen: tuple[FileInfo, int] | None = None
        """The file as it was last looked at, and how many writes and loads were known then."""
        self._unexplained: asyncio.TimerHandle | None = None
        """Set while the server has said that the document is clean, and not yet why."""
        self._hash_went = False
        self._wrote_last = False
        """Whether the last that was told of the file is that the server wrote it, so that the hash in the document is the file's."""
        self.name = self._state.get("path")
        """The path that the room says its file has."""
        self.written = 0
        """How many of our changes are in the file for certain."""
        self.writes = 0
        """How often the server told that it wrote the file."""
        self.loads = 0
        """How often the server loaded the file because another program had written it."""

    @property
    def is_current(self) -> bool:
        """Whether everything that we changed is in the file."""
        return self.written >= self._room.changes

    def when_written(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the server says that the file is up to date with the document."""
        self._on_written.append(callback)

    def when_loaded(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the server has loaded what another program wrote into the file."""
        self._on_loaded.append(callback)

    def close(self) -> None:
        if self._subscription is not None:
            self._state.unobserve(self._subscription)
            self._subscription = None
        self._forget_clean()
        self._on_written.clear()
        self._on_loaded.clear()

    async def write(self, seconds: float = SAVE_SECONDS) -> Outcome:
        """Have the file written with all our changes so far, and find out whether it was."""
        room = self._room
        await room.flush(seconds)
        mark, arrivals, writes, loads = room.acknowledged, room.arrivals, self.writes, self.loads
        before = None if self.writes else await self._documents.stat(self._path)
        answer = await room.save(seconds)
        if answer is Saved.UNANSWERED:
            return Outcome.UNANSWERED if room.answers_saves else Outcome.UNKNOWN
        if answer is not Saved.SUCCESS:
            return Outcome.REFUSED
        # It comes with the answer, but not where another change has cancelled the write.
        grace = HASH_SECONDS if room.changes == mark else CANCELLED_SECONDS
        await self._until(lambda: self.writes > writes, grace)
        if self.written >= mark and self.writes > writes:
            return Outcome.WRITTEN
        return await self._without_hash(before, mark, arrivals, loads)

    async def _without_hash(self, before: FileInfo | None, mark: int, arrivals: int, loads: int) -> Outcome:
        """What became of a request after which no hash came."""
        info = await self._documents.stat(self._path)
        if not info.writable:
            return Outcome.READ_ONLY
        if self.loads > loads:
            return Outcome.LOADED
        if before is not None and info.last_modified > before.last_modified:
            # A server that tells no hash: the file's own time is the proof.
            self.written = max(self.written, mark)
            return Outcome.WRITTEN
        overtaken = self._room.changes > mark or self._room.arrivals > arrivals
        return Outcome.OVERTAKEN if overtaken else Outcome.FAILED

    async def look(self) -> FileInfo:
        """The file as it is now. If another program wrote it, the server is given the time to load that first."""
        with_hash = self._wrote_last and self._room.size < SMALL_BYTES
        told = self.writes + self.loads
        info = await self._documents.stat(self._path, with_hash=with_hash)
        seen, self._seen = self._seen, (info, told)
        if with_hash and info.hash == self._state.get("hash"):
            return info
        if seen is None or (info.last_modified, info.size) == (seen[0].last_modified, seen[0].size):
            return info
        writes, loads = self.writes, self.loads
        if writes + loads == seen[1] or await self._is_foreign():
            # Either another program wrote it, and the server is about to load that; or the server did, and is about to say so.
            await self._until(lambda: (self.writes, self.loads) != (writes, loads), LOAD_SECONDS)
            if (self.writes, self.loads) != (writes, loads):
                # The file was looked at while it was being written.
                info = await self._documents.stat(self._path)
            self._seen = (info, self.writes + self.loads)
        return info

    async def _is_foreign(self) -> bool:
        """Whether the file has another hash than the server's last write, and the server has loaded nothing since."""
        written, loads = self._state.get("hash"), self.loads
        if not self._wrote_last:
            return False
        try:
            now = (await self._documents.stat(self._path, with_hash=True)).hash
        except CellwrightError:
            # It was looked at a moment ago. Whether it is foreign stays unknown, and the next save finds out.
            return False
        return now is not None and now not in (written, self._state.get("hash")) and self.loads == loads

    def _follow(self, event: MapEvent) -> None:
        """Tell writes from loads: the server says after both that the document is clean, but only after a write what hash the file has."""
        self.name = self._state.get("path")
        keys = cast("dict[str, dict[str, object]]", event.keys)
        clean = keys.get("dirty", {}).get("newValue") is False
        if isinstance(keys.get("hash", {}).get("newValue"), str):
            self._forget_clean()
            self._note_write()
        elif clean:
            self._explain()
            self._unexplained = asyncio.get_running_loop().call_later(HASH_SECONDS, self._explain)
            if self._hash_went or "hash" in keys:
                # A load takes the old hash away first: there is nothing to wait for.
                self._explain()
        else:
            self._hash_went = self._hash_went or "hash" in keys

    def _forget_clean(self) -> None:
        if self._unexplained is not None:
            self._unexplained.cancel()
        self._unexplained, self._hash_went = None, False

    def _explain(self) -> None:
        """The document is clean, and no hash followed: the server loaded the file, unless it is one that tells no hashes."""
        if self._unexplained is None:
            return
        self._forget_clean()
        if self._room.answers_saves:
            self._note_load()
        else:
            self._tell(self._on_written)

    def _note_write(self) -> None:
        # What the server had acknowledged before this came was in the document when the server wrote it: each change cancels a
        # write that began before it, and a cancelled write tells no hash.
        self.writes += 1
        self._wrote_last = True
        self.written = max(self.written, self._room.acknowledged)
        self._tell(self._on_written)

    def _note_load(self) -> None:
        self.loads += 1
        self._wrote_last = False
        self._tell(self._on_loaded)

    def _tell(self, callbacks: list[Callable[[], None]]) -> None:
        for callback in tuple(callbacks):
            callback()
        self._news.set()

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait until something that the server tells makes the condition true, for at most this long."""
        try:
            async with asyncio.timeout(seconds):
                while not condition() and self._room.is_open:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass
