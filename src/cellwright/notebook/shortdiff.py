"""Differences short enough for the answer to an edit: a few dozen lines, and a count of those that are left out."""

from collections.abc import Iterable, Sequence

from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.text.sight import pictured
from cellwright.notebook.differences import unified

DIFF_LINES = 40
LONGEST_LINE = 160
COMPARED_CHARACTERS = 200_000
"""Longer texts are not compared line by line for an answer that shows forty lines."""


def text_diff(before: str, after: str) -> str:
    """What changed in one text."""
    return short_diff(changed_lines(before, after))


def short_diff(lines: Iterable[str]) -> str:
    """The first lines of a difference, fit to be shown."""
    return clean(first_lines([cut_line(line) for line in lines])).text


def changed_lines(before: str, after: str) -> list[str]:
    """The lines of a text that differ, with signs; of very long texts only how long they are."""
    if len(before) + len(after) > COMPARED_CHARACTERS:
        return [f"- {_size(before)}", f"+ {_size(after)}"]
    lines, new_lines = (pictured(text.replace("\r\n", "\n")).splitlines() for text in (before, after))
    return unified(lines, new_lines)


def _size(text: str) -> str:
    return f"{counted(text.count(chr(10)) + 1, 'line')}, {len(text):,} characters"


def first_lines(lines: Sequence[str], most: int = DIFF_LINES) -> str:
    left_out = [f"… {counted(len(lines) - most, 'more line')}"] if len(lines) > most else []
    return "\n".join([*lines[:most], *left_out])


def cell_line(sign: str, index: int, cell_id: str, source: str) -> str:
    """A whole cell that was added or removed, in one line: where it is or was, its id, and how it begins."""
    beginning, _, rest = pictured(source).strip("\n").partition("\n")
    return cut_line(f"{sign} [{index}] {cell_id}: {beginning}{' …' if rest else ''}")


def cut_line(line: str, longest: int = LONGEST_LINE) -> str:
    return line if len(line) <= longest else f"{line[:longest]}…"
