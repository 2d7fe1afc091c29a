"""Searching the project's files by a regular expression, in time that grows with the text and never with the expression.

The engine is RE2: no backtracking, so no expression can hang it. What git ignores, binary files, files that hold secrets and links are
not searched; of a very long file only the beginning is. The search ends at its deadline with what was found so far.
"""

import os
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

from cellwright.context.files.paths import ManyFiles, Root
from cellwright.context.scanner.walk import Folder, walk
from cellwright.core.errors import InvalidArgument, Unavailable
from cellwright.core.installation import this_installation
from cellwright.core.text.sight import seen

LARGEST_SEARCHED = 4 << 20
LONGEST_LINE = 400
LONGEST_PATTERN = 1_000
BINARY_LOOK = 1_024
PROGRAM_MEMORY = 8 << 20
BATCH_BYTES = 1 << 20
BATCH_FILES = 1_000
"""Small files: a search that has enough in the first of them need not read all others."""
NEWLINE = ord("\n")
LINES = b"(?m)"
"""Lines, not the file, have a beginning and an end."""
OF_THE_WHOLE_TEXT = (b"\\A", b"\\z", b"(?")


class _Found(Protocol):
    def start(self) -> int: ...
    def end(self) -> int: ...


class Expression(Protocol):
    """A compiled expression of a linear-time engine."""

    @property
    def pattern(self) -> bytes: ...
    def search(self, text: bytes | memoryview, pos: int = 0) -> _Found | None: ...


@dataclass(frozen=True)
class Match:
    """A matching line, with the lines around it."""

    path: str
    line: int
    text: str
    before: list[str] = field(default_factory=list[str])
    after: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Matches:
    """`truncated` says that there are more; `timed_out` that not every file was looked at."""

    matches: list[Match]
    files_searched: int
    truncated: bool = False
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class GrepWanted:
    """What is looked for."""

    expression: Expression
    file_pattern: str = ""
    context_lines: int = 2
    limit: int = 50

    @property
    def by_batch(self) -> bool:
        """Whether the expression means the same in a file and in several files one after the other: no end of the text, no flags."""
        return not any(mark in self.expression.pattern.removeprefix(LINES) for mark in OF_THE_WHOLE_TEXT)


def _engine() -> Any:  # noqa: ANN401 - it has no types of its own
    try:
        return import_module("re2")
    except ImportError as error:
        raise Unavailable(
            "searching needs the package google-re2", hint=f"the operator installs it: {this_installation().mend()}"
        ) from error


