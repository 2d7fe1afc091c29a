"""Executions: runs of cells that have an id and an owner, go on after the request that started them, and can be cancelled."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.types import Call, ReportProgress
from cellwright.core.weight import weight
from cellwright.jupyter.kernels.channel import Message
from cellwright.jupyter.kernels.output_log import RESULT_LIMITS, Allowance, LogPosition, Omitted, OutputNews
from cellwright.jupyter.kernels.outputs import Displays, MemoryOutputs
from cellwright.jupyter.lives import Runner
from cellwright.notebook.outputs import Output
from cellwright.notebook.run import RunStatus

PROGRESS_EVERY = 0.5
PROGRESS_LINE = 200
INTERRUPT_GRACE = 5.0
KEPT_EXECUTIONS = 200
KEPT_FOR = timedelta(hours=1)
KEPT_BYTES = 64 * 1024 * 1024
"""Of the outputs of all executions that have ended, both for results and for their documents."""
CELL_BYTES = 6 * 1024
"""Of a cell's run without any output: its logs, its writer and the tasks that wait for it."""
KEPT_CURSORS = 16
CURSOR_BYTES = 1024 * 1024
"""Of all cursors of an execution but the newest."""

Clock = Callable[[], datetime]
Interrupt = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How to save the document that shows a run. Runs of the same document share a save."""

    document: str
    save: Callable[[], Awaitable[None]]


class CellSink(Protocol):
    """Where a cell's run is shown while it happens, as by an OutputWriter."""

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
    """One cell to run. `code` is called when its turn comes; None then means that the cell is gone."""

    code: Callable[[], str | None]
    cell_id: str = ""
    sink: CellSink | None = None
    store_history: bool = True


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a cell failed. If its code raised, the kernel's own words; otherwise one of our error codes."""

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
    """In a view since a cursor: the outputs of earlier views were cleared, and these are all that the cell has now."""


@dataclass(frozen=True, slots=True)
class CellPosition:
    """How much of a cell's run a reader has seen."""

    state: RunStatus
    outputs: LogPosition


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """An execution as it was at one moment, or what was new in it since a cursor."""

    id: str
    kernel_id: str
    state: RunStatus
    cells: tuple[CellRunView, ...]
    created: datetime
    started: datetime | None
    ended: datetime | None
    notes: tuple[str, ...]
    states: tuple[RunStatus, ...]
    """Of all cells, also of those without anything new."""
    cursor: Callable[[], str] = field(repr=False, compare=False)
    """Makes a cursor for this moment, with which a later view has only what is new since."""
    doubt: str = ""
    """Why it is not known whether it still runs; empty if that is known."""

    @property
    def failed(self) -> bool:
        return self.state.ended and self.state is not RunStatus.DONE


class CellRun:
    """One cell of an execution."""

    def __init__(self, job: CellJob, displays: Displays, allowance: Allowance) -> None:
        self.job = job
        self.memory = MemoryOutputs(displays, allowance)
        self.state = RunStatus.QUEUED
        self.begun = False
        """Whether the kernel said that it began the code, and not only that it received the request."""
        self.raised = False
        """Whether it ended because its code raised, so that the kernel can run the next cell."""
        self.execution_count: int | None = None
        self.error: RunError | None = None
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.notes: list[str] = []

    @property
    def weight(self) -> int:
        """Bytes in memory, with the error, the notes, and what even a cell without outputs takes."""
        sink_weight = self.job.sink.weight if self.job.sink is not None else 0
        return CELL_BYTES + weight(self.error) + weight(self.notes) + self.memory.weight + sink_weight

    def position(self) -> CellPosition:
        return CellPosition(self.state, self.memory.position())

    def view(self, position: CellPosition | None = None) -> CellRunView:
        """The run as it is now; with a position, only the outputs since."""
        memory = self.memory
        news = OutputNews(memory.outputs, memory.omitted) if position is None else memory.news(position.outputs)
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

    def news(self, position: CellPosition) -> CellRunView | None:
        """The run with the outputs since a position; None if nothing is new."""
        view = self.view(position)
        return view if view.outputs or view.cleared or view.state is not position.state else None


