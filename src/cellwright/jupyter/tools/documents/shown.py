"""The texts that callers were shown. A position in a later edit means the text as it was shown, not as it is by then."""

from collections import OrderedDict
from dataclasses import dataclass, field

from cellwright.core.errors import Conflict
from cellwright.core.lastshown import LastShown
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


@dataclass(frozen=True, slots=True)
class Belief:
    """The text that a caller takes for a document's, where not all of it was shown; None if that is not remembered."""

    text: str | None


@dataclass(slots=True)
class _Remembered:
    """The texts of one document that one principal was shown, by revision, and the last revision of each connection."""

    texts: OrderedDict[str, str | None] = field(default_factory=OrderedDict[str, str | None])
    last: LastShown = field(default_factory=LastShown)
    beliefs: dict[str, OrderedDict[str, Belief | None]] = field(
        default_factory=dict[str, OrderedDict[str, Belief | None]]
    )
    """By each of these revisions and connection: what they take for it; None if all of it was shown."""

    def belief(self, revision: str, session: str) -> Belief | None:
        """What a connection takes for this text. Where it was shown to others only, it knows no more of it than any of them."""
        beliefs = self.beliefs[revision] if revision in self.beliefs else OrderedDict[str, Belief | None]()
        return beliefs[session] if session in beliefs else next(filter(None, beliefs.values()), None)


class ShownTexts:
    """What was shown to whom of text documents. It is bounded: what was shown long ago is forgotten, and then not guessed."""

    def __init__(self) -> None:
        self._remembered: OrderedDict[tuple[str, str], _Remembered] = OrderedDict()
        self._characters = 0

    def remember(self, call: Call, path: DocPath, text: str, revision: str, belief: Belief | None = None) -> None:
        """`belief`: what the caller takes for this text, if others' changes in it were not shown."""
        key = (call.principal.id, path.text)
        remembered = self._remembered.setdefault(key, _Remembered())
        self._remembered.move_to_end(key)
        if revision not in remembered.texts:
            remembered.texts[revision] = text if len(text) <= LONGEST_REMEMBERED else None
            self._characters += len(remembered.texts[revision] or "")
        remembered.texts.move_to_end(revision)
        if belief is not None and belief.text == text:
            belief = None
        if belief is not None and len(belief.text or "") > LONGEST_REMEMBERED:
            belief = Belief(None)
        beliefs = remembered.beliefs.setdefault(revision, OrderedDict())
        self._characters += _size(belief) - _size(beliefs.pop(call.session, None))
        beliefs[call.session] = belief
        remembered.last.note(call, revision)
        self._bound(remembered, beliefs)

    def seen(self, call: Call, path: DocPath, revision: str | None) -> "SeenText | None":
        """The text that the caller was shown: of this revision, or last. None if the caller was shown nothing."""
        remembered = self._remembered.get((call.principal.id, path.text))
        named = revision is not None
        if remembered is not None and not named:
            revision = remembered.last.of(call)
        if revision is None:
            return None
        if remembered is None or (named and revision not in remembered.texts):
            raise ForgottenView(
                f"revision {revision[:20]!r} of {path} is not remembered; nothing was done",
                hint="get_document_content shows the text as it is now, with its revision",
            )
        text = remembered.texts.get(revision)
        belief = remembered.belief(revision, call.session)
        return SeenText(path, revision, text, belief or Belief(text), whole=belief is None)

    def moved(self, before: DocPath, after: DocPath) -> None:
        """A document, or a folder with all that is in it, has another path now."""
        for principal, path in tuple(self._remembered):
            if f"{path}/".startswith(f"{before}/"):
                remembered = self._remembered.pop((principal, path))
                self._remembered[principal, after.text + path[len(before.text) :]] = remembered

    def _bound(self, latest: _Remembered, beliefs: "OrderedDict[str, Belief | None]") -> None:
        if len(beliefs) > REMEMBERED_CONNECTIONS:
            self._characters -= _size(beliefs.popitem(last=False)[1])
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
        self._characters -= len(text or "") + sum(map(_size, remembered.beliefs.pop(revision).values()))


def _size(belief: Belief | None) -> int:
    return len(belief.text or "") if belief is not None else 0


@dataclass(frozen=True, slots=True)
class SeenText:
    """A text as a caller was shown it."""

    path: DocPath
    revision: str
    text: str | None
    """None if it is no longer remembered, or is too long to be."""
    belief: Belief
    """What they take for it."""
    whole: bool
    """Whether all of it was shown."""

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
        if revision_of(now) == self.revision and self.whole:
            return text
        believed = self.belief.text
        merged = None if believed is None else merged_text(believed, view.adapted(text), now)
        if merged is None:
            raise self._changed(now)
        return merged

    def belief_after(self, before: str, after: str) -> Belief | None:
        """What the caller takes for the document's text after an edit of theirs; None if they know all of it."""
        believed = self.belief.text
        if believed == before or (self.whole and revision_of(before) == self.revision):
            return None
        if believed is None:
            return Belief(None)
        own = rebase(changes(before, after), changes(before, believed))
        return Belief(believed if own is None else changed_text(believed, own))

    def _changed(self, now: str) -> Conflict:
        revision = revision_of(now)
        return Conflict(
            f"{self.path} has changed since you saw revision {self.revision}; nothing was applied",
            hint=f'Look at the change; if your edit still fits, repeat it with expect={revision}; "{ANY}" overwrites',
            details={"revision": revision, "diff": difference(self.belief.text, now)[:DIFF_CHARACTERS]},
        )
