"""Which cells a shared notebook has, in order: kept up to date from its events, so that a lookup costs nothing."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pycrdt import Array, ArrayEvent, Doc, MapEvent

from cellwright.core.errors import InvalidArgument
from cellwright.jupyter.model import CellHead
from cellwright.jupyter.outline import OutlineEntry, entry_of
from cellwright.jupyter.ranges import no_such_cell
from cellwright.jupyter.room import came_from_others
from cellwright.jupyter.ycells import head_of, id_of


@dataclass(frozen=True, slots=True)
class CellsChanged:
    """What one transaction did to the cells."""

    cells: frozenset[str]
    """Ids of cells that came, went or have other contents."""
    order: bool
    """Whether cells came, went or moved."""
    ours: bool
    """Whether this process did it."""


class CellIndex:
    """Ids and heads of all cells by position. Make it before the document is filled: then building it is one event."""

    def __init__(self, doc: Doc[Any]) -> None:
        self._cells: Array[object] = doc.get("cells", type=Array)
        self._doc = doc
        self._ids: list[str] = []
        self._shared: list[object] = []
        self._heads: list[CellHead | None] = []
        self._entries: list[OutlineEntry | None] = []
        self._count_of: Counter[str] = Counter()
        self._last_seen_at: dict[str, int] = {}
        self._listeners: list[Callable[[CellsChanged], None]] = []
        self._reload()
        # The second argument is for all versions of pycrdt; only newer ones have it in their events, too.
        self._subscription = self._cells.observe_deep(cast("Any", self._follow))

    @property
    def ids(self) -> Sequence[str]:
        return self._ids

    def __contains__(self, cell_id: str) -> bool:
        """Whether exactly one cell has this id."""
        return self._count_of.get(cell_id) == 1

    def find(self, cell_id: str) -> int:
        """The index of the cell with this id."""
        if not cell_id:
            raise InvalidArgument("a cell without an id cannot be named by one", hint="Name the cell by its index")
        if self._count_of.get(cell_id, 0) > 1:
            raise InvalidArgument(f"several cells have the id {cell_id}", hint="Name the cell by its index instead")
        guess = self._last_seen_at.get(cell_id, -1)
        if 0 <= guess < len(self._ids) and self._ids[guess] == cell_id:
            return guess
        if cell_id not in self._count_of:
            raise no_such_cell(self._ids, cell_id)
        index = self._last_seen_at[cell_id] = self._ids.index(cell_id)
        return index

    @property
    def duplicates(self) -> frozenset[str]:
        return frozenset(cell_id for cell_id, count in self._count_of.items() if count > 1 and cell_id)

    def head(self, index: int) -> CellHead:
        known = self._heads[index]
        if known is None:
            known = self._heads[index] = head_of(self._shared[index])
        return known

    def entry(self, index: int) -> OutlineEntry:
        """The cell in an outline. Made once for each state of a cell."""
        known = self._entries[index]
        if known is None:
            known = self._entries[index] = entry_of(self.head(index))
        return known

    def shared(self, index: int) -> object:
        """What the shared document has there, a Map if it is a cell.

        Kept, because the document itself counts from its start to find one.
        """
        return self._shared[index]

    def heads(self) -> list[CellHead]:
        with self._doc.transaction():
            return [self.head(index) for index in range(len(self._ids))]

    def on_change(self, listener: Callable[[CellsChanged], None]) -> Callable[[], None]:
        """Call `listener` after every transaction that touched cells, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _reload(self) -> None:
        with self._doc.transaction():
            self._shared = [self._cells[index] for index in range(len(self._cells))]
            self._ids = [id_of(cell) for cell in self._shared]
        self._heads = [None] * len(self._ids)
        self._entries = [None] * len(self._ids)
        self._count_of = Counter(self._ids)

    def _follow(self, events: list[Any], transaction: object) -> None:
        touched: set[str] = set()
        order = False
        for event in events:
            path = cast("list[str | int]", event.path)
            if not path and isinstance(event, ArrayEvent):
                touched |= self._reorder(cast("list[dict[str, Any]]", event.delta))
                order = True
            elif path and isinstance(path[0], int) and path[0] < len(self._ids):
                index = path[0]
                self._heads[index] = self._entries[index] = None
                if len(path) == 1 and isinstance(event, MapEvent) and "id" in cast("dict[str, Any]", event.keys):
                    touched.add(self._ids[index])
                    self._gone(self._ids[index : index + 1])
                    self._ids[index] = id_of(self._shared[index])
                    self._count_of[self._ids[index]] += 1
                touched.add(self._ids[index])
        change = CellsChanged(frozenset(touched), order, ours=not came_from_others(transaction))
        for listener in tuple(self._listeners):
            listener(change)

    def _reorder(self, delta: list[dict[str, Any]]) -> set[str]:
        """Follow one change of the list of cells. The ids that came or went."""
        touched: set[str] = set()
        position = 0
        for step in delta:
            if "retain" in step:
                position += step["retain"]
            elif "delete" in step:
                end = position + step["delete"]
                touched.update(self._ids[position:end])
                self._gone(self._ids[position:end])
                del self._ids[position:end]
                del self._heads[position:end]
                del self._entries[position:end]
                del self._shared[position:end]
            else:
                cells = cast("list[object]", step["insert"])
                came = [id_of(cell) for cell in cells]
                self._ids[position:position] = came
                self._count_of.update(came)
                self._heads[position:position] = [None] * len(came)
                self._entries[position:position] = [None] * len(came)
                self._shared[position:position] = cells
                touched.update(came)
                position += len(came)
        return touched

    def _gone(self, ids: Sequence[str]) -> None:
        for cell_id in ids:
            self._last_seen_at.pop(cell_id, None)
            self._count_of[cell_id] -= 1
            if self._count_of[cell_id] <= 0:
                del self._count_of[cell_id]
