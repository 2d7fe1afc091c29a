"""The queue in front of one kernel: executions run one at a time, in order, each until its first error or to its end."""

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from cellwright.core.errors import CellwrightError, LimitReached
from cellwright.jupyter.kernels.channel import KernelGone, Message
from cellwright.jupyter.kernels.connection import REMEMBERED_RUNS, KernelConnection
from cellwright.jupyter.kernels.executions import (
    CellJob,
    CellRun,
    Checkpoint,
    Clock,
    Execution,
    Executions,
    Interrupt,
    NeedsIt,
    RunError,
)
from cellwright.jupyter.kernels.hints import hint_for_missing, hint_for_question, missing_package
from cellwright.jupyter.kernels.interpreter import KnownPython
from cellwright.jupyter.kernels.output_log import TRACEBACK_CHARACTERS
from cellwright.jupyter.kernels.output_values import bounded_error
from cellwright.jupyter.kernels.outputs import Displays, deliver
from cellwright.jupyter.kernels.request import ExecuteReply, KernelDied, kernel_gone
from cellwright.jupyter.lives import LastRuns, Runner
from cellwright.notebook.run import RunStatus

logger = logging.getLogger(__name__)

MAX_WAITING = 100
CHECKPOINT_EVERY = 5.0
"""Jupyter does not save a document by itself while it changes all the time."""
SAVE_AFTER = 1.0
"""Runs that follow each other closely are saved together, because a save costs Jupyter more than a small run."""
LAST_SAVE_SECONDS = 10.0
LISTENING_BYTES = 16 * 1024 * 1024
SHUT_DOWN = "the kernel was shut down before its turn"
RESTARTED = "the kernel was restarted before its turn, and its variables are lost"


