"""What a cell does at its place: its own names, with those of the functions that it calls and of what shares objects with them."""

import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from cellwright.notebook.dependencies.model import (
    ANY_FILE,
    ARGUMENTS,
    ENVIRONMENT,
    FILES,
    FOLDER,
    NONE,
    RANDOMS,
    CellNames,
    Later,
    Names,
)

GIVEN = frozenset(dir(builtins)) | {
    "display",
    "get_ipython",
    "In",
    "Out",
    "exit",
    "quit",
    "open",
    "__name__",
    "__file__",
}
"""Names that a kernel has before anything runs in it."""
THINGS = RANDOMS | {FOLDER, ENVIRONMENT}
"""What is used and changed where it stands for the code of a value."""
GATHERED = frozenset((FILES, ANY_FILE))
"""Who writes them does not replace what others wrote, and reads none of it."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What a cell reads and writes once it runs at its place."""

    uses: Names = NONE
    defines: Names = NONE
    perhaps: Names = NONE
    changes: Names = NONE
    dark: str = ""
    """Why it may read and write any name; empty if it may not."""
    asked: Names = NONE
    """Names whose cells decided about all this, though it need not use them."""

    @property
    def writes(self) -> Names:
        return self.defines | self.perhaps | self.changes


@dataclass(frozen=True, slots=True)
class Sharing:
    """The names that have a part of their objects in common with a name."""

    same: Names = NONE
    wholes: Names = NONE
    """Names of objects in which its own lies."""
    parts: Names = NONE
    """Names of objects that lie in its own."""
    asked: Names = NONE
    """Names that had some in common once, and would have again if they had not been bound anew."""


class Surroundings(Protocol):
    """What is known of the names before a cell runs."""

    def binders(self, name: str) -> Iterable[CellNames]:
        """The cells, or runs, that may have bound the name."""
        ...

    def sharing(self, name: str) -> Sharing: ...


class _Found:
    """What was found out so far of a cell's effects."""

    def __init__(self, names: CellNames, around: Surroundings) -> None:
        self.names = names
        self.around = around
        self.uses, self.perhaps, self.changes, self.deep = map(
            set[str], (names.uses, names.perhaps, names.changes, names.deep)
        )
        self.dark = names.unknown or names.opaque
        self.asked: set[str] = set()
        self._looked_at: set[str] = set()

    def follow_code(self) -> None:
        """Add what the functions and classes do that are used, and those whose code the used values hold."""
        pending = list(self.names.uses)
        while pending:
            name = pending.pop()
            if name in self._looked_at:
                continue
            self._looked_at.add(name)
            for maker in self._makers(name):
                if maker in THINGS:
                    self.uses.add(maker)
                    self.changes.add(maker)
                    continue
                for later in _later(self.around, maker):
                    self.uses.add(maker)
                    self._add(name, later)
                    pending += later.uses
            given = self.names.calls.get(name, NONE)
            if name in self.names.commands and not any(True for _ in _later(self.around, name)):
                self.changes |= given
            if self._is_spent(name):
                self.changes.add(name)

    def _makers(self, name: str) -> Iterator[str]:
        """The name itself, and those whose code its value may hold."""
        seen = {name}
        pending = [name]
        while pending:
            maker = pending.pop()
            self.asked.add(maker)
            yield maker
            for binder in () if maker in THINGS else self.around.binders(maker):
                for other in binder.code.get(maker, NONE):
                    if other not in seen:
                        seen.add(other)
                        pending.append(other)

    def _add(self, name: str, later: Later) -> None:
        """Add what is done when the value of the name is called."""
        given = self.names.calls.get(name, NONE)
        self.uses |= later.uses
        self.changes |= later.changes
        self.deep |= later.changes
        self.perhaps |= later.perhaps
        self.dark = self.dark or later.opaque
        if later.arguments:
            self._change_given(given)
        self.asked.update(later.calls)
        for callee, handed_on in later.calls.items():
            if any(inner.arguments for inner in _later(self.around, callee)):
                self._change_given((handed_on - {ARGUMENTS}) | (given if ARGUMENTS in handed_on else NONE))
        if later.methods & self.names.methods.get(name, NONE):
            self.changes.add(name)

    def _change_given(self, names: Iterable[str]) -> None:
        self.changes.update(names)
        self.deep.update(names)

    def _is_spent(self, name: str) -> bool:
        return any(
            name in binder.spent
            or any(later.yields for maker in binder.code.get(name, NONE) for later in _later(self.around, maker))
            for binder in self.around.binders(name)
        )

    def follow_objects(self) -> None:
        """Add the names that share objects with those that are changed in place."""
        pending = list(self.changes)
        while pending:
            name = pending.pop()
            if name.startswith("<"):
                continue
            sharing = self.around.sharing(name)
            own = self.names
            self.asked |= sharing.asked
            same = sharing.same | own.aliases.get(name, NONE)
            reached = [*same, *sharing.wholes, *own.inside.get(name, NONE)]
            if name in self.deep:
                deeper = (same | sharing.parts) - self.deep
                self.deep |= deeper
                reached += deeper
                pending += deeper & self.changes
            for other in reached:
                if other not in self.changes:
                    self.changes.add(other)
                    pending.append(other)


def effects_of(names: CellNames, around: Surroundings) -> Effects:
    """The effects of a cell, with what is known before it runs."""
    found = _Found(names, around)
    found.follow_code()
    found.follow_objects()
    changes = found.changes - GATHERED - (names.defines - names.changes)
    perhaps = (found.perhaps | (found.changes & GATHERED)) - names.defines - changes
    return Effects(
        frozenset(found.uses | changes),
        names.defines,
        frozenset(perhaps),
        frozenset(changes),
        found.dark,
        frozenset(found.asked),
    )


def linked_names(names: CellNames) -> Names:
    """Names that share objects with others since this cell."""
    return NONE.union(*(NONE.union(links, *links.values()) for links in (names.aliases, names.inside)))


def _later(around: Surroundings, name: str) -> Iterator[Later]:
    for binder in around.binders(name):
        if name in binder.later:
            yield binder.later[name]


class SharingSoFar:
    """Which names share objects, as far as cells that ran one after the other say."""

    def __init__(self) -> None:
        self._same: dict[str, set[str]] = {}
        self._wholes: dict[str, set[str]] = {}
        self._parts: dict[str, set[str]] = {}

    def __call__(self, name: str) -> Sharing:
        same, wholes, parts = (frozenset(links.get(name, ())) for links in (self._same, self._wholes, self._parts))
        return Sharing(same, wholes, parts)

    def note(self, names: CellNames) -> None:
        for name in names.defines:
            for links, back in ((self._same, self._same), (self._wholes, self._parts), (self._parts, self._wholes)):
                for other in links.pop(name, ()):
                    back.get(other, set()).discard(name)
        self._link(names.aliases, self._same, self._same)
        self._link(names.inside, self._wholes, self._parts)

    @staticmethod
    def _link(links: Mapping[str, Names], there: dict[str, set[str]], back: dict[str, set[str]]) -> None:
        for name, others in links.items():
            for other in others:
                there.setdefault(name, set()).add(other)
                back.setdefault(other, set()).add(name)
