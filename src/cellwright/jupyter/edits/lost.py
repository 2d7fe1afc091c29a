"""Edits that were made and are gone again: Jupyter died before it saved them, or loaded what another program wrote into the file."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from cellwright.core.errors import CellwrightError, Conflict, NotFound
from cellwright.core.text.counting import counted
from cellwright.core.weight import weight
from cellwright.jupyter.documents.text import TextDocument
from cellwright.jupyter.edits.history import Inserted, TouchedCells
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.cellmetadata import TRUSTED, metadata_of
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.notebook.addressing import by_id
from cellwright.notebook.merging import merged_text
from cellwright.notebook.model import Kind
from cellwright.notebook.shortdiff import text_diff
from cellwright.notebook.textdiff import difference

MOST_CELLS = 200
"""Of one call: more are not remembered, only that there were more."""
MOST_CALLS = 200
MOST_BYTES = 4 * 1024 * 1024
"""Of one document's edits that are not in its file yet."""
CELL_BYTES = 1_000
MOST_DOCUMENTS = 64
NAMED = 10
WHOLE_TEXT = ""
"""The id under which a text document is remembered, which has no cells."""


Noted = tuple[str, frozenset[str]]
"""An author, and the cells of an edit."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A cell as its author left it; None if they removed it."""

    cell: JsonObject | None
    after: str | None = None
    """The cell it followed."""
    moved: bool = False
    before: str | None = None
    """The text that the cell had before the first of their edits that are not in the file; None if they did not change it."""
    marked: frozenset[str] = frozenset()
    """The entries of its metadata that they changed."""
    retyped: bool = False


@dataclass(frozen=True, slots=True)
class _UnsavedCall:
    mark: int
    author: str
    cells: Mapping[str, Wanted]
    more: bool
    weight: int


@dataclass(slots=True)
class AuthorsEdits:
    """What one author wants of one document: of each cell the last."""

    cells: dict[str, Wanted] = field(default_factory=dict[str, Wanted])
    more: bool = False
    """Whether there were more cells than are remembered."""
    told: bool = False
    diff: str = ""
    """Of a text document: what is missing in it."""


class UnsavedEdits:
    """The edits of one open document that are not known to be in its file."""

    def __init__(self) -> None:
        self._calls: deque[_UnsavedCall] = deque()
        self._bytes = 0
        self._forgot: set[str] = set()

    def note(self, mark: int, view: LiveNotebook | TextDocument) -> list[Noted]:
        """Remember what was edited since the last time, and return it. `mark` is how many changes the room has by now."""
        if isinstance(view, TextDocument):
            authors = view.take_authors()
            for author in authors:
                self._add(mark, author, {WHOLE_TEXT: Wanted({"source": view.text})}, more=False)
            return [(author, frozenset({WHOLE_TEXT})) for author in authors]
        all_touched = view.history.take_touched()
        for touched in all_touched:
            ids = list(touched.ids)
            cells = {cell_id: _wanted(view, cell_id, touched) for cell_id in ids[:MOST_CELLS]}
            self._add(mark, touched.author, cells, more=len(ids) > MOST_CELLS)
        return [(touched.author, touched.ids) for touched in all_touched]

    def _add(self, mark: int, author: str, cells: Mapping[str, Wanted], *, more: bool) -> None:
        size = sum(_bytes(wanted) for wanted in cells.values())
        self._calls.append(_UnsavedCall(mark, author, cells, more, size))
        self._bytes += size
        while len(self._calls) > MOST_CALLS or self._bytes > MOST_BYTES:
            self._forgot.add(self._drop_oldest().author)

    def _drop_oldest(self) -> _UnsavedCall:
        oldest = self._calls.popleft()
        self._bytes -= oldest.weight
        return oldest

    def confirm(self, mark: int) -> None:
        """Forget the edits that are in the file now."""
        while self._calls and self._calls[0].mark <= mark:
            self._drop_oldest()
        if not self._calls:
            self._forgot.clear()

    def of_authors(self) -> dict[str, AuthorsEdits]:
        edits: dict[str, AuthorsEdits] = {author: AuthorsEdits(more=True) for author in self._forgot}
        latest = {cell_id: call.author for call in self._calls for cell_id in call.cells}
        for call in self._calls:
            wanted = edits.setdefault(call.author, AuthorsEdits())
            # Where two authors edited the same cell, what it is at last is the later one's.
            for cell_id, cell in call.cells.items():
                if latest[cell_id] == call.author:
                    earlier = wanted.cells.get(cell_id)
                    wanted.cells[cell_id] = cell if earlier is None else _both(earlier, cell)
            wanted.more = wanted.more or call.more
        return edits


