"""Keeps the search index up to date with the collections: in the background, in slices, and only what changed since the last time."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cellwright.app.search.records import Indexed, forget, forget_unseen, note_seen, read_indexed, write_entries
from cellwright.app.search.texts import entries_of
from cellwright.core.errors import CellwrightError, Unavailable
from cellwright.notebook.places import Collection, Place
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search.port import SearchIndex

log = logging.getLogger(__name__)

SLICE_PLACES = 20
SLICE_BYTES = 100_000
"""How much is written at once, so that nobody else waits long to write."""
FORGOTTEN_AT_ONCE = 100
REST = 5
"""A collection that takes long to list is not listed again before this many times as long: people's own work goes first."""
LONG_LISTING = 0.1
MOST_COLLECTIONS = 1_000
LONGEST_PAUSE = 0.5

CollectionKey = tuple[str, tuple[str, ...]]


def key_of(collection: Collection) -> CollectionKey:
    return collection.tenant, collection.kinds


@dataclass
class Update:
    """One update of the index from a collection."""

    collection: Collection
    task: "asyncio.Task[None]" = field(init=False)
    done: int = 0
    total: int = 0
    left_out: int = 0
    problem: str = ""
    listing_seconds: float = 0.0
    ended: float = 0.0
    again: bool = False
    """Whether something changed after the collection was listed."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of the listed places are indexed, and what could not be read."""

    done: int = 0
    total: int = 0
    left_out: int = 0
    problems: tuple[str, ...] = ()
    running: bool = False

    @property
    def complete(self) -> bool:
        return not self.running and not self.left_out and not self.problems


class Indexing:
    """Updates the index from collections, each by one task at a time. Nothing runs before the first search."""

    def __init__(self, database: Database, index: SearchIndex, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._index = index
        self._clock = clock
        self._updates: dict[CollectionKey, Update] = {}
        self._complete: set[CollectionKey] = set()
        self._closed = False

    def begin(self, collection: Collection, *, now: bool = False) -> Update:
        """Update the index from the collection, unless that is under way or was done a moment ago; with `now`, in any case."""
        if self._closed:
            raise Unavailable("the server is stopping", hint="search again when it is back")
        key = key_of(collection)
        last = self._updates.pop(key, None)
        if last is not None and self._is_recent(last, now=now):
            self._updates[key] = last
            return last
        update = Update(collection)
        update.task = asyncio.create_task(self._run(update))
        self._updates[key] = update
        self._drop_old_updates()
        return update

    async def caught_up(self, collections: Sequence[Collection], first: float, later: float) -> Progress:
        """Update the index from the collections and return the progress.

        Waits at most `first` seconds until all were indexed once, and `later` seconds from then on.
        """
        updates = [self.begin(collection) for collection in collections]
        seconds = later if all(key_of(collection) in self._complete for collection in collections) else first
        if updates:
            await asyncio.wait([update.task for update in updates], timeout=seconds)
        for update in updates:
            if update.task.done() and not update.task.cancelled():
                update.task.result()
        return Progress(
            sum(update.done for update in updates),
            sum(update.total for update in updates),
            sum(update.left_out for update in updates),
            tuple(update.problem for update in updates if update.problem),
            running=not all(update.task.done() for update in updates),
        )

    async def close(self) -> None:
        """Stop. The next search finds out what is not indexed yet."""
        self._closed = True
        tasks = [update.task for update in self._updates.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_recent(self, last: Update, *, now: bool) -> bool:
        if not last.task.done():
            last.again = last.again or now
            return True
        pause = REST * last.listing_seconds if last.listing_seconds > LONG_LISTING else 0.0
        return not now and time.monotonic() - last.ended < pause

    def _drop_old_updates(self) -> None:
        ended = [key for key, update in self._updates.items() if update.task.done()]
        for key in ended[: max(len(self._updates) - MOST_COLLECTIONS, 0)]:
            del self._updates[key]
            self._complete.discard(key)

    async def _run(self, update: Update) -> None:
        """Update the index until nothing changed meanwhile. The next search tries again what cannot be read now."""
        while True:
            update.again = False
            try:
                await self._update_index(update)
            except CellwrightError as error:
                log.warning("not_indexed collection=%s error=%s", update.collection.tenant, error.message)
                update.problem = f"{' and '.join(update.collection.kinds)}: {error.message}"
            update.ended = time.monotonic()
            if not update.again:
                return

    async def _update_index(self, update: Update) -> None:
        collection, began = update.collection, time.monotonic()
        inventory = await collection.inventory()
        update.listing_seconds = time.monotonic() - began
        unseen_since = self._clock() - collection.keep_seconds if collection.keep_seconds else 0.0
        indexed = await self._database.read(
            lambda tx: read_indexed(tx, collection.tenant, collection.kinds, unseen_since)
        )
        listed_keys = {(place.kind.value, place.id) for place in inventory.places}
        removed_keys = [key for key in indexed.marks if key not in listed_keys]
        changed = [place for place in inventory.places if indexed.marks.get((place.kind.value, place.id)) != place.mark]
        update.total, update.left_out = len(inventory.places), inventory.left_out
        update.done = update.total - len(changed)
        for start in range(0, len(removed_keys), FORGOTTEN_AT_ONCE):
            batch = removed_keys[start : start + FORGOTTEN_AT_ONCE]
            await self._database.write(lambda tx, batch=batch: forget(tx, self._index, collection.tenant, batch))
        for places in slices(changed):
            await self._index_places(collection, places)
            update.done += len(places)
        await self._note_seen(collection, indexed)
        update.problem = ""
        self._complete.add(key_of(collection))

    async def _index_places(self, collection: Collection, places: Sequence[Place]) -> None:
        """Index one slice, and then pause for half the time that it took."""
        began = time.monotonic()
        tenant, readings = collection.tenant, await collection.read(places)
        place_entries = await asyncio.to_thread(
            lambda: [(reading.place, entries_of(tenant, reading)) for reading in readings]
        )
        now = self._clock()

        def work(tx: Transaction) -> None:
            for place, entries in place_entries:
                write_entries(tx, self._index, tenant, place, entries, now)

        await self._database.write(work)
        await asyncio.sleep(min((time.monotonic() - began) / 2, LONGEST_PAUSE))

    async def _note_seen(self, collection: Collection, indexed: Indexed) -> None:
        """Note that the caller's expiring places were seen now, and forget anybody's that were not seen for too long."""
        keep, now = collection.keep_seconds, self._clock()
        if keep is None:
            return
        if indexed.oldest is not None and indexed.oldest < now - keep / 2:
            await self._database.write(lambda tx: note_seen(tx, collection.tenant, collection.kinds, now))
        if indexed.some_unseen:
            await self._database.write(lambda tx: forget_unseen(tx, self._index, collection.kinds, now - keep))


def slices(places: Sequence[Place]) -> list[list[Place]]:
    """The places in slices, each of a limited number of places and bytes, and of at least one place."""
    batches: list[list[Place]] = []
    size = 0
    for place in places:
        if not batches or size + place.size > SLICE_BYTES or len(batches[-1]) >= SLICE_PLACES:
            batches.append([])
            size = 0
        batches[-1].append(place)
        size += place.size
    return batches
