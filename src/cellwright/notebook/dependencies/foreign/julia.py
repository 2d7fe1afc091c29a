"""What a cell in Julia does with names."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cellwright.notebook.dependencies.bindings import ALONE, Shares
from cellwright.notebook.dependencies.foreign.walking import ForeignWalk, inside, text_of
from cellwright.notebook.dependencies.model import ANY_FILE, FILES, FOLDER, RANDOM, Later, listed

if TYPE_CHECKING:
    from tree_sitter import Node

_DYNAMIC = frozenset({"eval", "include", "include_string", "evalfile", "Meta.eval", "Core.eval", "Base.eval"})
_KNOWN_MACROS = listed(
    """
    time timev elapsed allocated btime benchmark show assert inbounds simd views view threads async sync spawn info
    warn error debug inline noinline test testset test_throws printf sprintf . which code_warntype code_typed
    code_llvm less edit macroexpand doc animate gif L_str df_str r_str layout transform subset select combine orderby
    by pipe chain with distributed everywhere fastmath assume benchmarkable belapsed bprofile profile showprogress
    progress kwdef
    """
)
_RANDOM = frozenset(
    {"rand", "randn", "randperm", "shuffle", "sample", "randexp", "randstring", "rand!", "randn!", "shuffle!"}
)
_READS = frozenset(
    {"open", "read", "readlines", "readline", "readdir", "isfile", "isdir", "CSV.read", "CSV.File", "load", "readdlm"}
)
_WRITES = listed(
    """
    open write CSV.write save savefig rm mv cp mkdir mkpath writedlm download run
    """
)


_FIRST_ALONE = frozenset(
    {"push!", "append!", "pushfirst!", "insert!", "setindex!", "union!", "mul!", "copyto!", "get!"}
)


class JuliaWalk(ForeignWalk):
    """Goes through assignments, definitions and calls."""


def _assignment(walk: ForeignWalk, node: "Node") -> None:
    target, operator, *values = node.named_children
    signature = _signature(target)
    if signature is not None:
        _define(walk, signature, values)
        return
    walk.visit_all(values)
    if text_of(operator) == "=":
        _bind_to(walk, target, _shares(values[0]) if values else ALONE)
    else:
        walk.visit(target)
        walk.change(_root(target))


def _bind_to(walk: ForeignWalk, target: "Node", share: Shares) -> None:
    match target.type:
        case "identifier":
            walk.bind(text_of(target), share)
        case "typed_expression":
            walk.visit_all(target.named_children[1:])
            _bind_to(walk, target.named_children[0], share)
        case "index_expression" | "field_expression" | "broadcast_call_expression":
            walk.visit(target)
            if root := _root(target):
                walk.change(root)
                walk.now.link(root, share.holder())
        case _:
            for part in target.named_children:
                _bind_to(walk, part, share.element())


def _compound(walk: ForeignWalk, node: "Node") -> None:
    """`x += 1` binds `x` anew; `x .+= 1` changes it in place."""
    target, operator, *values = node.named_children
    walk.visit_all(values)
    walk.visit(target)
    if target.type == "identifier" and not text_of(operator).startswith("."):
        walk.bind(text_of(target))
    elif root := _root(target):
        walk.change(root)


def _root(node: "Node") -> str:
    while node.type in {"index_expression", "field_expression", "parenthesized_expression"} and node.named_children:
        node = node.named_children[0]
    return text_of(node) if node.type == "identifier" else ""


def _shares(node: "Node") -> Shares:
    match node.type:
        case "identifier":
            return Shares(frozenset({text_of(node)}))
        case "index_expression" | "field_expression":
            root = _root(node)
            return Shares(wholes=frozenset({root})) if root else ALONE
        case "vector_expression" | "tuple_expression" | "open_tuple":
            return Shares(parts=frozenset((text_of(part), "") for part in inside(node, "identifier")))
        case "call_expression":
            name, parts = text_of(node.named_children[0]), inside(node, "identifier")[1:]
            known = name[:1].isupper() or name in {
                "view",
                "reshape",
                "vec",
                "transpose",
                "get",
                "get!",
                "first",
                "last",
            }
            return Shares(parts=frozenset((text_of(part), "") for part in parts)) if known else ALONE
        case "macrocall_expression" if text_of(node).startswith(("@view", "@time")):
            return Shares(wholes=frozenset(text_of(part) for part in inside(node, "identifier")))
        case _:
            return ALONE


def _signature(node: "Node") -> "Node | None":
    """The call in `f(x)`, `f(x)::T` and `f(x) where T`, if this is what a function is defined with."""
    while node.type in {"where_expression", "typed_expression", "signature"} and node.named_children:
        node = node.named_children[0]
    return node if node.type == "call_expression" else None


def _define(walk: ForeignWalk, signature: "Node", body: "Iterable[Node]") -> None:
    """A definition adds a method to a function, which may have others: the ones before still count."""
    head, *given = signature.named_children
    parameters = _parameters(given)
    defaults = [
        child for part in given for named in inside(part, "named_argument") for child in named.named_children[2:]
    ]
    types = [
        child for part in given for typed in inside(part, "typed_expression") for child in typed.named_children[1:]
    ]
    walk.visit_all(types)
    statements = list(body)
    later = walk.function(_assigned(statements), parameters, [*defaults, *statements])
    name = text_of(head)
    if head.type == "identifier":
        before = walk.now.functions.get(name)
        walk.bind_perhaps(name)
        walk.now.functions[name] = (
            later
            if before is None
            else Later(
                before.uses | later.uses,
                before.changes | later.changes,
                arguments=before.arguments or later.arguments,
                makes=True,
            )
        )
    else:
        walk.change(_root(head))


def _parameters(nodes: "Iterable[Node]") -> set[str]:
    names: set[str] = set()
    for node in nodes:
        match node.type:
            case "identifier":
                names.add(text_of(node))
            case "typed_expression" | "named_argument":
                names |= _parameters(node.named_children[:1])
            case _:
                names |= _parameters(node.named_children)
    return names


def _assigned(nodes: "Iterable[Node]") -> set[str]:
    """What a function assigns is its own, unless it is declared `global`."""
    names: set[str] = set()
    free: set[str] = set()
    for node in nodes:
        for part in inside(node, "global_statement"):
            free |= {text_of(name) for name in inside(part, "identifier")}
        for part in inside(
            node,
            "assignment",
            "compound_assignment_expression",
            "for_binding",
            "local_statement",
            "catch_clause",
            "let_binding",
        ):
            names |= _targets(part.named_children[0]) if part.named_children else set()
    return names - free


def _targets(node: "Node") -> set[str]:
    if node.type == "identifier":
        return {text_of(node)}
    if node.type in {"open_tuple", "tuple_expression", "assignment"}:
        return {name for child in node.named_children for name in _targets(child)}
    return _targets(node.named_children[0]) if node.type == "typed_expression" else set()


def _function(walk: ForeignWalk, node: "Node") -> None:
    head, *body = node.named_children
    signature = _signature(head)
    if signature is not None:
        _define(walk, signature, body)
    else:
        parameters = _parameters([head])
        walk.apply(walk.function(_assigned(body), parameters, body))


def _arrow(walk: ForeignWalk, node: "Node") -> None:
    parameters, *body = node.named_children
    walk.apply(walk.function(_assigned(body), _parameters([parameters]), body))


def _for(walk: ForeignWalk, node: "Node") -> None:
    """Variables of a loop are its own. What else it assigns may be the kernel's."""
    bindings = [child for child in node.named_children if child.type in {"for_binding", "for_clause"}]
    body = [child for child in node.named_children if child not in bindings]
    clauses = [part for binding in bindings for part in inside(binding, "for_binding")]
    names = {name for clause in clauses for name in _targets(clause.named_children[0])}
    for clause in clauses:
        walk.visit_all(clause.named_children[1:])
        for name in _targets(clause.named_children[0]):
            walk.now.link(name, _shares(clause.named_children[-1]).element())
    walk.block(names, body)
    for name in names - walk.own:
        walk.now.forget(name)


