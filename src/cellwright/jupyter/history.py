"""What an agent did to a notebook, kept so that it can be taken back without touching what others did.

Not Y's own undo: that one keeps every deleted byte in the document, and forgets all when the connection is lost.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from cellwright.jupyter.model import JsonObject

MAX_GROUPS = 50
MAX_CHARACTERS = 4_000_000


@dataclass(frozen=True, slots=True)
class Place:
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

    cells: tuple[tuple[Place, JsonObject], ...]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A source changed from `before` to `after`."""

    cell_id: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Retyped:
    """A cell changed its type; `before` is the whole cell as it was."""

    cell_id: str
    before: JsonObject
    after_source: str


@dataclass(frozen=True, slots=True)
class Moved:
    """Cells moved; each goes back after the cell it followed, in this order."""

    cells: tuple[tuple[str, Place], ...]


@dataclass(frozen=True, slots=True)
class Cleared:
    """A cell's outputs were cleared."""

    cell_id: str
    outputs: tuple[JsonObject, ...]
    execution_count: int | None


Step = Inserted | Removed | Rewritten | Retyped | Moved | Cleared


@dataclass(frozen=True, slots=True)
class EditGroup:
    """What one call did."""

    author: str
    what: str
    steps: tuple[Step, ...]

    @property
    def size(self) -> int:
        return len(repr(self.steps))


class History:
    """The latest edits of one notebook, of all authors, within a bound of memory."""

    def __init__(self) -> None:
        self._groups: deque[tuple[EditGroup, int]] = deque()
        self._size = 0

    def add(self, author: str, what: str, steps: Sequence[Step]) -> None:
        if not steps:
            return
        group = EditGroup(author, what, tuple(steps))
        size = group.size
        if size > MAX_CHARACTERS:
            # Not kept, and so is nothing before it: undo must not skip an edit in silence.
            self._groups.clear()
            self._size = 0
            return
        self._groups.append((group, size))
        self._size += size
        while len(self._groups) > MAX_GROUPS or self._size > MAX_CHARACTERS:
            self._size -= self._groups.popleft()[1]

    def last_of(self, author: str) -> EditGroup | None:
        return next((group for group, _ in reversed(self._groups) if group.author == author), None)

    def forget(self, group: EditGroup) -> None:
        for entry in self._groups:
            if entry[0] is group:
                self._groups.remove(entry)
                self._size -= entry[1]
                return
