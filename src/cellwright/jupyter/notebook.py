"""A notebook in a shared document: read from memory, changed by the least that says what is meant.

Nothing here waits: a change is resolved, checked and applied in one step, so that no index can go stale in between. Who calls
must then see to it that the change is acknowledged.
"""

import difflib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pycrdt import Array, Doc, Map, Text

from cellwright.core.errors import Conflict, InvalidArgument, NotFound
from cellwright.jupyter.cellindex import CellIndex, CellsChanged
from cellwright.jupyter.history import Cleared, History, Inserted, Moved, Place, Removed, Retyped, Rewritten, Step
from cellwright.jupyter.model import Cell, CellHead, CellType, JsonObject, NewCell, count_of
from cellwright.jupyter.ranges import CellRange, insert_position, resolve, resolve_each
from cellwright.jupyter.textdiff import Change, apply, set_text
from cellwright.jupyter.ycells import YCell, cell_of, checked_source, new_cell_json, to_json, to_ycell

AGENT = "agent"
STABLE_IDS = (4, 5)
"""Files keep cell ids from this format on; before it ids are invented at every load."""
REMEMBERED_SOURCES = 4_096
SHOWN_DIFF_LINES = 200


@dataclass(frozen=True, slots=True)
class SourceChange:
    """The cells of `range` get this source, and this type if one is given. `expect` is the revision the caller saw."""

    range: CellRange
    source: str
    cell_type: CellType | None = None
    expect: str | None = None


