"""Differences short enough for the answer to an edit: a few dozen lines, and a count of those that are left out."""

from collections.abc import Sequence

from cellwright.core.text.counting import counted
from cellwright.core.text.sight import pictured

DIFF_LINES = 40
LONGEST_LINE = 160


def first_lines(lines: Sequence[str], most: int = DIFF_LINES) -> str:
    left_out = [f"… {counted(len(lines) - most, 'more line')}"] if len(lines) > most else []
    return "\n".join([*lines[:most], *left_out])


def cell_line(sign: str, index: int, cell_id: str, source: str) -> str:
    """A whole cell that was added or removed, in one line: where it is or was, its id, and how it begins."""
    beginning, _, rest = pictured(source).strip("\n").partition("\n")
    return cut_line(f"{sign} [{index}] {cell_id}: {beginning}{' …' if rest else ''}")


def cut_line(line: str, longest: int = LONGEST_LINE) -> str:
    return line if len(line) <= longest else f"{line[:longest]}…"
