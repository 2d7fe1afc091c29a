"""What calls do: to the object whose method it is, to what is given, and beside the variables."""

import ast
import re

from cellwright.notebook.dependencies.bindings import Shares
from cellwright.notebook.dependencies.model import NONE, Names
from cellwright.notebook.dependencies.python import effects, world
from cellwright.notebook.dependencies.python.expressions import Expressions
from cellwright.notebook.dependencies.python.sharing import elements, root_of, shares

_TRAINS = re.compile(r"\w*trainer\w*", re.IGNORECASE)
_OF_IPYTHON = frozenset({"run_line_magic", "run_cell_magic", "system", "getoutput", "getoutput_raw", "system_raw"})


class Calls(Expressions):
    """Goes through calls."""

    def call(self, node: ast.Call, *, used: bool) -> None:
        """Go through a call, with whether anything is done with its value."""
        function = node.func
        if isinstance(function, ast.Attribute) and _is_shell(function.value):
            self.of_ipython(function.attr, node)
            return
        path = self.path_of(function)
        if isinstance(function, ast.Name):
            self._no_hidden_names(function.id, node)
            self.read(function.id)
            path = path or function.id
        else:
            self.expr(function)
            if path and path.rpartition(".")[2] in effects.READS_ALL - {"vars", "dir"}:
                self._no_hidden_names(path.rpartition(".")[2], node)
        for value in _given(node):
            self.expr(value.value if isinstance(value, ast.Starred) else value)
        self.query(node, path)
        self._beside(node, path)
        if isinstance(function, ast.Name):
            self._function(node, function.id, path, used=used)
        elif path:
            self._of_module(node, path, used=used)
        elif isinstance(function, ast.Attribute):
            self._method(node, function, used=used)
        self._keywords(node)

    def of_ipython(self, method: str, node: ast.Call) -> None:
        raise NotImplementedError

    def _no_hidden_names(self, name: str, node: ast.Call) -> None:
        if name not in effects.READS_ALL or name in self.own | self.now.bound | self._hidden:
            return
        if name in {"vars", "dir", "locals"} and (node.args or self.is_function):
            return
        self.hide(name)

    def _beside(self, node: ast.Call, path: str) -> None:
        """Random numbers, files, the working folder and the environment."""
        described = self._described(node, path)
        self.touch(world.touched(described))
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(receiver, ast.Call):
            # An object that draws random numbers once it is used, and is used on the spot.
            states = world.code_draws(self._described(receiver, self._called_path(receiver)))
            self.touch(world.Touch(uses=states, changes=states))

    def _called_path(self, node: ast.Call) -> str:
        return self.path_of(node.func) or (node.func.id if isinstance(node.func, ast.Name) else "")

    def _described(self, node: ast.Call, path: str) -> world.Call:
        function = node.func
        is_method = not path
        name = path or (function.attr if isinstance(function, ast.Attribute) else "")
        keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        texts = [self.text_of(value) for value in node.args]
        if not texts:
            named = [
                keywords[key]
                for key in ("filepath_or_buffer", "path_or_buf", "path", "file", "fname")
                if key in keywords
            ]
            texts = [self.text_of(value) for value in named]
        mode: str | None = "r"
        place = 0 if is_method else 1
        given = keywords.get("mode") or (node.args[place] if len(node.args) > place else None)
        if given is not None:
            mode = self.text_of(given)
        own = self.text_of(function.value) if is_method and isinstance(function, ast.Attribute) else None
        return world.Call(name, is_method, texts, frozenset(keywords), mode, own)

    def draws_later(self, node: ast.expr) -> Names:
        """From which random numbers the objects draw that are made in this expression."""
        states = NONE
        for part in ast.walk(node):
            if isinstance(part, ast.Call):
                path = self._called_path(part) or getattr(part.func, "attr", "")
                states |= world.code_draws(self._described(part, path))
        return states

    def _function(self, node: ast.Call, name: str, path: str, *, used: bool) -> None:
        if effects.is_constructor(name) and not effects.is_known(path):
            self.makes_more = True
        if path != name:
            self._of_module(node, path, used=used)
        elif not self._changes_known(node, path) and not used and not self._is_harmless(name):
            self.found.commands.add(name)
        self.give(name, frozenset(other for share in self._shares_given(node) for other in share.every))

    def _of_module(self, node: ast.Call, path: str, *, used: bool) -> None:
        root, steps = root_of(node.func)
        last = path.rpartition(".")[2]
        if effects.SETTERS.fullmatch(path) or (
            steps > 1 and last in effects.CONTAINER and not path.startswith("numpy.")
        ):
            self.change(root, deep=False)
        elif not self._changes_known(node, path) and not (used or effects.is_known(path) or self._is_harmless(last)):
            for share in self._shares_given(node):
                self.change_shares(share, deep=True)

    def _is_harmless(self, function: str) -> bool:
        return function in effects.PURE_FUNCTIONS or effects.is_pure_method(function) or function in self.now.functions

    def _changes_known(self, node: ast.Call, path: str) -> bool:
        """Whether the function is one that is known to change what it is given, which it then does."""
        place = 0 if effects.CHANGE_FIRST.fullmatch(path) else 1 if effects.CHANGE_SECOND.fullmatch(path) else None
        if place is None or len(node.args) <= place or path in self.now.functions:
            return False
        self.change_value(
            node.args[place], deep=path not in {"next", "heappush", "heapq.heappush", "setattr", "delattr"}
        )
        if path in {"setattr", "heappush", "heapq.heappush"}:
            self._keep(node.args[place], node.args[1:])
        return True

    def _method(self, node: ast.Call, function: ast.Attribute, *, used: bool) -> None:
        name, receiver = function.attr, function.value
        share = shares(receiver)
        if effects.is_mutator(name, used=used and not self.casual, arguments=bool(node.args)):
            self.change_shares(share, deep=name not in effects.CONTAINER)
            if name in effects.STORES:
                self._keep(receiver, node.args[1:] if name in {"setdefault", "insert"} else node.args)
        elif not used and not effects.is_pure_method(name):
            self.change_shares(share if share.every else _spine(receiver), deep=True)
        root, _ = root_of(receiver)
        if not root or root in self._hidden or self.path_of(receiver):
            return
        given = frozenset(other for one in self._shares_given(node) for other in one.every)
        if root in self.own:
            self.give_to_local(root, given)
            if root == self.itself:
                self.note_own_call(name)
            return
        self.found.methods[root] = self.found.methods.get(root, NONE) | {name}
        if given:
            self.give(root, given)
        if _TRAINS.fullmatch(root) and name in {"fit", "train", "test", "validate", "tune"}:
            for one in self._shares_given(node):
                self.change_shares(one, deep=True)
        self._change_by_class(root, name, given)

    def _change_by_class(self, root: str, method: str, given: Names) -> None:
        """Of an instance of a class of this cell, what its method changes is known."""
        for maker in (root, *self.now.code.get(root, ())):
            later = self.now.functions.get(maker)
            if later is not None:
                if method in later.methods:
                    self.change(root, deep=True)
                if later.arguments:
                    for name in given:
                        self.change(name, deep=True)

    def give_to_local(self, root: str, given: Names) -> None:
        for outer in self.now.touched(root, deep=False):
            if outer not in self.own and given:
                self.give(outer, given)

    def note_own_call(self, method: str) -> None:
        """A method calls another one of its object."""

    def _keep(self, receiver: ast.expr, given: list[ast.expr]) -> None:
        """The receiver holds from now on what it is given."""
        root, steps = root_of(receiver)
        if root and steps <= 1:
            for value in given:
                self.now.link(root, shares(value).holder())

    def _keywords(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg == "out":
                self.change_value(keyword.value, deep=True)
            elif keyword.arg == "inplace" and isinstance(node.func, ast.Attribute) and not _is_false(keyword.value):
                self.change_value(node.func.value, deep=True)

    def _shares_given(self, node: ast.Call) -> list[Shares]:
        return [elements(value.value) if isinstance(value, ast.Starred) else shares(value) for value in _given(node)]


def _given(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)]


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _is_shell(node: ast.expr) -> bool:
    """Whether this is `get_ipython()`."""
    match node:
        case ast.Call(func=ast.Name(id="get_ipython"), args=[]):
            return True
        case _:
            return False


def _spine(node: ast.expr) -> Shares:
    """The variable at the beginning of `name.method().method()`, unless one of the methods gives something new."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                if name in effects.PURE - {"get", "cuda", "to", "cpu"} or name.startswith(("to_", "plot")):
                    return Shares()
                node = value
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                node = value
            case ast.Name(id=name):
                return Shares(wholes=frozenset({name}))
            case _:
                return Shares()
