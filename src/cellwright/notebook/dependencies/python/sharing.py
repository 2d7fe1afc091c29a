"""With which names the value of an expression may share objects."""

import ast

from cellwright.notebook.dependencies.bindings import ALONE, Shares, together
from cellwright.notebook.dependencies.python.effects import (
    ELEMENTS,
    FRESH,
    KEEPERS,
    LAZY,
    OVER,
    OWN_METHODS,
    PLAIN,
    SAME_MEMORY,
    VIEW_METHODS,
    VIEWS,
    is_constructor,
)

DEEPEST = 60
COPIES = (ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.List, ast.ListComp)
"""Kinds of subscripts that choose by a mask or a list, which makes a copy."""


def shares(node: ast.expr | None, depth: int = 0) -> Shares:
    """What the value of the expression shares. A sum or the result of an unknown function shares nothing."""
    if depth > DEEPEST:
        return ALONE
    depth += 1
    match node:
        case ast.Name(id=name):
            share = Shares(frozenset({name}))
        case ast.Attribute(value=value, attr=attribute):
            share = _attribute(shares(value, depth), attribute)
        case ast.Subscript(value=value, slice=index):
            share = _subscript(shares(value, depth), value, index)
        case ast.NamedExpr(target=target, value=value):
            share = shares(value, depth).with_(Shares(frozenset({target.id})))
        case ast.IfExp(body=body, orelse=other):
            share = together(shares(value, depth) for value in (body, other))
        case ast.BoolOp(values=values):
            share = together(shares(value, depth) for value in values)
        case ast.Await(value=value):
            share = shares(value, depth)
        case ast.Call():
            share = _call(node, depth)
        case _:
            share = _display(node, depth)
    return share


def _display(node: ast.expr | None, depth: int) -> Shares:
    """What a list or the like shares with what is put into it."""
    match node:
        case ast.List(elts=values) | ast.Tuple(elts=values) | ast.Set(elts=values):
            fixed = not any(isinstance(value, ast.Starred) for value in values)
            return together(shares(value, depth).holder(str(at) if fixed else "") for at, value in enumerate(values))
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return together(shares(value, depth).holder("" if key is None else key_of(key)) for key, value in pairs)
        case ast.Starred(value=value):
            return shares(value, depth).element()
        case ast.ListComp(elt=element) | ast.SetComp(elt=element) | ast.GeneratorExp(elt=element):
            return _comprehension(element, node.generators, depth)
        case ast.DictComp(value=element):
            return _comprehension(element, node.generators, depth)
        case _:
            return ALONE


def elements(node: ast.expr, depth: int = 0) -> Shares:
    """What the elements of the value share, over which a loop goes."""
    if isinstance(node, ast.Call) and depth <= DEEPEST:
        name = _called(node)
        if name in OVER:
            return together(elements(argument, depth + 1) for argument in node.args)
        if name in {"items", "values"} and isinstance(node.func, ast.Attribute):
            return elements(node.func.value, depth + 1)
        if name in {"groupby", "iterrows", "itertuples", "keys", "range", "iteritems"}:
            return ALONE
    return shares(node, depth).element()


def targets_of(node: ast.expr) -> list[str]:
    """The names that a target binds."""
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]


def root_of(node: ast.expr) -> tuple[str, int]:
    """The variable at the beginning of `name.attribute[key]…`, and how many steps follow; "" if it is something else."""
    steps = 0
    while True:
        match node:
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                node = value
                steps += 1
            case ast.Name(id=name):
                return name, steps
            case _:
                return "", steps


def _attribute(of: Shares, attribute: str) -> Shares:
    if attribute in PLAIN:
        return ALONE
    return of if attribute in VIEWS else of.element(attribute)


def _subscript(of: Shares, value: ast.expr, index: ast.expr) -> Shares:
    located = isinstance(value, ast.Attribute) and value.attr in {"loc", "iloc", "at", "iat", "ix"}
    choices = index.elts if isinstance(index, ast.Tuple) else [index]
    if any(isinstance(choice, COPIES) and not _is_negative(choice) for choice in choices):
        return ALONE
    if located or any(isinstance(choice, ast.Slice) for choice in choices):
        return of
    return of.element(key_of(index))


def key_of(node: ast.expr) -> str:
    """A literal key; "" if it is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int) and not isinstance(node.value, bool):
        return str(node.value).replace("[", "(").replace("]", ")")
    return ""


def _is_negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


def _comprehension(element: ast.expr, generators: list[ast.comprehension], depth: int) -> Shares:
    own = shares(element, depth)
    result = ALONE
    hidden: set[str] = set()
    for generator in generators:
        names = set(targets_of(generator.target))
        hidden |= names
        if own.every & names:
            result = result.with_(elements(generator.iter, depth).holder())
    rest = own.every - hidden
    return result.with_(Shares(same=rest).holder()) if rest else result


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _call(node: ast.Call, depth: int) -> Shares:
    name = _called(node)
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    of = shares(node.func.value, depth) if isinstance(node.func, ast.Attribute) else ALONE
    if name in ELEMENTS and of.every:
        return of.element().with_(together(shares(value, depth) for value in node.args[1:2]))
    if name in KEEPERS and of.every:
        return of.holder()
    own = of if name in VIEW_METHODS or name in OWN_METHODS else ALONE
    if name in SAME_MEMORY:
        first = given[0] if given else None
        memory = shares(first, depth) if isinstance(first, ast.Name | ast.Attribute | ast.Subscript) else ALONE
        return own.with_(memory.holder() if name in FRESH else memory)
    if name in LAZY or is_constructor(name):
        return own.with_(together(shares(value, depth).holder() for value in given))
    return own