def compiled(pattern: str, *, case_sensitive: bool) -> Expression:
    """The expression, or InvalidArgument with the engine's own words."""
    if not pattern or len(pattern) > LONGEST_PATTERN:
        raise InvalidArgument(f"the pattern has {len(pattern)} characters", hint=f"give 1 to {LONGEST_PATTERN:,}")
    engine = _engine()
    options = engine.Options()
    options.log_errors = False
    options.never_nl = False
    options.one_line = False
    options.max_mem = PROGRAM_MEMORY
    options.case_sensitive = case_sensitive
    try:
        return cast("Expression", engine.compile(LINES + pattern.encode(), options))
    except (engine.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args else error
        why = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise InvalidArgument(
            f"the pattern is not an expression that can be used: {why}",
            hint="RE2 has no look-around and no back-references; escape special characters with a backslash",
        ) from error


def grep(root: Root, wanted: GrepWanted, seconds: float) -> Matches:
    """Search every file, in the order of the walk. Blocks: call it off the event loop."""
    end = time.monotonic() + seconds
    matches: list[Match] = []
    searched = 0
    for batch in _batches(root, wanted.file_pattern, end):
        searched += batch.files
        matches += _search(batch, wanted, wanted.limit + 1 - len(matches))
        if len(matches) > wanted.limit:
            return Matches(matches[: wanted.limit], searched, truncated=True)
        if time.monotonic() >= end:
            return Matches(matches, searched, timed_out=True)
    return Matches(matches, searched)


def readable_folders(root: Root) -> Iterator[Folder]:
    """The folders of the project with the files that may be read."""
    return walk(os.path.realpath(root.folder), root.reach)


@dataclass
class _Batch:
    """Text files one after the other in one room, a line end between them: most batches fit an expression nowhere.

    One look at a megabyte costs much less than a look at each of its files.
    """

    room: bytearray
    paths: list[str] = field(default_factory=list[str])
    starts: list[int] = field(default_factory=list[int])
    end: int = 0
    files: int = 0
    """How many were read, those that are not text as well."""

    def add(self, path: str, size: int) -> None:
        """Keep what was just read at the end, if it is text."""
        if size < 0 or self.room.find(0, self.end, self.end + min(size, BINARY_LOOK)) >= 0:
            return
        self.paths.append(path)
        self.starts.append(self.end)
        self.end += size + 1
        self.room[self.end - 1] = NEWLINE

    def file(self, number: int) -> bytes:
        stop = self.starts[number + 1] if number + 1 < len(self.starts) else self.end
        return bytes(memoryview(self.room)[self.starts[number] : stop - 1])


def _batches(root: Root, file_pattern: str, end: float) -> Iterator[_Batch]:
    """Until all files are read, or time is up: no file may fit in a hundred thousand folders."""
    fits = path_filter(file_pattern)
    room = bytearray(BATCH_BYTES + LARGEST_SEARCHED + 1)
    view = memoryview(room)
    batch = _Batch(room)
    with ManyFiles(os.path.realpath(root.folder), root.reach) as files:
        for folder in readable_folders(root):
            if time.monotonic() >= end:
                break
            prefix = folder.prefix
            for entry in folder.files:
                path = prefix + entry.name
                if not fits(path):
                    continue
                batch.files += 1
                batch.add(
                    path, files.read_into(view[batch.end : batch.end + LARGEST_SEARCHED], folder.path, entry.name)
                )
                if batch.end >= BATCH_BYTES or batch.files >= BATCH_FILES:
                    yield batch
                    batch = _Batch(room)
    yield batch


def _search(batch: _Batch, wanted: GrepWanted, most: int) -> list[Match]:
    """The matching lines of a batch, file by file."""
    found: list[Match] = []
    if not wanted.by_batch:
        for number in range(len(batch.paths)):
            found += _matching_lines(batch, number, wanted, most - len(found))
        return found
    text = memoryview(batch.room)[: batch.end]
    position = 0
    while len(found) < most and batch.paths and (first := wanted.expression.search(text, position)) is not None:
        # Nothing before it can fit. The file itself decides: what was found may reach over its end.
        number = bisect_right(batch.starts, first.start()) - 1
        found += _matching_lines(batch, number, wanted, most - len(found))
        if number + 1 == len(batch.starts):
            break
        position = batch.starts[number + 1]
    return found


def path_filter(file_pattern: str) -> Callable[[str], bool]:
    """Which paths a glob means: `*.py` any name, `src/**/*.ts` a path, `{a,b}` either."""
    if not file_pattern:
        return lambda _path: True
    if len(file_pattern) > LONGEST_PATTERN:
        raise InvalidArgument(
            f"file_pattern has {len(file_pattern):,} characters", hint=f"give 1 to {LONGEST_PATTERN:,}"
        )
    engine = _engine()
    options = engine.Options()
    options.log_errors = False
    try:
        shape = engine.compile(f"(?s){_glob(file_pattern.removeprefix('./'))}".encode(), options)
    except (engine.error, UnicodeEncodeError) as error:
        raise InvalidArgument(
            f"{file_pattern[:80]!a} is not a pattern of file names", hint="as *.py, or src/**/*.{ts,tsx}"
        ) from error
    by_name = "/" not in file_pattern
    # Names that are not UTF-8 on the disk have pieces that cannot be encoded.
    return lambda path: bool(shape.fullmatch((path.rpartition("/")[2] if by_name else path).encode("utf-8", "replace")))


_WILD = re.compile(r"\*\*/|\*+|\[[!^]?\]?[^\]]*\]|.", re.DOTALL)


def _glob(pattern: str) -> str:
    """A glob as an expression for the linear-time engine: `**/` in numbers would keep any other one busy for ever."""
    braces = {"{": "(?:", "}": ")"} if pattern.count("{") == pattern.count("}") else {}
    made: list[str] = []
    depth = 0
    for piece in _WILD.findall(pattern):
        depth += (piece == "{") - (piece == "}")
        if piece in braces:
            made.append(braces[piece])
        elif piece == "," and braces and depth:
            made.append("|")
        else:
            made.append(_wild(piece))
    return "".join(made)


def _wild(piece: str) -> str:
    if piece == "**/":
        return "(?:.*/)?"
    if piece[0] == "*":
        return ".*"
    if piece == "?":
        return "."
    if len(piece) > 1:
        negated = piece[1] in "!^"
        inner = re.sub(r"[\\\[\]^]", r"\\\g<0>", piece[1 + negated : -1])
        return f"[{'^' if negated else ''}{inner}]"
    return re.escape(piece)


def _matching_lines(batch: _Batch, number: int, wanted: GrepWanted, most: int) -> Iterator[Match]:
    """Each matching line of a file once, `most` of them."""
    path, data = batch.paths[number], batch.file(number)
    first = wanted.expression.search(data)
    if first is None:
        return
    lines = data.split(b"\n")
    # What stands after the last line break is no line unless it has something in it.
    count = len(lines) if lines[-1] else len(lines) - 1
    line, start = 0, 0
    for _ in range(most):
        while line < len(lines) - 1 and start + len(lines[line]) < first.start():
            start += len(lines[line]) + 1
            line += 1
        around = wanted.context_lines
        yield Match(
            path,
            line + 1,
            _shown(lines[line]),
            [_shown(text) for text in lines[max(line - around, 0) : line]],
            [_shown(text) for text in lines[line + 1 : min(line + 1 + around, count)]],
        )
        position = start + len(lines[line]) + 1
        if position > len(data) or (first := wanted.expression.search(data, position)) is None:
            return


def _shown(line: bytes) -> str:
    text = seen(line[: LONGEST_LINE * 4].removesuffix(b"\r").decode("utf-8", "replace")).text
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"


def first_line_with(text: str, words: Sequence[str]) -> int:
    """The line, counted from 1, that has the most of these words."""
    best, most = 1, 0
    for number, line in enumerate(text.split("\n"), 1):
        count = sum(word in line.lower() for word in words)
        if count > most:
            best, most = number, count
    return best
