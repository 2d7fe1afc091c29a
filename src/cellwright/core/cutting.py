"""A text without its middle: head and tail around a line that counts what is missing."""

from collections.abc import Callable

from cellwright.core.graphemes import may_split
from cellwright.core.tokens import estimate_tokens

MINIMUM_TOKENS = 64
"""The least budget: enough for the line that says what was left out, whatever its numbers."""


def marker(characters: int, tokens: int) -> str:
    return f"… {characters:,} characters (about {tokens:,} tokens) left out …"


def shortened(text: str, total: int, tokens: int) -> str:
    """Head, marker and tail of a text that costs `total` and so more than `tokens`, which are at least the minimum."""
    room = tokens - estimate_tokens(marker(len(text), total)) - 1
    while room > 0:
        candidate = _with_room(text, total, room)
        excess = estimate_tokens(candidate) - tokens
        if excess <= 0:
            return candidate
        room -= excess
    return marker(len(text), total)


def _with_room(text: str, total: int, room: int) -> str:
    size = len(text)
    end = _head_end(text, _most(size, room - room // 2, lambda count: text[:count]))
    start = max(end, _tail_start(text, size - _most(size, room // 2, lambda count: text[size - count :])))
    head, tail = text[:end], text[start:]
    missing = max(1, total - estimate_tokens(head) - estimate_tokens(tail))
    before = "" if not head or head.endswith("\n") else "\n"
    after = "\n" if tail else ""
    return f"{head}{before}{marker(start - end, missing)}{after}{tail}"


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
