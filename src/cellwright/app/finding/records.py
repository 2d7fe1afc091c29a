"""What of a place is in the index: written in the transaction that changes the index, so the two cannot differ."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from cellwright.app.finding.model import Content, Kind
from cellwright.storage.database import Transaction
from cellwright.storage.search import SearchIndex

MOST_FORGOTTEN = 200


@dataclass(frozen=True, slots=True)
class Known:
    """The stamps of what is in the index, by kind and id."""

    stamps: dict[tuple[str, str], str]
    oldest: float | None
    """When the first of them was last looked at."""
    some_unseen: bool
    """Whether anybody has something that was not looked at since the time that was given."""


def read_known(tx: Transaction, tenant: str, kinds: Sequence[Kind], unseen_since: float) -> Known:
    rows = tx.rows(
        f"SELECT kind, thing, stamp, seen FROM finding_things WHERE tenant = ? AND kind IN ({_marks(kinds)})",  # noqa: S608
        *(tenant, *kinds),
    )
    stamps = {(str(kind), str(thing)): str(stamp) for kind, thing, stamp, _ in rows}
    unseen = tx.row(
        f"SELECT 1 FROM finding_things WHERE kind IN ({_marks(kinds)}) AND seen < ? LIMIT 1",  # noqa: S608
        *(*kinds, unseen_since),
    )
    return Known(stamps, min((cast("float", row[3]) for row in rows), default=None), unseen is not None)


def write_content(tx: Transaction, index: SearchIndex, tenant: str, content: Content, now: float) -> None:
    """Replace what the index has of a thing. Parts that stayed as they were keep their vectors."""
    thing = content.thing
    row = tx.row(
        "SELECT parts FROM finding_things WHERE tenant = ? AND kind = ? AND thing = ?", tenant, thing.kind, thing.id
    )
    parts = [entry.key.part for entry in content.entries]
    gone = set(cast("list[str]", json.loads(cast("str", row[0])))) - set(parts) if row else ()
    for part in gone:
        index.remove(tx, tenant, thing.kind, thing.id, part)
    index.put(tx, content.entries)
    tx.run(
        "INSERT INTO finding_things (tenant, kind, thing, stamp, parts, seen) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, kind, thing) DO UPDATE SET stamp = excluded.stamp, parts = excluded.parts, seen = excluded.seen",
        *(tenant, thing.kind, thing.id, thing.stamp, json.dumps(parts), now),
    )


def forget(tx: Transaction, index: SearchIndex, tenant: str, things: Sequence[tuple[str, str]]) -> None:
    for kind, thing in things:
        index.remove(tx, tenant, kind, thing)
        tx.run("DELETE FROM finding_things WHERE tenant = ? AND kind = ? AND thing = ?", tenant, kind, thing)


def note_seen(tx: Transaction, tenant: str, kinds: Sequence[Kind], now: float) -> None:
    tx.run(
        f"UPDATE finding_things SET seen = ? WHERE tenant = ? AND kind IN ({_marks(kinds)})",  # noqa: S608
        *(now, tenant, *kinds),
    )


def forget_unseen(tx: Transaction, index: SearchIndex, kinds: Sequence[Kind], before: float) -> None:
    """Forget what nobody has looked at for long: its owner may never come again."""
    rows = tx.rows(
        f"SELECT tenant, kind, thing FROM finding_things WHERE kind IN ({_marks(kinds)}) AND seen < ? LIMIT ?",  # noqa: S608
        *(*kinds, before, MOST_FORGOTTEN),
    )
    for tenant, kind, thing in rows:
        forget(tx, index, str(tenant), [(str(kind), str(thing))])


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
