"""What an agent did to a notebook, kept so that it can be taken back without touching what others did.

Not Y's own undo: that one keeps every deleted byte in the document, and forgets all when the connection is lost.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cellwright.core.weight import weight
from cellwright.jupyter.model import JsonObject

MAX_GROUPS = 50
MAX_BYTES = 8 * 1024 * 1024
"""Of one notebook's edits."""
MAX_NOTEBOOKS = 64
ALL_BYTES = 64 * 1024 * 1024
"""Of the edits of all notebooks."""


@dataclass(frozen=True, slots=True)
class CellPlace:
    """Where a cell was: after which cell (None: it was the first), and at which index should that one be gone."""

    after: str | None
    index: int


@dataclass(frozen=True, slots=True)
class Inserted:
    """Cells came; taking it back removes them, if nobody has worked on them since."""

    cells: tuple[tuple[str, str], ...]
    """Id and source of each."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Cells went; each goes back after the cell it followed."""

    cells: tuple[tuple[CellPlace, JsonObject], ...]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A source changed from `before` to `after`."""

    cell_id: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Retyped:
    """A cell was replaced by another one of its id, as when its type changed; `before` is the whole cell as it was."""

    cell_id: str
    before: JsonObject
    after_source: str


@dataclass(frozen=True, slots=True)
class Moved:
    """Cells moved; each goes back after the cell it followed, in this order."""

    cells: tuple[tuple[str, CellPlace], ...]


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


Step = Inserted | Removed | Rewritten | Retyped | Moved | Cleared | Remarked


@dataclass(frozen=True, slots=True)
class EditGroup:
    """What one call did."""

    author: str
    what: str
    steps: tuple[Step, ...]

    @property
    def weight(self) -> int:
        """Bytes in memory."""
        return weight(self.steps)


class History:
    """The latest edits of one notebook, of all authors, within a bound of memory."""

    def __init__(self, grew: Callable[[], None] = lambda: None) -> None:
        self._groups: deque[tuple[EditGroup, int]] = deque()
        self._grew = grew
        self.weight = 0
        """Bytes in memory."""

    def add(self, author: str, what: str, steps: Sequence[Step]) -> None:
        if not steps:
            return
        group = EditGroup(author, what, tuple(steps))
        taken = group.weight
        self._groups.append((group, taken))
        self.weight += taken
        # One that is too large itself is not kept, nor is what came before it: undo must not skip an edit in silence.
        while len(self._groups) > MAX_GROUPS or self.weight > MAX_BYTES:
            self.forget_oldest()
        self._grew()

    def forget_oldest(self) -> None:
        self.weight -= self._groups.popleft()[1]

    def last_of(self, author: str) -> EditGroup | None:
        return next((group for group, _ in reversed(self._groups) if group.author == author), None)

    def forget(self, group: EditGroup) -> None:
        for entry in self._groups:
            if entry[0] is group:
                self._groups.remove(entry)
                self.weight -= entry[1]
                return


class Histories:
    """The edits of all notebooks that were open lately, within one bound of memory.

    What agents did is remembered past a lost connection: undo works on the notebook as it then is.
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
