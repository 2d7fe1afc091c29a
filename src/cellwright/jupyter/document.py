"""A text file in a shared document. Positions count Unicode code points; an edit changes the given span and nothing else."""

from collections.abc import Callable
from typing import Any, cast

from pycrdt import Doc, Text, TextEvent

from cellwright.core.errors import Conflict, InvalidArgument
from cellwright.jupyter.model import revision_of
from cellwright.jupyter.notebook import AGENT, difference
from cellwright.jupyter.room import came_from_others
from cellwright.jupyter.textdiff import Change, apply, set_text
from cellwright.jupyter.ycells import checked_source


class TextDocument:
    """The text of one shared document."""

    def __init__(self, doc: Doc[Any], name: str = "the document") -> None:
        self.doc = doc
        self.name = name
        self._source: Text = doc.get("source", type=Text)
        self._listeners: list[Callable[[bool], None]] = []
        self._subscription = self._source.observe(cast("Any", self._follow))

    @property
    def text(self) -> str:
        return str(self._source)

    @property
    def shared_text(self) -> Text:
        return self._source

    @property
    def revision(self) -> str:
        return revision_of(self.text)

    def insert(self, position: int, text: str, *, expect: str | None = None, author: str = AGENT) -> None:
        self.replace(position, 0, text, expect=expect, author=author)

    def delete(self, position: int, length: int, *, expect: str | None = None, author: str = AGENT) -> str:
        """Remove characters. What was removed."""
        return self.replace(position, length, "", expect=expect, author=author)

    def replace(self, position: int, length: int, text: str, *, expect: str | None = None, author: str = AGENT) -> str:
        """Put `text` in the place of `length` characters. What was there."""
        now = self.text
        self._check(now, expect)
        checked_source(text)
        if position < 0 or length < 0 or position + length > len(now):
            raise InvalidArgument(
                f"there is no span of {length} characters at {position}: {self.name} has {len(now)} characters",
                hint="Positions count Unicode characters from 0",
            )
        with self.doc.transaction(origin=author):
            apply(self._source, now, [Change(position, position + length, text)])
        return now[position : position + length]

    def overwrite(self, text: str, *, expect: str | None = None, author: str = AGENT) -> None:
        """Make the whole text this one, by the smallest difference."""
        self._check(self.text, expect)
        checked_source(text)
        with self.doc.transaction(origin=author):
            set_text(self._source, text)

    def fill(self, text: str) -> None:
        """All of a text that was read from a file, into a document that is empty."""
        with self.doc.transaction(origin="load"):
            self._source.insert(0, text)

    def on_change(self, listener: Callable[[bool], None]) -> Callable[[], None]:
        """Call `listener` after every change, with whether it was ours. It must not raise."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _follow(self, _event: TextEvent, transaction: object) -> None:
        ours = not came_from_others(transaction)
        for listener in tuple(self._listeners):
            listener(ours)

    def _check(self, now: str, expect: str | None) -> None:
        if expect is not None and revision_of(now) != expect:
            raise Conflict(
                f"{self.name} has changed since revision {expect}; nothing was applied",
                hint=f"Read it again; if your edit still fits, repeat it with expect={revision_of(now)}",
                details={"revision": revision_of(now), "diff": difference(None, now)[:2_000]},
            )
