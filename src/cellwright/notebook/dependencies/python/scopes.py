"""Which names are a function's own, by Python's rules."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def parameters_of(arguments: ast.arguments) -> list[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [argument.arg for argument in every]


@dataclass(frozen=True, slots=True)
class Function:
    """What the text of a function says of its names."""

    parameters: tuple[str, ...]
    own: frozenset[str]
    """Local names: the parameters, and what it binds without `global` or `nonlocal`."""
    bound_outside: frozenset[str]
    """What it binds by `global` or `nonlocal`."""
    is_generator: bool
    makes_code: bool
    """Whether what it gives back may hold code of its own: a function or class in it, or the body of a generator."""


def function_of(node: FunctionNode) -> Function:
    parameters = tuple(parameters_of(node.args))
    bound: set[str] = set()
    declared: set[str] = set()
    is_generator = makes_code = False
    for inner in _own_nodes([node.body] if isinstance(node, ast.Lambda) else node.body):
        bound.update(_bound_by(inner))
        if isinstance(inner, ast.Global | ast.Nonlocal):
            declared.update(inner.names)
        is_generator |= isinstance(inner, ast.Yield | ast.YieldFrom)
        makes_code |= isinstance(inner, _INNER) and not isinstance(node, ast.Lambda)
    return Function(
        parameters,
        frozenset((bound | set(parameters)) - declared),
        frozenset(bound & declared),
        is_generator,
        makes_code or is_generator,
    )


def type_parameters(node: ast.AST) -> list[str]:
    """The names in the brackets of `def f[T](…)`, which Python has from 3.12 on."""
    return [str(parameter.name) for parameter in getattr(node, "type_params", [])]


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id
        return
    if isinstance(node, ast.expr):
        return
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case _:
            pass


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the scopes in it. Of a comprehension, what `:=` binds is bound outside."""
    pending = [(node, False) for node in body]
    while pending:
        node, comprehended = pending.pop()
        if comprehended and isinstance(node, ast.Name):
            continue
        if isinstance(node, ast.NamedExpr) and comprehended:
            yield node.target
        yield node
        if isinstance(node, _INNER):
            continue
        inside = comprehended or isinstance(node, _COMPREHENSIONS)
        pending += [(child, inside) for child in ast.iter_child_nodes(node)]
