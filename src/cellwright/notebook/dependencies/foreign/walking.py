"""Going through a tree of tree-sitter: what all languages have in common."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cellwright.notebook.dependencies.bindings import Bindings, Shares
from cellwright.notebook.dependencies.model import ANY_FILE, ARGUMENTS, FILES, NONE, CellNames, Later, Names

if TYPE_CHECKING:
    from tree_sitter import Node


class ForeignWalk:
    """Goes through one scope. A language says which kinds of nodes bind, read and change names."""

    kinds: "dict[str, Callable[[ForeignWalk, Node], None]]"

    def __init__(self, own: Names = NONE, parameters: Names = NONE) -> None:
        self.own = set(own)
        """Names that are local here."""
        self.parameters = parameters
        self.now = Bindings()
        self.uses: set[str] = set()
        self.changes: set[str] = set()
        self.deep: set[str] = set()
        self.calls: dict[str, Names] = {}
        self.commands: set[str] = set()
        self.stars: set[str] = set()
        self.opaque = ""
        self.arguments = False

    def visit(self, node: "Node | None") -> None:
        if node is None:
            return
        known = self.kinds.get(node.type)
        if known is None:
            self.visit_all(node.named_children)
        else:
            known(self, node)

    def visit_all(self, nodes: "Iterable[Node]") -> None:
        for node in nodes:
            self.visit(node)

    def read(self, name: str) -> None:
        if name not in self.own and name not in self.now.bound:
            self.uses.add(name)
        later = self.now.functions.get(name)
        if later is not None:
            # A function that calls itself is applied once.
            del self.now.functions[name]
            self.apply(later)
            self.now.functions[name] = later

    def apply(self, later: Later) -> None:
        for name in later.uses:
            self.read(name)
        for name in later.changes:
            self.change(name)
        self.now.perhaps |= later.perhaps - self.own - self.now.bound
        for function, given in later.calls.items():
            self.give(function, given - {ARGUMENTS})
        self.opaque = self.opaque or later.opaque

    def bind(self, name: str, share: Shares | None = None) -> None:
        self.now.forget(name)
        if name not in self.own:
            self.now.bound.add(name)
            self.now.perhaps.discard(name)
        if share is not None:
            self.now.link(name, share)

    def bind_perhaps(self, name: str) -> None:
        """Bound, but what it was before may still count, as the other methods of a function in Julia."""
        if name not in self.own and name not in self.now.bound:
            self.now.perhaps.add(name)

    def change(self, name: str) -> None:
        for other in self.now.touched(name, deep=True):
            if other in self.own:
                self.arguments |= other in self.parameters
            elif other not in self.now.bound:
                self.uses.add(other)
                self.changes.add(other)
                self.deep.add(other)

    def note(self, *names: str) -> None:
        """Changes of what is no variable."""
        self.changes |= set(names)
        self.uses |= set(names) - {FILES, ANY_FILE}

    def give(self, function: str, names: Iterable[str]) -> None:
        """A function is called with these names."""
        later = self.now.functions.get(function)
        given: set[str] = set()
        for name in names:
            if later is not None and later.arguments:
                self.change(name)
            given |= (
                {ARGUMENTS if name in self.parameters else name} if name not in self.own - self.parameters else set()
            )
        if function not in self.own and given:
            self.calls[function] = self.calls.get(function, NONE) | given

    def perhaps(self, nodes: "Iterable[Node | None]") -> None:
        """What runs only in some cases, or several times."""
        bound = set(self.now.bound)
        for node in nodes:
            self.visit(node)
        self.now.perhaps |= self.now.bound - bound
        self.now.bound &= bound

    def block(self, own: Iterable[str], nodes: "Iterable[Node | None]") -> None:
        """What has names of its own, and runs only in some cases."""
        before = set(self.own)
        self.own |= set(own)
        self.perhaps(nodes)
        for name in self.own - before:
            self.now.forget(name)
        self.own = before

    def function(self, own: Iterable[str], parameters: Iterable[str], body: "Iterable[Node | None]") -> Later:
        """What a function does later."""
        inner = type(self)(frozenset(own) | frozenset(parameters), frozenset(parameters))
        for node in body:
            inner.visit(node)
        free = {name for name in inner.now.bound | inner.now.perhaps if name not in inner.own}
        return Later(
            frozenset(inner.uses),
            frozenset(inner.changes),
            frozenset(free),
            dict(inner.calls),
            inner.arguments,
            makes=True,
            opaque=inner.opaque,
        )

    def define(self, name: str, later: Later) -> None:
        self.bind(name)
        self.now.functions[name] = later

    def names(self) -> CellNames:
        now = self.now
        return CellNames(
            defines=frozenset(now.bound),
            perhaps=frozenset(now.perhaps - now.bound),
            changes=frozenset(self.changes),
            deep=frozenset(self.deep),
            uses=frozenset(self.uses),
            later=dict(now.functions),
            calls=dict(self.calls),
            commands=frozenset(self.commands),
            aliases=dict(now.same),
            inside=dict(now.wholes),
            code=dict(now.code),
            stars=frozenset(self.stars),
            opaque=self.opaque,
        )


def text_of(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")


def inside(node: "Node", *kinds: str) -> "list[Node]":
    """All nodes of these kinds within a node, or the node itself."""
    found: list[Node] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if current.type in kinds:
            found.append(current)
        pending.extend(reversed(current.named_children))
    return found