NeedsIt = Callable[[str], Collection[str]]
"""The cells that need what a cell defines, by its id."""


class Execution:
    """One or more cells that run together, in order, until one fails. With `keep_going`, those that do not need it run on."""

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
        needs_it: NeedsIt | None = None,
        runner: Runner | None = None,
    ) -> None:
        self.id = f"exec_{secrets.token_hex(8)}"
        self.principal_id = principal_id
        self.runner = runner or Runner(principal_id, kernel_id)
        self.kernel_id = kernel_id
        self.created = created
        self.checkpoint = checkpoint
        self.generation = generation
        """How many restarts of the kernel its queue had counted when this was submitted."""
        self.keep_going = keep_going
        self._needs_it = needs_it
        self.held_back: dict[str, str] = {}
        """Cells that are not run, because they need what another one defines that raised; each with that one."""
        self.notes: list[str] = []
        self.cancelled = False
        self.doubt: Callable[[], str] = str
        """Says why it is not known whether the code still runs."""
        allowance = Allowance.of(RESULT_LIMITS)
        self.cells = tuple(CellRun(job, displays, allowance) for job in jobs)
        self._over = asyncio.Event()
        self._ended_at: datetime | None = None
        self._weight: int | None = None
        self._stop: Callable[[], Awaitable[None]] | None = None
        self._cursors: OrderedDict[str, tuple[CellPosition, ...]] = OrderedDict()
        self._next_cursor = 1

    @property
    def ended(self) -> bool:
        return self._over.is_set()

    @property
    def state(self) -> RunStatus:
        states = [cell.state for cell in self.cells]
        if not self.ended:
            all_queued = all(state is RunStatus.QUEUED for state in states)
            return RunStatus.QUEUED if all_queued else RunStatus.RUNNING
        failed = [state for state in states if state is not RunStatus.DONE]
        if self.cancelled and failed and RunStatus.DONE in states:
            return RunStatus.INTERRUPTED
        default = failed[0] if failed else RunStatus.DONE
        return next((state for state in failed if state is not RunStatus.NOT_RUN), default)

    @property
    def ended_at(self) -> datetime | None:
        return self._ended_at

    @property
    def weight(self) -> int:
        """Bytes in memory. The sum is remembered until more output comes: every new execution asks all kept ones for it."""
        if self._weight is None:
            self._weight = sum(cell.weight for cell in self.cells)
        return self._weight

    def hold_back(self, raised: str) -> None:
        """A cell raised: those that need it are not run."""
        if self._needs_it is not None:
            self.held_back = {**dict.fromkeys(self._needs_it(raised), raised), **self.held_back}

    def grew(self) -> None:
        """Output has come, perhaps after the end."""
        self._weight = None

    def view(self, since: str | None = None) -> ExecutionView:
        """The execution as it is now. With a cursor, only the cells with something new, and only their new outputs."""
        if since is None:
            cells = [cell.view() for cell in self.cells]
        else:
            pairs = zip(self.cells, self._positions_at(since), strict=True)
            cells = [view for cell, position in pairs if (view := cell.news(position)) is not None]
        positions = tuple(cell.position() for cell in self.cells)
        doubt = "" if self.ended else self.doubt()
        return ExecutionView(
            self.id,
            self.kernel_id,
            self.state,
            tuple(cells),
            self.created,
            min((cell.started for cell in self.cells if cell.started), default=None),
            self.ended_at,
            (*self.notes, doubt) if doubt else tuple(self.notes),
            tuple(cell.state for cell in self.cells),
            lambda: self._remember(positions),
            doubt,
        )

    def _remember(self, positions: tuple[CellPosition, ...]) -> str:
        cursor = str(self._next_cursor)
        self._next_cursor += 1
        self._cursors[cursor] = positions
        while len(self._cursors) > KEPT_CURSORS or (len(self._cursors) > 1 and weight(self._cursors) > CURSOR_BYTES):
            self._cursors.popitem(last=False)
        return cursor

    def _positions_at(self, cursor: str) -> tuple[CellPosition, ...]:
        positions = self._cursors.get(cursor)
        if positions is None:
            raise InvalidArgument(
                f"{cursor[:40]!r} is no cursor of {self.id}, or one that is too old",
                hint="since takes the cursor of your last answer about this run; leave it out to get all output",
            )
        return positions

    def stops_with(self, stop: Callable[[], Awaitable[None]]) -> None:
        """Set how this execution is stopped. Its queue calls this."""
        self._stop = stop

    def finish(self) -> None:
        # Computed once: every new execution asks all kept ones for it.
        self._ended_at = max((cell.ended for cell in self.cells if cell.ended), default=self.created)
        # Its result is kept longer than its queue, which has all that ran in the kernel, and may be gone by then.
        self.doubt, self._stop = str, None
        self.grew()
        self._over.set()

    async def wait(self, timeout: float, report: ReportProgress | None = None) -> ExecutionView:  # noqa: ASYNC109
        """Wait until it has ended, at most `timeout` seconds. Calls `report` with its progress at most twice a second.

        Ending the wait, by time or by cancellation, does not end the execution.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        reported, ticks = "", 0
        while not self.ended and (remaining := deadline - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(remaining, PROGRESS_EVERY) if report else remaining):
                    await self._over.wait()
            except TimeoutError:
                progress = self._progress()
                if report and progress != reported:
                    reported, ticks = progress, ticks + 1
                    # The number must grow with every report, also within one long cell.
                    await report(self._finished_cells() + ticks / (ticks + 10), len(self.cells), progress)
        return self.view()

    async def cancel(self, grace: float = INTERRUPT_GRACE) -> ExecutionView:
        """Interrupt it, or remove it from the queue, and wait a little for it to end.

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
        cell = f"cell {number} of {len(self.cells)}"
        return f"{cell}: {line}" if line else cell


