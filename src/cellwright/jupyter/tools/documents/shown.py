"""The texts that callers were shown. A position in a later edit means the text as it was shown, not as it is by then."""

from collections import OrderedDict
from dataclasses import dataclass, field

from cellwright.core.errors import Conflict
from cellwright.core.types import Call
from cellwright.jupyter.documents.text import TextDocument
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.notebooks.meaning import ANY
from cellwright.jupyter.notebooks.sights import ForgottenView
from cellwright.notebook.merging import merged_text
from cellwright.notebook.model import revision_of
from cellwright.notebook.textdiff import TextChange, changed_text, changes, difference, rebase

REMEMBERED_CHARACTERS = 16_000_000
LONGEST_REMEMBERED = 2_000_000
"""Of a longer text only its revision is remembered: that it changed is then known, but not how."""
REMEMBERED_OF_A_DOCUMENT = 16
REMEMBERED_CONNECTIONS = 256
REMEMBERED_DOCUMENTS = 2_000
DIFF_CHARACTERS = 2_000


@dataclass(slots=True)
class _Remembered:
    """The texts of one document that one principal was shown, by revision, and the last revision of each connection."""

    texts: OrderedDict[str, str | None] = field(default_factory=OrderedDict[str, str | None])
    last: OrderedDict[str, str] = field(default_factory=OrderedDict[str, str])
    believed: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """By revision: the text that the caller takes for it, where not all of it was shown."""


class ShownTexts:
    """What was shown to whom of text documents. It is bounded: what was shown long ago is forgotten, and then not guessed."""

    def __init__(self) -> None:
        self._remembered: OrderedDict[tuple[str, str], _Remembered] = OrderedDict()
        self._characters = 0

    def remember(self, call: Call, path: DocPath, text: str, revision: str, believed: str | None = None) -> None:
        """`believed`: the text that the caller takes for this one, if others' changes in it were not shown."""
        key = (call.principal.id, path.text)
        remembered = self._remembered.setdefault(key, _Remembered())
        self._remembered.move_to_end(key)
        if revision not in remembered.texts:
            remembered.texts[revision] = text if len(text) <= LONGEST_REMEMBERED else None
            self._characters += len(remembered.texts[revision] or "")
            if believed is not None and believed != text:
                remembered.believed[revision] = believed if len(believed) <= LONGEST_REMEMBERED else None
                self._characters += len(remembered.believed[revision] or "")
        elif believed is None:
            self._characters -= len(remembered.believed.pop(revision, None) or "")
        remembered.texts.move_to_end(revision)
        remembered.last[call.session] = revision
        remembered.last.move_to_end(call.session)
        self._bound(remembered)

    def seen(self, call: Call, path: DocPath, revision: str | None) -> "SeenText | None":
        """The text that the caller was shown: of this revision, or last. None if the caller was shown nothing."""
        remembered = self._remembered.get((call.principal.id, path.text))
        if revision is None:
            revision = remembered.last.get(call.session) if remembered else None
            if revision is None:
                return None
            return _seen(path, revision, remembered)
        if remembered is None or revision not in remembered.texts:
            raise ForgottenView(
                f"revision {revision[:20]!r} of {path} is not remembered; nothing was done",
                hint="get_document_content shows the text as it is now, with its revision",
            )
        return _seen(path, revision, remembered)

    def _bound(self, latest: _Remembered) -> None:
        if len(latest.last) > REMEMBERED_CONNECTIONS:
            latest.last.popitem(last=False)
        if len(latest.texts) > REMEMBERED_OF_A_DOCUMENT:
            self._forget_oldest(latest)
        if len(self._remembered) > REMEMBERED_DOCUMENTS:
            _, oldest = self._remembered.popitem(last=False)
            while oldest.texts:
                self._forget_oldest(oldest)
        for remembered in tuple(self._remembered.values()):
            while self._characters > REMEMBERED_CHARACTERS and remembered.texts:
                self._forget_oldest(remembered)
            if self._characters <= REMEMBERED_CHARACTERS:
                return

    def _forget_oldest(self, remembered: _Remembered) -> None:
        revision, text = remembered.texts.popitem(last=False)
        self._characters -= len(text or "") + len(remembered.believed.pop(revision, None) or "")


def _seen(path: DocPath, revision: str, remembered: _Remembered | None) -> "SeenText":
    text = remembered.texts.get(revision) if remembered else None
    return SeenText(path, revision, text, remembered.believed.get(revision, text) if remembered else None)


@dataclass(frozen=True, slots=True)
class SeenText:
    """A text as a caller was shown it."""

    path: DocPath
    revision: str
    text: str | None
    """None if it is no longer remembered, or is too long to be."""

    believed: str | None
    """The text that they take for it."""

    def position_now(self, view: TextDocument, position: int, length: int) -> int:
        """Where a span of the text is now. Raises Conflict if somebody changed it since."""
        now = view.text
        if revision_of(now) == self.revision:
            return position
        if self.text is None or not 0 <= position <= position + length <= len(self.text):
            raise self._changed(now)
        rebased = rebase([TextChange(position, position + length, "")], changes(self.text, now))
        if rebased is None:
            raise self._changed(now)
        return rebased[0].start

    def merged(self, view: TextDocument, text: str) -> str:
        """A new text, with what somebody changed since. Raises Conflict if both changed the same lines."""
        now = view.text
        if revision_of(now) == self.revision and self.believed == self.text:
            return text
        merged = None if self.believed is None else merged_text(self.believed, view.adapted(text), now)
        if merged is None:
            raise self._changed(now)
        return merged

    def believed_after(self, before: str, after: str) -> str | None:
        """The text that the caller takes for the document's after an edit of theirs."""
        if self.believed is None or self.believed == before:
            return None
        own = rebase(changes(before, after), changes(before, self.believed))
        return self.believed if own is None else changed_text(self.believed, own)

    def _changed(self, now: str) -> Conflict:
        revision = revision_of(now)
        return Conflict(
            f"{self.path} has changed since you saw revision {self.revision}; nothing was applied",
            hint=f'Look at the change; if your edit still fits, repeat it with expect={revision}; "{ANY}" overwrites',
            details={"revision": revision, "diff": difference(self.believed, now)[:DIFF_CHARACTERS]},
        )
