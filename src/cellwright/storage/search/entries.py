"""The rows of everything that can be found, and which of them wait for a vector: the same on both engines."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from cellwright.storage.database import Transaction
from cellwright.storage.search.port import LONGEST_OF_A_HIT, Entry, Hit, Key, Query
from cellwright.storage.values import Value

COLUMNS = "e.tenant, e.kind, e.thing, e.part, e.body, e.title, e.namespace, e.tags, e.language"
BEGINNINGS = COLUMNS.replace("e.body", f"substr(e.body, 1, {LONGEST_OF_A_HIT + 1})")
"""One character more than a hit has: it shows whether the text is longer."""


@dataclass(frozen=True, slots=True)
class PutEntry:
    """What storing an entry has changed."""

    id: int
    is_new: bool
    text_changed: bool
    scope_changed: bool


@dataclass(frozen=True, slots=True)
class WaitingEntry:
    """An entry that has no vector of its present text, with as much of that text as any model reads."""

    id: int
    tenant: str
    text: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries that are embedded together."""

    waiting: tuple[WaitingEntry, ...]
    replaced_up_to: int | None = None
    """If set: after this batch, no entry up to this id has a vector of an earlier model."""


@dataclass(frozen=True, slots=True)
class State:
    """The model whose vectors are stored. Entries from `done` to `goal` may still have vectors of an earlier one."""

    model: str
    done: int
    goal: int


def text_for_meaning(key: Key, title: str, text: str) -> str:
    """The text to embed. For a whole thing it includes the title; for a part it does not, so a new title changes no vectors of parts."""
    return (text if key.part else f"{title}\n{text}").strip()


