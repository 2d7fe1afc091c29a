"""The edits that agents made to a notebook, remembered so that each can be undone without touching the edits of others.

Y's own undo is not used: it keeps every deleted byte in the document, and forgets everything when the connection is lost.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cellwright.core.weight import weight
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.cellmetadata import PASSING

MAX_GROUPS = 50
MAX_BYTES = 8 * 1024 * 1024
"""Of one notebook's edits."""
MAX_NOTEBOOKS = 64
ALL_BYTES = 64 * 1024 * 1024
"""Of the edits of all notebooks."""


@dataclass(frozen=True, slots=True)
class CellPlace:
    """Where a cell was: after which cell (None: it was the first), and at which index, in case that cell is gone."""

    after: str | None
    index: int


@dataclass(frozen=True, slots=True)
class Inserted:
    """Cells were inserted. Undo removes them, if nobody has worked on them since."""

    cells: tuple[tuple[str, str], ...]
    """Id and source of each."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Cells were removed. Undo puts each back after the cell it followed."""

    cells: tuple[tuple[CellPlace, JsonObject], ...]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A source changed from `before` to `after`."""

    cell_id: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Retyped:
    """A cell was replaced by another with the same id, as when its type changed; `before` is the whole cell as it was."""

    cell_id: str
    before: JsonObject
    after_source: str
    after_rest: JsonObject
    """What the cell has then beside its source; see `rest_of`."""


def rest_of(cell: JsonObject) -> JsonObject:
    """What people write in a cell beside its source: not its outputs, and not what JupyterLab notes of runs."""
    metadata: JsonObject = cell.get("metadata") or {}
    return {
        "cell_type": str(cell.get("cell_type", "")),
        "metadata": {key: value for key, value in metadata.items() if key not in PASSING},
        "attachments": cell.get("attachments") or {},
    }


@dataclass(frozen=True, slots=True)
class Moved:
    """Cells moved. Undo puts each back after the cell it followed, in this order, if nobody has moved it since."""

    cells: tuple[tuple[str, CellPlace], ...]
    landed: Mapping[str, tuple[str, str]]
    """The cells between which each of them came, of those that did not move; empty where there was none."""


def landing(ids: Sequence[str], moved: Collection[str]) -> dict[str, tuple[str, str]]:
    """For each of these cells, the last before it and the first after it that is none of them."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for order, beside in ((ids, before), (reversed(ids), after)):
        last = ""
        for cell_id in order:
            if cell_id in moved:
                beside[cell_id] = last
            else:
                last = cell_id
    return {cell_id: (before[cell_id], after[cell_id]) for cell_id in before}


@dataclass(frozen=True, slots=True)
class Cleared:
    """A cell's outputs were cleared."""

    cell_id: str
    outputs: tuple[JsonObject, ...]
    execution_count: int | None


@dataclass(frozen=True, slots=True)
class Remarked:
    """Entries of a cell's metadata changed; None stands for one that is not there."""

    cell_id: str
    before: JsonObject
    after: JsonObject


@dataclass(frozen=True, slots=True)
class TouchedCells:
    """Which cells a call of `author` put, changed, moved or removed; or put back as they were."""

    author: str
    ids: frozenset[str]
    moved: frozenset[str] = frozenset()
    before: Mapping[str, str] = field(default_factory=dict[str, str])
    """By cell id: the text that the cell had before, where it had another or was removed."""
    marked: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """By cell id: the entries of its metadata that changed."""
    retyped: frozenset[str] = frozenset()


Step = Inserted | Removed | Rewritten | Retyped | Moved | Cleared | Remarked


