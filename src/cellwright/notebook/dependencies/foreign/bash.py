"""What a cell in Bash does with names.

Commands have names of their own, `<command NAME>`, because a function may be called like a variable. A command that is not known to be
harmless may read and write any file.
"""

from typing import TYPE_CHECKING

from cellwright.notebook.dependencies.foreign.walking import ForeignWalk, inside, text_of
from cellwright.notebook.dependencies.model import ANY_FILE, FILES, FOLDER, file_named, listed

if TYPE_CHECKING:
    from tree_sitter import Node

_DYNAMIC = frozenset({"eval", "source", ".", "exec", "trap", "let", "bash", "sh", "alias", "unalias", "shopt"})
_BINDING = frozenset({"read", "mapfile", "readarray", "getopts"})
_HARMLESS = listed(
    """
    echo printf true false test [ pwd date sleep which type whoami uname hostname expr seq basename dirname set shift
    return exit wait :
    """
)
_READING = listed(
    """
    cat head tail ls wc grep sort uniq cut diff find awk tr stat file du df less more jq
    """
)


class BashWalk(ForeignWalk):
    """Goes through commands, assignments and expansions."""


def _assignment(walk: ForeignWalk, node: "Node") -> None:
    target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    walk.visit(value)
    if target is None:
        return
    if target.type == "subscript":
        walk.visit(target.child_by_field_name("index"))
        name = target.child_by_field_name("name")
        if name is not None:
            walk.change(text_of(name))
    elif "+=" in [child.type for child in node.children]:
        walk.change(text_of(target))
    else:
        walk.bind(text_of(target))


def _declaration(walk: ForeignWalk, node: "Node") -> None:
    local = node.children[0].type == "local"
    for child in node.named_children:
        name = child.child_by_field_name("name") if child.type == "variable_assignment" else child
        if name is not None and name.type == "variable_name":
            if local:
                walk.own.add(text_of(name))
            if child is name:
                walk.change(text_of(name))
        if child is not name:
            walk.visit(child)


def _command(walk: ForeignWalk, node: "Node") -> None:
    name_node = node.child_by_field_name("name")
    # Of `X=1 command`, the assignment holds for the command alone.
    values = (child.child_by_field_name("value") or child for child in node.named_children)
    for value in values:
        walk.visit(value)
    if name_node is None:
        return
    name, words = text_of(name_node), [text_of(child) for child in node.children_by_field_name("argument")]
    computed = inside(name_node, "simple_expansion", "expansion", "command_substitution")
    if computed or name in _DYNAMIC:
        walk.opaque = walk.opaque or ("a command whose name is computed" if computed else name)
    elif name in _BINDING or (name == "printf" and words[:1] == ["-v"]):
        for word in filter(str.isidentifier, words):
            walk.bind(word)
    elif name in {"cd", "pushd", "popd"}:
        walk.note(FOLDER)
    elif name in _READING:
        walk.uses |= {FILES, ANY_FILE, FOLDER}
    elif name not in _HARMLESS:
        _unknown_command(walk, f"<command {name}>")


def _unknown_command(walk: ForeignWalk, command: str) -> None:
    known = command in walk.now.functions
    walk.read(command)
    if not known:
        walk.uses |= {FILES, ANY_FILE, FOLDER}
        walk.note(FILES, ANY_FILE)


def _redirect(walk: ForeignWalk, node: "Node") -> None:
    walk.visit_all(node.named_children)
    destination = node.child_by_field_name("destination")
    if destination is None or destination.type == "number":
        return
    literal = destination.type in {"word", "raw_string"} and not destination.named_children
    name = text_of(destination).strip("'")
    signs = {child.type for child in node.children}
    if name == "/dev/null":
        return
    if "<" in signs:
        walk.uses |= {file_named(name), FILES, FOLDER} if literal else {FILES, ANY_FILE, FOLDER}
    elif not literal:
        walk.note(FILES, ANY_FILE)
    else:
        walk.uses.add(FOLDER)
        if ">>" in signs:
            walk.note(file_named(name), ANY_FILE)
        else:
            walk.note(ANY_FILE)
            walk.bind(file_named(name))


def _function(walk: ForeignWalk, node: "Node") -> None:
    name = node.child_by_field_name("name")
    if name is not None:
        walk.define(f"<command {text_of(name)}>", walk.function((), (), [node.child_by_field_name("body")]))


def _for(walk: ForeignWalk, node: "Node") -> None:
    variable = node.child_by_field_name("variable")
    body = node.child_by_field_name("body")
    walk.visit_all(child for child in node.named_children if child not in (variable, body))
    if variable is not None:
        walk.bind_perhaps(text_of(variable))
        bound = set(walk.now.bound)
        walk.now.bound.add(text_of(variable))
        walk.perhaps([body])
        walk.now.bound = bound
        walk.bind_perhaps(text_of(variable))


def _while(walk: ForeignWalk, node: "Node") -> None:
    walk.perhaps(node.named_children)


def _if(walk: ForeignWalk, node: "Node") -> None:
    walk.visit_all(node.children_by_field_name("condition"))
    conditions = node.children_by_field_name("condition")
    for child in node.named_children:
        if child not in conditions:
            walk.perhaps([child])


def _apart(walk: ForeignWalk, node: "Node") -> None:
    """A process of its own: what it binds is gone with it."""
    bound, perhaps = set(walk.now.bound), set(walk.now.perhaps)
    walk.visit_all(node.named_children)
    walk.now.bound, walk.now.perhaps = bound, perhaps


def _list(walk: ForeignWalk, node: "Node") -> None:
    """`a && b`: the second may not run."""
    first, *others = node.named_children
    walk.visit(first)
    walk.perhaps(others)


def _unset(walk: ForeignWalk, node: "Node") -> None:
    for child in inside(node, "variable_name"):
        walk.bind(text_of(child))


def _update(walk: ForeignWalk, node: "Node") -> None:
    """Arithmetic: `(( k = m + 1 ))`, `(( k++ ))`."""
    walk.visit_all(node.named_children)
    if any(
        (child.type.endswith("=") and child.type not in {"==", "!=", "<=", ">="}) or child.type in {"++", "--"}
        for child in node.children
    ):
        for target in node.named_children[:1]:
            walk.change(text_of(target))


def _variable(walk: ForeignWalk, node: "Node") -> None:
    """What a script or function is given, `$1`, is no variable."""
    if not text_of(node).isdigit():
        walk.read(text_of(node))


BashWalk.kinds = {
    "variable_assignment": _assignment,
    "declaration_command": _declaration,
    "command": _command,
    "file_redirect": _redirect,
    "function_definition": _function,
    "for_statement": _for,
    "while_statement": _while,
    "if_statement": _if,
    "case_item": _while,
    "list": _list,
    "pipeline": _apart,
    "subshell": _apart,
    "command_substitution": _apart,
    "process_substitution": _apart,
    "unset_command": _unset,
    "binary_expression": _update,
    "unary_expression": _update,
    "postfix_expression": _update,
    "variable_name": _variable,
}