def _let(walk: ForeignWalk, node: "Node") -> None:
    names = {
        name for part in node.named_children if part.type == "let_binding" for name in _targets(part.named_children[0])
    }
    for part in node.named_children:
        if part.type == "let_binding":
            walk.visit_all(part.named_children[1:])
    walk.block(
        names | _assigned(node.named_children), [part for part in node.named_children if part.type != "let_binding"]
    )


def _perhaps(walk: ForeignWalk, node: "Node") -> None:
    first, *others = node.named_children or [None]
    walk.visit(first)
    for other in others:
        walk.perhaps([other])


def _try(walk: ForeignWalk, node: "Node") -> None:
    for child in node.named_children:
        own = (
            [text_of(part) for part in child.named_children[:1] if part.type == "identifier"]
            if child.type == "catch_clause"
            else []
        )
        walk.block(own, [child])


def _import(walk: ForeignWalk, node: "Node") -> None:
    """`using X` takes all names, `using X: a` and `import X` those that are said."""
    for part in node.named_children:
        if part.type == "selected_import":
            for name in part.named_children[1:]:
                walk.bind(text_of(inside(name, "identifier")[-1]) if inside(name, "identifier") else text_of(name))
        else:
            name = text_of(part)
            if node.type == "using_statement":
                walk.stars.add(name)
            names = inside(part, "identifier")
            if names:
                walk.bind(text_of(names[-1]))


