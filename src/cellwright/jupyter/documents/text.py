"""A text file in a shared document. Positions count Unicode code points; an edit changes the given span and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from pycrdt import Doc, Subscription, Text, TextEvent

from cellwright.core.errors import Conflict, InvalidArgument
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.text.clean import clean
from cellwright.core.text.fitting import compact_json
from cellwright.core.text.graphemes import may_split
from cellwright.core.text.sight import UNSEEN, pictured
from cellwright.jupyter.documents.room import came_from_others
from cellwright.jupyter.notebooks.cells import checked_source
from cellwright.jupyter.notebooks.guards import check_growth
from cellwright.jupyter.notebooks.notebook import AGENT
from cellwright.notebook.model import revision_of
from cellwright.notebook.textdiff import TextChange, apply, byte_offset, difference, set_text


class NotText(InvalidArgument):
    """The file is not text in UTF-8."""


class TextDocument:
    """The text of one shared document."""

    def __init__(self, doc: Doc[Any], name: str = "the document", *, shared: bool = False) -> None:
        self.doc = doc
        self.name = name
        self.rewrites_line_ends = False
        """Whether the file has line ends that this document has not: saving it changes them all."""
        self._shared = shared
        self._source: Text = doc.get("source", type=Text)
        self._listeners: list[Callable[[bool], None]] = []
        self._touched: int | None = None
        self._subscription: Subscription | None = self._source.observe(cast("Any", self._follow))

    def close(self) -> None:
        """Follow no more: the document was left."""
        if self._subscription is not None:
            self._source.unobserve(self._subscription)
            self._subscription = None
        self._listeners.clear()

    @property
    def text(self) -> str:
        return str(self._source)

    @property
    def shared_text(self) -> Text:
        return self._source

    @property
    def revision(self) -> str:
        return revision_of(self.text)

    def adapted(self, text: str) -> str:
        """The text as it is put into this document.

        Jupyter gives every line of a shared text one character at its end; people's editors count positions by that.
        """
        return text.replace("\r\n", "\n") if self._shared else text

    def insert(self, position: int, text: str, *, expect: str | None = None, author: str = AGENT) -> None:
        self.replace(position, 0, text, expect=expect, author=author)

    def delete(self, position: int, length: int, *, expect: str | None = None, author: str = AGENT) -> str:
        """Remove characters. What was removed."""
        return self.replace(position, length, "", expect=expect, author=author)

    def replace(self, position: int, length: int, text: str, *, expect: str | None = None, author: str = AGENT) -> str:
        """Put `text` in the place of `length` characters. What was there."""
        now = self.text
        self._check(now, expect)
        text = self.adapted(text)
        checked_source(text)
        if position < 0 or length < 0 or position + length > len(now):
            raise InvalidArgument(
                f"there is no span of {length} characters at {position}: {self.name} has {len(now)} characters",
                hint="Positions count Unicode characters from 0",
            )
        check_growth(now, 1, len(text) - length)
        with self.doc.transaction(origin=author):
            apply(self._source, now, [TextChange(position, position + length, text)])
        self._touched = byte_offset(now, position) + len(text.encode("utf-8"))
        return now[position : position + length]

    def overwrite(self, text: str, *, expect: str | None = None, author: str = AGENT) -> None:
        """Make the whole text this one, by the smallest difference."""
        now = self.text
        self._check(now, expect)
        text = self.adapted(text)
        checked_source(text)
        with self.doc.transaction(origin=author):
            made = set_text(self._source, text)
        if made:
            self._touched = len(text[: len(text) - (len(now) - made[-1].end)].encode("utf-8"))

    def take_touched(self) -> int | None:
        """Where the last edit ended, as a byte offset, once: it is true only until somebody else writes."""
        place, self._touched = self._touched, None
        return place

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


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Part of a text, for reading."""

    text: str
    """As many characters as the document has there."""
    omitted: tuple[int, int] | None
    """Position and length, in the document, of what was asked for and did not fit."""
    unseen: int
    """Characters that a person would not see, each with a visible one in its place."""


def excerpt(text: str, start: int, end: int, characters: int, tokens: int) -> Excerpt:
    """The span, or as much of its beginning as these limits allow."""
    room = characters
    while True:
        made = _cut(text, start, end, room)
        cost = estimate_tokens(compact_json(made.text))
        if cost <= tokens or room == 0:
            return made
        room = min(room, end - start) * tokens // (cost + cost // 16)


def _cut(text: str, start: int, end: int, room: int) -> Excerpt:
    stop = min(end, start + room)
    while stop < end and stop > start and not may_split(text, stop):
        stop -= 1
    if stop == start < end:
        # One character that takes more than the room: rather a part of it than no way to go on.
        stop = min(end, start + room)
    shown, unseen = visible(text[start:stop])
    return Excerpt(shown, (stop, end - stop) if stop < end else None, unseen)


def visible(text: str) -> tuple[str, int]:
    """The text with a visible character for each that is hidden or controls something: positions stay true.

    `clean` takes them away, which is right for outputs; here the next edit counts them.
    """
    shown = pictured(text)
    unseen = sum(old != new for old, new in zip(text, shown, strict=True)) if shown != text else 0
    while (cleaned := clean(shown).text) != shown:
        shown, replaced = _aligned(shown, cleaned)
        unseen += replaced
    return shown, unseen


def _aligned(text: str, cleaned: str) -> tuple[str, int]:
    """`text` with a stand-in for each character that `cleaned` lacks."""
    kept: list[str] = []
    at = 0
    for character in text:
        if at < len(cleaned) and cleaned[at] == character:
            kept.append(character)
            at += 1
        else:
            kept.append(UNSEEN)
    return "".join(kept), len(text) - at
