"""The smallest change from one text to another, so that people who type in the same text keep their characters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff

from pycrdt import Text

from cellwright.core.sight import pictured

CHARACTER_WORK = 1_000_000
"""Compare two passages character by character only if their lengths multiply to less than this."""
LINE_WORK = 4_000_000
"""The same for lines; more than this is replaced as a whole."""
SHOWN_LINES = 200
SHOWN_CHARACTERS = 8_000


@dataclass(frozen=True, slots=True)
class Change:
    """Characters `start` to `end` become `text`. Positions count Unicode code points of the old text."""

    start: int
    end: int
    text: str


def _common_prefix(old: str, new: str) -> int:
    """By halving: slices are compared at C speed, which matters for texts of megabytes."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(old: str, new: str, at_most: int) -> int:
    low, high = 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        if old[len(old) - middle : len(old) - low] == new[len(new) - middle : len(new) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def changes(old: str, new: str) -> list[Change]:
    """What turns `old` into `new`, in ascending order, not overlapping."""
    start = _common_prefix(old, new)
    tail = _common_suffix(old, new, min(len(old), len(new)) - start)
    a, b = old[start : len(old) - tail], new[start : len(new) - tail]
    if not a and not b:
        return []
    if not a or not b:
        return [Change(start, start + len(a), b)]
    return list(_by_lines(a, b, start))


def _by_lines(a: str, b: str, base: int) -> Iterator[Change]:
    a_lines, b_lines = a.splitlines(keepends=True), b.splitlines(keepends=True)
    if len(a_lines) * len(b_lines) > LINE_WORK:
        yield Change(base, base + len(a), b)
        return
    starts = [base]
    for line in a_lines:
        starts.append(starts[-1] + len(line))
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a_lines, b_lines, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from _by_characters("".join(a_lines[i1:i2]), "".join(b_lines[j1:j2]), starts[i1])


def _by_characters(a: str, b: str, base: int) -> Iterator[Change]:
    if not a or not b or len(a) * len(b) > CHARACTER_WORK:
        yield Change(base, base + len(a), b)
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Change(base + i1, base + i2, b[j1:j2])


def byte_offset(text: str, position: int) -> int:
    """Where character `position` begins in the UTF-8 form of `text`: the unit in which a shared text counts."""
    return position if text.isascii() else len(text[:position].encode("utf-8"))


def apply(shared: Text, old: str, made: Sequence[Change]) -> None:
    """Make `made` in `shared`, whose text is `old`. Call inside a transaction, without an await since `old` was read."""
    ascii_only = old.isascii()
    offsets: list[tuple[int, int]] = []
    characters = count = 0
    for change in made:
        if ascii_only:
            offsets.append((change.start, change.end))
            continue
        count += len(old[characters : change.start].encode("utf-8"))
        length = len(old[change.start : change.end].encode("utf-8"))
        offsets.append((count, count + length))
        characters, count = change.end, count + length
    # From the end, so that the offsets before stay valid.
    for (start, end), change in zip(reversed(offsets), reversed(made), strict=True):
        if end > start:
            del shared[start:end]
        if change.text:
            shared.insert(start, change.text)


def set_text(shared: Text, new: str) -> list[Change]:
    """Make the shared text equal `new` with the least change. Call inside a transaction."""
    old = str(shared)
    made = changes(old, new)
    apply(shared, old, made)
    return made


def rebase(made: Sequence[Change], others: Sequence[Change]) -> list[Change] | None:
    """`made`, shifted to where it belongs after `others` were made to the same text; None where they touch."""
    moved: list[Change] = []
    for change in made:
        shift = 0
        for other in others:
            if other.end <= change.start:
                shift += len(other.text) - (other.end - other.start)
            elif other.start < change.end:
                return None
        moved.append(Change(change.start + shift, change.end + shift, change.text))
    return moved


def difference(before: str | None, now: str) -> str:
    """What has changed, for the one who saw `before`; all of the text where that is not known."""
    if before is None:
        return pictured(now[:SHOWN_CHARACTERS])
    lines = unified_diff(_lines(before), _lines(now), "as you saw it", "as it is", lineterm="", n=2)
    return "\n".join(list(lines)[:SHOWN_LINES])


def _lines(text: str) -> list[str]:
    return pictured(text.replace("\r\n", "\n")).splitlines()
