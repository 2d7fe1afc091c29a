"""Statements that take one of several ways, or go round: what is surely bound after them, and what perhaps."""

import ast
from collections.abc import Callable, Iterable, Sequence

from cellwright.notebook.dependencies.bindings import Bindings, Shares, joined
from cellwright.notebook.dependencies.model import NONE, Names
from cellwright.notebook.dependencies.python.calls import Calls
from cellwright.notebook.dependencies.python.sharing import elements, shares

MOST_LOOPS = 3
"""In so many loops within each other, the body is gone through twice, for what one round leaves to the next."""
_SWALLOW = frozenset({"suppress", "raises", "assertRaises"})
"""Contexts that end their body early without an error."""


Once = Callable[[], None]


class Flow(Calls):
    """Goes through compound statements."""

    def __init__(self, own: Names = NONE, parameters: Names = NONE, itself: str = "") -> None:
        super().__init__(own, parameters, itself)
        self.exits: list[Bindings] = []
        """How it was where an error was raised."""
        self._breaks: list[list[Bindings]] = []

    def body(self, body: Iterable[ast.stmt]) -> None:
        raise NotImplementedError

    def assign_to(self, target: ast.expr, value: ast.expr | None, share: Shares, code: Names) -> None:
        raise NotImplementedError

    def leave_loop(self) -> None:
        """`break` or `continue`."""
        if self._breaks:
            self._breaks[-1].append(self.now.copy())
        self.now.gone = True

    def raise_(self) -> None:
        self.exits.append(self.now.copy())
        self.now.gone = True

    def if_(self, node: ast.If) -> None:
        known = _known_test(node.test)
        if known is None:
            self.expr(node.test)
        before = self.now.copy()
        if known is not False:
            self.body(node.body)
        after = self.now
        self.now = before
        if known is not True:
            self.body(node.orelse)
        self.now = after if known is True else self.now if known is False else joined((after, self.now))

    def for_(self, node: ast.For | ast.AsyncFor) -> None:
        self.expr(node.iter)
        code, share = frozenset(self.makers), self.now.resolved(elements(node.iter))

        def once() -> None:
            for part in _pairs(node.target, share):
                self.assign_to(*part, code)
            self.body(node.body)

        self._loop(once, node.orelse, surely=_is_not_empty(node.iter), ends=True)

    def while_(self, node: ast.While) -> None:
        known = _known_test(node.test)
        self.expr(node.test)

        def once() -> None:
            self.body(node.body)
            if not self.now.gone:
                self.expr(node.test)

        if known is not False:
            self._loop(once, node.orelse, surely=known is True, ends=known is not True)

    def _loop(self, once: Once, otherwise: Sequence[ast.stmt], *, surely: bool, ends: bool) -> None:
        """A loop that surely goes round once or not, and that ends by itself or only by `break`."""
        before = self.now.copy()
        self._breaks.append([])
        once()
        first = self.now
        if len(self._breaks) <= MOST_LOOPS and _links_differ(before, first):
            self.now = joined((before, first)).copy()
            self.now.bound = set(before.bound)
            once()
            self.now = joined((first, self.now))
        breaks = self._breaks.pop()
        ways = [self.now] if ends else []
        if not surely:
            ways.append(before)
        if otherwise and ways:
            self.now = joined((*ways, *breaks))
            without = self.now.copy()
            self.body(otherwise)
            ways = [self.now, without] if breaks else [self.now]
        self.now = joined((*ways, *breaks))

    def try_(self, node: ast.Try | ast.TryStar) -> None:
        before = self.now.copy()
        outer, self.exits = self.exits, []
        steps = [before]
        for statement in node.body:
            self.body([statement])
            steps.append(self.now.copy())
        self.body(node.orelse)
        ends = [self.now]
        broken = joined((*steps, *self.exits))
        if broken.gone:
            broken = before
        inner, self.exits = self.exits, outer
        for handler in node.handlers:
            self.now = broken.copy()
            self.expr(handler.type)
            if handler.name:
                self.bind(handler.name)
            self.body(handler.body)
            ends.append(self.now)
        if not node.handlers:
            self.exits += inner
        self.now = joined(ends)
        if node.finalbody:
            gone = self.now.gone
            if gone:
                self.now = joined((broken, *self.exits)).copy()
            else:
                # It also runs where an error goes on: what it reads need not be bound by the body.
                self._finally_after_error(broken, node.finalbody)
            self.body(node.finalbody)
            self.now.gone = self.now.gone or gone

    def _finally_after_error(self, broken: Bindings, body: list[ast.stmt]) -> None:
        after = self.now
        self.now = broken.copy()
        self.body(body)
        self.now = after

    def with_(self, node: ast.With | ast.AsyncWith) -> None:
        before = self.now.copy()
        for item in node.items:
            self.makers = set()
            self.expr(item.context_expr)
            if item.optional_vars is not None:
                share = shares(item.context_expr)
                self.assign_to(
                    item.optional_vars, item.context_expr, share.with_(share.element()), frozenset(self.makers)
                )
        self.body(node.body)
        if any(_called(item.context_expr) in _SWALLOW for item in node.items):
            self.now = joined((before, self.now))

    def match_(self, node: ast.Match) -> None:
        self.expr(node.subject)
        share = shares(node.subject)
        ends: list[Bindings] = []
        for case in node.cases:
            before = self.now.copy()
            self._pattern(case.pattern, share.with_(share.element()))
            self.expr(case.guard)
            self.body(case.body)
            ends.append(self.now)
            self.now = before
            if case.guard is None and _takes_all(case.pattern):
                self.now = joined(ends)
                return
        self.now = joined((*ends, self.now))

    def _pattern(self, pattern: ast.pattern, share: Shares) -> None:
        for node in ast.walk(pattern):
            match node:
                case ast.MatchValue(value=value):
                    self.expr(value)
                case ast.MatchClass(cls=value):
                    self.expr(value)
                case ast.MatchMapping(keys=keys, rest=rest):
                    for key in keys:
                        self.expr(key)
                    if rest:
                        self.bind(rest, share)
                case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                    self.bind(name, share)
                case _:
                    pass


