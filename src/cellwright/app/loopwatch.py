"""Notices when one piece of work blocked the event loop: meanwhile nobody else was answered.

A turn of the loop is what happens between two waits for events. We measure the elapsed time and the processor time that this process
used, and take the smaller one, so that a busy machine is not mistaken for a fault of ours.
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
"""A reading of the processor time is used for so long: with many threads, reading it takes as long as a short turn."""


@dataclass(frozen=True, slots=True)
class HeldLoop:
    """A turn of the loop that took too long, and the stack that was sampled during it, innermost function first."""

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
        """When the current turn began: by the clock, and by the processor time."""
        self._sample: tuple[tuple[float, float], str] | None = None
        """A long turn and its stack."""
        self._stopped = threading.Event()
        self._undo: Callable[[], None] = lambda: None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        # asyncio has no hook for the turns of its loop, but every turn passes through the wait for events.
        selector = cast("Any", loop)._selector  # noqa: SLF001
        wait = selector.select
        read, used = time.monotonic(), time.process_time()

        def watched(timeout: float | None = None) -> Any:  # noqa: ANN401 - what the selector returns
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
        thread = threading.Thread(
            target=self._sample_long_turns, args=(threading.get_ident(),), name="loop-watch", daemon=True
        )
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
            sample = self._sample
            self._report(HeldLoop(held, sample[1] if sample is not None and sample[0] == turn else ""))

    def _sample_long_turns(self, thread: int) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            turn = self._turn
            if turn is None or time.monotonic() - turn[0] < self._seconds or (self._sample and self._sample[0] == turn):
                continue
            if stack := _stack_of(thread):
                self._sample = (turn, stack)


def _stack_of(thread: int) -> str:
    """The innermost functions of a thread. Frames are released at once, because they keep all local variables alive."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - its documented name
    if frame is None:
        return ""
    innermost = reversed(traceback.extract_stack(frame)[-SHOWN_FRAMES:])
    return " < ".join(f"{Path(call.filename).name}:{call.lineno} {call.name}" for call in innermost)
