"""Runs as things of their own: they have an id and an owner, outlive the request that asked for them, and can be cancelled."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from cellwright.core.errors import NotFound
from cellwright.core.running import RunStatus
from cellwright.core.types import Call, ReportProgress
from cellwright.jupyter.kernel_channel import Message
from cellwright.jupyter.model import Output
from cellwright.jupyter.output_log import RESULT_LIMITS, Allowance, Omitted
from cellwright.jupyter.outputs import Displays, MemoryOutputs

PROGRESS_EVERY = 0.5
PROGRESS_LINE = 200
INTERRUPT_GRACE = 5.0
KEPT_EXECUTIONS = 200
KEPT_FOR = timedelta(hours=1)
KEPT_CHARACTERS = 64 * 1024 * 1024

Clock = Callable[[], datetime]
Interrupt = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How the document that shows a run is saved; runs that name the same document share a save."""

    document: str
    save: Callable[[], Awaitable[None]]


class CellSink(Protocol):
    """Where a cell's run is shown while it happens: an OutputWriter."""

    @property
    def detached(self) -> str: ...
    def announce(self) -> None: ...
    def begin(self) -> None: ...
    def write(self, message: Message) -> None: ...
    def end(self, execution_count: int | None) -> None: ...
    def abandon(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Job:
    """One cell to run. `code` is asked for when its turn comes; None then means that the cell is gone."""

    code: Callable[[], str | None]
    cell_id: str = ""
    sink: CellSink | None = None
    store_history: bool = True


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a cell did not end well. For code that raised, the kernel's own words; else one of our error codes."""

    name: str
    value: str
    traceback: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class CellRunView:
    """A cell's run as it was at one moment."""

    cell_id: str
    state: RunStatus
    outputs: tuple[Output, ...]
    omitted: Omitted
    execution_count: int | None
    error: RunError | None
    started: datetime | None
    ended: datetime | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """An execution as it was at one moment."""

    id: str
    kernel_id: str
    state: RunStatus
    cells: tuple[CellRunView, ...]
    created: datetime
    started: datetime | None
    ended: datetime | None
    notes: tuple[str, ...]

    @property
    def failed(self) -> bool:
        return self.state.ended and self.state is not RunStatus.DONE


class CellRun:
    """One cell of an execution, while it is worked on."""

    def __init__(self, job: Job, displays: Displays, allowance: Allowance) -> None:
        self.job = job
        self.memory = MemoryOutputs(displays, allowance)
        self.state = RunStatus.QUEUED
        self.begun = False
        """Whether the kernel said that it took up the code, as opposed to the request."""
        self.execution_count: int | None = None
        self.error: RunError | None = None
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.notes: list[str] = []

    def view(self) -> CellRunView:
        return CellRunView(
            self.job.cell_id,
            self.state,
            self.memory.outputs,
            self.memory.omitted,
            self.execution_count,
            self.error,
            self.started,
            self.ended,
            tuple(self.notes),
        )


class Execution:
    """One or more cells that were asked to run together, in order, until one fails."""

    def __init__(
        self,
        principal_id: str,
        kernel_id: str,
        jobs: Sequence[Job],
        displays: Displays,
        *,
        created: datetime,
        checkpoint: Checkpoint | None = None,
        generation: int = 0,
    ) -> None:
        self.id = f"exec_{secrets.token_hex(8)}"
        self.principal_id = principal_id
        self.kernel_id = kernel_id
        self.created = created
        self.checkpoint = checkpoint
        self.generation = generation
        """How many restarts of the kernel had been asked for here when it was submitted."""
        self.notes: list[str] = []
        self.cancelled = False
        allowance = Allowance.of(RESULT_LIMITS)
        self.cells = tuple(CellRun(job, displays, allowance) for job in jobs)
        self._over = asyncio.Event()
        self._ended_at: datetime | None = None
        self._size = 0
        self._stop: Callable[[], Awaitable[None]] | None = None

    @property
    def ended(self) -> bool:
        return self._over.is_set()

    @property
    def state(self) -> RunStatus:
        states = [cell.state for cell in self.cells]
        if not self.ended:
            begun = any(state is not RunStatus.QUEUED for state in states)
            return RunStatus.RUNNING if begun else RunStatus.QUEUED
        bad = [state for state in states if state is not RunStatus.DONE]
        if self.cancelled and bad and RunStatus.DONE in states:
            return RunStatus.INTERRUPTED
        return next((state for state in bad if state is not RunStatus.NOT_RUN), bad[0] if bad else RunStatus.DONE)

    @property
    def ended_at(self) -> datetime | None:
        return self._ended_at

    @property
    def size(self) -> int:
        """How many characters it has put out that are kept, as of its end."""
        return self._size

    def view(self) -> ExecutionView:
        started = min((cell.started for cell in self.cells if cell.started), default=None)
        cells = tuple(cell.view() for cell in self.cells)
        return ExecutionView(
            self.id, self.kernel_id, self.state, cells, self.created, started, self.ended_at, tuple(self.notes)
        )

    def stops_with(self, stop: Callable[[], Awaitable[None]]) -> None:
        """Say how this execution is stopped; the queue that runs it does."""
        self._stop = stop

    def finish(self) -> None:
        # Reckoned once: every new execution looks through all that are kept.
        self._ended_at = max((cell.ended for cell in self.cells if cell.ended), default=self.created)
        self._size = sum(cell.memory.size for cell in self.cells)
        self._over.set()

    async def wait(self, timeout: float, report: ReportProgress | None = None) -> ExecutionView:  # noqa: ASYNC109
        """Wait until it has ended, at most `timeout` seconds, telling `report` how far it is twice a second at most.

        Ending the wait, by time or by cancellation, does not end the execution.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        told, ticks = "", 0
        while not self.ended and (left := deadline - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(left, PROGRESS_EVERY) if report else left):
                    await self._over.wait()
            except TimeoutError:
                news = self._progress()
                if report and news != told:
                    told, ticks = news, ticks + 1
                    # Progress must grow with every notice, also within one long cell.
                    await report(self._finished_cells() + ticks / (ticks + 10), len(self.cells), news)
        return self.view()

    async def cancel(self, grace: float = INTERRUPT_GRACE) -> ExecutionView:
        """Interrupt it, or take it from the queue, and wait a little for it to end.

        A view that is still running means that the kernel ignores interrupts, or is busy with somebody else's code.
        """
        self.cancelled = True
        if not self.ended and self._stop is not None:
            await self._stop()
        return await self.wait(grace)

    def _finished_cells(self) -> int:
        return sum(cell.state.ended for cell in self.cells)

    def _progress(self) -> str:
        number = min(self._finished_cells() + 1, len(self.cells))
        line = self.cells[number - 1].memory.last_line.strip()[:PROGRESS_LINE] if self.cells else ""
        where = f"cell {number} of {len(self.cells)}"
        return f"{where}: {line}" if line else where


async def call_cancelled(call: Call, execution: Execution) -> None:
    """The call that waits for it was cancelled: its code is interrupted, unless the caller may only have lost the connection."""
    if not call.may_have_left:
        await asyncio.shield(execution.cancel())


class Executions:
    """All executions of this process, each visible to its owner only. Ended ones are kept for a while."""

    def __init__(self, clock: Clock, *, keep: int = KEPT_EXECUTIONS, keep_for: timedelta = KEPT_FOR) -> None:
        self._clock = clock
        self._keep = keep
        self._keep_for = keep_for
        self._known: dict[str, Execution] = {}

    def add(self, execution: Execution) -> None:
        self._forget()
        self._known[execution.id] = execution

    def get(self, principal_id: str, execution_id: str) -> Execution:
        self._forget()
        execution = self._known.get(execution_id)
        if execution is None or execution.principal_id != principal_id:
            minutes = int(self._keep_for.total_seconds() // 60)
            raise NotFound(
                f"no execution {execution_id!r}",
                hint=f"Results are kept for {minutes} minutes; the outputs are in the notebook's cells",
            )
        return execution

    def of(self, principal_id: str) -> tuple[Execution, ...]:
        """The executions of one principal, oldest first."""
        self._forget()
        return tuple(execution for execution in self._known.values() if execution.principal_id == principal_id)

    def _forget(self) -> None:
        ended = [execution for execution in self._known.values() if execution.ended]
        oldest = self._clock() - self._keep_for
        count, characters = len(ended), sum(execution.size for execution in ended)
        for execution in ended:
            expired = execution.ended_at is not None and execution.ended_at < oldest
            if not (expired or count > self._keep or characters > KEPT_CHARACTERS):
                continue
            del self._known[execution.id]
            count -= 1
            characters -= execution.size
