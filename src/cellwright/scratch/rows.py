"""Pads, cells and shared schemas from and to rows. Nothing here decides anything."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from cellwright.scratch.model import Cell, JsonObject, Pad, PadDraft, SharedSchema
from cellwright.storage.database import Transaction, Value


@dataclass(frozen=True, slots=True)
class PadKey:
    """One pad of one tenant: the only way a pad is ever named to the database."""

    tenant: str
    id: str


def marks(values: Sequence[object]) -> str:
    """As many placeholders as there are values, for IN (…)."""
    return ", ".join("?" * len(values))


def dumped(value: object) -> str:
    """As JSON. ValueError for infinite numbers, which JSON does not have: no reply could show them."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def loaded(value: Value) -> Any:  # noqa: ANN401 - JSON that we wrote
    # Most cells have no metadata, and there are many of them.
    return {} if value == "{}" else json.loads(cast("str", value))


PAD_COLUMNS = "id, namespace, title, description, summary, metadata, created, updated, version, cell_count"


def read_pad(tx: Transaction, key: PadKey) -> Pad | None:
    row = tx.row(f"SELECT {PAD_COLUMNS} FROM pads WHERE tenant = ? AND id = ?", key.tenant, key.id)  # noqa: S608
    if row is None:
        return None
    tags = tx.rows("SELECT tag FROM pad_tags WHERE tenant = ? AND pad = ? ORDER BY place", key.tenant, key.id)
    return pad_of(row, tuple(cast("str", tag) for (tag,) in tags))


def pad_of(row: Sequence[Value], tags: tuple[str, ...]) -> Pad:
    pad_id, namespace, title, description, summary, metadata, created, updated, version, count = cast("Any", row)
    about = PadDraft(title, description, summary, namespace, tags, loaded(metadata))
    return Pad(pad_id, about, created, updated, version, count)


def write_pad(tx: Transaction, tenant: str, pad: Pad) -> None:
    """Insert the pad or make its row this one, tags included."""
    about = pad.about
    values = (about.namespace, about.title, about.description, about.summary, dumped(about.metadata))
    tx.run(
        "INSERT INTO pads (tenant, id, namespace, title, description, summary, metadata, created, updated, version, cell_count) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, id) DO UPDATE SET namespace = excluded.namespace, "
        "title = excluded.title, description = excluded.description, summary = excluded.summary, metadata = excluded.metadata, "
        "created = excluded.created, updated = excluded.updated, version = excluded.version, cell_count = excluded.cell_count",
        tenant,
        pad.id,
        *values,
        pad.created,
        pad.updated,
        pad.version,
        pad.cell_count,
    )
    tx.run("DELETE FROM pad_tags WHERE tenant = ? AND pad = ?", tenant, pad.id)
    for place, tag in enumerate(about.tags):
        tx.run("INSERT INTO pad_tags (tenant, tag, pad, place) VALUES (?, ?, ?, ?)", tenant, tag, pad.id, place)


CELL_COLUMNS = "id, position, language, content, metadata, json_schema, validate_on_write, status"
STRUCTURE_COLUMNS = "id, position, language, '' AS content, metadata, NULL AS json_schema, validate_on_write, status"


def read_cells(tx: Transaction, key: PadKey, ids: Sequence[str] | None = None) -> list[Cell]:
    """The pad's cells in order, or these of them."""
    only = "" if ids is None else f" AND id IN ({marks(ids)})"
    rows = tx.rows(
        f"SELECT {CELL_COLUMNS} FROM cells WHERE tenant = ? AND pad = ?{only} ORDER BY position",  # noqa: S608
        key.tenant,
        key.id,
        *(ids or ()),
    )
    tags = _cell_tags(tx, key, ids)
    return [_cell_of(row, tags) for row in rows]


def read_last_cells(tx: Transaction, key: PadKey, count: int) -> list[Cell]:
    """The last cells, in order, without what they hold: what a reply to a change shows."""
    rows = tx.rows(
        f"SELECT {STRUCTURE_COLUMNS} FROM cells WHERE tenant = ? AND pad = ? ORDER BY position DESC LIMIT ?",  # noqa: S608
        key.tenant,
        key.id,
        count,
    )
    tags = _cell_tags(tx, key, [cast("str", row[0]) for row in rows])
    return [_cell_of(row, tags) for row in reversed(rows)]


def _cell_tags(tx: Transaction, key: PadKey, ids: Sequence[str] | None) -> dict[str, list[str]]:
    only = "" if ids is None else f" AND cell IN ({marks(ids)})"
    rows = tx.rows(
        f"SELECT cell, tag FROM cell_tags WHERE tenant = ? AND pad = ?{only} ORDER BY cell, place",  # noqa: S608
        key.tenant,
        key.id,
        *(ids or ()),
    )
    found: dict[str, list[str]] = {}
    for cell, tag in rows:
        found.setdefault(cast("str", cell), []).append(cast("str", tag))
    return found


