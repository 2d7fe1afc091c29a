"""Calls on their way: when each began, which were sent together, and what is done when they end."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

TOGETHER_SECONDS = 1.0
"""A call that begins while another of its connection is under way, at most so long after the last one began, was sent with it."""
MOMENTS = count(1)
"""Numbers for what happens one after the other in this process."""


class Turn:
    """One call on its way. It may know what answers had shown before it began, and surely what they had before its batch."""

    __slots__ = ("_at_end", "batch_began", "began")

    def __init__(self, batch_began: int | None = None) -> None:
        self.began = next(MOMENTS)
        self.batch_began = self.began if batch_began is None else batch_began
        """When the first of the calls began that were sent together with this one."""
        self._at_end: list[Callable[[bool], None]] = []

    def at_end(self, callback: Callable[[bool], None]) -> None:
        """Call this when the call ends; with True if its answer goes out."""
        self._at_end.append(callback)

    def end(self, *, answered: bool) -> None:
        for callback in self._at_end:
            callback(answered)
        self._at_end.clear()


@dataclass(slots=True)
class _Batch:
    """The calls of one connection that are under way."""

    began: int
    last_began: float
    under_way: int


class Turns:
    """Who has calls under way."""

    def __init__(self) -> None:
        self._batches: dict[str, _Batch] = {}

    def begin(self, session: str) -> Turn:
        now, batch = time.monotonic(), self._batches.get(session)
        together = batch is not None and now - batch.last_began < TOGETHER_SECONDS
        turn = Turn(batch.began if batch is not None and together else None)
        under_way = batch.under_way if batch is not None else 0
        self._batches[session] = _Batch(turn.batch_began, now, under_way + 1)
        turn.at_end(lambda _: self._end(session))
        return turn

    def _end(self, session: str) -> None:
        self._batches[session].under_way -= 1
        if not self._batches[session].under_way:
            del self._batches[session]
