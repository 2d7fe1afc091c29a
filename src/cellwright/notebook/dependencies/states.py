"""What each code cell's output is worth: whether a run of the notebook from top to bottom would give it again, and if not, why."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cellwright.notebook.dependencies.graph import CellGraph
from cellwright.notebook.dependencies.ledger import RunLedger
from cellwright.notebook.dependencies.linking import GIVEN
from cellwright.notebook.dependencies.model import CellNames


class State(StrEnum):
    """The state of a code cell."""

    FRESH = "fresh"
    EDITED = "edited"
    """Its text is not what ran."""
    STALE = "stale"
    """What it uses was edited, run again or changed since."""
    NOT_RUN = "not run"
    LOST = "lost"
    """It ran in a kernel that is gone, or before the kernel was restarted."""
    RUNNING = "running"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LastRun:
    """What is known of a cell's own run, without a look at others."""

    state: State
    """FRESH if what ran is its present text."""
    number: int = 0
    """The kernel's number of the run, if the kernel still knows it."""
    failed: bool = False
    note: str = ""
    """Why its state is unknown or lost."""


class Why(StrEnum):
    """Why a cell is stale, or why that is not known. The words are filled with a name and another cell."""

    EDITED = "{name} comes from {cell}, which was edited since it ran"
    NOT_RUN = "{name} comes from {cell}, which has not run"
    LOST = "{name} comes from {cell}, which has not run in this kernel"
    RUNNING = "{name} comes from {cell}, which is running"
    RAN_SINCE = "{name} comes from {cell}, which ran again since"
    RAN_TWICE = "it changes {name}, which an earlier run of it had changed already"
    OTHER_WRITER = "{name} was last changed by {cell} when it ran"
    OTHER_CODE = "{name} was last changed by code that stands in no cell now"
    NOT_WRITTEN = "{name} comes from {cell}, but was not there when this ran"
    BELOW = "{name} comes from {cell}, which stands below"
    GONE = "{name} comes from code that stands in no cell now"
    STALE = "{name} comes from {cell}, which is stale"
    FAILED = "{name} comes from {cell}, which failed"
    DOUBTFUL = "{name} comes from {cell}, of which that is not known"
    DARK = "{cell} may have written what it uses ({name})"
    ORDER = "other code ran before it than stands above it, and it may have used what that wrote ({name})"
    UNHEARD = "what ran before it is not known: it ran before anybody listened"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a cell is not fresh, by a name that it uses and the key of the cell that it comes from."""

    why: Why
    name: str = ""
    cell: str = ""


@dataclass(frozen=True, slots=True)
class CellState:
    state: State
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """A name that cells use and no cell above them defines."""

    name: str
    used_in: str
    below: str = ""
    """The first cell below that defines it, if there is one."""
    ran: bool = False
    """Whether code that stands in no cell now has defined it in the kernel."""


NEVER_RAN = LastRun(State.NOT_RUN)
TROUBLES = {
    State.EDITED: Why.EDITED,
    State.STALE: Why.STALE,
    State.NOT_RUN: Why.NOT_RUN,
    State.LOST: Why.LOST,
    State.RUNNING: Why.RUNNING,
    State.UNKNOWN: Why.DOUBTFUL,
}
DOUBTS = frozenset((Why.FAILED, Why.DOUBTFUL, Why.UNHEARD))
"""With these it is not known whether a cell is stale."""


class NotebookStates:
    """The states of a notebook's code cells. After a change, only the cells that depend on it are judged again."""

    def __init__(self) -> None:
        self.graph = CellGraph()
        self.ledger = RunLedger()
        self.judged_count = 0
        """How many cells have been judged so far."""
        self._runs: dict[str, LastRun] = {}
        self._by_number: dict[int, str] = {}
        self._states: dict[str, CellState] = {}
        self._cells_in: dict[State, set[str]] = {state: set() for state in State}
        self._open: set[str] = set()
        self._waiting: Sequence[str] = ()
        self._missing: Sequence[Missing] | None = None

    def arrange(self, order: Sequence[str], changed: Mapping[str, CellNames]) -> None:
        """Take over the code cells as they stand now; `changed` has those that are new, moved or changed."""
        gone = () if order is self.graph.order else self._runs.keys() - set(order)
        for key in gone:
            self._forget_number(key)
            del self._runs[key]
            self._put(key, None)
        self._open |= self.graph.arrange(order, changed)

    def note_runs(self, runs: Mapping[str, LastRun]) -> None:
        """Take over what is known of the last runs of these cells."""
        for key, run in runs.items():
            if self._runs.get(key) != run:
                self._forget_number(key)
                self._runs[key] = run
                if run.number:
                    self._by_number[run.number] = key
                self._open.add(key)

    def begin_life(self) -> None:
        """The kernel is new, or another one is looked at: what ran has to be told anew."""
        self.ledger = RunLedger()
        self._open |= self._runs.keys()

    @property
    def states(self) -> Mapping[str, CellState]:
        """The state of every cell, as it was judged last."""
        return self._states

    def cells_in(self, state: State) -> Collection[str]:
        """The cells that were judged to be in a state."""
        return self._cells_in[state]

    def _put(self, key: str, state: CellState | None) -> None:
        before = self._states.pop(key, None)
        if before is not None:
            self._cells_in[before.state].discard(key)
        if state is not None:
            self._states[key] = state
            self._cells_in[state.state].add(key)

    def run_of(self, key: str) -> LastRun:
        return self._runs.get(key, NEVER_RAN)

    def judge(self, most: int | None = None) -> bool:
        """Judge the cells whose states may have changed, or so many of them. Returns whether all are judged."""
        if self._open:
            waiting = self._open.union(self._waiting) & self.graph.position.keys()
            self._waiting = sorted(self.graph.dependents(waiting), key=self.graph.position.__getitem__)
            self._open = set()
        # Each after those above it, on which it may depend.
        now, self._waiting = self._waiting[:most], self._waiting[len(self._waiting[:most]) :]
        for key in now:
            self._put(key, self._judged(key))
        self.judged_count += len(now)
        if now:
            self._missing = None
        return not self._waiting

    def due(self, cells: Iterable[str], *, with_dependents: bool) -> set[str]:
        """The cells that have to be run for these to be fresh afterwards: also those whose values were changed or replaced since.

        With `with_dependents` also the cells that become stale by that, so that nothing is stale afterwards.
        """
        due = set(cells)
        pending = list(due)
        while pending:
            for name, sources in self.graph.link(pending.pop()).sources.items():
                if due.issuperset(sources) or self._is_as_above(name, sources):
                    continue
                more = self._with_dependents(sources) if with_dependents else set(sources)
                pending += more - due
                due |= more
        return due

    def _with_dependents(self, cells: Iterable[str]) -> set[str]:
        """These cells, and those that are stale once they have run again."""
        reached: set[str] = set()
        pending = list(cells)
        while pending:
            cell = pending.pop()
            if cell not in reached:
                reached.add(cell)
                imports = self.graph.names(cell).imports
                pending += [
                    reader
                    for reader in self.graph.readers(cell)
                    if (link := self.graph.link(reader)).dark
                    or any(cell in sources and name not in imports for name, sources in link.sources.items())
                ]
        return reached

    def _is_as_above(self, name: str, sources: Sequence[str]) -> bool:
        """Whether a name has the value in the kernel now that it has after these cells."""
        now = tuple(self.ledger.origin(name))
        return self._is_same_import(name, sources, now) or now == self._numbers(sources)

    def _numbers(self, cells: Iterable[str]) -> Sequence[int]:
        """The runs of cells that write a name one after the other."""
        return self.ledger.without_repeats([number for cell in cells if (number := self.run_of(cell).number)])

    def missing(self) -> Sequence[Missing]:
        """Names that are used but defined nowhere above, each once."""
        if self._missing is None:
            self._missing = list(self._undefined())
        return self._missing

    def _undefined(self) -> Iterable[Missing]:
        told: set[str] = set()
        if any(self.graph.link(key).dark for key in self.graph.order):
            return
        for key in self.graph.order:
            link = self.graph.link(key)
            for name in sorted(link.effects.uses - link.sources.keys() - GIVEN - told):
                if not name.startswith("<"):
                    told.add(name)
                    below = next((writer for writer in self.graph.writers(name) if writer != key), "")
                    run = self._runs.get(key)
                    ran = bool(run and run.number and self.ledger.read_from(run.number, name))
                    yield Missing(name, key, below, ran)

    def _forget_number(self, key: str) -> None:
        run = self._runs.get(key)
        if run is not None and self._by_number.get(run.number) == key:
            del self._by_number[run.number]

    def _judged(self, key: str) -> CellState:
        run = self.run_of(key)
        if run.state is not State.FRESH or not run.number:
            return CellState(run.state)
        link = self.graph.link(key)
        doubt: CellState | None = None
        for name, cells in self._in_order(link.sources):
            judged = self._judged_by(key, run, name, cells)
            if judged is not None and judged.state is State.STALE:
                return judged
            doubt = doubt or judged
        if link.dark:
            return self._judged_dark(run, link.depends_on, link.dark) or CellState(State.FRESH)
        return self._judged_by_missing(key, run) or doubt or CellState(State.FRESH)

    def _in_order(self, sources: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, Sequence[str]]]:
        """Names with the cells that they come from, from the top of the notebook."""
        return sorted(sources.items(), key=lambda entry: (self.graph.position[entry[1][0]], entry[0]))

    def _judged_by(self, key: str, run: LastRun, name: str, cells: Sequence[str]) -> CellState | None:
        """The cell's state as far as this name tells; None if its value was what it would be in a run from top to bottom."""
        read = tuple(self.ledger.read_from(run.number, name))
        if self._is_same_import(name, cells, read):
            return None
        doubt: CellState | None = None
        for cell in cells:
            judged = self._judged_by_cell(run, name, cell)
            if judged is not None and judged.state is State.STALE:
                return judged
            doubt = doubt or judged
        if doubt is not None:
            return doubt
        expected = self._numbers(cells)
        if read == expected:
            return None
        doubtful = self.graph.link(cells[-1]).dark or any(map(self.ledger.is_dark, read))
        state = State.UNKNOWN if doubtful else State.STALE
        return CellState(state, self._other_writer(key, name, cells[-1], read, expected))

    def _is_same_import(self, name: str, cells: Sequence[str], read: Sequence[int]) -> bool:
        """Whether the name was, and is, imported from one place: however often that runs, and whatever else its cell does."""
        if len(cells) != 1 or len(read) != 1:
            return False
        now, then = self.graph.names(cells[0]), self.ledger.names(read[0])
        if now.settings and self.run_of(cells[0]).state is State.FRESH and self._ran_as(cells[0], read[0]):
            return True
        imported = now.imports.get(name)
        return imported is not None and then.imports.get(name) == imported

    def _ran_as(self, cell: str, number: int) -> bool:
        """Whether the text of a cell that ran is also that of another run."""
        return self.ledger.source(self.run_of(cell).number) == self.ledger.source(number)

    def _judged_by_cell(self, run: LastRun, name: str, source: str) -> CellState | None:
        """The same as far as one of the cells tells that the name comes from."""
        why = self._trouble(run, source)
        if why is None:
            return None
        if why is Why.UNHEARD:
            return CellState(State.UNKNOWN, Reason(why))
        if self.graph.link(source).dark and why not in DOUBTS:
            return CellState(State.UNKNOWN, Reason(Why.DARK, name, source))
        return CellState(State.UNKNOWN if why in DOUBTS else State.STALE, Reason(why, name, source))

    def _trouble(self, run: LastRun, source: str) -> Why | None:
        """Why what comes from a cell is not what it would be in a run from top to bottom, or may not be."""
        source_run, judged = self.run_of(source), self._states[source].state
        if source_run.state is not State.FRESH:
            return TROUBLES[source_run.state]
        if source_run.number > run.number:
            return Why.RAN_SINCE
        if not self.ledger.is_whole(source_run.number, run.number):
            return Why.UNHEARD
        if source_run.failed:
            return Why.FAILED
        return None if judged is State.FRESH else TROUBLES[judged]

    def _other_writer(self, key: str, name: str, source: str, read: Sequence[int], expected: Sequence[int]) -> Reason:
        """Why a name had its value from other runs than it would have it from."""
        others = [number for number in read if number not in expected]
        if not others:
            return Reason(Why.NOT_WRITTEN, name, source)
        cell = self._by_number.get(others[-1])
        if cell is not None and cell != key:
            return Reason(Why.OTHER_WRITER, name, cell)
        changes = name in self.graph.link(key).effects.changes
        return Reason(Why.RAN_TWICE if changes else Why.OTHER_CODE, name, source)

    def _judged_dark(self, run: LastRun, above: Iterable[str], dark: str) -> CellState | None:
        """The state of a cell that may read anything: known only where everything above it is fresh and ran before it, in order."""
        numbers: list[int] = []
        for source in sorted(above, key=self.graph.position.__getitem__):
            source_run = self.run_of(source)
            if source_run.state is State.FRESH and not source_run.number:
                continue
            if self._states[source].state is not State.FRESH or source_run.number > run.number:
                return CellState(State.UNKNOWN, Reason(Why.DARK, dark, source))
            numbers.append(source_run.number)
        since = numbers[0] if numbers and self._is_dark(numbers[0]) else 1
        if not self.ledger.is_whole(since, run.number):
            return CellState(State.UNKNOWN, Reason(Why.UNHEARD))
        # Anything else that ran before it may have written what it reads.
        return (
            None
            if list(self.ledger.between(since, run.number)) == numbers
            else CellState(State.UNKNOWN, Reason(Why.ORDER, dark))
        )

    def _is_dark(self, number: int) -> bool:
        cell = self._by_number.get(number)
        return cell is not None and bool(self.graph.link(cell).dark)

    def _judged_by_missing(self, key: str, run: LastRun) -> CellState | None:
        """The state by names that no cell above writes: what wrote them would not have run before the cell."""
        link = self.graph.link(key)
        unwritten = sorted(link.effects.uses - link.sources.keys())
        if not self.ledger.is_whole(1, run.number) and any(
            not self.ledger.read_from(run.number, name) and name not in GIVEN and not name.startswith("<")
            for name in unwritten
        ):
            return CellState(State.UNKNOWN, Reason(Why.UNHEARD))
        for name in unwritten:
            read = self.ledger.read_from(run.number, name)
            if read:
                cell = self._by_number.get(read[-1])
                if cell is not None and cell != key:
                    return CellState(State.STALE, Reason(Why.BELOW, name, cell))
                return CellState(State.STALE, Reason(Why.RAN_TWICE if name in link.effects.writes else Why.GONE, name))
        return None
