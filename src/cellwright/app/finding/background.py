"""Keeping the index up with the places: in slices, beside everything else, only what changed since the last time."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cellwright.app.finding.model import Place, Progress, Thing
from cellwright.app.finding.records import Known, forget, forget_unseen, note_seen, read_known, write_content
from cellwright.core.errors import CellwrightError, Unavailable
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search import SearchIndex

log = logging.getLogger(__name__)

SLICE_THINGS = 20
SLICE_BYTES = 100_000
"""Of files: what is written at once, so that nobody else waits long to write."""
FORGOTTEN_AT_ONCE = 100
REST = 5
"""A place that takes long to be listed is not listed again before this many times as long: people's own work goes first."""
LONG_LISTING = 0.1
MOST_PLACES = 1_000
LONGEST_PAUSE = 0.5

PlaceKey = tuple[str, tuple[str, ...]]


def key_of(place: Place) -> PlaceKey:
    return place.tenant, place.kinds


@dataclass
class Round:
    """One time that a place is gone through."""

    place: Place
    task: "asyncio.Task[None]" = field(init=False)
    done: int = 0
    total: int = 0
    left_out: int = 0
    problem: str = ""
    listing_seconds: float = 0.0
    ended: float = 0.0
    again: bool = False
    """Something changed after it was listed."""


class Indexing:
    """Goes through places, each by one task at a time. Nothing runs before the first search."""

    def __init__(self, database: Database, index: SearchIndex, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._index = index
        self._clock = clock
        self._rounds: dict[PlaceKey, Round] = {}
        self._complete: set[PlaceKey] = set()
        self._closed = False

    def begin(self, place: Place, *, now: bool = False) -> Round:
        """Go through the place, unless that is being done, or was done a moment ago; with `now`, in any case."""
        if self._closed:
            raise Unavailable("the server is stopping", hint="search again when it is back")
        key = key_of(place)
        last = self._rounds.pop(key, None)
        if last is not None and self._is_recent(last, now=now):
            self._rounds[key] = last
            return last
        begun = Round(place)
        begun.task = asyncio.create_task(self._go_through(begun))
        self._rounds[key] = begun
        self._let_go_of_old_ones()
        return begun

    async def caught_up(self, places: Sequence[Place], first: float, later: float) -> Progress:
        """Wait for the places to be gone through, so many seconds at most: the first time, and later. How far they are."""
        rounds = [self.begin(place) for place in places]
        seconds = later if all(key_of(place) in self._complete for place in places) else first
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
        for key in ended[: max(len(self._rounds) - MOST_PLACES, 0)]:
            del self._rounds[key]
            self._complete.discard(key)

    async def _go_through(self, one: Round) -> None:
        """Until nothing changed meanwhile. What cannot be looked at now is told, and tried again by the next search."""
        while True:
            one.again = False
            try:
                await self._update(one)
            except CellwrightError as error:
                log.warning("not_indexed place=%s error=%s", one.place.tenant, error.message)
                one.problem = f"{' and '.join(one.place.kinds)}: {error.message}"
            one.ended = time.monotonic()
            if not one.again:
                return

    async def _update(self, one: Round) -> None:
        place, began = one.place, time.monotonic()
        listing = await place.listing()
        one.listing_seconds = time.monotonic() - began
        old = self._clock() - place.keep_seconds if place.keep_seconds else 0.0
        known = await self._database.read(lambda tx: read_known(tx, place.tenant, place.kinds, old))
        listed = {(thing.kind.value, thing.id) for thing in listing.things}
        gone = [key for key in known.stamps if key not in listed]
        changed = [one for one in listing.things if known.stamps.get((one.kind.value, one.id)) != one.stamp]
        one.total, one.left_out = len(listing.things), listing.left_out
        one.done = one.total - len(changed)
        for start in range(0, len(gone), FORGOTTEN_AT_ONCE):
            await self._forget(place, gone[start : start + FORGOTTEN_AT_ONCE])
        for few in slices(changed):
            await self._read(place, few)
            one.done += len(few)
        await self._note_seen(place, known)
        one.problem = ""
        self._complete.add(key_of(place))

    async def _read(self, place: Place, few: Sequence[Thing]) -> None:
        """One slice, and then a pause of half the time it took."""
        began = time.monotonic()
        contents = await place.read(few)
        now = self._clock()

        def work(tx: Transaction) -> None:
            for content in contents:
                write_content(tx, self._index, place.tenant, content, now)

        await self._database.write(work)
        await asyncio.sleep(min((time.monotonic() - began) / 2, LONGEST_PAUSE))

    async def _forget(self, place: Place, gone: Sequence[tuple[str, str]]) -> None:
        await self._database.write(lambda tx: forget(tx, self._index, place.tenant, gone))

    async def _note_seen(self, place: Place, known: Known) -> None:
        """Things that are kept for a time: the caller's are looked at now; whoever's were not for too long go."""
        keep, now = place.keep_seconds, self._clock()
        if keep is None:
            return
        if known.oldest is not None and known.oldest < now - keep / 2:
            await self._database.write(lambda tx: note_seen(tx, place.tenant, place.kinds, now))
        if known.some_unseen:
            await self._database.write(lambda tx: forget_unseen(tx, self._index, place.kinds, now - keep))


def slices(things: Sequence[Thing]) -> list[list[Thing]]:
    """A few at a time: so many, or so many bytes, at least one."""
    made: list[list[Thing]] = []
    size = 0
    for thing in things:
        if not made or size + thing.size > SLICE_BYTES or len(made[-1]) >= SLICE_THINGS:
            made.append([])
            size = 0
        made[-1].append(thing)
        size += thing.size
    return made
