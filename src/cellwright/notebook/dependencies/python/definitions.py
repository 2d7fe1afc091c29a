"""Functions and classes that a cell defines: what is read at once, and what they do later."""

import ast
from dataclasses import replace
from functools import reduce

from cellwright.notebook.dependencies.bindings import either
from cellwright.notebook.dependencies.model import NONE, Later, Names, listed
from cellwright.notebook.dependencies.python.flow import Flow
from cellwright.notebook.dependencies.python.scopes import (
    FunctionNode,
    function_of,
    type_parameters,
)

_KEEP_FOR_LATER = listed(
    """
    property staticmethod classmethod jit njit vmap pmap cuda vectorize guvectorize lru_cache cache cached_property
    wraps no_grad function inference_mode contextmanager asynccontextmanager dataclass total_ordering abstractmethod
    overload setter getter singledispatch register fixture parametrize retry timeit final override njit_parallel
    cell_magic line_magic field_validator validator
    """
)
"""Decorators that do not call what they decorate at once."""


class Definitions(Flow):
    """Goes through definitions."""

    def __init__(self, own: Names = NONE, parameters: Names = NONE, itself: str = "") -> None:
        super().__init__(own, parameters, itself)
        self.in_class = False
        self.own_calls: set[str] = set()
        """Methods of its own object that a method calls."""
        self._methods: dict[str, Definitions] = {}

    def note_own_call(self, method: str) -> None:
        self.own_calls.add(method)

    def lambda_(self, node: ast.Lambda) -> Later:
        return self._later(node)[0]

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Decorators, default values and annotations are read at once."""
        for decorator in node.decorator_list:
            self.expr(decorator)
        self.defaults(node.args)
        hidden = self.hide_names(type_parameters(node))
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        for argument in arguments:
            self.expr(None if argument is None else argument.annotation)
        self.expr(node.returns)
        self.show_names(hidden)
        decorators = {_name(decorator) for decorator in node.decorator_list}
        later, inner = self._later(node, method=self.in_class and "staticmethod" not in decorators)
        if self.in_class:
            self._methods[node.name] = inner
        elif decorators - _KEEP_FOR_LATER:
            self.apply(later)
        self._bind_definition(node.name, later)

    def class_(self, node: ast.ClassDef) -> None:
        """The body runs at once, its methods later. What it binds are attributes, and no names of the kernel."""
        for value in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self.expr(value)
        makers, lambdas = set(self.makers), self.lambdas
        before, methods, in_class = self.now.copy(), self._methods, self.in_class
        around, self.around_class = self.around_class, frozenset(before.bound)
        self._methods, self.in_class = {}, True
        hidden = self.hide_names(type_parameters(node))
        self.body(node.body)
        self.show_names(hidden)
        laters = [later for name, later in self.now.functions.items() if later is not before.functions.get(name)]
        changing = _changing(self._methods)
        self.now, self._methods, self.in_class, self.around_class = before, methods, in_class, around
        self.makers, self.lambdas = makers, lambdas
        does = reduce(either, laters, Later())
        later = replace(does, methods=does.methods | changing, yields=False, makes=True)
        self._bind_definition(node.name, later)

    def _bind_definition(self, name: str, later: Later) -> None:
        code = frozenset(self.makers) - {name}
        self.bind(name)
        self.now.functions[name] = later
        if code:
            self.now.code[name] = code

    def _later(self, node: FunctionNode, *, method: bool = False) -> tuple[Later, "Definitions"]:
        says = function_of(node)
        itself = says.parameters[0] if method and says.parameters else ""
        inner = type(self)(says.own, frozenset(says.parameters), itself)
        inner.now.modules = {name: path for name, path in self.now.modules.items() if name not in says.own}
        inner.hide_names(type_parameters(node))
        inner.is_function = True
        if isinstance(node, ast.Lambda):
            inner.casual = True
            inner.expr(node.body)
        else:
            inner.body(node.body)
        found = inner.found
        later = Later(
            frozenset(found.uses),
            frozenset(found.changes),
            frozenset(found.binds) | says.bound_outside,
            {name: given for name, given in found.calls.items() if given},
            found.arguments,
            NONE,
            says.is_generator,
            says.makes_code or inner.makes_more,
            found.opaque,
        )
        return later, inner


def _changing(methods: dict[str, Definitions]) -> Names:
    """The methods that change their object, themselves or by another one that they call."""
    changing = {name for name, inner in methods.items() if inner.found.changes_itself}
    while more := {name for name, inner in methods.items() if name not in changing and inner.own_calls & changing}:
        changing |= more
    return frozenset(changing - {"__init__"})


def _name(node: ast.expr) -> str:
    match node:
        case ast.Call(func=function):
            return _name(function)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