class KernelQueue:
    """Runs executions in one kernel. The kernel's own queue stays empty, so that an execution can stop at its first error."""

    def __init__(
        self,
        kernel: KernelConnection,
        interrupt: Interrupt,
        executions: Executions,
        clock: Clock,
        *,
        last_runs: LastRuns | None = None,
    ) -> None:
        """`last_runs` is shared with the queues of other kernels."""
        self.kernel = kernel
        self._last_runs = last_runs or LastRuns()
        self._interrupt = interrupt
        self._executions = executions
        self._clock = clock
        self._displays = Displays()
        self._waiting: deque[Execution] = deque()
        self._current: tuple[Execution, CellRun] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._interrupting = asyncio.Lock()
        self._is_ending = self._is_gone = False
        self._python = KnownPython(kernel)
        self._generation = 0
        self._saves = _Saves()
        self._latest: WeakValueDictionary[str, CellRun] = WeakValueDictionary()
        self._listening: deque[Execution] = deque(maxlen=REMEMBERED_RUNS)

    @property
    def displays(self) -> Displays:
        """Which outputs this kernel showed under which display id, for the writers of its runs."""
        return self._displays

    @property
    def busy(self) -> bool:
        """Whether something of ours runs or waits here."""
        # Also while the kernel is still being connected, before any code runs.
        return bool(self._waiting) or (self._worker is not None and not self._worker.done())

    @property
    def weight(self) -> int:
        """Bytes of the runs that are kept because output may still come from them."""
        return sum(run.weight for run in self._listening)

    def submit(
        self,
        principal_id: str,
        jobs: Sequence[CellJob],
        checkpoint: Checkpoint | None = None,
        *,
        keep_going: bool = False,
        needs_it: NeedsIt | None = None,
        runner: Runner | None = None,
    ) -> Execution:
        """Queue cells to run. `checkpoint` saves every few seconds while they run, and once a moment after.

        With `keep_going` the next cell runs even if one raised, but not after the kernel died or was interrupted, and not if `needs_it`
        names it as one that needs what the other defines. `runner` is told if the kernel is new since their last run; without one, the
        principal is.
        """
        if len(self._waiting) >= MAX_WAITING:
            raise LimitReached(
                f"{MAX_WAITING} executions wait for kernel {self.kernel.kernel_id} already",
                hint="Wait for some to end, or cancel them",
            )
        kernel_id, created = self.kernel.kernel_id, self._clock()
        execution = Execution(
            principal_id,
            kernel_id,
            jobs,
            self._displays,
            created=created,
            checkpoint=checkpoint,
            generation=self._generation,
            keep_going=keep_going,
            needs_it=needs_it,
            runner=runner,
        )
        execution.stops_with(lambda: self._stop(execution))
        execution.doubt = self._doubt
        # If nothing else runs, the first cell begins at once, and is shown as running by that.
        waiting = execution.cells[0 if self.busy or not self.kernel.answers else 1 :]
        self._executions.add(execution)
        self._waiting.append(execution)
        for cell in waiting:
            if cell.job.sink is not None:
                cell.job.sink.announce()
        self._ensure_worker()
        return execution

    def note_restart(self, seen_before: int, runner: Runner) -> None:
        """The server has restarted the kernel for this runner. `seen_before` is the kernel's `restarts` before that.

        Executions submitted before now relied on the old variables, and are not run.
        """
        self._generation += 1
        self._drop_waiting(RESTARTED, self._generation - 1)
        self.kernel.note_restart(seen_before)
        self._last_runs.ended_by(runner, self.kernel.kernel_id)

    @asynccontextmanager
    async def ending(self) -> AsyncGenerator[None]:
        """While the server is asked to shut the kernel down: nothing begins, and what ends has ended with the kernel.

        Jupyter interrupts a kernel before it shuts it down.
        """
        async with self._interrupting:
            self._is_ending = True
            try:
                yield
            finally:
                self._is_ending = False

    async def note_shutdown(self) -> None:
        """The server has shut the kernel down: end everything that ran or waited here, and wait for that."""
        self._is_gone = True
        self._drop_waiting(SHUT_DOWN, self._generation)
        self.kernel.note_shutdown()
        if self._worker is not None:
            await asyncio.wait([self._worker])

    async def close(self) -> None:
        """Run nothing more. Waiting executions are reported as not run; running code goes on in the kernel, unwatched."""
        tasks = [task for task in (self._worker, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._drop_waiting("the connection to the kernel was closed", self._generation)
        await self._saves.close()

    def _ensure_worker(self) -> None:
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
            self._worker.add_done_callback(self._replace_worker)

    def _replace_worker(self, worker: asyncio.Task[None]) -> None:
        # A crash in one execution, which is logged, must not leave the others waiting for ever.
        if self._waiting and not worker.cancelled():
            self._ensure_worker()

    async def _work(self) -> None:
        while self._waiting:
            execution = self._waiting.popleft()
            try:
                await self._run(execution)
            finally:
                self._current = None
                self._skip_queued(execution, "it was not reached")
                execution.finish()
                self._keep_listening(execution)

    async def _run(self, execution: Execution) -> None:
        checkpoint = execution.checkpoint
        saving = None if checkpoint is None else self._spawn(_keep_saving(execution, checkpoint))
        try:
            for cell in execution.cells:
                if (raised := execution.held_back.get(cell.job.cell_id)) is not None:
                    self._skip(cell, f"it needs what cell {raised} defines, which raised")
                    continue
                if not await self._run_cell(execution, cell):
                    self._skip_queued(execution, "an earlier cell did not end well")
                    return
        finally:
            if saving is not None:
                saving.cancel()
            if checkpoint is not None:
                self._saves.soon(execution, checkpoint)

    async def _run_cell(self, execution: Execution, cell: CellRun) -> bool:
        """Run one cell. Returns whether the next may follow."""
        # First connect: a cell must not lose its old outputs for a kernel that cannot be reached.
        try:
            await self.kernel.ready()
        except CellwrightError as error:
            cell.error = RunError(error.code, error.message, hint=error.hint)
            self._skip(cell, error.message)
            return False
        async with self._interrupting:
            # An interrupt that is under way is meant for earlier code, and must not hit this cell.
            code = None if execution.cancelled else cell.job.code()
        if self._is_gone or execution.generation != self._generation:
            self._skip(cell, SHUT_DOWN if self._is_gone else RESTARTED)
            return False
        if code is None:
            self._skip(cell, "it was cancelled" if execution.cancelled else "the cell was deleted before its turn")
            return not execution.cancelled
        self._current = (execution, cell)
        self._latest[cell.job.cell_id] = cell
        try:
            if cell.job.sink is not None:
                cell.job.sink.begin()
            reply = await self.kernel.execute(
                code,
                self._receiver(execution, cell),
                store_history=cell.job.store_history,
                stop_on_error=not execution.keep_going,
            )
        except CellwrightError as error:
            self._note_failure(execution, cell, error)
        else:
            self._note_reply(execution, cell, reply)
            await self._explain(cell)
        finally:
            self._current = None
            self._close_cell(cell)
        if execution.keep_going and cell.raised:
            execution.hold_back(cell.job.cell_id)
            return True
        return cell.state is RunStatus.DONE

    def _receiver(self, execution: Execution, cell: CellRun) -> Callable[[Message], None]:
        """Receives the messages of a cell, also late ones, as long as its result is kept or it is among the latest runs here."""
        execution_ref, cell_ref = weakref.ref(execution), weakref.ref(cell)

        def receive(message: Message) -> None:
            execution, cell = execution_ref(), cell_ref()
            if execution is not None and cell is not None:
                self._receive(execution, cell, message)

        return receive

    def _keep_listening(self, execution: Execution) -> None:
        """Keep the latest runs, for the output of threads that they left behind."""
        self._listening.append(execution)
        while len(self._listening) > 1 and self.weight > LISTENING_BYTES:
            self._listening.popleft()

    def _receive(self, execution: Execution, cell: CellRun, message: Message) -> None:
        execution.grew()
        if cell.state is RunStatus.QUEUED:
            self._note_start(execution, cell)
        cell.begun = cell.begun or message.type == "execute_input"
        if cell.state.ended and self._latest.get(cell.job.cell_id) is not cell:
            # A thread of an earlier run still prints, but the cell belongs to a later run now.
            return
        sinks = (cell.memory,) if cell.job.sink is None else (cell.memory, cell.job.sink)
        deliver(message, self._displays, *sinks)

    def _note_start(self, execution: Execution, cell: CellRun) -> None:
        cell.state = RunStatus.RUNNING
        cell.started = self._clock()
        if lost := self._last_runs.ran(execution.runner, self.kernel.life):
            execution.notes.append(lost)
        if execution.cancelled:
            self._spawn(self._stop_late(execution))

    def _doubt(self) -> str:
        seconds = self.kernel.seconds_away
        if not seconds:
            return ""
        return f"The connection to Jupyter was lost {seconds:.0f} s ago: whether this still runs is not known"

    async def _explain(self, cell: CellRun) -> None:
        """Add a hint to the error, if there is a remedy for it."""
        error = cell.error
        if error is None or cell.state is not RunStatus.ERROR:
            return
        missing = missing_package(error.name, error.value)
        hint = (
            hint_for_question(error.name) if missing is None else hint_for_missing(*missing, await self._python.get())
        )
        cell.error = replace(error, hint=hint)

    def _note_reply(self, execution: Execution, cell: CellRun, reply: ExecuteReply) -> None:
        cell.execution_count = reply.execution_count
        if reply.incomplete:
            cell.notes.append("The connection to the kernel was cut for a moment: output may be missing")
        if reply.status == "ok":
            cell.state = RunStatus.DONE
        elif reply.status == "aborted" and cell.begun:
            # Kernels of some languages report an interrupt like this.
            cell.state = RunStatus.INTERRUPTED
            cell.error = RunError("INTERRUPTED", "the kernel was interrupted while this ran")
        elif reply.status == "aborted":
            cell.state = RunStatus.NOT_RUN
            cell.error = RunError(
                "NOT_RUN",
                "the kernel dropped it, because what ran before it failed or was interrupted",
                hint="Run it again",
            )
        else:
            interrupted = execution.cancelled or reply.ename == "KeyboardInterrupt"
            if interrupted and self._is_ending:
                self._note_failure(execution, cell, kernel_gone(self.kernel.kernel_id))
                return
            cell.state = RunStatus.INTERRUPTED if interrupted else RunStatus.ERROR
            cell.raised = not interrupted
            # Bounded like an output, because results are kept, and their total counts outputs.
            content = {"ename": reply.ename, "evalue": reply.evalue, "traceback": list(reply.traceback)}
            error, _ = bounded_error(content, TRACEBACK_CHARACTERS)
            cell.error = RunError(error["ename"], error["evalue"], tuple(error["traceback"]))

    def _note_failure(self, execution: Execution, cell: CellRun, error: CellwrightError) -> None:
        cell.error = RunError(error.code, error.message, hint=error.hint)
        if isinstance(error, KernelDied | KernelGone):
            cell.state = RunStatus.DIED
            self._last_runs.ended_by(execution.runner)
            # Executions submitted after a restart that we were told of wait for the new kernel, not for this one.
            reason = SHUT_DOWN if self._is_ending else "the kernel died before its turn, and its variables are lost"
            self._drop_waiting(reason, execution.generation)
        else:
            cell.state = RunStatus.ERROR if cell.state is RunStatus.RUNNING else RunStatus.NOT_RUN

    def _close_cell(self, cell: CellRun) -> None:
        cell.ended = self._clock()
        if not cell.state.ended:
            cell.state = RunStatus.ERROR
            cell.error = RunError("INTERNAL_ERROR", "cellwright stopped watching it; the kernel may go on running it")
        if cell.job.sink is not None:
            cell.job.sink.end(cell.execution_count)
            if cell.job.sink.detached:
                cell.notes.append(f"The notebook does not show this run: {cell.job.sink.detached}")

    def _skip(self, cell: CellRun, reason: str) -> None:
        cell.state = RunStatus.NOT_RUN
        cell.ended = self._clock()
        cell.error = cell.error or RunError("NOT_RUN", reason)
        if cell.job.sink is not None:
            cell.job.sink.abandon()

    def _skip_queued(self, execution: Execution, reason: str) -> None:
        for cell in execution.cells:
            if cell.state is RunStatus.QUEUED:
                self._skip(cell, reason)

    def _drop_waiting(self, reason: str, newest_generation: int) -> None:
        """Drop the waiting executions of this generation of the kernel and of earlier ones."""
        for execution in tuple(self._waiting):
            if execution.generation <= newest_generation:
                self._drop(execution, reason)

    def _drop(self, execution: Execution, reason: str) -> None:
        self._waiting.remove(execution)
        self._skip_queued(execution, reason)
        execution.finish()

    async def _stop(self, execution: Execution) -> None:
        if execution in self._waiting:
            self._drop(execution, "it was cancelled")
            return
        async with self._interrupting:
            current = self._current
            # Before our code has begun, the kernel runs somebody else's code, which we must not interrupt.
            if current is not None and current[0] is execution and current[1].state is RunStatus.RUNNING:
                await self._interrupt()

    async def _stop_late(self, execution: Execution) -> None:
        try:
            await self._stop(execution)
        except CellwrightError as error:
            execution.notes.append(f"It was cancelled, but the interrupt failed: {error.message}")

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _keep_saving(execution: Execution, checkpoint: Checkpoint) -> None:
    while True:
        await asyncio.sleep(CHECKPOINT_EVERY)
        await _save(execution, checkpoint)


async def _save(execution: Execution, checkpoint: Checkpoint) -> None:
    try:
        await checkpoint.save()
    except CellwrightError as error:
        logger.warning("execution_checkpoint_failed execution=%s error=%s", execution.id, error)
        execution.notes.append(f"The notebook could not be saved: {error.message}")


@dataclass(frozen=True, slots=True)
class _Unsaved:
    execution: Execution
    checkpoint: Checkpoint
    deadline: float
    timer: asyncio.TimerHandle


class _Saves:
    """Saves documents after runs, once for all runs of a document that end close together, and at the latest when the queue closes."""

    def __init__(self) -> None:
        self._unsaved: dict[str, _Unsaved] = {}
        self._saving: set[asyncio.Task[None]] = set()

    def soon(self, execution: Execution, checkpoint: Checkpoint) -> None:
        """Save in a moment, or a little later if more runs follow."""
        loop = asyncio.get_running_loop()
        earlier = self._unsaved.get(checkpoint.document)
        deadline = loop.time() + CHECKPOINT_EVERY if earlier is None else earlier.deadline
        if earlier is not None:
            earlier.timer.cancel()
        timer = loop.call_at(min(loop.time() + SAVE_AFTER, deadline), self._start, checkpoint.document)
        self._unsaved[checkpoint.document] = _Unsaved(execution, checkpoint, deadline, timer)

    async def close(self) -> None:
        """Save all unsaved documents now."""
        for document in tuple(self._unsaved):
            self._start(document)
        if self._saving:
            _, late = await asyncio.wait(self._saving, timeout=LAST_SAVE_SECONDS)
            for task in late:
                task.cancel()

    def _start(self, document: str) -> None:
        unsaved = self._unsaved.pop(document)
        unsaved.timer.cancel()
        task = asyncio.create_task(_save(unsaved.execution, unsaved.checkpoint))
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)
