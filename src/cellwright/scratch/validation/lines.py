"""From an offset in text to line and column."""

from bisect import bisect_right

from cellwright.scratch.validation.checked import Position


class LineIndex:
    """Where the lines of a text begin. Lines and columns count from 1, columns in characters."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = text.find("\n", at + 1)

    def position(self, offset: int) -> Position:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1
