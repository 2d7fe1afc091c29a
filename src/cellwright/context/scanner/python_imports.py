"""Finds what Python files import. Statements are found by the word `import`, then parsed by `ast`, one at a time.

Parsing whole files would make a scan of a large project ten times slower, and would fail on files for another version of Python.
"""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from cellwright.context.scanner.layout import Layout

LONGEST_START = 300
LONGEST_LIST = 4_000
LONGEST_STATEMENT = 10_000
"""Other threads wait while a statement is parsed."""
MOST_STATEMENTS = 5_000
MOST_BRACKETS = 4
MOST_REMEMBERED = 20_000
WORD = "import"
AFTER_WORD = (" ", "\t", "(", "\\", "*")
_START = re.compile(r"(?:[^#'\"\n]*[:;])?[ \t]*(from\b[ \t]*[\w.]+[ \t]*)?")
_REST = re.compile(r"[^\n(;#\\]*(?:\\\r?\n[^\n(;#\\]*)*")


def statements(text: str) -> list[str]:
    """The source of a program's import statements: not those in strings of several lines, nor in comments.

    Text that only looks like a statement may be among them; parsing tells.
    """
    sources: list[str] = []
    position = unquoted = ended = 0
    while (at := text.find(WORD, position)) >= 0 and len(sources) < MOST_STATEMENTS:
        position = at + len(WORD)
        if not text.startswith(AFTER_WORD, position):
            continue
        begin = _begin(text, ended, at)
        if begin < 0:
            continue
        unquoted = _unquoted(text, unquoted, at)
        if unquoted > at:
            position = unquoted
            continue
        statement, ended = _statement(text, begin, position)
        position = max(ended, position)
        if statement:
            sources.append(statement)
    return sources


def _begin(text: str, ended: int, at: int) -> int:
    """Where the statement begins that has its word `import` at `at`; -1 if there is none. The last one ended at `ended`."""
    earliest = max(ended, at - LONGEST_START)
    line = max(text.rfind("\n", earliest, at) + 1, earliest)
    if text.endswith("\\\n", earliest, line):
        above = max(text.rfind("\n", earliest, line - 1) + 1, earliest)
        before = text[above:at].lstrip()
        return at - len(before) if before.startswith("from ") else -1
    if at == line:
        return line
    if text.startswith("from ", line):
        return line
    start = _START.fullmatch(text, line, at)
    if start is None:
        return -1
    return start.start(1) if start[1] else at


def _unquoted(text: str, position: int, at: int) -> int:
    """The first position from `at` on that is outside of strings of several lines; `position` is such a one before it."""
    while position < at:
        double, single = text.find('"""', position, at), text.find("'''", position, at)
        if double < 0 and single < 0:
            return at
        begin = double if single < 0 or 0 <= double < single else single
        end = text.find(text[begin : begin + 3], begin + 3)
        position = end + 3 if end >= 0 else len(text)
    return position


def _statement(text: str, begin: int, after: int) -> tuple[str, int]:
    """The statement that begins at `begin` and goes on at least to `after`, and where it ends."""
    # Generated programs may be one line of megabytes.
    latest = min(begin + LONGEST_STATEMENT, len(text))
    end = text.find("\n", after, latest)
    line = text[begin : end if end >= 0 else latest]
    if not ("(" in line or "\\" in line or ";" in line or "#" in line):
        return line, begin + len(line)
    names_match = _REST.match(text, after)
    end = names_match.end() if names_match else after
    return _with_brackets(text, begin, end) if text.startswith("(", end) else (text[begin:end], end)


def _with_brackets(text: str, begin: int, bracket: int) -> tuple[str, int]:
    """The statement whose names are in brackets, and where it ends. A comment between the names may have brackets, too."""
    end = bracket
    for _ in range(MOST_BRACKETS):
        end = text.find(")", end + 1, bracket + LONGEST_LIST)
        if end < 0:
            break
        if _parsed(text[begin : end + 1]):
            return text[begin : end + 1], end + 1
    return "", bracket + 1


@lru_cache(maxsize=4096)
def _parsed(statement: str) -> tuple[ast.stmt, ...]:
    """Cached, because most files of a project import the same modules."""
    if len(statement) > LONGEST_STATEMENT:
        return ()
    try:
        return tuple(ast.parse(statement.strip()).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


class PythonImports:
    """Resolves import statements to files of the project. Remembers them, because most files import the same modules."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._resolved: dict[tuple[str, str], tuple[str, ...]] = {}

    def of(self, path: str, text: str) -> list[str]:
        """The files that a program imports, in the order of its text."""
        imported: list[str] = []
        for statement in statements(text):
            # The folder of a statement matters only if it is a relative import.
            folder = path.rpartition("/")[0] if "." in statement and statement[4:].lstrip()[:1] == "." else ""
            targets = self._resolved.get((folder, statement))
            if targets is None:
                if len(self._resolved) >= MOST_REMEMBERED:
                    self._resolved.clear()
                targets = self._resolved[folder, statement] = tuple(self._targets(folder, statement))
            imported += targets
        return imported

    def _targets(self, folder: str, statement: str) -> Iterator[str]:
        for node in _parsed(statement):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._module_file(alias.name)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(folder, node)
                for alias in node.names:
                    yield from self._module_file(f"{base}.{alias.name}" if base else alias.name)

    def _absolute(self, folder: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = folder.split("/") if folder else []
        parts = parts[: len(parts) + 1 - node.level] if node.level <= len(parts) + 1 else []
        for start in range(len(parts)):
            name = ".".join(parts[start:])
            if name in self._layout.python:
                return f"{name}.{node.module}" if node.module else name
        below = ".".join(parts)
        return ".".join(filter(None, (below, node.module)))

    def _module_file(self, name: str) -> Iterator[str]:
        """The file of the longest beginning of the name that is a module."""
        while name:
            if name in self._layout.python:
                yield self._layout.python[name]
                return
            name = name.rpartition(".")[0]
