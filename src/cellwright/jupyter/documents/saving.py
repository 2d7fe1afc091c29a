"""When the file of an open document is written: at once after a change that follows a pause, else together with others of the same second.

Jupyter itself writes a second after the last change, so work that goes on steadily would never be on disk; and where writing failed
it does not try again.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum

from cellwright.core.errors import CellwrightError
from cellwright.jupyter.documents.writing import FileWrites, Outcome

log = logging.getLogger(__name__)

WAIT_SECONDS = 2.0
"""For how long a call waits for its save."""
PAUSE_SECONDS = 1.5
"""A change that comes this long after the last is saved at once, and its call waits for that."""
SPACING_SECONDS = 0.8
"""Between the end of a save and the next, in a stream of changes. With the save itself, about a second of work is at risk."""
LINGER_SECONDS = 0.4
"""A save that nobody waits for lets the changes that follow closely come along."""
LULL_SECONDS = 0.1
SPACING_FACTOR = 3.0
"""Saves of a large document are further apart: a server that does nothing but save helps nobody."""
SLOW_SECONDS = 0.5
"""No call waits for a save that is expected to take longer."""
BYTES_A_SECOND = 1_500_000
"""How fast a document is saved, until it is known."""
MOST_OVERTAKEN = 2
"""After this many saves that later changes cancelled, the next change waits for its own save."""
ATTEMPTS_AT_ONCE = 3
RETRY_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
MOST_RETRIES = 240
"""About two hours."""
SMALL_SPACE = 1024 * 1024

TOGETHER = "being saved together with other changes of this second"
BUSY = "Jupyter is busy and has not answered the save yet; it is asked again by itself"
TRANSIENT = (Outcome.WRITTEN, Outcome.OVERTAKEN, Outcome.REFUSED, Outcome.LOADED)


class After(StrEnum):
    """What a save follows. The pauses of edits and of runs are counted apart: an edit that runs its cells is saved twice."""

    EDIT = "edit"
    RUN = "run"


class Saver:
    """Sees to it that our changes of one shared document come into its file."""

    def __init__(self, writes: FileWrites, size: Callable[[], int], changes: Callable[[], int], name: str) -> None:
        self._writes = writes
        self._size = size
        self._changes = changes
        self._name = name
        self._last: dict[After, float] = {}
        self._saving: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._began: float | None = None
        self._changed = 0.0
        self._latest = 0.0
        self._waiting = 0
        self._ended = 0.0
        self._duration: float | None = None
        self._overtaken = 0
        self._failures = 0
        self._closed = False
        self.outcome: Outcome | None = None
        """What became of the last save."""
        self.free_space: Callable[[], int | None] = lambda: None
        """How many bytes are free on the file's disk, if that is known."""
        writes.when_written(self._note_written)

    @property
    def fails(self) -> bool:
        """Whether changes are left that could not be written, and the next attempt is still to come."""
        return self._failures > 0 and not self._writes.is_current and self._failures <= MOST_RETRIES

    async def settle(self, after: After) -> str:
        """Have all changes so far saved: now, or soon. Returns why they are not in the file yet; nothing if they are."""
        mark, now = self._changes(), asyncio.get_running_loop().time()
        self._changed = now
        if self._writes.written >= mark:
            return ""
        paused = now - self._last.get(after, -PAUSE_SECONDS) >= PAUSE_SECONDS
        if (paused and self._expected() <= SLOW_SECONDS) or self._overtaken >= MOST_OVERTAKEN:
            await self._until_written(mark)
        else:
            self._soon()
        self._last[after] = asyncio.get_running_loop().time()
        return self.why_not(mark)

    def why_not(self, mark: int | None = None) -> str:
        """Why our changes are not in the file, and what to do; nothing if they are."""
        if self._writes.written >= (self._changes() if mark is None else mark):
            return ""
        if self._failures:
            return self._why_failed()
        waited = 0.0 if self._began is None else asyncio.get_running_loop().time() - self._began
        if waited > max(SLOW_SECONDS, 2 * self._expected()):
            return BUSY
        if self._expected() > SLOW_SECONDS:
            return f"being saved: that takes about {self._expected():.1f} s for a document of this size"
        return TOGETHER

    def _why_failed(self) -> str:
        match self.outcome:
            case Outcome.READ_ONLY:
                return "the file is read-only. Make it writable: it is saved by itself then"
            case Outcome.UNKNOWN:
                return "unknown: this Jupyter does not say what it has saved. It saves by itself a second after the last change"
            case Outcome.FAILED:
                return self._why_not_written()
            case _:
                return BUSY

    def _why_not_written(self) -> str:
        free = self.free_space()
        if free is not None and free < self._size() + SMALL_SPACE:
            return f"the disk is full ({free:,} bytes free). Make room: it is saved by itself then"
        return "Jupyter could not write the file: its disk may be full, or the folder read-only. Mend that: it is saved by itself then"

    async def save(self) -> bool:
        """Write the file now, also with what others changed. Returns whether it was written."""
        while self._saving is not None:
            await asyncio.wait([self._saving])
        return await self._attempt() is Outcome.WRITTEN

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._saving is not None:
            self._saving.cancel()

    async def _until_written(self, mark: int) -> None:
        """Save, and wait for it; once more if the save that was under way had begun before our change."""
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        self._waiting += 1
        try:
            for _ in range(2):
                saving = self._start()
                await asyncio.wait([saving], timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
                if not saving.done() or self._writes.written >= mark or self._failures:
                    return
        finally:
            self._waiting -= 1

    def _start(self) -> asyncio.Task[None]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._saving is None:
            self._saving = asyncio.create_task(self._save())
            self._saving.add_done_callback(self._note_end)
        return self._saving

    async def _save(self) -> None:
        for _ in range(ATTEMPTS_AT_ONCE):
            try:
                outcome = await self._attempt()
            except CellwrightError as error:
                # The document was lost, or its file cannot be looked at: whoever opens it next finds out.
                log.info("document_not_saved path=%s error=%s", self._name, error)
                self._failures += 1
                self.outcome = Outcome.UNANSWERED
                return
            if outcome not in (Outcome.OVERTAKEN, Outcome.REFUSED) or not self._waiting:
                return

    async def _attempt(self) -> Outcome:
        loop = asyncio.get_running_loop()
        began = self._began = loop.time()
        try:
            outcome = self.outcome = await self._writes.write()
        finally:
            self._began, self._ended = None, loop.time()
        if outcome in TRANSIENT:
            took = self._ended - began
            self._duration = took if self._duration is None else (self._duration + took) / 2
            self._failures = 0
        else:
            self._failures += 1
        self._overtaken = self._overtaken + 1 if outcome is Outcome.OVERTAKEN else 0
        return outcome

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._saving = None
        if not task.cancelled() and not self._writes.is_current and not self._closed:
            self._soon()

    def _note_written(self) -> None:
        """The server wrote the file, by itself or because we asked."""
        self._failures = self._overtaken = 0
        if self._timer is not None and self._writes.is_current:
            self._timer.cancel()
            self._timer = None

    def _soon(self) -> None:
        if self._timer is not None or self._saving is not None or self._closed:
            return
        if self._failures > MOST_RETRIES or self.outcome is Outcome.UNKNOWN:
            return
        loop = asyncio.get_running_loop()
        if self._failures:
            due = loop.time() + RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS)) - 1]
        else:
            spacing = max(SPACING_SECONDS, SPACING_FACTOR * self._expected())
            slow = self._expected() > SLOW_SECONDS
            # A large document that rests is saved by Jupyter before that; a save of ours would hold up the changes that follow.
            due = loop.time() + spacing if slow else max(self._ended + spacing, loop.time() + LINGER_SECONDS)
        self._latest = due + LINGER_SECONDS
        self._timer = loop.call_at(due, self._start_in_lull)

    def _start_in_lull(self) -> None:
        """Save when no change came for a moment: one that comes while the server saves cancels the save. At the latest, save anyway."""
        loop = asyncio.get_running_loop()
        self._timer = None
        if self._writes.is_current:
            return
        if loop.time() - self._changed < LULL_SECONDS and loop.time() < self._latest:
            self._timer = loop.call_later(LULL_SECONDS, self._start_in_lull)
        else:
            self._start()

    def _expected(self) -> float:
        """How long a save is expected to take."""
        return self._size() / BYTES_A_SECOND if self._duration is None else self._duration
