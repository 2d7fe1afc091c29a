"""The search port: what is findable, and how it is asked for. Indexes are derived: each can be dropped and made again from the parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from cellwright.storage.database import Transaction

LONGEST_OF_A_HIT = 16_384
"""Characters: of a longer text a hit has the beginning. A hundred whole ones would be hundreds of megabytes."""

T = TypeVar("T")


class Mode(StrEnum):
    """How to look: by words, by meaning, or both fused by rank."""

    TEXT = "text"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class Key:
    """Which thing of whom: a cell of a pad is `Key(tenant, "pad", pad_id, cell_id)`, the pad itself has no part."""

    tenant: str
    kind: str
    thing: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something to be found."""

    key: Key
    text: str
    title: str = ""
    namespace: str = ""
    tags: tuple[str, ...] = ()
    language: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for. Filters hold before the limit; several values of one filter mean any of them."""

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
    """Where the whole text is, if `entry` has only the beginning of it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, and how it was looked for: without a model a hybrid search is one by words."""

    hits: tuple[Hit, ...]
    mode: Mode
    embedder: str | None = None


class SearchIndex(Protocol):
    """What the parts put in, in the transaction that changes the thing itself."""

    def put(self, tx: Transaction, entries: Sequence[Entry]) -> None:
        """Make these findable by their words at once, and by their meaning a moment later. Replaces what had the same key."""
        ...

    def remove(self, tx: Transaction, tenant: str, kind: str, thing: str, part: str | None = None) -> None:
        """Forget one part of a thing, or all of it."""
        ...

    async def search(self, query: Query) -> Found: ...

    async def of_each(self, hits: Sequence[Hit], tell: Callable[[Entry], T]) -> list[T]:
        """What `tell`, called in a thread, makes of each hit with its whole text. There is never more than one of these in memory."""
        ...

    async def close(self) -> None:
        """Stop what runs beside."""
        ...
