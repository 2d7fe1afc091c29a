"""Searching the project's files by a regular expression, in time that grows with the text and never with the expression.

The engine is RE2: no backtracking, so no expression can hang it. What git ignores, binary files, files that hold secrets and links are
not searched; of a very long file only the beginning is. The search ends at its deadline with what was found so far.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from importlib import import_module
from typing import Any, Protocol, cast

from cellwright.context.paths import ManyFiles, Root, is_secret
from cellwright.context.scanner.walk import walk
from cellwright.core.clean import clean
from cellwright.core.errors import InvalidArgument, Unavailable

LARGEST_SEARCHED = 4 << 20
LONGEST_LINE = 400
LONGEST_PATTERN = 1_000
BINARY_LOOK = 1_024
PROGRAM_MEMORY = 8 << 20


class _Found(Protocol):
    def start(self) -> int: ...
    def end(self) -> int: ...


class Expression(Protocol):
    """A compiled expression of a linear-time engine."""

    def search(self, text: bytes, pos: int = 0) -> _Found | None: ...


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
class Wanted:
    """What is looked for."""

    expression: Expression
    file_pattern: str = ""
    context_lines: int = 2
    limit: int = 50


def compiled(pattern: str, *, case_sensitive: bool) -> Expression:
    """The expression, or InvalidArgument with the engine's own words."""
    if not pattern or len(pattern) > LONGEST_PATTERN:
        raise InvalidArgument(f"the pattern has {len(pattern)} characters", hint=f"give 1 to {LONGEST_PATTERN:,}")
    try:
        engine: Any = import_module("re2")
    except ImportError as error:
        raise Unavailable(
            "searching needs the package google-re2", hint="the operator installs it: pip install 'cellwright[context]'"
        ) from error
    options = engine.Options()
    options.log_errors = False
    options.never_nl = False
    options.one_line = False
    options.max_mem = PROGRAM_MEMORY
    options.case_sensitive = case_sensitive
    try:
        # (?m): lines, not the file, have a beginning and an end.
        return cast("Expression", engine.compile(f"(?m){pattern}".encode(), options))
    except (engine.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args else error
        why = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise InvalidArgument(
            f"the pattern is not an expression that can be used: {why}",
            hint="RE2 has no look-around and no back-references; escape special characters with a backslash",
        ) from error


def grep(root: Root, wanted: Wanted, seconds: float) -> Matches:
    """Search every file, in the order of their paths. Blocks: call it off the event loop."""
    end = time.monotonic() + seconds
    real = os.path.realpath(root.folder)
    matches: list[Match] = []
    searched = 0
    # One file after the other: more threads only wait for each other, the engine is faster than opening a file.
    with ManyFiles(real) as files:
        for path in _candidates(root, real, wanted.file_pattern):
            if len(matches) > wanted.limit or time.monotonic() >= end:
                break
            searched += 1
            matches += _search_file(files, path, wanted)
        else:
            return Matches(matches[: wanted.limit], searched, len(matches) > wanted.limit)
    return Matches(matches[: wanted.limit], searched, len(matches) > wanted.limit, len(matches) <= wanted.limit)


def _candidates(root: Root, real: str, file_pattern: str) -> Iterator[str]:
    fits = path_filter(file_pattern)
    for path, _ in walk(real):
        if fits(path) and (root.secrets or not is_secret(path)):
            yield path


def path_filter(file_pattern: str) -> Callable[[str], bool]:
    """Which paths a glob means: `*.py` any name, `src/**/*.ts` a path, `{a,b}` either."""
    if not file_pattern:
        return lambda _path: True
    options = [_glob(one) for one in _alternatives(file_pattern[:LONGEST_PATTERN])]
    by_name = "/" not in file_pattern
    return lambda path: any(one.fullmatch(path.rpartition("/")[2] if by_name else path) for one in options)


def _alternatives(pattern: str) -> list[str]:
    found = re.match(r"(.*?)\{([^{}]*)\}(.*)", pattern)
    return [f"{found[1]}{one}{found[3]}" for one in found[2].split(",")] if found else [pattern]


def _glob(pattern: str) -> re.Pattern[str]:
    pieces = pattern.removeprefix("./").replace("**/", "\0").split("\0")
    inner = "(?:.*/)?".join(translate(piece)[len("(?s:") : -len(")\\Z")] for piece in pieces)
    return re.compile(inner, re.DOTALL)


def _search_file(files: ManyFiles, path: str, wanted: Wanted) -> list[Match]:
    data = files.read(path, LARGEST_SEARCHED)
    if data is None or b"\0" in data[:BINARY_LOOK] or wanted.expression.search(data) is None:
        return []
    return list(_matching_lines(path, data, wanted))


def _matching_lines(path: str, data: bytes, wanted: Wanted) -> Iterator[Match]:
    """Each matching line once; one more than the limit, so that the caller knows that there are more."""
    lines = data.split(b"\n")
    position, number, start = 0, 0, 0
    for _ in range(wanted.limit + 1):
        if position > len(data) or (found := wanted.expression.search(data, position)) is None:
            return
        while number < len(lines) - 1 and start + len(lines[number]) < found.start():
            start += len(lines[number]) + 1
            number += 1
        around = wanted.context_lines
        yield Match(
            path,
            number + 1,
            _shown(lines[number]),
            [_shown(line) for line in lines[max(number - around, 0) : number]],
            [_shown(line) for line in lines[number + 1 : number + 1 + around]],
        )
        position = start + len(lines[number]) + 1


def _shown(line: bytes) -> str:
    text = clean(line[: LONGEST_LINE * 4].decode("utf-8", "replace")).text
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"


def first_line_with(text: str, words: Sequence[str]) -> int:
    """The line, counted from 1, that has the most of these words."""
    best, most = 1, 0
    for number, line in enumerate(text.splitlines(), 1):
        count = sum(word in line.lower() for word in words)
        if count > most:
            best, most = number, count
    return best
