"""Search by a LanceDB index in a folder or bucket beside the database.

The database keeps its own index too, in the same transaction as the entries, and answers whenever the one in LanceDB does not have all that
the tenant has written, or cannot be read. So words are found at once, and a lost index costs time alone.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cellwright.storage.database import Database, Engine, Transaction
from cellwright.storage.lance.feed import LanceFeed
from cellwright.storage.lance.place import LanceFailed, LancePlace
from cellwright.storage.lance.rows import Source
from cellwright.storage.lance.schema import watch_vectors
from cellwright.storage.lance.table import LanceTable
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.engines import Ranked, VectorIndex, Words
from cellwright.storage.search.entries import PutEntry, WaitingEntry, matching
from cellwright.storage.search.indexed import IndexedSearch, Progress
from cellwright.storage.search.port import Entry, Query

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors


class LanceSearch(IndexedSearch):
    """The index in LanceDB, over the one of the database."""

    def __init__(
        self, database: Database, words: Words, vectors: VectorIndex, place: LancePlace, models: Models | None
    ) -> None:
        self.feed = LanceFeed(database, Source(database.engine, vectors), place)
        answers = LanceAnswers(self.feed)
        super().__init__(database, LanceWords(words, answers), LanceVectors(database.engine, vectors, answers), models)

    def put(self, tx: Transaction, entries: Sequence[Entry]) -> None:
        super().put(tx, entries)
        self.feed.wake()

    def remove(self, tx: Transaction, tenant: str, kind: str, thing: str, part: str | None = None) -> None:
        super().remove(tx, tenant, kind, thing, part)
        self.feed.wake()

    async def reindex(self, progress: Progress = lambda _done, _total: None) -> int:
        done = await super().reindex(progress)
        await self.feed.rebuild(progress)
        return done

    async def close(self) -> None:
        await super().close()
        await self.feed.close()


class LanceAnswers:
    """What LanceDB says, if it can be believed."""

    def __init__(self, feed: LanceFeed) -> None:
        self._feed = feed

    def ask(self, tx: Transaction, query: Query, question: Callable[[LanceTable], Ranked | None]) -> Ranked | None:
        """None if the database has to be asked: the index is behind, cannot be read, or has what the rows do not bear out."""
        table = self._feed.current(tx, query.tenant)
        if table is None:
            return None
        try:
            found = question(table)
        except LanceFailed as error:
            self._feed.report(table, error)
            return None
        if found is None:
            return None
        ids = [entry for entry, _ in found]
        if len(matching(tx, query, ids)) < len(set(ids)):
            return None
        self._feed.answered += 1
        return found


class LanceWords:
    def __init__(self, words: Words, answers: LanceAnswers) -> None:
        self._words = words
        self.answers = answers

    def write(self, tx: Transaction, put: PutEntry, entry: Entry) -> None:
        self._words.write(tx, put, entry)

    def remove(self, tx: Transaction, entry: int) -> None:
        self._words.remove(tx, entry)

    def clear(self, tx: Transaction) -> None:
        self._words.clear(tx)

    def ranked(self, tx: Transaction, query: Query, words: Sequence[str], limit: int) -> Ranked:
        found = self.answers.ask(tx, query, lambda table: _matching(table, query, words, limit))
        return self._words.ranked(tx, query, words, limit) if found is None else found


def _matching(table: LanceTable, query: Query, words: Sequence[str], limit: int) -> Ranked:
    found = table.by_words(query, words, every=True, limit=limit)
    if len(found) < limit and len(words) > 1:
        known = {entry for entry, _ in found}
        some = table.by_words(query, words, every=False, limit=limit)
        found += [one for one in some if one[0] not in known][: limit - len(found)]
    return found


class LanceVectors:
    def __init__(self, engine: Engine, vectors: VectorIndex, answers: LanceAnswers) -> None:
        self._engine = engine
        self._vectors = vectors
        self._answers = answers

    def prepare(self, tx: Transaction, model: str, dimensions: int) -> bool:
        prepared = self._vectors.prepare(tx, model, dimensions)
        if prepared:
            watch_vectors(tx, self._engine)
        return prepared

    def is_there(self, tx: Transaction) -> bool:
        return self._vectors.is_there(tx)

    def write(self, tx: Transaction, model: str, waiting: Sequence[WaitingEntry], vectors: "Vectors") -> None:
        self._vectors.write(tx, model, waiting, vectors)

    def rescope(self, tx: Transaction, tenant: str, entry: int) -> None:
        self._vectors.rescope(tx, tenant, entry)

    def remove(self, tx: Transaction, tenant: str, entry: int) -> None:
        self._vectors.remove(tx, tenant, entry)

    def clear(self, tx: Transaction) -> None:
        self._vectors.clear(tx)

    def ranked(self, tx: Transaction, query: Query, model: str, vector: "Vectors", limit: int) -> Ranked:
        found = self._answers.ask(tx, query, lambda table: table.by_meaning(query, model, vector, limit))
        return self._vectors.ranked(tx, query, model, vector, limit) if found is None else found
