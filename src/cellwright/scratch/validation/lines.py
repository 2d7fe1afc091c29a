"""From an offset in text to line and column."""

from bisect import bisect_right

from cellwright.scratch.validation.checked import Position


class LineIndex:
    """Where the lines of a text begin. Lines and columns count from 1, columns in characters."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        line_break = text.find("\n")
        while line_break >= 0:
            self._starts.append(line_break + 1)
            line_break = text.find("\n", line_break + 1)

    def position(self, offset: int) -> Position:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1
