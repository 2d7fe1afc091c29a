"""Copies changes from the database to a LanceDB index: in a thread of its own, in batches, by one process at a time.

The database says what changed and how far the index is. A batch is announced there, written to the index with a stamp, then recorded as
done. If a process ends in between, the next one writes the same batch again, to the same effect. An index is dropped and rebuilt if it
cannot be read, or if its stamp is not the announced one, because the database was restored or the folder was replaced.
"""

import asyncio
import logging
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cellwright.core.errors import CellwrightError, Unavailable
from cellwright.storage.background import Background
from cellwright.storage.database import Database, Transaction
from cellwright.storage.lance import state as states
from cellwright.storage.lance.place import LanceFailed, LancePlace
from cellwright.storage.lance.rows import IndexedRow, Source
from cellwright.storage.lance.schema import owner, prepare
from cellwright.storage.lance.state import COMPLETE, IndexState, Lease
from cellwright.storage.lance.table import LanceTable, create_table, family_of, open_table
from cellwright.storage.search.port import Progress

log = logging.getLogger(__name__)

AT_ONCE = 1_000
LOOK_SECONDS = 1.0
"""Between checks for changes by other processes."""
GATHER_SECONDS = 0.1
"""The pause after a wake and between small batches: a commit to the index costs the same for one row as for hundreds."""
FAILED_SECONDS = 5.0
FINISH_SECONDS = 3600.0
UNTIDY = 50
"""After so many commits the table is tidied, because they make reading slow."""
TIDY_SHARE = 10
"""Tidying takes at most one part in so many of the time."""
TIDY_LEASE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class NextBatch:
    """Rows to write, ids to delete, and how far the index is after that."""

    rows: list[IndexedRow]
    deleted: list[int]
    applied: int
    copied: int