def _call(walk: ForeignWalk, node: "Node") -> None:
    function, *rest = node.named_children
    name = text_of(function)
    walk.visit(function)
    arguments = [child for part in rest for child in (part.named_children if part.type == "argument_list" else [part])]
    walk.visit_all(rest)
    given = [root for argument in arguments if (root := _root(argument))]
    _beside(walk, name, len(arguments))
    if name.endswith("!") and given:
        _mutate(walk, name.rpartition(".")[2], given)
    if function.type == "identifier":
        walk.give(name, given)


def _beside(walk: ForeignWalk, name: str, count: int) -> None:
    """Random numbers, files and the folder, and what hides names."""
    last = name.rpartition(".")[2]
    if name in _DYNAMIC or last in {"eval", "include"}:
        walk.opaque = walk.opaque or name
    if last in _RANDOM:
        walk.note(RANDOM)
    elif last == "seed!":
        walk.bind(RANDOM)
    elif name == "cd":
        walk.note(FOLDER)
    if name in _READS:
        walk.uses |= {FILES, ANY_FILE, FOLDER}
    if name in _WRITES and not (name == "open" and count == 1):
        walk.note(FILES, ANY_FILE)


def _mutate(walk: ForeignWalk, name: str, given: list[str]) -> None:
    """A function whose name ends in `!` changes its first argument, some others, too."""
    first, *others = given
    walk.change(first)
    for other in others:
        walk.now.link(first, Shares(parts=frozenset({(other, "")})))
        if name not in _FIRST_ALONE:
            walk.change(other)


def _macro(walk: ForeignWalk, node: "Node") -> None:
    name = text_of(node.named_children[0]).lstrip("@").rpartition(".")[2]
    if name not in _KNOWN_MACROS:
        walk.opaque = walk.opaque or f"@{name}"
    walk.visit_all(node.named_children[1:])


def _field(walk: ForeignWalk, node: "Node") -> None:
    walk.visit_all(node.named_children[:1])


def _named(walk: ForeignWalk, node: "Node") -> None:
    walk.visit_all(node.named_children[2:])


def _type(walk: ForeignWalk, node: "Node") -> None:
    """A type's own names are its fields; what else it says are types."""
    names = inside(node.named_children[0], "identifier")
    own = {text_of(part.named_children[0]) for part in inside(node, "typed_expression") if part.named_children}
    for name in inside(node, "identifier"):
        if name != names[0] and text_of(name) not in own and text_of(name) != text_of(names[0]):
            walk.read(text_of(name))
    if names:
        walk.bind(text_of(names[0]))


JuliaWalk.kinds = {
    "assignment": _assignment,
    "compound_assignment_expression": _compound,
    "function_definition": _function,
    "macro_definition": lambda walk, _node: setattr(walk, "opaque", walk.opaque or "macro"),
    "arrow_function_expression": _arrow,
    "do_clause": lambda walk, node: walk.block(
        _parameters(node.named_children[:1]) if len(node.named_children) > 1 else (), node.named_children[-1:]
    ),
    "for_statement": _for,
    "comprehension_expression": _for,
    "generator": _for,
    "let_statement": _let,
    "if_statement": _perhaps,
    "while_statement": _perhaps,
    "ternary_expression": _perhaps,
    "try_statement": _try,
    "using_statement": _import,
    "import_statement": _import,
    "call_expression": _call,
    "broadcast_call_expression": _call,
    "macrocall_expression": _macro,
    "field_expression": _field,
    "named_argument": _named,
    "struct_definition": _type,
    "abstract_definition": _type,
    "quote_expression": lambda _walk, _node: None,
    "operator": lambda _walk, _node: None,
    "identifier": lambda walk, node: walk.read(text_of(node)),
}
