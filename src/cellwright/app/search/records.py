"""Records which places of a collection are in the index, in the transaction that changes the index, so that the two cannot differ."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from cellwright.notebook.places import Place, PlaceKind
from cellwright.storage.database import Transaction
from cellwright.storage.search.port import Entry, SearchIndex

MOST_FORGOTTEN = 200


@dataclass(frozen=True, slots=True)
class Indexed:
    """The places of a tenant that are in the index."""

    marks: dict[tuple[str, str], str]
    """By kind and id."""
    oldest: float | None
    """The earliest time at which one of them was last seen."""
    some_unseen: bool
    """Whether anybody has a place that was not seen since the time in question."""


def read_indexed(tx: Transaction, tenant: str, kinds: Sequence[PlaceKind], unseen_since: float) -> Indexed:
    rows = tx.rows(
        f"SELECT kind, thing, stamp, seen FROM finding_things WHERE tenant = ? AND kind IN ({_placeholders(kinds)})",  # noqa: S608
        *(tenant, *kinds),
    )
    marks = {(str(kind), str(place_id)): str(mark) for kind, place_id, mark, _ in rows}
    unseen = tx.row(
        f"SELECT 1 FROM finding_things WHERE kind IN ({_placeholders(kinds)}) AND seen < ? LIMIT 1",  # noqa: S608
        *(*kinds, unseen_since),
    )
    return Indexed(marks, min((cast("float", row[3]) for row in rows), default=None), unseen is not None)


def write_entries(
    tx: Transaction, index: SearchIndex, tenant: str, place: Place, entries: Sequence[Entry], now: float
) -> None:
    """Replace the entries of a place in the index. Parts that did not change keep their vectors."""
    row = tx.row(
        "SELECT parts FROM finding_things WHERE tenant = ? AND kind = ? AND thing = ?", tenant, place.kind, place.id
    )
    parts = [entry.key.part for entry in entries]
    removed_parts = set(cast("list[str]", json.loads(cast("str", row[0])))) - set(parts) if row else ()
    for part in removed_parts:
        index.remove(tx, tenant, place.kind, place.id, part)
    index.put(tx, entries)
    tx.run(
        "INSERT INTO finding_things (tenant, kind, thing, stamp, parts, seen) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, kind, thing) DO UPDATE SET stamp = excluded.stamp, parts = excluded.parts, seen = excluded.seen",
        *(tenant, place.kind, place.id, place.mark, json.dumps(parts), now),
    )


def forget(tx: Transaction, index: SearchIndex, tenant: str, places: Sequence[tuple[str, str]]) -> None:
    """Remove places, by kind and id, from the index."""
    for kind, place_id in places:
        index.remove(tx, tenant, kind, place_id)
        tx.run("DELETE FROM finding_things WHERE tenant = ? AND kind = ? AND thing = ?", tenant, kind, place_id)


def note_seen(tx: Transaction, tenant: str, kinds: Sequence[PlaceKind], now: float) -> None:
    tx.run(
        f"UPDATE finding_things SET seen = ? WHERE tenant = ? AND kind IN ({_placeholders(kinds)})",  # noqa: S608
        *(now, tenant, *kinds),
    )


def forget_unseen(tx: Transaction, index: SearchIndex, kinds: Sequence[PlaceKind], before: float) -> None:
    """Forget places that were not seen since `before`: their owner may never come again."""
    rows = tx.rows(
        f"SELECT tenant, kind, thing FROM finding_things WHERE kind IN ({_placeholders(kinds)}) AND seen < ? LIMIT ?",  # noqa: S608
        *(*kinds, before, MOST_FORGOTTEN),
    )
    for tenant, kind, place_id in rows:
        forget(tx, index, str(tenant), [(str(kind), str(place_id))])


def _placeholders(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
