"""What a cell in Python defines, uses and changes: its statements in their order, on all ways that they can take."""

import ast
import builtins
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from cellwright.notebook.dependencies.bindings import Shares, either, joined
from cellwright.notebook.dependencies.model import CellNames, Later, Links, Names
from cellwright.notebook.dependencies.python import effects, ipython
from cellwright.notebook.dependencies.python.definitions import Definitions
from cellwright.notebook.dependencies.python.imports import is_settings, kept_imports
from cellwright.notebook.dependencies.python.ipython import Magic
from cellwright.notebook.dependencies.python.sharing import shares

_BUILT_IN = frozenset(dir(builtins)) | effects.MODULES.keys()
Parsed = tuple[list[ast.stmt], str]


def parsed(source: str) -> Parsed:
    """The statements of a cell, and its text as Python. SyntaxError if it is none, also after IPython's transformation."""
    with warnings.catch_warnings():
        # Of an escape that Python does not know it warns; the kernel does, too.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source).body, source
        except SyntaxError:
            text = ipython.transformed(source)
            return ast.parse(text).body, text


def names_in_python(source: str) -> CellNames:
    """The names of a cell in Python. SyntaxError and others if it is none."""
    body, text = parsed(source)
    walk = Walk()
    walk.cell(body, shown=not _ends_with_semicolon(text))
    names = walk.names()
    modules = walk.now.modules
    imports = kept_imports(body, names.defines, modules, names.changes)
    return replace(names, imports=imports, settings=is_settings(body, modules))


