"""What a cell in JavaScript does with names."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cellwright.notebook.dependencies.bindings import ALONE, Shares
from cellwright.notebook.dependencies.foreign.walking import ForeignWalk, inside, text_of
from cellwright.notebook.dependencies.model import ANY_FILE, FILES, RANDOM, Later, listed

if TYPE_CHECKING:
    from tree_sitter import Node

_NAMES = ("identifier", "shorthand_property_identifier_pattern")
_FUNCTIONS = frozenset(
    {
        "function_declaration",
        "function_expression",
        "arrow_function",
        "method_definition",
        "generator_function",
        "generator_function_declaration",
    }
)
_PURE = re.compile(
    r"log|error|warn|info|table|map|filter|slice|concat|join|split|find\w*|includes|indexOf|toString|to[A-Z]\w*|get\w*|is[A-Z]\w*|has|keys|values|"
    r"entries|forEach|some|every|reduce\w*|trim|charAt|then|catch|stringify|parse|display|html|markdown|print\w*|test|match\w*|replace\w*"
)
_MUTATORS = listed(
    """
    push pop shift unshift splice sort reverse fill copyWithin set add delete clear next append assign
    """
)


class JavaScriptWalk(ForeignWalk):
    """Goes through declarations, assignments and calls."""


def _declaration(walk: ForeignWalk, node: "Node") -> None:
    for declarator in node.named_children:
        target, value = declarator.child_by_field_name("name"), declarator.child_by_field_name("value")
        _bind_to(walk, target, value)


def _assignment(walk: ForeignWalk, node: "Node") -> None:
    _bind_to(walk, node.child_by_field_name("left"), node.child_by_field_name("right"))


def _bind_to(walk: ForeignWalk, target: "Node | None", value: "Node | None") -> None:
    if target is None:
        return
    function = value is not None and value.type in _FUNCTIONS and target.type == "identifier"
    if function and value is not None:
        walk.define(text_of(target), _later(walk, value))
        return
    walk.visit(value)
    share = _shares(value)
    if target.type in {"member_expression", "subscript_expression"}:
        _set_part(walk, target, share)
    elif target.type == "identifier":
        walk.bind(text_of(target), share)
    else:
        for name in _bound_by(target):
            walk.bind(name, share.element())
        _defaults(walk, target)


def _bound_by(pattern: "Node") -> list[str]:
    """The names in a pattern such as `{a, b: [c]}`, without default values."""
    if pattern.type in _NAMES:
        return [text_of(pattern)]
    if pattern.type in {"assignment_pattern", "object_assignment_pattern"}:
        children = pattern.named_children[:1]
    elif pattern.type in {"member_expression", "subscript_expression"}:
        children = []
    else:
        children = pattern.named_children
    return [name for child in children for name in _bound_by(child)]


def _defaults(walk: ForeignWalk, pattern: "Node") -> None:
    for part in inside(pattern, "assignment_pattern", "object_assignment_pattern"):
        walk.visit_all(part.named_children[1:])
    for part in inside(pattern, "member_expression", "subscript_expression"):
        _set_part(walk, part, ALONE)
    for part in inside(pattern, "computed_property_name"):
        walk.visit(part)


def _set_part(walk: ForeignWalk, target: "Node", share: Shares) -> None:
    walk.visit(target)
    root = _root(target)
    if root:
        walk.change(root)
        walk.now.link(root, share.holder())


def _root(node: "Node | None") -> str:
    while node is not None and node.type in {
        "member_expression",
        "subscript_expression",
        "parenthesized_expression",
        "non_null_expression",
    }:
        node = node.child_by_field_name("object") or (node.named_children[0] if node.named_children else None)
    return text_of(node) if node is not None and node.type == "identifier" else ""


def _shares(node: "Node | None") -> Shares:
    if node is None:
        return ALONE
    if node.type == "identifier":
        return Shares(frozenset({text_of(node)}))
    if node.type in {"member_expression", "subscript_expression"}:
        root = _root(node)
        return Shares(wholes=frozenset({root})) if root else ALONE
    if node.type in {"array", "object", "new_expression", "ternary_expression", "spread_element", "arguments", "pair"}:
        names = {text_of(child) for child in inside(node, "identifier", "shorthand_property_identifier")}
        return Shares(parts=frozenset((name, "") for name in names))
    if node.type in {"parenthesized_expression", "await_expression"} and node.named_children:
        return _shares(node.named_children[0])
    return ALONE


def _augmented(walk: ForeignWalk, node: "Node") -> None:
    target = node.child_by_field_name("left") or node.child_by_field_name("argument")
    walk.visit(node.child_by_field_name("right"))
    if target is None:
        return
    walk.visit(target)
    if target.type == "identifier":
        walk.bind(text_of(target))
    elif root := _root(target):
        walk.change(root)


def _later(walk: ForeignWalk, node: "Node") -> Later:
    parameters = node.child_by_field_name("parameters") or node.child_by_field_name("parameter")
    body = node.child_by_field_name("body")
    names = _bound_by(parameters) if parameters is not None else []
    patterns = inside(parameters, "assignment_pattern", "object_assignment_pattern") if parameters is not None else []
    defaults = [child for part in patterns for child in part.named_children[1:]]
    own = {*_declared(body), "arguments", "this"} if body is not None else set[str]()
    if node.type == "function_expression" and (name := node.child_by_field_name("name")) is not None:
        own.add(text_of(name))
    return walk.function(own, names, [*defaults, body])


def _declared(body: "Node") -> Iterable[str]:
    """What a function or block declares, without the functions in it."""
    pending = [body]
    while pending:
        node = pending.pop()
        if node.type in {"lexical_declaration", "variable_declaration"}:
            for declarator in node.named_children:
                if (target := declarator.child_by_field_name("name")) is not None:
                    yield from _bound_by(target)
        elif node.type in {"for_in_statement", "catch_clause"}:
            target = node.child_by_field_name("left") or node.child_by_field_name("parameter")
            declares = node.type == "catch_clause" or node.child_by_field_name("kind") is not None
            yield from _bound_by(target) if target is not None and declares else ()
        elif node.type in {"function_declaration", "class_declaration", "generator_function_declaration"}:
            yield from (text_of(name) for name in node.children_by_field_name("name"))
        if node is body or node.type not in _FUNCTIONS | {"class_declaration", "class"}:
            pending.extend(node.named_children)


def _function(walk: ForeignWalk, node: "Node") -> None:
    walk.define(text_of(name) if (name := node.child_by_field_name("name")) is not None else "", _later(walk, node))


def _anonymous(walk: ForeignWalk, node: "Node") -> None:
    walk.apply(_later(walk, node))


def _class(walk: ForeignWalk, node: "Node") -> None:
    """Its methods run later; what they use is told of the class."""
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    walk.visit_all(child for child in node.named_children if child.type in {"class_heritage", "decorator"})
    if name is not None:
        walk.define(text_of(name), walk.function({"this", "super"}, (), [body]))


def _block(walk: ForeignWalk, node: "Node") -> None:
    """What `let`, `const`, `class` and `function` declare in a block is the block's own."""
    declared: set[str] = set()
    for child in node.named_children:
        if child.type == "lexical_declaration":
            targets = [one.child_by_field_name("name") for one in child.named_children]
            declared |= {name for target in targets if target is not None for name in _bound_by(target)}
        elif child.type in {"class_declaration", "function_declaration"}:
            name = child.child_by_field_name("name")
            declared |= set() if name is None else {text_of(name)}
    walk.block(declared, node.named_children)


