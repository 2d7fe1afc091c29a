"""Vectors for what was written, a moment later: a thread of its own, so that neither the event loop nor a writer waits for a model.

What waits stands in the database, written with the entry itself: a process that ends leaves it to the next one. Two at once do work
twice at worst, because a vector is only kept if the entry still has the text that it is of.
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
from cellwright.system import machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from cellwright.storage.search.embeddings.port import Vectors

log = logging.getLogger(__name__)

AT_ONCE = 8
MANY_AT_ONCE = 64
"""Where nobody waits for the first of them: of so many, those of like length are embedded together, which pads less."""
QUIET_SECONDS = 0.1
GATHER_SECONDS = 0.5
"""After a wake: until nobody has written for the first of these, or the second is over. What is written together is embedded together,
in half the time that it takes one by one, and not while those who write want the same processor."""
LOOKS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Pauses between looks that find nothing: a wake comes from inside a transaction, which may take a while."""
IDLE_SECONDS = 60.0
FAILED_SECONDS = 5.0


class Indexer:
    """The thread, if there is anything to do and a model to do it with."""

    def __init__(self, database: Database, vectors: VectorIndex, models: Models) -> None:
        self._database = database
        self._vectors = vectors
        self._models = models
        self._background = Background("cellwright-embed", self._run)

    def wake(self) -> None:
        """Something may wait for a vector. From any thread."""
        if self._models.wanted:
            self._background.wake()

    async def close(self) -> None:
        await self._background.close()

    async def finish(self, progress: "Callable[[int, int], None]") -> None:
        """Do all that waits, here and now: for a command that nobody else waits for."""
        embedder = await asyncio.to_thread(self._models.load)
        if embedder is None or not await self._begin(embedder):
            return
        total = await self._database.read(entries.count_waiting)
        done = 0
        while count := await self._step(embedder, MANY_AT_ONCE):
            done += count
            progress(min(done, total), total)

    def _run(self) -> None:
        # Who writes or reads goes first.
        machine.step_back()
        # Loading a model keeps the interpreter busy: whoever made us begin shall have their answer first.
        self._gather()
        embedder = self._models.load()
        if embedder is not None:
            # A loop of its own: the database is asked as everywhere, but from here.
            asyncio.run(self._work(embedder))

    async def _work(self, embedder: Embedder) -> None:
        begun = False
        looks = 0
        while not self._background.closed:
            try:
                begun = begun or await self._begin(embedder)
                if not begun:
                    return
                did = await self._step(embedder, AT_ONCE)
            except CellwrightError as error:
                log.warning("not_embedded error=%s", error.message)
                self._pause(FAILED_SECONDS)
                continue
            looks = 0 if did else looks + 1
            if not did and self._pause(LOOKS[looks - 1] if looks <= len(LOOKS) else IDLE_SECONDS):
                looks = 0

    def _pause(self, seconds: float) -> bool:
        """Wait, at most until woken. Whether that was so."""
        woken = self._background.wanted.wait(seconds)
        if woken:
            self._gather()
        return woken

    def _gather(self) -> None:
        end = time.monotonic() + GATHER_SECONDS
        while not self._background.closed and time.monotonic() < end:
            self._background.wanted.clear()
            if not self._background.wanted.wait(QUIET_SECONDS):
                return

    async def _begin(self, embedder: Embedder) -> bool:
        """Say whose vectors are kept from now on. False if this database keeps none."""
        dimensions = embedder.embed([""]).shape[1]
        return await self._database.write(lambda tx: self._adopted(tx, embedder.name, dimensions))

    def _adopted(self, tx: Transaction, model: str, dimensions: int) -> bool:
        if not self._vectors.prepare(tx, model, dimensions):
            return False
        entries.adopt_model(tx, model)
        return True

    async def _step(self, embedder: Embedder, limit: int) -> int:
        """Embed what comes next. How many entries that were; 0 once there are none."""
        batch = await self._database.read(lambda tx: entries.take_waiting(tx, embedder.name, limit))
        waiting = [one for one in batch.waiting if one.text]
        vectors = embedder.embed([one.text for one in waiting]) if waiting else None
        if batch.waiting or batch.replaced_up_to is not None:
            # Lost with the power, it is made again: what waits is only taken off together with its vector.
            await self._database.write_soon(lambda tx: self._written(tx, embedder.name, batch, vectors))
        return len(batch.waiting)

    def _written(self, tx: Transaction, model: str, batch: entries.Batch, vectors: "Vectors | None") -> None:
        if entries.read_state(tx).model != model:
            return
        waiting = [one for one in batch.waiting if one.text]
        current = [number for number, one in enumerate(waiting) if entries.still_current(tx, one)]
        if vectors is not None and current:
            self._vectors.write(tx, model, [waiting[number] for number in current], vectors[current])
        for number in current:
            entries.dequeue(tx, waiting[number].id)
        for one in batch.waiting:
            if not one.text:
                entries.dequeue(tx, one.id)
        if batch.replaced_up_to is not None:
            entries.note_replaced(tx, batch.replaced_up_to)