@dataclass(frozen=True, slots=True)
class EditGroup:
    """The edits of one call."""

    author: str
    what: str
    steps: tuple[Step, ...]

    @property
    def weight(self) -> int:
        """Bytes in memory."""
        return weight(self.steps)

    @property
    def touched(self) -> TouchedCells:
        ids: set[str] = set()
        moved: set[str] = set()
        before: dict[str, str] = {}
        marked: dict[str, frozenset[str]] = {}
        retyped: set[str] = set()
        for step in self.steps:
            match step:
                case Inserted(cells):
                    ids.update(cell_id for cell_id, _ in cells)
                case Removed(cells):
                    ids.update(str(cell.get("id", "")) for _, cell in cells)
                    before.update((str(cell.get("id", "")), str(cell.get("source", ""))) for _, cell in cells)
                case Moved(cells):
                    moved.update(cell_id for cell_id, _ in cells)
                case Rewritten() | Retyped() | Remarked():
                    ids.add(step.cell_id)
                    if isinstance(step, Rewritten):
                        before.setdefault(step.cell_id, step.before)
                    elif isinstance(step, Remarked):
                        marked[step.cell_id] = marked.get(step.cell_id, frozenset()).union(step.after)
                    else:
                        before.setdefault(step.cell_id, str(step.before.get("source", "")))
                        then, now = rest_of(step.before), step.after_rest
                        marked[step.cell_id] = _differing(then["metadata"], now["metadata"])
                        if then["cell_type"] != now["cell_type"]:
                            retyped.add(step.cell_id)
                case Cleared():
                    # Outputs are no work of the caller's: a run brings them again.
                    pass
        return TouchedCells(self.author, frozenset(ids | moved), frozenset(moved), before, marked, frozenset(retyped))


def _differing(before: JsonObject, after: JsonObject) -> frozenset[str]:
    return frozenset(key for key in before | after if before.get(key) != after.get(key))


class History:
    """The latest edits of one notebook, of all authors, within a bound of memory."""

    def __init__(self, grew: Callable[[], None] = lambda: None) -> None:
        self._groups: deque[tuple[EditGroup, int]] = deque()
        self._touched: deque[TouchedCells] = deque(maxlen=MAX_GROUPS)
        self._grew = grew
        self.weight = 0
        """Bytes in memory."""

    def add(self, author: str, what: str, steps: Sequence[Step]) -> None:
        if not steps:
            return
        group = EditGroup(author, what, tuple(steps))
        self._touched.append(group.touched)
        group_weight = group.weight
        self._groups.append((group, group_weight))
        self.weight += group_weight
        # A group that is too large by itself is forgotten, and all before it too: undo must not skip an edit in silence.
        while len(self._groups) > MAX_GROUPS or self.weight > MAX_BYTES:
            self.forget_oldest()
        self._grew()

    def forget_oldest(self) -> None:
        self.weight -= self._groups.popleft()[1]

    def last_of(self, author: str) -> EditGroup | None:
        return next((group for group, _ in reversed(self._groups) if group.author == author), None)

    def take_touched(self) -> list[TouchedCells]:
        """What was edited or taken back since this was last asked."""
        touched = list(self._touched)
        self._touched.clear()
        return touched

    def forget(self, group: EditGroup) -> None:
        """Forget an edit that was taken back."""
        self._touched.append(group.touched)
        for entry in self._groups:
            if entry[0] is group:
                self._groups.remove(entry)
                self.weight -= entry[1]
                return


class Histories:
    """The edits of all notebooks that were open lately, within one bound of memory.

    Edits are remembered when a connection is lost: undo works on the notebook as it is then.
    """

    def __init__(self) -> None:
        self._by_path: dict[str, History] = {}

    def of(self, path: str) -> History:
        history = self._by_path.pop(path, None) or History(self._trim)
        self._by_path[path] = history
        if len(self._by_path) > MAX_NOTEBOOKS:
            self._by_path.pop(next(iter(self._by_path)))
        return history

    def _trim(self) -> None:
        """Forget the oldest edits of the notebooks that were opened longest ago."""
        excess = sum(history.weight for history in self._by_path.values()) - ALL_BYTES
        for history in self._by_path.values():
            while excess > 0 and history.weight:
                before = history.weight
                history.forget_oldest()
                excess -= before - history.weight
