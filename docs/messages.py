"""Every sentence with which cellwright can refuse something, found in the code: for who has a message and looks for its cause."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cellwright.core.errors import CellwrightError, error_types

GAP = "…"
"""What stands for a part that differs each time."""
SHORTEST = 12
"""A message with fewer fixed characters says nothing by itself."""


@dataclass(frozen=True, order=True)
class Message:
    code: str
    text: str
    hint: str


def messages(source: Path) -> list[Message]:
    """All of them, by code and then by text."""
    codes = {
        kind.__name__: kind.code for kind in (*error_types(), *_all_below(CellwrightError)) if hasattr(kind, "code")
    }
    found = {one for file in source.rglob("*.py") for one in _in_file(file, codes)}
    return sorted(found)


def _all_below(kind: type[CellwrightError]) -> Iterator[type[CellwrightError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _all_below(below)


def _in_file(file: Path, codes: Mapping[str, str]) -> Iterator[Message]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in codes:
            continue
        text = _text_of(node.args[0]) if node.args else ""
        if len(text.replace(GAP, "").strip()) < SHORTEST:
            continue
        hint = _text_of(remedy) if (remedy := _remedy(node)) is not None else ""
        yield Message(codes[node.func.id], text, hint if hint != GAP else "")


def without_remedy(source: Path) -> list[str]:
    """Where an error is made that does not say what to do next: file, line, message."""
    kinds = {kind.__name__ for kind in _all_below(CellwrightError)}
    return [
        f"{file.relative_to(source)}:{node.lineno} {_text_of(node.args[0]) if node.args else ''}"
        for file in sorted(source.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds
        if _remedy(node) is None
    ]


def _remedy(call: ast.Call) -> ast.expr | None:
    """What an error says to do next: its hint, or the reason in its details where the message itself is fixed by a contract."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    details = given.get("details")
    if "hint" in given or not isinstance(details, ast.Dict):
        return given.get("hint")
    reasons = zip(details.keys, details.values, strict=True)
    return next((value for key, value in reasons if isinstance(key, ast.Constant) and key.value == "reason"), None)


def _text_of(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr():
            return "".join(_text_of(part) for part in node.values)
        case ast.IfExp():
            return " / ".join(dict.fromkeys(filter(None, (_text_of(node.body), _text_of(node.orelse)))))
        case ast.BinOp(op=ast.Add()):
            return _text_of(node.left) + _text_of(node.right)
        case _:
            return GAP
