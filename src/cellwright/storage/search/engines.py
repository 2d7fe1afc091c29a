"""What an engine brings to search: an index of words, and one of vectors."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from cellwright.storage.database import Transaction
from cellwright.storage.search.entries import PutEntry, WaitingEntry
from cellwright.storage.search.port import Entry, Query

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors

Ranked = list[tuple[int, float]]
"""Ids of entries with a score, best first."""


class Words(Protocol):
    def write(self, tx: Transaction, put: PutEntry, entry: Entry) -> None: ...

    def remove(self, tx: Transaction, entry: int) -> None: ...

    def clear(self, tx: Transaction) -> None: ...

    def ranked(self, tx: Transaction, query: Query, words: Sequence[str], limit: int) -> Ranked:
        """Entries that have all the words; if these are few, then those that have any."""
        ...


class VectorIndex(Protocol):
    def prepare(self, tx: Transaction, model: str, dimensions: int) -> bool:
        """Make ready for vectors of this model. False if this database cannot hold any."""
        ...

    def is_there(self, tx: Transaction) -> bool:
        """Whether it was made ready."""
        ...

    def write(self, tx: Transaction, model: str, waiting: Sequence[WaitingEntry], vectors: "Vectors") -> None: ...

    def rescope(self, tx: Transaction, tenant: str, entry: int) -> None:
        """What the entry is filtered by has changed."""
        ...

    def remove(self, tx: Transaction, tenant: str, entry: int) -> None: ...

    def clear(self, tx: Transaction) -> None: ...

    def ranked(self, tx: Transaction, query: Query, model: str, vector: "Vectors", limit: int) -> Ranked:
        """Entries nearest to the vector, by cosine."""
        ...
