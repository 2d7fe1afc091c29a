"""What can be found, and where it is looked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from cellwright.storage.search import Entry


class Kind(StrEnum):
    """The kinds of things there are to be found. Also how the index names them."""

    PAD = "pad"
    THINKING = "thinking"
    NOTEBOOK = "notebook"
    FILE = "file"
    DISCOVERY = "discovery"


@dataclass(frozen=True, slots=True)
class Thing:
    """Something as it was when it was listed: another stamp means other contents."""

    kind: Kind
    id: str
    stamp: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """What a place has, most wanted first. `left_out` is how much more there is than is indexed."""

    things: Sequence[Thing]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """A thing with what is findable of it; nothing if it is gone, or holds no text."""

    thing: Thing
    entries: Sequence[Entry]


class Place(Protocol):
    """Where things are that nobody puts into the index by themselves."""

    @property
    def tenant(self) -> str:
        """Under whose name they are in the index."""
        ...

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What is known of these kinds, and is not listed any more, is gone."""
        ...

    @property
    def keep_seconds(self) -> float | None:
        """After so long without being looked at, what is known is forgotten, whoever it belongs to; None means never."""
        ...

    async def listing(self) -> Listing: ...

    async def read(self, things: Sequence[Thing]) -> list[Content]:
        """Some of what was listed, a slice at a time."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """One thing that was found, by its best part."""

    kind: Kind
    title: str
    uri: str
    """Reads the part that was found."""
    whole: str
    """Reads all of it as text, where there is such a resource."""
    score: float
    snippet: str
    path: str | None = None
    """Of a notebook or a file, as the tools for them take it."""
    cell_id: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of what was listed is indexed, and what could not be looked at."""

    done: int = 0
    total: int = 0
    left_out: int = 0
    problems: tuple[str, ...] = ()
    running: bool = False

    @property
    def complete(self) -> bool:
        return not self.running and not self.left_out and not self.problems
