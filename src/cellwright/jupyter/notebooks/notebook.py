"""A notebook in a shared document, changed by the least that says what is meant.

Nothing here waits: a change is resolved, checked and applied in one step, so that no index can go stale in between. Who calls
must then see to it that the change is acknowledged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pycrdt import Array, Doc, Map

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.counting import counted
from cellwright.jupyter.edits.history import (
    CellPlace,
    Cleared,
    History,
    Inserted,
    Moved,
    Remarked,
    Removed,
    Retyped,
    Rewritten,
    Step,
)
from cellwright.jupyter.model import CellType, JsonObject, NewCell
from cellwright.jupyter.notebooks.cellmetadata import TRUSTED, checked_entries, put_entries, with_entries
from cellwright.jupyter.notebooks.cells import YCell, checked_source, new_cell_json, new_id, to_ycell
from cellwright.jupyter.notebooks.guards import (
    check_changed,
    check_count,
    check_found,
    check_growth,
    check_idle,
    check_places,
    check_revision,
)
from cellwright.jupyter.notebooks.reading import STABLE_IDS, ReadableNotebook
from cellwright.notebook.addressing import CellRange, insert_position, resolve_each, runs_of
from cellwright.notebook.lineends import ShownText
from cellwright.notebook.textdiff import TextChange, apply, changed_text

AGENT = "agent"


@dataclass(frozen=True, slots=True)
class SourceChange:
    """The cells of `range` get this source, type and metadata, each as far as it is given. `expect` is the revision the caller saw."""

    range: CellRange
    source: str | None = None
    cell_type: CellType | None = None
    expect: str | None = None
    metadata: Mapping[str, object] | None = None
    """Entries to set; None takes one away. Others stay."""


class LiveNotebook(ReadableNotebook):
    """A notebook that can be changed; every change is remembered for its author's undo."""

    def __init__(self, doc: Doc[Any], name: str = "the notebook", history: History | None = None) -> None:
        super().__init__(doc, name)
        self.history = history if history is not None else History()

    def insert(self, position: int, cells: Sequence[NewCell], *, author: str = AGENT) -> list[str]:
        """New cells before the cell at `position`; -1 appends. Their ids."""
        place = insert_position(self.cell_count, position)
        check_count(len(cells))
        made = self._new(cells)
        with self.doc.transaction(origin=author):
            self.put(place, made)
        self.history.add(author, f"insert {counted(len(made), 'cell')}", [_inserted(made)] if made else [])
        return self.note_touched([str(cell["id"]) for cell in made])

    def insert_after(self, cell_id: str, cells: Sequence[NewCell], *, author: str = AGENT) -> list[str]:
        return self.insert(self.index_of(cell_id) + 1, cells, author=author)

    def replace(self, changes: Sequence[SourceChange], *, author: str = AGENT) -> list[str]:
        """New sources, types or metadata for cells, each by the smallest difference. The ids of all cells named."""
        resolved = resolve_each(self._index, [change.range for change in changes])
        planned = list(zip(changes, resolved, strict=True))
        check_changed(sum(map(len, resolved)))
        for change, indexes in planned:
            checked_source(change.source or "")
            checked_entries(change.metadata or {})
            self._check(indexes, change.expect)
            for index in indexes:
                self.text_of(index)
            if change.cell_type is not None:
                self.check_idle(index for index in indexes if self.head(index).cell_type != change.cell_type)
        steps: list[Step] = []
        with self.doc.transaction(origin=author):
            for change, indexes in planned:
                for index in indexes:
                    steps += self._replace_one(index, change)
        self.history.add(author, f"change {counted(len(steps), 'cell')}", steps)
        return self.note_touched([self.id_at(index) for _, indexes in planned for index in indexes])

    def edit(
        self,
        which: CellRange,
        old: str,
        new: str,
        *,
        every: bool = False,
        expect: str | None = None,
        author: str = AGENT,
    ) -> int:
        """Replace the literal text `old` in one cell; it must occur once, unless `every`. How often it was replaced."""
        index = self._one(which)
        self._check([index], expect)
        checked_source(new)
        source = self.head(index).source
        made = replacements(source, old, new)
        found = [change.start for change in made]
        check_found(self._index.head(index), old, found, every=every)
        with self.doc.transaction(origin=author):
            apply(self.text_of(index), source, made)
        after = changed_text(source, made)
        self.note_touched([self._index.ids[index]])
        self.history.add(author, "edit a cell", [Rewritten(self._index.ids[index], source, after)])
        return len(found)

    def delete(
        self, ranges: Sequence[CellRange], *, expect: Mapping[str, str] | None = None, author: str = AGENT
    ) -> list[str]:
        """Remove cells. `expect` gives revisions by cell id. The ids of what was removed."""
        indexes = self.resolve(ranges)
        check_changed(len(indexes))
        self.check_revisions(indexes, expect)
        gone = [self._index.ids[index] for index in indexes]
        step = Removed(tuple((self._place(index), self.json_at(index)) for index in indexes))
        with self.doc.transaction(origin=author):
            self.remove(indexes)
        self.history.add(author, f"delete {counted(len(gone), 'cell')}", [step] if gone else [])
        return gone

    def move(
        self,
        ranges: Sequence[CellRange],
        position: int,
        *,
        expect: Mapping[str, str] | None = None,
        author: str = AGENT,
    ) -> list[str]:
        """Put cells, in their order, before the cell that is now at `position`; -1 means the end. Their ids."""
        indexes = self.resolve(ranges)
        place = insert_position(self.cell_count, position)
        check_count(len(indexes))
        self.check_revisions(indexes, expect)
        self.check_idle(indexes)
        moved = [self._movable(index) for index in indexes]
        origins = tuple((str(cell["id"]), self._place(index)) for cell, index in zip(moved, indexes, strict=True))
        place -= sum(1 for index in indexes if index < place)
        in_place = indexes == list(range(place, place + len(indexes)))
        if in_place and all(self.is_proper(index) for index in indexes):
            return [cell_id for cell_id, _ in origins]
        with self.doc.transaction(origin=author):
            self.remove(indexes)
            self.put(place, moved)
        self.history.add(author, f"move {counted(len(moved), 'cell')}", [Moved(origins)] if moved else [])
        return self.note_touched([cell_id for cell_id, _ in origins])

    def set_type(
        self,
        ranges: Sequence[CellRange],
        cell_type: CellType,
        *,
        expect: Mapping[str, str] | None = None,
        author: str = AGENT,
    ) -> list[str]:
        """Make cells code, markdown or raw. Outputs of cells that were code go. The ids of what changed."""
        named = self.resolve(ranges)
        check_changed(len(named))
        self.check_revisions(named, expect)
        indexes = [index for index in named if self.head(index).cell_type != cell_type]
        self.check_idle(indexes)
        changed = [self._index.ids[index] for index in indexes]
        with self.doc.transaction(origin=author):
            steps = [self._retype(index, cell_type, self.head(index).source) for index in indexes]
        self.history.add(author, f"change the type of {counted(len(steps), 'cell')}", steps)
        return self.note_touched(changed)

    def clear_outputs(
        self,
        ranges: Sequence[CellRange] | None = None,
        *,
        expect: Mapping[str, str] | None = None,
        author: str = AGENT,
    ) -> list[str]:
        """Empty the outputs of code cells; of all if no ranges are given. The ids of cells that had any."""
        indexes = range(self.cell_count) if ranges is None else self.resolve(ranges)
        self.check_revisions(indexes, expect)
        full = [(index, step) for index in indexes if (step := self.outputs_at(index)) is not None]
        with self.doc.transaction(origin=author):
            self.clear_at([index for index, _ in full])
        self.history.add(author, f"clear the outputs of {counted(len(full), 'cell')}", [step for _, step in full])
        return [step.cell_id for _, step in full]

    def outputs_at(self, index: int) -> Cleared | None:
        """The outputs of a code cell as undo keeps them; None if it has none and never ran."""
        head = self._index.head(index)
        if head.cell_type != CellType.CODE or not (head.output_count or head.execution_count is not None):
            return None
        return Cleared(head.id, tuple(self.json_at(index).get("outputs") or ()), head.execution_count)

    def clear_at(self, indexes: Iterable[int]) -> None:
        """Empty the outputs of cells. Call inside a transaction."""
        for index in indexes:
            cell = self.shared_at(index)
            outputs = cell.get("outputs")
            if isinstance(outputs, Array):
                # Never a new array: people's JupyterLab would stay with the old one.
                cast("Array[Any]", outputs).clear()
            if "execution_count" in cell:
                cell["execution_count"] = None

    def set_metadata(self, key: str, value: object, *, author: str = AGENT) -> None:
        """One entry of the notebook's metadata, for instance `kernelspec`."""
        with self.doc.transaction(origin=author):
            found = self._meta.get("metadata")
            if isinstance(found, Map):
                cast("YCell", found)[key] = value
            else:
                self._meta["metadata"] = Map({**self.metadata, key: value})

    def keep_ids(self, *, author: str = AGENT) -> bool:
        """Make the file keep cell ids, by raising its format to 4.5. False if it does so already."""
        if self.format >= STABLE_IDS:
            return False
        with self.doc.transaction(origin=author):
            self._meta["nbformat"] = 4.0
            self._meta["nbformat_minor"] = 5.0
        return True

    def own_ids(self, indexes: Sequence[int], *, author: str = AGENT) -> list[str]:
        """The ids of these cells, after each that has none, or one that other cells have too, got its own."""
        shared = [index for index in indexes if not self.have_own_ids([index])]
        if shared:
            with self.doc.transaction(origin=author):
                taken = set(self._index.ids)
                for index in shared:
                    made = self.shared_at(index)["id"] = new_id(taken)
                    taken.add(made)
        return [self.id_at(index) for index in indexes]

    def put(self, place: int, cells: Iterable[object]) -> None:
        """Cells as JSON, with the ids they have, before an index. Call inside a transaction."""
        self._cells[place:place] = [to_ycell(cell) for cell in cells]

    def put_over(self, index: int, cell: JsonObject) -> None:
        """A cell as JSON in the place of another. Call inside a transaction."""
        self._cells[index] = to_ycell(cell)

    def remove(self, indexes: Sequence[int]) -> None:
        """Cells by ascending index. Call inside a transaction."""
        # From the end: what is removed must not move what is still to be removed.
        for start, end in reversed(runs_of(indexes)):
            del self._cells[start:end]

    def fill(self, content: JsonObject) -> None:
        """All of a notebook that was read as JSON, into a document that is empty."""
        with self.doc.transaction(origin="load"):
            self._meta["nbformat"] = content.get("nbformat", 4)
            self._meta["nbformat_minor"] = content.get("nbformat_minor", 0)
            self._meta["metadata"] = Map(dict(content.get("metadata") or {}))
            # From the end, each before the first: appending to a shared array costs more the longer it is.
            for cell in reversed(content.get("cells") or []):
                self._cells.insert(0, to_ycell(cell))

    def note_touched(self, ids: list[str]) -> list[str]:
        """Remember where the agent works, for people to see."""
        self._touched = ids[-1] if ids else self._touched
        return ids

    def _new(self, cells: Sequence[NewCell]) -> list[JsonObject]:
        taken = set(self._index.ids)
        made: list[JsonObject] = []
        for cell in cells:
            made.append(new_cell_json(cell, taken))
            taken.add(str(made[-1]["id"]))
        return made

    def _place(self, index: int) -> CellPlace:
        return CellPlace(self._index.ids[index - 1] if index > 0 else None, index)

    def _check(self, indexes: Sequence[int], expect: str | None) -> None:
        if expect is None:
            return
        if len(indexes) != 1:
            raise InvalidArgument("`expect` is the revision of one cell", hint="Name one cell per change")
        self._check_revision(indexes[0], expect)

    def check_revisions(self, indexes: Sequence[int], expect: Mapping[str, str] | None) -> None:
        """Raise if one of these cells is not as the caller saw it. `expect` gives revisions by cell id."""
        named = {self._index.ids[index] for index in indexes}
        for cell_id in expect or {}:
            if cell_id not in named:
                raise InvalidArgument(
                    f"`expect` names cell {cell_id}, which the ranges do not",
                    hint="name the same cells in ranges and in expect",
                )
        for index in indexes if expect else ():
            if (revision := (expect or {}).get(self._index.ids[index])) is not None:
                self._check_revision(index, revision)

    def _check_revision(self, index: int, expect: str) -> None:
        check_revision(index, self._index.head(index), expect, self._seen.get(expect))

    def check_idle(self, indexes: Iterable[int]) -> None:
        """Raise if one of these cells is running."""
        check_idle((index, self._index.head(index)) for index in indexes)

    def _movable(self, index: int) -> JsonObject:
        """The cell as JSON, with an id even if it had none."""
        cell = self.json_at(index)
        return {**cell, "id": self._index.ids[index] or new_id(self._index.ids)}

    def _replace_one(self, index: int, change: SourceChange) -> list[Step]:
        head = self._index.head(index)
        made = [] if change.source is None else ShownText(head.source).changes_to(change.source)
        source = changed_text(head.source, made)
        if change.cell_type is not None and head.cell_type != change.cell_type:
            return [self._retype(index, change.cell_type, source, change.metadata or {})]
        steps: list[Step] = []
        if made:
            apply(self.text_of(index), head.source, made)
            steps.append(Rewritten(head.id, head.source, source))
        if before := put_entries(self.shared_at(index), change.metadata or {}):
            steps.append(Remarked(head.id, before, {key: (change.metadata or {})[key] for key in before}))
        return steps

    def _retype(
        self, index: int, cell_type: CellType, source: str, metadata: Mapping[str, object] | None = None
    ) -> Retyped:
        """Another type needs another cell: JupyterLab does not follow a type that changes in place."""
        before = self.json_at(index)
        self.put_over(index, retyped(before, cell_type, source, metadata or {}))
        return Retyped(str(before.get("id", "")), before, source)


