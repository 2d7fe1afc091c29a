"""Code in other languages, by tree-sitter grammars: where the tree has an error or a missing piece, something is said."""

import importlib
import warnings
from collections.abc import Iterator

from tree_sitter import Language as TreeLanguage
from tree_sitter import Node, Parser

from cellwright.scratch.validation.checked import Checked
from cellwright.scratch.validation.languages import Grammar, Language
from cellwright.scratch.validation.model import MAX_DIAGNOSTICS, Diagnostic, shortened

EXCERPT_CHARS = 40


def load(grammar: Grammar) -> Parser:
    """The parser of a grammar; ModuleNotFoundError if its package is not installed."""
    module = importlib.import_module(grammar.module)
    with warnings.catch_warnings():
        # A few grammars still hand over their pointer as a number; it works, and says that it is old.
        warnings.simplefilter("ignore", DeprecationWarning)
        pointer: object = getattr(module, grammar.function)()
        return Parser(TreeLanguage(pointer))


def check(text: str, language: Language) -> Checked:
    content = text.encode()
    found = [_findings(content, grammar) for grammar in language.grammars if grammar.fits(text)]
    return Checked(tuple(min(found, key=len)))


def prepare(language: Language) -> None:
    """Load what `check` will need, while files may still be opened."""
    for grammar in language.grammars:
        _parsers.setdefault(grammar, load(grammar))


_parsers: dict[Grammar, Parser] = {}


def _findings(content: bytes, grammar: Grammar) -> list[Diagnostic]:
    root = _parsers[grammar].parse(content).root_node
    if not root.has_error:
        return []
    lines = content.split(b"\n")
    return [_finding(node, lines, grammar) for node, _ in zip(_wrong_nodes(root), range(MAX_DIAGNOSTICS), strict=False)]


def _wrong_nodes(root: Node) -> Iterator[Node]:
    """Missing pieces, and errors that hold no smaller one, in the order of the text."""
    pending = [root]
    while pending:
        node = pending.pop()
        inner = [child for child in node.children if child.has_error or child.is_missing]
        if node.is_missing or (node.is_error and not inner):
            yield node
        pending.extend(reversed(inner))


def _finding(node: Node, lines: list[bytes], grammar: Grammar) -> Diagnostic:
    row, byte_column = node.start_point
    line = lines[row] if row < len(lines) else b""
    column = len(line[:byte_column].decode(errors="replace")) + 1
    if node.is_missing:
        message = f"{node.type!r} is missing here"
    else:
        near = line[byte_column : byte_column + 4 * EXCERPT_CHARS].decode(errors="replace")[:EXCERPT_CHARS].strip()
        message = f"syntax error near {near!r}" if near else "syntax error"
    return Diagnostic(grammar.severity, shortened(message), row + 1, column, source=grammar.distribution)
