"""How far a LanceDB index is, and which process may write to it. Both are in the database, which is the source of truth."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from cellwright.storage.database import Engine, Transaction
from cellwright.storage.lance.schema import last_settled_change

LEASE_SECONDS = 30.0
COMPLETE = -1


@dataclass(frozen=True, slots=True)
class IndexState:
    """One index. It is complete once every entry was copied; after that, changes are applied to it."""

    name: str
    """The name of the table in LanceDB; empty if one is still to be created."""
    dimensions: int
    stamp: str
    next_stamp: str
    applied: int
    copied: int

    @property
    def is_complete(self) -> bool:
        return bool(self.name) and self.copied == COMPLETE

    def expects(self, stamp: str | None) -> bool:
        """Whether an index with this stamp has all batches that the database recorded, or one more."""
        return bool(stamp) and stamp in {self.stamp, self.next_stamp}


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to an index for a limited time."""

    place: str
    holder: str


NOTHING = IndexState("", 0, "", "", 0, 0)


def read_index(tx: Transaction, place: str) -> IndexState:
    row = tx.row(
        "SELECT name, dimensions, stamp, next_stamp, applied, copied FROM lance_indexes WHERE place = ?", place
    )
    return IndexState(*cast("tuple[str, int, str, str, int, int]", row)) if row else NOTHING


def take_lease(tx: Transaction, lease: Lease, now: float, seconds: float = LEASE_SECONDS) -> bool:
    """Take or renew the lease. False if another process holds it and it has not expired."""
    tx.run(
        "INSERT INTO lance_indexes VALUES (?, '', 0, '', '', 0, 0, '', 0) ON CONFLICT (place) DO NOTHING", lease.place
    )
    return bool(
        tx.run(
            "UPDATE lance_indexes SET holder = ?, held_until = ? WHERE place = ? AND (holder IN (?, '') OR held_until < ?)",
            *(lease.holder, now + seconds, lease.place, lease.holder, now),
        )
    )


def give_back(tx: Transaction, lease: Lease) -> None:
    tx.run(
        "UPDATE lance_indexes SET holder = '', held_until = 0 WHERE place = ? AND holder = ?", lease.place, lease.holder
    )


def begin_table(tx: Transaction, lease: Lease, engine: Engine, name: str, dimensions: int, stamp: str) -> bool:
    """Make this table, which is still empty, the index. False if another process has the lease by now."""
    return bool(
        tx.run(
            "UPDATE lance_indexes SET name = ?, dimensions = ?, stamp = ?, next_stamp = '', applied = ?, copied = 0 "
            "WHERE place = ? AND holder = ?",
            *(name, dimensions, stamp, last_settled_change(tx, engine), lease.place, lease.holder),
        )
    )


def begin_batch(tx: Transaction, lease: Lease, name: str, now: float) -> str | None:
    """The stamp of the next batch. None if another process has the lease by now, or the table was replaced."""
    stamp = secrets.token_hex(8)
    updated = tx.run(
        "UPDATE lance_indexes SET next_stamp = ?, held_until = ? WHERE place = ? AND holder = ? AND name = ?",
        *(stamp, now + LEASE_SECONDS, lease.place, lease.holder, name),
    )
    return stamp if updated else None


def end_batch(tx: Transaction, lease: Lease, stamp: str, applied: int, copied: int) -> bool:
    """Record that the batch is in the index. Changes that every index has are deleted."""
    updated = tx.run(
        "UPDATE lance_indexes SET stamp = ?, next_stamp = '', applied = ?, copied = ? "
        "WHERE place = ? AND holder = ? AND next_stamp = ?",
        *(stamp, applied, copied, lease.place, lease.holder, stamp),
    )
    tx.run("DELETE FROM lance_changes WHERE number <= (SELECT min(applied) FROM lance_indexes)")
    return bool(updated)


def condemn(tx: Transaction, place: str) -> None:
    """Have the index rebuilt by the next process that takes the lease."""
    tx.run("UPDATE lance_indexes SET name = '' WHERE place = ?", place)


def is_behind(tx: Transaction, state: IndexState, tenant: str | None = None) -> bool:
    condition, values = ("", ()) if tenant is None else (" AND tenant = ?", (tenant,))
    change = tx.row(f"SELECT 1 FROM lance_changes WHERE number > ?{condition} LIMIT 1", state.applied, *values)  # noqa: S608
    return change is not None


def next_changes(tx: Transaction, engine: Engine, state: IndexState, limit: int) -> tuple[Sequence[int], int]:
    """The ids of entries that changed, and the number of the last change among them."""
    rows = tx.rows(
        "SELECT number FROM lance_changes WHERE number > ? AND number <= ? ORDER BY number LIMIT ?",
        *(state.applied, last_settled_change(tx, engine), limit),
    )
    if not rows:
        return (), state.applied
    # Read by number, because all changes of one transaction may have the same.
    last = cast("int", rows[-1][0])
    changed = tx.rows("SELECT entry FROM lance_changes WHERE number > ? AND number <= ?", state.applied, last)
    return [cast("int", entry) for (entry,) in changed], last


def holds(tx: Transaction, lease: Lease) -> bool:
    return tx.row("SELECT 1 FROM lance_indexes WHERE place = ? AND holder = ?", lease.place, lease.holder) is not None