def _cell_of(row: Sequence[Value], tags: dict[str, list[str]]) -> Cell:
    cell_id, position, language, content, metadata, schema, validate, status = cast("Any", row)
    return Cell(
        cell_id,
        position,
        language,
        content,
        loaded(metadata),
        tuple(tags.get(cell_id, ())),
        None if schema is None else loaded(schema),
        bool(validate),
        status,
    )


def write_cells(tx: Transaction, key: PadKey, cells: Iterable[Cell]) -> None:
    """Insert these cells or make their rows these, tags included."""
    for cell in cells:
        tx.run(
            "INSERT INTO cells (tenant, pad, id, position, language, content, metadata, json_schema, validate_on_write, status) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, pad, id) DO UPDATE SET position = excluded.position, "
            "language = excluded.language, content = excluded.content, metadata = excluded.metadata, "
            "json_schema = excluded.json_schema, validate_on_write = excluded.validate_on_write, status = excluded.status",
            key.tenant,
            key.id,
            cell.id,
            cell.index,
            cell.language,
            cell.content,
            dumped(cell.metadata),
            None if cell.json_schema is None else dumped(cell.json_schema),
            int(cell.validate),
            cell.status,
        )
        tx.run("DELETE FROM cell_tags WHERE tenant = ? AND pad = ? AND cell = ?", key.tenant, key.id, cell.id)
        for place, tag in enumerate(cell.tags):
            tx.run(
                "INSERT INTO cell_tags (tenant, tag, pad, cell, place) VALUES (?, ?, ?, ?, ?)",
                key.tenant,
                tag,
                key.id,
                cell.id,
                place,
            )


def delete_cells(tx: Transaction, key: PadKey, cell_id: str | None = None) -> None:
    """One cell, or all of the pad."""
    one = "" if cell_id is None else " AND {} = ?"
    values = (key.tenant, key.id) if cell_id is None else (key.tenant, key.id, cell_id)
    tx.run(f"DELETE FROM cells WHERE tenant = ? AND pad = ?{one.format('id')}", *values)  # noqa: S608
    tx.run(f"DELETE FROM cell_tags WHERE tenant = ? AND pad = ?{one.format('cell')}", *values)  # noqa: S608


def shift_cells(tx: Transaction, key: PadKey, start: int, by: int) -> None:
    """Move the cells from this position on, to make room or to close a gap."""
    tx.run(
        "UPDATE cells SET position = position + ? WHERE tenant = ? AND pad = ? AND position >= ?",
        by,
        key.tenant,
        key.id,
        start,
    )


def read_schemas(tx: Transaction, key: PadKey) -> list[SharedSchema]:
    rows = tx.rows(
        "SELECT id, name, description, body FROM shared_schemas WHERE tenant = ? AND pad = ?", key.tenant, key.id
    )
    found = [SharedSchema(*cast("tuple[str, str, str]", row[:3]), loaded(row[3])) for row in rows]
    return sorted(found, key=lambda schema: (schema.description.lower(), schema.name))


def write_schema(tx: Transaction, key: PadKey, schema: SharedSchema) -> None:
    tx.run(
        "INSERT INTO shared_schemas (tenant, pad, id, name, description, body) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, pad, id) DO UPDATE SET name = excluded.name, description = excluded.description, body = excluded.body",
        key.tenant,
        key.id,
        schema.id,
        schema.name,
        schema.description,
        dumped(schema.schema),
    )


def delete_schemas(tx: Transaction, key: PadKey, schema_id: str | None = None) -> int:
    one = "" if schema_id is None else " AND id = ?"
    values = (key.tenant, key.id) if schema_id is None else (key.tenant, key.id, schema_id)
    return tx.run(f"DELETE FROM shared_schemas WHERE tenant = ? AND pad = ?{one}", *values)  # noqa: S608


def cell_as_json(cell: Cell) -> JsonObject:
    return {
        "id": cell.id,
        "index": cell.index,
        "language": cell.language,
        "content": cell.content,
        "metadata": cell.metadata,
        "tags": list(cell.tags),
        "json_schema": cell.json_schema,
        "validate": cell.validate,
        "status": cell.status,
    }


def cell_from_json(found: JsonObject) -> Cell:
    return replace(Cell(**found), tags=tuple(found["tags"]))


def about_as_json(about: PadDraft) -> JsonObject:
    return {
        "title": about.title,
        "description": about.description,
        "summary": about.summary,
        "namespace": about.namespace,
        "tags": list(about.tags),
        "metadata": about.metadata,
    }


def about_from_json(found: JsonObject) -> PadDraft:
    return replace(PadDraft(**found), tags=tuple(found["tags"]))
