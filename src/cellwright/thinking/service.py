"""Thinking notebooks of one workspace: who has which, what is in them, what runs in them, and who is told."""

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
from cellwright.thinking.kernels import HeldKernels
from cellwright.thinking.model import (
    Changed,
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
from cellwright.thinking.outputs import places
from cellwright.thinking.reading import RunRecord, Text, Texts, as_format
from cellwright.thinking.rows import CELLS
from cellwright.thinking.runs import Ran, Runs, runnable
from cellwright.thinking.store import SECOND, NotebookStore
from cellwright.workers.conversions import Conversions

log = logging.getLogger(__name__)

T = TypeVar("T")
LONGEST_PAUSE = 60.0
"""Characters of a file that is read at once."""


class Thinking:
    """The service of the thinking tools. Every method takes the call, and only its principal's notebooks are ever seen."""

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
        self._held = HeldKernels(kernels, self._limits, clock, self._note_kernel, self._runs.busy)
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
        """A new notebook, blank or from a pattern; that may have the problem written into it."""
        if pattern is None:
            if problem is not None:
                raise InvalidArgument(
                    "a blank notebook has no place for a problem", hint="give a pattern, or write it into a cell"
                )
            blank = Notebook(checked_title(title or UNTITLED), checked_language(language), ())
            return await self._make(call, blank, "", session)
        template = self.pattern(pattern)
        made = template.notebook if problem is None else template.begun(problem)
        if checked_language(language) not in ("python", language_named(made.language)):
            raise InvalidArgument(
                f"{pattern} is written in {made.language}, not in {language}", hint="leave language out"
            )
        named = Notebook(checked_title(title or template.title), made.language, made.cells, made.metadata)
        return await self._make(call, named, template.name, session)

    async def import_(
        self, call: Call, content: str, format_name: str, session: str | None
    ) -> tuple[ThinkingView, list[str]]:
        """A new notebook from a file's content."""
        given = await self._conversions.read(content, format_name, call.principal.id)
        return await self.import_notebook(call, given, session)

    async def import_notebook(
        self, call: Call, given: Notebook, session: str | None = None
    ) -> tuple[ThinkingView, list[str]]:
        """A new notebook like this one, and what to know about it."""
        given, pattern = adopted(given, self.patterns)
        view = await self._make(call, given, pattern, session)
        foreign = sum(1 for cell in view.cells if cell.kind is Kind.CODE and not view.notebook.runs(cell))
        told = [f"not to be run, because not in {given.language}: {counted(foreign, 'cell')}"] if foreign else []
        return view, told

    def pattern(self, name: str) -> Pattern:
        found = self.patterns.get(name)
        if found is None:
            meant = nearest(name, list(self.patterns))
            raise InvalidArgument(
                f"there is no pattern {name[:60]!r}",
                hint=f"did you mean {meant!r}?" if meant else f"there are: {', '.join(self.patterns)}",
            )
        return found

    async def _make(self, call: Call, given: Notebook, pattern: str, session: str | None) -> ThinkingView:
        self._sweep_by_and_by()
        owner, now = call.principal.id, self._now()
        cells = cells_of(given, self._limits)
        made = new_notebook_id()

        def work(tx: Transaction) -> ThinkingNotebook:
            handle = (
                self._store.session_named(tx, owner, _session_name(call), now)
                if session is None
                else self._store.session_given(tx, owner, session, now)
            )
            language = language_named(given.language)
            notebook = ThinkingNotebook(made, handle, given.title, language, pattern, given.metadata, now, now, now)
            return self._store.create(tx, owner, notebook, cells, now)

        notebook = await self._database.write_soon(work)
        self._news.used(call, NotebookKey(owner, made), notebook.session)
        self._news.came(NotebookKey(owner, made))
        return ThinkingView(notebook, cells)

    async def close_notebook(self, call: Call, notebook_id: str) -> ThinkingNotebook:
        """Stop what runs, end its kernel, delete it."""
        key, now = self._key(call, notebook_id), self._now()
        notebook = await self._database.read(lambda tx: self._store.existing(tx, key, now))
        await self._runs.cancel(key)
        await self._held.end(key, notebook.kernel)
        await self._database.write_soon(lambda tx: rows.delete_notebook(tx, key))
        self._note_gone(key, notebook.session)
        return notebook

    # -- cells ---------------------------------------------------------------------------------------------------------------

    async def add_cell(self, call: Call, notebook_id: str, draft: CellDraft, index: int | None) -> Changed:
        def work(tx: Transaction, key: NotebookKey, notebook: ThinkingNotebook, now: int) -> Changed:
            cell = new_cell(draft, notebook.language, self._limits)
            changed, placed = self._store.insert(tx, key, notebook, cell, index, now)
            return Changed(changed, placed)

        return await self._changed(call, notebook_id, work, ())

    async def update_cell(
        self, call: Call, notebook_id: str, cell_id: str, draft: CellDraft, index: int | None
    ) -> Changed:
        def work(tx: Transaction, key: NotebookKey, notebook: ThinkingNotebook, now: int) -> Changed:
            before = self._store.cell(tx, key, cell_id)
            cell = changed_cell(before, draft, notebook.language, self._limits)
            changed, placed = self._store.replace(tx, key, notebook, cell, index, now)
            return Changed(changed, placed)

        return await self._changed(call, notebook_id, work, (cell_id,))

    async def delete_cell(self, call: Call, notebook_id: str, cell_id: str) -> ThinkingNotebook:
        def work(tx: Transaction, key: NotebookKey, notebook: ThinkingNotebook, now: int) -> ThinkingNotebook:
            return self._store.delete(tx, key, notebook, cell_id, now)

        return await self._changed(call, notebook_id, work, (cell_id,))

    async def _changed(
        self,
        call: Call,
        notebook_id: str,
        work: Callable[[Transaction, NotebookKey, ThinkingNotebook, int], T],
        cells: Sequence[str],
    ) -> T:
        key, now = self._key(call, notebook_id), self._now()

        def transaction(tx: Transaction) -> tuple[T, str]:
            notebook = self._store.existing(tx, key, now)
            return work(tx, key, notebook, now), notebook.session

        done, session = await self._database.write_soon(transaction)
        self._news.used(call, key, session)
        self._news.changed(key, cells)
        return done

    # -- running -------------------------------------------------------------------------------------------------------------

    async def run(self, call: Call, notebook_id: str, cell_id: str | None, wait: float) -> Ran:
        """Run one cell, or all that can be run until one fails; wait at most so many seconds."""
        key, now = self._key(call, notebook_id), self._now()

        def work(tx: Transaction) -> ThinkingView:
            found = self._store.existing(tx, key, now)
            self._store.touch(tx, key, now)
            return ThinkingView(found, CELLS.read(tx, key))

        view = await self._database.write_soon(work)
        notebook = view.notebook
        self._news.used(call, key, notebook.session)
        cells, skipped = runnable(view, cell_id)
        async with self._held.ready(call, key, notebook) as ready:
            run = await self.kernels.submit(call, ready.kernel, [CodeToRun(cell.id, cell.source) for cell in cells])
            following = self._runs.follow(key, run)
        self._news.changed(key, [cell.id for cell in cells])
        try:
            seen = await run.wait(wait, call.report)
        except asyncio.CancelledError:
            if not call.may_have_left:
                await asyncio.shield(run.cancel())
            raise
        if run.ended:
            await self._runs.stored(following)
            seen = run.view()
        notes = [note for note in (ready.note, *seen.notes, following.problem) if note]
        return Ran(notebook, seen, skipped, notes)

    def kernel_state(self, owner: str, notebook: ThinkingNotebook) -> str:
        """Whether its variables are there: `live`, `none` (it never ran), `gone`, or `unknown` until it is run.

        Unknown is a kernel that another process started: one before this, or beside it.
        """
        if self._held.live(NotebookKey(owner, notebook.id)):
            return "live"
        if notebook.kernel:
            return "unknown"
        return "gone" if notebook.executions else "none"

    def kernel_note(self, owner: str, notebook: ThinkingNotebook) -> str:
        """Why its variables are gone, if that is nothing it did; empty otherwise."""
        return self._held.note(NotebookKey(owner, notebook.id))

    async def owners_of_kernels(self) -> Mapping[str, str]:
        """Whose the kernels are that notebooks have, also those that another process started."""
        kept = await self._database.read(self._store.owners_of_kernels)
        return {**kept, **self._held.owners()}

    async def _note_kernel(self, key: NotebookKey, kernel: str) -> None:
        await self._database.write_soon(lambda tx: self._store.note_kernel(tx, key, kernel))

    def _note_end(self, key: NotebookKey, view: RunView) -> None:
        if view.status in (RunStatus.DONE, RunStatus.ERROR, RunStatus.INTERRUPTED):
            self._held.note_use(key)
        else:
            self._held.doubt(key, died=view.status is RunStatus.DIED)

    # -- reading: changes nothing --------------------------------------------------------------------------------------------

    async def all_of(self, call: Call) -> list[ThinkingNotebook]:
        """The caller's notebooks, last used first."""
        owner, now = call.principal.id, self._now()
        return await self._database.read(lambda tx: self._store.all_of(tx, owner, now))

    async def current(self, call: Call) -> ThinkingNotebook | None:
        """The notebook that this connection used last, else the one that was used last in its own session."""
        known = self._news.last_used(call)
        owner, now = call.principal.id, self._now()

        def work(tx: Transaction) -> tuple[list[ThinkingNotebook], str | None]:
            return self._store.all_of(tx, owner, now), self._store.session_known(tx, owner, _session_name(call))

        found, session = await self._database.read(work)
        own = next((notebook for notebook in found if notebook.session == session), None)
        return next((notebook for notebook in found if notebook.id == known), own)

    async def read(self, call: Call, notebook_id: str, session: str | None = None) -> ThinkingView:
        key, now = self._key(call, notebook_id), self._now()

        def work(tx: Transaction) -> ThinkingView:
            notebook = self._store.existing(tx, key, now, session)
            return ThinkingView(notebook, CELLS.read(tx, key))

        found = await self._database.read(work)
        return ThinkingView(found.notebook, self._runs.overlaid(key, found.cells))

    async def whole(self, call: Call, notebook_id: str) -> Notebook:
        """All of the notebook, outputs included."""
        view = await self.read(call, notebook_id)
        return view.notebook.with_cells(view.cells)

    async def views(self, call: Call, known: Mapping[str, int]) -> list[ThinkingView]:
        """The caller's notebooks with their cells, but for those of which this version (by id) is known already."""
        owner, now = call.principal.id, self._now()

        def work(tx: Transaction) -> list[ThinkingView]:
            found = [one for one in self._store.all_of(tx, owner, now) if known.get(one.id) != one.version]
            return [ThinkingView(one, CELLS.read(tx, NotebookKey(owner, one.id))) for one in found]

        return await self._database.read(work)

    async def text(
        self, call: Call, notebook_id: str, form: str, session: str | None = None
    ) -> tuple[ThinkingNotebook, Text]:
        """The notebook in one of the formats, or its `cells`, cleaned."""
        key, now = self._key(call, notebook_id), self._now()
        busy = self._runs.busy(key)

        def work(tx: Transaction) -> tuple[ThinkingNotebook, Text | None, list[Cell]]:
            notebook = self._store.existing(tx, key, now, session)
            made = None if busy else self._texts.get(key, form, notebook.version)
            return notebook, made, [] if made else CELLS.read(tx, key)

        notebook, made, cells = await self._database.read(work)
        if made is None:
            made = await as_format(
                self._conversions, notebook, self._runs.overlaid(key, cells), form, call.principal.id
            )
            if not busy:
                self._texts.put(key, form, notebook.version, made)
        return notebook, made

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

    def kept_places(self, outputs: Sequence[JsonObject]) -> Mapping[int, int]:
        """Under which number each output of a run is kept with its cell; those that are too large are not."""
        return places(outputs, self._limits.output_bytes)

    async def executions(self, call: Call, notebook_id: str | None = None) -> list[str]:
        """The runs of the caller's notebooks, or of one of them."""
        owner = call.principal.id
        found = [NotebookKey(owner, one.id) for one in await self.all_of(call) if notebook_id in (None, one.id)]
        sizes = await self._database.read(lambda tx: [rows.execution_sizes(tx, key) for key in found])
        return [execution for several in sizes for execution, _ in several]

    async def touch(self, call: Call, notebook_id: str) -> ThinkingNotebook:
        """A tool used it, though nothing in it changed."""
        key, now = self._key(call, notebook_id), self._now()

        def work(tx: Transaction) -> ThinkingNotebook:
            found = self._store.existing(tx, key, now)
            self._store.touch(tx, key, now)
            return found

        notebook = await self._database.write_soon(work)
        self._news.used(call, key, notebook.session)
        return notebook

    # -- keeping -------------------------------------------------------------------------------------------------------------

    async def keep(self, call: Call, notebook_id: str, path: str) -> tuple[ThinkingNotebook, Put]:
        """Write the notebook, outputs and all, to a place where it stays."""
        shelf = next((shelf for shelf in self._keepers if shelf.keeps(path)), None)
        if shelf is None:
            examples = " or ".join(shelf.example for shelf in self._keepers)
            raise InvalidArgument(f"{path[:80]!a} is no place to keep a notebook", hint=f"give {examples}")
        await self.touch(call, notebook_id)
        view = await self.read(call, notebook_id)
        try:
            return view.notebook, await shelf.write(call, path, view.notebook.with_cells(view.cells))
        except Conflict as taken:
            hint = "give another place: keeping overwrites nothing"
            raise Conflict(taken.message, hint=hint, details=taken.details) from taken

    # -- life ----------------------------------------------------------------------------------------------------------------

    async def sweep(self) -> int:
        """Delete what nobody used for too long, shut idle kernels down. What runs is in use. How many went."""
        now = self._now()
        running = self._runs.keys()

        def work(tx: Transaction) -> list[tuple[NotebookKey, str, str]]:
            for key in running:
                self._store.touch(tx, key, now)
            return [(gone.key, gone.session, gone.kernel) for gone in self._store.expired(tx, now)]

        gone = await self._database.write_soon(work)
        for key, session, kernel in gone:
            await self._held.end(key, kernel)
            self._note_gone(key, session)
        await self._held.end_idle()
        return len(gone)

    async def close(self) -> None:
        """Shut down the kernels and stop sweeping. The notebooks stay for their time."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await self._runs.close()
        await self._held.close()

    def _sweep_by_and_by(self) -> None:
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

    # -- small things --------------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        return int(self._clock() * SECOND)

    def _key(self, call: Call, notebook_id: str) -> NotebookKey:
        self._sweep_by_and_by()
        return NotebookKey(call.principal.id, checked_handle(notebook_id))

    def _note_gone(self, key: NotebookKey, session: str) -> None:
        self._texts.forget(key)
        self._news.went(key, session)


def _session_name(call: Call) -> str:
    """Which of the owner's sessions this is; a connection's own name opens it, so it is not written down."""
    return hashlib.sha256(call.connection.encode()).hexdigest()[:32] if call.connection else ""