def _for_in(walk: ForeignWalk, node: "Node") -> None:
    target, values = node.child_by_field_name("left"), node.child_by_field_name("right")
    walk.visit(values)
    names = _bound_by(target) if target is not None else []
    share = _shares(values).element()
    kind = node.child_by_field_name("kind")
    before, links = set(walk.own), walk.now.copy()
    if kind is not None and text_of(kind) in {"const", "let"}:
        walk.own |= set(names)
    for name in names:
        walk.bind(name, share)
    walk.perhaps([node.child_by_field_name("body")])
    walk.now.perhaps |= {name for name in names if name not in walk.own and name not in links.bound}
    walk.now.bound -= {name for name in names if name not in links.bound}
    for name in walk.own - before:
        walk.now.forget(name)
    walk.own = before


def _for(walk: ForeignWalk, node: "Node") -> None:
    start = node.child_by_field_name("initializer")
    own = list(_declared(start)) if start is not None and start.type == "lexical_declaration" else []
    walk.block(own, node.named_children)


def _perhaps(walk: ForeignWalk, node: "Node") -> None:
    first, *others = node.named_children or [None]
    walk.visit(first)
    for other in others:
        walk.perhaps([other])


def _try(walk: ForeignWalk, node: "Node") -> None:
    for child in node.named_children:
        if child.type == "catch_clause":
            target = child.child_by_field_name("parameter")
            walk.block(_bound_by(target) if target is not None else (), [child.child_by_field_name("body")])
        elif child.type == "finally_clause":
            walk.visit(child)
        else:
            walk.perhaps([child])


