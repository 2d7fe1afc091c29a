"""Splits Markdown into the blocks that notebooks need: headings, fenced code, and everything else. Follows CommonMark."""

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
MOST_INDENT = 3
LEVELS = 6
_MARK = re.compile(r" {0,3}[#`~=-]")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_NO_PARAGRAPH = re.compile(r" {4}|\t| {0,3}(?:[-*+>]|\d{1,9}[.)]|<|\|)")
APART = "\n\n"
"""What is put between two blocks that were not neighbours in one text: a blank line."""


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    text: str
    source: str
    before: str = field(default=APART, compare=False)
    """The line ends and blank lines between the block before and this one. The other blocks have it too."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Fenced code: its content, and its source with the fence."""

    info: str
    content: str
    source: str
    closed: bool
    before: str = field(default=APART, compare=False)


@dataclass(frozen=True, slots=True)
class Prose:
    """Lines that are neither a heading nor fenced code, without the blank lines around them."""

    source: str
    before: str = field(default=APART, compare=False)


Block = Heading | Fence | Prose


def first_heading(text: str) -> Heading | None:
    """The level-1 heading at the beginning of the text, if there is one."""
    first = next(blocks(text), None)
    return first if isinstance(first, Heading) and first.level == 1 else None


def joined(neighbours: Sequence[Block]) -> str:
    """Neighbouring blocks as they were in their text."""
    return "".join(f"{block.before if number else ''}{block.source}" for number, block in enumerate(neighbours))


def indent_of(line: str) -> int:
    """The number of blanks with which the line begins."""
    return len(line) - len(line.lstrip(" "))


def without_indent(line: str, width: int) -> str:
    """The line without the blanks with which it begins, of which `width` are removed at most."""
    return line[min(width, indent_of(line)) :]


class _Lines:
    """The lines of a text. It keeps only where they begin, because millions of short strings take many times the memory of the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = array("I", [0])
        self._starts.extend(match.end() for match in re.finditer("\n", text))
        self._starts.append(len(text) + 1)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, at: int) -> str:
        return self._text[self._starts[at] : self._starts[at + 1] - 1]

    def is_marked(self, at: int) -> bool:
        """Whether the line may be a heading, the underline of one, or a fence."""
        return _MARK.match(self._text, self._starts[at]) is not None

    def is_empty(self, at: int) -> bool:
        return self._starts[at + 1] == self._starts[at] + 1

    def text(self, start: int, end: int) -> str:
        """The lines from `start` to before `end`, as they are in the text."""
        return self._text[self._starts[start] : self._starts[end] - 1] if start < end else ""


def blocks(text: str) -> Iterator[Block]:
    """The blocks in their order. Blank lines between blocks belong to no block, but each block knows those before it."""
    lines = _Lines(text.replace("\r\n", "\n").replace("\r", "\n"))
    yielded = 0  # the lines before this one are in blocks that were yielded
    prose_start = 0  # prose that was not yielded yet begins here
    at = 0
    while at < len(lines):
        located = (_heading_at(lines, at, prose_start) or _fence_at(lines, at)) if lines.is_marked(at) else None
        if located is None:
            at += 1
            continue
        block, block_start, at = located
        for prose, prose_end in _prose(lines, prose_start, block_start, yielded):
            yielded = prose_end
            yield prose
        yield replace(block, before=_between(lines, yielded, block_start))
        yielded = prose_start = at
    for prose, _ in _prose(lines, prose_start, len(lines), yielded):
        yield prose


def _heading_at(lines: _Lines, at: int, start: int) -> tuple[Heading, int, int] | None:
    """The heading that this line is, or underlines; the line where it begins, and the one after it. No title is before `start`."""
    line = lines[at]
    heading = _heading(line)
    if heading is not None:
        return heading, at, at + 1
    underline = _UNDERLINE.match(line) if at > start and _opening(line) is None else None
    if underline is None:
        return None
    title = lines[at - 1]
    if not title.strip() or _NO_PARAGRAPH.match(title):
        return None
    return Heading(1 if underline[1][0] == "=" else 2, title.strip(), f"{title}\n{line}"), at - 1, at + 1


def _fence_at(lines: _Lines, at: int) -> tuple[Fence, int, int] | None:
    """The fence that this line opens; the line where it begins, and the one after it."""
    opening = _opening(lines[at])
    if opening is None:
        return None
    end, closed = _end_of_fence(lines, at, opening["mark"])
    indent = indent_of(lines[at])
    content = lines.text(at + 1, end)
    if indent:
        content = "\n".join(without_indent(lines[number], indent) for number in range(at + 1, end))
    after = end + 1 if closed else end
    return Fence(opening["info"].strip(), content, lines.text(at, after), closed), at, after


def _prose(lines: _Lines, start: int, end: int, yielded: int) -> Iterator[tuple[Prose, int]]:
    """The prose in these lines, if there is any, and the line after it."""
    while start < end and lines.is_empty(start):
        start += 1
    while end > start and lines.is_empty(end - 1):
        end -= 1
    text = lines.text(start, end)
    if text.strip():
        yield Prose(text, _between(lines, yielded, start)), end


def _between(lines: _Lines, start: int, end: int) -> str:
    """The line ends and blank lines between two blocks."""
    return f"\n{lines.text(start, end)}\n" if start < end else "\n"


def _heading(line: str) -> Heading | None:
    """Parsed by hand: a regular expression for the closing marks takes time that grows with the square of the blanks before them."""
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


def _opening(line: str) -> re.Match[str] | None:
    match = _FENCE.match(line)
    if match is None or (match["mark"][0] == "`" and "`" in match["info"]):
        return None
    return match


def _end_of_fence(lines: _Lines, start: int, mark: str) -> tuple[int, bool]:
    """The line that closes the fence, or the one after the last; and whether the fence is closed."""
    for at in range(start + 1, len(lines)):
        line = lines[at]
        closing = line.lstrip(" ").rstrip(" \t")
        if indent_of(line) <= MOST_INDENT and closing.startswith(mark) and not closing.strip(mark[0]):
            return at, True
    return len(lines), False


def fence_for(content: str) -> str:
    """A fence that no line of the content closes."""
    longest = max((len(run) for run in re.findall(r"^ {0,3}(`{3,})", content, re.MULTILINE)), default=2)
    return "`" * max(3, longest + 1)
