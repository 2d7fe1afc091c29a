"""When pads were used last, and which have not been used for long. Apart from the pads themselves, so that reading rewrites nothing.

A change leaves its time in the pad alone, to cost less; whoever looks for the least used here brings it over.
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

NOTED_AFTER_SECONDS = 2.0
BROUGHT_OVER_AT_ONCE = 50
SWEPT_AT_ONCE = 1000


def begin(tx: Transaction, key: NotebookKey, now: int) -> None:
    """A new pad has been used now."""
    tx.run("INSERT INTO pad_uses (tenant, pad, used) VALUES (?, ?, ?)", key.owner, key.id, now)


def touch(tx: Transaction, uses: Mapping[NotebookKey, int]) -> None:
    for key, used in uses.items():
        tx.run("UPDATE pad_uses SET used = ? WHERE tenant = ? AND pad = ? AND used < ?", used, key.owner, key.id, used)


def least_used(tx: Transaction, tenant: str, count: int) -> list[str]:
    """The pads that were neither read nor changed for longest."""
    while True:
        found = tx.rows(
            "SELECT u.pad, u.used, p.updated FROM pad_uses u JOIN pads p ON p.tenant = u.tenant AND p.id = u.pad "
            "WHERE u.tenant = ? ORDER BY u.used, u.pad LIMIT ?",
            tenant,
            max(count, BROUGHT_OVER_AT_ONCE),
        )
        oldest = cast("list[tuple[str, int, int]]", found)
        # What stands here is never later than the truth: the first ones that are right are the least used.
        if all(updated <= used for _, used, updated in oldest[:count]):
            return [pad for pad, _, _ in oldest[:count]]
        touch(tx, {NotebookKey(tenant, pad): updated for pad, used, updated in oldest if updated > used})


def idle_since(tx: Transaction, moment: int) -> list[NotebookKey]:
    """Pads of everyone that were used last before this moment."""
    found = tx.rows(
        "SELECT u.tenant, u.pad FROM pad_uses u JOIN pads p ON p.tenant = u.tenant AND p.id = u.pad "
        "WHERE u.used < ? AND p.updated < ? LIMIT ?",
        moment,
        moment,
        SWEPT_AT_ONCE,
    )
    return [NotebookKey(str(tenant), str(pad)) for tenant, pad in found]


class Uses:
    """The times of reads, written a moment later with others, so that reading costs no commit."""

    def __init__(self, database: Database, now: Callable[[], int]) -> None:
        self._database = database
        self._now = now
        self._noted: dict[NotebookKey, int] = {}
        self._writing: asyncio.Task[None] | None = None

    def note(self, key: NotebookKey) -> None:
        self._noted[key] = self._now()
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write_later())

    def noted(self) -> dict[NotebookKey, int]:
        """What is not written yet: a transaction that needs the truth writes it itself, and then says so to `forget`."""
        return dict(self._noted)

    def forget(self, written: Mapping[NotebookKey, int]) -> None:
        """Only once they are written: a pad that was read must not count as idle because a write was refused."""
        for key, used in written.items():
            if self._noted.get(key) == used:
                del self._noted[key]

    def drop(self, key: NotebookKey) -> None:
        self._noted.pop(key, None)

    async def _write_later(self) -> None:
        await asyncio.sleep(NOTED_AFTER_SECONDS)
        await self.write()

    async def write(self) -> None:
        noted = self.noted()
        if not noted:
            return
        try:
            await self._database.write_soon(lambda tx: touch(tx, noted))
        except CellwrightError as error:
            # A read must not fail because its time could not be noted.
            log.warning("pad_uses_not_noted", extra=event_keys(error=error.code))
        else:
            self.forget(noted)

    async def close(self) -> None:
        """Write what is not written yet."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        await self.write()
