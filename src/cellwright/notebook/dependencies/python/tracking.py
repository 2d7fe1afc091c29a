"""Names as they are read, bound and changed on the way through a scope."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from cellwright.notebook.dependencies.bindings import Bindings, Shares
from cellwright.notebook.dependencies.model import ANY_FILE, ARGUMENTS, ENVIRONMENT, FILES, NONE, RANDOMS, Later, Names
from cellwright.notebook.dependencies.python import world
from cellwright.notebook.dependencies.python.ipython import HISTORY
from cellwright.notebook.dependencies.python.sharing import shares

IT = "<it>"
"""A value without a name, while it is changed."""
MOST_APPLIED = 150
"""So many functions that use each other are followed."""
MOST_GIVEN = 6
WITHOUT_READING = frozenset({FILES, ANY_FILE})


@dataclass(slots=True)
class Found:
    """What was found so far in a cell, or in the body of a function."""

    uses: set[str] = field(default_factory=set[str])
    changes: set[str] = field(default_factory=set[str])
    deep: set[str] = field(default_factory=set[str])
    binds: set[str] = field(default_factory=set[str])
    """What functions that it calls bind by `global`."""
    calls: dict[str, Names] = field(default_factory=dict[str, Names])
    commands: set[str] = field(default_factory=set[str])
    methods: dict[str, Names] = field(default_factory=dict[str, Names])
    stars: set[str] = field(default_factory=set[str])
    opaque: str = ""
    arguments: bool = False
    changes_itself: bool = False


class Tracking:
    """Follows the names of one scope. `now` has the bindings at the place where it is."""

    def __init__(self, own: Names = NONE, parameters: Names = NONE, itself: str = "") -> None:
        self.own = own
        """Names that are local to this function, and no names of the kernel."""
        self.parameters = parameters
        self.itself = itself
        self.found = Found()
        self.now = Bindings()
        self.lambdas: list[Later] = []
        """What the lambdas do that the statement contains."""
        self.makers: set[str] = set()
        """What the statement read: its value may hold their code."""
        self.is_function = False
        self.around_class: Names | None = None
        """What was bound around the class whose body this is: its attributes are others than the variables of the same name."""
        self.casual = False
        """Whether this is a place, such as `x or seen.add(x)`, where the value of a method that changes its object does not matter."""
        self.makes_more = False
        """Whether it makes instances of classes that may be the notebook's."""
        self._hidden: set[str] = set()
        self._applied: set[str] = set()
        self._given: list[str] = []

    def read(self, name: str) -> None:
        self.makers.add(name)
        if name not in self._hidden and name not in self.own and name not in self.now.bound:
            self.found.uses.add(name)
            if HISTORY.fullmatch(name):
                self.hide(name)
        self._apply_code(name)
        if name in self.now.spent:
            self.change(name, deep=False)

    def environment(self) -> None:
        self.touch(world.Touch(uses=frozenset({ENVIRONMENT})))

    def hide(self, why: str) -> None:
        """Names may be read and written here that the source does not say."""
        self.found.opaque = self.found.opaque or why

    def change(self, name: str, *, deep: bool) -> None:
        for other, is_deep in self.now.touched(name, deep=deep).items():
            self._note_change(other, deep=is_deep)

    def change_value(self, node: ast.expr, *, deep: bool) -> None:
        """The value of the expression changes in place, and with it what shares it."""
        self.change_shares(shares(node), deep=deep)

    def change_shares(self, share: Shares, *, deep: bool) -> None:
        if share.every:
            before = self.now
            self.now = before.copy()
            self.now.link(IT, share)
            self.change(IT, deep=deep)
            self.now = before

    def touch(self, touched: world.Touch) -> None:
        makers = set(self.makers)
        for name in touched.uses:
            self.read(name)
        self.makers = makers
        self.note_changes(touched.changes)
        for name in touched.defines:
            self.bind(name)

    def note_changes(self, names: Iterable[str]) -> None:
        for name in names:
            self._note_change(name, deep=False)

    def bind(self, name: str, share: Shares | None = None) -> None:
        """The name is bound anew, to a value that shares what is given."""
        if share is not None:
            share = self.now.resolved(share)
        self.now.forget(name)
        if (name not in self.own or name in self.parameters) and name not in self._hidden:
            # A parameter that is bound anew is no longer what was given.
            self.now.bound.add(name)
            self.now.perhaps.discard(name)
        if share is not None:
            self.now.link(name, share)

    def _note_change(self, name: str, *, deep: bool) -> None:
        self.now.texts.pop(name, None)
        if name in self._hidden or name == IT:
            return
        if name in self.own:
            self.found.changes_itself |= name == self.itself
            self.found.arguments |= name in self.parameters - self.now.bound and name != self.itself
        elif name not in (self.now.bound if self.around_class is None else self.around_class):
            self.found.changes.add(name)
            if name not in WITHOUT_READING:
                self.found.uses.add(name)
            if deep:
                self.found.deep.add(name)

    def _apply_code(self, name: str) -> None:
        """What a function of this cell does, or an instance of its class, is done where it is used: once for each use."""
        now = self.now
        if name in self._applied or (name not in now.functions and name not in now.code):
            return
        outermost = not self._applied
        if len(self._applied) > MOST_APPLIED:
            self.hide("functions that call each other in long chains")
            return
        self._applied.add(name)
        makers = set(self.makers)
        if name in now.functions:
            self.apply(now.functions[name])
        for maker in now.code.get(name, NONE):
            if maker in RANDOMS:
                self._note_change(maker, deep=False)
            elif maker not in now.functions or now.functions[maker].makes:
                self._apply_code(maker)
        self.makers = makers
        if outermost:
            self._applied.clear()

    def apply(self, later: Later) -> None:
        for name in later.uses:
            self.read(name)
        for name in later.changes:
            self.change(name, deep=True)
        for name in later.perhaps:
            if name not in self.now.bound and name not in self.own:
                self.now.perhaps.add(name)
                self.found.binds.add(name)
        for function, given in later.calls.items():
            self.give(function, given - {ARGUMENTS})
        if later.opaque:
            self.hide(later.opaque)

    def give(self, function: str, names: Names) -> None:
        """A function gets these names: it may change them in place."""
        if function in self._hidden:
            return
        later = self.now.functions.get(function)
        if later is None and function in self.own:
            return
        if later is not None and names and function not in self._given:
            self._given.append(function)
            if later.arguments:
                for name in names:
                    self.change(name, deep=True)
            for other, given in later.calls.items():
                if ARGUMENTS in given and len(self._given) < MOST_GIVEN:
                    self.give(other, names)
            self._given.pop()
        known = {outer for name in names for outer in self._outer(name)}
        self.found.calls[function] = self.found.calls.get(function, NONE) | known

    def _outer(self, name: str) -> Iterable[str]:
        """A name as whoever calls knows it: a local one by what it shares."""
        if name not in self.own and name not in self._hidden:
            yield name
            return
        for other in self.now.touched(name, deep=False):
            if other in self.parameters - self.now.bound:
                yield ARGUMENTS
            elif other not in self.own and other not in self._hidden and other != IT:
                yield other

    def hide_names(self, names: Iterable[str]) -> set[str]:
        """These names are no names of the kernel for a while. The ones before are given back."""
        before = set(self._hidden)
        self._hidden |= set(names)
        return before

    def show_names(self, hidden: set[str]) -> None:
        self._hidden = hidden
