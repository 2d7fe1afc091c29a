"""Which names are a function's own, by Python's rules."""

import ast
from collections.abc import Iterable, Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def parameters_of(arguments: ast.arguments) -> list[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [argument.arg for argument in every]


def own_names(function: FunctionNode) -> frozenset[str]:
    """The names that are local to a function: its parameters, and what it binds without `global` or `nonlocal`."""
    names = set(parameters_of(function.args))
    if isinstance(function, ast.Lambda):
        return frozenset(names | _bound_in([function.body]))
    names |= _bound_in(function.body)
    return frozenset(names - _declared(function.body))


def names_bound_outside(function: FunctionNode) -> frozenset[str]:
    """What a function binds by `global` or `nonlocal`."""
    if isinstance(function, ast.Lambda):
        return frozenset()
    declared = _declared(function.body)
    return frozenset(declared & _bound_in(function.body)) if declared else frozenset()


def is_generator(function: FunctionNode) -> bool:
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own_nodes(body))


def makes_code(function: FunctionNode) -> bool:
    """Whether what a function gives back may hold code of its own: a function or class in it, or the body of a generator."""
    if isinstance(function, ast.Lambda):
        return False
    return any(isinstance(node, (ast.Yield, ast.YieldFrom, *_INNER)) for node in _own_nodes(function.body))


def type_parameters(node: ast.AST) -> list[str]:
    """The names in the brackets of `def f[T](…)`, which Python has from 3.12 on."""
    return [str(parameter.name) for parameter in getattr(node, "type_params", [])]


def _declared(body: list[ast.stmt]) -> set[str]:
    return {name for node in _own_nodes(body) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}


def _bound_in(body: Iterable[ast.AST]) -> set[str]:
    return {name for node in _own_nodes(body) for name in _bound_by(node)}


def _bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
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
