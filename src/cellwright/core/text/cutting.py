"""A text without its middle: head and tail around a line that counts what is missing.

A text may be cut more than once on its way to a model: to what the caller asked for, then to what one answer may cost. So a cut
text knows its gaps, and a later cut that swallows one adds what was missing there to its own count.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Self

from cellwright.core.text.graphemes import may_split
from cellwright.core.text.tokens import estimate_tokens

MINIMUM_TOKENS = 64
"""The least budget: enough for the line that says what was left out, whatever its numbers."""
HEAD_SHARE = 0.6
_LINE_IN_FILE = re.compile(r"\n\[cellwright: ([\d,]+) characters left out\]\n")
_LONGEST_LINE = 80


@dataclass(frozen=True, slots=True)
class Gap:
    """The line from `start` to `end`, with the newlines that set it apart, stands for this many missing characters."""

    start: int
    end: int
    missing: int


class CutText(str):
    """A text with gaps. Any other operation on it gives a plain text, so pieces are put together with `joined`."""

    __slots__ = ("gaps",)
    gaps: tuple[Gap, ...]

    def __new__(cls, text: str, gaps: Iterable[Gap]) -> Self:
        made = super().__new__(cls, text)
        made.gaps = tuple(gaps)
        return made


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
    """The text with what stands between its gaps changed."""
    pieces: list[str] = []
    place = 0
    for gap in gaps_of(text):
        line = text[gap.start : gap.end]
        pieces += [change(text[place : gap.start]), CutText(line, [Gap(0, len(line), gap.missing)])]
        place = gap.end
    return joined([*pieces, change(text[place:])])


def cut_for_file(text: str, limit: int) -> str:
    """At most about `limit` characters, to be kept. A file knows no gaps, so the line stands in the very middle: see `from_file`."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[cellwright: {len(text) - 2 * half:,} characters left out]\n{text[len(text) - half :]}"


def from_file(text: str) -> str:
    """A text that was kept, with the gap in it if `cut_for_file` has cut it."""
    around = max(0, len(text) // 2 - _LONGEST_LINE), len(text) // 2 + _LONGEST_LINE
    for line in _LINE_IN_FILE.finditer(text, *around):
        if line.start() == len(text) - line.end():
            return CutText(text, [Gap(line.start(), line.end(), int(line[1].replace(",", "")))])
    return text


def without_last_newline(text: str) -> str:
    """A newline at the end is no part of a gap: nothing of a text follows it that would have to be set apart."""
    gaps = gaps_of(text)
    return CutText(text[:-1], gaps) if gaps and text.endswith("\n") else text.removesuffix("\n")


def cut_text(text: str, limit: int) -> str:
    """At most about `limit` characters: head and tail around a line that says exactly how many are missing."""
    if len(text) <= limit:
        return text
    head, tail = int(limit * HEAD_SHARE), limit - int(limit * HEAD_SHARE)
    start, end = head, len(text) - tail
    while start > 0 and not may_split(text, start):
        start -= 1
    while end < len(text) and not may_split(text, end):
        end += 1
    total = original_length(text)
    return _without_middle(text, start, end, lambda missing: f"… {missing:,} of {total:,} characters left out …")


def marker(characters: int, tokens: int) -> str:
    return f"… {characters:,} characters (about {tokens:,} tokens) left out …"


def shortened(text: str, total: int, tokens: int) -> str:
    """Head, marker and tail of a text that costs `total` and so more than `tokens`, which are at least the minimum."""
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
    """The text without what stands between these places, and without the gaps that this touches: one line counts it all."""
    gaps = gaps_of(text)
    swallowed = [gap for gap in gaps if gap.start <= end and gap.end >= start]
    start = min([start, *(gap.start for gap in swallowed)])
    end = max([end, *(gap.end for gap in swallowed)])
    missing = end - start + sum(gap.missing - (gap.end - gap.start) for gap in swallowed)
    before = "" if start == 0 or text[start - 1] == "\n" else "\n"
    after = "\n" if end < len(text) else ""
    marked = f"{before}{line(missing)}{after}"
    gap = Gap(start, start + len(marked), missing)
    kept = [one for one in gaps if one.end < start]
    following = [_moved(one, gap.end - end) for one in gaps if one.start > end]
    return CutText(f"{text[:start]}{marked}{text[end:]}", [*kept, gap, *following])


def _moved(gap: Gap, by: int) -> Gap:
    return replace(gap, start=gap.start + by, end=gap.end + by)


def _tokens_before(text: str, total: int) -> int:
    """About how many tokens the text had before it was cut, if it costs `total` as it is."""
    return total + sum(gap.missing for gap in gaps_of(text)) * total // max(1, len(text))


def _most(limit: int, tokens: int, piece: Callable[[int], str]) -> int:
    """Nearly the most characters, at most `limit`, whose piece costs no more than `tokens`."""
    kept, refused = 0, limit + 1
    guess = min(limit, 3 * tokens)
    for attempt in range(24):
        cost = estimate_tokens(piece(guess))
        if cost <= tokens:
            kept = guess
        else:
            refused = guess
        if refused - kept <= 1 or tokens - tokens // 32 <= cost <= tokens:
            break
        # The cost grows nearly in proportion, so a step or two arrives; doubling and halving serve uneven text.
        near = guess * tokens // max(1, cost) if attempt < 4 else min(2 * kept, (kept + refused) // 2)  # noqa: PLR2004
        guess = min(max(near, kept + 1), refused - 1)
    return kept


def _head_end(text: str, end: int) -> int:
    """At most `end`: after a newline if one is near, else where no character sequence is torn."""
    newline = text.rfind("\n", end - end // 5, end)
    if newline >= 0:
        return newline + 1
    while not may_split(text, end):
        end -= 1
    return end


def _tail_start(text: str, start: int) -> int:
    newline = text.find("\n", start, start + (len(text) - start) // 5)
    if newline >= 0:
        return newline + 1
    while not may_split(text, start):
        start += 1
    return start
