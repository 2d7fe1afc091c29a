"""Notices when the event loop was held: while one piece of work does not let go, nobody else is answered.

A turn of the loop is what happens between two waits for events. Counted is the smaller of its time and of the processor time that
this process used meanwhile, so that a busy machine is not taken for a fault of ours.
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cellwright.app.log import log_event

HELD_SECONDS = 0.1
LOOK_SECONDS = 0.05
SHOWN_FRAMES = 8
CLOCK_SECONDS = 0.005
"""So long the processor time that was read last is taken for that of now: with many threads, reading it costs as much as a short turn."""


@dataclass(frozen=True, slots=True)
class HeldLoop:
    """A turn of the loop that took too long, and where it was seen, the innermost function first."""

    seconds: float
    stack: str


def log_held(held: HeldLoop) -> None:
    log_event("loop_held", level=logging.WARNING, ms=held.seconds * 1000, stack=held.stack)


class LoopWatch:
    """Watches the running loop from `start` to `stop`."""

    def __init__(self, report: Callable[[HeldLoop], None] = log_held, seconds: float = HELD_SECONDS) -> None:
        self._report = report
        self._seconds = seconds
        self._turn: tuple[float, float] | None = None
        """When the turn that is under way began: by the clock, by the processor."""
        self._seen: tuple[tuple[float, float], str] | None = None
        """A long turn and where it was seen."""
        self._stopped = threading.Event()
        self._undo: Callable[[], None] = lambda: None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        # asyncio has no hook for the turns of its loop; the wait for events is the one place all loops pass.
        selector = cast("Any", loop)._selector  # noqa: SLF001
        wait = selector.select
        read, used = time.monotonic(), time.process_time()

        def watched(timeout: float | None = None) -> Any:  # noqa: ANN401 - whatever the selector gives
            nonlocal read, used
            self._end_turn()
            events = wait(timeout)
            now = time.monotonic()
            if now - read > CLOCK_SECONDS:
                read, used = now, time.process_time()
            self._turn = (now, used)
            return events

        selector.select = watched
        self._undo = lambda: setattr(selector, "select", wait)
        thread = threading.Thread(target=self._look, args=(threading.get_ident(),), name="loop-watch", daemon=True)
        thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._undo()

    def _end_turn(self) -> None:
        turn = self._turn
        if turn is None:
            return
        self._turn = None
        began, used_before = turn
        elapsed = time.monotonic() - began
        if elapsed <= self._seconds:
            return
        held = min(elapsed, time.process_time() - used_before)
        if held > self._seconds:
            seen = self._seen
            self._report(HeldLoop(held, seen[1] if seen is not None and seen[0] == turn else ""))

    def _look(self, thread: int) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            turn = self._turn
            if turn is None or time.monotonic() - turn[0] < self._seconds or (self._seen and self._seen[0] == turn):
                continue
            if where := _where(thread):
                self._seen = (turn, where)


def _where(thread: int) -> str:
    """The innermost functions of a thread. Its frames are let go at once: whoever keeps one keeps all that the work held in hand."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - its documented name
    if frame is None:
        return ""
    innermost = reversed(traceback.extract_stack(frame)[-SHOWN_FRAMES:])
    return " < ".join(f"{Path(call.filename).name}:{call.lineno} {call.name}" for call in innermost)
