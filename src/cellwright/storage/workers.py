"""Threads that run database work off the event loop. Each has its own connection, opened when it is first needed."""

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
"""How long work may take once it has started, not counting waits for locks."""
INTERRUPTION_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)

T = TypeVar("T")


class Closable(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=Closable)


class DatabaseJob:
    """One piece of work: how long it may run, and whether its caller still waits for it."""

    __slots__ = ("_lock", "abandoned", "interrupt", "interrupted", "queued_at", "started_at")

    def __init__(self) -> None:
        self.queued_at = time.monotonic()
        self.started_at = self.queued_at
        self.abandoned = False
        self.interrupt: Callable[[], object] | None = None
        """Stops what a server does for this work. Only set for an engine that does not check `is_over` by itself."""
        self.interrupted = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Note that the work starts now. StorageBusy if it has waited for too long."""
        self.started_at = time.monotonic()
        if self.started_at - self.queued_at > QUEUE_SECONDS:
            raise errors.busy()

    def stop(self) -> None:
        """Interrupt the work while it runs. Called in its own thread, because it waits for a server.

        It interrupts more than once, because an interruption between two statements stops neither of them.
        """
        for pause in INTERRUPTION_PAUSES:
            with self._lock:
                if self.interrupt is None:
                    return
                self.interrupted = True
                self.interrupt()
            time.sleep(pause)

    def finish(self) -> bool:
        """Allow no more interruptions. True if there was one, which may still be on its way to the server."""
        with self._lock:
            self.interrupt = None
            return self.interrupted

    @property
    def is_over(self) -> bool:
        return self.abandoned or time.monotonic() - self.started_at > WORK_SECONDS

    def check(self) -> None:
        """Raise if the work must not be committed any more."""
        if self.is_over:
            raise too_long()


def too_long() -> DeadlineExceeded:
    return DeadlineExceeded(
        f"the database work was stopped after {WORK_SECONDS:.0f} s or because its caller has gone; nothing was changed",
        hint="ask for less at once",
    )


class Workers(Generic[C]):
    """A few threads with one connection each, started when there is work for them.

    This is not a ThreadPoolExecutor, because its two futures, one for the thread and one for the loop, cost a third of a short transaction.
    """

    def __init__(self, name: str, count: int, connect: Callable[[], C]) -> None:
        self._name = name
        self._count = count
        self._connect = connect
        self._connections: dict[int, C] = {}
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        self._closed = False
        self._lock = threading.Lock()
        """Work comes from more than one event loop: indexes are built in threads that have their own."""

    async def run(self, work: Callable[[C, DatabaseJob], T]) -> T:
        """Run the work in a thread that has a connection. If the caller is cancelled, the work stops soon."""
        job = DatabaseJob()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._enqueue(partial(self._run_job, work, job, loop, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            job.abandoned = True
            if job.interrupt:
                loop.run_in_executor(None, job.stop)
            raise
        finally:
            # An exception refers to the frames it passed through. If this frame kept the future, which refers to the exception, that
            # cycle would keep alive everything that the callers hold.
            del answer

    def _enqueue(self, order: Callable[[], None]) -> None:
        with self._lock:
            if self._closed:
                raise errors.closed()
            if self._unfinished >= len(self._threads) < self._count:
                self._add_thread()
            self._unfinished += 1
            self._orders.put(order)

    def _add_thread(self) -> None:
        # Daemon threads, so that a program that ends without closing does not wait for them for ever.
        thread = threading.Thread(target=self._serve, name=f"{self._name}-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The system gives us no more threads: those that we have do the work, if there are any.
            if not self._threads:
                raise errors.busy() from error
            return
        self._threads.append(thread)

    def _serve(self) -> None:
        while (order := self._orders.get()) is not None:
            order()
            del order  # so that nothing is kept alive until the next one comes
            with self._lock:
                self._unfinished -= 1

    def _run_job(
        self,
        work: Callable[[C, DatabaseJob], T],
        job: DatabaseJob,
        loop: asyncio.AbstractEventLoop,
        answer: "asyncio.Future[T]",
    ) -> None:
        if job.abandoned:
            return  # its caller left while it was waiting for its turn
        try:
            job.begin()
            deliver = partial(_set_result, answer, work(self.connection(), job))
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: whoever waits gets it
            deliver = partial(_set_exception, answer, error)
        with suppress(RuntimeError):
            # The loop may be closed: then nobody waits.
            loop.call_soon_threadsafe(deliver)
        del deliver, answer  # as in `run`

    def connection(self) -> C:
        """This thread's connection, opened if it has none."""
        connection = self._connections.get(threading.get_ident())
        if connection is None:
            connection = self._connections[threading.get_ident()] = self._connect()
        return connection

    def discard(self) -> None:
        """Close this thread's connection; the next work gets a new one."""
        connection = self._connections.pop(threading.get_ident(), None)
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        """Wait for all work in the queue, then close the connections."""
        with self._lock:
            self._closed = True
        await asyncio.to_thread(self._stop_threads)

    def _stop_threads(self) -> None:
        for _ in self._threads:
            self._orders.put(None)
        for thread in self._threads:
            thread.join()
        while self._connections:
            self._connections.popitem()[1].close()


def _set_result(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _set_exception(answer: "asyncio.Future[T]", error: BaseException) -> None:
    if not answer.done():
        # A future takes every exception but this one.
        answer.set_exception(RuntimeError("StopIteration") if isinstance(error, StopIteration) else error)
