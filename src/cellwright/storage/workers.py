"""Threads that run database work off the event loop, each with a connection of its own, opened when it is first needed."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
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


class DatabaseJob:
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
    """A few threads with one connection each, begun when there is work for them.

    Not the library's pool: its futures, one for the thread and one for the loop, cost a third of a short transaction.
    """

    def __init__(self, name: str, count: int, connect: Callable[[], C]) -> None:
        self._name = name
        self._count = count
        self._connect = connect
        self._connections: dict[int, C] = {}
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._closed = False
        self._lock = threading.Lock()
        """Work comes from more than one loop: indexes are made in threads with loops of their own."""

    async def run(self, work: Callable[[C, DatabaseJob], T]) -> T:
        """Run the work in a thread that has a connection; a cancelled caller makes it stop soon."""
        job = DatabaseJob()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._give(partial(self._do, work, job, loop, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            job.abandoned = True
            if job.interrupt:
                loop.run_in_executor(None, job.stop)
            raise
        finally:
            # A failure knows the frames that it came through: one that holds it in turn would keep all that its callers hold.
            del answer

    def _give(self, order: Callable[[], None]) -> None:
        with self._lock:
            if self._closed:
                raise errors.closed()
            if self._under_way >= len(self._threads) < self._count:
                self._add_thread()
            self._under_way += 1
            self._orders.put(order)

    def _add_thread(self) -> None:
        # A program that ends without closing leaves these as a power cut would, not waiting for work for ever.
        thread = threading.Thread(target=self._serve, name=f"{self._name}-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The machine has no more threads: those that there are will do it, if there are any.
            if not self._threads:
                raise errors.busy() from error
            return
        self._threads.append(thread)

    def _serve(self) -> None:
        while (order := self._orders.get()) is not None:
            order()
            del order  # what it holds is not needed until the next one comes
            with self._lock:
                self._under_way -= 1

    def _do(
        self,
        work: Callable[[C, DatabaseJob], T],
        job: DatabaseJob,
        loop: asyncio.AbstractEventLoop,
        answer: "asyncio.Future[T]",
    ) -> None:
        if job.abandoned:
            return  # by a caller who has gone while it waited for its turn
        try:
            job.begin()
            done = partial(_settle, answer, work(self.connection(), job))
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: whoever waits gets it
            done = partial(_fail, answer, error)
        with suppress(RuntimeError):
            # The loop may be closed: then nobody waits.
            loop.call_soon_threadsafe(done)
        del done, answer  # as in `run`

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
        with self._lock:
            self._closed = True
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        for _ in self._threads:
            self._orders.put(None)
        for thread in self._threads:
            thread.join()
        while self._connections:
            self._connections.popitem()[1].close()


def _settle(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[T]", error: BaseException) -> None:
    if not answer.done():
        # A future takes every exception but this one.
        answer.set_exception(RuntimeError("StopIteration") if isinstance(error, StopIteration) else error)
