"""What of a collection is in the index: written in the transaction that changes the index, so the two cannot differ."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from cellwright.notebook.places import Place, PlaceKind
from cellwright.storage.database import Transaction
from cellwright.storage.search.port import Entry, SearchIndex

MOST_FORGOTTEN = 200


@dataclass(frozen=True, slots=True)
class Known:
    """The marks of what is in the index, by kind and id."""

    marks: dict[tuple[str, str], str]
    oldest: float | None
    """When the first of them was last looked at."""
    some_unseen: bool
    """Whether anybody has something that was not looked at since the time that was given."""


def read_known(tx: Transaction, tenant: str, kinds: Sequence[PlaceKind], unseen_since: float) -> Known:
    rows = tx.rows(
        f"SELECT kind, thing, stamp, seen FROM finding_things WHERE tenant = ? AND kind IN ({_marks(kinds)})",  # noqa: S608
        *(tenant, *kinds),
    )
    marks = {(str(kind), str(thing)): str(mark) for kind, thing, mark, _ in rows}
    unseen = tx.row(
        f"SELECT 1 FROM finding_things WHERE kind IN ({_marks(kinds)}) AND seen < ? LIMIT 1",  # noqa: S608
        *(*kinds, unseen_since),
    )
    return Known(marks, min((cast("float", row[3]) for row in rows), default=None), unseen is not None)


def write_entries(
    tx: Transaction, index: SearchIndex, tenant: str, place: Place, entries: Sequence[Entry], now: float
) -> None:
    """Replace what the index has of a place. Parts that stayed as they were keep their vectors."""
    row = tx.row(
        "SELECT parts FROM finding_things WHERE tenant = ? AND kind = ? AND thing = ?", tenant, place.kind, place.id
    )
    parts = [entry.key.part for entry in entries]
    gone = set(cast("list[str]", json.loads(cast("str", row[0])))) - set(parts) if row else ()
    for part in gone:
        index.remove(tx, tenant, place.kind, place.id, part)
    index.put(tx, entries)
    tx.run(
        "INSERT INTO finding_things (tenant, kind, thing, stamp, parts, seen) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, kind, thing) DO UPDATE SET stamp = excluded.stamp, parts = excluded.parts, seen = excluded.seen",
        *(tenant, place.kind, place.id, place.mark, json.dumps(parts), now),
    )


def forget(tx: Transaction, index: SearchIndex, tenant: str, things: Sequence[tuple[str, str]]) -> None:
    for kind, thing in things:
        index.remove(tx, tenant, kind, thing)
        tx.run("DELETE FROM finding_things WHERE tenant = ? AND kind = ? AND thing = ?", tenant, kind, thing)


def note_seen(tx: Transaction, tenant: str, kinds: Sequence[PlaceKind], now: float) -> None:
    tx.run(
        f"UPDATE finding_things SET seen = ? WHERE tenant = ? AND kind IN ({_marks(kinds)})",  # noqa: S608
        *(now, tenant, *kinds),
    )


def forget_unseen(tx: Transaction, index: SearchIndex, kinds: Sequence[PlaceKind], before: float) -> None:
    """Forget what nobody has looked at for long: its owner may never come again."""
    rows = tx.rows(
        f"SELECT tenant, kind, thing FROM finding_things WHERE kind IN ({_marks(kinds)}) AND seen < ? LIMIT ?",  # noqa: S608
        *(*kinds, before, MOST_FORGOTTEN),
    )
    for tenant, kind, thing in rows:
        forget(tx, index, str(tenant), [(str(kind), str(thing))])


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
