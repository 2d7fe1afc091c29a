"""The smallest change from one text to another, so that people who type in the same text keep their characters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pycrdt import Text

from cellwright.core.text.sight import pictured
from cellwright.notebook.differences import replaced, unified

PASSAGE_WORK = 20_000
"""Steps for the characters of one passage whose lines differ."""
CHARACTER_WORK = 200_000
"""Steps for the characters of all of them; after that, passages are replaced as a whole."""
MOST_CHANGES = 2_000
"""Of one text in one edit, each by itself; more are made as one."""
SHOWN_LINES = 200
SHOWN_CHARACTERS = 8_000
LOOKED_AT_LINES = 2_000
LOOKED_AT_CHARACTERS = 120
LEAST_ALIKE = 0.3


@dataclass(frozen=True, slots=True)
class TextChange:
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


def changes(old: str, new: str) -> list[TextChange]:
    """What turns `old` into `new`, in ascending order, not overlapping."""
    start = _common_prefix(old, new)
    tail = _common_suffix(old, new, min(len(old), len(new)) - start)
    a, b = old[start : len(old) - tail], new[start : len(new) - tail]
    if not a and not b:
        return []
    if not a or not b:
        return [TextChange(start, start + len(a), b)]
    return list(_by_lines(a, b, start))


def _by_lines(a: str, b: str, base: int) -> Iterator[TextChange]:
    a_lines, b_lines = a.splitlines(keepends=True), b.splitlines(keepends=True)
    starts = [base, *accumulate(map(len, a_lines), initial=base)][1:]
    work = CHARACTER_WORK
    for lines in replaced(a_lines, b_lines):
        old, new = "".join(a_lines[lines.start : lines.end]), "".join(b_lines[lines.new_start : lines.new_end])
        size = len(old) + len(new)
        if old and new and size <= min(work, PASSAGE_WORK):
            work -= size
            yield from _by_characters(old, new, starts[lines.start])
        else:
            yield TextChange(starts[lines.start], starts[lines.start] + len(old), new)


def _by_characters(a: str, b: str, base: int) -> Iterator[TextChange]:
    for characters in replaced(a, b, PASSAGE_WORK):
        new = b[characters.new_start : characters.new_end]
        yield TextChange(base + characters.start, base + characters.end, new)


def byte_offset(text: str, position: int) -> int:
    """Where character `position` begins in the UTF-8 form of `text`: the unit in which a shared text counts."""
    return position if text.isascii() else len(text[:position].encode("utf-8"))


def apply(shared: Text, old: str, made: Sequence[TextChange]) -> None:
    """Make `made` in `shared`, whose text is `old`. Call inside a transaction, without an await since `old` was read."""
    if len(made) > MOST_CHANGES:
        # So many single changes would hold everybody up; what lies between them is replaced by itself.
        start, end = made[0].start, made[-1].end
        shifted = [TextChange(change.start - start, change.end - start, change.text) for change in made]
        made = [TextChange(start, end, changed_text(old[start:end], shifted))]
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


def changed_text(text: str, made: Sequence[TextChange]) -> str:
    """The text after these changes, which are in ascending order."""
    parts: list[str] = []
    position = 0
    for change in made:
        parts += [text[position : change.start], change.text]
        position = change.end
    return "".join([*parts, text[position:]])


def set_text(shared: Text, new: str) -> list[TextChange]:
    """Make the shared text equal `new` with the least change. Call inside a transaction."""
    old = str(shared)
    made = changes(old, new)
    apply(shared, old, made)
    return made


def rebase(made: Sequence[TextChange], others: Sequence[TextChange]) -> list[TextChange] | None:
    """`made`, shifted to where it belongs after `others` were made to the same text; None where they touch."""
    moved: list[TextChange] = []
    for change in made:
        shift = 0
        for other in others:
            if other.end <= change.start:
                shift += len(other.text) - (other.end - other.start)
            elif other.start < change.end:
                return None
        moved.append(TextChange(change.start + shift, change.end + shift, change.text))
    return moved


def difference(before: str | None, now: str) -> str:
    """What has changed, for the one who saw `before`; all of the text where that is not known."""
    if before is None:
        return pictured(now[:SHOWN_CHARACTERS])
    return "\n".join(unified(_lines(before), _lines(now), names=("as you saw it", "as it is"))[:SHOWN_LINES])


def _lines(text: str) -> list[str]:
    return pictured(text.replace("\r\n", "\n")).splitlines()


def nearest_line(wanted: str, text: str) -> str:
    """The line that has most in common with the first line that is wanted, by the letters that stand together; empty if little is."""
    first = next((line for line in wanted.splitlines() if line.strip()), "").strip()[:LOOKED_AT_CHARACTERS]
    shapes = _trigrams(first)
    best, likeness = "", LEAST_ALIKE
    for line in text.splitlines()[:LOOKED_AT_LINES]:
        found = _trigrams(line.strip()[:LOOKED_AT_CHARACTERS])
        alike = 2 * len(shapes & found) / (len(shapes) + len(found) or 1)
        if alike > likeness:
            best, likeness = line, alike
    return best


def _trigrams(line: str) -> set[str]:
    return {line[at : at + 3] for at in range(max(len(line) - 2, 1))} if line else set()
