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
        """Whether the file has other line ends than this document: saving changes them all."""
        self._shared = shared
        self._source: Text = doc.get("source", type=Text)
        self._listeners: list[Callable[[bool], None]] = []
        self._touched: int | None = None
        self._authors: set[str] = set()
        self._subscription: Subscription | None = self._source.observe(cast("Any", self._follow))

    def close(self) -> None:
        """Stop following the document: it was left."""
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
        """The text as this document has it.

        In a shared text Jupyter ends every line with one character; people's editors count positions by that.
        """
        return text.replace("\r\n", "\n") if self._shared else text

    def insert(self, position: int, text: str, *, expect: str | None = None, author: str = AGENT) -> None:
        self.replace(position, 0, text, expect=expect, author=author)

    def delete(self, position: int, length: int, *, expect: str | None = None, author: str = AGENT) -> str:
        """Remove characters. Returns the removed text."""
        return self.replace(position, length, "", expect=expect, author=author)

    def replace(self, position: int, length: int, text: str, *, expect: str | None = None, author: str = AGENT) -> str:
        """Replace `length` characters with `text`. Returns the text that was there."""
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
        self._authors.add(author)
        self._touched = byte_offset(now, position) + len(text.encode("utf-8"))
        return now[position : position + length]

    def overwrite(self, text: str, *, expect: str | None = None, author: str = AGENT) -> None:
        """Replace the whole text, changing as little as possible."""
        now = self.text
        self._check(now, expect)
        text = self.adapted(text)
        checked_source(text)
        with self.doc.transaction(origin=author):
            changes = set_text(self._source, text)
        if changes:
            self._authors.add(author)
            self._touched = len(text[: len(text) - (len(now) - changes[-1].end)].encode("utf-8"))

    def take_touched(self) -> int | None:
        """The byte offset at which the last edit ended. It is returned once, because it holds only until somebody else writes."""
        offset, self._touched = self._touched, None
        return offset

    def take_authors(self) -> set[str]:
        """Who edited the text since this was last asked."""
        authors, self._authors = self._authors, set()
        return authors

    def fill(self, text: str) -> None:
        """Put the text of a file into an empty document."""
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
    """It has as many characters as this span of the document."""
    omitted: tuple[int, int] | None
    """Position and length, in the document, of the requested text that did not fit."""
    unseen: int
    """How many characters a person would not see. Each is replaced by a visible one."""


def excerpt(text: str, start: int, end: int, characters: int, tokens: int) -> Excerpt:
    """The span, or as much of its beginning as these limits allow."""
    room = characters
    while True:
        cut = _cut(text, start, end, room)
        cost = estimate_tokens(compact_json(cut.text))
        if cost <= tokens or room == 0:
            return cut
        room = min(room, end - start) * tokens // (cost + cost // 16)


def _cut(text: str, start: int, end: int, room: int) -> Excerpt:
    stop = min(end, start + room)
    while stop < end and stop > start and not may_split(text, stop):
        stop -= 1
    if stop == start < end:
        # A single character is larger than the room: take a part of it, so that the caller can go on.
        stop = min(end, start + room)
    excerpt_text, unseen = visible(text[start:stop])
    return Excerpt(excerpt_text, (stop, end - stop) if stop < end else None, unseen)


def visible(text: str) -> tuple[str, int]:
    """The text with a visible character for each hidden or control character, so that positions stay true; and how many there are.

    `clean` removes them, which is right for outputs. Here the next edit counts them.
    """
    visible_text = pictured(text)
    unseen = (
        sum(before != after for before, after in zip(text, visible_text, strict=True)) if visible_text != text else 0
    )
    while (cleaned := clean(visible_text).text) != visible_text:
        visible_text, replaced = _aligned(visible_text, cleaned)
        unseen += replaced
    return visible_text, unseen


def _aligned(text: str, cleaned: str) -> tuple[str, int]:
    """`text` with a visible character for each that `cleaned` lacks, and how many these are."""
    aligned: list[str] = []
    position = 0
    for character in text:
        if position < len(cleaned) and cleaned[position] == character:
            aligned.append(character)
            position += 1
        else:
            aligned.append(UNSEEN)
    return "".join(aligned), len(text) - position