async def call_cancelled(call: Call, execution: Execution) -> None:
    """Interrupt the code of a call that was cancelled, unless the caller may only have lost the connection."""
    if not call.may_have_left:
        await asyncio.shield(execution.cancel())


class Work(Protocol):
    """Something that has an owner, takes a while, and whose result is kept."""

    @property
    def id(self) -> str: ...
    @property
    def principal_id(self) -> str: ...
    @property
    def ended(self) -> bool: ...
    @property
    def ended_at(self) -> datetime | None: ...
    @property
    def weight(self) -> int: ...


W = TypeVar("W", bound=Work)


class KeptWork(Generic[W]):
    """All work of one kind in this process, visible to its owner only. What has ended is kept for a while."""

    def __init__(self, clock: Clock, *, keep: int = KEPT_EXECUTIONS, keep_for: timedelta = KEPT_FOR) -> None:
        self._clock = clock
        self._keep = keep
        self._keep_for = keep_for
        self._by_id: dict[str, W] = {}

    def add(self, work: W) -> None:
        self._forget()
        self._by_id[work.id] = work

    def get(self, principal_id: str, work_id: str) -> W:
        self._forget()
        work = self._by_id.get(work_id)
        if work is None or work.principal_id != principal_id:
            minutes = int(self._keep_for.total_seconds() // 60)
            raise NotFound(
                f"no execution {work_id[:80]!r}",
                hint=f"Results are kept for {minutes} minutes; the outputs are in the notebook's cells",
            )
        return work

    def of(self, principal_id: str) -> tuple[W, ...]:
        """The work of one principal, oldest first."""
        self._forget()
        return tuple(work for work in self._by_id.values() if work.principal_id == principal_id)

    def _forget(self) -> None:
        ended = [work for work in self._by_id.values() if work.ended]
        oldest = self._clock() - self._keep_for
        count, total = len(ended), sum(work.weight for work in ended)
        for work in ended:
            expired = work.ended_at is not None and work.ended_at < oldest
            if not (expired or count > self._keep or total > KEPT_BYTES):
                continue
            del self._by_id[work.id]
            count -= 1
            total -= work.weight


class Executions(KeptWork[Execution]):
    """All executions of this process, each visible to its owner only. Ended ones are kept for a while."""
