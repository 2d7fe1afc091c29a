"""A text without its middle: head and tail around a line that counts what is missing.

A text may be cut more than once on its way to a model: to the length that the caller asked for, then to the budget of the answer. So
a cut text knows its gaps, and a later cut that includes one adds what was missing there to its own count.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Self

from cellwright.core.text.graphemes import may_split
from cellwright.core.text.tokens import estimate_tokens

MINIMUM_TOKENS = 64
"""The smallest budget: enough for the line that says what was left out, whatever its numbers."""
HEAD_SHARE = 0.6
_LINE_IN_FILE = re.compile(r"\n\[cellwright: ([\d,]+) characters left out\]\n")
_LONGEST_LINE = 80


@dataclass(frozen=True, slots=True)
class Gap:
    """The line from `start` to `end`, with the newlines around it, replaces this many missing characters."""

    start: int
    end: int
    missing: int


class CutText(str):
    """A text with gaps. String operations return a plain text without them, so use `joined` to put pieces together."""

    __slots__ = ("gaps",)
    gaps: tuple[Gap, ...]

    def __new__(cls, text: str, gaps: Iterable[Gap]) -> Self:
        instance = super().__new__(cls, text)
        instance.gaps = tuple(gaps)
        return instance


def gaps_of(text: str) -> tuple[Gap, ...]:
    return text.gaps if isinstance(text, CutText) else ()


def original_length(text: str) -> int:
    """How many characters there were before the first cut."""
    return len(text) + sum(gap.missing - (gap.end - gap.start) for gap in gaps_of(text))


def joined(parts: Iterable[str], between: str = "") -> str:
    """The parts as one text that still knows the gaps in them."""
    pieces = list(parts)
    gaps: list[Gap] = []
    position = 0
    for piece in pieces:
        gaps += [_moved(gap, position) for gap in gaps_of(piece)]
        position += len(piece) + len(between)
    text = between.join(pieces)
    return CutText(text, gaps) if gaps else text


def mapped(text: str, change: Callable[[str], str]) -> str:
    """The text with everything changed except the lines of its gaps."""
    pieces: list[str] = []
    place = 0
    for gap in gaps_of(text):
        line = text[gap.start : gap.end]
        pieces += [change(text[place : gap.start]), CutText(line, [Gap(0, len(line), gap.missing)])]
        place = gap.end
    return joined([*pieces, change(text[place:])])


def cut_for_file(text: str, limit: int) -> str:
    """At most about `limit` characters, for storing. A file has no gaps, so the line is in the very middle, where `from_file` finds it."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[cellwright: {len(text) - 2 * half:,} characters left out]\n{text[len(text) - half :]}"


