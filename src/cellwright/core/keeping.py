"""Where a notebook can be kept for good: filled in for each place by whoever has that place."""

from dataclasses import dataclass
from typing import Protocol

from cellwright.core.formats.model import Book
from cellwright.core.types import Call


@dataclass(frozen=True, slots=True)
class Kept:
    """Where it is now, and in words what that place could not hold."""

    path: str
    uri: str
    losses: tuple[str, ...] = ()


class Keeper(Protocol):
    """One kind of place."""

    @property
    def example(self) -> str:
        """What a path to this place looks like."""
        ...

    def takes(self, path: str) -> bool:
        """Whether the path is one to this place."""
        ...

    async def keep(self, call: Call, path: str, book: Book) -> Kept:
        """Write the book there. What is there already is never overwritten."""
        ...