def _inserted(made: Sequence[JsonObject]) -> Inserted:
    return Inserted(tuple((str(cell["id"]), str(cell["source"])) for cell in made))


def retyped(cell: JsonObject, cell_type: str, source: str, metadata: Mapping[str, object]) -> JsonObject:
    """The cell as one of another type, as JupyterLab makes it: without outputs, and with attachments only where they can be."""
    # Trust is for outputs: a new code cell has none that somebody else made, and other cells never have any.
    trust = {TRUSTED: True if cell_type == CellType.CODE else None}
    kept: JsonObject = {"id": cell["id"]} if "id" in cell else {}
    if cell_type != CellType.CODE and cell.get("attachments"):
        kept["attachments"] = cell["attachments"]
    entries = with_entries(cell.get("metadata") or {}, {**metadata, **trust})
    return {**kept, "cell_type": str(cell_type), "source": source, "metadata": entries}


def replacements(source: str, old: str, new: str) -> list[TextChange]:
    r"""All places of `old`, with `new` in them: first as it stands, then as agents see it, who are shown \r\n as a newline."""
    text = ShownText(source)
    if places := _occurrences(source, old):
        check_growth(source, len(places), len(new) - len(old))
        words = text.adapted(new)
        return [TextChange(start, start + len(old), words) for start in places]
    wanted = old.replace("\r\n", "\n")
    places = _occurrences(text.shown, wanted) if text.shown != source else []
    check_growth(source, len(places), len(new) - len(old))
    return text.real_changes([TextChange(start, start + len(wanted), new) for start in places])


def _occurrences(source: str, old: str) -> list[int]:
    found: list[int] = []
    start = source.find(old) if old else -1
    while start >= 0:
        found.append(start)
        check_places(len(found))
        start = source.find(old, start + len(old))
    return found
