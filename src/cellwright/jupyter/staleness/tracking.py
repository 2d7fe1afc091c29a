"""The states of one notebook's cells, kept as people and agents change and run them."""

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import cast

from cellwright.jupyter.kernels.connection import KernelConnection
from cellwright.jupyter.model import CellHead, JsonObject
from cellwright.jupyter.notebooks.cellindex import CellsChanged
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.ran import KernelRuns, RanCode, RunEnd
from cellwright.jupyter.staleness.names import NamesOfCells
from cellwright.notebook.dependencies.model import CellNames
from cellwright.notebook.dependencies.states import CellState, LastRun, Missing, NotebookStates, State
from cellwright.notebook.model import Kind

SLICE = 200
"""Cells, or runs, that are worked on before others have their turn."""
COMPARED_CHARACTERS = 2_000
ALIKE = 0.6
"""How much of a text is that of another, if one was edited into the other."""
TRIES = 5
TRUST_SECONDS = 30.0
"""For how long it is believed that a notebook has no kernel, as long as nothing in it says that one runs."""
AGAIN_SECONDS = 2.0
"""After how long Jupyter is asked again for the kernel of a notebook that has one."""
NO_KERNEL = "it has no kernel now: the variables of its run are gone"
OTHER_LIFE = "it ran before the kernel was started anew"
UNHEARD = "it ran before anybody listened, and the kernel has not told of it yet"
NO_NAME = "\0"
WITH_HASH_COMMENTS = frozenset(("python", "python3", "ipython", "r", "julia", "bash", "ruby", "perl"))


@dataclass(frozen=True, slots=True)
class KernelSeen:
    """The kernel of a notebook, as far as it is known what ran in it."""

    runs: KernelRuns | None = None
    connection: KernelConnection | None = None
    none: bool = False
    """Whether there certainly is no kernel."""
    note: str = ""
    """Why nothing is known of it."""

    def is_outdated(self, age: float) -> bool:
        """Whether Jupyter has to be asked again, so many seconds after it was asked."""
        if self.connection is None or self.runs is None:
            return age > (TRUST_SECONDS if self.none else AGAIN_SECONDS)
        # Nobody tells us when a person shuts a kernel down, or gives the notebook another one.
        return not self.connection.answers or age > AGAIN_SECONDS


@dataclass(slots=True)
class _Changes:
    """What changed in a notebook since it was last looked at."""

    cells: set[str] = field(default_factory=set[str])
    order: bool = True
    every: bool = True

    def note(self, change: CellsChanged) -> None:
        self.cells |= change.cells
        self.order = self.order or change.order


