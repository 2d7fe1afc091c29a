"""Threads that run database work off the event loop, each with a connection of its own, opened when it is first needed."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from cellwright.core.errors import DeadlineExceeded
from cellwright.storage import errors

QUEUE_SECONDS = 30.0
"""How long work may wait for its turn."""
WORK_SECONDS = 60.0
"""How long work may take once it has begun, waiting for locks aside."""
INTERRUPTION_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)

T = TypeVar("T")


class Closable(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=Closable)


class Job:
    """One piece of work: until when it may run, and whether anybody still wants it."""

    __slots__ = ("_lock", "abandoned", "begun", "interrupt", "interrupted", "queued")

    def __init__(self) -> None:
        self.queued = time.monotonic()
        self.begun = self.queued
        self.abandoned = False
        self.interrupt: Callable[[], object] | None = None
        """Stops what a server is doing for this work, for an engine that does not look by itself."""
        self.interrupted = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Note that its turn has come; StorageBusy if that was too late."""
        self.begun = time.monotonic()
        if self.begun - self.queued > QUEUE_SECONDS:
            raise errors.busy()

    def stop(self) -> None:
        """Interrupt it while it is running. Called from a thread of its own: it waits for a server.

        More than once, because an interruption that comes between two statements stops neither of them.
        """
        for pause in INTERRUPTION_PAUSES:
            with self._lock:
                if self.interrupt is None:
                    return
                self.interrupted = True
                self.interrupt()
            time.sleep(pause)

    def finish(self) -> bool:
        """Nothing interrupts it from here on. True if something did: then the interruption may still be on its way."""
        with self._lock:
            self.interrupt = None
            return self.interrupted

    @property
    def over(self) -> bool:
        return self.abandoned or time.monotonic() - self.begun > WORK_SECONDS

    def check(self) -> None:
        """Raise if this must not be committed any more."""
        if self.over:
            raise too_long()


def too_long() -> DeadlineExceeded:
    return DeadlineExceeded(
        f"the database work was stopped after {WORK_SECONDS:.0f} s or because its caller has gone; nothing was changed",
        hint="ask for less at once",
    )


class Workers(Generic[C]):
    """A few threads with one connection each."""

    def __init__(self, name: str, count: int, connect: Callable[[], C]) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._connect = connect
        self._connections: dict[int, C] = {}
        self._closed = False

    async def run(self, work: Callable[[C, Job], T]) -> T:
        """Run the work in a thread that has a connection; a cancelled caller makes it stop soon."""
        if self._closed:
            raise errors.closed()
        job = Job()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool, self._run, work, job)
        except asyncio.CancelledError:
            job.abandoned = True
            if job.interrupt:
                loop.run_in_executor(None, job.stop)
            raise

    def _run(self, work: Callable[[C, Job], T], job: Job) -> T:
        job.begin()
        return work(self.connection(), job)

    def connection(self) -> C:
        """This thread's connection, made if it has none."""
        held = self._connections.get(threading.get_ident())
        if held is None:
            held = self._connections[threading.get_ident()] = self._connect()
        return held

    def discard(self) -> None:
        """Close this thread's connection; the next work gets a new one."""
        held = self._connections.pop(threading.get_ident(), None)
        if held is not None:
            held.close()

    async def close(self) -> None:
        """Wait for all work that was given, then close the connections."""
        self._closed = True
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._pool.shutdown(wait=True)
        while self._connections:
            self._connections.popitem()[1].close()
