"""Long calls that outlive their request: an id, a status, and a result that is kept for a while. Knows nothing of the protocol.

A call of a long tool gets a moment to finish; only if it does not, the client gets a task to poll. So short work takes one round trip
and long work never blocks a request.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cellwright.core.errors import LimitReached, NotFound
from cellwright.core.types import Principal

PATIENCE_SECONDS = 1.0
POLL_MS = 500

Clock = Callable[[], float]


@dataclass
class Task:
    """One long call. Its id is random, and only its owner can use it."""

    id: str
    owner: str
    created: float
    updated: float
    status: str = "working"
    message: str = ""
    outcome: dict[str, Any] = field(default_factory=dict[str, Any])
    job: asyncio.Task[None] | None = None

    def as_json(self, ttl: float) -> dict[str, Any]:
        document: dict[str, Any] = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": _stamp(self.created),
            "lastUpdatedAt": _stamp(self.updated),
            "ttlMs": int(ttl * 1000),
            "pollIntervalMs": POLL_MS,
        }
        if self.message:
            document["statusMessage"] = self.message
        return {**document, **self.outcome}


class Tasks:
    """The tasks of all callers, limited in number and in time."""

    def __init__(
        self, ttl: float, limit: int, clock: Clock = time.time, on_change: Callable[[str], None] = lambda _owner: None
    ) -> None:
        """`on_change` is called with the owner whenever one of their tasks begins or ends."""
        self.ttl = ttl
        self._limit = limit
        self._on_change = on_change
        self._clock = clock
        self._tasks: dict[str, Task] = {}

    def count(self, owner: str | None = None) -> int:
        """How many tasks are running, of one caller or of all."""
        return sum(task.status == "working" and owner in {None, task.owner} for task in self._tasks.values())

    async def start(self, principal: Principal, work: Callable[[Task], Awaitable[dict[str, Any]]]) -> Task:
        """Begin `work`, which returns the outcome of the task, and wait a moment for it to finish."""
        self._sweep()
        if sum(task.owner == principal.id for task in self._tasks.values()) >= self._limit:
            raise LimitReached(
                f"this caller has {self._limit} tasks already", hint="wait for one to end, or raise --max-tasks"
            )
        now = self._clock()
        task = Task(secrets.token_urlsafe(18), principal.id, now, now)
        self._tasks[task.id] = task
        self._on_change(task.owner)
        task.job = asyncio.create_task(self._finish(task, work), name=f"task {task.id[:6]}")
        try:
            await asyncio.wait({task.job}, timeout=PATIENCE_SECONDS)
        except asyncio.CancelledError:
            # The client cancelled the call before it knew of a task: nobody could ever ask for this one.
            task.job.cancel()
            self.forget(task)
            raise
        return task

    def find(self, principal: Principal, identity: str) -> Task:
        """The task, if it belongs to this caller. Another caller's task looks the same as an unknown one."""
        self._sweep()
        task = self._tasks.get(identity)
        if task is None or task.owner != principal.id:
            raise NotFound(
                "unknown task", hint="it may have ended and been forgotten", details={"taskId": identity[:64]}
            )
        return task

    def forget(self, task: Task) -> None:
        """Drop a task whose result was delivered in place."""
        self._tasks.pop(task.id, None)

    def cancel(self, task: Task) -> None:
        if task.status == "working":
            self._move(task, "cancelled", {})
            assert task.job is not None
            task.job.cancel()

    async def close(self) -> None:
        """End all running tasks."""
        jobs = [task.job for task in self._tasks.values() if task.job is not None and not task.job.done()]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        self._tasks.clear()

    async def _finish(self, task: Task, work: Callable[[Task], Awaitable[dict[str, Any]]]) -> None:
        outcome = await work(task)
        if task.status == "working":
            self._move(task, "failed" if "error" in outcome else "completed", outcome)

    def note(self, task: Task, message: str) -> None:
        """Set the message that clients see when they poll."""
        task.message, task.updated = message, self._clock()

    def _move(self, task: Task, status: str, outcome: dict[str, Any]) -> None:
        task.status, task.outcome, task.updated = status, outcome, self._clock()
        self._on_change(task.owner)

    def _sweep(self) -> None:
        now = self._clock()
        expired = [
            key for key, task in self._tasks.items() if task.status != "working" and now - task.updated > self.ttl
        ]
        for key in expired:
            del self._tasks[key]


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