class Walk(Definitions):
    """Goes through the statements of a cell, or of a function."""

    def names(self) -> CellNames:
        """What was found in a cell."""
        now, found = self.now, self.found
        bound = now.bound | now.perhaps
        uses = frozenset(found.uses)
        return CellNames(
            defines=frozenset(now.bound),
            perhaps=frozenset(now.perhaps - now.bound),
            changes=frozenset(found.changes),
            deep=frozenset(found.deep),
            uses=uses,
            later={name: later for name, later in now.functions.items() if name in bound},
            calls={name: given for name, given in found.calls.items() if given},
            commands=frozenset(found.commands),
            methods=dict(found.methods),
            aliases={name: names for name, names in now.same.items() if names},
            inside={name: names for name, names in now.wholes.items() if names},
            code=_without_modules(now.code, bound, now.modules),
            spent=frozenset(now.spent & bound),
            stars=frozenset(found.stars),
            opaque=found.opaque,
        )

    def cell(self, body: Sequence[ast.stmt], *, shown: bool) -> None:
        """The statements of a cell. The value of the last one is there to be shown, so it was not thrown away."""
        last = body[-1] if body and shown else None
        if isinstance(last, ast.Expr):
            self.body(body[:-1])
            self._shown(last.value)
        else:
            self.body(body)
        if self.now.gone:
            # It fails, but not before it did what stands above.
            self.now = joined(self.exits).copy()
        for way in self.exits:
            self.now.perhaps |= (way.bound | way.perhaps) - self.now.bound

    def body(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            if self.now.gone:
                return
            self.lambdas, self.makers = [], set()
            self.statement(statement)

    def _shown(self, node: ast.expr) -> None:
        """The last expression of a cell: its methods change their object only if they are known to."""
        if isinstance(node, ast.Await):
            node = node.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changes = effects.is_mutator(node.func.attr, used=False, arguments=bool(node.args))
            self.call(node, used=not changes)
        elif isinstance(node, ast.Call):
            self.call(node, used=False)
        else:
            self.expr(node)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=value):
                self._thrown_away(value)
            case ast.Assign(targets=targets, value=value):
                self._assign(targets, value)
            case ast.AugAssign(target=target, value=value):
                self._augmented(target, value)
            case ast.AnnAssign(target=target, value=value, annotation=annotation):
                self.expr(annotation)
                if value is not None:
                    self._assign([target], value)
            case ast.Delete(targets=targets):
                self._delete(targets)
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node)
            case ast.ClassDef():
                self.class_(node)
            case _:
                self._compound(node)

    def _compound(self, node: ast.stmt) -> None:
        match node:
            case ast.If():
                self.if_(node)
            case ast.For() | ast.AsyncFor():
                self.for_(node)
            case ast.While():
                self.while_(node)
            case ast.Try() | ast.TryStar():
                self.try_(node)
            case ast.With() | ast.AsyncWith():
                self.with_(node)
            case ast.Match():
                self.match_(node)
            case _:
                self._simple(node)

    def _simple(self, node: ast.stmt) -> None:
        match node:
            case ast.Return(value=value):
                self.expr(value)
                self.now.gone = True
            case ast.Raise():
                self.expr(node.exc)
                self.expr(node.cause)
                self.raise_()
            case ast.Break() | ast.Continue():
                self.leave_loop()
            case ast.Assert(test=test, msg=message):
                self.expr(test)
                self.perhaps([] if message is None else [message])
            case _:
                # `type X = …`, whose value is read once it is asked for.
                name = getattr(node, "name", None)
                if isinstance(name, ast.Name):
                    self.bind(name.id)

    def _thrown_away(self, node: ast.expr) -> None:
        while isinstance(node, ast.Await | ast.YieldFrom):
            node = node.value
        if isinstance(node, ast.Call):
            self.call(node, used=False)
        else:
            self.expr(node)

    # Binding

    def _assign(self, targets: list[ast.expr], value: ast.expr) -> None:
        if isinstance(value, ast.Lambda):
            self.defaults(value.args)
            self.lambdas.append(self.lambda_(value))
        else:
            self.expr(value)
        share = self.now.resolved(shares(value))
        code = frozenset(self.makers) | self.draws_later(value)
        lambdas = list(self.lambdas)
        for target in targets:
            self.assign_to(target, value, share, code)
        if len(targets) == 1 and isinstance(targets[0], ast.Name):
            self._remember(targets[0].id, value, lambdas)

    def _remember(self, name: str, value: ast.expr, lambdas: list[Later]) -> None:
        """What is known of a single name beside what it shares."""
        text = self.text_of(value)
        if text is not None:
            self.now.texts[name] = text
        if isinstance(value, ast.Name):
            if value.id in self.now.functions:
                self.now.functions[name] = self.now.functions[value.id]
            if value.id in self.now.modules:
                self.now.modules[name] = self.now.modules[value.id]
        if lambdas and _may_hold_code(value):
            self.now.functions[name] = reduce(either, lambdas)
        called = value.func if isinstance(value, ast.Call) else None
        last = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        later = self.now.functions.get(last)
        if isinstance(value, ast.GeneratorExp) or last in effects.USED_UP or (later is not None and later.yields):
            self.now.spent.add(name)

    def assign_to(self, target: ast.expr, value: ast.expr | None, share: Shares, code: Names) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self.bind(name, share)
                if code:
                    self.now.code[name] = code - {name}
            case ((ast.Attribute() | ast.Subscript()), _):
                self.set_part(target, share)
            case ast.Starred(value=inner), _:
                self.assign_to(inner, None, share.holder(), code)
            case ((ast.Tuple(elts=parts) | ast.List(elts=parts)), (ast.Tuple(elts=values) | ast.List(elts=values))) if (
                len(parts) == len(values) and not any(isinstance(part, ast.Starred) for part in (*parts, *values))
            ):
                resolved = [self.now.resolved(shares(one)) for one in values]
                for part, inner, one in zip(parts, values, resolved, strict=True):
                    self.assign_to(part, inner, one, code)
            case ((ast.Tuple(elts=parts) | ast.List(elts=parts)), _):
                for part in parts:
                    self.assign_to(part, None, share.element(), code)
            case _:
                pass

    def _augmented(self, target: ast.expr, value: ast.expr) -> None:
        """`x += 1` may change the object of `x`, or bind `x` to another one."""
        if isinstance(target, ast.Name):
            self.read(target.id)
            self.expr(value)
            spare = isinstance(value, ast.JoinedStr) or (
                isinstance(value, ast.Constant) and isinstance(value.value, str)
            )
            self.change(target.id, deep=not spare)
            self.now.link(target.id, Shares(parts=shares(value).parts))
        elif isinstance(target, ast.Attribute | ast.Subscript):
            self.expr(value)
            self.set_part(target)
            self.change_value(target, deep=True)

    def _delete(self, targets: list[ast.expr]) -> None:
        for target in targets:
            match target:
                case ast.Name(id=name):
                    self.read(name)
                    self.bind(name)
                case ast.Attribute() | ast.Subscript():
                    self.set_part(target)
                case ast.Tuple(elts=parts) | ast.List(elts=parts):
                    self._delete(parts)
                case _:
                    pass

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                name = alias.asname or alias.name.partition(".")[0]
                module = alias.name if alias.asname else name
            elif alias.name == "*":
                self.found.stars.add("." * node.level + (node.module or ""))
                continue
            else:
                name = alias.asname or alias.name
                module = f"{node.module or ''}.{alias.name}"
            self.bind(name)
            self.now.modules[name] = module
            if module == "__main__" or module.startswith("__main__."):
                self.hide("__main__")

    # IPython

    def of_ipython(self, method: str, node: ast.Call) -> None:
        """`get_ipython().run_line_magic(…)`, which is what IPython makes of `%`, `!` and `?`."""
        for value in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.expr(value)
        texts = [self.text_of(value) for value in node.args]
        if None in texts:
            self.hide(f"get_ipython().{method}")
            return
        match method, [text for text in texts if text is not None]:
            case "run_line_magic", [name, line]:
                self.magic(ipython.line_magic(name, line))
            case "run_line_magic", [name, line, *_]:
                self.magic(ipython.line_magic(name, line))
            case "run_cell_magic", [name, line, body]:
                self.magic(ipython.cell_magic(name, line, body))
            case (("system" | "getoutput"), [command]):
                self.magic(ipython.shell(command))
            case _:
                self.hide(f"get_ipython().{method}")

    def magic(self, magic: Magic) -> None:
        for name in magic.uses:
            self.read(name)
        if magic.code.strip():
            self._run(magic)
        self.note_changes(magic.changes)
        for name in magic.defines:
            self.bind(name)
        if magic.opaque:
            self.hide(magic.opaque)

    def _run(self, magic: Magic) -> None:
        """Python inside of magic."""
        try:
            body, text = parsed(magic.code)
        except SyntaxError:
            self.hide("magic around what is no Python")
            return
        before = self.now.copy(), self.lambdas, self.makers
        self.cell(body, shown=not _ends_with_semicolon(text))
        now, self.lambdas, self.makers = before
        if magic.apart:
            self.now = now


def _may_hold_code(node: ast.expr) -> bool:
    """Whether lambdas in an expression may be in its value, and were not only given to a function that is through with them."""
    match node:
        case (
            ast.Lambda()
            | ast.Dict()
            | ast.List()
            | ast.Tuple()
            | ast.Set()
            | ast.IfExp()
            | ast.ListComp()
            | ast.DictComp()
        ):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return effects.is_constructor(name) or name in effects.LAZY or name == "defaultdict"
        case _:
            return False


def _without_modules(code: Links, bound: set[str], modules: Mapping[str, str]) -> Links:
    """What the names that are bound were made with, without modules and what is built in."""
    kept: dict[str, Names] = {}
    for name in code.keys() & bound:
        if names := frozenset(other for other in code[name] if other not in modules and other not in _BUILT_IN):
            kept[name] = names
    return kept


def _ends_with_semicolon(text: str) -> bool:
    """Whether the value of the last line is not shown."""
    line = text.rstrip().rpartition("\n")[2].partition("#")[0]
    return line.rstrip().endswith(";")