def _both(earlier: Wanted, later: Wanted) -> Wanted:
    """What the author wants of a cell after both of these edits."""
    return replace(
        later,
        before=later.before if earlier.before is None else earlier.before,
        moved=earlier.moved or later.moved,
        marked=earlier.marked | later.marked,
        retyped=earlier.retyped or later.retyped,
    )


class LostEdits:
    """What was lost of the documents of a workspace, until its authors were told and made it again."""

    def __init__(self) -> None:
        self._by_path: dict[str, dict[str, AuthorsEdits]] = {}

    def suspect(self, path: str, unsaved: UnsavedEdits) -> None:
        """The document was left or lost with these edits not in its file: `compare` finds out when it is opened again."""
        edits = unsaved.of_authors()
        if not edits:
            return
        earlier = self._by_path.pop(path, {})
        for author, wanted in edits.items():
            known = earlier.setdefault(author, AuthorsEdits())
            known.cells |= wanted.cells
            known.more, known.told = known.more or wanted.more, False
        self._by_path[path] = earlier
        if len(self._by_path) > MOST_DOCUMENTS:
            del self._by_path[next(iter(self._by_path))]

    def compare(self, path: str, view: LiveNotebook | TextDocument) -> None:
        """Keep of the suspected edits those that the document really has not."""
        authors = self._by_path.get(path)
        if authors is None:
            return
        for author, edits in tuple(authors.items()):
            if not edits.told:
                edits.cells = {
                    cell_id: wanted for cell_id, wanted in edits.cells.items() if _is_lost(view, cell_id, wanted)
                }
                edits.diff = _missing(view, edits.cells) if isinstance(view, TextDocument) else ""
            if not edits.cells and not edits.more:
                del authors[author]
        if not authors:
            del self._by_path[path]

    def news(self, path: str, author: str) -> str:
        """Which edits of this author are gone from the document, told once; nothing if none are."""
        edits = self._by_path.get(path, {}).get(author)
        if edits is None or edits.told or not (edits.cells or edits.more):
            return ""
        edits.told = True
        if WHOLE_TEXT in edits.cells:
            return f"your last edits of {path} are gone: {REASON}. Read it and make them again. With them it would differ so:\n{edits.diff}"
        if not edits.cells:
            return f"some of your last edits of {path} may be gone: {REASON}. Read it and compare"
        more = ", and perhaps more" if edits.more else ""
        return (
            f"your last edits of {path} are gone: {REASON}. Lost: {_named(edits.cells)}{more}. "
            "undo_nb_edit with again: true makes them again"
        )

    def holds(self, path: str, noted: Iterable[Noted]) -> bool:
        """Whether one of these edits is known to be lost."""
        authors = self._by_path.get(path, {})
        return any(author in authors and not ids.isdisjoint(authors[author].cells) for author, ids in noted)

    def make_again(self, path: str, view: LiveNotebook, author: str) -> list[str]:
        """Make an author's lost edits again, on the notebook as it is now. Returns the ids of their cells."""
        edits = self._by_path.get(path, {}).get(author)
        lost = {} if edits is None else {i: w for i, w in edits.cells.items() if _is_lost(view, i, w)}
        if not lost:
            raise NotFound(
                "no edit of yours in this notebook is known to be lost",
                hint="without again, undo_nb_edit takes one back",
            )
        for cell_id, wanted in lost.items():
            _check_fits(view, cell_id, wanted)
        for cell_id, wanted in lost.items():
            _make_again(view, cell_id, wanted, author)
        del self._by_path[path][author]
        return list(lost)


REASON = "Jupyter ended before it saved them, or another program wrote the file"


def _missing(view: TextDocument, edits: Mapping[str, Wanted]) -> str:
    """What the author's text has that the document has not."""
    wanted = edits.get(WHOLE_TEXT)
    return text_diff(view.text, str(wanted.cell["source"])) if wanted is not None and wanted.cell is not None else ""


def _wanted(view: LiveNotebook, cell_id: str, touched: TouchedCells) -> Wanted:
    try:
        index = view.index_of(cell_id)
    except CellwrightError:
        return Wanted(None, before=touched.before.get(cell_id))
    head = view.head(index)
    cell: JsonObject = {
        "id": cell_id,
        "cell_type": str(head.cell_type),
        "source": head.source,
        "metadata": _metadata(view, cell_id),
    }
    return Wanted(
        cell,
        view.ids[index - 1] if index else None,
        cell_id in touched.moved,
        touched.before.get(cell_id),
        touched.marked.get(cell_id, frozenset()),
        cell_id in touched.retyped,
    )


def _bytes(wanted: Wanted) -> int:
    """About how much memory it takes."""
    cell = wanted.cell or {}
    metadata = cell.get("metadata")
    return CELL_BYTES + 4 * len(str(cell.get("source", ""))) + (weight(metadata) if metadata else 0)


