"""Search over a database: rows, words and vectors are written and read together."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from cellwright.core.errors import CellwrightError
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search import entries as rows
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.embeddings.port import NONE, Embedder, EmbeddingChoice
from cellwright.storage.search.engines import Ranked, VectorIndex, Words
from cellwright.storage.search.fusion import fused, meaning_weight
from cellwright.storage.search.indexing import Indexer
from cellwright.storage.search.port import Entry, Found, Hit, Mode, Progress, Query
from cellwright.storage.search.words import query_words

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors

log = logging.getLogger(__name__)

DEPTH = 50
"""How many entries of each ranking are fused."""
NEAREST = 10
"""The languages of so many entries decide how much meaning counts."""
LEAST_COSINE = 0.1
"""Below this a text is unrelated to the question."""
REINDEXED_AT_ONCE = 50

T = TypeVar("T")


class IndexedSearch:
    """Parts put entries in, callers find them. Without models it searches by words only."""

    def __init__(self, database: Database, words: Words, vectors: VectorIndex, models: Models | None) -> None:
        self._database = database
        self._words = words
        self.vectors = vectors
        self._models = models or Models(EmbeddingChoice(NONE))
        self.indexer = Indexer(database, vectors, self._models)
        # A search over several tenants asks the same question for each of them.
        self._last_question: tuple[str, Vectors] | None = None

    def put(self, tx: Transaction, entries: Sequence[Entry]) -> None:
        for entry in entries:
            put = rows.put_entry(tx, entry)
            self._words.write(tx, put, entry)
            if put.text_changed:
                self._expect_vector(tx, put, entry)
            elif put.scope_changed:
                self.vectors.rescope(tx, entry.key.tenant, put.id)
        if entries:
            self.indexer.wake()

    def _expect_vector(self, tx: Transaction, put: rows.PutEntry, entry: Entry) -> None:
        if rows.text_for_meaning(entry.key, entry.title, entry.text):
            rows.enqueue(tx, put.id)
        elif not put.is_new:
            rows.dequeue(tx, put.id)
            self.vectors.remove(tx, entry.key.tenant, put.id)

    def remove(self, tx: Transaction, tenant: str, kind: str, thing: str, part: str | None = None) -> None:
        for entry in rows.remove_entries(tx, tenant, kind, thing, part):
            self._words.remove(tx, entry)
            rows.dequeue(tx, entry)
            self.vectors.remove(tx, tenant, entry)

    async def search(self, query: Query) -> Found:
        words = query_words(query.text)
        embedder = vector = None
        if query.mode is not Mode.TEXT and query.text.strip() and self._models.usable:
            embedder, vector = await asyncio.to_thread(self._embed, query.text)

        def work(tx: Transaction) -> tuple[Found, bool]:
            model = embedder.name if embedder is not None and self.vectors.is_there(tx) else None
            current = model is not None and rows.read_state(tx).model == model
            behind = rows.is_behind(tx) or not current
            if model is None or vector is None or not current:
                ranked = self._by_words(tx, query, words, query.limit)
                return Found(rows.read_hits(tx, query, ranked), Mode.TEXT), behind
            ranked = self._by_meaning(tx, query, words, model, vector)
            return Found(rows.read_hits(tx, query, ranked), query.mode, model), behind

        answer, behind = await self._database.read(work)
        if behind:
            self.indexer.wake()
        return answer

    async def of_each(self, hits: Sequence[Hit], describe: Callable[[Entry], T]) -> list[T]:
        if all(hit.row is None for hit in hits):
            return await asyncio.to_thread(lambda: [describe(hit.entry) for hit in hits])
        return await self._database.read(lambda tx: [describe(rows.whole(tx, hit)) for hit in hits])

    def _embed(self, text: str) -> "tuple[Embedder, Vectors] | tuple[None, None]":
        embedder = self._models.load()
        if embedder is None:
            return None, None
        last = self._last_question
        if last is not None and last[0] == text:
            return embedder, last[1]
        try:
            vector = embedder.embed([text])[0]
        except CellwrightError as error:
            log.warning("query_not_embedded error=%s", error.message)
            return None, None
        self._last_question = (text, vector)
        return embedder, vector

    def _by_words(self, tx: Transaction, query: Query, words: Sequence[str], limit: int) -> Ranked:
        return self._words.ranked(tx, query, words, limit) if words else []

    def _by_meaning(self, tx: Transaction, query: Query, words: Sequence[str], model: str, vector: "Vectors") -> Ranked:
        depth = max(DEPTH, query.limit)
        nearest = self.vectors.ranked(tx, query, model, vector, depth)
        related = [(entry, score) for entry, score in nearest if score >= LEAST_COSINE]
        if query.mode is Mode.SEMANTIC:
            return related
        by_words = self._by_words(tx, query, words, depth)
        ids = [entry for entry, _ in related]
        languages = rows.read_languages(tx, ids[:NEAREST])
        return fused([entry for entry, _ in by_words], ids, meaning_weight(list(languages.values())))

    async def reindex(self, progress: Progress = lambda _done, _total: None) -> int:
        """Rebuild the words and vectors of every entry. Returns how many entries there are. Searches meanwhile find what is done."""

        def clear(tx: Transaction) -> int:
            self._words.clear(tx)
            self.vectors.clear(tx)
            return rows.count(tx)

        total = await self._database.write(clear)
        last = done = 0
        while done < total:
            last, count = await self._database.write(lambda tx, after=last: self._refill(tx, after))
            if not count:
                break
            done += count
            progress(done, total)
        await self.indexer.finish(progress)
        return done

    def _refill(self, tx: Transaction, after: int) -> tuple[int, int]:
        """Index the next entries. Returns the last id and how many there were."""
        batch = rows.read_after(tx, after, REINDEXED_AT_ONCE)
        for number, entry in batch:
            put = rows.PutEntry(number, is_new=False, text_changed=True, scope_changed=True)
            self._words.write(tx, put, entry)
            self._expect_vector(tx, put, entry)
        return (batch[-1][0] if batch else after), len(batch)

    async def close(self) -> None:
        """Stop the background thread. Entries that still wait for a vector get it after the next start."""
        await self.indexer.close()
