"""Names of variables and paths into what they hold, as in `config["db"]` or `model.layers[0]`: read as syntax, never run."""

import ast
from dataclasses import dataclass

from cellwright.core.errors import InvalidArgument

LONGEST = 500
SENDABLE = (str, int, float, bool, type(None))

Step = tuple[str, object]


@dataclass(frozen=True, slots=True)
class VariablePath:
    """A variable, and the attributes and keys that lead from it to a value, in a form that JSON has."""

    name: str
    """As the caller wrote it: it may also be the whole name of a variable."""
    root: str
    steps: tuple[Step, ...] = ()


def parse_path(name: str) -> VariablePath:
    """Raises InvalidArgument for what is more than names, attributes and keys."""
    if len(name) > LONGEST:
        raise InvalidArgument(f"a name of {len(name):,} characters is too long", hint=f"at most {LONGEST}")
    try:
        node = ast.parse(name.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return VariablePath(name, name)
    steps: list[Step] = []
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=inner, attr=attribute):
                steps.append(("attribute", attribute))
            case ast.Subscript(value=inner, slice=key):
                steps.append(("key", _key(key, name)))
            case _:
                raise _refusal(name)
        node = inner
    return VariablePath(name, node.id, tuple(reversed(steps)))


def _key(node: ast.expr, name: str) -> object:
    match node:
        case ast.Tuple(elts=parts):
            return {"tuple": [_key(part, name) for part in parts]}
        case ast.Constant(value=bytes() as data):
            return {"bytes": list(data)}
        case ast.Constant(value=value) if isinstance(value, SENDABLE):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case _:
            raise _refusal(name)


def _refusal(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name!r} is not a name or a path",
        hint='A path has attributes and constant keys, as in model.layers[0] or config["db"]; run a cell for all else',
    )
