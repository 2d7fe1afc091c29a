"""Brings a LanceDB index after the database: a thread of its own, in batches, one process at a time.

The database says what changed and how far the index is. A batch is announced there, written to the index with a stamp, then noted as done;
a process that ends in between leaves a batch that the next one writes again, to the same effect. An index that cannot be read, or whose
stamp is not the announced one, because the database was restored or the folder exchanged, is dropped and made anew.
"""

import asyncio
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cellwright.core.errors import CellwrightError, Unavailable
from cellwright.storage.background import Background
from cellwright.storage.database import Database, Transaction
from cellwright.storage.lance import state as states
from cellwright.storage.lance.place import LanceFailed, LancePlace
from cellwright.storage.lance.rows import Indexed, Source
from cellwright.storage.lance.schema import owner, prepare
from cellwright.storage.lance.state import COMPLETE, IndexState, Lease
from cellwright.storage.lance.table import LanceTable, create_table, family_of, open_table

log = logging.getLogger(__name__)

AT_ONCE = 1_000
LOOK_SECONDS = 1.0
"""Between looks for what other processes changed."""
GATHER_SECONDS = 0.1
"""After a wake, and between small batches: a commit to the index costs the same for one row as for hundreds."""
FAILED_SECONDS = 5.0
FINISH_SECONDS = 3600.0
UNTIDY = 50
"""So many commits make reading slow."""
TIDY_SHARE = 10
"""Tidying takes at most one part in so many of the time, however long it takes."""
TIDY_LEASE_SECONDS = 600.0

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Work:
    """What comes next: rows to write, numbers to take out, and how far the index is then."""

    rows: list[Indexed]
    gone: list[int]
    applied: int
    copied: int


