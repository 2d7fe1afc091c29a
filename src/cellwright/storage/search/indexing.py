"""Computes vectors for new entries in a thread of its own, so that neither the event loop nor a writer waits for a model.

The queue of waiting entries is in the database and written with the entry itself, so the next process continues it. Two processes at most
do the same work twice, because a vector is only stored if the entry still has the text that was embedded.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from cellwright.core.errors import CellwrightError
from cellwright.storage.background import Background
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search import entries
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.embeddings.port import Embedder
from cellwright.storage.search.engines import VectorIndex
from cellwright.storage.search.port import Progress
from cellwright.system import machine

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors

log = logging.getLogger(__name__)

AT_ONCE = 8
MANY_AT_ONCE = 64
"""For a command that waits for all of them: among so many, texts of similar length are embedded together, which needs less padding."""
QUIET_SECONDS = 0.1
GATHER_SECONDS = 0.5
"""After a wake, wait until nothing was written for QUIET_SECONDS, but no longer than this. Entries that are written together are embedded
together, which takes half the time, and the writers have the processor for themselves meanwhile."""
LOOKS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Pauses after finding nothing: a wake comes from inside a transaction, whose commit may take a while."""
IDLE_SECONDS = 60.0
FAILED_SECONDS = 5.0


class Indexer:
    """The thread, which runs if there is anything to do and a model to do it with."""

    def __init__(self, database: Database, vectors: VectorIndex, models: Models) -> None:
        self._database = database
        self._vectors = vectors
        self._models = models
        self._background = Background("cellwright-embed", self._run)

    def wake(self) -> None:
        """Say that an entry may wait for a vector. May be called from any thread."""
        if self._models.usable:
            self._background.wake()

    async def close(self) -> None:
        await self._background.close()

    async def finish(self, progress: Progress) -> None:
        """Embed everything that waits, and return when it is done."""
        embedder = await asyncio.to_thread(self._models.load)
        if embedder is None or not await self._begin(embedder):
            return
        total = await self._database.read(entries.count_waiting)
        done = 0
        while count := await self._step(embedder, MANY_AT_ONCE):
            done += count
            progress(min(done, total), total)

    def _run(self) -> None:
        # Readers and writers come first.
        machine.step_back()
        # Loading a model keeps the interpreter busy, so the caller that woke us gets its answer first.
        self._gather()
        embedder = self._models.load()
        if embedder is not None:
            # An event loop of its own, because the database's methods are coroutines.
            asyncio.run(self._work(embedder))

    async def _work(self, embedder: Embedder) -> None:
        ready = False
        looks = 0
        while not self._background.closed:
            try:
                ready = ready or await self._begin(embedder)
                if not ready:
                    return
                count = await self._step(embedder, AT_ONCE)
            except CellwrightError as error:
                log.warning("not_embedded error=%s", error.message)
                self._pause(FAILED_SECONDS)
                continue
            looks = 0 if count else looks + 1
            if not count and self._pause(LOOKS[looks - 1] if looks <= len(LOOKS) else IDLE_SECONDS):
                looks = 0

    def _pause(self, seconds: float) -> bool:
        """Wait until woken, but no longer than `seconds`. Returns whether it was woken."""
        woken = self._background.woken.wait(seconds)
        if woken:
            self._gather()
        return woken

    def _gather(self) -> None:
        end = time.monotonic() + GATHER_SECONDS
        while not self._background.closed and time.monotonic() < end:
            self._background.woken.clear()
            if not self._background.woken.wait(QUIET_SECONDS):
                return

    async def _begin(self, embedder: Embedder) -> bool:
        """Make this model the one whose vectors are stored. False if this database cannot store vectors."""
        dimensions = embedder.embed([""]).shape[1]

        def adopt(tx: Transaction) -> bool:
            if not self._vectors.prepare(tx, embedder.name, dimensions):
                return False
            entries.adopt_model(tx, embedder.name)
            return True

        return await self._database.write(adopt)

    async def _step(self, embedder: Embedder, limit: int) -> int:
        """Embed the next entries. Returns how many there were; 0 once there are none."""
        batch = await self._database.read(lambda tx: entries.take_waiting(tx, embedder.name, limit))
        texts = [entry.text for entry in batch.waiting if entry.text]
        vectors = embedder.embed(texts) if texts else None
        if batch.waiting or batch.replaced_up_to is not None:
            # A power cut may lose it: the same transaction takes the entries off the queue, so they are embedded again.
            await self._database.write_soon(lambda tx: self._store(tx, embedder.name, batch, vectors))
        return len(batch.waiting)

    def _store(self, tx: Transaction, model: str, batch: entries.Batch, vectors: "Vectors | None") -> None:
        if entries.read_state(tx).model != model:
            return
        waiting = [entry for entry in batch.waiting if entry.text]
        current = [number for number, entry in enumerate(waiting) if entries.still_current(tx, entry)]
        if vectors is not None and current:
            self._vectors.write(tx, model, [waiting[number] for number in current], vectors[current])
        for number in current:
            entries.dequeue(tx, waiting[number].id)
        for entry in batch.waiting:
            if not entry.text:
                entries.dequeue(tx, entry.id)
        if batch.replaced_up_to is not None:
            entries.note_replaced(tx, batch.replaced_up_to)
