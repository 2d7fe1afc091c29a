"""Pads, cells and shared schemas from and to rows. Nothing here decides anything."""

import json
from collections.abc import Iterable, Mapping, Sequence
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


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def dumped(value: object) -> str:
    """As JSON. ValueError for infinite numbers, which JSON does not have: no reply could show them."""
    return _ENCODER.encode(value)


def loaded(value: Value) -> Any:  # noqa: ANN401 - JSON that we wrote
    # Most cells have no metadata, and there are many of them.
    return {} if value == "{}" else json.loads(cast("str", value))


PAD = (
    "SELECT p.id, p.namespace, p.title, p.description, p.summary, p.metadata, p.created, p.updated, p.version, p.cell_count, "
    "t.place, t.tag FROM pads p LEFT JOIN pad_tags t ON t.tenant = p.tenant AND t.pad = p.id WHERE p.tenant = ? AND p.id = ?"
)


def read_pad(tx: Transaction, key: PadKey) -> Pad | None:
    # One row for each tag. Sorted here: an engine that sorts takes longer for the few there are.
    found = tx.rows(PAD, key.tenant, key.id)
    if not found:
        return None
    tags = sorted(cast("tuple[int, str]", row[10:]) for row in found if row[11] is not None)
    return pad_of(found[0][:10], tuple(tag for _, tag in tags))


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
Tags = Mapping[str, tuple[str, ...]]
"""Of each cell that has any."""


def read_cells(tx: Transaction, key: PadKey, ids: Sequence[str] | None = None, tags: Tags | None = None) -> list[Cell]:
    """The pad's cells in order, or these of them. `tags`: those of all cells, where they are known already."""
    if ids is not None and not ids:
        return []
    only = "" if ids is None else f" AND id IN ({marks(ids)})"
    rows = tx.rows(
        f"SELECT {CELL_COLUMNS} FROM cells WHERE tenant = ? AND pad = ?{only} ORDER BY position",  # noqa: S608
        key.tenant,
        key.id,
        *(ids or ()),
    )
    known = read_tags(tx, key, ids) if tags is None else tags
    return [_cell_of(row, known) for row in rows]


def read_last_cells(tx: Transaction, key: PadKey, count: int, tags: Tags) -> list[Cell]:
    """The last cells, in order, without what they hold: what a reply to a change shows."""
    rows = tx.rows(
        "SELECT id, position, language, metadata, status FROM cells WHERE tenant = ? AND pad = ? ORDER BY position DESC LIMIT ?",
        key.tenant,
        key.id,
        count,
    )
    return [
        Cell(cell_id, position, language, "", loaded(metadata), tags.get(cell_id, ()), status=status)
        for cell_id, position, language, metadata, status in cast("list[Any]", reversed(rows))
    ]


def read_tags(tx: Transaction, key: PadKey, ids: Sequence[str] | None = None) -> Tags:
    """The tags of the pad's cells, or of these of them."""
    only = "" if ids is None else f" AND cell IN ({marks(ids)})"
    rows = tx.rows(
        f"SELECT cell, place, tag FROM cell_tags WHERE tenant = ? AND pad = ?{only}",  # noqa: S608
        key.tenant,
        key.id,
        *(ids or ()),
    )
    found: dict[str, tuple[str, ...]] = {}
    for cell, _place, tag in sorted(cast("list[tuple[str, int, str]]", rows)):
        found[cell] = (*found.get(cell, ()), tag)
    return found


def _cell_of(row: Sequence[Value], tags: Tags) -> Cell:
    cell_id, position, language, content, metadata, schema, validate, status = cast("Any", row)
    return Cell(
        cell_id,
        position,
        language,
        content,
        loaded(metadata),
        tags.get(cell_id, ()),
        None if schema is None else loaded(schema),
        bool(validate),
        status,
    )


INSERT_CELL = (
    "INSERT INTO cells (tenant, pad, id, position, language, content, metadata, json_schema, validate_on_write, status) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, pad, id) DO "
)
REPLACE_CELL = (
    INSERT_CELL + "UPDATE SET position = excluded.position, language = excluded.language, content = excluded.content, "
    "metadata = excluded.metadata, json_schema = excluded.json_schema, validate_on_write = excluded.validate_on_write, "
    "status = excluded.status"
)


def insert_cells(tx: Transaction, key: PadKey, cells: Iterable[Cell]) -> str | None:
    """Add new cells. The id of one that the pad has already, if there is one: then not all were added."""
    for cell in cells:
        if not tx.run(f"{INSERT_CELL}NOTHING", *_cell_values(key, cell)):
            return cell.id
        _write_tags(tx, key, cell)
    return None


def replace_cell(tx: Transaction, key: PadKey, cell: Cell) -> None:
    """Make the row of this cell's id this one, tags included."""
    tx.run(REPLACE_CELL, *_cell_values(key, cell))
    tx.run("DELETE FROM cell_tags WHERE tenant = ? AND pad = ? AND cell = ?", key.tenant, key.id, cell.id)
    _write_tags(tx, key, cell)


def _cell_values(key: PadKey, cell: Cell) -> tuple[Value, ...]:
    return (
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


def _write_tags(tx: Transaction, key: PadKey, cell: Cell) -> None:
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
