"""Runs that are under way: followed to their end, what they put out stored and told on the way."""

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
from cellwright.thinking.reading import RunRecord, execution_json
from cellwright.thinking.store import NotebookStore, no_cell

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
Announce = Callable[[NotebookKey, Sequence[str], str], None]
"""Told when cells of a notebook have something new, and in which run."""


@dataclass(eq=False, slots=True)
class Following:
    """A run of a notebook and the task that stores it."""

    key: NotebookKey
    run: Run
    stored: set[str] = field(default_factory=set[str])
    problem: str = ""
    """Why the result could not be stored, if so."""
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """What running led to so far."""

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
        self._following: dict[NotebookKey, list[Following]] = {}

    def busy(self, key: NotebookKey) -> bool:
        return key in self._following

    def keys(self) -> tuple[NotebookKey, ...]:
        return tuple(self._following)

    def find(self, key: NotebookKey, execution_id: str) -> RunView | None:
        return next((one.run.view() for one in self._following.get(key, ()) if one.run.id == execution_id), None)

    def follow(self, key: NotebookKey, run: Run) -> Following:
        following = Following(key, run)
        self._following.setdefault(key, []).append(following)
        following.task = asyncio.create_task(self._follow(following))
        return following

    async def stored(self, following: Following) -> None:
        """Wait until what has ended is stored."""
        if following.task is not None:
            await asyncio.shield(following.task)

    async def cancel(self, key: NotebookKey) -> None:
        """Stop everything that this notebook runs."""
        for following in tuple(self._following.get(key, ())):
            try:
                await following.run.cancel()
            except CellwrightError as error:
                log.info("run_not_cancelled execution=%s error=%s", following.run.id, error)

    def overlaid(self, key: NotebookKey, cells: Iterable[Cell]) -> list[Cell]:
        """The cells as they are now, with what their runs have put out and nobody has stored yet."""
        news: dict[str, CellOutcome] = {}
        for following in self._following.get(key, ()):
            news |= {one.cell_id: one for one in following.run.view().cells if one.cell_id not in following.stored}
        return [self._with(cell, news[cell.id]) if cell.id in news else cell for cell in cells]

    def _with(self, cell: Cell, outcome: CellOutcome) -> Cell:
        match outcome.status:
            case RunStatus.QUEUED:
                return replace(cell, status="queued")
            case RunStatus.NOT_RUN:
                return cell
            case _:
                return self._outcome(cell, outcome)

    def _outcome(self, cell: Cell, outcome: CellOutcome) -> Cell:
        status = {RunStatus.RUNNING: "running", RunStatus.DONE: "idle"}.get(outcome.status, "failed")
        outputs = bounded(_with_problem(outcome), self._limits.output_bytes)
        return replace(cell, status=status, outputs=outputs, execution_count=outcome.execution_count)

    async def _follow(self, following: Following) -> None:
        run, mark = following.run, None
        try:
            while not run.ended:
                await run.wait(LOOK_SECONDS)
                if not run.ended and run.mark != mark:
                    mark = run.mark
                    await self._store_ended(following, run.view())
                    self._tell(following)
            await self._store_all(following, run.view())
        except CellwrightError as error:
            log.warning("run_not_stored execution=%s error=%s", run.id, error)
            following.problem = f"The outputs could not be stored: {error.message}"
        finally:
            self._forget(following)
            self._ended(following.key, run.view())
            self._tell(following)

    def _tell(self, following: Following) -> None:
        run = following.run
        self._announce(following.key, [cell.cell_id for cell in run.view().cells], run.id)

    def _forget(self, following: Following) -> None:
        left = [one for one in self._following.get(following.key, ()) if one is not following]
        if left:
            self._following[following.key] = left
        else:
            self._following.pop(following.key, None)

    def _news(self, following: Following, view: RunView) -> list[Cell]:
        ended = [one for one in view.cells if one.status.ended and one.cell_id not in following.stored]
        return [self._outcome(_placeholder(one.cell_id), one) for one in ended if one.status is not RunStatus.NOT_RUN]

    async def _store_ended(self, following: Following, view: RunView) -> None:
        cells = self._news(following, view)
        if cells:
            now = self._now()
            await self._database.write_soon(lambda tx: self._store.note_outcomes(tx, following.key, cells, now))
            following.stored |= {cell.id for cell in cells}

    async def _store_all(self, following: Following, view: RunView) -> None:
        cells, now = self._news(following, view), self._now()
        body = self._body(view)

        def work(tx: Transaction) -> None:
            if self._store.note_outcomes(tx, following.key, cells, now):
                self._store.note_execution(tx, following.key, view.id, body, now)

        await self._database.write_soon(work)
        following.stored |= {cell.id for cell in cells}

    def _body(self, view: RunView) -> RunRecord:
        return execution_json(view, lambda cell: list(bounded(_with_problem(cell), self._limits.output_bytes)))

    async def close(self) -> None:
        """Follow no more. What has ended is stored; what still runs ends with its kernel."""
        tasks = [one.task for several in self._following.values() for one in several if one.task is not None]
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


def _placeholder(cell_id: str) -> Cell:
    return Cell(Kind.CODE, "", id=cell_id)


def _with_problem(outcome: CellOutcome) -> tuple[JsonObject, ...]:
    """A kernel that died says nothing more: its cell says it, as an error that every notebook can show."""
    problem = outcome.problem
    if problem is None or has_error(outcome.outputs) or outcome.status in (RunStatus.NOT_RUN, RunStatus.DONE):
        return outcome.outputs
    error: JsonObject = {"output_type": "error", "ename": problem.name, "evalue": problem.value, "traceback": []}
    return (*outcome.outputs, error)
