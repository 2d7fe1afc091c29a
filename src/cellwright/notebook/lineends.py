r"""Texts whose lines end with `\r\n` are shown to agents with `\n`. What an agent writes is given the text's own line ends."""

import re
from bisect import bisect_left
from collections.abc import Sequence

from cellwright.notebook.textdiff import TextChange, changes

_LONG_END = re.compile("\r\n")


class ShownText:
    r"""A text, and the same text as it is shown. The two differ only if the text contains a `\r\n`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._long_ends = [match.start() - count for count, match in enumerate(_LONG_END.finditer(text))]
        """The positions in the shown text at which a newline stands for two characters."""
        self.shown = text.replace("\r\n", "\n") if self._long_ends else text

    def adapted(self, new_text: str) -> str:
        r"""New text with the line ends that most lines here have, unless it has a `\r\n` of its own."""
        mostly_long = self._long_ends and 2 * len(self._long_ends) >= self.shown.count("\n")
        return new_text.replace("\n", "\r\n") if mostly_long and "\r\n" not in new_text else new_text

    def real_changes(self, shown_changes: Sequence[TextChange]) -> list[TextChange]:
        """Changes of the shown text as changes of the text itself."""
        return [
            TextChange(self._real_position(change.start), self._real_position(change.end), self.adapted(change.text))
            for change in shown_changes
        ]

    def changes_to(self, new_text: str) -> list[TextChange]:
        """What turns the text into `new_text`. A line that stays keeps its line end, whichever it is."""
        if not self._long_ends or "\r\n" in new_text:
            return changes(self.text, new_text)
        return self.real_changes(changes(self.shown, new_text))

    def _real_position(self, position: int) -> int:
        return position + bisect_left(self._long_ends, position)
