"""Markdown by blocks, as far as notebooks need it: headings, fenced code, and everything else. By the rules of CommonMark."""

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
MOST_INDENT = 3
LEVELS = 6
_MARK = re.compile(r" {0,3}[#`~=-]")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
APART = "\n\n"
"""What stands between two blocks that were not neighbours in one text: a blank line."""


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    text: str
    source: str
    before: str = field(default=APART, compare=False)
    """Here as in the other blocks: what stands between the block before and this one, line ends and blank lines."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Fenced code: what stands inside, and how it stands there."""

    info: str
    content: str
    source: str
    closed: bool
    before: str = field(default=APART, compare=False)


@dataclass(frozen=True, slots=True)
class Prose:
    """A run of lines that are neither, without blank lines around."""

    source: str
    before: str = field(default=APART, compare=False)


Block = Heading | Fence | Prose


def first_heading(text: str) -> Heading | None:
    """The level-1 heading with which the text begins, if it does."""
    first = next(blocks(text), None)
    return first if isinstance(first, Heading) and first.level == 1 else None


def joined(found: Sequence[Block]) -> str:
    """Neighbouring blocks as they stood in their text."""
    return "".join(f"{block.before if number else ''}{block.source}" for number, block in enumerate(found))


class _Lines:
    """A text by its lines. Only where they begin is kept: millions of short texts would take many times the memory of their letters."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = array("I", [0])
        self._starts.extend(found.end() for found in re.finditer("\n", text))
        self._starts.append(len(text) + 1)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, at: int) -> str:
        return self._text[self._starts[at] : self._starts[at + 1] - 1]

    def is_marked(self, at: int) -> bool:
        """Whether it may be a heading, the line under one, or a fence."""
        return _MARK.match(self._text, self._starts[at]) is not None

    def is_empty(self, at: int) -> bool:
        return self._starts[at + 1] == self._starts[at] + 1

    def text(self, start: int, end: int) -> str:
        """The lines from `start` on and before `end`, as they stand in the text."""
        return self._text[self._starts[start] : self._starts[end] - 1] if start < end else ""


def blocks(text: str) -> Iterator[Block]:
    """The blocks in their order. Blank lines between blocks are not part of any, but each knows those before it."""
    lines = _Lines(text.replace("\r\n", "\n").replace("\r", "\n"))
    told = 0  # the lines before this one are in blocks that were given out
    start = 0  # prose that was not given out yet begins here
    at = 0
    while at < len(lines):
        found = (_heading_at(lines, at, start) or _fence_at(lines, at)) if lines.is_marked(at) else None
        if found is None:
            at += 1
            continue
        block, begin, at = found
        for prose, end in _prose(lines, start, begin, told):
            told = end
            yield prose
        yield replace(block, before=_between(lines, told, begin))
        told = start = at
    for prose, _ in _prose(lines, start, len(lines), told):
        yield prose


def _heading_at(lines: _Lines, at: int, start: int) -> tuple[Heading, int, int] | None:
    """The heading that this line is, or underlines; where it begins, and the line after it. No title stands before `start`."""
    line = lines[at]
    heading = _heading(line)
    if heading is not None:
        return heading, at, at + 1
    under = _UNDERLINE.match(line) if at > start and _opening(line) is None else None
    if under is None:
        return None
    title = lines[at - 1]
    if not title.strip() or not _is_paragraph(title):
        return None
    return Heading(1 if under[1][0] == "=" else 2, title.strip(), f"{title}\n{line}"), at - 1, at + 1


def _fence_at(lines: _Lines, at: int) -> tuple[Fence, int, int] | None:
    """The fence that this line opens; where it begins, and the line after it."""
    opening = _opening(lines[at])
    if opening is None:
        return None
    end, closed = _end_of_fence(lines, at)
    indent = len(lines[at]) - len(lines[at].lstrip(" "))
    content = lines.text(at + 1, end)
    if indent:
        content = "\n".join(_without_indent(lines[one], indent) for one in range(at + 1, end))
    after = end + 1 if closed else end
    return Fence(opening["info"].strip(), content, lines.text(at, after), closed), at, after


def _prose(lines: _Lines, start: int, end: int, told: int) -> Iterator[tuple[Prose, int]]:
    """The prose in these lines, if there is any, and the line after it."""
    while start < end and lines.is_empty(start):
        start += 1
    while end > start and lines.is_empty(end - 1):
        end -= 1
    text = lines.text(start, end)
    if text.strip():
        yield Prose(text, _between(lines, told, start)), end


def _between(lines: _Lines, told: int, begin: int) -> str:
    return f"\n{lines.text(told, begin)}\n" if told < begin else "\n"


def _heading(line: str) -> Heading | None:
    """By hand: an expression that looks for the closing marks takes a time that grows with the square of the blanks before them."""
    marks = line.lstrip(" ")
    rest = marks.lstrip("#")
    level = len(marks) - len(rest)
    if len(line) - len(marks) > MOST_INDENT or not 1 <= level <= LEVELS or rest[:1] not in {"", " ", "\t"}:
        return None
    text = rest.strip(" \t")
    unclosed = text.rstrip("#")
    if unclosed != text and unclosed[-1:] in {"", " ", "\t"}:
        text = unclosed
    return Heading(level, text.strip(), line)


def _is_paragraph(line: str) -> bool:
    return not re.match(r" {4}|\t| {0,3}(?:[-*+>]|\d{1,9}[.)]|<|\|)", line)


def _opening(line: str) -> re.Match[str] | None:
    found = _FENCE.match(line)
    if found is None or (found["mark"][0] == "`" and "`" in found["info"]):
        return None
    return found


def _end_of_fence(lines: _Lines, start: int) -> tuple[int, bool]:
    """The line that closes the fence, or the one after the last."""
    mark = (_opening(lines[start]) or {"mark": "```"})["mark"]
    for at in range(start + 1, len(lines)):
        line = lines[at]
        end = line.lstrip(" ").rstrip(" \t")
        indent = len(line) - len(line.lstrip(" "))
        if indent <= MOST_INDENT and len(end) >= len(mark) and end[0] == mark[0] and not end.strip(mark[0]):
            return at, True
    return len(lines), False


def _without_indent(line: str, indent: int) -> str:
    cut = 0
    while cut < indent and cut < len(line) and line[cut] == " ":
        cut += 1
    return line[cut:]


def fence_for(content: str) -> str:
    """A fence that no line of the content closes."""
    longest = max((len(run) for run in re.findall(r"^ {0,3}(`{3,})", content, re.MULTILINE)), default=2)
    return "`" * max(3, longest + 1)
