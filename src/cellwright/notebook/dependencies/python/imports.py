"""Names of a cell that stand for what was imported, and for nothing that the cell makes of it."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cellwright.notebook.dependencies.model import Links, Names
from cellwright.notebook.dependencies.python.sharing import root_of


def kept_imports(body: Sequence[ast.stmt], bound: Iterable[str], modules: Mapping[str, str], changes: Names) -> Links:
    """The names that the cell binds to modules, or to parts of them, and then leaves as they are, with where they come from.

    A call whose value is thrown away may be an order to its whole package, as `hv.extension("bokeh")` is.
    """
    ordered = {modules[root].partition(".")[0] for root in _roots(body) if root in modules}
    return {
        name: frozenset((modules[name],))
        for name in bound
        if name in modules and name not in changes and modules[name].partition(".")[0] not in ordered
    }


def is_settings(body: Sequence[ast.stmt], modules: Mapping[str, str]) -> bool:
    """Whether all that stands there imports, or sets literal options of what is imported."""
    imports = any(isinstance(statement, ast.Import | ast.ImportFrom) for statement in body)
    return imports and all(_sets_options(statement, modules) for statement in body)


def _sets_options(statement: ast.stmt, modules: Mapping[str, str]) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=function, args=args, keywords=keywords)):
            values = [*args, *(keyword.value for keyword in keywords)]
            return root_of(function)[0] in modules and all(map(_is_literal, values))
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() as target], value=value):
            return root_of(target)[0] in modules and _is_literal(value)
        case _:
            return False


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return False
    return True


def _roots(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The variables to which something is told: by calls whose value is thrown away, and by assignments to parts of them."""
    for node in (inner for statement in body for inner in ast.walk(statement)):
        match node:
            case ast.Expr(value=value):
                yield _called(value)
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                yield from (root_of(target)[0] for target in targets if not isinstance(target, ast.Name))
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target) if not isinstance(target, ast.Name):
                yield root_of(target)[0]
            case ast.withitem(context_expr=value):
                yield _called(value)
            case _:
                pass


def _called(node: ast.expr) -> str:
    """The variable at the beginning of a call, or of a chain of calls."""
    while isinstance(node, ast.Call | ast.Await | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
