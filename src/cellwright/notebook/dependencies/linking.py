"""What a cell does at its place: its own names, with those of the functions that it calls and of what shares objects with them."""

import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from cellwright.notebook.dependencies.bindings import touched, whole_of
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
    Links,
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
class Link:
    """Two names that have a part of their objects in common since a cell bound or changed one of them."""

    name: str
    place: str
    """A name of the same object; or, if `inside`, the place in which the object of the first may lie."""
    inside: bool = False

    @property
    def other(self) -> str:
        return whole_of(self.place)


class Surroundings(Protocol):
    """What is known of the names before a cell runs."""

    def binders(self, name: str) -> Iterable[CellNames]:
        """The cells, or runs, that may have bound the name."""
        ...

    def links(self, name: str) -> Iterable[Link]:
        """The links of this name to others."""
        ...

    def broken_links(self, name: str) -> Iterable[str]:
        """Names to which it had a link, and would have again if they had not been bound anew."""
        ...


class _Found:
    """What was found out so far of a cell's effects."""

    def __init__(self, names: CellNames, around: Surroundings) -> None:
        self.names = names
        self.around = around
        self.uses, self.perhaps, self.changes, self.deep = map(
            set[str], (names.uses, names.perhaps, names.changes, names.deep)
        )
        self.dark = names.opaque or ("" if names.broken else names.unknown)
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
            self._follow(name, _later(self.around, name), pending)
            for maker in self._makers(name):
                if maker in THINGS:
                    self.uses.add(maker)
                    self.changes.add(maker)
                makes = [later for later in _later(self.around, maker) if later.makes]
                if makes:
                    self.uses.add(maker)
                    self._follow(name, makes, pending)
            given = self.names.calls.get(name, NONE)
            if name in self.names.commands and not any(True for _ in _later(self.around, name)):
                self.changes |= given
            if self._is_spent(name):
                self.changes.add(name)

    def _follow(self, name: str, laters: Iterable[Later], pending: list[str]) -> None:
        for later in laters:
            self._add(name, later)
            pending += later.uses

    def _makers(self, name: str) -> Iterator[str]:
        """The names whose code the value of a name may hold."""
        seen = {name}
        pending = [name]
        while pending:
            made = pending.pop()
            self.asked.add(made)
            for binder in () if made in THINGS else self.around.binders(made):
                for maker in binder.code.get(made, NONE):
                    if maker not in seen:
                        seen.add(maker)
                        pending.append(maker)
                        yield maker

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
        for callee, handed_on in self._handed_on(later):
            if any(inner.arguments for inner in _later(self.around, callee)):
                self._change_given((handed_on - {ARGUMENTS}) | (given if ARGUMENTS in handed_on else NONE))
        if later.methods & self.names.methods.get(name, NONE):
            self.changes.add(name)

    def _handed_on(self, later: Later) -> Iterator[tuple[str, Names]]:
        """The functions that are called by one, over however many others, with what they are given of what it was given."""
        pending = [(later, True)]
        seen: set[str] = set()
        while pending:
            calling, has_arguments = pending.pop()
            for callee, given in calling.calls.items():
                handed_on = given if has_arguments else given - {ARGUMENTS}
                self.asked.add(callee)
                yield callee, handed_on
                if callee not in seen:
                    seen.add(callee)
                    pending += [(inner, ARGUMENTS in handed_on) for inner in _later(self.around, callee)]

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
        same, inside = _mutable(self.names.aliases), _mutable(self.names.inside)
        changed = [name for name in self.changes if not name.startswith("<")]
        pending, seen = [*changed], {*changed}
        while pending:
            name = pending.pop()
            self.asked.update(self.around.broken_links(name))
            for link in self.around.links(name):
                (inside if link.inside else same).setdefault(link.name, set()).add(link.place)
                for other in (link.name, link.other):
                    if other not in seen:
                        seen.add(other)
                        pending.append(other)
        self.asked |= seen
        same_names, places = _frozen(same), _frozen(inside)
        for name in changed:
            self.changes.update(touched(same_names, places, name, deep=name in self.deep))


def _mutable(links: Links) -> dict[str, set[str]]:
    return {name: set(others) for name, others in links.items()}


def _frozen(links: Mapping[str, set[str]]) -> Links:
    return {name: frozenset(others) for name, others in links.items()}


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
    return NONE.union(*((link.name, link.other) for link in links_of(names)))


def links_of(names: CellNames) -> Iterator[Link]:
    """The links that a cell makes between names."""
    for links, inside in ((names.aliases, False), (names.inside, True)):
        for name, places in links.items():
            for place in places:
                yield Link(name, place, inside)


def _later(around: Surroundings, name: str) -> Iterator[Later]:
    for binder in around.binders(name):
        if name in binder.later:
            yield binder.later[name]


class LinksSoFar:
    """The links between names, as cells that ran one after the other made and broke them."""

    def __init__(self) -> None:
        self._of: dict[str, set[Link]] = {}

    def of(self, name: str) -> Iterable[Link]:
        return self._of.get(name, ())

    def note(self, names: CellNames) -> None:
        for name in names.defines:
            for link in self._of.pop(name, ()):
                self._of.get(link.other if link.name == name else link.name, set()).discard(link)
        for link in links_of(names):
            for name in (link.name, link.other):
                self._of.setdefault(name, set()).add(link)
