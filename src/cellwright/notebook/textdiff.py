"""The smallest change from one text to another, so that people who type in the same text lose no characters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pycrdt import Text

from cellwright.core.text.sight import pictured
from cellwright.notebook.differences import replaced, unified

PASSAGE_WORK = 20_000
"""The steps spent on the characters of one passage whose lines differ."""
CHARACTER_WORK = 200_000
"""The steps spent on the characters of all passages. After that, passages are replaced as a whole."""
MOST_CHANGES = 2_000
"""How many changes of one text are made one by one. More than these are made as one change."""
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
    """Found by halving: slices are compared at C speed, which matters for texts of megabytes."""
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
    starts = list(accumulate(map(len, a_lines), initial=base))
    work = CHARACTER_WORK
    for lines in replaced(a_lines, b_lines):
        old, new = "".join(a_lines[lines.start : lines.end]), "".join(b_lines[lines.new_start : lines.new_end])
        start, size = starts[lines.start], len(old) + len(new)
        if not old or not new or size > min(work, PASSAGE_WORK):
            yield TextChange(start, start + len(old), new)
            continue
        work -= size
        for letters in replaced(old, new, PASSAGE_WORK):
            new_letters = new[letters.new_start : letters.new_end]
            yield TextChange(start + letters.start, start + letters.end, new_letters)


def byte_offset(text: str, position: int) -> int:
    """Where character `position` begins in the UTF-8 form of `text`. A shared text counts in bytes."""
    return position if text.isascii() else len(text[:position].encode("utf-8"))


def apply(shared: Text, old: str, edits: Sequence[TextChange]) -> None:
    """Make these edits in `shared`, whose text is `old`. Call inside a transaction, without an await since `old` was read."""
    if len(edits) > MOST_CHANGES:
        # So many single edits would hold everybody up, so everything from the first to the last is replaced at once.
        start, end = edits[0].start, edits[-1].end
        shifted = [TextChange(edit.start - start, edit.end - start, edit.text) for edit in edits]
        edits = [TextChange(start, end, changed_text(old[start:end], shifted))]
    ascii_only = old.isascii()
    offsets: list[tuple[int, int]] = []
    position = offset = 0
    for edit in edits:
        if ascii_only:
            offsets.append((edit.start, edit.end))
            continue
        offset += len(old[position : edit.start].encode("utf-8"))
        length = len(old[edit.start : edit.end].encode("utf-8"))
        offsets.append((offset, offset + length))
        position, offset = edit.end, offset + length
    # From the end, so that the offsets before stay valid.
    for (start, end), edit in zip(reversed(offsets), reversed(edits), strict=True):
        if end > start:
            del shared[start:end]
        if edit.text:
            shared.insert(start, edit.text)


def changed_text(text: str, edits: Sequence[TextChange]) -> str:
    """The text after these edits, which are in ascending order."""
    parts: list[str] = []
    position = 0
    for edit in edits:
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])


def set_text(shared: Text, new: str) -> list[TextChange]:
    """Make the shared text equal `new` with the least change. Call inside a transaction."""
    old = str(shared)
    edits = changes(old, new)
    apply(shared, old, edits)
    return edits


def rebase(edits: Sequence[TextChange], others: Sequence[TextChange]) -> list[TextChange] | None:
    """The edits, shifted to where they belong once `others` were made to the same text; None if any of them overlap."""
    shifted: list[TextChange] = []
    for edit in edits:
        shift = 0
        for other in others:
            if other.end <= edit.start:
                shift += len(other.text) - (other.end - other.start)
            elif other.start < edit.end:
                return None
        shifted.append(TextChange(edit.start + shift, edit.end + shift, edit.text))
    return shifted


def difference(before: str | None, now: str) -> str:
    """What has changed, for somebody who saw `before`; the beginning of the text if that is not known."""
    if before is None:
        return pictured(now[:SHOWN_CHARACTERS])
    return "\n".join(unified(_lines(before), _lines(now), names=("as you saw it", "as it is"))[:SHOWN_LINES])


def _lines(text: str) -> list[str]:
    return pictured(text.replace("\r\n", "\n")).splitlines()


def nearest_line(passage: str, text: str) -> str:
    """The line of the text that is most like the first line of the passage, by their trigrams; empty if none is much like it."""
    first_line = next((line for line in passage.splitlines() if line.strip()), "").strip()[:LOOKED_AT_CHARACTERS]
    passage_trigrams = _trigrams(first_line)
    best, best_likeness = "", LEAST_ALIKE
    for line in text.splitlines()[:LOOKED_AT_LINES]:
        trigrams = _trigrams(line.strip()[:LOOKED_AT_CHARACTERS])
        likeness = 2 * len(passage_trigrams & trigrams) / (len(passage_trigrams) + len(trigrams) or 1)
        if likeness > best_likeness:
            best, best_likeness = line, likeness
    return best


def _trigrams(line: str) -> set[str]:
    return {line[at : at + 3] for at in range(max(len(line) - 2, 1))} if line else set()