def _metadata(view: LiveNotebook, cell_id: str) -> JsonObject:
    metadata = dict(metadata_of(view.shared_cell(cell_id)))
    metadata.pop(TRUSTED, None)
    return metadata


def _is_lost(view: LiveNotebook | TextDocument, cell_id: str, wanted: Wanted) -> bool:
    if isinstance(view, TextDocument):
        return wanted.cell is not None and view.text != wanted.cell["source"]
    present = cell_id in view.ids
    if wanted.cell is None:
        return present
    if not present:
        # Files of older formats keep no ids: there a cell is known by its text.
        heads = view.outline() if not view.ids_are_stable else []
        return not any(head.source == wanted.cell["source"] for head in heads)
    if cell_id in view.duplicate_ids:
        return False
    return _lacks(view, view.index_of(cell_id), wanted, wanted.cell)


def _lacks(view: LiveNotebook, index: int, wanted: Wanted, cell: JsonObject) -> bool:
    """Whether the cell at this index has not all that its author changed. What others wrote in it is no part of that."""
    head = view.head(index)
    return (
        (wanted.before is not None and head.source != cell["source"])
        or (wanted.retyped and str(head.cell_type) != cell["cell_type"])
        or bool(_entries_to_set(view, head.id, cell, wanted.marked))
        or (wanted.moved and wanted.after != (view.ids[index - 1] if index else None))
    )


def _check_fits(view: LiveNotebook, cell_id: str, wanted: Wanted) -> None:
    """Raise, before anything is changed, if the edit does not fit the cell as somebody else wrote it since."""
    if not view.has(cell_id):
        return
    index = view.index_of(cell_id)
    now = view.head(index).source
    if wanted.cell is not None:
        view.text_of(index)
    fits = (
        wanted.before in (None, now)
        if wanted.cell is None
        else wanted.before is None or merged_text(wanted.before, str(wanted.cell["source"]), now) is not None
    )
    if not fits:
        raise Conflict(
            f"somebody else changed cell {cell_id} at the place of your lost edit; nothing was made again",
            details={"cell_id": cell_id, "diff": difference(wanted.before, now)},
            hint="read the notebook and make the edits by hand",
        )


def _make_again(view: LiveNotebook, cell_id: str, wanted: Wanted, author: str) -> None:
    cell = wanted.cell
    if cell is None:
        view.delete([by_id(cell_id)], author=author)
        return
    if cell_id not in view.ids:
        _insert_again(view, cell, _place(view, wanted), author)
        return
    entries = _entries_to_set(view, cell_id, cell, wanted.marked)
    kind = Kind(str(cell["cell_type"])) if wanted.retyped else None
    source = None if wanted.before is None else str(cell["source"])
    seen = None if wanted.before is None else view.remember_text(wanted.before)
    if source is not None or kind is not None or entries:
        view.replace([SourceChange(by_id(cell_id), source, kind, None, entries or None, seen=seen)], author=author)
    if wanted.moved:
        view.move([by_id(cell_id)], _place(view, wanted), author=author)


def _entries_to_set(view: LiveNotebook, cell_id: str, cell: JsonObject, marked: Collection[str]) -> JsonObject:
    """Of these entries of its metadata, those that the cell has not as in `cell`; None stands for one that is to go."""
    now, wanted = _metadata(view, cell_id) if marked else {}, cell["metadata"]
    return {key: wanted.get(key) for key in marked if key != TRUSTED and now.get(key) != wanted.get(key)}


def _place(view: LiveNotebook, wanted: Wanted) -> int:
    """The index after the cell that it followed; the end if that is gone."""
    if wanted.after is None:
        return 0
    return view.index_of(wanted.after) + 1 if wanted.after in view.ids else view.cell_count


def _insert_again(view: LiveNotebook, cell: JsonObject, index: int, author: str) -> None:
    parts: JsonObject = {"outputs": [], "execution_count": None} if cell["cell_type"] == Kind.CODE else {}
    with view.doc.transaction(origin=author):
        view.put(index, [{**cell, **parts}])
    view.history.add(author, "insert 1 cell again", [Inserted(((str(cell["id"]), str(cell["source"])),))])


def _named(cells: Mapping[str, Wanted]) -> str:
    """The cells by id, and what was done with them."""
    removed = [cell_id for cell_id, wanted in cells.items() if wanted.cell is None]
    kept = [cell_id for cell_id in cells if cell_id not in removed]
    parts = [
        f"{counted(len(ids), what)} ({', '.join(ids[:NAMED])}{', …' if len(ids) > NAMED else ''})"
        for ids, what in ((kept, "cell"), (removed, "removal"))
        if ids
    ]
    return ", ".join(parts)