class LanceFeed:
    """The thread, and the LanceDB table that it has open."""

    def __init__(self, database: Database, source: Source, place: LancePlace) -> None:
        self._database = database
        self._source = source
        self._place = place
        self._lease = Lease(place.name, f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}")
        self._connection: Any = None
        self._table: LanceTable | None = None
        self._broken = ""
        self._failure: CellwrightError | None = None
        self.answered = 0
        """How many queries LanceDB has answered."""
        self._commits = 0
        self._tidied = (0.0, 0.0)
        self._background = Background("cellwright-lance", self._run)

    @property
    def place(self) -> str:
        """The address under which the database knows this index."""
        return self._lease.place

    # -- for readers ---------------------------------------------------------------------------------------------------------------

    def current(self, tx: Transaction, tenant: str) -> LanceTable | None:
        """The table, if it has everything that this tenant has written. Otherwise None; the thread then brings it up to date."""
        table = self._table
        if table is not None:
            state = states.read_index(tx, self._lease.place)
            ready = state.is_complete and state.name == table.name and not states.is_behind(tx, state, tenant)
            if ready and state.expects(self._stamp_of(table)):
                return table
        self.wake()
        return None

    def _stamp_of(self, table: LanceTable) -> str | None:
        try:
            return table.stamp()
        except LanceFailed as error:
            self.report(table, error)
            return None

    def report(self, table: LanceTable, error: LanceFailed) -> None:
        """Note that the table could not be read, so that it is rebuilt."""
        log.warning("lance_index_unreadable error=%s", error.message)
        self._broken = table.name
        self.wake()

    # -- the thread ----------------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Say that something may have changed. May be called from any thread."""
        self._background.wake()

    async def close(self) -> None:
        await self._background.close()

    async def rebuild(self, progress: Progress) -> None:
        """Have the index rebuilt, by our thread or by the process that has the lease, and wait for it. Raises the error of our thread."""
        self._failure = None
        await self._database.write(lambda tx: prepare(tx, self._database.engine))
        await self._database.write(lambda tx: states.condemn(tx, self._lease.place))
        until = time.monotonic() + FINISH_SECONDS
        self.wake()
        while not await self._is_rebuilt(progress):
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > until:
                raise Unavailable("the LanceDB index is not made yet", hint="it goes on in the background")
            await asyncio.sleep(GATHER_SECONDS)

    async def _is_rebuilt(self, progress: Progress) -> bool:
        def work(tx: Transaction) -> tuple[IndexState, int, int, bool]:
            state = states.read_index(tx, self._lease.place)
            done, total = self._source.progress(tx, state.copied)
            return state, done, total, states.is_behind(tx, state)

        state, done, total, behind = await self._database.read(work)
        if state.name:
            progress(done, total)
        return state.is_complete and not behind

    def _run(self) -> None:
        # An event loop of its own, because the database's methods are coroutines.
        asyncio.run(self._work())

    async def _work(self) -> None:
        prepared = False
        while not self._background.closed:
            try:
                if not prepared:
                    await self._database.write(lambda tx: prepare(tx, self._database.engine))
                    prepared = True
                rows = await self.step()
                if not rows:
                    await self._tidy()
                    await self._release_lease()
            except CellwrightError as error:
                if isinstance(error, LanceFailed):
                    self._broken = self._table.name if self._table else ""
                log.warning("lance_index_not_fed error=%s", error.message)
                self._failure = error
                self._wait(FAILED_SECONDS)
                continue
            if rows < AT_ONCE:
                self._pause(GATHER_SECONDS if rows else LOOK_SECONDS)
        # If the database cannot be reached, the lease expires by itself.
        with suppress(CellwrightError):
            await self._release_lease()

    def _wait(self, seconds: float) -> None:
        """Wait, also when woken, but not after closing."""
        until = time.monotonic() + seconds
        while not self._background.closed and time.monotonic() < until:
            threading.Event().wait(GATHER_SECONDS)

    def _pause(self, seconds: float) -> None:
        """Wait until woken, but no longer than `seconds`."""
        if self._background.woken.wait(seconds) and not self._background.closed:
            threading.Event().wait(GATHER_SECONDS)
            self._background.woken.clear()

    # -- one step ------------------------------------------------------------------------------------------------------------------

    async def step(self) -> int:
        """Write the next batch. Returns how many rows that were; 0 if there is nothing to do, or if another process does it."""
        place = self._lease.place
        state, behind = await self._database.read(
            lambda tx: (index := states.read_index(tx, place), states.is_behind(tx, index))
        )
        intact = await asyncio.to_thread(self._open, state)
        if intact and state.is_complete and not behind:
            return 0
        if not await self._database.write(lambda tx: states.take_lease(tx, self._lease, time.time())):
            return 0
        # Once more, now that nobody else writes.
        state = await self._database.read(lambda tx: states.read_index(tx, place))
        if not await asyncio.to_thread(self._open, state):
            return await self._start_table()
        return await self._write_batch(state)

    def _open(self, state: IndexState) -> bool:
        """Open the table that the database names. False if it cannot be read or has another stamp than the database expects."""
        if not state.name or self._broken == state.name:
            return False
        try:
            if self._table is None or self._table.name != state.name:
                self._connection = self._place.connect()
                self._table = open_table(self._connection, state.name, state.dimensions)
            return state.expects(self._table.stamp())
        except LanceFailed as error:
            log.warning("lance_index_unreadable error=%s", error.message)
            return False

    async def _start_table(self) -> int:
        """Replace the table by an empty one. Returns 1, or 0 if another process has the lease."""
        self._table = None
        family, dimensions = await self._database.read(lambda tx: (family_of(owner(tx)), self._source.dimensions(tx)))
        name, stamp = family + secrets.token_hex(6), secrets.token_hex(8)
        self._connection = await asyncio.to_thread(self._place.connect)
        # The database first: a table that it does not know is dropped by the next one. In the other order it would be waited for.
        has_lease = await self._database.write(
            lambda tx: states.begin_table(tx, self._lease, self._database.engine, name, dimensions, stamp)
        )
        if not has_lease:
            return 0
        self._table = await asyncio.to_thread(create_table, self._connection, family, name, dimensions, stamp)
        self._commits = 0
        log.info("lance_index_begun dimensions=%s", dimensions)
        return 1

    async def _write_batch(self, state: IndexState) -> int:
        table = self._table
        assert table is not None
        batch = await self._database.read(lambda tx: self._next_batch(tx, state))
        if not table.fits(batch.rows):
            # These vectors are of another model, and all vectors of a table have the same number of dimensions.
            return await self._start_table()
        if batch.applied == state.applied and batch.copied == state.copied:
            return 0
        stamp = await self._database.write(lambda tx: states.begin_batch(tx, self._lease, table.name, time.time()))
        if stamp is None:
            return 0
        await asyncio.to_thread(table.write, batch.rows, batch.deleted, stamp)
        self._commits += 1 + bool(batch.deleted)
        await self._database.write(lambda tx: states.end_batch(tx, self._lease, stamp, batch.applied, batch.copied))
        if batch.copied == COMPLETE != state.copied:
            self._commits = max(self._commits, UNTIDY)
        await self._tidy()
        return max(1, len(batch.rows) + len(batch.deleted))

    def _next_batch(self, tx: Transaction, state: IndexState) -> NextBatch:
        if state.copied != COMPLETE:
            rows = self._source.after(tx, state.copied, AT_ONCE)
            return NextBatch(rows, [], state.applied, rows[-1].id if len(rows) == AT_ONCE else COMPLETE)
        changed, last = states.next_changes(tx, self._database.engine, state, AT_ONCE)
        rows = self._source.some(tx, changed)
        existing = {row.id for row in rows}
        return NextBatch(rows, [number for number in changed if number not in existing], last, COMPLETE)

    async def _tidy(self) -> None:
        """Tidy the table after many commits. Also called when there is nothing else to do, to catch up on what was put off."""
        table = self._table
        ended, took = self._tidied
        if table is None or self._commits < UNTIDY or time.monotonic() - ended < took * TIDY_SHARE:
            return
        has_lease = await self._database.write(
            lambda tx: states.take_lease(tx, self._lease, time.time(), TIDY_LEASE_SECONDS)
        )
        if has_lease:
            start = time.monotonic()
            await asyncio.to_thread(table.tidy)
            self._tidied = (time.monotonic(), time.monotonic() - start)
            self._commits = 0

    async def _release_lease(self) -> None:
        if await self._database.read(lambda tx: states.holds(tx, self._lease)):
            await self._database.write(lambda tx: states.give_back(tx, self._lease))
