"""Searches the project's files by a regular expression, in time that grows with the text and never with the expression.

The engine is RE2, which does not backtrack, so no expression can hang it. Files that git ignores, binary files, files that hold secrets
and links are not searched; of a very long file only the beginning is. At its deadline the search ends with what it has found so far.
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
"""The most files of a batch. A search that finds enough in small files need not read all others."""
NEWLINE = ord("\n")
LINES = b"(?m)"
"""With this flag `^` and `$` match at the ends of lines, not of the file."""
OF_THE_WHOLE_TEXT = (b"\\A", b"\\z", b"(?")


class _Span(Protocol):
    def start(self) -> int: ...
    def end(self) -> int: ...


class Expression(Protocol):
    """A compiled expression of a linear-time engine."""

    @property
    def pattern(self) -> bytes: ...
    def search(self, text: bytes | memoryview, pos: int = 0) -> _Span | None: ...


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
    """`truncated` says that there are more; `timed_out` that not every file was searched."""

    matches: list[Match]
    files_searched: int
    truncated: bool = False
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class GrepWanted:
    """What is searched for."""

    expression: Expression
    file_pattern: str = ""
    context_lines: int = 2
    limit: int = 50

    @property
    def by_batch(self) -> bool:
        """Whether the expression matches the same in one file as in several joined: it has no anchors of the whole text and no flags."""
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
        message = error.args[0] if error.args else error
        why = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        raise InvalidArgument(
            f"the pattern is not an expression that can be used: {why}",
            hint="RE2 has no look-around and no back-references; escape special characters with a backslash",
        ) from error


def grep(root: Root, query: GrepWanted, seconds: float) -> Matches:
    """Search every file, in the order of the walk. Blocks: call it off the event loop."""
    end = time.monotonic() + seconds
    matches: list[Match] = []
    searched = 0
    for batch in _batches(root, query.file_pattern, end):
        searched += batch.files
        matches += _search(batch, query, query.limit + 1 - len(matches))
        if len(matches) > query.limit:
            return Matches(matches[: query.limit], searched, truncated=True)
        if time.monotonic() >= end:
            return Matches(matches, searched, timed_out=True)
    return Matches(matches, searched)


def readable_folders(root: Root) -> Iterator[Folder]:
    """The folders of the project with the files that may be read."""
    return walk(os.path.realpath(root.folder), root.reach)


@dataclass
class _Batch:
    """Text files one after the other in one buffer, with a line end between them.

    Most batches match nowhere, and one search of a megabyte costs much less than a search of each of its files.
    """

    buffer: bytearray
    paths: list[str] = field(default_factory=list[str])
    starts: list[int] = field(default_factory=list[int])
    end: int = 0
    files: int = 0
    """How many files were read, including those that are not text."""

    def add(self, path: str, size: int) -> None:
        """Add the file that was just read to the end of the buffer, if it is text."""
        if size < 0 or self.buffer.find(0, self.end, self.end + min(size, BINARY_LOOK)) >= 0:
            return
        self.paths.append(path)
        self.starts.append(self.end)
        self.end += size + 1
        self.buffer[self.end - 1] = NEWLINE

    def file(self, number: int) -> bytes:
        stop = self.starts[number + 1] if number + 1 < len(self.starts) else self.end
        return bytes(memoryview(self.buffer)[self.starts[number] : stop - 1])


def _batches(root: Root, file_pattern: str, end: float) -> Iterator[_Batch]:
    """Batches until all files are read or time is up. Time is checked in each folder, because a glob may match no file in any of them."""
    matches_glob = path_filter(file_pattern)
    buffer = bytearray(BATCH_BYTES + LARGEST_SEARCHED + 1)
    view = memoryview(buffer)
    batch = _Batch(buffer)
    with ManyFiles(os.path.realpath(root.folder), root.reach) as files:
        for folder in readable_folders(root):
            if time.monotonic() >= end:
                break
            prefix = folder.prefix
            for entry in folder.files:
                path = prefix + entry.name
                if not matches_glob(path):
                    continue
                batch.files += 1
                batch.add(
                    path, files.read_into(view[batch.end : batch.end + LARGEST_SEARCHED], folder.path, entry.name)
                )
                if batch.end >= BATCH_BYTES or batch.files >= BATCH_FILES:
                    yield batch
                    batch = _Batch(buffer)
    yield batch


def _search(batch: _Batch, query: GrepWanted, most: int) -> list[Match]:
    """The matching lines of a batch, file by file."""
    matches: list[Match] = []
    if not query.by_batch:
        for number in range(len(batch.paths)):
            matches += _matching_lines(batch, number, query, most - len(matches))
        return matches
    text = memoryview(batch.buffer)[: batch.end]
    position = 0
    while len(matches) < most and batch.paths and (span := query.expression.search(text, position)) is not None:
        # Nothing before the span matches. The file is searched by itself, because the span may reach over its end.
        number = bisect_right(batch.starts, span.start()) - 1
        matches += _matching_lines(batch, number, query, most - len(matches))
        if number + 1 == len(batch.starts):
            break
        position = batch.starts[number + 1]
    return matches


def path_filter(file_pattern: str) -> Callable[[str], bool]:
    """Whether a path matches a glob: `*.py` matches any name, `src/**/*.ts` a path, `{a,b}` either."""
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
    """A glob as an expression for the linear-time engine. Many `**/` would keep any other engine busy for ever."""
    braces = {"{": "(?:", "}": ")"} if pattern.count("{") == pattern.count("}") else {}
    parts: list[str] = []
    depth = 0
    for piece in _WILD.findall(pattern):
        depth += (piece == "{") - (piece == "}")
        if piece in braces:
            parts.append(braces[piece])
        elif piece == "," and braces and depth:
            parts.append("|")
        else:
            parts.append(_piece_expression(piece))
    return "".join(parts)


def _piece_expression(piece: str) -> str:
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


def _matching_lines(batch: _Batch, number: int, query: GrepWanted, most: int) -> Iterator[Match]:
    """Each matching line of a file once, at most `most` of them."""
    path, data = batch.paths[number], batch.file(number)
    span = query.expression.search(data)
    if span is None:
        return
    lines = data.split(b"\n")
    # The text after the last line break counts as a line only if it is not empty.
    count = len(lines) if lines[-1] else len(lines) - 1
    line, start = 0, 0
    for _ in range(most):
        while line < len(lines) - 1 and start + len(lines[line]) < span.start():
            start += len(lines[line]) + 1
            line += 1
        around = query.context_lines
        yield Match(
            path,
            line + 1,
            _line_text(lines[line]),
            [_line_text(text) for text in lines[max(line - around, 0) : line]],
            [_line_text(text) for text in lines[line + 1 : min(line + 1 + around, count)]],
        )
        position = start + len(lines[line]) + 1
        if position > len(data) or (span := query.expression.search(data, position)) is None:
            return


def _line_text(line: bytes) -> str:
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
