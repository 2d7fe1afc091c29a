"""Search over a database: rows, words and vectors kept together, asked together."""

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
from cellwright.storage.search.port import Entry, Found, Hit, Mode, Query
from cellwright.storage.search.words import looked_for

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors

log = logging.getLogger(__name__)

DEPTH = 50
"""How far down each ranking is looked at before they are fused."""
NEAREST = 10
"""Of so many entries the language is looked at."""
LEAST_COSINE = 0.1
"""Below this a text has nothing to do with the question."""
REINDEXED_AT_ONCE = 50

Progress = Callable[[int, int], None]
T = TypeVar("T")


class IndexedSearch:
    """What the parts put in, and what callers find. Without models, by words alone."""

    def __init__(self, database: Database, words: Words, vectors: VectorIndex, models: Models | None) -> None:
        self._database = database
        self._words = words
        self.vectors = vectors
        self._models = models or Models(EmbeddingChoice(NONE))
        self.indexer = Indexer(database, vectors, self._models)
        # Who looks into several tenants asks each of them the same.
        self._last_asked: tuple[str, Vectors] | None = None

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
        words = looked_for(query.text)
        embedder = vector = None
        if query.mode is not Mode.TEXT and query.text.strip() and self._models.wanted:
            embedder, vector = await asyncio.to_thread(self._embedded, query.text)

        def work(tx: Transaction) -> tuple[Found, bool]:
            model = embedder.name if embedder is not None and self.vectors.is_there(tx) else None
            current = model is not None and rows.read_state(tx).model == model
            behind = rows.is_behind(tx) or not current
            if model is None or vector is None or not current:
                said = self._by_words(tx, query, words, query.limit)
                return Found(rows.read_hits(tx, query, said), Mode.TEXT), behind
            ranked = self._by_both(tx, query, words, model, vector)
            return Found(rows.read_hits(tx, query, ranked), query.mode, model), behind

        found, behind = await self._database.read(work)
        if behind:
            self.indexer.wake()
        return found

    async def of_each(self, hits: Sequence[Hit], tell: Callable[[Entry], T]) -> list[T]:
        if all(hit.row is None for hit in hits):
            return await asyncio.to_thread(lambda: [tell(hit.entry) for hit in hits])
        return await self._database.read(lambda tx: [tell(rows.whole(tx, hit)) for hit in hits])

    def _embedded(self, text: str) -> "tuple[Embedder, Vectors] | tuple[None, None]":
        embedder = self._models.load()
        if embedder is None:
            return None, None
        last = self._last_asked
        if last is not None and last[0] == text:
            return embedder, last[1]
        try:
            vector = embedder.embed([text])[0]
        except CellwrightError as error:
            log.warning("query_not_embedded error=%s", error.message)
            return None, None
        self._last_asked = (text, vector)
        return embedder, vector

    def _by_words(self, tx: Transaction, query: Query, words: Sequence[str], limit: int) -> Ranked:
        return self._words.ranked(tx, query, words, limit) if words else []

    def _by_both(self, tx: Transaction, query: Query, words: Sequence[str], model: str, vector: "Vectors") -> Ranked:
        depth = max(DEPTH, query.limit)
        near = self.vectors.ranked(tx, query, model, vector, depth)
        meant = [(entry, score) for entry, score in near if score >= LEAST_COSINE]
        if query.mode is Mode.SEMANTIC:
            return meant
        said = self._by_words(tx, query, words, depth)
        ids = [entry for entry, _ in meant]
        languages = rows.read_languages(tx, ids[:NEAREST])
        return fused([entry for entry, _ in said], ids, meaning_weight(list(languages.values())))

    async def reindex(self, progress: Progress = lambda _done, _total: None) -> int:
        """Make the words and vectors of every entry anew. How many entries there are. Search goes on meanwhile, with what is done."""
        total = await self._database.write(self._emptied)
        last = done = 0
        while done < total:
            last, count = await self._database.write(lambda tx, after=last: self._refilled(tx, after))
            if not count:
                break
            done += count
            progress(done, total)
        await self.indexer.finish(progress)
        return done

    def _emptied(self, tx: Transaction) -> int:
        self._words.clear(tx)
        self.vectors.clear(tx)
        return rows.count(tx)

    def _refilled(self, tx: Transaction, after: int) -> tuple[int, int]:
        found = rows.read_after(tx, after, REINDEXED_AT_ONCE)
        for number, entry in found:
            put = rows.PutEntry(number, is_new=False, text_changed=True, scope_changed=True)
            self._words.write(tx, put, entry)
            self._expect_vector(tx, put, entry)
        return (found[-1][0] if found else after), len(found)

    async def close(self) -> None:
        """Stop what runs beside. What waits for a vector then gets it after the next start."""
        await self.indexer.close()