class Notebook:
    """The cells and metadata of one shared document. Make it before the document is filled."""

    def __init__(self, doc: Doc[Any], name: str = "the notebook", history: History | None = None) -> None:
        self.doc = doc
        self.name = name
        self.history = history if history is not None else History()
        self._cells: Array[YCell] = doc.get("cells", type=Array)
        self._meta: Map[Any] = doc.get("meta", type=Map)
        self._index = CellIndex(doc)
        self._seen: OrderedDict[str, str] = OrderedDict()
        self._touched: str | None = None

    # Reading

    @property
    def cell_count(self) -> int:
        return len(self._index.ids)

    @property
    def ids(self) -> Sequence[str]:
        return tuple(self._index.ids)

    @property
    def format(self) -> tuple[int, int]:
        """The notebook format as major and minor, as the document says; (0, 0) if it does not."""
        return count_of(self._meta.get("nbformat")) or 0, count_of(self._meta.get("nbformat_minor")) or 0

    @property
    def converted_from(self) -> int | None:
        """The major format of the file, if it is older than what the server shows: the next save writes the newer one."""
        original = count_of(self.metadata.get("orig_nbformat"))
        return original if original is not None and original < self.format[0] else None

    @property
    def ids_are_stable(self) -> bool:
        """Whether cell ids outlive this session: files of older formats do not keep them."""
        return self.format >= STABLE_IDS and self.converted_from is None

    @property
    def duplicate_ids(self) -> frozenset[str]:
        """Ids that several cells have: such cells can only be named by index."""
        return self._index.duplicates

    @property
    def metadata(self) -> JsonObject:
        found = self._meta.get("metadata")
        plain: object = cast("YCell", found).to_py() if isinstance(found, Map) else found
        return cast("JsonObject", plain) if isinstance(plain, dict) else {}

    @property
    def kernel_name(self) -> str | None:
        """The kernel that the notebook asks for."""
        spec: object = self.metadata.get("kernelspec")
        return str(cast("JsonObject", spec).get("name") or "") or None if isinstance(spec, dict) else None

    def index_of(self, cell_id: str) -> int:
        return self._index.find(cell_id)

    def resolve(self, ranges: Sequence[CellRange]) -> list[int]:
        """The indexes these ranges mean now, ascending."""
        return resolve(self._index, ranges)

    def outline(self) -> list[CellHead]:
        """All cells in order, without outputs."""
        return [self._noted(head) for head in self._index.heads()]

    def head(self, index: int) -> CellHead:
        return self._noted(self._index.head(index))

    def cell(self, which: CellRange) -> Cell:
        """One cell with its outputs."""
        return self._cell(self._one(which))

    def cells(self, ranges: Sequence[CellRange] | None = None) -> list[Cell]:
        """Cells with their outputs, in order; all of them if no ranges are given."""
        indexes = range(self.cell_count) if ranges is None else self.resolve(ranges)
        return [self._cell(index) for index in indexes]

    def shared_cell(self, cell_id: str) -> YCell:
        """The cell in the shared document, for writing outputs. Valid until the next await: look it up again after it."""
        return self._index.shared(self.index_of(cell_id))

    def text_of(self, index: int) -> Text:
        """The shared text of a cell."""
        source = self._index.shared(index).get("source")
        if not isinstance(source, Text):
            raise InvalidArgument(f"cell {index} of {self.name} has no text that can be edited")
        return source

    @property
    def last_touched(self) -> Text | None:
        """The text of the cell that was last changed from here, if it is still there."""
        if self._touched is None or self._touched not in self._index:
            return None
        return self.text_of(self._index.find(self._touched))

    def on_change(self, listener: Callable[[CellsChanged], None]) -> Callable[[], None]:
        """Call `listener` after every change of cells, until the returned function is called. It must not raise."""
        return self._index.on_change(listener)

    # Changing

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
        return self._note_touched([self._index.ids[index] for _, indexes in planned for index in indexes])

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
        self._check_found(index, source, old, found, every=every)
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

    def move(self, ranges: Sequence[CellRange], position: int, *, author: str = AGENT) -> list[str]:
        """Put cells, in their order, before the cell that is now at `position`; -1 means the end. Their ids."""
        indexes = self.resolve(ranges)
        place = insert_position(self.cell_count, position)
        self._check_idle(indexes)
        moved = [to_json(self._index.shared(index)) for index in indexes]
        origins = tuple((self._index.ids[index], self._place(index)) for index in indexes)
        place -= sum(1 for index in indexes if index < place)
        if indexes == list(range(place, place + len(indexes))):
            return [cell_id for cell_id, _ in origins]
        with self.doc.transaction(origin=author):
            self.remove(indexes)
            self.put(place, moved)
        self.history.add(author, f"move {len(moved)} cells", [Moved(origins)] if moved else [])
        return self._note_touched([cell_id for cell_id, _ in origins])

    def set_type(self, ranges: Sequence[CellRange], cell_type: CellType, *, author: str = AGENT) -> list[str]:
        """Make cells code, markdown or raw. Outputs of cells that were code go. The ids of what changed."""
        indexes = [index for index in self.resolve(ranges) if self.head(index).cell_type != cell_type]
        self._check_idle(indexes)
        changed = [self._index.ids[index] for index in indexes]
        with self.doc.transaction(origin=author):
            steps = [self._retype(index, cell_type, self.head(index).source) for index in indexes]
        self.history.add(author, f"change the type of {len(steps)} cells", steps)
        return self._note_touched(changed)

    def clear_outputs(self, ranges: Sequence[CellRange] | None = None, *, author: str = AGENT) -> list[str]:
        """Empty the outputs of code cells; of all if no ranges are given. The ids of cells that had any."""
        indexes = range(self.cell_count) if ranges is None else self.resolve(ranges)
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

    def put(self, place: int, cells: Iterable[JsonObject]) -> None:
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
            self.put(0, content.get("cells") or [])

    def as_json(self) -> JsonObject:
        """The whole notebook as its file would be."""
        major, minor = self.format
        cells = [to_json(self._index.shared(index)) for index in range(self.cell_count)]
        if self.format < STABLE_IDS:
            cells = [{key: value for key, value in cell.items() if key != "id"} for cell in cells]
        return {"cells": cells, "metadata": self.metadata, "nbformat": major, "nbformat_minor": minor}

    # Inside

    def _note_touched(self, ids: list[str]) -> list[str]:
        self._touched = ids[-1] if ids else self._touched
        return ids

    def _one(self, which: CellRange) -> int:
        indexes = self.resolve([which])
        if len(indexes) != 1:
            raise InvalidArgument(f"one cell is meant, {len(indexes)} were named")
        return indexes[0]

    def _cell(self, index: int) -> Cell:
        return cell_of(self._index.shared(index), index, self.head(index))

    def _noted(self, head: CellHead) -> CellHead:
        """Remember what was shown, so that a conflict can later say what has changed since."""
        if head.revision not in self._seen:
            self._seen[head.revision] = head.source
            if len(self._seen) > REMEMBERED_SOURCES:
                self._seen.popitem(last=False)
        return head

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
        named = {self._index.ids[index]: index for index in indexes}
        for cell_id, revision in (expect or {}).items():
            if cell_id not in named:
                raise InvalidArgument(f"`expect` names cell {cell_id}, which the ranges do not")
            self._check_revision(named[cell_id], revision)

    def _check_revision(self, index: int, expect: str) -> None:
        head = self._index.head(index)
        if head.revision == expect:
            return
        raise Conflict(
            f"cell {head.id} (index {index}) has changed since revision {expect}; nothing was applied",
            hint=f"Look at the change; if your edit still fits, repeat it with expect={head.revision}",
            details={
                "cell_id": head.id,
                "index": index,
                "revision": head.revision,
                "diff": difference(self._seen.get(expect), head.source),
            },
        )

    def _check_idle(self, indexes: Sequence[int]) -> None:
        for index in indexes:
            head = self._index.head(index)
            if head.running:
                raise Conflict(
                    f"cell {head.id} (index {index}) is running", hint="Wait for it, or interrupt the kernel"
                )

    def _check_found(self, index: int, source: str, old: str, found: list[int], *, every: bool) -> None:
        if not old:
            raise InvalidArgument("the text to replace is empty", hint="Give the text that is there now")
        if not found:
            near = difflib.get_close_matches(old.strip(), source.splitlines()[:2000], n=1, cutoff=0.4)
            hint = f"The nearest line is: {near[0]}" if near else "Read the cell again; the text must match exactly"
            raise NotFound(f"the text is not in cell {self._index.ids[index]}; nothing was changed", hint=hint)
        if len(found) > 1 and not every:
            lines = ", ".join(str(source.count("\n", 0, start) + 1) for start in found[:10])
            raise InvalidArgument(
                f"the text is {len(found)} times in cell {self._index.ids[index]} (lines {lines}); nothing was changed",
                hint="Give more of what is around it, or ask for every occurrence",
            )

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
        cell = self._index.shared(index)
        outputs = cast("Array[Any]", cell["outputs"])
        step = Cleared(head.id, tuple(to_json(cell).get("outputs") or ()), head.execution_count)
        # Never a new array: people's JupyterLab would stay with the old one.
        outputs.clear()
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


def difference(before: str | None, now: str) -> str:
    """What has changed, for the one who saw `before`; all of the text where that is not known."""
    if before is None:
        return now[:8_000]
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "as you saw it", "as it is", lineterm="", n=2)
    return "\n".join(list(lines)[:SHOWN_DIFF_LINES])