def _import(walk: ForeignWalk, node: "Node") -> None:
    for name in inside(node, "import_clause"):
        for specifier in name.named_children:
            for part in inside(specifier, "import_specifier") or [specifier]:
                target = part.child_by_field_name("alias") or part.child_by_field_name("name")
                names = [target] if target is not None else inside(part, "identifier")
                for one in names:
                    walk.bind(text_of(one))
    if re.search(r"""['"]\.{0,2}/""", text_of(node)):
        walk.opaque = walk.opaque or "import of a local file"


def _call(walk: ForeignWalk, node: "Node", *, thrown: bool = False) -> None:
    function, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    walk.visit(given)
    if function is None:
        return
    names = {root for child in (given.named_children if given is not None else []) if (root := _root(child))}
    text = text_of(function)
    walk.visit(function)
    if text in {"eval", "Function", "importScripts", "load", "vm.runInThisContext"} or (
        text in {"require", "import"} and given is not None and not re.match(r"""\(\s*['"][^./]""", text_of(given))
    ):
        walk.opaque = walk.opaque or text
    elif text == "Math.random":
        walk.note(RANDOM)
    elif re.match(r"fs\.\w+|Deno\.(?:read|write)\w*", text):
        walk.uses |= {FILES, ANY_FILE}
        if not re.search(r"read|exists|stat|open", text):
            walk.note(FILES, ANY_FILE)
    if function.type == "identifier":
        walk.give(text, names)
        if thrown:
            walk.commands.add(text)
    elif function.type == "member_expression":
        _method(walk, function, names, thrown=thrown)


def _method(walk: ForeignWalk, function: "Node", names: set[str], *, thrown: bool) -> None:
    method, root = function.child_by_field_name("property"), _root(function)
    name = text_of(method) if method is not None else ""
    if text_of(function) == "Object.assign" and names:
        for given in names:
            walk.change(given)
        return
    changes = name in _MUTATORS or (thrown and not _PURE.fullmatch(name))
    if changes and root not in {"", "console", "Math", "JSON", "Object", "Promise", "Array"}:
        walk.change(root)
        walk.now.link(root, Shares(parts=frozenset((given, "") for given in names)))


def _statement(walk: ForeignWalk, node: "Node") -> None:
    (first, *_) = node.named_children or [None]
    if first is not None and first.type == "await_expression" and first.named_children:
        first = first.named_children[0]
    if first is not None and first.type == "call_expression":
        _call(walk, first, thrown=True)
    else:
        walk.visit_all(node.named_children)


def _delete(walk: ForeignWalk, node: "Node") -> None:
    walk.visit_all(node.named_children)
    operator = node.child_by_field_name("operator")
    if operator is not None and operator.type == "delete" and (root := _root(node.child_by_field_name("argument"))):
        walk.change(root)


JavaScriptWalk.kinds = {
    "lexical_declaration": _declaration,
    "variable_declaration": _declaration,
    "assignment_expression": _assignment,
    "augmented_assignment_expression": _augmented,
    "update_expression": _augmented,
    "function_declaration": _function,
    "generator_function_declaration": _function,
    "function_expression": _anonymous,
    "generator_function": _anonymous,
    "arrow_function": _anonymous,
    "method_definition": _anonymous,
    "class_declaration": _class,
    "class": _class,
    "statement_block": _block,
    "for_in_statement": _for_in,
    "for_statement": _for,
    "while_statement": _perhaps,
    "do_statement": lambda walk, node: walk.visit_all(node.named_children),
    "if_statement": _perhaps,
    "ternary_expression": _perhaps,
    "switch_statement": _perhaps,
    "try_statement": _try,
    "import_statement": _import,
    "call_expression": _call,
    "expression_statement": _statement,
    "unary_expression": _delete,
    "identifier": lambda walk, node: walk.read(text_of(node)),
    "shorthand_property_identifier": lambda walk, node: walk.read(text_of(node)),
    "statement_identifier": lambda _walk, _node: None,
}
