"""A notebook in a shared document, changed by the least that says what is meant.

Nothing here waits: a change is resolved, checked and applied in one step, so that no index can go stale in between. Who calls
must then see to it that the change is acknowledged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pycrdt import Array, Doc, Map

from cellwright.core.errors import InvalidArgument
from cellwright.jupyter.guards import check_found, check_idle, check_revision
from cellwright.jupyter.history import Cleared, History, Inserted, Moved, Place, Removed, Retyped, Rewritten, Step
from cellwright.jupyter.model import CellHead, CellType, JsonObject, NewCell
from cellwright.jupyter.ranges import CellRange, insert_position, resolve_each
from cellwright.jupyter.reading import STABLE_IDS, ReadableNotebook
from cellwright.jupyter.textdiff import Change, apply, set_text
from cellwright.jupyter.ycells import YCell, checked_source, new_cell_json, new_id, to_json, to_ycell

AGENT = "agent"


@dataclass(frozen=True, slots=True)
class SourceChange:
    """The cells of `range` get this source, and this type if one is given. `expect` is the revision the caller saw."""

    range: CellRange
    source: str
    cell_type: CellType | None = None
    expect: str | None = None


class Notebook(ReadableNotebook):
    """A notebook that can be changed; every change is remembered for its author's undo."""

    def __init__(self, doc: Doc[Any], name: str = "the notebook", history: History | None = None) -> None:
        super().__init__(doc, name)
        self.history = history if history is not None else History()

    def insert(self, position: int, cells: Sequence[NewCell], *, author: str = AGENT) -> list[str]:
        """New cells before the cell at `position`; -1 appends. Their ids."""
        place = insert_position(self.cell_count, position)
        made = self._new(cells)
        with self.doc.transaction(origin=author):
            self.put(place, made)
        self.history.add(author, f"insert {len(made)} cells", [_inserted(made)] if made else [])
        return self._note_touched([str(cell["id"]) for cell in made])

    def insert_after(self, cell_id: str, cells: Sequence[NewCell], *, author: str = AGENT) -> list[str]:
        return self.insert(self.index_of(cell_id) + 1, cells, author=author)

    def replace(self, changes: Sequence[SourceChange], *, author: str = AGENT) -> list[str]:
        """New sources for cells, each by the smallest difference. The ids of all cells named."""
        resolved = resolve_each(self._index, [change.range for change in changes])
        planned = list(zip(changes, resolved, strict=True))
        for change, indexes in planned:
            checked_source(change.source)
            self._check(indexes, change.expect)
            for index in indexes:
                self.text_of(index)
            if change.cell_type is not None:
                self._check_idle(indexes)
        steps: list[Step] = []
        with self.doc.transaction(origin=author):
            for change, indexes in planned:
                for index in indexes:
                    steps += self._replace_one(index, change)
        self.history.add(author, f"change {len(steps)} cells", steps)
        return self._note_touched([self.id_at(index) for _, indexes in planned for index in indexes])

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
        found = _occurrences(source, old)
        check_found(self._index.head(index), old, found, every=every)
        made = [Change(start, start + len(old), new) for start in found]
        with self.doc.transaction(origin=author):
            apply(self.text_of(index), source, made)
        after = source.replace(old, new)
        self._note_touched([self._index.ids[index]])
        self.history.add(author, "edit a cell", [Rewritten(self._index.ids[index], source, after)])
        return len(found)

    def delete(
        self, ranges: Sequence[CellRange], *, expect: Mapping[str, str] | None = None, author: str = AGENT
    ) -> list[str]:
        """Remove cells. `expect` gives revisions by cell id. The ids of what was removed."""
        indexes = self.resolve(ranges)
        self._check_each(indexes, expect)
        gone = [self._index.ids[index] for index in indexes]
        step = Removed(tuple((self._place(index), to_json(self._index.shared(index))) for index in indexes))
        with self.doc.transaction(origin=author):
            self.remove(indexes)
        self.history.add(author, f"delete {len(gone)} cells", [step] if gone else [])
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
        self._check_each(indexes, expect)
        self._check_idle(indexes)
        moved = [self._movable(index) for index in indexes]
        origins = tuple((str(cell["id"]), self._place(index)) for cell, index in zip(moved, indexes, strict=True))
        place -= sum(1 for index in indexes if index < place)
        in_place = indexes == list(range(place, place + len(indexes)))
        if in_place and all(self.is_proper(index) for index in indexes):
            return [cell_id for cell_id, _ in origins]
        with self.doc.transaction(origin=author):
            self.remove(indexes)
            self.put(place, moved)
        self.history.add(author, f"move {len(moved)} cells", [Moved(origins)] if moved else [])
        return self._note_touched([cell_id for cell_id, _ in origins])

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
        self._check_each(named, expect)
        indexes = [index for index in named if self.head(index).cell_type != cell_type]
        self._check_idle(indexes)
        changed = [self._index.ids[index] for index in indexes]
        with self.doc.transaction(origin=author):
            steps = [self._retype(index, cell_type, self.head(index).source) for index in indexes]
        self.history.add(author, f"change the type of {len(steps)} cells", steps)
        return self._note_touched(changed)

    def clear_outputs(
        self,
        ranges: Sequence[CellRange] | None = None,
        *,
        expect: Mapping[str, str] | None = None,
        author: str = AGENT,
    ) -> list[str]:
        """Empty the outputs of code cells; of all if no ranges are given. The ids of cells that had any."""
        indexes = range(self.cell_count) if ranges is None else self.resolve(ranges)
        self._check_each(indexes, expect)
        steps: list[Step] = []
        with self.doc.transaction(origin=author):
            for index in indexes:
                head = self._index.head(index)
                if head.cell_type == CellType.CODE and (head.output_count or head.execution_count is not None):
                    steps.append(self._clear(index, head))
        self.history.add(author, f"clear the outputs of {len(steps)} cells", steps)
        return [step.cell_id for step in steps if isinstance(step, Cleared)]

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
                for index in shared:
                    self.shared_at(index)["id"] = new_id(self._index.ids)
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
        for index in reversed(indexes):
            del self._cells[index]

    def fill(self, content: JsonObject) -> None:
        """All of a notebook that was read as JSON, into a document that is empty."""
        with self.doc.transaction(origin="load"):
            self._meta["nbformat"] = content.get("nbformat", 4)
            self._meta["nbformat_minor"] = content.get("nbformat_minor", 0)
            self._meta["metadata"] = Map(dict(content.get("metadata") or {}))
            # From the end, each before the first: appending to a shared array costs more the longer it is.
            for cell in reversed(content.get("cells") or []):
                self._cells.insert(0, to_ycell(cell))

    def _note_touched(self, ids: list[str]) -> list[str]:
        self._touched = ids[-1] if ids else self._touched
        return ids

    def _new(self, cells: Sequence[NewCell]) -> list[JsonObject]:
        taken = set(self._index.ids)
        made: list[JsonObject] = []
        for cell in cells:
            made.append(new_cell_json(cell, taken))
            taken.add(str(made[-1]["id"]))
        return made

    def _place(self, index: int) -> Place:
        return Place(self._index.ids[index - 1] if index > 0 else None, index)

    def _check(self, indexes: Sequence[int], expect: str | None) -> None:
        if expect is None:
            return
        if len(indexes) != 1:
            raise InvalidArgument("`expect` is the revision of one cell", hint="Name one cell per change")
        self._check_revision(indexes[0], expect)

    def _check_each(self, indexes: Sequence[int], expect: Mapping[str, str] | None) -> None:
        named = {self._index.ids[index] for index in indexes}
        for cell_id in expect or {}:
            if cell_id not in named:
                raise InvalidArgument(f"`expect` names cell {cell_id}, which the ranges do not")
        for index in indexes if expect else ():
            if (revision := (expect or {}).get(self._index.ids[index])) is not None:
                self._check_revision(index, revision)

    def _check_revision(self, index: int, expect: str) -> None:
        check_revision(index, self._index.head(index), expect, self._seen.get(expect))

    def _check_idle(self, indexes: Sequence[int]) -> None:
        check_idle((index, self._index.head(index)) for index in indexes)

    def _movable(self, index: int) -> JsonObject:
        """The cell as JSON, with an id even if it had none."""
        cell = to_json(self._index.shared(index))
        return {**cell, "id": self._index.ids[index] or new_id(self._index.ids)}

    def _replace_one(self, index: int, change: SourceChange) -> list[Step]:
        head = self._index.head(index)
        if change.cell_type is not None and head.cell_type != change.cell_type:
            return [self._retype(index, change.cell_type, change.source)]
        if head.source == change.source:
            return []
        set_text(self.text_of(index), change.source)
        return [Rewritten(head.id, head.source, change.source)]

    def _retype(self, index: int, cell_type: CellType, source: str) -> Retyped:
        """Another type needs another cell: JupyterLab does not follow a type that changes in place."""
        before = to_json(self._index.shared(index))
        kept = {key: before[key] for key in ("id", "metadata") if key in before}
        self.put_over(index, {**kept, "cell_type": cell_type.value, "source": source})
        return Retyped(str(before.get("id", "")), before, source)

    def _clear(self, index: int, head: CellHead) -> Cleared:
        cell = self.shared_at(index)
        outputs = cell.get("outputs")
        step = Cleared(head.id, tuple(to_json(cell).get("outputs") or ()), head.execution_count)
        if isinstance(outputs, Array):
            # Never a new array: people's JupyterLab would stay with the old one.
            cast("Array[Any]", outputs).clear()
        cell["execution_count"] = None
        return step


def _inserted(made: Sequence[JsonObject]) -> Inserted:
    return Inserted(tuple((str(cell["id"]), str(cell["source"])) for cell in made))


def _occurrences(source: str, old: str) -> list[int]:
    found: list[int] = []
    start = source.find(old) if old else -1
    while start >= 0:
        found.append(start)
        start = source.find(old, start + len(old))
    return found
