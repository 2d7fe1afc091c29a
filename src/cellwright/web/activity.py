"""The latest tool calls of each caller, kept in memory, from their beginning to their end."""

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
        fields: CallEntry = {
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
        return {**fields, "error": self.error} if self.error else fields


OnCall = Callable[[str, ActivityEntry], None]
"""Is given the caller's id and the call, each time a call begins or ends."""


class Activity:
    """Is told of every call when it begins and when it ends. Never waits, never fails."""

    def __init__(self, on_call: OnCall, clock: Callable[[], float] = time.time) -> None:
        self._on_call = on_call
        self._clock = clock
        self._calls: dict[str, deque[ActivityEntry]] = {}

    def began(self, call: Call, tool: str, thing: str | None) -> ActivityEntry:
        owner = call.principal.id
        calls = self._calls.pop(owner, None) or deque[ActivityEntry](maxlen=KEPT_CALLS)
        # Moved to the end, so that the callers at the beginning were silent longest and are forgotten first.
        self._calls[owner] = calls
        if len(self._calls) > MOST_CALLERS:
            del self._calls[next(iter(self._calls))]
        # Each caller's calls are numbered apart: a number must not tell how busy the others are.
        number = calls[-1].n + 1 if calls else 1
        entry = ActivityEntry(number, call.request_id, tool, call.client[:80], self._clock(), thing)
        calls.append(entry)
        self._on_call(owner, entry)
        return entry

    def ended(self, call: Call, entry: ActivityEntry, outcome: str, seconds: float, text: str, tokens: int) -> None:
        """`text` is the first text of the answer, `tokens` what all its texts cost the model."""
        entry.outcome, entry.ms = outcome, seconds * 1000
        if outcome != "cancelled":
            entry.tokens = tokens
        if outcome not in {"ok", "failed", "cancelled"}:
            entry.error = text[:300]
        self._on_call(call.principal.id, entry)

    def of(self, owner: str) -> list[ActivityEntry]:
        """The last calls of one caller, newest first."""
        return list(reversed(self._calls.get(owner, ())))
