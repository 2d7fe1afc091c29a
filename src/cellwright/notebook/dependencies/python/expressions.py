"""What expressions read, call and change."""

import ast
import re

from cellwright.notebook.dependencies.bindings import Shares
from cellwright.notebook.dependencies.model import ENVIRONMENT, Later
from cellwright.notebook.dependencies.python import effects
from cellwright.notebook.dependencies.python.sharing import elements, shares, targets_of
from cellwright.notebook.dependencies.python.tracking import Tracking

_IN_QUERY = re.compile(r"@([^\W\d]\w*)")
_IN_SQL = re.compile(r"(?i)\b(?:from|join)\s+([^\W\d]\w*)")


class Expressions(Tracking):
    """Goes through the expressions of one scope."""

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
            case ast.NamedExpr(target=target, value=value):
                self.expr(value)
                self.bind_outside(target.id, shares(value))
            case ast.BoolOp() | ast.IfExp() | ast.Compare():
                self._choice(node)
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._scope(node)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expr(child)

    def _choice(self, node: ast.BoolOp | ast.IfExp | ast.Compare) -> None:
        """Of these expressions only the first part is surely gone through."""
        match node:
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
                pass

    def _scope(self, node: ast.Lambda | ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        match node:
            case ast.Lambda():
                self.defaults(node.args)
                self.lambdas.append(later := self.lambda_(node))
                self.apply(later)
            case ast.DictComp(key=key, value=value):
                self._comprehension(node.generators, [key, value])
            case _:
                self._comprehension(node.generators, [node.elt])

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