def from_file(text: str) -> str:
    """A stored text, with its gap if `cut_for_file` has cut it."""
    around = max(0, len(text) // 2 - _LONGEST_LINE), len(text) // 2 + _LONGEST_LINE
    for line in _LINE_IN_FILE.finditer(text, *around):
        if line.start() == len(text) - line.end():
            return CutText(text, [Gap(line.start(), line.end(), int(line[1].replace(",", "")))])
    return text


def without_last_newline(text: str) -> str:
    """The text without a newline at its end. That newline never belongs to a gap, because a gap at the end has none after its line."""
    gaps = gaps_of(text)
    return CutText(text[:-1], gaps) if gaps and text.endswith("\n") else text.removesuffix("\n")


def cut_text(text: str, limit: int) -> str:
    """At most about `limit` characters: head and tail around a line that says exactly how many are missing."""
    if len(text) <= limit:
        return text
    head, tail = int(limit * HEAD_SHARE), limit - int(limit * HEAD_SHARE)
    start, end = _split_before(text, head), _split_after(text, len(text) - tail)
    total = original_length(text)
    return _without_middle(text, start, end, lambda missing: f"… {missing:,} of {total:,} characters left out …")


def marker(characters: int, tokens: int) -> str:
    return f"… {characters:,} characters (about {tokens:,} tokens) left out …"


def shortened(text: str, total: int, tokens: int) -> str:
    """Head, marker and tail of a text within `tokens`. The text costs `total`, which is more than `tokens`."""
    everything = marker(original_length(text), _tokens_before(text, total))
    room = tokens - estimate_tokens(everything) - 1
    while room > 0:
        candidate = _with_room(text, total, room)
        excess = estimate_tokens(candidate) - tokens
        if excess <= 0:
            return candidate
        room -= excess
    return CutText(everything, [Gap(0, len(everything), original_length(text))])


def _with_room(text: str, total: int, room: int) -> str:
    size = len(text)
    end = _head_end(text, _most(size, room - room // 2, lambda count: text[:count]))
    start = max(end, _tail_start(text, size - _most(size, room // 2, lambda count: text[size - count :])))
    whole = _tokens_before(text, total)

    def line(missing: int) -> str:
        return marker(missing, max(1, whole - estimate_tokens(text[:end]) - estimate_tokens(text[start:])))

    return _without_middle(text, end, start, line)


def _without_middle(text: str, start: int, end: int, line: Callable[[int], str]) -> CutText:
    """The text with one line in place of what is between `start` and `end` and of the gaps there. The line counts all that is missing."""
    gaps = gaps_of(text)
    swallowed = [gap for gap in gaps if gap.start <= end and gap.end >= start]
    start = min([start, *(gap.start for gap in swallowed)])
    end = max([end, *(gap.end for gap in swallowed)])
    missing = end - start + sum(gap.missing - (gap.end - gap.start) for gap in swallowed)
    before = "" if start == 0 or text[start - 1] == "\n" else "\n"
    after = "\n" if end < len(text) else ""
    marked = f"{before}{line(missing)}{after}"
    gap = Gap(start, start + len(marked), missing)
    gaps_before = [other for other in gaps if other.end < start]
    gaps_after = [_moved(other, gap.end - end) for other in gaps if other.start > end]
    return CutText(f"{text[:start]}{marked}{text[end:]}", [*gaps_before, gap, *gaps_after])


def _moved(gap: Gap, by: int) -> Gap:
    return replace(gap, start=gap.start + by, end=gap.end + by)


def _tokens_before(text: str, total: int) -> int:
    """About how many tokens the text had before it was cut, if it costs `total` now."""
    return total + sum(gap.missing for gap in gaps_of(text)) * total // max(1, len(text))


def _most(limit: int, tokens: int, piece: Callable[[int], str]) -> int:
    """Nearly the largest number of characters, at most `limit`, whose piece costs no more than `tokens`."""
    fitting, too_many = 0, limit + 1
    guess = min(limit, 3 * tokens)
    for attempt in range(24):
        cost = estimate_tokens(piece(guess))
        if cost <= tokens:
            fitting = guess
        else:
            too_many = guess
        if too_many - fitting <= 1 or tokens - tokens // 32 <= cost <= tokens:
            break
        # The cost grows nearly in proportion to the length, so a step or two suffice; uneven text needs doubling and halving.
        near = guess * tokens // max(1, cost) if attempt < 4 else min(2 * fitting, (fitting + too_many) // 2)  # noqa: PLR2004
        guess = min(max(near, fitting + 1), too_many - 1)
    return fitting


def _head_end(text: str, end: int) -> int:
    """Where the head ends, at most at `end`: after a newline if one is near, else where the text may be split."""
    newline = text.rfind("\n", end - end // 5, end)
    return newline + 1 if newline >= 0 else _split_before(text, end)


def _tail_start(text: str, start: int) -> int:
    """Where the tail starts, at least at `start`: after a newline if one is near, else where the text may be split."""
    newline = text.find("\n", start, start + (len(text) - start) // 5)
    return newline + 1 if newline >= 0 else _split_after(text, start)


def _split_before(text: str, index: int) -> int:
    """The last place, at most `index`, where the text may be split."""
    while not may_split(text, index):
        index -= 1
    return index


def _split_after(text: str, index: int) -> int:
    """The first place, at least `index`, where the text may be split."""
    while not may_split(text, index):
        index += 1
    return index
