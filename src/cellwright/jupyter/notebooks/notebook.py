"""A notebook in a shared document, changed by the smallest difference.

Nothing here waits: a change is resolved, checked and applied in one step, so that no index can go stale in between. The caller
must then wait until the change is acknowledged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pycrdt import Array, Doc, Map

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.counting import counted
from cellwright.jupyter.edits.finding import replacements, replacements_as_seen
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
    landing,
    rest_of,
)
from cellwright.jupyter.model import JsonObject, NewCell
from cellwright.jupyter.notebooks.cellmetadata import TRUSTED, checked_entries, put_entries, with_entries
from cellwright.jupyter.notebooks.cells import YCell, checked_source, new_cell_json, new_id, to_ycell
from cellwright.jupyter.notebooks.guards import (
    check_changed,
    check_count,
    check_idle,
    check_occurrences,
    check_revision,
)
from cellwright.jupyter.notebooks.reading import STABLE_IDS, ReadableNotebook
from cellwright.notebook.addressing import CellRange, insert_position, resolve_each, runs_of
from cellwright.notebook.lineends import ShownText
from cellwright.notebook.merging import merged_text
from cellwright.notebook.model import Kind
from cellwright.notebook.textdiff import TextChange, apply, changed_text

AGENT = "agent"


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A new source, type or metadata for the cells of `range`; None changes nothing. `expect` is the revision the caller saw."""

    range: CellRange
    source: str | None = None
    cell_type: Kind | None = None
    expect: str | None = None
    metadata: Mapping[str, object] | None = None
    """Entries to set; None takes one away. Others stay."""
    seen: str | None = None
    """The revision that the caller was shown: what somebody else changed since is merged with `source`, or refuses it."""


