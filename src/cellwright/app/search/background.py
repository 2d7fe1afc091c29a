"""Keeping the index up with the collections: in slices, beside everything else, only what changed since the last time."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cellwright.app.search.records import Known, forget, forget_unseen, note_seen, read_known, write_entries
from cellwright.app.search.texts import entries_of
from cellwright.core.errors import CellwrightError, Unavailable
from cellwright.notebook.places import Collection, Place
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search.port import SearchIndex

log = logging.getLogger(__name__)

SLICE_PLACES = 20
SLICE_BYTES = 100_000
"""Of files: what is written at once, so that nobody else waits long to write."""
FORGOTTEN_AT_ONCE = 100
REST = 5
"""A collection that takes long to be listed is not listed again before this many times as long: people's own work goes first."""
LONG_LISTING = 0.1
MOST_COLLECTIONS = 1_000
LONGEST_PAUSE = 0.5

CollectionKey = tuple[str, tuple[str, ...]]


def key_of(collection: Collection) -> CollectionKey:
    return collection.tenant, collection.kinds


@dataclass
class Round:
    """One time that a collection is gone through."""

    collection: Collection
    task: "asyncio.Task[None]" = field(init=False)
    done: int = 0
    total: int = 0
    left_out: int = 0
    problem: str = ""
    listing_seconds: float = 0.0
    ended: float = 0.0
    again: bool = False
    """Something changed after it was listed."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of what was listed is indexed, and what could not be looked at."""

    done: int = 0
    total: int = 0
    left_out: int = 0
    problems: tuple[str, ...] = ()
    running: bool = False

    @property
    def complete(self) -> bool:
        return not self.running and not self.left_out and not self.problems


class Indexing:
    """Goes through collections, each by one task at a time. Nothing runs before the first search."""

    def __init__(self, database: Database, index: SearchIndex, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._index = index
        self._clock = clock
        self._rounds: dict[CollectionKey, Round] = {}
        self._complete: set[CollectionKey] = set()
        self._closed = False

    def begin(self, collection: Collection, *, now: bool = False) -> Round:
        """Go through the collection, unless that is being done, or was done a moment ago; with `now`, in any case."""
        if self._closed:
            raise Unavailable("the server is stopping", hint="search again when it is back")
        key = key_of(collection)
        last = self._rounds.pop(key, None)
        if last is not None and self._is_recent(last, now=now):
            self._rounds[key] = last
            return last
        begun = Round(collection)
        begun.task = asyncio.create_task(self._go_through(begun))
        self._rounds[key] = begun
        self._let_go_of_old_ones()
        return begun

    async def caught_up(self, collections: Sequence[Collection], first: float, later: float) -> Progress:
        """Wait for the collections to be gone through, so many seconds at most: the first time, and later. How far they are."""
        rounds = [self.begin(collection) for collection in collections]
        seconds = later if all(key_of(collection) in self._complete for collection in collections) else first
        if rounds:
            await asyncio.wait([one.task for one in rounds], timeout=seconds)
        for one in rounds:
            if one.task.done() and not one.task.cancelled():
                one.task.result()
        return Progress(
            sum(one.done for one in rounds),
            sum(one.total for one in rounds),
            sum(one.left_out for one in rounds),
            tuple(one.problem for one in rounds if one.problem),
            running=not all(one.task.done() for one in rounds),
        )

    async def close(self) -> None:
        """Stop. What is not indexed yet is found out again by the next search."""
        self._closed = True
        tasks = [one.task for one in self._rounds.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_recent(self, last: Round, *, now: bool) -> bool:
        if not last.task.done():
            last.again = last.again or now
            return True
        rest = REST * last.listing_seconds if last.listing_seconds > LONG_LISTING else 0.0
        return not now and time.monotonic() - last.ended < rest

    def _let_go_of_old_ones(self) -> None:
        ended = [key for key, one in self._rounds.items() if one.task.done()]
        for key in ended[: max(len(self._rounds) - MOST_COLLECTIONS, 0)]:
            del self._rounds[key]
            self._complete.discard(key)

    async def _go_through(self, one: Round) -> None:
        """Until nothing changed meanwhile. What cannot be looked at now is told, and tried again by the next search."""
        while True:
            one.again = False
            try:
                await self._update(one)
            except CellwrightError as error:
                log.warning("not_indexed collection=%s error=%s", one.collection.tenant, error.message)
                one.problem = f"{' and '.join(one.collection.kinds)}: {error.message}"
            one.ended = time.monotonic()
            if not one.again:
                return

    async def _update(self, one: Round) -> None:
        collection, began = one.collection, time.monotonic()
        inventory = await collection.inventory()
        one.listing_seconds = time.monotonic() - began
        old = self._clock() - collection.keep_seconds if collection.keep_seconds else 0.0
        known = await self._database.read(lambda tx: read_known(tx, collection.tenant, collection.kinds, old))
        listed = {(place.kind.value, place.id) for place in inventory.places}
        gone = [key for key in known.marks if key not in listed]
        changed = [place for place in inventory.places if known.marks.get((place.kind.value, place.id)) != place.mark]
        one.total, one.left_out = len(inventory.places), inventory.left_out
        one.done = one.total - len(changed)
        for start in range(0, len(gone), FORGOTTEN_AT_ONCE):
            await self._forget(collection, gone[start : start + FORGOTTEN_AT_ONCE])
        for few in slices(changed):
            await self._read(collection, few)
            one.done += len(few)
        await self._note_seen(collection, known)
        one.problem = ""
        self._complete.add(key_of(collection))

    async def _read(self, collection: Collection, few: Sequence[Place]) -> None:
        """One slice, and then a pause of half the time it took."""
        began = time.monotonic()
        tenant, readings = collection.tenant, await collection.read(few)
        written = await asyncio.to_thread(lambda: [(one.place, entries_of(tenant, one)) for one in readings])
        now = self._clock()

        def work(tx: Transaction) -> None:
            for place, entries in written:
                write_entries(tx, self._index, tenant, place, entries, now)

        await self._database.write(work)
        await asyncio.sleep(min((time.monotonic() - began) / 2, LONGEST_PAUSE))

    async def _forget(self, collection: Collection, gone: Sequence[tuple[str, str]]) -> None:
        await self._database.write(lambda tx: forget(tx, self._index, collection.tenant, gone))

    async def _note_seen(self, collection: Collection, known: Known) -> None:
        """Things that are kept for a time: the caller's are looked at now; whoever's were not for too long go."""
        keep, now = collection.keep_seconds, self._clock()
        if keep is None:
            return
        if known.oldest is not None and known.oldest < now - keep / 2:
            await self._database.write(lambda tx: note_seen(tx, collection.tenant, collection.kinds, now))
        if known.some_unseen:
            await self._database.write(lambda tx: forget_unseen(tx, self._index, collection.kinds, now - keep))


def slices(places: Sequence[Place]) -> list[list[Place]]:
    """A few at a time: so many, or so many bytes, at least one."""
    made: list[list[Place]] = []
    size = 0
    for place in places:
        if not made or size + place.size > SLICE_BYTES or len(made[-1]) >= SLICE_PLACES:
            made.append([])
            size = 0
        made[-1].append(place)
        size += place.size
    return made
