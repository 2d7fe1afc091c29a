"""How far a LanceDB index has come, and who brings it further: rows of the database, because the database is the truth."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from cellwright.storage.database import Engine, Transaction
from cellwright.storage.lance.schema import settled

LEASE_SECONDS = 30.0
COMPLETE = -1


@dataclass(frozen=True, slots=True)
class IndexState:
    """One index. It is complete once every entry was copied; from then on it follows the changes."""

    name: str
    """Of the table in LanceDB; empty if one is to be made."""
    dimensions: int
    stamp: str
    next_stamp: str
    applied: int
    copied: int

    @property
    def is_complete(self) -> bool:
        return bool(self.name) and self.copied == COMPLETE

    def expects(self, stamp: str | None) -> bool:
        """Whether an index with this stamp has what the database says it has, or one batch more."""
        return bool(stamp) and stamp in {self.stamp, self.next_stamp}


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to an index, for a while."""

    place: str
    holder: str


NOTHING = IndexState("", 0, "", "", 0, 0)


def read_index(tx: Transaction, place: str) -> IndexState:
    row = tx.row(
        "SELECT name, dimensions, stamp, next_stamp, applied, copied FROM lance_indexes WHERE place = ?", place
    )
    return IndexState(*cast("tuple[str, int, str, str, int, int]", row)) if row else NOTHING


def take_lease(tx: Transaction, lease: Lease, now: float, seconds: float = LEASE_SECONDS) -> bool:
    """Whether we have it now: nobody else does, or has let it lapse."""
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
    """From now on the index is this table, which has nothing yet. False if the lease is another's by now."""
    return bool(
        tx.run(
            "UPDATE lance_indexes SET name = ?, dimensions = ?, stamp = ?, next_stamp = '', applied = ?, copied = 0 "
            "WHERE place = ? AND holder = ?",
            *(name, dimensions, stamp, settled(tx, engine), lease.place, lease.holder),
        )
    )


def begin_batch(tx: Transaction, lease: Lease, name: str, now: float) -> str | None:
    """The stamp of the batch that is written next; None if the lease or the table is another's by now."""
    stamp = secrets.token_hex(8)
    mine = tx.run(
        "UPDATE lance_indexes SET next_stamp = ?, held_until = ? WHERE place = ? AND holder = ? AND name = ?",
        *(stamp, now + LEASE_SECONDS, lease.place, lease.holder, name),
    )
    return stamp if mine else None


def end_batch(tx: Transaction, lease: Lease, stamp: str, applied: int, copied: int) -> bool:
    """The batch is in the index. What every index has need not be told any more."""
    mine = tx.run(
        "UPDATE lance_indexes SET stamp = ?, next_stamp = '', applied = ?, copied = ? "
        "WHERE place = ? AND holder = ? AND next_stamp = ?",
        *(stamp, applied, copied, lease.place, lease.holder, stamp),
    )
    tx.run("DELETE FROM lance_changes WHERE number <= (SELECT min(applied) FROM lance_indexes)")
    return bool(mine)


def condemn(tx: Transaction, place: str) -> None:
    """Have the index made anew by whoever has the lease next."""
    tx.run("UPDATE lance_indexes SET name = '' WHERE place = ?", place)


def is_behind(tx: Transaction, state: IndexState, tenant: str | None = None) -> bool:
    only, values = ("", ()) if tenant is None else (" AND tenant = ?", (tenant,))
    return tx.row(f"SELECT 1 FROM lance_changes WHERE number > ?{only} LIMIT 1", state.applied, *values) is not None  # noqa: S608


def next_changes(tx: Transaction, engine: Engine, state: IndexState, limit: int) -> tuple[Sequence[int], int]:
    """Entries that changed, and the number of the last change among them."""
    until = settled(tx, engine)
    rows = tx.rows(
        "SELECT number FROM lance_changes WHERE number > ? AND number <= ? ORDER BY number LIMIT ?",
        *(state.applied, until, limit),
    )
    if not rows:
        return (), state.applied
    # All changes of one transaction may have the same number.
    last = cast("int", rows[-1][0])
    found = tx.rows("SELECT entry FROM lance_changes WHERE number > ? AND number <= ?", state.applied, last)
    return [cast("int", entry) for (entry,) in found], last


def holds(tx: Transaction, lease: Lease) -> bool:
    return tx.row("SELECT 1 FROM lance_indexes WHERE place = ? AND holder = ?", lease.place, lease.holder) is not None
