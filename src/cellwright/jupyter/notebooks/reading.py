"""A notebook in a shared document, read from memory. Nothing here waits or changes anything."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, cast

from pycrdt import Array, Doc, Map, Text

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.counting import counted
from cellwright.core.weight import characters_in
from cellwright.jupyter.model import CellHead, JsonObject, LiveCell
from cellwright.jupyter.notebooks.cellindex import CellIndex, CellsChanged, Replaced
from cellwright.jupyter.notebooks.cells import UnreadableCell, YCell, cell_of, text_name, to_json, to_plain
from cellwright.jupyter.notebooks.outline import OutlineEntry, OutlinePage, outline_page, whole_outline, with_mark
from cellwright.jupyter.notebooks.views import Sight
from cellwright.notebook.addressing import CellRange, resolve, resolve_each
from cellwright.notebook.model import count_of, revision_of

STABLE_IDS = (4, 5)
"""Files keep cell ids from this format on. For older files new ids are invented at every load."""
REMEMBERED_SOURCES = 4_096
REMEMBERED_BYTES = 8 * 1024 * 1024
"""Of the sources that were shown of one notebook; one that is larger is not remembered."""
REMEMBERED_CELLS = 512
SMALL_OUTPUTS = 4
SMALL_CHARACTERS = 20_000


class ReadableNotebook:
    """The cells and metadata of one shared document. Make it before the document is filled."""

    def __init__(self, doc: Doc[Any], name: str) -> None:
        self.doc = doc
        self.name = name
        self._cells: Array[object] = doc.get("cells", type=Array)
        self._meta: Map[Any] = doc.get("meta", type=Map)
        self._index = CellIndex(doc)
        self._shown_sources: OrderedDict[str, str] = OrderedDict()
        self._shown_bytes = 0
        self._cached_cells: dict[int, LiveCell] = {}
        self._texts: dict[tuple[int, int], str] = {}
        self._texts_of: tuple[str, ...] = ()
        self._touched: str | None = None

    def close(self) -> None:
        """Stop following the document, because it was left. What was read of it stays readable."""
        self._index.close()

    @property
    def unheard(self) -> bool:
        """Whether cells change without an event, so that the server does not save them unless it is asked to."""
        return self._index.unheard

    @property
    def cell_count(self) -> int:
        return len(self._index.ids)

    @property
    def ids(self) -> Sequence[str]:
        return self._index.order.ids

    @property
    def format(self) -> tuple[int, int]:
        """The notebook format as major and minor, as the document says; (0, 0) if it does not."""
        major, minor = (count_of(to_plain(self._meta.get(key))) for key in ("nbformat", "nbformat_minor"))
        return major or 0, minor or 0

    @property
    def converted_from(self) -> int | None:
        """The major format of the file, if it is older than the document's, which the next save will write."""
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
        plain = to_plain(self._meta.get("metadata"))
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

    def resolve_each(self, ranges: Sequence[CellRange]) -> list[list[int]]:
        """The indexes that each of these ranges means now."""
        return resolve_each(self._index, ranges)

    def has(self, cell_id: str) -> bool:
        """Whether exactly one cell has this id."""
        return cell_id in self._index

    def sight(self) -> Sight:
        """The order, revisions and execution counts of all cells now."""
        return self._index.sight()

    def id_at(self, index: int) -> str:
        return self._index.ids[index]

    def have_own_ids(self, indexes: Sequence[int]) -> bool:
        """Whether each of these cells has an id that no other has."""
        return all(self.id_at(index) and self.id_at(index) in self._index for index in indexes)

    def replaced(self) -> AbstractContextManager[Replaced]:
        """What becomes of cells meanwhile."""
        return self._index.replaced()

    def heads(self) -> list[CellHead]:
        """All cells in order, without outputs, for comparing them later."""
        return self._index.heads()

    def outline(self) -> list[CellHead]:
        """All cells in order, without outputs."""
        return [self._remember_shown(head) for head in self._index.heads()]

    def outline_page(self, offset: int, mark: Callable[[int, CellHead], str] | None = None) -> OutlinePage:
        """A line for each cell from `offset` on, as many as a page holds. `mark` gives a word for the state of a cell."""
        if offset and offset >= self.cell_count:
            raise InvalidArgument(
                f"there is no cell {offset}: the notebook has {counted(self.cell_count, 'cell')}",
                hint="begin with an offset below that number",
            )
        with self.doc.transaction():
            return outline_page(self._marked(mark), offset, self.cell_count)

    def outline_lines(self, indexes: Sequence[int]) -> list[str]:
        """The lines of these cells, each at full width."""
        with self.doc.transaction():
            return [f"{index} {self._index.entry(index).texts[0]}" for index in indexes]

    def whole_outline(self, mark: Callable[[int, CellHead], str] | None = None) -> list[str]:
        with self.doc.transaction():
            return whole_outline(self._marked(mark), self.cell_count)

    def _marked(self, mark: Callable[[int, CellHead], str] | None) -> Callable[[int], OutlineEntry]:
        """The entries of an outline with the words for the states of their cells."""
        if mark is None:
            return self._index.entry

        def entry(index: int) -> OutlineEntry:
            word = mark(index, self._index.head(index))
            return with_mark(self._index.entry(index), word) if word else self._index.entry(index)

        return cache(entry)

    def as_json(self) -> JsonObject:
        """The whole notebook as its file would be, read at once. Others wait meanwhile; servers use `whole.whole_json`."""
        cells = [self.json_at(index) for index in range(self.cell_count)]
        return self.file_of(cells)

    def file_of(self, cells: list[JsonObject]) -> JsonObject:
        """The file of this notebook with these cells."""
        major, minor = self.format
        if self.format < STABLE_IDS:
            cells = [{key: value for key, value in cell.items() if key != "id"} for cell in cells]
        return {"cells": cells, "metadata": self.metadata, "nbformat": major, "nbformat_minor": minor}

    @property
    def unread_count(self) -> int:
        """How many cells have not been read in their present state."""
        return self._index.unread_count

    def load_head(self, index: int) -> None:
        """Read the head of a cell, for later."""
        self._index.head(index)

    def head(self, index: int) -> CellHead:
        return self._remember_shown(self._index.head(index))

    def cell(self, cell_range: CellRange) -> LiveCell:
        """One cell with its outputs."""
        return self.cell_at(self._single_index(cell_range))

    def cells(self, ranges: Sequence[CellRange] | None = None) -> list[LiveCell]:
        """Cells with their outputs, in order; all of them if no ranges are given."""
        indexes = range(self.cell_count) if ranges is None else self.resolve(ranges)
        return [self.cell_at(index) for index in indexes]

    def cell_with_text(self, client: int, clock: int) -> str | None:
        """The id of the cell whose text has this name in the shared document. People's cursors name texts so."""
        if (client, clock) not in self._texts and self._texts_of != self.ids:
            self._texts_of = tuple(self.ids)
            self._texts = {
                name: cell_id
                for index, cell_id in enumerate(self._texts_of)
                if (name := text_name(self._index.shared(index))) is not None
            }
        cell_id = self._texts.get((client, clock))
        return cell_id if cell_id is not None and cell_id in self._index else None

    def json_at(self, index: int) -> JsonObject:
        """The cell as its file would have it. An entry that is no cell becomes a raw cell."""
        return to_json(self._index.shared(index))

    def shared_entry(self, index: int) -> object:
        """The entry of the shared document at this index, a Map if it is a cell."""
        return self._index.shared(index)

    def shared_cell(self, cell_id: str) -> YCell:
        """The cell in the shared document, for writing outputs. Valid until the next await: look it up again after it."""
        return self.shared_at(self.index_of(cell_id))

    def shared_at(self, index: int) -> YCell:
        entry = self._index.shared(index)
        if not isinstance(entry, Map):
            raise InvalidArgument(
                f"what stands at {index} of {self.name} is no cell", hint="delete_nb_cells removes it"
            )
        return cast("YCell", entry)

    def is_proper(self, index: int) -> bool:
        """Whether it is a complete cell, which people's JupyterLab can follow."""
        entry = self._index.shared(index)
        has_text = isinstance(entry, Map) and isinstance(cast("YCell", entry).get("source"), Text)
        return has_text and not isinstance(self._index.head(index), UnreadableCell)

    def text_of(self, index: int) -> Text:
        """The shared text of a cell."""
        source = self.shared_at(index).get("source")
        if not isinstance(source, Text):
            raise InvalidArgument(
                f"cell {index} of {self.name} has no text that can be edited",
                hint="move_nb_cells makes a proper cell of it, also when it is moved to where it is",
            )
        return source

    @property
    def touched(self) -> str | None:
        """The id of the cell that was last changed from here, if it is still there."""
        return self._touched if self._touched is not None and self._touched in self._index else None

    @property
    def last_touched(self) -> Text | None:
        """The text of the cell that was last changed from here, if it is still there."""
        if self._touched is None or self._touched not in self._index:
            return None
        text = self.shared_cell(self._touched).get("source")
        return text if isinstance(text, Text) else None

    def on_change(self, listener: Callable[[CellsChanged], None]) -> Callable[[], None]:
        """Call `listener` after every change of cells, until the returned function is called. It must not raise."""
        return self._index.on_change(listener)

    def _single_index(self, cell_range: CellRange) -> int:
        indexes = self.resolve([cell_range])
        if len(indexes) != 1:
            raise InvalidArgument(
                f"one cell is meant, {len(indexes)} were named", hint="name it by its index or id alone"
            )
        return indexes[0]

    def cell_at(self, index: int) -> LiveCell:
        """The cell with its outputs. A small cell is read from the document once for each of its states."""
        head = self.head(index)
        if (cached := self.cached_cell(index)) is not None:
            return cached
        return self.cache(cell_of(self._index.shared(index), index, head))

    def cache(self, cell: LiveCell) -> LiveCell:
        """Keep the cell if it is small, and return it."""
        small = cell.head.output_count <= SMALL_OUTPUTS
        if small and characters_in(cell.outputs, SMALL_CHARACTERS) <= SMALL_CHARACTERS:
            self._cached_cells[cell.index] = cell
            if len(self._cached_cells) > REMEMBERED_CELLS:
                del self._cached_cells[next(iter(self._cached_cells))]
        return cell

    def cached_cell(self, index: int) -> LiveCell | None:
        """The cell with its outputs, if it is kept and has not changed since it was read."""
        cached = self._cached_cells.get(index)
        # A new head is made whenever anything in its cell has changed.
        return cached if cached is not None and cached.head is self.head(index) else None

    def remember_text(self, text: str) -> str:
        """Remember a text that a caller takes for that of a cell. Returns its revision."""
        revision = revision_of(text)
        self._remember_source(revision, text)
        return revision

    def seen_text(self, revision: str) -> str | None:
        """The text of this revision, if it is remembered."""
        return self._shown_sources.get(revision)

    def _remember_shown(self, head: CellHead) -> CellHead:
        """Remember the source that is shown, so that a later conflict can say what has changed since."""
        self._remember_source(head.revision, head.source)
        return head

    def _remember_source(self, revision: str, source: str) -> None:
        if revision not in self._shown_sources:
            self._shown_sources[revision] = source
            self._shown_bytes += sys.getsizeof(source)
            while len(self._shown_sources) > REMEMBERED_SOURCES or self._shown_bytes > REMEMBERED_BYTES:
                self._shown_bytes -= sys.getsizeof(self._shown_sources.popitem(last=False)[1])
