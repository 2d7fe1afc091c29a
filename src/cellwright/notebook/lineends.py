r"""Texts whose lines end with `\r\n`, as agents see them: with `\n`. What an agent writes keeps the text's own line ends."""

import re
from bisect import bisect_left
from collections.abc import Sequence

from cellwright.notebook.textdiff import TextChange, changes

_LONG_END = re.compile("\r\n")


class ShownText:
    r"""A text together with how it is shown. Without a `\r\n` in it, both are the same."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._long_ends = [found.start() - count for count, found in enumerate(_LONG_END.finditer(text))]
        """Where, in the shown text, a newline stands for two characters."""
        self.shown = text.replace("\r\n", "\n") if self._long_ends else text

    def adapted(self, words: str) -> str:
        """New words with the line ends that most lines here have, unless the words bring their own."""
        most = self._long_ends and 2 * len(self._long_ends) >= self.shown.count("\n")
        return words.replace("\n", "\r\n") if most and "\r\n" not in words else words

    def meant(self, made: Sequence[TextChange]) -> list[TextChange]:
        """Changes of the shown text as changes of the text itself."""
        return [TextChange(self._real(one.start), self._real(one.end), self.adapted(one.text)) for one in made]

    def changes_to(self, wanted: str) -> list[TextChange]:
        """What makes the text the one that is wanted; a line that stays keeps its end, whichever it is."""
        if not self._long_ends or "\r\n" in wanted:
            return changes(self.text, wanted)
        return self.meant(changes(self.shown, wanted))

    def _real(self, position: int) -> int:
        return position + bisect_left(self._long_ends, position)
