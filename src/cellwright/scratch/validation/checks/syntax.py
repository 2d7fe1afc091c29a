"""Checks code in other languages with tree-sitter grammars. Each error and each missing piece of the tree is a finding."""

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
        # A few grammars still return their pointer as a number, which works but is deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        pointer: object = getattr(module, grammar.function)()
        return Parser(TreeLanguage(pointer))


def check(text: str, language: Language) -> Checked:
    # Some grammars miss an error at the end of a text without a final line break.
    content = text.encode() if text.endswith("\n") else f"{text}\n".encode()
    readings = [_findings(content, grammar) for grammar in language.grammars if grammar.fits(text)]

    def rank(findings: list[Diagnostic]) -> tuple[int, int]:
        return sum(finding.severity == "error" for finding in findings), len(findings)

    return Checked(tuple(min(readings, key=rank)))


def prepare(language: Language) -> None:
    """Load the parsers that `check` will need, while files may still be opened."""
    for grammar in language.grammars:
        _parsers.setdefault(grammar, load(grammar))


_parsers: dict[Grammar, Parser] = {}


def _findings(content: bytes, grammar: Grammar) -> list[Diagnostic]:
    root = _parsers[grammar].parse(content).root_node
    if not root.has_error:
        return []
    source = _Source(content, grammar)
    error_nodes = list(islice(_error_nodes(root), MAX_DIAGNOSTICS))
    if grammar.brackets and _brackets_are_clear(content, grammar):
        findings = [
            source.finding(
                node, f"{node.type!r} {'closes nothing' if node.type in OPENING else 'is never closed'}", "error"
            )
            for node in _unpaired(root)
        ]
        if findings:
            return [*findings[:MAX_DIAGNOSTICS], *(source.finding(node) for node in error_nodes)]
    if len(error_nodes) == 1 and root.type != "ERROR" and _is_missing_end(error_nodes[0], content, grammar):
        return [source.finding(error_nodes[0], severity="error")]
    return [source.finding(node) for node in error_nodes]


def _brackets_are_clear(content: bytes, grammar: Grammar) -> bool:
    """Whether brackets that do not pair prove an error."""
    if any(text.encode() in content for text in grammar.unclear_with):
        return False
    return not (grammar.reads_into_strings and any(BRACKET.search(text) for text in STRING.findall(content)))


def _is_missing_end(node: Node, content: bytes, grammar: Grammar) -> bool:
    """Whether this is one of the grammar's endings, and missing at the very end of the text."""
    return node.is_missing and node.type in grammar.endings and not content[node.start_byte :].strip()


def _unpaired(root: Node) -> list[Node]:
    """The brackets without their other half, in the order of the text. Each kind of bracket is counted by itself."""
    unclosed: dict[str, list[Node]] = {closing: [] for closing in OPENING}
    stray: list[Node] = []
    for node in _tokens(root):
        for sign in node.type:
            if sign in CLOSING:
                unclosed[CLOSING[sign]].append(node)
            elif sign in unclosed:
                stray += [] if unclosed[sign] else [node]
                del unclosed[sign][-1:]
    return sorted((*stray, *(node for nodes in unclosed.values() for node in nodes)), key=lambda node: node.start_byte)


def _tokens(root: Node) -> Iterator[Node]:
    """The punctuation and keywords of the text, in their order, without strings, comments and names."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.child_count:
            pending.extend(reversed(node.children))
        elif not node.is_named and not node.is_missing:
            yield node


def _error_nodes(root: Node) -> Iterator[Node]:
    """Missing pieces, and errors that contain no smaller error, in the order of the text."""
    pending = [root]
    while pending:
        node = pending.pop()
        inner = [child for child in node.children if child.has_error or child.is_missing]
        if node.is_missing or (node.is_error and not inner):
            yield node
        pending.extend(reversed(inner))


class _Source:
    """The content by lines, for the positions of findings."""

    def __init__(self, content: bytes, grammar: Grammar) -> None:
        self._lines = content.split(b"\n")
        self._grammar = grammar

    def finding(self, node: Node, message: str = "", severity: Severity | None = None) -> Diagnostic:
        row, byte_column = node.start_point
        line = self._lines[row] if row < len(self._lines) else b""
        column = len(line[:byte_column].decode(errors="replace")) + 1
        message = shortened(message or _message(node, line[byte_column : byte_column + 4 * EXCERPT_CHARS]))
        return Diagnostic(
            severity or self._grammar.severity, message, row + 1, column, source=self._grammar.distribution
        )


def _message(node: Node, after: bytes) -> str:
    if node.is_missing:
        return f"{node.type!r} is missing here"
    near = after.decode(errors="replace")[:EXCERPT_CHARS].strip()
    return f"syntax error near {near!r}" if near else "syntax error"
