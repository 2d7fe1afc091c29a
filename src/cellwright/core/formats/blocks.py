"""Markdown by blocks, as far as notebooks need it: headings, fenced code, and everything else. By the rules of CommonMark."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Fence:
    """Fenced code: what stands inside, and how it stands there."""

    info: str
    content: str
    source: str
    closed: bool


@dataclass(frozen=True, slots=True)
class Prose:
    """A run of lines that are neither, without blank lines around."""

    source: str


Block = Heading | Fence | Prose


def blocks(text: str) -> Iterator[Block]:
    """The blocks in their order. Blank lines between blocks are not part of any."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    prose: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        heading = _HEADING.match(line)
        fence = _opening(line)
        if heading is None and fence is None:
            if prose and prose[-1].strip() and (under := _UNDERLINE.match(line)) and _is_paragraph(prose[-1]):
                title = prose.pop()
                yield from _flushed(prose)
                prose = []
                yield Heading(1 if under[1][0] == "=" else 2, title.strip(), f"{title}\n{line}")
            else:
                prose.append(line)
            at += 1
            continue
        yield from _flushed(prose)
        prose = []
        if heading is not None:
            yield Heading(len(heading[1]), (heading[2] or "").strip(), line)
            at += 1
        else:
            end, closed = _end_of_fence(lines, at)
            inside = lines[at + 1 : end]
            indent = len(line) - len(line.lstrip(" "))
            content = "\n".join(_without_indent(one, indent) for one in inside)
            assert fence is not None
            yield Fence(fence["info"].strip(), content, "\n".join(lines[at : end + 1]), closed)
            at = end + 1
    yield from _flushed(prose)


def _is_paragraph(line: str) -> bool:
    return not re.match(r" {4}|\t| {0,3}(?:[-*+>]|\d{1,9}[.)]|<|\|)", line)


def _opening(line: str) -> re.Match[str] | None:
    found = _FENCE.match(line)
    if found is None or (found["mark"][0] == "`" and "`" in found["info"]):
        return None
    return found


def _end_of_fence(lines: list[str], start: int) -> tuple[int, bool]:
    """The line that closes the fence, or the one after the last."""
    mark = (_opening(lines[start]) or {"mark": "```"})["mark"]
    closing = re.compile(rf" {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$")
    for at in range(start + 1, len(lines)):
        if closing.match(lines[at]):
            return at, True
    return len(lines), False


def _without_indent(line: str, indent: int) -> str:
    cut = 0
    while cut < indent and cut < len(line) and line[cut] == " ":
        cut += 1
    return line[cut:]


def _flushed(lines: list[str]) -> Iterator[Prose]:
    text = "\n".join(lines).strip("\n")
    if text.strip():
        yield Prose(text)


def fence_for(content: str) -> str:
    """A fence that no line of the content closes."""
    longest = max((len(run) for run in re.findall(r"^ {0,3}(`{3,})", content, re.MULTILINE)), default=2)
    return "`" * max(3, longest + 1)