def digest_of(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest() if text else b""


def put_entry(tx: Transaction, entry: Entry) -> PutEntry:
    key = entry.key
    tags = json.dumps(entry.tags, ensure_ascii=False)
    digest = digest_of(text_for_meaning(key, entry.title, entry.text))
    old = tx.row(
        "SELECT id, digest, namespace, tags FROM search_entries WHERE tenant = ? AND kind = ? AND thing = ? AND part = ?",
        *(key.tenant, key.kind, key.thing, key.part),
    )
    values: tuple[Value, ...] = (entry.namespace, tags, entry.language, entry.title, digest, entry.text)
    if old is None:
        row = tx.row(
            "INSERT INTO search_entries (tenant, kind, thing, part, namespace, tags, language, title, digest, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            *(key.tenant, key.kind, key.thing, key.part),
            *values,
        )
        assert row is not None
        return PutEntry(cast("int", row[0]), is_new=True, text_changed=True, scope_changed=True)
    tx.run(
        "UPDATE search_entries SET namespace = ?, tags = ?, language = ?, title = ?, digest = ?, body = ? WHERE id = ?",
        *values,
        old[0],
    )
    return PutEntry(
        cast("int", old[0]),
        is_new=False,
        text_changed=old[1] != digest,
        scope_changed=(old[2], old[3]) != (entry.namespace, tags),
    )


def remove_entries(tx: Transaction, tenant: str, kind: str, thing: str, part: str | None) -> list[int]:
    """Delete one part of a thing, or all of it. Returns the ids of the deleted rows."""
    condition = "" if part is None else " AND part = ?"
    values = (tenant, kind, thing) if part is None else (tenant, kind, thing, part)
    deleted = tx.rows(
        f"DELETE FROM search_entries WHERE tenant = ? AND kind = ? AND thing = ?{condition} RETURNING id",  # noqa: S608
        *values,
    )
    return [cast("int", entry) for (entry,) in deleted]


def entry_of(row: Sequence[Value]) -> Entry:
    tenant, kind, thing, part, body, title, namespace, tags, language = cast("tuple[str, ...]", row[:9])
    return Entry(Key(tenant, kind, thing, part), body, title, namespace, tuple(json.loads(tags)), language)


def ids_in_scope(tx: Transaction, query: Query, ids: Sequence[int]) -> set[int]:
    """Those of these entries that pass the query's filters. The rows decide: the indexes only have digests of the values."""
    if not ids:
        return set()
    # Our own numbers, as literals, because an engine limits how many values can be bound.
    rows = tx.rows(
        "SELECT id, kind, namespace, tags FROM search_entries WHERE tenant = ? "  # noqa: S608
        f"AND id IN ({', '.join(map(str, ids))})",
        query.tenant,
    )
    return {
        cast("int", number)
        for number, kind, namespace, tags in rows
        if (not query.kinds or kind in query.kinds)
        and (not query.namespaces or namespace in query.namespaces)
        and (not query.tags or bool(set(query.tags) & set(json.loads(cast("str", tags)))))
    }


def read_hits(tx: Transaction, query: Query, ranked: Sequence[tuple[int, float]]) -> tuple[Hit, ...]:
    """The best of these entries that pass the query's filters, with the beginning of long texts."""
    ids = ids_in_scope(tx, query, [entry for entry, _ in ranked])
    chosen = [(entry, score) for entry, score in ranked if entry in ids][: query.limit]
    if not chosen:
        return ()
    numbers = ", ".join(str(entry) for entry, _ in chosen)
    rows = tx.rows(f"SELECT {BEGINNINGS}, e.id FROM search_entries e WHERE e.id IN ({numbers})")  # noqa: S608
    entries = {cast("int", row[9]): entry_of(row) for row in rows}
    return tuple(_hit(entries[entry], score, entry) for entry, score in chosen)


def _hit(entry: Entry, score: float, row: int) -> Hit:
    if len(entry.text) <= LONGEST_OF_A_HIT:
        return Hit(entry, score)
    return Hit(replace(entry, text=entry.text[:LONGEST_OF_A_HIT]), score, row)


def whole(tx: Transaction, hit: Hit) -> Entry:
    """The hit's entry with its whole text; with the beginning of it if the entry was deleted meanwhile."""
    if hit.row is None:
        return hit.entry
    body = tx.row("SELECT body FROM search_entries WHERE tenant = ? AND id = ?", hit.entry.key.tenant, hit.row)
    return hit.entry if body is None else replace(hit.entry, text=cast("str", body[0]))


# -- waiting for vectors ---------------------------------------------------------------------------------------------------------


def enqueue(tx: Transaction, entry: int) -> None:
    tx.run(
        "INSERT INTO search_pending (entry, since) VALUES (?, ?) ON CONFLICT (entry) DO UPDATE SET since = excluded.since",
        *(entry, time.time_ns()),
    )


def dequeue(tx: Transaction, entry: int) -> None:
    tx.run("DELETE FROM search_pending WHERE entry = ?", entry)


def read_state(tx: Transaction) -> State:
    row = tx.row("SELECT model, done, goal FROM search_state")
    assert row is not None
    return State(*cast("tuple[str, int, int]", row))


def is_behind(tx: Transaction) -> bool:
    """Whether anything waits for a vector."""
    state = read_state(tx)
    return state.done < state.goal or tx.row("SELECT 1 FROM search_pending LIMIT 1") is not None


def adopt_model(tx: Transaction, model: str) -> None:
    """Use this model for vectors from now on. Those of another model are replaced in the background."""
    if read_state(tx).model != model:
        tx.run(
            "UPDATE search_state SET model = ?, done = 0, goal = (SELECT coalesce(max(id), 0) FROM search_entries)",
            model,
        )


def take_waiting(tx: Transaction, model: str, limit: int) -> Batch:
    """The entries to embed next: first the newest, then those with vectors of an earlier model. Empty if another model is in use now."""
    state = read_state(tx)
    if state.model != model:
        return Batch(())
    rows = tx.rows(
        f"SELECT e.id, {BEGINNINGS}, e.digest FROM search_pending p JOIN search_entries e ON e.id = p.entry "  # noqa: S608
        "ORDER BY p.since DESC LIMIT ?",
        limit,
    )
    if rows or state.done >= state.goal:
        return Batch(tuple(map(_waiting_entry, rows)))
    rows = tx.rows(
        f"SELECT e.id, {BEGINNINGS}, e.digest FROM search_entries e WHERE e.id > ? AND e.id <= ? ORDER BY e.id LIMIT ?",  # noqa: S608
        *(state.done, state.goal, limit),
    )
    return Batch(tuple(map(_waiting_entry, rows)), cast("int", rows[-1][0]) if rows else state.goal)


def _waiting_entry(row: Sequence[Value]) -> WaitingEntry:
    entry = entry_of(row[1:10])
    text = text_for_meaning(entry.key, entry.title, entry.text)
    return WaitingEntry(cast("int", row[0]), entry.key.tenant, text, cast("bytes", row[10]))


def note_replaced(tx: Transaction, up_to: int) -> None:
    """Note that no entry up to this id has a vector of an earlier model."""
    tx.run("UPDATE search_state SET done = ? WHERE done < ?", up_to, up_to)


def still_current(tx: Transaction, waiting: WaitingEntry) -> bool:
    row = tx.row("SELECT tenant, digest FROM search_entries WHERE id = ?", waiting.id)
    return row == (waiting.tenant, waiting.digest)


# -- all of them -----------------------------------------------------------------------------------------------------------------


def count(tx: Transaction) -> int:
    row = tx.row("SELECT count(*) FROM search_entries")
    return cast("int", row[0]) if row else 0


def read_after(tx: Transaction, after: int, limit: int) -> list[tuple[int, Entry]]:
    rows = tx.rows(
        f"SELECT {COLUMNS}, e.id FROM search_entries e WHERE e.id > ? ORDER BY e.id LIMIT ?",  # noqa: S608
        *(after, limit),
    )
    return [(cast("int", row[9]), entry_of(row)) for row in rows]


def read_languages(tx: Transaction, ids: Sequence[int]) -> dict[int, str]:
    if not ids:
        return {}
    rows = tx.rows(f"SELECT id, language FROM search_entries WHERE id IN ({', '.join(map(str, ids))})")  # noqa: S608
    return {cast("int", number): cast("str", language) for number, language in rows}


def count_waiting(tx: Transaction) -> int:
    row = tx.row("SELECT count(*) FROM search_pending")
    return cast("int", row[0]) if row else 0
