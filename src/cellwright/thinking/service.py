"""The service of thinking notebooks: makes, changes, runs, reads, keeps and expires them, and announces changes."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from cellwright.core.arguments import nearest
from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument
from cellwright.core.resources import Changes
from cellwright.core.text.counting import counted
from cellwright.core.types import Call
from cellwright.notebook.model import UNTITLED, Cell, Kind, Notebook, language_named
from cellwright.notebook.run import CodeToRun, Kernels, RunStatus, RunView
from cellwright.notebook.shelf import Put, Shelf
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Database, Transaction
from cellwright.thinking import rows
from cellwright.thinking.drafts import CellDraft, adopted, cells_of, changed_cell, new_cell
from cellwright.thinking.kernels import NotebookKernels
from cellwright.thinking.model import (
    ChangedCell,
    JsonObject,
    Pattern,
    ThinkingLimits,
    ThinkingNotebook,
    ThinkingView,
    checked_handle,
    checked_language,
    checked_title,
    new_notebook_id,
)
from cellwright.thinking.news import ThinkingNews
from cellwright.thinking.outputs import stored_numbers
from cellwright.thinking.reading import RunRecord, Text, Texts, as_format
from cellwright.thinking.rows import CELLS
from cellwright.thinking.runs import Runs, StartedRun, runnable
from cellwright.thinking.store import SECOND, ExpiredNotebook, NotebookStore
from cellwright.workers.conversions import Conversions

log = logging.getLogger(__name__)

T = TypeVar("T")
LONGEST_PAUSE = 60.0
"""Seconds between two sweeps, at most."""


class Thinking:
    """The service of the thinking tools. Its methods take the call and touch only the notebooks of the call's principal."""

    def __init__(
        self,
        database: Database,
        changes: Changes,
        kernels: Kernels,
        patterns: Mapping[str, Pattern],
        keepers: Sequence[Shelf],
        conversions: Conversions,
        *,
        limits: ThinkingLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.patterns = patterns
        self.kernels = kernels
        self._limits = limits or ThinkingLimits()
        self._database = database
        self._news = ThinkingNews(changes)
        self._keepers = keepers
        self._conversions = conversions
        self._clock = clock
        self._store = NotebookStore(self._limits)
        self._runs = Runs(database, self._store, self._limits, self._now, self._news.changed, self._note_end)
        self._notebook_kernels = NotebookKernels(kernels, self._limits, clock, self._note_kernel, self._runs.busy)
        self._texts = Texts()
        self._sweeping: asyncio.Task[None] | None = None

    # -- making --------------------------------------------------------------------------------------------------------------

    async def create(
        self,
        call: Call,
        pattern: str | None,
        title: str | None,
        language: str,
        session: str | None,
        problem: str | None = None,
    ) -> ThinkingView:
        """A new notebook, blank or from a pattern, into which the problem is written if there is one."""
        if pattern is None:
            if problem is not None:
                raise InvalidArgument(
                    "a blank notebook has no place for a problem", hint="give a pattern, or write it into a cell"
                )
            blank = Notebook(checked_title(title or UNTITLED), checked_language(language), ())
            return await self._make(call, blank, "", session)
        template = self.pattern(pattern)
        notebook = template.notebook if problem is None else template.with_problem(problem)
        if checked_language(language) not in ("python", language_named(notebook.language)):
            raise InvalidArgument(
                f"{pattern} is written in {notebook.language}, not in {language}", hint="leave language out"
            )
        titled = Notebook(checked_title(title or template.title), notebook.language, notebook.cells, notebook.metadata)
        return await self._make(call, titled, template.name, session)

    async def import_(
        self, call: Call, content: str, format_name: str, session: str | None
    ) -> tuple[ThinkingView, list[str]]:
        """A new notebook from a file's content, and notes about it."""
        notebook = await self._conversions.read(content, format_name, call.principal.id)
        return await self.import_notebook(call, notebook, session)

    async def import_notebook(
        self, call: Call, notebook: Notebook, session: str | None = None
    ) -> tuple[ThinkingView, list[str]]:
        """A new notebook like this one, and notes about it."""
        notebook, pattern = adopted(notebook, self.patterns)
        view = await self._make(call, notebook, pattern, session)
        foreign = sum(1 for cell in view.cells if cell.kind is Kind.CODE and not view.notebook.runs(cell))
        notes = [f"not to be run, because not in {notebook.language}: {counted(foreign, 'cell')}"] if foreign else []
        return view, notes

    def pattern(self, name: str) -> Pattern:
        pattern = self.patterns.get(name)
        if pattern is None:
            suggestion = nearest(name, list(self.patterns))
            raise InvalidArgument(
                f"there is no pattern {name[:60]!r}",
                hint=f"did you mean {suggestion!r}?" if suggestion else f"there are: {', '.join(self.patterns)}",
            )
        return pattern

    async def _make(self, call: Call, source: Notebook, pattern: str, session: str | None) -> ThinkingView:
        """Store a new notebook with the title, language and cells of `source`."""
        self._ensure_sweeping()
        key, now = NotebookKey(call.principal.id, new_notebook_id()), self._now()
        cells = cells_of(source, self._limits)

        def work(tx: Transaction) -> ThinkingNotebook:
            handle = (
                self._store.ensure_session(tx, key.owner, _session_name(call), now)
                if session is None
                else self._store.use_session(tx, key.owner, session, now)
            )
            language = language_named(source.language)
            notebook = ThinkingNotebook(key.id, handle, source.title, language, pattern, source.metadata, now, now, now)
            return self._store.create(tx, key.owner, notebook, cells, now)

        notebook = await self._database.write_soon(work)
        self._news.note_use(call, key, notebook.session)
        self._news.added(key)
        return ThinkingView(notebook, cells)

    async def close_notebook(self, call: Call, notebook_id: str) -> ThinkingNotebook:
        """Stop what runs, end its kernel, delete it."""
        key, now = self._key(call, notebook_id), self._now()
        notebook = await self._database.read(lambda tx: self._store.existing(tx, key, now))
        await self._runs.cancel(key)
        await self._notebook_kernels.end(key, notebook.kernel)
        await self._database.write_soon(lambda tx: rows.delete_notebook(tx, key))
        self._note_gone(key, notebook.session)
        return notebook

    # -- cells ---------------------------------------------------------------------------------------------------------------

    async def add_cell(self, call: Call, notebook_id: str, draft: CellDraft, index: int | None) -> ChangedCell:
        def work(tx: Transaction, key: NotebookKey, notebook: ThinkingNotebook, now: int) -> ChangedCell:
            cell = new_cell(draft, notebook.language, self._limits)
            return ChangedCell(*self._store.insert(tx, key, notebook, cell, index, now))

        return await self._change(call, notebook_id, work, ())

    async def update_cell(
        self, call: Call, notebook_id: str, cell_id: str, draft: CellDraft, index: int | None
    ) -> ChangedCell:
        def work(tx: Transaction, key: NotebookKey, notebook: ThinkingNotebook, now: int) -> ChangedCell:
            before = self._store.cell(tx, key, cell_id)
            cell = changed_cell(before, draft, notebook.language, self._limits)
            return ChangedCell(*self._store.replace(tx, key, notebook, cell, index, now))

        return await self._change(call, notebook_id, work, (cell_id,))

    async def delete_cell(self, call: Call, notebook_id: str, cell_id: str) -> ThinkingNotebook:
        def work(tx: Transaction, key: NotebookKey, notebook: ThinkingNotebook, now: int) -> ThinkingNotebook:
            return self._store.delete(tx, key, notebook, cell_id, now)

        return await self._change(call, notebook_id, work, (cell_id,))

    async def _change(
        self,
        call: Call,
        notebook_id: str,
        work: Callable[[Transaction, NotebookKey, ThinkingNotebook, int], T],
        cells: Sequence[str],
    ) -> T:
        """Do the work in one transaction and announce that these cells changed."""
        key, now = self._key(call, notebook_id), self._now()

        def transaction(tx: Transaction) -> tuple[T, str]:
            notebook = self._store.existing(tx, key, now)
            return work(tx, key, notebook, now), notebook.session

        result, session = await self._database.write_soon(transaction)
        self._news.note_use(call, key, session)
        self._news.changed(key, cells)
        return result

    # -- running -------------------------------------------------------------------------------------------------------------

    async def run(self, call: Call, notebook_id: str, cell_id: str | None, wait: float) -> StartedRun:
        """Run one cell, or all that can be run until one fails; wait at most so many seconds."""
        key, now = self._key(call, notebook_id), self._now()

        def work(tx: Transaction) -> ThinkingView:
            notebook = self._store.existing(tx, key, now)
            self._store.touch(tx, key, now)
            return ThinkingView(notebook, CELLS.read(tx, key))

        view = await self._database.write_soon(work)
        notebook = view.notebook
        self._news.note_use(call, key, notebook.session)
        cells, skipped = runnable(view, cell_id)
        async with self._notebook_kernels.ready(call, key, notebook) as ready:
            run = await self.kernels.submit(call, ready.kernel, [CodeToRun(cell.id, cell.source) for cell in cells])
            followed = self._runs.follow(key, run)
        self._news.changed(key, [cell.id for cell in cells])
        try:
            run_view = await run.wait(wait, call.report)
        except asyncio.CancelledError:
            if not call.may_have_left:
                await asyncio.shield(run.cancel())
            raise
        if run.ended:
            await self._runs.wait_until_stored(followed)
            run_view = run.view()
        notes = [note for note in (ready.note, *run_view.notes, followed.problem) if note]
        return StartedRun(notebook, run_view, skipped, notes)

    def kernel_state(self, owner: str, notebook: ThinkingNotebook) -> str:
        """Whether the notebook's variables are there: `live`, `none` (it never ran), `gone`, or `unknown` until it is run.

        A kernel is unknown if another process started it, before this one or beside it.
        """
        if self._notebook_kernels.live(NotebookKey(owner, notebook.id)):
            return "live"
        if notebook.kernel:
            return "unknown"
        return "gone" if notebook.executions else "none"

    def kernel_note(self, owner: str, notebook: ThinkingNotebook) -> str:
        """Why the notebook's variables are gone, if its kernel had to make room for another; empty otherwise."""
        return self._notebook_kernels.note(NotebookKey(owner, notebook.id))

    async def owners_of_kernels(self) -> Mapping[str, str]:
        """The owner of each kernel that a notebook has, also of those that another process started."""
        stored = await self._database.read(self._store.owners_of_kernels)
        return {**stored, **self._notebook_kernels.owners()}

    async def _note_kernel(self, key: NotebookKey, kernel: str) -> None:
        await self._database.write_soon(lambda tx: self._store.note_kernel(tx, key, kernel))

    def _note_end(self, key: NotebookKey, view: RunView) -> None:
        if view.status in (RunStatus.DONE, RunStatus.ERROR, RunStatus.INTERRUPTED):
            self._notebook_kernels.note_use(key)
        else:
            self._notebook_kernels.doubt(key, died=view.status is RunStatus.DIED)

    # -- reading: changes nothing --------------------------------------------------------------------------------------------

    async def all_of(self, call: Call) -> list[ThinkingNotebook]:
        """The caller's notebooks, last used first."""
        owner, now = call.principal.id, self._now()
        return await self._database.read(lambda tx: self._store.all_of(tx, owner, now))

    async def current(self, call: Call) -> ThinkingNotebook | None:
        """The notebook that this connection used last, else the one that was used last in its own session."""
        last_used = self._news.last_used(call)
        owner, now = call.principal.id, self._now()

        def work(tx: Transaction) -> tuple[list[ThinkingNotebook], str | None]:
            return self._store.all_of(tx, owner, now), self._store.find_session(tx, owner, _session_name(call))

        notebooks, session = await self._database.read(work)
        own = next((notebook for notebook in notebooks if notebook.session == session), None)
        return next((notebook for notebook in notebooks if notebook.id == last_used), own)

    async def read(self, call: Call, notebook_id: str, session: str | None = None) -> ThinkingView:
        key, now = self._key(call, notebook_id), self._now()

        def work(tx: Transaction) -> ThinkingView:
            notebook = self._store.existing(tx, key, now, session)
            return ThinkingView(notebook, CELLS.read(tx, key))

        stored = await self._database.read(work)
        return ThinkingView(stored.notebook, self._runs.with_live_outputs(key, stored.cells))

    async def notebook(self, call: Call, notebook_id: str) -> Notebook:
        """The notebook with its cells and their outputs."""
        view = await self.read(call, notebook_id)
        return view.notebook.with_cells(view.cells)

    async def views(self, call: Call, known_versions: Mapping[str, int]) -> list[ThinkingView]:
        """The caller's notebooks with their cells, without those whose version the caller knows; `known_versions` is by id."""
        owner, now = call.principal.id, self._now()

        def work(tx: Transaction) -> list[ThinkingView]:
            return [
                ThinkingView(notebook, CELLS.read(tx, NotebookKey(owner, notebook.id)))
                for notebook in self._store.all_of(tx, owner, now)
                if known_versions.get(notebook.id) != notebook.version
            ]

        return await self._database.read(work)

    async def text(
        self, call: Call, notebook_id: str, form: str, session: str | None = None
    ) -> tuple[ThinkingNotebook, Text]:
        """The notebook in one of the formats, or its `cells`, cleaned."""
        key, now = self._key(call, notebook_id), self._now()
        busy = self._runs.busy(key)

        def work(tx: Transaction) -> tuple[ThinkingNotebook, Text | None, list[Cell]]:
            notebook = self._store.existing(tx, key, now, session)
            text = None if busy else self._texts.get(key, form, notebook.version)
            return notebook, text, [] if text else CELLS.read(tx, key)

        notebook, text, cells = await self._database.read(work)
        if text is None:
            current = self._runs.with_live_outputs(key, cells)
            text = await as_format(self._conversions, notebook, current, form, call.principal.id)
            if not busy:
                self._texts.put(key, form, notebook.version, text)
        return notebook, text

    async def execution(
        self, call: Call, notebook_id: str, execution_id: str, session: str
    ) -> tuple[ThinkingNotebook, RunRecord | RunView | None]:
        """A run, live or as it was stored; None if there is no such run."""
        key, now = self._key(call, notebook_id), self._now()

        def work(tx: Transaction) -> tuple[ThinkingNotebook, RunRecord | None]:
            notebook = self._store.existing(tx, key, now, session)
            return notebook, rows.read_execution(tx, key, execution_id)

        notebook, stored = await self._database.read(work)
        return notebook, stored or self._runs.find(key, execution_id)

    def stored_numbers(self, outputs: Sequence[JsonObject]) -> Mapping[int, int]:
        """The number under which each output of a run is stored with its cell. Outputs that are too large are not stored."""
        return stored_numbers(outputs, self._limits.output_bytes)

    async def executions(self, call: Call, notebook_id: str | None = None) -> list[str]:
        """The runs of the caller's notebooks, or of one of them."""
        owner = call.principal.id
        notebooks = await self.all_of(call)
        keys = [NotebookKey(owner, notebook.id) for notebook in notebooks if notebook_id in (None, notebook.id)]
        sizes = await self._database.read(lambda tx: [rows.execution_sizes(tx, key) for key in keys])
        return [execution for of_notebook in sizes for execution, _ in of_notebook]

    async def touch(self, call: Call, notebook_id: str) -> ThinkingNotebook:
        """Note that a tool used the notebook, though nothing in it changed."""
        key, now = self._key(call, notebook_id), self._now()

        def work(tx: Transaction) -> ThinkingNotebook:
            notebook = self._store.existing(tx, key, now)
            self._store.touch(tx, key, now)
            return notebook

        notebook = await self._database.write_soon(work)
        self._news.note_use(call, key, notebook.session)
        return notebook

    # -- keeping -------------------------------------------------------------------------------------------------------------

    async def keep(self, call: Call, notebook_id: str, path: str) -> tuple[ThinkingNotebook, Put]:
        """Write the notebook with its outputs to a place where it stays."""
        shelf = next((shelf for shelf in self._keepers if shelf.keeps(path)), None)
        if shelf is None:
            examples = " or ".join(shelf.example for shelf in self._keepers)
            raise InvalidArgument(f"{path[:80]!a} is no place to keep a notebook", hint=f"give {examples}")
        await self.touch(call, notebook_id)
        view = await self.read(call, notebook_id)
        try:
            return view.notebook, await shelf.write(call, path, view.notebook.with_cells(view.cells))
        except Conflict as conflict:
            hint = "give another place: keeping overwrites nothing"
            raise Conflict(conflict.message, hint=hint, details=conflict.details) from conflict

    # -- life ----------------------------------------------------------------------------------------------------------------

    async def sweep(self) -> int:
        """Delete notebooks that nobody used for too long, and shut idle kernels down. A notebook that runs is in use.

        Returns how many notebooks were deleted.
        """
        now = self._now()
        running = self._runs.keys()

        def work(tx: Transaction) -> list[ExpiredNotebook]:
            for key in running:
                self._store.touch(tx, key, now)
            return self._store.delete_expired(tx, now)

        expired = await self._database.write_soon(work)
        for notebook in expired:
            await self._notebook_kernels.end(notebook.key, notebook.kernel)
            self._note_gone(notebook.key, notebook.session)
        await self._notebook_kernels.end_idle()
        return len(expired)

    async def close(self) -> None:
        """Shut down the kernels and stop sweeping. The notebooks stay for their time."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await self._runs.close()
        await self._notebook_kernels.close()

    def _ensure_sweeping(self) -> None:
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._keep_sweeping())

    async def _keep_sweeping(self) -> None:
        pause = min(LONGEST_PAUSE, self._limits.ttl / 10, self._limits.kernel_idle / 10)
        while True:
            await asyncio.sleep(max(pause, 0.05))
            try:
                await self.sweep()
            except CellwrightError as error:
                log.warning("notebooks_not_swept error=%s", error)

    # -- helpers -------------------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        return int(self._clock() * SECOND)

    def _key(self, call: Call, notebook_id: str) -> NotebookKey:
        self._ensure_sweeping()
        return NotebookKey(call.principal.id, checked_handle(notebook_id))

    def _note_gone(self, key: NotebookKey, session: str) -> None:
        self._texts.forget(key)
        self._news.removed(key, session)


def _session_name(call: Call) -> str:
    """The name of the call's session among its owner's. It is hashed, because a connection's own name opens the connection."""
    return hashlib.sha256(call.connection.encode()).hexdigest()[:32] if call.connection else ""
