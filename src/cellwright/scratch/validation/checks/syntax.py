"""Code in other languages, by tree-sitter grammars: where the tree has an error or a missing piece, something is said."""

import importlib
import re
import warnings
from collections.abc import Iterator
from itertools import islice

from tree_sitter import Language as TreeLanguage
from tree_sitter import Node, Parser

from cellwright.scratch.validation.checked import Checked
from cellwright.scratch.validation.languages import Grammar, Language
from cellwright.scratch.validation.model import MAX_DIAGNOSTICS, Diagnostic, Severity, shortened

EXCERPT_CHARS = 40
CLOSING = {"(": ")", "[": "]", "{": "}"}
BRACKET = re.compile(rb"[][(){}]")
STRING = re.compile(rb"""/\*.*?\*/|"[^"\n]*"|'[^'\n]*'""", re.DOTALL)
OPENING = {closing: opening for opening, closing in CLOSING.items()}


def load(grammar: Grammar) -> Parser:
    """The parser of a grammar; ModuleNotFoundError if its package is not installed."""
    module = importlib.import_module(grammar.module)
    with warnings.catch_warnings():
        # A few grammars still hand over their pointer as a number; it works, and says that it is old.
        warnings.simplefilter("ignore", DeprecationWarning)
        pointer: object = getattr(module, grammar.function)()
        return Parser(TreeLanguage(pointer))


def check(text: str, language: Language) -> Checked:
    # Some grammars do not see that something is missing at the end of a line that does not end.
    content = text.encode() if text.endswith("\n") else f"{text}\n".encode()
    readings = [_findings(content, grammar) for grammar in language.grammars if grammar.fits(text)]
    return Checked(tuple(min(readings, key=lambda findings: (_errors(findings), len(findings)))))


def _errors(findings: list[Diagnostic]) -> int:
    return sum(finding.severity == "error" for finding in findings)


def prepare(language: Language) -> None:
    """Load what `check` will need, while files may still be opened."""
    for grammar in language.grammars:
        _parsers.setdefault(grammar, load(grammar))


_parsers: dict[Grammar, Parser] = {}


def _findings(content: bytes, grammar: Grammar) -> list[Diagnostic]:
    root = _parsers[grammar].parse(content).root_node
    if not root.has_error:
        return []
    source = _Source(content, grammar)
    wrong = list(islice(_wrong_nodes(root), MAX_DIAGNOSTICS))
    if grammar.brackets and _brackets_are_clear(content, grammar):
        unpaired = [source.finding(node, _unpaired_message(node), "error") for node in _unpaired(root)]
        if unpaired:
            return [*unpaired[:MAX_DIAGNOSTICS], *(source.finding(node) for node in wrong)]
    if len(wrong) == 1 and root.type != "ERROR" and _is_missing_end(wrong[0], content, grammar):
        return [source.finding(wrong[0], severity="error")]
    return [source.finding(node) for node in wrong]


def _brackets_are_clear(content: bytes, grammar: Grammar) -> bool:
    """Whether brackets that do not pair prove something."""
    if any(text.encode() in content for text in grammar.unclear_with):
        return False
    return not (grammar.reads_into_strings and any(BRACKET.search(text) for text in STRING.findall(content)))


def _is_missing_end(node: Node, content: bytes, grammar: Grammar) -> bool:
    """Whether this is one of the grammar's endings, missing where the text ends."""
    return node.is_missing and node.type in grammar.endings and not content[node.start_byte :].strip()


def _unpaired(root: Node) -> list[Node]:
    """For each kind of bracket the ones without their other half, in the order of the text."""
    waiting: dict[str, list[Node]] = {closing: [] for closing in OPENING}
    stray: list[Node] = []
    for node in _tokens(root):
        for sign in node.type:
            if sign in CLOSING:
                waiting[CLOSING[sign]].append(node)
            elif sign in waiting:
                stray += [] if waiting[sign] else [node]
                del waiting[sign][-1:]
    return sorted((*stray, *(node for nodes in waiting.values() for node in nodes)), key=lambda node: node.start_byte)


def _tokens(root: Node) -> Iterator[Node]:
    """The signs and keywords of the text, in their order: not what stands in strings, comments and names."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.child_count:
            pending.extend(reversed(node.children))
        elif not node.is_named and not node.is_missing:
            yield node


def _unpaired_message(node: Node) -> str:
    return f"{node.type!r} closes nothing" if node.type in OPENING else f"{node.type!r} is never closed"


def _wrong_nodes(root: Node) -> Iterator[Node]:
    """Missing pieces, and errors that hold no smaller one, in the order of the text."""
    pending = [root]
    while pending:
        node = pending.pop()
        inner = [child for child in node.children if child.has_error or child.is_missing]
        if node.is_missing or (node.is_error and not inner):
            yield node
        pending.extend(reversed(inner))


class _Source:
    """The content by lines, for findings with their place."""

    def __init__(self, content: bytes, grammar: Grammar) -> None:
        self._lines = content.split(b"\n")
        self._grammar = grammar

    def finding(self, node: Node, message: str = "", severity: Severity | None = None) -> Diagnostic:
        row, byte_column = node.start_point
        line = self._lines[row] if row < len(self._lines) else b""
        column = len(line[:byte_column].decode(errors="replace")) + 1
        said = shortened(message or _message(node, line[byte_column : byte_column + 4 * EXCERPT_CHARS]))
        return Diagnostic(severity or self._grammar.severity, said, row + 1, column, source=self._grammar.distribution)


def _message(node: Node, after: bytes) -> str:
    if node.is_missing:
        return f"{node.type!r} is missing here"
    near = after.decode(errors="replace")[:EXCERPT_CHARS].strip()
    return f"syntax error near {near!r}" if near else "syntax error"
