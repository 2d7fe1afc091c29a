"""What an engine brings to search: an index of words, and one of vectors."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from cellwright.storage.database import Transaction
from cellwright.storage.search.entries import PutEntry, WaitingEntry, ids_in_scope
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
        """Entries that have all words; if there are too few of them, then also those that have any word."""
        ...


class VectorIndex(Protocol):
    def prepare(self, tx: Transaction, model: str, dimensions: int) -> bool:
        """Make ready for vectors of this model. False if this database cannot hold vectors."""
        ...

    def is_there(self, tx: Transaction) -> bool:
        """Whether `prepare` has succeeded before."""
        ...

    def write(self, tx: Transaction, model: str, waiting: Sequence[WaitingEntry], vectors: "Vectors") -> None: ...

    def rescope(self, tx: Transaction, tenant: str, entry: int) -> None:
        """Note that the values by which the entry is filtered have changed."""
        ...

    def remove(self, tx: Transaction, tenant: str, entry: int) -> None: ...

    def clear(self, tx: Transaction) -> None: ...

    def ranked(self, tx: Transaction, query: Query, model: str, vector: "Vectors", limit: int) -> Ranked:
        """Entries nearest to the vector, by cosine."""
        ...


def all_then_any(words: Sequence[str], limit: int, matches: Callable[[bool], Ranked]) -> Ranked:
    """Entries that have all words; if there are fewer than `limit`, then also those that have any word.

    `matches` finds entries with all words if it is called with True, and with any word otherwise.
    """
    ranked = matches(True)
    if len(ranked) < limit and len(words) > 1:
        ids = {entry for entry, _ in ranked}
        others = [(entry, score) for entry, score in matches(False) if entry not in ids]
        ranked += others[: limit - len(ranked)]
    return ranked


def ranked_in_scope(tx: Transaction, query: Query, limit: int, best: Callable[[int], Ranked]) -> Ranked:
    """The `limit` best entries that pass the query's filters. `best` reads that many entries from an index of words.

    The index has digests of the filters' values, and two digests may be equal. Entries whose rows do not match are replaced by others.
    """
    depth = limit
    while True:
        candidates = best(depth)
        ids = ids_in_scope(tx, query, [entry for entry, _ in candidates])
        ranked = [(entry, score) for entry, score in candidates if entry in ids]
        if len(ranked) >= limit or len(candidates) < depth:
            return ranked[:limit]
        depth *= 4
