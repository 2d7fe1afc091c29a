"""Follows runs to their end; stores and announces their outputs on the way."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from cellwright.core.errors import CellwrightError, InvalidArgument
from cellwright.notebook.model import Cell, Kind
from cellwright.notebook.outputs import has_error
from cellwright.notebook.run import CellOutcome, Run, RunStatus, RunView
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Database, Transaction
from cellwright.thinking.model import JsonObject, ThinkingLimits, ThinkingNotebook, ThinkingView
from cellwright.thinking.outputs import bounded
from cellwright.thinking.reading import execution_json
from cellwright.thinking.store import NotebookStore, no_cell

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
Announce = Callable[[NotebookKey, Sequence[str], str], None]
"""Called with a notebook, the ids of its cells that have new outputs, and the id of the run."""


@dataclass(eq=False, slots=True)
class FollowedRun:
    """A run of a notebook and the task that stores its outputs."""

    key: NotebookKey
    run: Run
    stored_cells: set[str] = field(default_factory=set[str])
    problem: str = ""
    """Why the outputs could not be stored; empty if they were."""
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run as it stands when its caller stops waiting for it."""

    notebook: ThinkingNotebook
    view: RunView
    skipped: list[str]
    notes: list[str]


class Runs:
    def __init__(
        self,
        database: Database,
        store: NotebookStore,
        limits: ThinkingLimits,
        now: Callable[[], int],
        announce: Announce,
        ended: Callable[[NotebookKey, RunView], None],
    ) -> None:
        self._database = database
        self._store = store
        self._limits = limits
        self._now = now
        self._announce = announce
        self._ended = ended
        self._followed: dict[NotebookKey, list[FollowedRun]] = {}

    def busy(self, key: NotebookKey) -> bool:
        return key in self._followed

    def keys(self) -> tuple[NotebookKey, ...]:
        return tuple(self._followed)

    def find(self, key: NotebookKey, execution_id: str) -> RunView | None:
        runs = (followed.run for followed in self._followed.get(key, ()))
        return next((run.view() for run in runs if run.id == execution_id), None)

    def follow(self, key: NotebookKey, run: Run) -> FollowedRun:
        followed = FollowedRun(key, run)
        self._followed.setdefault(key, []).append(followed)
        followed.task = asyncio.create_task(self._follow(followed))
        return followed

    async def wait_until_stored(self, followed: FollowedRun) -> None:
        """Wait until the outputs of a run that has ended are stored."""
        if followed.task is not None:
            await asyncio.shield(followed.task)

    async def cancel(self, key: NotebookKey) -> None:
        """Stop everything that this notebook runs."""
        for followed in tuple(self._followed.get(key, ())):
            try:
                await followed.run.cancel()
            except CellwrightError as error:
                log.info("run_not_cancelled execution=%s error=%s", followed.run.id, error)

    def with_live_outputs(self, key: NotebookKey, cells: Iterable[Cell]) -> list[Cell]:
        """The cells as they are now, with the outputs of running cells that are not stored yet."""
        outcomes: dict[str, CellOutcome] = {}
        for followed in self._followed.get(key, ()):
            outcomes |= {
                outcome.cell_id: outcome
                for outcome in followed.run.view().cells
                if outcome.cell_id not in followed.stored_cells
            }
        return [self._live_cell(cell, outcomes[cell.id]) if cell.id in outcomes else cell for cell in cells]

    def _live_cell(self, cell: Cell, outcome: CellOutcome) -> Cell:
        match outcome.status:
            case RunStatus.QUEUED:
                return replace(cell, status="queued")
            case RunStatus.NOT_RUN:
                return cell
            case _:
                return self._with_outcome(cell, outcome)

    def _with_outcome(self, cell: Cell, outcome: CellOutcome) -> Cell:
        status = {RunStatus.RUNNING: "running", RunStatus.DONE: "idle"}.get(outcome.status, "failed")
        outputs = bounded(_with_problem(outcome), self._limits.output_bytes)
        return replace(cell, status=status, outputs=outputs, execution_count=outcome.execution_count)

    async def _follow(self, followed: FollowedRun) -> None:
        run, mark = followed.run, None
        try:
            while not run.ended:
                await run.wait(LOOK_SECONDS)
                if not run.ended and run.mark != mark:
                    mark = run.mark
                    await self._store_ended(followed, run.view())
                    self._announce_outputs(followed)
            await self._store_all(followed, run.view())
        except CellwrightError as error:
            log.warning("run_not_stored execution=%s error=%s", run.id, error)
            followed.problem = f"The outputs could not be stored: {error.message}"
        finally:
            self._forget(followed)
            self._ended(followed.key, run.view())
            self._announce_outputs(followed)

    def _announce_outputs(self, followed: FollowedRun) -> None:
        run = followed.run
        self._announce(followed.key, [cell.cell_id for cell in run.view().cells], run.id)

    def _forget(self, followed: FollowedRun) -> None:
        remaining = [run for run in self._followed.get(followed.key, ()) if run is not followed]
        if remaining:
            self._followed[followed.key] = remaining
        else:
            self._followed.pop(followed.key, None)

    def _unstored_cells(self, followed: FollowedRun, view: RunView) -> list[Cell]:
        """The cells that have ended and are not stored yet. Only their ids and outcomes are set."""
        return [
            self._with_outcome(Cell(Kind.CODE, "", id=outcome.cell_id), outcome)
            for outcome in view.cells
            if outcome.status.ended
            and outcome.status is not RunStatus.NOT_RUN
            and outcome.cell_id not in followed.stored_cells
        ]

    async def _store_ended(self, followed: FollowedRun, view: RunView) -> None:
        cells = self._unstored_cells(followed, view)
        if cells:
            now = self._now()
            await self._database.write_soon(lambda tx: self._store.note_outcomes(tx, followed.key, cells, now))
            followed.stored_cells |= {cell.id for cell in cells}

    async def _store_all(self, followed: FollowedRun, view: RunView) -> None:
        cells, now = self._unstored_cells(followed, view), self._now()
        record = execution_json(view, lambda cell: list(bounded(_with_problem(cell), self._limits.output_bytes)))

        def work(tx: Transaction) -> None:
            if self._store.note_outcomes(tx, followed.key, cells, now):
                self._store.note_execution(tx, followed.key, view.id, record, now)

        await self._database.write_soon(work)
        followed.stored_cells |= {cell.id for cell in cells}

    async def close(self) -> None:
        """Follow no more. What has ended is stored; what still runs ends with its kernel."""
        tasks = [followed.task for runs in self._followed.values() for followed in runs if followed.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def runnable(view: ThinkingView, cell_id: str | None) -> tuple[list[Cell], list[str]]:
    """The cells to run, and those that this notebook's kernel cannot run."""
    notebook = view.notebook
    if cell_id is None:
        code = [cell for cell in view.cells if cell.kind is Kind.CODE]
        cells = [cell for cell in code if notebook.runs(cell)]
        if not cells:
            raise InvalidArgument("the notebook has no code cell to run", hint="notebook_add_cell adds one")
        return cells, [cell.id for cell in code if not notebook.runs(cell)]
    cell = next((cell for cell in view.cells if cell.id == cell_id), None)
    if cell is None:
        raise no_cell(cell_id)
    if cell.kind is not Kind.CODE:
        raise InvalidArgument(
            f"cell {cell_id} is {cell.kind.value}, not code: there is nothing to run",
            hint="only code cells run; notebook_add_cell adds one",
        )
    if not notebook.runs(cell):
        raise InvalidArgument(
            f"cell {cell_id} is {cell.language}, but a notebook has one kernel and this one's is {notebook.language}",
            hint=f"notebook_create(language={cell.language!r}) makes a notebook for it",
        )
    return [cell], []


def _with_problem(outcome: CellOutcome) -> tuple[JsonObject, ...]:
    """The outputs of a cell. If its kernel died without a word, an error output that every notebook can show says so."""
    problem = outcome.problem
    if problem is None or has_error(outcome.outputs) or outcome.status in (RunStatus.NOT_RUN, RunStatus.DONE):
        return outcome.outputs
    error: JsonObject = {"output_type": "error", "ename": problem.name, "evalue": problem.value, "traceback": []}
    return (*outcome.outputs, error)
