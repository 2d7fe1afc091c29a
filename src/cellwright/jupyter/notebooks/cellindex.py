"""The cells of a shared notebook in order, kept up to date from its events, so that a lookup costs nothing."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Protocol, cast

from pycrdt import Array, ArrayEvent, Doc, Map, MapEvent, Subscription, TransactionEvent

from cellwright.core.errors import InvalidArgument
from cellwright.jupyter.documents.room import came_from_others
from cellwright.jupyter.documents.updates import MAX_DEPTH, nested_too_deeply
from cellwright.jupyter.model import CellHead
from cellwright.jupyter.notebooks.cells import head_of, id_of
from cellwright.jupyter.notebooks.outline import OutlineEntry, entry_of
from cellwright.jupyter.notebooks.views import Order, Sight, Since, fingerprint
from cellwright.notebook.addressing import execution_count_in, no_such_cell, only_cell_showing

PLACINGS = count()
"""Numbers the placings of cells, in all notebooks."""
OWN_NOTES = "cellwright"
"""The map of a shared document in which we keep notes of our own. Changes in it are not changes of cells."""


@dataclass(frozen=True, slots=True)
class CellsChanged:
    """What one transaction did to the cells."""

    cells: frozenset[str]
    """Ids of cells that came, went or have other contents."""
    order: bool
    """Whether cells came, went or moved."""
    ours: bool
    """Whether this process did it."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """What became of cells for a while. Each has a number where it is placed, because several may have the same id."""

    heads: dict[int, CellHead]
    """The cells that changed or went, as they were before that."""
    came: set[int]
    """Those that were put in, also where they were before, with another type."""


class _Followed(Protocol):
    """A shared type, or the document, that sends events until it is unobserved."""

    def unobserve(self, subscription: Subscription) -> None: ...


class CellIndex:
    """Ids and heads of all cells by position. If it is made before the document is filled, building it takes one event."""

    def __init__(self, doc: Doc[Any]) -> None:
        self._cells: Array[object] = doc.get("cells", type=Array)
        self._doc = doc
        self._ids: list[str] = []
        self._placed: list[int] = []
        self._shared: list[object] = []
        self._heads: list[CellHead | None] = []
        self._revisions: list[str] = []
        self._counts: list[int | None] = []
        self._counts_shown: tuple[int | None, ...] | None = None
        """The counts of the last sight, which an edit of a text does not change."""
        self._sight: Sight | None = None
        self._order: Order | None = None
        self._latest: tuple[Sight, set[int]] | None = None
        """The last sight since which the order is the same, and the indexes of the cells that changed since."""
        self.unread_count = 0
        """How many cells have not been read in their present state."""
        self._entries: list[OutlineEntry | None] = []
        self._count_of: Counter[str] = Counter()
        self._last_seen_at: dict[str, int] = {}
        self._listeners: list[Callable[[CellsChanged], None]] = []
        self._replaced: Replaced | None = None
        self._heard = self._doubtful = self._deaf = False
        self._reload()
        other_maps = (doc.get("meta", type=Map), doc.get("state", type=Map), doc.get(OWN_NOTES, type=Map))
        # The second argument works with all versions of pycrdt; only newer ones also have it in their events.
        self._followed: list[tuple[_Followed, Subscription]] = [
            (self._cells, self._cells.observe_deep(cast("Any", self._follow))),
            *((shared_map, shared_map.observe_deep(cast("Any", self._hear))) for shared_map in other_maps),
            (doc, doc.observe(self._after)),
        ]

    def close(self) -> None:
        """Stop following. The document would stay in memory for as long as anybody follows it."""
        while self._followed:
            followed, subscription = self._followed.pop()
            followed.unobserve(subscription)
        self._listeners.clear()

    @property
    def unheard(self) -> bool:
        """Whether cells of this document change without an event.

        That happens if the server lost a part of the document's history, for instance because its disk was full for a while.
        The server does not hear of such changes either, and does not save them.
        """
        self._look_again()
        return self._deaf

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

    def named(self, name: str) -> int:
        """The index of the cell with this id, or of the one that people call [12] by its execution count."""
        count = None if name in self._count_of else execution_count_in(name)
        if count is None:
            return self.find(name)
        showing = [index for index, head in enumerate(self.heads()) if head.execution_count == count]
        return only_cell_showing(name, self._ids, showing)

    @property
    def duplicates(self) -> frozenset[str]:
        return frozenset(cell_id for cell_id, count in self._count_of.items() if count > 1 and cell_id)

    def head(self, index: int) -> CellHead:
        self._look_again()
        head = self._heads[index]
        if head is None:
            head = self._heads[index] = head_of(self._shared[index])
            self._note(index, head)
            self.unread_count -= 1
        return head

    def sight(self) -> Sight:
        """The notebook as it is now, to be remembered with what is shown of it."""
        self._look_again()
        if self.unread_count:
            self.heads()
        if self._sight is None:
            self._sight = self._new_sight()
            self._latest = (self._sight, set())
        return self._sight

    def _new_sight(self) -> Sight:
        if self._counts_shown is None:
            self._counts_shown = tuple(self._counts)
        revisions, counts = tuple(self._revisions), self._counts_shown
        if self._latest is None:
            return Sight(self.order, revisions, counts)
        before, changed = self._latest
        grown = sum(
            fingerprint(self._ids[index], revisions[index], counts[index])
            - fingerprint(self._ids[index], before.revisions[index], before.counts[index])
            for index in changed
        )
        since = Since(before.token, frozenset(changed), before.fingerprint + grown)
        return Sight(self.order, revisions, counts, since=since)

    @property
    def order(self) -> Order:
        """The cells as they stand one after the other."""
        if self._order is None:
            self._order = Order(tuple(self._ids), tuple(self._placed))
        return self._order

    def _note(self, index: int, head: CellHead) -> None:
        self._revisions[index] = head.revision
        if self._counts[index] != head.execution_count:
            self._counts[index], self._counts_shown = head.execution_count, None
        if self._latest is not None:
            self._latest[1].add(index)

    def entry(self, index: int) -> OutlineEntry:
        """The cell's entry in an outline, made once for each state of the cell."""
        self._look_again()
        entry = self._entries[index]
        if entry is None:
            entry = self._entries[index] = entry_of(self.head(index))
        return entry

    def shared(self, index: int) -> object:
        """The entry of the shared document at this index, a Map if it is a cell.

        It is kept here, because the document itself counts from its start to find one.
        """
        return self._shared[index]

    def heads(self) -> list[CellHead]:
        self._look_again()
        if self.unread_count:
            with self._doc.transaction():
                index = -1
                while self.unread_count:
                    index = self._heads.index(None, index + 1)
                    self.head(index)
        return cast("list[CellHead]", self._heads.copy())

    @contextmanager
    def replaced(self) -> Generator[Replaced]:
        """What becomes of cells meanwhile."""
        self.sight()
        self._replaced = replaced = Replaced({}, set())
        try:
            yield replaced
        finally:
            self._replaced = None

    def _note_replaced(self, indexes: Iterable[int]) -> None:
        if self._replaced is None:
            return
        for index in indexes:
            head = self._heads[index]
            if head is not None:
                self._replaced.heads.setdefault(self._placed[index], head)

    def on_change(self, listener: Callable[[CellsChanged], None]) -> Callable[[], None]:
        """Call `listener` after every transaction that touched cells, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _reload(self) -> None:
        with self._doc.transaction():
            self._shared = [self._cells[index] for index in range(len(self._cells))]
            self._ids = [id_of(cell) for cell in self._shared]
        self._placed = _placings(len(self._ids))
        self._heads = [None] * len(self._ids)
        self._revisions = [""] * len(self._ids)
        self._counts = [None] * len(self._ids)
        self.unread_count = len(self._ids)
        self._entries = [None] * len(self._ids)
        self._count_of = Counter(self._ids)

    def _hear(self, _events: list[Any], _transaction: object) -> None:
        self._heard = True

    def _after(self, _event: TransactionEvent) -> None:
        """A transaction is over. One without any event may have changed cells all the same; they cannot be read here yet."""
        self._doubtful = self._doubtful or self._deaf or not self._heard
        self._heard = False

    def _look_again(self) -> None:
        """Find cells that have changed without an event."""
        if not self._doubtful:
            return
        self._doubtful = False
        touched: set[str] = set()
        with self._doc.transaction():
            for index, old_head in enumerate(self._heads):
                if old_head is not None:
                    # Also if it is equal: the outputs of its cell may have changed.
                    self._note_replaced([index])
                    head = self._heads[index] = head_of(self._shared[index])
                    self._note(index, head)
                    self._sight = None
                    if head != old_head:
                        self._entries[index] = None
                        touched.add(self._ids[index])
        if touched:
            self._deaf = True
            self._tell(CellsChanged(frozenset(touched), order=False, ours=False))

    def _tell(self, change: CellsChanged) -> None:
        for listener in tuple(self._listeners):
            listener(change)

    def _follow(self, events: list[Any], transaction: object) -> None:
        self._heard = True
        self._sight = None
        touched: set[str] = set()
        order = False
        for event in events:
            path = cast("list[str | int]", event.path)
            if len(path) > MAX_DEPTH:
                raise nested_too_deeply()
            if not path and isinstance(event, ArrayEvent):
                touched |= self._reorder(cast("list[dict[str, Any]]", event.delta))
                order = True
                self._order = self._latest = self._counts_shown = None
            elif path and isinstance(path[0], int) and path[0] < len(self._ids):
                index = path[0]
                self._note_replaced([index])
                self.unread_count += self._heads[index] is not None
                self._heads[index] = self._entries[index] = None
                if len(path) == 1 and isinstance(event, MapEvent) and "id" in cast("dict[str, Any]", event.keys):
                    touched.add(self._ids[index])
                    self._gone(self._ids[index : index + 1])
                    self._ids[index] = id_of(self._shared[index])
                    self._order = self._latest = self._counts_shown = None
                    self._count_of[self._ids[index]] += 1
                touched.add(self._ids[index])
        self._tell(CellsChanged(frozenset(touched), order, ours=not came_from_others(transaction)))

    def _reorder(self, delta: list[dict[str, Any]]) -> set[str]:
        """Apply one change of the list of cells. Returns the ids that came or went."""
        touched: set[str] = set()
        position = 0
        for step in delta:
            if "retain" in step:
                position += step["retain"]
            elif "delete" in step:
                end = position + step["delete"]
                self._note_replaced(range(position, end))
                touched.update(self._ids[position:end])
                self._gone(self._ids[position:end])
                del self._ids[position:end]
                del self._placed[position:end]
                self.unread_count -= self._heads[position:end].count(None)
                del self._heads[position:end]
                del self._revisions[position:end]
                del self._counts[position:end]
                del self._entries[position:end]
                del self._shared[position:end]
            else:
                cells = cast("list[object]", step["insert"])
                new_ids = [id_of(cell) for cell in cells]
                self._ids[position:position] = new_ids
                self._placed[position:position] = placed = _placings(len(new_ids))
                if self._replaced is not None:
                    self._replaced.came.update(placed)
                self._count_of.update(new_ids)
                self._heads[position:position] = [None] * len(new_ids)
                self._revisions[position:position] = [""] * len(new_ids)
                self._counts[position:position] = [None] * len(new_ids)
                self.unread_count += len(new_ids)
                self._entries[position:position] = [None] * len(new_ids)
                self._shared[position:position] = cells
                touched.update(new_ids)
                position += len(new_ids)
        return touched

    def _gone(self, ids: Sequence[str]) -> None:
        for cell_id in ids:
            self._last_seen_at.pop(cell_id, None)
            self._count_of[cell_id] -= 1
            if self._count_of[cell_id] <= 0:
                del self._count_of[cell_id]


def _placings(number: int) -> list[int]:
    return list(islice(PLACINGS, number))
