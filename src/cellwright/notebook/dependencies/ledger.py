"""What each run in a kernel read, and which runs had written it: told from the sources that ran, one after the other."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cellwright.notebook.dependencies.linking import GIVEN, Link, LinksSoFar, effects_of
from cellwright.notebook.dependencies.model import CellNames


@dataclass(frozen=True, slots=True)
class _Written:
    """The runs from which a name has its value: one that wrote it, if it is `settled`, and those later that may have done so."""

    runs: tuple[int, ...] = ()
    settled: bool = False


UNWRITTEN = _Written()
MOST_CHAINED = 200
"""Of runs one after the other that may have bound a name, the last so many count."""
MOST_BINDERS = 20
"""Of runs that may have bound a name, those that are remembered for what the name stands for."""


class RunLedger:
    """The runs of one life of a kernel, by their numbers."""

    def __init__(self) -> None:
        self.last = 0
        """The number of the last run."""
        self._numbers: list[int] = []
        self._sources: dict[int, str] = {}
        self._names: dict[int, CellNames] = {}
        self._readings: dict[int, dict[str, Sequence[int]]] = {}
        self._written: dict[str, _Written] = {}
        self._binders: dict[str, tuple[CellNames, ...]] = {}
        self._links = LinksSoFar()
        self._dark = self._star = 0
        self._all_dark: set[int] = set()

    def add(self, number: int, source: str, names: CellNames) -> None:
        """Add the next run. Numbers that are left out are those of runs of which nothing is known."""
        self.last = number
        self._numbers.append(number)
        self._sources[number] = source
        self._names[number] = names
        effects = effects_of(names, self)
        self._readings[number] = {name: runs for name in effects.uses if (runs := self.origin(name))}
        for name in effects.defines | effects.changes:
            self._written[name] = _Written((number,), settled=True)
        for name in effects.perhaps - effects.defines - effects.changes:
            before = self._written.get(name, UNWRITTEN)
            runs = self.without_repeats((*before.runs, number))[-MOST_CHAINED:]
            self._written[name] = _Written(runs, before.settled and before.runs[:1] == runs[:1])
        for name in names.defines:
            self._binders[name] = (names,)
        for name in names.perhaps:
            earlier = [binder for binder in self._binders.get(name, ()) if binder is not names]
            self._binders[name] = (*earlier[-MOST_BINDERS:], names)
        self._links.note(names)
        if effects.dark:
            self._dark = number
            self._all_dark.add(number)
        if names.stars:
            self._star = number

    def binders(self, name: str) -> Sequence[CellNames]:
        return self._binders.get(name, ())

    def links(self, name: str) -> Iterable[Link]:
        return self._links.of(name)

    def broken_links(self, name: str) -> Iterable[str]:  # noqa: ARG002 - what has run does not change
        return ()

    def read_from(self, number: int, name: str) -> Sequence[int]:
        """The runs from which the name had its value when this run read it."""
        return self._readings.get(number, {}).get(name, ())

    def names(self, number: int) -> CellNames:
        """The names of a run."""
        return self._names[number]

    def source(self, number: int) -> str | None:
        """The text of a run; None if it is not known."""
        return self._sources.get(number)

    def is_dark(self, number: int) -> bool:
        """Whether a run may have read and written any name."""
        return number in self._all_dark

    def without_repeats(self, runs: Sequence[int]) -> tuple[int, ...]:
        """The runs without those that did the same as a later one: the same text, with the same from the same runs."""
        last = {(self._sources.get(run, run), frozenset(self._readings.get(run, {}).items())): run for run in runs}
        return tuple(sorted(last.values()))

    def between(self, first: int, last: int) -> Sequence[int]:
        """The numbers of known runs from the first up to the last, without the last."""
        return self._numbers[bisect_left(self._numbers, first) : bisect_left(self._numbers, last)]

    def is_whole(self, first: int, last: int) -> bool:
        """Whether all runs from the first up to the last are known."""
        known = bisect_left(self._numbers, last) - bisect_left(self._numbers, first)
        return known == max(0, last - first)

    def origin(self, name: str) -> Sequence[int]:
        """The runs from which a name has its value now."""
        written = self._written.get(name, UNWRITTEN)
        runs = tuple(run for run in written.runs if run > self._dark)
        if written.settled and runs == written.runs:
            return runs
        if self._dark and (name not in GIVEN or runs):
            return (self._dark, *runs)
        return (self._star, *runs) if self._star and not self._dark else runs
