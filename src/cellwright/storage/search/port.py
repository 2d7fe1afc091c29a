"""The search port: entries that can be found, and queries for them. Indexes are derived data: each can be dropped and rebuilt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from cellwright.storage.database import Transaction

LONGEST_OF_A_HIT = 16_384
"""Characters of a text that a hit has. A hundred whole texts could be hundreds of megabytes."""

Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is in all."""
T = TypeVar("T")


class Mode(StrEnum):
    """How to search: by words, by meaning, or by both, fused by rank."""

    TEXT = "text"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class Key:
    """Names a thing of a tenant: a cell of a pad is `Key(tenant, "pad", pad_id, cell_id)`, the pad itself has no part."""

    tenant: str
    kind: str
    thing: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A text that can be found."""

    key: Key
    text: str
    title: str = ""
    namespace: str = ""
    tags: tuple[str, ...] = ()
    language: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for. Filters apply before the limit; several values of one filter mean any of them."""

    tenant: str
    text: str
    kinds: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    limit: int = 10
    mode: Mode = Mode.HYBRID


@dataclass(frozen=True, slots=True)
class Hit:
    entry: Entry
    score: float
    row: int | None = None
    """The id of the row with the whole text, if `entry` has only the beginning of it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, and in which mode: without a model a hybrid search is one by words."""

    hits: tuple[Hit, ...]
    mode: Mode
    embedder: str | None = None


class SearchIndex(Protocol):
    """Parts put their entries in, in the same transaction that changes the thing itself."""

    def put(self, tx: Transaction, entries: Sequence[Entry]) -> None:
        """Make entries findable, by words at once and by meaning a moment later. They replace entries with the same key."""
        ...

    def remove(self, tx: Transaction, tenant: str, kind: str, thing: str, part: str | None = None) -> None:
        """Remove the entry of one part of a thing, or all entries of the thing."""
        ...

    async def search(self, query: Query) -> Found: ...

    async def of_each(self, hits: Sequence[Hit], describe: Callable[[Entry], T]) -> list[T]:
        """What `describe`, called in a thread, returns for each hit with its whole text. Only one such text is in memory at a time."""
        ...

    async def close(self) -> None:
        """Stop background work."""
        ...
