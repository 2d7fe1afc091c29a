"""Runs as things of their own: they have an id and an owner, outlive the request that asked for them, and can be cancelled."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.types import Call, ReportProgress
from cellwright.core.weight import weight
from cellwright.jupyter.kernels.channel import Message
from cellwright.jupyter.kernels.output_log import RESULT_LIMITS, Allowance, Omitted, OutputNews, Told
from cellwright.jupyter.kernels.outputs import Displays, MemoryOutputs
from cellwright.jupyter.model import Output
from cellwright.notebook.run import RunStatus

PROGRESS_EVERY = 0.5
PROGRESS_LINE = 200
INTERRUPT_GRACE = 5.0
KEPT_EXECUTIONS = 200
KEPT_FOR = timedelta(hours=1)
KEPT_BYTES = 64 * 1024 * 1024
"""Of all executions that have ended: their outputs, for results and as their documents have them."""
CELL_BYTES = 6 * 1024
"""What a cell's run takes before it has put out anything: its logs, its writer and who waits for it."""
KEPT_CURSORS = 16
CURSOR_BYTES = 1024 * 1024
"""Of all cursors of an execution but the newest."""

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
    @property
    def weight(self) -> int: ...
    def announce(self) -> None: ...
    def begin(self) -> None: ...
    def write(self, message: Message) -> None: ...
    def end(self, execution_count: int | None) -> None: ...
    def abandon(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CellJob:
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
    cleared: bool = False
    """In a view since a cursor: what was told before is gone from the cell, these outputs are all it has now."""


@dataclass(frozen=True, slots=True)
class CellTold:
    """What somebody knows of a cell's run."""

    state: RunStatus
    outputs: Told


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """An execution as it was at one moment, or what was new then to somebody who had a cursor."""

    id: str
    kernel_id: str
    state: RunStatus
    cells: tuple[CellRunView, ...]
    created: datetime
    started: datetime | None
    ended: datetime | None
    notes: tuple[str, ...]
    states: tuple[RunStatus, ...]
    """Of all cells, also of those in which there is nothing new."""
    cursor: Callable[[], str] = field(repr=False, compare=False)
    """Names this moment, so that a later view can tell what came after it."""

    @property
    def failed(self) -> bool:
        return self.state.ended and self.state is not RunStatus.DONE


class CellRun:
    """One cell of an execution, while it is worked on."""

    def __init__(self, job: CellJob, displays: Displays, allowance: Allowance) -> None:
        self.job = job
        self.memory = MemoryOutputs(displays, allowance)
        self.state = RunStatus.QUEUED
        self.begun = False
        """Whether the kernel said that it took up the code, as opposed to the request."""
        self.raised = False
        """Whether it ended because its code raised, so that the kernel is there for the next."""
        self.execution_count: int | None = None
        self.error: RunError | None = None
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.notes: list[str] = []

    @property
    def weight(self) -> int:
        """Bytes in memory, also of what the kernel said about a failure, and of a cell that put out nothing."""
        told = weight(self.error) + weight(self.notes)
        return CELL_BYTES + told + self.memory.weight + (self.job.sink.weight if self.job.sink is not None else 0)

    def told(self) -> CellTold:
        return CellTold(self.state, self.memory.told())

    def view(self, told: CellTold | None = None) -> CellRunView:
        news = OutputNews(self.memory.outputs, self.memory.omitted) if told is None else self.memory.news(told.outputs)
        return CellRunView(
            self.job.cell_id,
            self.state,
            news.outputs,
            news.omitted,
            self.execution_count,
            self.error,
            self.started,
            self.ended,
            tuple(self.notes),
            news.cleared,
        )

    def news(self, told: CellTold) -> CellRunView | None:
        """What is new since then; None if nothing is."""
        view = self.view(told)
        return view if view.outputs or view.cleared or view.state is not told.state else None


class Execution:
    """One or more cells that were asked to run together, in order, until one fails or, if told so, past those that raise."""

    def __init__(
        self,
        principal_id: str,
        kernel_id: str,
        jobs: Sequence[CellJob],
        displays: Displays,
        *,
        created: datetime,
        checkpoint: Checkpoint | None = None,
        generation: int = 0,
        keep_going: bool = False,
    ) -> None:
        self.id = f"exec_{secrets.token_hex(8)}"
        self.principal_id = principal_id
        self.kernel_id = kernel_id
        self.created = created
        self.checkpoint = checkpoint
        self.generation = generation
        """How many restarts of the kernel had been asked for here when it was submitted."""
        self.keep_going = keep_going
        self.notes: list[str] = []
        self.cancelled = False
        allowance = Allowance.of(RESULT_LIMITS)
        self.cells = tuple(CellRun(job, displays, allowance) for job in jobs)
        self._over = asyncio.Event()
        self._ended_at: datetime | None = None
        self._weight: int | None = None
        self._stop: Callable[[], Awaitable[None]] | None = None
        self._cursors: OrderedDict[str, tuple[CellTold, ...]] = OrderedDict()
        self._next_cursor = 1

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
    def weight(self) -> int:
        """Bytes in memory. Reckoned when something came since: every new execution looks through all that are kept."""
        if self._weight is None:
            self._weight = sum(cell.weight for cell in self.cells)
        return self._weight

    def grew(self) -> None:
        """Output has come, also if it has ended."""
        self._weight = None

    def view(self, since: str | None = None) -> ExecutionView:
        """How it is now; with a cursor, only the cells in which something is new, and only what is new in them."""
        if since is None:
            cells = [cell.view() for cell in self.cells]
        else:
            pairs = zip(self.cells, self._told_at(since), strict=True)
            cells = [view for cell, told in pairs if (view := cell.news(told)) is not None]
        told = tuple(cell.told() for cell in self.cells)
        return ExecutionView(
            self.id,
            self.kernel_id,
            self.state,
            tuple(cells),
            self.created,
            min((cell.started for cell in self.cells if cell.started), default=None),
            self.ended_at,
            tuple(self.notes),
            tuple(cell.state for cell in self.cells),
            lambda: self._remember(told),
        )

    def _remember(self, told: tuple[CellTold, ...]) -> str:
        cursor = str(self._next_cursor)
        self._next_cursor += 1
        self._cursors[cursor] = told
        while len(self._cursors) > KEPT_CURSORS or (len(self._cursors) > 1 and weight(self._cursors) > CURSOR_BYTES):
            self._cursors.popitem(last=False)
        return cursor

    def _told_at(self, cursor: str) -> tuple[CellTold, ...]:
        told = self._cursors.get(cursor)
        if told is None:
            raise InvalidArgument(
                f"{cursor[:40]!r} is no cursor of {self.id}, or one that is too old",
                hint="since takes the cursor of your last answer about this run; leave it out to get all output",
            )
        return told

    def stops_with(self, stop: Callable[[], Awaitable[None]]) -> None:
        """Say how this execution is stopped; the queue that runs it does."""
        self._stop = stop

    def finish(self) -> None:
        # Reckoned once: every new execution looks through all that are kept.
        self._ended_at = max((cell.ended for cell in self.cells if cell.ended), default=self.created)
        self.grew()
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
                f"no execution {execution_id[:80]!r}",
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
        count, taken = len(ended), sum(execution.weight for execution in ended)
        for execution in ended:
            expired = execution.ended_at is not None and execution.ended_at < oldest
            if not (expired or count > self._keep or taken > KEPT_BYTES):
                continue
            del self._known[execution.id]
            count -= 1
            taken -= execution.weight
