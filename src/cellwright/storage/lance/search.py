"""Search by a LanceDB index in a folder or bucket beside the database.

The database has its own index too, written in the same transaction as the entries. It answers whenever the one in LanceDB does not have
everything that the tenant has written, or cannot be read. So new words are found at once, and losing the LanceDB index costs only time.
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
from cellwright.storage.search.engines import Ranked, VectorIndex, Words, all_then_any
from cellwright.storage.search.entries import PutEntry, WaitingEntry, ids_in_scope
from cellwright.storage.search.indexed import IndexedSearch
from cellwright.storage.search.port import Entry, Progress, Query

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors


class LanceSearch(IndexedSearch):
    """The index in LanceDB, with that of the database to fall back on."""

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
    """Asks LanceDB, and checks its answers."""

    def __init__(self, feed: LanceFeed) -> None:
        self._feed = feed

    def ask(self, tx: Transaction, query: Query, question: Callable[[LanceTable], Ranked | None]) -> Ranked | None:
        """LanceDB's answer. None, so that the database is asked, if the index is behind, cannot be read, or disagrees with the rows."""
        table = self._feed.current(tx, query.tenant)
        if table is None:
            return None
        try:
            ranked = question(table)
        except LanceFailed as error:
            self._feed.report(table, error)
            return None
        if ranked is None:
            return None
        ids = [entry for entry, _ in ranked]
        if len(ids_in_scope(tx, query, ids)) < len(set(ids)):
            return None
        self._feed.answered += 1
        return ranked


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
        def question(table: LanceTable) -> Ranked:
            return all_then_any(words, limit, lambda every: table.by_words(query, words, every=every, limit=limit))

        ranked = self.answers.ask(tx, query, question)
        return self._words.ranked(tx, query, words, limit) if ranked is None else ranked


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
        ranked = self._answers.ask(tx, query, lambda table: table.by_meaning(query, model, vector, limit))
        return self._vectors.ranked(tx, query, model, vector, limit) if ranked is None else ranked
