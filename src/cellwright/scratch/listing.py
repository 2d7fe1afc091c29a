"""Pads, tags and namespaces as lists. The database filters, orders and limits, so only what is shown is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from typing_extensions import TypedDict

from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.text.counting import counted
from cellwright.scratch.model import Pad
from cellwright.scratch.rows import placeholders
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
    """For each item the cursor of the page that begins after it."""
    next: str | None


def list_pads(
    tx: Transaction, tenant: str, namespaces: Sequence[str], tags: Sequence[str], limit: int, cursor: str | None
) -> PadPage:
    """Pads, the last changed first. A pad has a tag if it or one of its cells has it."""
    conditions, values = ["tenant = ?"], list[Value]([tenant])
    if namespaces:
        conditions.append(f"namespace IN ({placeholders(namespaces)})")
        values += namespaces
    if tags:
        tagged = f"SELECT pad FROM {{}} WHERE tenant = ? AND tag IN ({placeholders(tags)})"  # noqa: S608
        conditions.append(f"id IN ({tagged.format('pad_tags')} UNION {tagged.format('cell_tags')})")
        values += [tenant, *tags, tenant, *tags]
    if cursor is not None:
        updated, pad_id = _parse_cursor(cursor)
        conditions.append("(updated < ? OR (updated = ? AND id > ?))")
        values += [updated, updated, pad_id]
    rows = tx.rows(
        "SELECT id, title, description, namespace, cell_count, updated FROM pads "  # noqa: S608
        f"WHERE {' AND '.join(conditions)} ORDER BY updated DESC, id LIMIT ?",
        *values,
        limit + 1,
    )
    pads = cast("list[tuple[str, str | None, str | None, str | None, int, int]]", rows[:limit])
    items: list[PadEntry] = [
        {"scratch_id": pad_id, "title": title, "description": description, "namespace": namespace, "cell_count": count}
        for pad_id, title, description, namespace, count, _updated in pads
    ]
    cursors = [f"{updated}.{pad_id}" for pad_id, *_, updated in pads]
    return PadPage(items, cursors, cursors[-1] if len(rows) > limit else None)


def _parse_cursor(cursor: str) -> tuple[int, str]:
    updated, _, pad_id = cursor.partition(".")
    if not (updated.isascii() and updated.isdigit() and len(updated) <= 18):  # noqa: PLR2004
        raise InvalidArgument("this cursor did not come from an earlier page", hint="leave it out to begin again")
    return int(updated), pad_id


def all_tags(tx: Transaction, tenant: str, namespaces: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tags of pads, and those of cells."""
    condition, values = "", list[Value]([tenant])
    if namespaces:
        condition = f" AND pad IN (SELECT id FROM pads WHERE tenant = ? AND namespace IN ({placeholders(namespaces)}))"  # noqa: S608
        values += [tenant, *namespaces]

    def tags_in(table: str) -> list[str]:
        rows = tx.rows(f"SELECT DISTINCT tag FROM {table} WHERE tenant = ?{condition}", *values)  # noqa: S608
        return sorted(cast("str", tag) for (tag,) in rows)

    return tags_in("pad_tags"), tags_in("cell_tags")


def list_namespaces(tx: Transaction, tenant: str) -> list[NamespaceEntry]:
    rows = tx.rows(
        "SELECT n.name, COUNT(p.id) FROM namespaces n LEFT JOIN pads p ON p.tenant = n.tenant AND p.namespace = n.name "
        "WHERE n.tenant = ? GROUP BY n.name ORDER BY n.name",
        tenant,
    )
    counts = cast("list[tuple[str, int]]", rows)
    return [{"namespace": name, "scratchpad_count": count} for name, count in counts]


def pads_in(tx: Transaction, tenant: str, namespace: str) -> list[str]:
    rows = tx.rows("SELECT id FROM pads WHERE tenant = ? AND namespace = ? ORDER BY id", tenant, namespace)
    return [cast("str", pad_id) for (pad_id,) in rows]


def rename_namespace(
    store: PadStore, tx: Transaction, tenant: str, old_name: str, new_name: str, *, migrate: bool, now: int
) -> list[Pad]:
    """Rename a namespace and return the pads that moved. The old name must exist, the new one must be free."""
    names = {entry["namespace"] for entry in list_namespaces(tx, tenant)}
    if old_name not in names:
        raise NotFound(f"there is no namespace {old_name!r}", hint="scratch_namespace_list shows them")
    if old_name == new_name:
        return []
    pads = pads_in(tx, tenant, old_name)
    if new_name in names:
        raise InvalidArgument(f"there is a namespace {new_name!r} already", hint="delete it or choose another name")
    if pads and not migrate:
        raise InvalidArgument(
            f"{old_name!r} holds {counted(len(pads), 'pad')}",
            hint="migrate_scratchpads: true moves them to the new name",
        )
    tx.run("UPDATE namespaces SET name = ? WHERE tenant = ? AND name = ?", new_name, tenant, old_name)
    return store.move_namespace(tx, tenant, pads, new_name, now)


def delete_namespace(
    store: PadStore, tx: Transaction, tenant: str, name: str, *, with_pads: bool
) -> tuple[bool, list[str]]:
    """Delete a namespace. Returns whether it existed, and the pads that were deleted with it."""
    pads = pads_in(tx, tenant, name)
    if pads and not with_pads:
        raise InvalidArgument(
            f"{name!r} holds {counted(len(pads), 'pad')}", hint="delete_scratchpads: true deletes them with it"
        )
    for pad_id in pads:
        store.delete(tx, NotebookKey(tenant, pad_id))
    return bool(tx.run("DELETE FROM namespaces WHERE tenant = ? AND name = ?", tenant, name)), pads
