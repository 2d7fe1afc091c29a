"""A notebook in a shared document, read from memory: nothing here waits or changes anything."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, cast

from pycrdt import Array, Doc, Map, Text

from cellwright.core.errors import InvalidArgument
from cellwright.jupyter.cellindex import CellIndex, CellsChanged
from cellwright.jupyter.model import Cell, CellHead, JsonObject, count_of
from cellwright.jupyter.outline import OutlinePage, outline_page, whole_outline
from cellwright.jupyter.ranges import CellRange, resolve
from cellwright.jupyter.ycells import UnreadableCell, YCell, cell_of, text_name, to_json, to_plain

STABLE_IDS = (4, 5)
"""Files keep cell ids from this format on; before it ids are invented at every load."""
REMEMBERED_SOURCES = 4_096
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
        self._seen: OrderedDict[str, str] = OrderedDict()
        self._whole: dict[int, Cell] = {}
        self._texts: dict[tuple[int, int], str] = {}
        self._texts_of: tuple[str, ...] = ()
        self._touched: str | None = None

    @property
    def cell_count(self) -> int:
        return len(self._index.ids)

    @property
    def ids(self) -> Sequence[str]:
        return tuple(self._index.ids)

    @property
    def format(self) -> tuple[int, int]:
        """The notebook format as major and minor, as the document says; (0, 0) if it does not."""
        major, minor = (count_of(to_plain(self._meta.get(key))) for key in ("nbformat", "nbformat_minor"))
        return major or 0, minor or 0

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

    def id_at(self, index: int) -> str:
        return self._index.ids[index]

    def have_own_ids(self, indexes: Sequence[int]) -> bool:
        """Whether each of these cells has an id that no other has."""
        return all(self.id_at(index) and self.id_at(index) in self._index for index in indexes)

    def outline(self) -> list[CellHead]:
        """All cells in order, without outputs."""
        return [self._noted(head) for head in self._index.heads()]

    def outline_page(self, offset: int) -> OutlinePage:
        """A line for each cell from `offset` on, as many as a page holds."""
        if offset and offset >= self.cell_count:
            raise InvalidArgument(f"there is no cell {offset}: the notebook has {self.cell_count} cells")
        with self.doc.transaction():
            return outline_page(self._index.entry, offset, self.cell_count)

    def whole_outline(self) -> list[str]:
        with self.doc.transaction():
            return whole_outline(self._index.entry, self.cell_count)

    def as_json(self) -> JsonObject:
        """The whole notebook as its file would be."""
        major, minor = self.format
        cells = [to_json(self._index.shared(index)) for index in range(self.cell_count)]
        if self.format < STABLE_IDS:
            cells = [{key: value for key, value in cell.items() if key != "id"} for cell in cells]
        return {"cells": cells, "metadata": self.metadata, "nbformat": major, "nbformat_minor": minor}

    def head(self, index: int) -> CellHead:
        return self._noted(self._index.head(index))

    def cell(self, which: CellRange) -> Cell:
        """One cell with its outputs."""
        return self.cell_at(self._one(which))

    def cells(self, ranges: Sequence[CellRange] | None = None) -> list[Cell]:
        """Cells with their outputs, in order; all of them if no ranges are given."""
        indexes = range(self.cell_count) if ranges is None else self.resolve(ranges)
        return [self.cell_at(index) for index in indexes]

    def cell_with_text(self, client: int, clock: int) -> str | None:
        """The cell whose text has this name in the shared document, as cursors give it. Nothing foreign is resolved for that."""
        if (client, clock) not in self._texts and self._texts_of != self.ids:
            self._texts_of = tuple(self.ids)
            self._texts = {
                name: cell_id
                for index, cell_id in enumerate(self._texts_of)
                if (name := text_name(self._index.shared(index))) is not None
            }
        found = self._texts.get((client, clock))
        return found if found is not None and found in self._index else None

    def shared_cell(self, cell_id: str) -> YCell:
        """The cell in the shared document, for writing outputs. Valid until the next await: look it up again after it."""
        return self.shared_at(self.index_of(cell_id))

    def shared_at(self, index: int) -> YCell:
        found = self._index.shared(index)
        if not isinstance(found, Map):
            raise InvalidArgument(
                f"what stands at {index} of {self.name} is no cell", hint="delete_nb_cells removes it"
            )
        return cast("YCell", found)

    def is_proper(self, index: int) -> bool:
        """Whether it is a cell in all its parts, one that people's JupyterLab can follow."""
        found = self._index.shared(index)
        whole = isinstance(found, Map) and isinstance(cast("YCell", found).get("source"), Text)
        return whole and not isinstance(self._index.head(index), UnreadableCell)

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

    def _one(self, which: CellRange) -> int:
        indexes = self.resolve([which])
        if len(indexes) != 1:
            raise InvalidArgument(f"one cell is meant, {len(indexes)} were named")
        return indexes[0]

    def cell_at(self, index: int) -> Cell:
        """The cell with its outputs. Read from the document once for each state of it, unless it is large."""
        head = self.head(index)
        known = self._whole.get(index)
        # A head is made anew whenever anything in its cell has changed.
        if known is not None and known.head is head:
            return known
        made = cell_of(self._index.shared(index), index, head)
        if head.output_count <= SMALL_OUTPUTS and sum(len(str(one)) for one in made.outputs) <= SMALL_CHARACTERS:
            self._whole[index] = made
            if len(self._whole) > REMEMBERED_CELLS:
                del self._whole[next(iter(self._whole))]
        return made

    def _noted(self, head: CellHead) -> CellHead:
        """Remember what was shown, so that a conflict can later say what has changed since."""
        if head.revision not in self._seen:
            self._seen[head.revision] = head.source
            if len(self._seen) > REMEMBERED_SOURCES:
                self._seen.popitem(last=False)
        return head
