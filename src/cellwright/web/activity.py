"""The tool calls of each caller, as they begin and end: the last ones, in memory."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NotRequired, TypedDict

from cellwright.core.types import Call

KEPT_CALLS = 200
MOST_CALLERS = 200
RUNNING = "running"


class CallEntry(TypedDict):
    """A call as the page shows it."""

    n: int
    id: str
    tool: str
    client: str
    began: str
    ms: float | None
    outcome: str
    tokens: int | None
    thing: str | None
    error: NotRequired[str]


@dataclass(slots=True)
class ActivityEntry:
    """One call of one tool."""

    n: int
    id: str
    tool: str
    client: str
    began: float
    thing: str | None
    ms: float | None = None
    outcome: str = RUNNING
    tokens: int | None = None
    error: str = ""

    def as_json(self) -> CallEntry:
        told: CallEntry = {
            "n": self.n,
            "id": self.id,
            "tool": self.tool,
            "client": self.client,
            "began": datetime.fromtimestamp(self.began, UTC).isoformat(timespec="milliseconds"),
            "ms": None if self.ms is None else round(self.ms, 1),
            "outcome": self.outcome,
            "tokens": self.tokens,
            "thing": self.thing,
        }
        return {**told, "error": self.error} if self.error else told


Told = Callable[[str, ActivityEntry], None]
"""Whose call, and how it stands."""


class Activity:
    """Told of every call when it begins and when it ends. Never waits, never fails."""

    def __init__(self, told: Told, clock: Callable[[], float] = time.time) -> None:
        self._told = told
        self._clock = clock
        self._calls: dict[str, deque[ActivityEntry]] = {}

    def began(self, call: Call, tool: str, thing: str | None) -> ActivityEntry:
        owner = call.principal.id
        calls = self._of(owner)
        # Counted for each caller: a number must not tell how busy the others are.
        number = calls[-1].n + 1 if calls else 1
        entry = ActivityEntry(number, call.request_id, tool, call.client[:80], self._clock(), thing)
        calls.append(entry)
        self._told(owner, entry)
        return entry

    def ended(self, call: Call, entry: ActivityEntry, outcome: str, seconds: float, said: str, tokens: int) -> None:
        """`said` is the first text of the answer, `tokens` what all its texts cost the model."""
        entry.outcome, entry.ms = outcome, seconds * 1000
        if outcome != "cancelled":
            entry.tokens = tokens
        if outcome not in {"ok", "failed", "cancelled"}:
            entry.error = said[:300]
        self._told(call.principal.id, entry)

    def of(self, owner: str) -> list[ActivityEntry]:
        """The last calls of one caller, newest first."""
        return list(reversed(self._calls.get(owner, ())))

    def _of(self, owner: str) -> deque[ActivityEntry]:
        calls = self._calls.pop(owner, None)
        if calls is None:
            calls = deque[ActivityEntry](maxlen=KEPT_CALLS)
        # At the end, so that the first callers are the longest silent, and the first to be forgotten.
        self._calls[owner] = calls
        if len(self._calls) > MOST_CALLERS:
            del self._calls[next(iter(self._calls))]
        return calls
