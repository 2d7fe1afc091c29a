"""When pads were used last, and which have not been used for long. A table of its own, so that reading a pad does not rewrite it.

A change writes its time into the pad's row alone, which costs less; `least_used` copies it to this table where it matters.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import cast

from cellwright.core.errors import CellwrightError
from cellwright.core.events import event_keys
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Database, Transaction

log = logging.getLogger(__name__)

WRITE_DELAY_SECONDS = 2.0
COPIED_AT_ONCE = 50
SWEPT_AT_ONCE = 1000


def begin(tx: Transaction, key: NotebookKey, now: int) -> None:
    """Insert the first use of a new pad."""
    tx.run("INSERT INTO pad_uses (tenant, pad, used) VALUES (?, ?, ?)", key.owner, key.id, now)


def touch(tx: Transaction, uses: Mapping[NotebookKey, int]) -> None:
    for key, used in uses.items():
        tx.run("UPDATE pad_uses SET used = ? WHERE tenant = ? AND pad = ? AND used < ?", used, key.owner, key.id, used)


def least_used(tx: Transaction, tenant: str, count: int) -> list[str]:
    """The pads that were neither read nor changed for longest."""
    while True:
        rows = tx.rows(
            "SELECT u.pad, u.used, p.updated FROM pad_uses u JOIN pads p ON p.tenant = u.tenant AND p.id = u.pad "
            "WHERE u.tenant = ? ORDER BY u.used, u.pad LIMIT ?",
            tenant,
            max(count, COPIED_AT_ONCE),
        )
        oldest = cast("list[tuple[str, int, int]]", rows)
        # A time in this table may be too early, but never too late: if the first ones are right, they are the least used.
        if all(updated <= used for _, used, updated in oldest[:count]):
            return [pad_id for pad_id, _, _ in oldest[:count]]
        touch(tx, {NotebookKey(tenant, pad_id): updated for pad_id, used, updated in oldest if updated > used})


def idle_since(tx: Transaction, moment: int) -> list[NotebookKey]:
    """Pads of all tenants that were used last before this moment."""
    rows = tx.rows(
        "SELECT u.tenant, u.pad FROM pad_uses u JOIN pads p ON p.tenant = u.tenant AND p.id = u.pad "
        "WHERE u.used < ? AND p.updated < ? LIMIT ?",
        moment,
        moment,
        SWEPT_AT_ONCE,
    )
    return [NotebookKey(str(tenant), str(pad_id)) for tenant, pad_id in rows]


class Uses:
    """The times of reads. They are written a moment later and together, so that a read costs no commit."""

    def __init__(self, database: Database, now: Callable[[], int]) -> None:
        self._database = database
        self._now = now
        self._pending: dict[NotebookKey, int] = {}
        self._writing: asyncio.Task[None] | None = None

    def note(self, key: NotebookKey) -> None:
        self._pending[key] = self._now()
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write_later())

    def pending(self) -> dict[NotebookKey, int]:
        """The uses that are not written yet. A transaction that needs them writes them itself; then `forget` them."""
        return dict(self._pending)

    def forget(self, uses: Mapping[NotebookKey, int]) -> None:
        """Drop uses that were written. Not before: a pad that was read must not count as idle because a write was refused."""
        for key, used in uses.items():
            if self._pending.get(key) == used:
                del self._pending[key]

    def drop(self, key: NotebookKey) -> None:
        self._pending.pop(key, None)

    async def _write_later(self) -> None:
        await asyncio.sleep(WRITE_DELAY_SECONDS)
        await self.write()

    async def write(self) -> None:
        uses = self.pending()
        if not uses:
            return
        try:
            await self._database.write_soon(lambda tx: touch(tx, uses))
        except CellwrightError as error:
            # A read must not fail because its time could not be noted.
            log.warning("pad_uses_not_noted", extra=event_keys(error=error.code))
        else:
            self.forget(uses)

    async def close(self) -> None:
        """Write the uses that are not written yet."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        await self.write()