class LanceFeed:
    """The thread, and the table that it has opened."""

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
        """Questions that LanceDB has answered."""
        self._commits = 0
        self._tidied = (0.0, 0.0)
        self._background = Background("cellwright-lance", self._run)

    @property
    def place(self) -> str:
        """Under which the database knows this index."""
        return self._lease.place

    # -- for readers ---------------------------------------------------------------------------------------------------------------

    def current(self, tx: Transaction, tenant: str) -> LanceTable | None:
        """The table, if it has all that this tenant has written. Otherwise None, and it will soon."""
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
        """The table could not be read: have it made anew."""
        log.warning("lance_index_unreadable error=%s", error.message)
        self._broken = table.name
        self.wake()

    # -- the thread ----------------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something may have changed. From any thread."""
        self._background.wake()

    async def close(self) -> None:
        await self._background.close()

    async def rebuild(self, progress: Progress) -> None:
        """Have the index made anew, by our thread or the process that has the lease, and wait for it. Raises what our thread fails by."""
        self._failure = None
        await self._database.write(lambda tx: prepare(tx, self._database.engine))
        await self._database.write(lambda tx: states.condemn(tx, self._lease.place))
        until = time.monotonic() + FINISH_SECONDS
        self.wake()
        while not await self._is_done(progress):
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > until:
                raise Unavailable("the LanceDB index is not made yet", hint="it goes on in the background")
            await asyncio.sleep(GATHER_SECONDS)

    async def _is_done(self, progress: Progress) -> bool:
        def work(tx: Transaction) -> tuple[IndexState, int, int, bool]:
            state = states.read_index(tx, self._lease.place)
            done, total = self._source.progress(tx, state.copied)
            return state, done, total, states.is_behind(tx, state)

        state, done, total, behind = await self._database.read(work)
        if state.name:
            progress(done, total)
        return state.is_complete and not behind

    def _run(self) -> None:
        # A loop of its own: the database is asked as everywhere, but from here.
        asyncio.run(self._until_closed())

    async def _until_closed(self) -> None:
        await self._work()
        # If the database cannot be told, the lease lapses by itself.
        with suppress(CellwrightError):
            await self._let_go()

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
                    await self._let_go()
            except CellwrightError as error:
                if isinstance(error, LanceFailed):
                    self._broken = self._table.name if self._table else ""
                log.warning("lance_index_not_fed error=%s", error.message)
                self._failure = error
                self._rest(FAILED_SECONDS)
                continue
            if rows < AT_ONCE:
                self._pause(GATHER_SECONDS if rows else LOOK_SECONDS)

    def _rest(self, seconds: float) -> None:
        """Wait, however often it is woken, unless it is to end."""
        until = time.monotonic() + seconds
        while not self._background.closed and time.monotonic() < until:
            threading.Event().wait(GATHER_SECONDS)

    def _pause(self, seconds: float) -> None:
        if self._background.wanted.wait(seconds) and not self._background.closed:
            threading.Event().wait(GATHER_SECONDS)
            self._background.wanted.clear()

    # -- one step ------------------------------------------------------------------------------------------------------------------

    async def step(self) -> int:
        """Do what comes next. How many rows that were; 0 if there is nothing to do, or another process does it."""
        place = self._lease.place
        state, behind = await self._database.read(
            lambda tx: (found := states.read_index(tx, place), states.is_behind(tx, found))
        )
        sound = await asyncio.to_thread(self._opened, state)
        if sound and state.is_complete and not behind:
            return 0
        if not await self._database.write(lambda tx: states.take_lease(tx, self._lease, time.time())):
            return 0
        # Again, now that nobody else writes.
        state = await self._database.read(lambda tx: states.read_index(tx, place))
        if not await asyncio.to_thread(self._opened, state):
            return await self._begin_again()
        return await self._one_batch(state)

    def _opened(self, state: IndexState) -> bool:
        """Whether the table that the database names is open, readable, and as it should be."""
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

    async def _begin_again(self) -> int:
        self._table = None
        family, dimensions = await self._database.read(lambda tx: (family_of(owner(tx)), self._source.dimensions(tx)))
        name, stamp = family + secrets.token_hex(6), secrets.token_hex(8)
        self._connection = await asyncio.to_thread(self._place.connect)
        # First the database: a table that it does not know is dropped by the next one, the other way round it would be waited for.
        begun = await self._database.write(
            lambda tx: states.begin_table(tx, self._lease, self._database.engine, name, dimensions, stamp)
        )
        if not begun:
            return 0
        self._table = await asyncio.to_thread(create_table, self._connection, family, name, dimensions, stamp)
        self._commits = 0
        log.info("lance_index_begun dimensions=%s", dimensions)
        return 1

    async def _one_batch(self, state: IndexState) -> int:
        table = self._table
        assert table is not None
        work = await self._database.read(lambda tx: self._next(tx, state))
        if not table.fits(work.rows):
            # Vectors of another model: a table has one number of dimensions.
            return await self._begin_again()
        if work.applied == state.applied and work.copied == state.copied:
            return 0
        stamp = await self._database.write(lambda tx: states.begin_batch(tx, self._lease, table.name, time.time()))
        if stamp is None:
            return 0
        await asyncio.to_thread(table.write, work.rows, work.gone, stamp)
        self._commits += 1 + bool(work.gone)
        await self._database.write(lambda tx: states.end_batch(tx, self._lease, stamp, work.applied, work.copied))
        if work.copied == COMPLETE != state.copied:
            self._commits = max(self._commits, UNTIDY)
        await self._tidy()
        return max(1, len(work.rows) + len(work.gone))

    def _next(self, tx: Transaction, state: IndexState) -> Work:
        if state.copied != COMPLETE:
            rows = self._source.after(tx, state.copied, AT_ONCE)
            return Work(rows, [], state.applied, rows[-1].id if len(rows) == AT_ONCE else COMPLETE)
        changed, last = states.next_changes(tx, self._database.engine, state, AT_ONCE)
        rows = self._source.some(tx, changed)
        there = {row.id for row in rows}
        return Work(rows, [number for number in changed if number not in there], last, COMPLETE)

    async def _tidy(self) -> None:
        """If there are many small pieces. Also when there is nothing else to do: what was put off is done then."""
        table = self._table
        ended, took = self._tidied
        if table is None or self._commits < UNTIDY or time.monotonic() - ended < took * TIDY_SHARE:
            return
        held = await self._database.write(
            lambda tx: states.take_lease(tx, self._lease, time.time(), TIDY_LEASE_SECONDS)
        )
        if held:
            began = time.monotonic()
            await asyncio.to_thread(table.tidy)
            self._tidied = (time.monotonic(), time.monotonic() - began)
            self._commits = 0

    async def _let_go(self) -> None:
        """Another process may write now."""
        if await self._database.read(lambda tx: states.holds(tx, self._lease)):
            await self._database.write(lambda tx: states.give_back(tx, self._lease))