def _pairs(target: ast.expr, share: Shares) -> list[tuple[ast.expr, None, Shares]]:
    """Each part of a loop's target, with what an element shares: of `for key, value in …` both may be it."""
    if isinstance(target, ast.Tuple | ast.List):
        return [pair for part in target.elts for pair in _pairs(part, share)]
    return [(target, None, share)]


def _known_test(test: ast.expr) -> bool | None:
    """What a test always comes to; None if that depends."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]):
            return True
        case _:
            return None


def _is_not_empty(node: ast.expr) -> bool:
    """Whether a loop over this surely goes round once."""
    match node:
        case ast.List(elts=values) | ast.Tuple(elts=values) | ast.Set(elts=values):
            return any(not isinstance(value, ast.Starred) for value in values)
        case ast.Dict(keys=keys):
            return any(key is not None for key in keys)
        case ast.Constant(value=str(text)):
            return bool(text)
        case ast.Call(func=ast.Attribute(value=ast.Dict() as value, attr="items" | "values" | "keys")):
            return _is_not_empty(value)
        case ast.Call(func=ast.Name(id=name), args=[_, *_]):
            return _gives_something(name, node.args)
        case _:
            return False


def _gives_something(function: str, given: list[ast.expr]) -> bool:
    match function, given:
        case "range", [ast.Constant(value=int(stop))]:
            return stop > 0
        case "range", [ast.Constant(value=int(start)), ast.Constant(value=int(stop))]:
            return start < stop
        case (("enumerate" | "sorted" | "reversed" | "list" | "tqdm"), [first, *_]):
            return _is_not_empty(first)
        case "zip", _:
            return all(map(_is_not_empty, given))
        case _:
            return False


def _takes_all(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def _called(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
        case _:
            return ""


def _links_differ(before: Bindings, after: Bindings) -> bool:
    return (before.same, before.wholes, before.code, before.functions, before.spent) != (
        after.same,
        after.wholes,
        after.code,
        after.functions,
        after.spent,
    )