class LiveNotebook(ReadableNotebook):
    """A notebook that can be changed; every change is remembered for its author's undo."""

    def __init__(self, doc: Doc[Any], name: str = "the notebook", history: History | None = None) -> None:
        super().__init__(doc, name)
        self.history = history if history is not None else History()

    def insert(self, position: int, cells: Sequence[NewCell], *, author: str = AGENT) -> list[str]:
        """Insert cells before the cell at `position`; -1 appends. Returns their ids."""
        index = insert_position(self.cell_count, position)
        check_count(len(cells))
        new_cells = self._new_cells_json(cells)
        with self.doc.transaction(origin=author):
            self.put(index, new_cells)
        step = Inserted(tuple((str(cell["id"]), str(cell["source"])) for cell in new_cells))
        self.history.add(author, f"insert {counted(len(new_cells), 'cell')}", [step] if new_cells else [])
        return self.note_touched([str(cell["id"]) for cell in new_cells])

    def insert_after(self, cell_id: str, cells: Sequence[NewCell], *, author: str = AGENT) -> list[str]:
        return self.insert(self.index_of(cell_id) + 1, cells, author=author)

    def replace(self, changes: Sequence[SourceChange], *, author: str = AGENT) -> list[str]:
        """Change sources, types or metadata of cells, by the smallest difference. Returns the ids of all cells in the ranges."""
        resolved = resolve_each(self._index, [change.range for change in changes])
        planned = list(zip(changes, resolved, strict=True))
        check_changed(sum(map(len, resolved)))
        sources: dict[int, str | None] = {}
        for change, indexes in planned:
            checked_source(change.source or "")
            checked_entries(change.metadata or {})
            self._check(indexes, change.expect)
            for index in indexes:
                self.text_of(index)
                sources[index] = self._merged_source(index, change)
            if change.cell_type is not None:
                self.check_idle(index for index in indexes if self.head(index).cell_type != change.cell_type)
        self.own_ids(list(sources), author=author)
        steps: list[Step] = []
        with self.doc.transaction(origin=author):
            for change, indexes in planned:
                for index in indexes:
                    steps += self._change_cell(index, change, sources[index])
        self.history.add(author, f"change {counted(len(steps), 'cell')}", steps)
        return self.note_touched([self.id_at(index) for _, indexes in planned for index in indexes])

    def edit(
        self,
        cell_range: CellRange,
        old: str,
        new: str,
        *,
        every: bool = False,
        expect: str | None = None,
        seen: str | None = None,
        author: str = AGENT,
    ) -> int:
        """Replace the literal text `old` in one cell; it must occur once, unless `every`. Returns the number of replacements.

        `seen` is the revision that the caller was shown: if somebody has changed the text to replace since, that is said.
        """
        index = self._single_index(cell_range)
        self._check([index], expect)
        checked_source(new)
        source = self.head(index).source
        changes: list[TextChange] | None = []
        if seen is not None and expect is None and self._shown_sources.get(seen, source) != source:
            changes = replacements_as_seen(self.head(index), self._shown_sources[seen], old, new, every=every)
            if changes is None:
                self.check_revision(index, seen)
        if not changes:
            changes = replacements(source, old, new)
            check_occurrences(self.head(index), old, [change.start for change in changes], every=every)
        self.own_ids([index], author=author)
        with self.doc.transaction(origin=author):
            apply(self.text_of(index), source, changes)
        after = changed_text(source, changes)
        self.note_touched([self._index.ids[index]])
        self.history.add(author, "edit a cell", [Rewritten(self._index.ids[index], source, after)])
        return len(changes)

    def delete(
        self, ranges: Sequence[CellRange], *, expect: Mapping[str, str] | None = None, author: str = AGENT
    ) -> list[str]:
        """Remove cells. `expect` gives revisions by cell id. Returns the removed ids."""
        indexes = self.resolve(ranges)
        check_changed(len(indexes))
        self.check_revisions(indexes, expect)
        deleted_ids = [self._index.ids[index] for index in indexes]
        step = Removed(tuple((self._cell_place(index), self.json_at(index)) for index in indexes))
        with self.doc.transaction(origin=author):
            self.remove(indexes)
        self.history.add(author, f"delete {counted(len(deleted_ids), 'cell')}", [step] if deleted_ids else [])
        return deleted_ids

    def move(
        self,
        ranges: Sequence[CellRange],
        position: int,
        *,
        expect: Mapping[str, str] | None = None,
        author: str = AGENT,
    ) -> list[str]:
        """Move cells, in their order, before the cell that is now at `position`; -1 means the end. Returns their ids."""
        indexes = self.resolve(ranges)
        target = insert_position(self.cell_count, position)
        check_count(len(indexes))
        self.check_revisions(indexes, expect)
        self.check_idle(indexes)
        # Each with an id, even if it had none.
        moved = [{**self.json_at(index), "id": self.id_at(index) or new_id(self._index.ids)} for index in indexes]
        origins = tuple((str(cell["id"]), self._cell_place(index)) for cell, index in zip(moved, indexes, strict=True))
        target -= sum(1 for index in indexes if index < target)
        in_place = indexes == list(range(target, target + len(indexes)))
        if in_place and all(self.is_proper(index) for index in indexes):
            return [cell_id for cell_id, _ in origins]
        with self.doc.transaction(origin=author):
            self.remove(indexes)
            self.put(target, moved)
        landed = landing(self.ids, {cell_id for cell_id, _ in origins})
        self.history.add(author, f"move {counted(len(moved), 'cell')}", [Moved(origins, landed)] if moved else [])
        return self.note_touched([cell_id for cell_id, _ in origins])

    def set_type(
        self,
        ranges: Sequence[CellRange],
        cell_type: Kind,
        *,
        expect: Mapping[str, str] | None = None,
        author: str = AGENT,
    ) -> list[str]:
        """Make cells code, markdown or raw. Cells that were code lose their outputs. Returns the ids of changed cells."""
        requested = self.resolve(ranges)
        check_changed(len(requested))
        self.check_revisions(requested, expect)
        indexes = [index for index in requested if self.head(index).cell_type != cell_type]
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
        """Clear the outputs of code cells; of all if no ranges are given. Returns the ids of cells that had any."""
        indexes = range(self.cell_count) if ranges is None else self.resolve(ranges)
        self.check_revisions(indexes, expect)
        cleared = [(index, step) for index in indexes if (step := self.outputs_at(index)) is not None]
        with self.doc.transaction(origin=author):
            self.clear_at([index for index, _ in cleared])
        self.history.add(author, f"clear the outputs of {counted(len(cleared), 'cell')}", [step for _, step in cleared])
        return [step.cell_id for _, step in cleared]

    def outputs_at(self, index: int) -> Cleared | None:
        """The outputs of a code cell as undo keeps them; None if it has none and never ran."""
        head = self._index.head(index)
        if head.cell_type != Kind.CODE or not (head.output_count or head.execution_count is not None):
            return None
        return Cleared(head.id, tuple(self.json_at(index).get("outputs") or ()), head.execution_count)

    def clear_at(self, indexes: Iterable[int]) -> None:
        """Clear the outputs of cells. Call inside a transaction."""
        for index in indexes:
            cell = self.shared_at(index)
            outputs = cell.get("outputs")
            if isinstance(outputs, Array):
                # Never a new array: people's JupyterLab would keep following the old one.
                cast("Array[Any]", outputs).clear()
            if "execution_count" in cell:
                cell["execution_count"] = None

    def set_metadata(self, key: str, value: object, *, author: str = AGENT) -> None:
        """Set one entry of the notebook's metadata, for instance `kernelspec`."""
        with self.doc.transaction(origin=author):
            metadata = self._meta.get("metadata")
            if isinstance(metadata, Map):
                cast("YCell", metadata)[key] = value
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
        """The ids of these cells. A cell without an id, or with one that others have too, gets its own first.

        Without one, nobody could tell later which cell was edited or run.
        """
        shared_id_indexes = [index for index in indexes if not self.have_own_ids([index])]
        if shared_id_indexes:
            with self.doc.transaction(origin=author):
                taken_ids = set(self._index.ids)
                for index in shared_id_indexes:
                    cell_id = self.shared_at(index)["id"] = new_id(taken_ids)
                    taken_ids.add(cell_id)
        return [self.id_at(index) for index in indexes]

    def put(self, index: int, cells: Iterable[object]) -> None:
        """Insert cells as JSON, with the ids they have, before an index. Call inside a transaction."""
        self._cells[index:index] = [to_ycell(cell) for cell in cells]

    def put_over(self, index: int, cell: JsonObject) -> None:
        """Put a cell as JSON in the place of another. Call inside a transaction."""
        self._cells[index] = to_ycell(cell)

    def remove(self, indexes: Sequence[int]) -> None:
        """Remove cells by ascending index. Call inside a transaction."""
        # From the end, so that the remaining indexes stay right.
        for start, end in reversed(runs_of(indexes)):
            del self._cells[start:end]

    def fill(self, content: JsonObject) -> None:
        """Fill an empty document with a notebook that was read as JSON."""
        with self.doc.transaction(origin="load"):
            self._meta["nbformat"] = content.get("nbformat", 4)
            self._meta["nbformat_minor"] = content.get("nbformat_minor", 0)
            self._meta["metadata"] = Map(dict(content.get("metadata") or {}))
            # From the end, each before the first: appending to a shared array costs more the longer it is.
            for cell in reversed(content.get("cells") or []):
                self._cells.insert(0, to_ycell(cell))

    def note_touched(self, ids: list[str]) -> list[str]:
        """Remember where the agent works, which people are shown."""
        self._touched = ids[-1] if ids else self._touched
        return ids

    def _new_cells_json(self, cells: Sequence[NewCell]) -> list[JsonObject]:
        taken_ids = set(self._index.ids)
        new_cells: list[JsonObject] = []
        for cell in cells:
            new_cells.append(new_cell_json(cell, taken_ids))
            taken_ids.add(str(new_cells[-1]["id"]))
        return new_cells

    def _cell_place(self, index: int) -> CellPlace:
        return CellPlace(self._index.ids[index - 1] if index > 0 else None, index)

    def _check(self, indexes: Sequence[int], expect: str | None) -> None:
        if expect is None:
            return
        if len(indexes) != 1:
            raise InvalidArgument("`expect` is the revision of one cell", hint="Name one cell per change")
        self.check_revision(indexes[0], expect)

    def check_revisions(self, indexes: Sequence[int], expect: Mapping[str, str] | None) -> None:
        """Raise if one of these cells is not as the caller saw it. `expect` gives revisions by cell id."""
        requested_ids = {self._index.ids[index] for index in indexes}
        for cell_id in expect or {}:
            if cell_id not in requested_ids:
                raise InvalidArgument(
                    f"`expect` names cell {cell_id}, which the ranges do not",
                    hint="name the same cells in ranges and in expect",
                )
        for index in indexes if expect else ():
            if (revision := (expect or {}).get(self._index.ids[index])) is not None:
                self.check_revision(index, revision)

    def check_revision(self, index: int, expect: str) -> None:
        """Raise Conflict, with what has changed since, if the cell has another revision."""
        check_revision(index, self._index.head(index), expect, self._shown_sources.get(expect))

    def check_idle(self, indexes: Iterable[int]) -> None:
        """Raise if one of these cells is running."""
        check_idle((index, self._index.head(index)) for index in indexes)

    def _merged_source(self, index: int, change: SourceChange) -> str | None:
        """The source that the cell is to get: that of the change, with what somebody else changed since its author saw the cell.

        Raises Conflict if both changed the same lines, or what the author saw is no longer known.
        """
        current = self._index.head(index)
        if change.source is None or change.expect is not None or change.seen in (None, current.revision):
            return change.source
        base = self._shown_sources.get(change.seen)
        if base is None and change.source != current.source:
            self.check_revision(index, change.seen)
        texts = (text.replace("\r\n", "\n") for text in (base or "", change.source, current.source))
        merged = merged_text(*texts)
        if merged is None:
            self.check_revision(index, change.seen)
        return merged

    def _change_cell(self, index: int, change: SourceChange, new_source: str | None) -> list[Step]:
        head = self._index.head(index)
        changes = [] if new_source is None else ShownText(head.source).changes_to(new_source)
        source = changed_text(head.source, changes)
        if change.cell_type is not None and head.cell_type != change.cell_type:
            return [self._retype(index, change.cell_type, source, change.metadata or {})]
        steps: list[Step] = []
        if changes:
            apply(self.text_of(index), head.source, changes)
            steps.append(Rewritten(head.id, head.source, source))
        if before := put_entries(self.shared_at(index), change.metadata or {}):
            steps.append(Remarked(head.id, before, {key: (change.metadata or {})[key] for key in before}))
        return steps

    def _retype(
        self, index: int, cell_type: Kind, source: str, metadata: Mapping[str, object] | None = None
    ) -> Retyped:
        """Replace the cell by one of another type: JupyterLab does not follow a type that changes in place."""
        before = self.json_at(index)
        after = retyped(before, cell_type, source, metadata or {})
        self.put_over(index, after)
        return Retyped(str(before.get("id", "")), before, source, rest_of(after))


def retyped(cell: JsonObject, cell_type: str, source: str, metadata: Mapping[str, object]) -> JsonObject:
    """The cell with another type, as JupyterLab makes it: without outputs, and with attachments if it is not code."""
    # Trust is about outputs: a new code cell has none of somebody else yet, and other cells never have any.
    trust = {TRUSTED: True if cell_type == Kind.CODE else None}
    parts: JsonObject = {"id": cell["id"]} if "id" in cell else {}
    if cell_type != Kind.CODE and cell.get("attachments"):
        parts["attachments"] = cell["attachments"]
    entries = with_entries(cell.get("metadata") or {}, {**metadata, **trust})
    return {**parts, "cell_type": str(cell_type), "source": source, "metadata": entries}
