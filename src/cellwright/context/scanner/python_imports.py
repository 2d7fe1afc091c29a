"""What Python files import: statements are found by their words, then parsed by `ast`, one at a time.

Parsing whole files would make a scan of a large project ten times slower, and a file of another version of Python would say nothing.
"""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from cellwright.context.scanner.layout import Layout

LONGEST_START = 300
LONGEST_LIST = 4_000
LONGEST_STATEMENT = 10_000
"""Nobody else works while a statement is parsed."""
MOST_STATEMENTS = 5_000
MOST_BRACKETS = 4
MOST_KNOWN = 20_000
WORD = "import"
AFTER_WORD = (" ", "\t", "(", "\\", "*")
_START = re.compile(r"(?:[^#'\"\n]*[:;])?[ \t]*(from\b[ \t]*[\w.]+[ \t]*)?")
_REST = re.compile(r"[^\n(;#\\]*(?:\\\r?\n[^\n(;#\\]*)*")


def statements(text: str) -> list[str]:
    """The import statements of a program, as they stand: not those in strings of several lines, nor in comments.

    What only looks like a statement may be among them; parsing tells.
    """
    found: list[str] = []
    done = unquoted = ended = 0
    while (at := text.find(WORD, done)) >= 0 and len(found) < MOST_STATEMENTS:
        done = at + len(WORD)
        if not text.startswith(AFTER_WORD, done):
            continue
        begin = _begin(text, ended, at)
        if begin < 0:
            continue
        unquoted = _unquoted(text, unquoted, at)
        if unquoted > at:
            done = unquoted
            continue
        statement, ended = _statement(text, begin, done)
        done = max(ended, done)
        if statement:
            found.append(statement)
    return found


def _begin(text: str, ended: int, at: int) -> int:
    """Where the statement begins whose word `import` stands at `at`, after the last one has ended; -1 if it is none."""
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
    """From a position outside of strings of several lines: the first such position that is not before `at`."""
    while position < at:
        double, single = text.find('"""', position, at), text.find("'''", position, at)
        if double < 0 and single < 0:
            return at
        begin = double if single < 0 or 0 <= double < single else single
        end = text.find(text[begin : begin + 3], begin + 3)
        position = end + 3 if end >= 0 else len(text)
    return position


def _statement(text: str, begin: int, after: int) -> tuple[str, int]:
    """The statement that begins here, of which everything before `after` is known, and where it ends."""
    # Programs that were made by programs stand on one line of megabytes.
    latest = min(begin + LONGEST_STATEMENT, len(text))
    end = text.find("\n", after, latest)
    line = text[begin : end if end >= 0 else latest]
    if not ("(" in line or "\\" in line or ";" in line or "#" in line):
        return line, begin + len(line)
    rest = _REST.match(text, after)
    end = rest.end() if rest else after
    return _with_brackets(text, begin, end) if text.startswith("(", end) else (text[begin:end], end)


def _with_brackets(text: str, begin: int, bracket: int) -> tuple[str, int]:
    """The statement whose names stand in brackets, and where it ends. A comment between the names may have brackets too."""
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
    """Most files of a project import the same things."""
    if len(statement) > LONGEST_STATEMENT:
        return ()
    try:
        return tuple(ast.parse(statement.strip()).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


class PythonImports:
    """Which files of a project the import statements of its programs mean. Remembers: most files import the same things."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[tuple[str, str], tuple[str, ...]] = {}

    def of(self, path: str, text: str) -> list[str]:
        """The files that a program imports, in the order of its text."""
        found: list[str] = []
        for statement in statements(text):
            # Where a statement stands matters only if it is a relative one.
            folder = path.rpartition("/")[0] if "." in statement and statement[4:].lstrip()[:1] == "." else ""
            targets = self._known.get((folder, statement))
            if targets is None:
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                targets = self._known[folder, statement] = tuple(self._targets(folder, statement))
            found += targets
        return found

    def _targets(self, folder: str, statement: str) -> Iterator[str]:
        for node in _parsed(statement):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._named(alias.name)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(folder, node)
                for alias in node.names:
                    yield from self._named(f"{base}.{alias.name}" if base else alias.name)

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

    def _named(self, name: str) -> Iterator[str]:
        """The file of the longest beginning of the name that is a module."""
        while name:
            if name in self._layout.python:
                yield self._layout.python[name]
                return
            name = name.rpartition(".")[0]
