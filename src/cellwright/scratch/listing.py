"""Pads, tags and namespaces as lists. The database filters, orders and limits; nothing is read that is not shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from typing_extensions import TypedDict

from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.text.counting import counted
from cellwright.scratch.rows import marks
from cellwright.scratch.store import PadStore
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Transaction, Value


class PadEntry(TypedDict):
    scratch_id: str
    title: str | None
    description: str | None
    namespace: str | None
    cell_count: int


class NamespaceEntry(TypedDict):
    namespace: str
    scratchpad_count: int


@dataclass(frozen=True, slots=True)
class PadPage:
    items: list[PadEntry]
    cursors: list[str]
    """For each item the cursor that goes on after it."""
    next: str | None


def list_pads(
    tx: Transaction, tenant: str, namespaces: Sequence[str], tags: Sequence[str], limit: int, cursor: str | None
) -> PadPage:
    """Newest change first. A pad has a tag if it or one of its cells has."""
    where, values = ["tenant = ?"], list[Value]([tenant])
    if namespaces:
        where.append(f"namespace IN ({marks(namespaces)})")
        values += namespaces
    if tags:
        tagged = f"SELECT pad FROM {{}} WHERE tenant = ? AND tag IN ({marks(tags)})"  # noqa: S608
        where.append(f"id IN ({tagged.format('pad_tags')} UNION {tagged.format('cell_tags')})")
        values += [tenant, *tags, tenant, *tags]
    if cursor is not None:
        updated, pad_id = _position(cursor)
        where.append("(updated < ? OR (updated = ? AND id > ?))")
        values += [updated, updated, pad_id]
    found = tx.rows(
        "SELECT id, title, description, namespace, cell_count, updated FROM pads "  # noqa: S608
        f"WHERE {' AND '.join(where)} ORDER BY updated DESC, id LIMIT ?",
        *values,
        limit + 1,
    )
    shown = cast("list[tuple[str, str | None, str | None, str | None, int, int]]", found[:limit])
    items: list[PadEntry] = [
        {"scratch_id": pad, "title": title, "description": description, "namespace": namespace, "cell_count": count}
        for pad, title, description, namespace, count, _updated in shown
    ]
    cursors = [f"{updated}.{pad}" for pad, *_, updated in shown]
    return PadPage(items, cursors, cursors[-1] if len(found) > limit else None)


def _position(cursor: str) -> tuple[int, str]:
    updated, _, pad_id = cursor.partition(".")
    if not (updated.isascii() and updated.isdigit() and len(updated) <= 18):  # noqa: PLR2004
        raise InvalidArgument("this cursor did not come from an earlier page", hint="leave it out to begin again")
    return int(updated), pad_id


def all_tags(tx: Transaction, tenant: str, namespaces: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tags of pads, and those of cells."""
    only, values = "", list[Value]([tenant])
    if namespaces:
        only = f" AND pad IN (SELECT id FROM pads WHERE tenant = ? AND namespace IN ({marks(namespaces)}))"  # noqa: S608
        values += [tenant, *namespaces]

    def tags_in(table: str) -> list[str]:
        found = tx.rows(f"SELECT DISTINCT tag FROM {table} WHERE tenant = ?{only}", *values)  # noqa: S608
        return sorted(cast("str", tag) for (tag,) in found)

    return tags_in("pad_tags"), tags_in("cell_tags")


def list_namespaces(tx: Transaction, tenant: str) -> list[NamespaceEntry]:
    found = tx.rows(
        "SELECT n.name, COUNT(p.id) FROM namespaces n LEFT JOIN pads p ON p.tenant = n.tenant AND p.namespace = n.name "
        "WHERE n.tenant = ? GROUP BY n.name ORDER BY n.name",
        tenant,
    )
    counts = cast("list[tuple[str, int]]", found)
    return [{"namespace": name, "scratchpad_count": count} for name, count in counts]


def pads_in(tx: Transaction, tenant: str, namespace: str) -> list[str]:
    found = tx.rows("SELECT id FROM pads WHERE tenant = ? AND namespace = ? ORDER BY id", tenant, namespace)
    return [cast("str", pad) for (pad,) in found]


def rename_namespace(
    store: PadStore, tx: Transaction, tenant: str, old: str, new: str, *, migrate: bool, now: int
) -> list[str]:
    """The pads that moved. The new name must be free, the old one must exist."""
    known = {item["namespace"] for item in list_namespaces(tx, tenant)}
    if old not in known:
        raise NotFound(f"there is no namespace {old!r}", hint="scratch_namespace_list shows them")
    if old == new:
        return []
    pads = pads_in(tx, tenant, old)
    if new in known:
        raise InvalidArgument(f"there is a namespace {new!r} already", hint="delete it or choose another name")
    if pads and not migrate:
        raise InvalidArgument(
            f"{old!r} holds {counted(len(pads), 'pad')}", hint="migrate_scratchpads: true moves them to the new name"
        )
    tx.run("UPDATE namespaces SET name = ? WHERE tenant = ? AND name = ?", new, tenant, old)
    store.move_namespace(tx, tenant, pads, new, now)
    return pads


def delete_namespace(
    store: PadStore, tx: Transaction, tenant: str, name: str, *, with_pads: bool
) -> tuple[bool, list[str]]:
    """Whether there was one, and the pads that went with it."""
    pads = pads_in(tx, tenant, name)
    if pads and not with_pads:
        raise InvalidArgument(
            f"{name!r} holds {counted(len(pads), 'pad')}", hint="delete_scratchpads: true deletes them with it"
        )
    for pad in pads:
        store.delete(tx, NotebookKey(tenant, pad))
    return bool(tx.run("DELETE FROM namespaces WHERE tenant = ? AND name = ?", tenant, name)), pads