class StatesOfNotebook:
    """The states of the code cells of an open notebook."""

    def __init__(self, view: LiveNotebook, names: NamesOfCells) -> None:
        self._names = names
        self._changes = _Changes()
        view.on_change(self._changes.note)
        self._states = NotebookStates()
        self._texts: dict[str, str] = {}
        """The source of each code cell for which its names stand."""
        self._broken: set[str] = set()
        """Cells that are no code, as far as we can read them."""
        self._language = ""
        self._order: Sequence[str] = ()
        self._kernel = KernelSeen()
        self._runs_version = -1
        self._fed = 0
        self._life = -1
        self._rewritten = 0
        self._confirmed: dict[str, int] = {}
        """Cells that certainly ran in this life of the kernel, with the number of the run."""
        self._of_old_life: set[str] = set()
        """Cells that showed a run when the kernel began anew, and have shown no other since: their numbers mean nothing now."""
        self._touched: set[str] = set()
        """Cells that changed since the runs were last looked at."""
        self._judged: Mapping[str, CellState] = {}
        self._told: dict[str, State] = {}
        self._counts: dict[str, int | None] = {}
        self._updating = asyncio.Lock()
        self.asked_at = -math.inf
        """When Jupyter was last asked for the notebook's kernel."""
        self.version = 0
        """Another one whenever something may be otherwise than before."""
        self.doubts_kernel = False
        """Whether a cell shows a run of which the kernel that we know of has not told: there may be another one."""

    @property
    def kernel(self) -> KernelSeen:
        """The kernel that was last looked at."""
        return self._kernel

    @property
    def is_late(self) -> bool:
        """Whether the states are still being worked out."""
        return self._updating.locked()

    @property
    def judged_count(self) -> int:
        """How many cells have been judged so far."""
        return self._states.judged_count

    def is_current(self, kernel: KernelSeen) -> bool:
        """Whether nothing has changed since the last update."""
        changes = self._changes
        quiet = not (self.is_late or changes.cells or changes.order or changes.every)
        return quiet and kernel == self._kernel and not self._has_run(kernel)

    async def update(self, view: LiveNotebook, kernel: KernelSeen, caller: str) -> None:
        """Take over what the notebook and its kernel are like now."""
        async with self._updating:
            self.doubts_kernel = False
            for _ in range(TRIES):
                await self._take_over_cells(view, caller)
                await self._take_over_runs(view, kernel, caller)
                if not (self._changes.cells or self._changes.order or self._has_run(kernel)):
                    break
            self._settle_broken()
            while not self._states.judge(SLICE):  # noqa: ASYNC110 - others have their turn between slices
                await asyncio.sleep(0)
            self._judged = self._states.states
            self.version += 1

    def state_of(self, head: CellHead, key: str) -> CellState:
        """The state of a code cell; unknown if it was changed since the last update."""
        if self._texts.get(key) != head.source:
            return CellState(State.UNKNOWN)
        if head.running:
            return CellState(State.RUNNING)
        return self._judged.get(key, CellState(State.UNKNOWN))

    @property
    def judged(self) -> Mapping[str, CellState]:
        """The states of all code cells, as they were judged last."""
        return self._judged

    def due(self, view: LiveNotebook) -> set[str]:
        """The cells that have to be run for all to be what a run from top to bottom gives."""
        return self._states.due(self._not_fresh(view), with_dependents=True)

    def due_for(self, view: LiveNotebook, key: str) -> set[str]:
        """The cells that have to be run for one to be fresh, and that cell."""
        if key not in self._texts:
            return {key}
        needed = self._states.graph.needed(key) & self._not_fresh(view)
        return self._states.due({key, *needed}, with_dependents=False)

    def _not_fresh(self, view: LiveNotebook) -> set[str]:
        heads = code_heads(view).items()
        due = {key for key, head in heads if self.state_of(head, key).state not in (State.FRESH, State.RUNNING)}
        return due & self._texts.keys()

    def note_of(self, key: str) -> str:
        """Why the state of a cell is lost or unknown."""
        return self._states.run_of(key).note

    def opaque(self, key: str) -> str:
        """Why a cell may read and write any name; empty if it may not."""
        return self._states.graph.link(key).dark if key in self._texts else ""

    def missing(self) -> Sequence[Missing]:
        return self._states.missing()

    def counts(self) -> Mapping[State, int]:
        """How many cells are in each state."""
        return {state: len(self._states.cells_in(state)) for state in State}

    def certain_dependents(self, key: str) -> set[str]:
        """The cells that certainly use what this one defines, over however many cells."""
        return self._states.graph.certain_dependents(key) if key in self._texts else set()

    def links(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        """For each code cell the names that it uses, and the cells that they come from."""
        return {key: self._states.graph.link(key).sources for key in self._order}

    def news(self) -> dict[str, State]:
        """The cells that are stale, or of which that is not known, and were not so when this was last asked."""
        stale = {key: state for state in TOLD for key in self._states.cells_in(state)}
        news = {key: state for key, state in stale.items() if self._told.get(key) is not state}
        self._told = stale
        return news

    def _has_run(self, kernel: KernelSeen) -> bool:
        """Whether anything ran of which no notice was taken yet."""
        return kernel.runs is not None and kernel.runs.version != self._runs_version

    async def _take_over_cells(self, view: LiveNotebook, caller: str) -> None:
        changes = self._changes
        language = language_of(view)
        if language != self._language:
            self._language, changes.every = language, True
        if not (changes.every or changes.cells or changes.order):
            return
        anew = changes.every or changes.order
        heads = code_heads(view) if anew else changed_heads(view, changes.cells)
        if not anew and {key for key in changes.cells if key in self._texts} != heads.keys():
            # Cells have become code, or are none any more.
            anew, heads = True, code_heads(view)
        order = list(heads) if anew else self._order
        changed = {
            key: head
            for key, head in heads.items()
            if changes.every or self._texts.get(key) != head.source or (anew and key in changes.cells)
        }
        for key in changes.cells & heads.keys():
            head = heads[key]
            if self._texts.get(key) == head.source or self._counts.get(key) != head.execution_count:
                # Not only its text: it was run again, or cleared.
                self._of_old_life.discard(key)
                self._touched.add(key)
        self._changes.cells, self._changes.order, self._changes.every = set(), False, False
        names = await self._names.read(self._language, [head.source for head in changed.values()], caller)
        await self._arrange(order, {key: names[head.source] for key, head in changed.items()})
        if order is not self._order:
            for key in self._texts.keys() - set(order):
                del self._texts[key]
                self._confirmed.pop(key, None)
                self._counts.pop(key, None)
                self._of_old_life.discard(key)
        self._texts |= {key: head.source for key, head in changed.items()}
        self._broken -= changed.keys()
        self._broken |= {key for key, head in changed.items() if names[head.source].broken}
        self._order = order
        self._note_runs(heads)

    def _settle_broken(self) -> None:
        """A text that we take for no code, and that ran all the same, is code of a newer language: it may have done anything."""
        for key in self._broken & self._texts.keys():
            run, names = self._states.run_of(key), self._states.graph.names(key)
            ran = run.state is State.FRESH and bool(run.number) and not run.failed
            if names.broken is ran:
                self._states.arrange(self._order, {key: replace(names, broken=not ran)})

    async def _arrange(self, order: Sequence[str], changed: Mapping[str, CellNames]) -> None:
        """Link the cells, a slice after the other where they are many."""
        if len(changed) > SLICE and not self._order:
            for end in range(SLICE, len(order), SLICE):
                part = order[:end]
                self._states.arrange(part, {key: changed[key] for key in part[end - SLICE :]})
                await asyncio.sleep(0)
            changed = {key: changed[key] for key in order[len(order) - (len(order) % SLICE or SLICE) :]}
        self._states.arrange(order, changed)

    async def _take_over_runs(self, view: LiveNotebook, kernel: KernelSeen, caller: str) -> None:
        before, runs = self._kernel, kernel.runs
        self._kernel = kernel
        if runs is None:
            if before != kernel:
                self._begin_life(-1)
                self._confirmed.clear()
                self._note_runs(code_heads(view))
            return
        if before.runs is runs and runs.version == self._runs_version:
            return
        self._runs_version = runs.version
        history = runs.latest()
        if before.runs is not runs or self._life != runs.life:
            self._confirmed.clear()
            if _is_certainly_new(before, kernel, self._life):
                shown = {key for key, number in self._counts.items() if number is not None}
                self._of_old_life |= shown - self._touched
        self._touched.clear()
        is_new = before.runs is not runs or (self._life, self._rewritten) != (runs.life, runs.rewritten)
        # What ran before we listened comes late, and belongs before what we know already.
        if is_new or sum(run.number <= self._states.ledger.last for run in history) != self._fed:
            self._begin_life(runs.life, runs.rewritten)
        for begin in range(self._fed, len(history), SLICE):
            news = history[begin : begin + SLICE]
            names = await self._names.read(self._language, [run.source for run in news], caller)
            for run in news:
                ran = names[run.source]
                if ran.broken and run.ended is not RunEnd.ERROR:
                    ran = replace(ran, broken=False)
                self._states.ledger.add(run.number, run.source.rstrip("\n"), ran)
            await asyncio.sleep(0)
        self._fed = len(history)
        self._note_runs(code_heads(view))

    def _begin_life(self, life: int, rewritten: int = 0) -> None:
        self._states.begin_life()
        self._life, self._rewritten, self._fed = life, rewritten, 0

    def _note_runs(self, heads: Mapping[str, CellHead]) -> None:
        runs = self._kernel.runs
        for key, head in heads.items():
            number = head.execution_count
            if number is not None and self._counts.get(key) != number and (runs is None or runs.get(number) is None):
                self.doubts_kernel = True
            self._counts[key] = number
        self._states.note_runs({key: self._last_run(key, head) for key, head in heads.items() if key in self._texts})

    def _last_run(self, key: str, head: CellHead) -> LastRun:
        number, runs = head.execution_count, self._kernel.runs
        if head.running:
            return LastRun(State.RUNNING)
        if number is None:
            return LastRun(State.NOT_RUN if has_code(head.source, self._language) else State.FRESH)
        if runs is None:
            none = self._kernel.none
            return LastRun(State.LOST, note=NO_KERNEL) if none else LastRun(State.UNKNOWN, note=self._kernel.note)
        run = runs.get(number)
        if key in self._of_old_life:
            return LastRun(State.LOST, note=OTHER_LIFE)
        if run is None:
            return LastRun(State.LOST, note=OTHER_LIFE) if runs.whole else LastRun(State.UNKNOWN, note=UNHEARD)
        return self._compared(key, head, run)

    def _compared(self, key: str, head: CellHead, run: RanCode) -> LastRun:
        """The run that the cell shows, compared with its text now."""
        if run.ran(head.source):
            if run.ended is RunEnd.RUNNING:
                return LastRun(State.RUNNING)
            self._confirmed[key] = run.number
            if run.ended is RunEnd.INTERRUPTED:
                return LastRun(State.UNKNOWN, note="it was interrupted")
            return LastRun(State.FRESH, run.number, failed=run.ended is RunEnd.ERROR or head.failed)
        if self._confirmed.get(key) == run.number or alike(run.source, head.source):
            return LastRun(State.EDITED)
        return LastRun(State.UNKNOWN, note=f"what ran as [{run.number}] in this kernel was other code")


TOLD = frozenset((State.STALE, State.UNKNOWN))
"""States of which the answer of an edit tells. Whoever edited a cell knows that it is edited."""


def _is_certainly_new(before: KernelSeen, now: KernelSeen, life: int) -> bool:
    """Whether the kernel is another one than before, or has begun anew since. A new connection alone says nothing."""
    if before.runs is None or now.runs is None or before.connection is None or now.connection is None:
        return False
    if before.runs is now.runs:
        return life != now.runs.life
    return before.connection.kernel_id != now.connection.kernel_id


def code_heads(view: LiveNotebook) -> dict[str, CellHead]:
    """The code cells by their keys: their ids, or their places where an id is not one cell's alone."""
    return {
        head.id
        if head.id and not head.id.startswith(NO_NAME) and head.id not in view.duplicate_ids
        else f"{NO_NAME}{index}": head
        for index, head in enumerate(view.heads())
        if head.cell_type == Kind.CODE
    }


def changed_heads(view: LiveNotebook, cells: Collection[str]) -> dict[str, CellHead]:
    """The code cells among these, by their keys."""
    if not all(view.has(cell_id) and not cell_id.startswith(NO_NAME) for cell_id in cells):
        # Cells without an id of their own go by their places.
        return code_heads(view)
    heads = {cell_id: view.head(view.index_of(cell_id)) for cell_id in cells}
    return {cell_id: head for cell_id, head in heads.items() if head.cell_type == Kind.CODE}


def key_at(view: LiveNotebook, index: int) -> str:
    """The key of the cell at an index."""
    cell_id = view.id_at(index)
    return cell_id if view.has(cell_id) and not cell_id.startswith(NO_NAME) else f"{NO_NAME}{index}"


def index_of(view: LiveNotebook, key: str) -> int | None:
    """Where the cell of a key stands; None if it is gone."""
    if key.startswith(NO_NAME):
        return int(key[len(NO_NAME) :])
    return view.index_of(key) if view.has(key) else None


def language_of(view: LiveNotebook) -> str:
    """The language of a notebook's code, as it says itself; Python if it says nothing."""
    metadata = view.metadata
    for part, name in (("language_info", "name"), ("kernelspec", "language")):
        value: object = metadata.get(part)
        language: object = cast("JsonObject", value).get(name) if isinstance(value, dict) else None
        if isinstance(language, str) and language:
            return language.lower()
    return "python"


def has_code(source: str, language: str) -> bool:
    """Whether there is anything to run in a cell: no comments alone."""
    comment = "#" if language in WITH_HASH_COMMENTS else "\n"
    return any(line.strip() and not line.lstrip().startswith(comment) for line in source.splitlines())


def alike(first: str, second: str) -> bool:
    """Whether one text was probably edited into the other."""
    matcher = SequenceMatcher(None, first[:COMPARED_CHARACTERS], second[:COMPARED_CHARACTERS], autojunk=False)
    return matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE
