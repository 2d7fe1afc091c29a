"""One reproduction: the cells of a copy run from top to bottom in a clean kernel, each compared with what is kept of it."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from cellwright.core.errors import CellwrightError
from cellwright.core.types import ReportProgress
from cellwright.core.weight import characters_in, weight
from cellwright.jupyter.connected import Connected
from cellwright.jupyter.kernels.executions import (
    INTERRUPT_GRACE,
    PROGRESS_EVERY,
    PROGRESS_LINE,
    CellJob,
    CellRun,
    CellRunView,
    Clock,
    Execution,
)
from cellwright.jupyter.kernels.interpreter import KernelMemory
from cellwright.jupyter.kernels.request import KernelDied
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.reproducing.clean_kernel import CleanKernel, clean_kernel
from cellwright.jupyter.reproducing.copies import CopiedCell, Injection, NotebookCopy
from cellwright.jupyter.reproducing.explaining import explained
from cellwright.jupyter.reproducing.findings import Cost, Finding, Verdict, judged
from cellwright.notebook.outputs import PICTURES, Output, has_error, is_data
from cellwright.notebook.reproducing.jobs import compare, comparison_of
from cellwright.notebook.reproducing.values import Comparison, unknown
from cellwright.notebook.run import RunStatus
from cellwright.workers.pool import SMALL, WorkerPool

LONGEST_SECONDS = 86_400.0
"""A kernel that nobody sees must not run for ever."""
COMPARED_CHARACTERS = 64 * 1024 * 1024
HELD_BYTES = 32 * 1024 * 1024
"""Of the outputs of cells that have run: a later cell may still change them, as the displays of other cells are."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a notebook is to be reproduced."""

    kernel_name: str | None = None
    tolerance: float | None = None
    stop_on_error: bool = True
    injection: Injection | None = None


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """The kernel in which a notebook was reproduced, in its own words."""

    id: str
    name: str
    language: str = ""
    version: str = ""
    interpreter: str = ""


@dataclass(slots=True)
class _Ran:
    """A cell that has run, and whose outputs may still be changed by a later one."""

    execution: Execution
    position: int
    compared: tuple[Output, ...]


