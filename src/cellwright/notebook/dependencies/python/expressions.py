"""What expressions read, call and change."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from cellwright.notebook.dependencies.bindings import Bindings, Shares
from cellwright.notebook.dependencies.model import ANY_FILE, ARGUMENTS, ENVIRONMENT, FILES, NONE, RANDOMS, Later, Names
from cellwright.notebook.dependencies.python import effects, world
from cellwright.notebook.dependencies.python.ipython import HISTORY
from cellwright.notebook.dependencies.python.scopes import own_names, parameters_of
from cellwright.notebook.dependencies.python.sharing import elements, shares, targets_of

IT = "<it>"
"""A value without a name, while it is changed."""
MOST_APPLIED = 150
"""So many functions that use each other are followed."""
MOST_GIVEN = 6
WITHOUT_READING = frozenset({FILES, ANY_FILE})
_IN_QUERY = re.compile(r"@([^\W\d]\w*)")
_IN_SQL = re.compile(r"(?i)\b(?:from|join)\s+([^\W\d]\w*)")


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


class Expressions:
    """Goes through the expressions of one scope. `now` has the bindings at the place where it is."""

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
        self.casual = False
        """Whether this is a place, such as `x or seen.add(x)`, where the value of a method that changes its object does not matter."""
        self.makes_more = False
        """Whether it makes instances of classes that may be the notebook's."""
        self._hidden: set[str] = set()
        self._applied: set[str] = set()
        self._given: list[str] = []

    # Names

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
        elif name not in self.now.bound:
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

    # Expressions

    def expr(self, node: ast.expr | None) -> None:
        """Go through an expression whose value is used."""
        match node:
            case None | ast.Constant():
                pass
            case ast.Name(id=name):
                self.read(name)
            case ast.Call():
                self.call(node, used=True)
            case ast.Attribute():
                self._attribute(node)
            case ast.Lambda():
                self.defaults(node.args)
                self.lambdas.append(later := self.lambda_(node))
                self.apply(later)
            case ast.ListComp(elt=element) | ast.SetComp(elt=element) | ast.GeneratorExp(elt=element):
                self._comprehension(node.generators, [element])
            case ast.DictComp(key=key, value=value):
                self._comprehension(node.generators, [key, value])
            case ast.NamedExpr(target=target, value=value):
                self.expr(value)
                self.bind_outside(target.id, shares(value))
            case ast.BoolOp(values=[first, *others]):
                self.expr(first)
                self.perhaps(others)
            case ast.IfExp(test=test, body=body, orelse=other):
                self.expr(test)
                self.perhaps([body])
                self.perhaps([other])
            case ast.Compare(left=left, comparators=[second, *others]):
                self.expr(left)
                self.expr(second)
                self.perhaps(others)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expr(child)

    def perhaps(self, nodes: list[ast.expr]) -> None:
        """Expressions that are gone through only in some cases."""
        bound, casual = set(self.now.bound), self.casual
        self.casual = True
        for node in nodes:
            self.expr(node)
        self.casual = casual
        self.now.perhaps |= self.now.bound - bound
        self.now.bound &= bound

    def bind_outside(self, name: str, share: Shares) -> None:
        """`:=` binds in the scope around a comprehension."""
        self._hidden.discard(name)
        self.bind(name, share)

    def lambda_(self, node: ast.Lambda) -> Later:
        raise NotImplementedError

    def call(self, node: ast.Call, *, used: bool) -> None:
        raise NotImplementedError

    def defaults(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            self.expr(default)

    def path_of(self, node: ast.expr) -> str:
        """`numpy.random.rand` for `np.random.rand`; "" if it does not begin with a module."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self._hidden:
            return ""
        module = self.now.modules.get(node.id, "")
        if not module and node.id not in self.own and node.id not in self.now.bound | self.now.perhaps:
            module = effects.MODULES.get(node.id, "")
        return ".".join((module, *reversed(names))) if module else ""

    def text_of(self, node: ast.expr | None) -> str | None:
        """The literal text of an expression, also by a name that has just been bound to one; None if there is none."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name):
                return self.now.texts.get(name)
            case ast.Call(func=ast.Name(id="Path" | "PosixPath"), args=[only]):
                return self.text_of(only)
            case ast.Call(func=ast.Attribute(attr="Path"), args=[only]):
                return self.text_of(only)
            case _:
                return None

    def names_in_text(self, node: ast.expr, pattern: re.Pattern[str] | None) -> None:
        """Read what a text names: a query `@limit`, a table of SQL, or all names of an expression."""
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                for name in _names_of_expression(part.value) if pattern is None else pattern.findall(part.value):
                    self.read(name)

    def query(self, node: ast.Call, path: str) -> None:
        """Texts that name variables: `df.query("a > @limit")`, `pd.eval("a + b")`, `duckdb.sql("from df")`."""
        if node.args and effects.TEXT_READS.fullmatch(path):
            self.names_in_text(node.args[0], _IN_SQL if path.startswith("duckdb") else None)
        elif node.args and isinstance(node.func, ast.Attribute) and node.func.attr in {"query", "eval"} and not path:
            self.names_in_text(node.args[0], _IN_QUERY)

    def _attribute(self, node: ast.Attribute) -> None:
        path = self.path_of(node)
        if path == "os.environ":
            self.environment()
        elif path in {"sys.modules", "sys._getframe"}:
            self.hide(path)
        elif node.attr in {"user_ns", "user_global_ns"}:
            self.hide(node.attr)
        self.expr(node.value)

    def _comprehension(self, generators: list[ast.comprehension], results: list[ast.expr]) -> None:
        """Its variables are its own; the first iterable is gone through outside."""
        first = generators[0]
        self.expr(first.iter)
        before, hidden, casual = self.now, set(self._hidden), self.casual
        self.casual = True
        self.now = before.copy()
        bound = set(before.bound)
        for generator in generators:
            if generator is not first:
                self.expr(generator.iter)
            targets = targets_of(generator.target)
            self._hidden |= set(targets)
            share = elements(generator.iter)
            for name in targets:
                self.bind(name, share)
            self.assigned_parts(generator.target)
            for condition in generator.ifs:
                self.expr(condition)
        for result in results:
            self.expr(result)
        more = self.now.bound - bound
        before.perhaps |= (more | self.now.perhaps) - before.bound
        self.now, self._hidden, self.casual = before, hidden, casual

    def assigned_parts(self, target: ast.expr) -> None:
        """What the subscripts and attributes of a target read, and the objects that they change."""
        for part in ast.walk(target):
            if isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store):
                self.set_part(part)

    def set_part(self, target: ast.Attribute | ast.Subscript, value: Shares | None = None) -> None:
        """`target = value` for `name.attribute` or `name[key]`, or their deletion."""
        self.expr(target.value)
        path = self.path_of(target.value)
        key = target.attr if isinstance(target, ast.Attribute) else ""
        if isinstance(target, ast.Subscript):
            self.expr(target.slice)
            if isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
                key = target.slice.value
        if path == "os.environ":
            self.note_changes([ENVIRONMENT])
            return
        self.change_value(target.value, deep=not key)
        if value is not None and value.every and isinstance(target.value, ast.Name):
            self.now.link(target.value.id, value.holder(key.replace("[", "(").replace("]", ")")))


def _names_of_expression(text: str) -> list[str]:
    try:
        return [node.id for node in ast.walk(ast.parse(text.strip(), mode="eval")) if isinstance(node, ast.Name)]
    except (SyntaxError, ValueError):
        return []


def function_scope(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, *, method: bool
) -> tuple[Names, Names, str]:
    """The names of a function: its own, its parameters, and the one by which a method knows its object."""
    parameters = parameters_of(node.args)
    itself = parameters[0] if method and parameters else ""
    return own_names(node), frozenset(parameters), itself
