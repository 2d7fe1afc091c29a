"""Thinking notebooks of one workspace: who has which, what is in them, what runs in them, and who is told."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from cellwright.core.arguments import nearest
from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument
from cellwright.core.formats.formats import format_named
from cellwright.core.formats.model import Book, Kind, language_named
from cellwright.core.keeping import Keeper, Kept
from cellwright.core.resources import Changes
from cellwright.core.running import CodeToRun, Kernels, RunStatus, RunView
from cellwright.core.types import Call
from cellwright.storage.database import Database, Transaction
from cellwright.thinking import rows
from cellwright.thinking.drafts import CellDraft, adopted, cells_of, changed_cell, new_cell
from cellwright.thinking.kernels import HeldKernels
from cellwright.thinking.model import (
    Cell,
    Changed,
    JsonObject,
    Key,
    Limits,
    Notebook,
    Pattern,
    View,
    checked_handle,
    checked_language,
    checked_title,
    new_notebook_id,
)
from cellwright.thinking.news import News
from cellwright.thinking.reading import Text, Texts, as_format
from cellwright.thinking.runs import Ran, Runs, runnable
from cellwright.thinking.store import SECOND, NotebookStore

log = logging.getLogger(__name__)

T = TypeVar("T")
LONGEST_PAUSE = 60.0
SHORT = 20_000
"""Characters of a file that is read at once."""


class Thinking:
    """The service of the thinking tools. Every method takes the call, and only its principal's notebooks are ever seen."""

    def __init__(
        self,
        database: Database,
        changes: Changes,
        kernels: Kernels,
        patterns: Mapping[str, Pattern],
        keepers: Sequence[Keeper] = (),
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.patterns = patterns
        self.kernels = kernels
        self._limits = limits or Limits()
        self._database = database
        self._news = News(changes)
        self._keepers = keepers
        self._clock = clock
        self._store = NotebookStore(self._limits)
        self._held = HeldKernels(kernels, self._limits, clock, self._note_kernel)
        self._runs = Runs(database, self._store, self._limits, self._now, self._news.changed, self._note_end)
        self._texts = Texts()
        self._sweeping: asyncio.Task[None] | None = None

    # -- making --------------------------------------------------------------------------------------------------------------

    async def create(
        self, call: Call, pattern: str | None, title: str | None, language: str, session: str | None
    ) -> View:
        """A new notebook, blank or from a pattern."""
        if pattern is None:
            book = Book(checked_title(title or "Untitled"), checked_language(language), ())
            return await self._make(call, book, "", session)
        template = self.pattern(pattern)
        made = template.book
        if checked_language(language) not in ("python", language_named(made.language)):
            raise InvalidArgument(
                f"{pattern} is written in {made.language}, not in {language}", hint="leave language out"
            )
        named = Book(checked_title(title or template.title), made.language, made.cells, made.metadata)
        return await self._make(call, named, template.name, session)

    async def import_(self, call: Call, content: str, format_name: str, session: str | None) -> tuple[View, list[str]]:
        """A new notebook from a file's content."""
        decode = format_named(format_name).decode
        # A long file takes its time, and others must not wait for it.
        book = decode(content) if len(content) < SHORT else await asyncio.to_thread(decode, content)
        return await self.import_book(call, book, session)

    async def import_book(self, call: Call, book: Book, session: str | None = None) -> tuple[View, list[str]]:
        """A new notebook from a book, and what to know about it."""
        book, pattern = adopted(book, self.patterns)
        view = await self._make(call, book, pattern, session)
        foreign = sum(1 for cell in view.cells if cell.kind is Kind.CODE and not view.notebook.runs(cell))
        told = [f"{foreign} cells are in other languages than {book.language} and will not be run"] if foreign else []
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

    async def _make(self, call: Call, book: Book, pattern: str, session: str | None) -> View:
        self._sweep_by_and_by()
        owner, now = call.principal.id, self._now()
        cells = cells_of(book, self._limits)
        made = new_notebook_id()

        def work(tx: Transaction) -> Notebook:
            handle = (
                self._store.session_named(tx, owner, _session_name(call), now)
                if session is None
                else self._store.session_given(tx, owner, session, now)
            )
            language = language_named(book.language)
            notebook = Notebook(made, handle, book.title, language, pattern, book.metadata, now, now, now)
            return self._store.create(tx, owner, notebook, cells, now)

        notebook = await self._database.write_soon(work)
        self._news.used(call, Key(owner, made), notebook.session)
        self._news.came(Key(owner, made))
        return View(notebook, cells)

    async def close_notebook(self, call: Call, notebook_id: str) -> Notebook:
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
        def work(tx: Transaction, key: Key, notebook: Notebook, now: int) -> Changed:
            cell = new_cell(draft, notebook.language, self._limits)
            changed, place = self._store.insert(tx, key, notebook, cell, index, now)
            return Changed(changed, cell, place)

        return await self._changed(call, notebook_id, work, ())

    async def update_cell(
        self, call: Call, notebook_id: str, cell_id: str, draft: CellDraft, index: int | None
    ) -> Changed:
        def work(tx: Transaction, key: Key, notebook: Notebook, now: int) -> Changed:
            before, _ = self._store.cell(tx, key, cell_id)
            cell = changed_cell(before, draft, notebook.language, self._limits)
            changed, place = self._store.replace(tx, key, notebook, cell, index, now)
            return Changed(changed, cell, place)

        return await self._changed(call, notebook_id, work, (cell_id,))

    async def delete_cell(self, call: Call, notebook_id: str, cell_id: str) -> Notebook:
        def work(tx: Transaction, key: Key, notebook: Notebook, now: int) -> Notebook:
            return self._store.delete(tx, key, notebook, cell_id, now)

        return await self._changed(call, notebook_id, work, (cell_id,))

    async def _changed(
        self,
        call: Call,
        notebook_id: str,
        work: Callable[[Transaction, Key, Notebook, int], T],
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

        def work(tx: Transaction) -> View:
            found = self._store.existing(tx, key, now)
            self._store.touch(tx, key, now)
            return View(found, rows.read_cells(tx, key))

        view = await self._database.write_soon(work)
        notebook = view.notebook
        self._news.used(call, key, notebook.session)
        cells, skipped = runnable(view, cell_id)
        ready = await self._held.ready(call, key, notebook)
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

    def kernel_state(self, owner: str, notebook: Notebook) -> str:
        """Whether its variables are there: `live`, `none` (it never ran), `gone`, or `unknown` until it is run.

        Unknown is a kernel that another process started: one before this, or beside it.
        """
        if self._held.live(Key(owner, notebook.id)):
            return "live"
        if notebook.kernel:
            return "unknown"
        return "gone" if notebook.executions else "none"

    async def _note_kernel(self, key: Key, kernel: str) -> None:
        await self._database.write_soon(lambda tx: self._store.note_kernel(tx, key, kernel))

    def _note_end(self, key: Key, view: RunView) -> None:
        if view.status in (RunStatus.DONE, RunStatus.ERROR, RunStatus.INTERRUPTED):
            self._held.note_use(key)
        else:
            self._held.doubt(key, died=view.status is RunStatus.DIED)

    # -- reading: changes nothing --------------------------------------------------------------------------------------------

    async def all_of(self, call: Call) -> list[Notebook]:
        """The caller's notebooks, last used first."""
        owner, now = call.principal.id, self._now()
        return await self._database.read(lambda tx: self._store.all_of(tx, owner, now))

    async def current(self, call: Call) -> Notebook | None:
        """The notebook that this connection used last, else the one that the principal used last."""
        known = self._news.last_used(call)
        found = await self.all_of(call)
        return next((one for one in found if one.id == known), found[0] if found else None)

    async def read(self, call: Call, notebook_id: str, session: str | None = None) -> View:
        key, now = self._key(call, notebook_id), self._now()

        def work(tx: Transaction) -> View:
            notebook = self._store.existing(tx, key, now, session)
            return View(notebook, rows.read_cells(tx, key))

        found = await self._database.read(work)
        return View(found.notebook, self._runs.overlaid(key, found.cells))

    async def book(self, call: Call, notebook_id: str) -> Book:
        """The notebook as a book, outputs and all."""
        view = await self.read(call, notebook_id)
        return view.notebook.book(view.cells)

    async def views(self, call: Call, known: Mapping[str, int]) -> list[View]:
        """The caller's notebooks with their cells, but for those of which this version (by id) is known already."""
        owner, now = call.principal.id, self._now()

        def work(tx: Transaction) -> list[View]:
            found = [one for one in self._store.all_of(tx, owner, now) if known.get(one.id) != one.version]
            return [View(one, rows.read_cells(tx, Key(owner, one.id))) for one in found]

        return await self._database.read(work)

    async def text(self, call: Call, notebook_id: str, form: str, session: str | None = None) -> tuple[Notebook, Text]:
        """The notebook in one of the formats, or its `cells`, cleaned."""
        key, now = self._key(call, notebook_id), self._now()
        busy = self._runs.busy(key)

        def work(tx: Transaction) -> tuple[Notebook, Text | None, list[Cell]]:
            notebook = self._store.existing(tx, key, now, session)
            made = None if busy else self._texts.get(key, form, notebook.version)
            return notebook, made, [] if made else rows.read_cells(tx, key)

        notebook, made, cells = await self._database.read(work)
        if made is None:
            made = await asyncio.to_thread(as_format, notebook, self._runs.overlaid(key, cells), form)
            if not busy:
                self._texts.put(key, form, notebook.version, made)
        return notebook, made

    async def execution(self, call: Call, notebook_id: str, execution_id: str, session: str) -> tuple[Notebook, object]:
        """A run, live or as it was stored; None if there is no such run."""
        key, now = self._key(call, notebook_id), self._now()

        def work(tx: Transaction) -> tuple[Notebook, JsonObject | None]:
            notebook = self._store.existing(tx, key, now, session)
            return notebook, rows.read_execution(tx, key, execution_id)

        notebook, stored = await self._database.read(work)
        return notebook, stored or self._runs.find(key, execution_id)

    async def executions(self, call: Call, notebook_id: str | None = None) -> list[str]:
        """The runs of the caller's notebooks, or of one of them."""
        owner = call.principal.id
        found = [Key(owner, one.id) for one in await self.all_of(call) if notebook_id in (None, one.id)]
        sizes = await self._database.read(lambda tx: [rows.execution_sizes(tx, key) for key in found])
        return [execution for several in sizes for execution, _ in several]

    async def touch(self, call: Call, notebook_id: str) -> Notebook:
        """A tool used it, though nothing in it changed."""
        key, now = self._key(call, notebook_id), self._now()

        def work(tx: Transaction) -> Notebook:
            found = self._store.existing(tx, key, now)
            self._store.touch(tx, key, now)
            return found

        notebook = await self._database.write_soon(work)
        self._news.used(call, key, notebook.session)
        return notebook

    # -- keeping -------------------------------------------------------------------------------------------------------------

    async def keep(self, call: Call, notebook_id: str, path: str) -> tuple[Notebook, Kept]:
        """Write the notebook, outputs and all, to a place where it stays."""
        keeper = next((one for one in self._keepers if one.takes(path)), None)
        if keeper is None:
            examples = " or ".join(one.example for one in self._keepers)
            raise InvalidArgument(f"{path[:80]!a} is no place to keep a notebook", hint=f"give {examples}")
        await self.touch(call, notebook_id)
        view = await self.read(call, notebook_id)
        try:
            return view.notebook, await keeper.keep(call, path, view.notebook.book(view.cells))
        except Conflict as taken:
            hint = "give another place: keeping overwrites nothing"
            raise Conflict(taken.message, hint=hint, details=taken.details) from taken

    # -- life ----------------------------------------------------------------------------------------------------------------

    async def sweep(self) -> int:
        """Delete what nobody used for too long, shut idle kernels down. What runs is in use. How many went."""
        now = self._now()
        running = self._runs.keys()

        def work(tx: Transaction) -> list[tuple[Key, str, str]]:
            for key in running:
                self._store.touch(tx, key, now)
            return [(gone.key, gone.session, gone.kernel) for gone in self._store.expired(tx, now)]

        gone = await self._database.write_soon(work)
        for key, session, kernel in gone:
            await self._held.end(key, kernel)
            self._note_gone(key, session)
        await self._held.end_idle(self._runs.busy)
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

    def _key(self, call: Call, notebook_id: str) -> Key:
        self._sweep_by_and_by()
        return Key(call.principal.id, checked_handle(notebook_id))

    def _note_gone(self, key: Key, session: str) -> None:
        self._texts.forget(key)
        self._news.went(key, session)


def _session_name(call: Call) -> str:
    """Which of the owner's sessions this is; a connection's own name opens it, so it is not written down."""
    return hashlib.sha256(call.connection.encode()).hexdigest()[:32] if call.connection else ""