class Reproduction:
    """A reproduction with an id and an owner. It goes on after the request that started it, and can be cancelled."""

    def __init__(
        self,
        principal_id: str,
        copy: NotebookCopy,
        wishes: Wishes,
        connected: Connected,
        pool: WorkerPool,
        clock: Clock,
    ) -> None:
        self.id = f"repro_{secrets.token_hex(8)}"
        self.principal_id = principal_id
        self.copy = copy
        self.wishes = wishes
        self.created = clock()
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self.kernel: KernelFacts | None = None
        self.peak_memory: int | None = None
        self.cancelled = False
        self.failure: CellwrightError | None = None
        """Why nothing could be run."""
        self._connected = connected
        self._pool = pool
        self._clock = clock
        self._ended_at: datetime | None = None
        self._over = asyncio.Event()
        self._running: Execution | None = None
        self._memory = KernelMemory(None, None)
        self._held: list[_Ran] = []
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False
        self._why_not_run = ""

    @property
    def ended(self) -> bool:
        return self._over.is_set()

    @property
    def ended_at(self) -> datetime | None:
        return self._ended_at

    @property
    def weight(self) -> int:
        """Bytes in memory."""
        return weight([(finding.reasons, finding.diff, finding.hint, finding.cell.source) for finding in self.findings])

    @property
    def complete(self) -> bool:
        """Whether every cell has run that a run from top to bottom reaches."""
        return self.ended and not self.cancelled and self.failure is None

    @property
    def total(self) -> int:
        return len(self.copy.cells)

    @property
    def seconds(self) -> float:
        return ((self._ended_at or self._clock()) - self.created).total_seconds()

    def start(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def wait(self, timeout: float, report: ReportProgress | None = None) -> None:  # noqa: ASYNC109
        """Wait until it has ended, at most `timeout` seconds. Ending the wait does not end the work."""
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
                    await report(len(self.findings) + ticks / (ticks + 10), self.total, progress)
        if self.ended and self._task is not None and self._task.done() and not self._task.cancelled():
            # A crash is raised where its result is waited for.
            self._task.result()

    async def cancel(self, grace: float = INTERRUPT_GRACE) -> None:
        """End it with its kernel, and wait a little for that."""
        # While its kernel is being ended nothing is left to cancel but that.
        if not (self.ended or self.cancelled or self._is_ending) and self._task is not None:
            self.cancelled = True
            self._task.cancel()
        await self.wait(grace)

    def _progress(self) -> str:
        if self.kernel is None:
            return "starting a clean kernel"
        number = min(len(self.findings) + 1, self.total)
        line = self._running.cells[0].memory.last_line.strip()[:PROGRESS_LINE] if self._running is not None else ""
        return f"cell {number} of {self.total}: {line}" if line else f"cell {number} of {self.total}"

    # -- the work ------------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        try:
            async with (
                asyncio.timeout(LONGEST_SECONDS),
                clean_kernel(
                    self._connected, self.wishes.kernel_name, self.copy.path, self._note_kernel, self.notes.append
                ) as kernel,
            ):
                try:
                    await self._introduce(kernel)
                    await self._run_all(kernel)
                    await self._compare_changed()
                finally:
                    self._is_ending = True
        except asyncio.CancelledError:
            if not self.cancelled:
                raise
        except TimeoutError:
            self.notes.append(f"it was ended after {LONGEST_SECONDS / 3600:.0f} hours")
            self.cancelled = True
        except CellwrightError as error:
            self.failure = error
        finally:
            self._finish()

    def _note_kernel(self, kernel_id: str) -> None:
        self.kernel = KernelFacts(kernel_id, self.wishes.kernel_name or "")

    async def _introduce(self, kernel: CleanKernel) -> None:
        await kernel.introduce()
        python = kernel.python
        self.kernel = KernelFacts(
            kernel.info.id,
            kernel.info.name,
            kernel.language,
            kernel.version,
            python.executable if python is not None else "",
        )
        self._note_memory(await kernel.memory())

    def _note_memory(self, memory: KernelMemory) -> None:
        self._memory = memory
        self.peak_memory = max(filter(None, (memory.peak, memory.now, self.peak_memory)), default=None)

    async def _run_all(self, kernel: CleanKernel) -> None:
        injection = self.wishes.injection
        for position, cell in enumerate(self.copy.cells):
            if injection is not None and injection.before == position:
                await self._inject(kernel, injection.code)
            if not await self._run_cell(kernel, cell, position):
                return
        if injection is not None and injection.before == self.total:
            await self._inject(kernel, injection.code)

    async def _inject(self, kernel: CleanKernel, code: str) -> None:
        execution = kernel.queue.submit(self.principal_id, [CellJob(lambda: code)])
        view = (await execution.wait(LONGEST_SECONDS)).cells[0]
        if view.state is not RunStatus.DONE:
            self.notes.append(
                f"the parameters could not be set: {view.error.value if view.error else view.state.value}"
            )

    async def _run_cell(self, kernel: CleanKernel, cell: CopiedCell, position: int) -> bool:
        """Run one cell and compare. Returns whether the next may follow."""
        before = self._memory.now
        execution = kernel.queue.submit(self.principal_id, [CellJob(lambda: cell.source, cell.id)])
        self._running = execution
        view = (await execution.wait(LONGEST_SECONDS)).cells[0]
        run = execution.cells[0]
        if view.state in (RunStatus.DONE, RunStatus.ERROR):
            self._note_memory(await kernel.memory())
        after = self._memory.now
        growth = after - before if after is not None and before is not None else None
        seconds = (view.ended - view.started).total_seconds() if view.started and view.ended else None
        finding = await self._finding(cell, view, run, Cost(seconds, after, growth))
        self.findings.append(finding)
        self._running = None
        self._hold(execution, position, view.outputs)
        if view.state is RunStatus.DONE:
            return True
        return run.raised and (cell.may_raise or not self.wishes.stop_on_error)

    def _hold(self, execution: Execution, position: int, compared: tuple[Output, ...]) -> None:
        self._held.append(_Ran(execution, position, compared))
        while len(self._held) > 1 and sum(ran.execution.weight for ran in self._held) > HELD_BYTES:
            self._held.pop(0)

    async def _compare_changed(self) -> None:
        """Compare again the cells whose outputs were changed after they had run."""
        for ran in self._held:
            view = ran.execution.view().cells[0]
            if view.outputs != ran.compared:
                finding = self.findings[ran.position]
                self.findings[ran.position] = await self._finding(
                    finding.cell, view, ran.execution.cells[0], finding.cost
                )

    async def _finding(self, cell: CopiedCell, view: CellRunView, run: CellRun, cost: Cost) -> Finding:
        if view.state is not RunStatus.DONE and not run.raised:
            return self._cut_short(cell, view, cost)
        compared, diff = await self._compared(cell, view)
        verdict = judged(cell, compared, raised=run.raised, kept_error=has_error(cell.outputs))
        error = view.error if run.raised else None
        reasons = compared.reasons if verdict is not Verdict.NO_OUTPUT_KEPT else ()
        finding = Finding(cell, verdict, (*reasons, *view.notes), diff, cost=cost)
        return replace(finding, hint=explained(self.copy, finding, error, self.kernel.version if self.kernel else ""))

    def _cut_short(self, cell: CopiedCell, view: CellRunView, cost: Cost) -> Finding:
        """The cell did not end by itself. That its code ended the kernel says something of the notebook, all else does not."""
        name, message, hint = view.state.value, view.state.value, ""
        if view.error is not None:
            name, message, hint = view.error.name, view.error.value, view.error.hint
        if name == KernelDied.code:
            return Finding(cell, Verdict.ERROR, (message,), hint=hint, cost=cost)
        self._why_not_run = "the run was cut short above"
        return Finding(cell, Verdict.UNKNOWN, (message,), hint=hint, cost=cost)

    async def _compared(self, cell: CopiedCell, view: CellRunView) -> tuple[Comparison, str]:
        if view.omitted:
            return unknown(f"it put out more than is kept of one run: {view.omitted} are missing"), ""
        outputs = cast("list[JsonObject]", list(view.outputs))
        size = characters_in([list(cell.outputs), outputs], COMPARED_CHARACTERS)
        if size > COMPARED_CHARACTERS:
            return unknown("outputs that are too large to be compared"), ""
        if any(map(_has_picture, (*cell.outputs, *outputs))):
            # Never a small job, however few bytes it has: decoded, a picture may take much memory.
            size = max(size, SMALL)
        now = self._clock()
        try:
            answer = await self._pool.run(
                compare,
                size=size,
                caller=self.principal_id,
                kept=list(cell.outputs),
                new=outputs,
                tolerance=self.wishes.tolerance,
                began=(view.started or now).isoformat(),
                now=now.isoformat(),
            )
        except CellwrightError as error:
            return unknown(error.message), ""
        return comparison_of(answer)

    def _finish(self) -> None:
        reached = len(self.findings)
        why = ("it was cancelled",) if self.cancelled else (self._why_not_run,) if self._why_not_run else ()
        self.findings += [Finding(cell, Verdict.NOT_RUN, why) for cell in self.copy.cells[reached:]]
        # What the report needs of the copy is small; the outputs are not.
        cells = [replace(cell, outputs=()) for cell in self.copy.cells]
        self.copy = replace(self.copy, cells=cells)
        self.findings = [replace(found, cell=cell) for found, cell in zip(self.findings, cells, strict=True)]
        self._held.clear()
        self._running = None
        self._ended_at = self._clock()
        self._over.set()


def _has_picture(output: Mapping[str, object] | Output) -> bool:
    value = cast("Output", output)
    return is_data(value) and any(mime in PICTURES for mime in value["data"])
