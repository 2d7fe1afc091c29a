"""The pool of worker processes, for work on foreign content that may take long or need much memory.

    text = await pool.run(render, source=markdown, size=len(markdown), caller=call.principal.id)

Small work is done in this process, because asking another one would cost more. A worker is started when it is first needed.
"""

import asyncio
import importlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from cellwright.core.errors import CellwrightError, DeadlineExceeded, InvalidArgument, Unavailable
from cellwright.workers.process import Worker, WorkerDied
from cellwright.workers.slots import Slot, Slots

PROCESSES = 4
MEMORY_BYTES = 1 << 30
IDLE_SECONDS = 60.0
SECONDS = 20.0
SMALL = 16_384
"""Work on fewer characters or bytes than this is done in this process."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class TooMuchWork(InvalidArgument):
    """The content needs more memory or is nested more deeply than a worker process can bear, or it crashed the process."""


class WorkerPool:
    """A few processes, shared fairly by all callers of one server."""

    def __init__(
        self, *, processes: int = PROCESSES, memory_bytes: int = MEMORY_BYTES, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._slots = Slots(processes)
        self._memory_bytes = memory_bytes
        self._idle_seconds = idle_seconds
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    async def run(
        self,
        job: Callable[..., T | Callable[[], T]],
        *,
        size: int,
        caller: str = "",
        seconds: float = SECONDS,
        **arguments: Any,  # noqa: ANN401 - whatever the job takes, as JSON, text or bytes
    ) -> T:
        """The job's answer. The job runs in this process if `size` is small, else in a worker process.

        A job is a function at the top of a module, as described in `workers.worker`. Its arguments and its answer are JSON, texts or bytes.
        """
        if size < SMALL:
            work = job(**arguments)
            return cast("Callable[[], T]", work)() if callable(work) else work
        try:
            async with self.session(seconds, caller) as session:
                return cast("T", await session.ask(job, **arguments))
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"this content of {size:,} characters takes longer than {seconds:g} s to work on",
                hint="try a smaller part of it",
            ) from error
        except WorkerDied as died:
            log.warning("worker_died job=%s size=%s reason=%s", job.__qualname__, size, died.reason)
            raise TooMuchWork(
                f"this content of {size:,} characters could not be worked on: the process ended with {died.reason}",
                hint="try a smaller part of it",
            ) from died

    @asynccontextmanager
    async def session(self, seconds: float, caller: str = "") -> AsyncGenerator["WorkerSession"]:
        """A worker for several questions. TimeoutError when the time is up, which includes the wait for a free process."""
        deadline = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout_at(deadline), self._slots.slot_for(caller) as slot:
            if slot.expiry is not None:
                slot.expiry.cancel()
            try:
                yield WorkerSession(self, slot, deadline)
            finally:
                await self._retire(slot)

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that run now."""
        return tuple(slot.worker.pid for slot in self._slots.all if slot.worker is not None)

    async def close(self) -> None:
        """End all processes. Work that is running fails as unavailable."""
        self._closed = True
        for slot in self._slots.all:
            if slot.expiry is not None:
                slot.expiry.cancel()
            if slot.worker is not None:
                await slot.worker.kill()
        await asyncio.gather(*self._ending)

    async def start_worker(self) -> Worker:
        self.refuse_if_closed()
        return await Worker.start(self._memory_bytes)

    def refuse_if_closed(self) -> None:
        if self._closed:
            raise Unavailable(
                "the server is shutting down and takes no more work", hint="make the same call when it is up again"
            )

    async def _retire(self, slot: Slot) -> None:
        """Let the slot's worker end when it was idle for long. One that cannot be used again is killed now."""
        worker = slot.worker
        if worker is None:
            return
        if worker.usable and not self._closed:
            slot.expiry = asyncio.get_running_loop().call_later(self._idle_seconds, self._expire, slot)
            return
        slot.worker = None
        await worker.kill()

    def _expire(self, slot: Slot) -> None:
        worker, slot.worker = slot.worker, None
        if worker is not None:
            ending = asyncio.create_task(worker.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)


class WorkerSession:
    """One caller's use of one slot. If the worker dies, the next question gets a new one."""

    def __init__(self, pool: WorkerPool, slot: Slot, deadline: float) -> None:
        self._pool = pool
        self._slot = slot
        self._deadline = deadline
        self._briefing: dict[str, Any] | None = None
        self._briefed_worker: Worker | None = None

    def brief(self, job: Callable[..., Any], **arguments: Any) -> None:  # noqa: ANN401 - as `ask`
        """Set a job that every worker of this session does before its first question."""
        self._briefing = {"job": _name(job), **arguments}

    async def ask(self, job: Callable[..., Any], **arguments: Any) -> Any:  # noqa: ANN401 - JSON
        """The job's answer. WorkerDied if the process ended while it worked on it."""
        question = {"job": _name(job), **arguments}
        used_by_others = self._slot.worker is not None and self._slot.worker is not self._briefed_worker
        try:
            return await self._ask_once(question)
        except WorkerDied:
            if not used_by_others:
                raise
            # It may have died before this session, which is not this content's fault.
            return await self._ask_once(question)

    async def _ask_once(self, question: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        try:
            worker = await self._worker()
            return _answer_in(await worker.ask({**question, "seconds": self._seconds_left()}))
        except WorkerDied as died:
            if died.was_its_own_alarm:
                raise TimeoutError from died
            self._pool.refuse_if_closed()
            raise

    def _seconds_left(self) -> float:
        return max(self._deadline - asyncio.get_running_loop().time(), 0.0)

    async def _worker(self) -> Worker:
        worker = self._slot.worker
        if worker is None or not worker.usable:
            if worker is not None:
                await worker.kill()
            worker = self._slot.worker = await self._pool.start_worker()
        if self._briefed_worker is not worker:
            if self._briefing is not None:
                _answer_in(await worker.ask({**self._briefing, "seconds": self._seconds_left()}))
            self._briefed_worker = worker
        return worker


def _name(job: Callable[..., Any]) -> str:
    return f"{job.__module__}:{job.__qualname__}"


def _answer_in(reply: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    if "answer" in reply:
        return reply["answer"]
    if "error" in reply:
        name, message, hint, details = reply["error"]
        module, _, kind = name.partition(":")
        error_type = cast("type[CellwrightError]", getattr(importlib.import_module(module), kind))
        raise error_type(message, hint=hint, details=details)
    if "failed" in reply:
        why = "it needs more memory than there is for it" if reply["failed"] == "memory" else "it is nested too deeply"
        raise TooMuchWork(f"this content could not be worked on: {why}", hint="try a smaller or simpler part of it")
    raise RuntimeError(f"a job failed in its worker process\n{reply['crashed']}")
