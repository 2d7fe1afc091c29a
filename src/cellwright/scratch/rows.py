"""Reads and writes the rows of pads, tags and shared schemas; cells are in the table of all cells. No rules are applied here."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from cellwright.notebook.model import Cell, Check
from cellwright.scratch.model import JsonObject, Pad, PadDraft, SharedSchema, kind_of
from cellwright.scratch.views import AboutFields, canonical
from cellwright.storage.cells import CellRows, NotebookKey, Tags, loaded
from cellwright.storage.database import Transaction, Value

CELLS = CellRows("scratch")


def placeholders(values: Sequence[object]) -> str:
    """As many placeholders as there are values, for IN (…)."""
    return ", ".join("?" * len(values))


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ASCII_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def dumped(value: object, *, ascii_only: bool = False) -> str:
    """The value as JSON. ValueError for NaN and infinite numbers, which JSON does not have."""
    return (_ASCII_ENCODER if ascii_only else _ENCODER).encode(value)


PAD = (
    "SELECT p.id, p.namespace, p.title, p.description, p.summary, p.metadata, p.created, p.updated, p.version, p.cell_count, "
    "t.place, t.tag FROM pads p LEFT JOIN pad_tags t ON t.tenant = p.tenant AND t.pad = p.id WHERE p.tenant = ? AND p.id = ?"
)


def read_pad(tx: Transaction, key: NotebookKey) -> Pad | None:
    # There is one row for each tag. The few there are sort faster here than in the engine.
    rows = tx.rows(PAD, key.owner, key.id)
    if not rows:
        return None
    tags = sorted(cast("tuple[int, str]", row[10:]) for row in rows if row[11] is not None)
    return pad_of(rows[0][:10], tuple(tag for _, tag in tags))


def pad_of(row: Sequence[Value], tags: tuple[str, ...]) -> Pad:
    pad_id, namespace, title, description, summary, metadata, created, updated, version, count = cast("Any", row)
    about = PadDraft(title, description, summary, namespace, tags, loaded(metadata))
    return Pad(pad_id, about, created, updated, version, count)


def write_pad(tx: Transaction, tenant: str, pad: Pad) -> None:
    """Insert the pad or replace its row, tags included."""
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


def read_cells(
    tx: Transaction, key: NotebookKey, ids: Sequence[str] | None = None, tags: Tags | None = None
) -> list[Cell]:
    """The pad's cells in order; with `ids`, only these. `tags` are those of all cells, where the caller has read them already."""
    return CELLS.read(tx, key, ids, read_tags(tx, key, ids) if tags is None else tags)


def read_tags(tx: Transaction, key: NotebookKey, ids: Sequence[str] | None = None) -> Tags:
    """The tags of the pad's cells; with `ids`, of only these."""
    if ids is not None and not ids:
        return {}
    condition = "" if ids is None else f" AND cell IN ({placeholders(ids)})"
    rows = tx.rows(
        f"SELECT cell, place, tag FROM cell_tags WHERE tenant = ? AND pad = ?{condition}",  # noqa: S608
        key.owner,
        key.id,
        *(ids or ()),
    )
    tags: dict[str, tuple[str, ...]] = {}
    for cell_id, _place, tag in sorted(cast("list[tuple[str, int, str]]", rows)):
        tags[cell_id] = (*tags.get(cell_id, ()), tag)
    return tags


def insert_cells(tx: Transaction, key: NotebookKey, cells: Iterable[Cell]) -> str | None:
    """Add new cells. Stops at a cell whose id the pad has already, and returns that id."""
    for cell in cells:
        if not CELLS.insert(tx, key, cell):
            return cell.id
        _write_tags(tx, key, cell)
    return None


def replace_cell(tx: Transaction, key: NotebookKey, before: Cell, after: Cell) -> None:
    """Replace the cell, tags included, and move it to the index of `after`."""
    CELLS.replace(tx, key, before, after)
    delete_tags(tx, key, after.id)
    _write_tags(tx, key, after)


def _write_tags(tx: Transaction, key: NotebookKey, cell: Cell) -> None:
    for place, tag in enumerate(cell.tags):
        tx.run(
            "INSERT INTO cell_tags (tenant, tag, pad, cell, place) VALUES (?, ?, ?, ?, ?)",
            key.owner,
            tag,
            key.id,
            cell.id,
            place,
        )


def delete_tags(tx: Transaction, key: NotebookKey, cell_id: str | None = None) -> None:
    """Delete the tags of one cell, or of all cells of the pad."""
    condition = "" if cell_id is None else " AND cell = ?"
    values = (key.owner, key.id) if cell_id is None else (key.owner, key.id, cell_id)
    tx.run(f"DELETE FROM cell_tags WHERE tenant = ? AND pad = ?{condition}", *values)  # noqa: S608


def delete_cells(tx: Transaction, key: NotebookKey) -> None:
    """Delete all cells of the pad with their tags."""
    CELLS.delete(tx, key)
    delete_tags(tx, key)


def read_schemas(tx: Transaction, key: NotebookKey) -> list[SharedSchema]:
    rows = tx.rows(
        "SELECT id, name, description, body FROM shared_schemas WHERE tenant = ? AND pad = ?", key.owner, key.id
    )
    schemas = [SharedSchema(*cast("tuple[str, str, str]", row[:3]), loaded(row[3])) for row in rows]
    return sorted(schemas, key=lambda schema: (schema.description.lower(), schema.name))


def write_schema(tx: Transaction, key: NotebookKey, schema: SharedSchema) -> None:
    tx.run(
        "INSERT INTO shared_schemas (tenant, pad, id, name, description, body) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, pad, id) DO UPDATE SET name = excluded.name, description = excluded.description, body = excluded.body",
        key.owner,
        key.id,
        schema.id,
        schema.name,
        schema.description,
        dumped(schema.schema),
    )


def delete_schemas(tx: Transaction, key: NotebookKey, schema_id: str | None = None) -> int:
    condition = "" if schema_id is None else " AND id = ?"
    values = (key.owner, key.id) if schema_id is None else (key.owner, key.id, schema_id)
    return tx.run(f"DELETE FROM shared_schemas WHERE tenant = ? AND pad = ?{condition}", *values)  # noqa: S608


def bytes_of_text(text: str | None) -> int:
    return 0 if text is None else len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def bytes_of_about(about: PadDraft) -> int:
    texts = (about.title, about.description, about.summary, dumped(about.metadata))
    return sum(map(bytes_of_text, texts))


def bytes_of_cell(cell: Cell) -> int:
    schema = None if cell.check.schema is None else dumped(cell.check.schema)
    return bytes_of_text(cell.source) + bytes_of_text(dumped(cell.metadata)) + bytes_of_text(schema)


def bytes_of_schema(schema: SharedSchema | None) -> int:
    return 0 if schema is None else bytes_of_text(schema.description) + bytes_of_text(dumped(schema.schema))


class PadCellRecord(TypedDict):
    """A cell of an earlier version of a pad."""

    id: str
    index: int
    language: str
    content: str
    metadata: NotRequired[Mapping[str, Any]]
    tags: list[str]
    json_schema: NotRequired[JsonObject | str | bool | None]
    validate: NotRequired[bool]
    status: NotRequired[str | None]


def cell_as_json(cell: Cell) -> PadCellRecord:
    return {
        "id": cell.id,
        "index": cell.index,
        "language": cell.language,
        "content": cell.source,
        "metadata": cell.metadata,
        "tags": list(cell.tags),
        "json_schema": cell.check.schema,
        "validate": cell.check.on_write,
        "status": cell.check.status,
    }


def cell_from_json(record: PadCellRecord) -> Cell:
    return Cell(
        kind_of(record["language"]),
        record["content"],
        record["language"],
        id=record["id"],
        metadata=record.get("metadata", {}),
        tags=tuple(record["tags"]),
        check=Check(record.get("json_schema"), record.get("validate", False), record.get("status")),
        index=record["index"],
    )


class AboutRecord(AboutFields):
    """The fields and metadata of an earlier version of a pad."""

    metadata: JsonObject


def about_as_json(about: PadDraft) -> AboutRecord:
    return {**canonical(about), "metadata": about.metadata}


def about_from_json(record: AboutRecord) -> PadDraft:
    return PadDraft(
        record["title"],
        record["description"],
        record["summary"],
        record["namespace"],
        tuple(record["tags"]),
        record["metadata"],
    )


class SchemaRecord(TypedDict):
    """A shared schema with all its fields."""

    id: str
    name: str
    description: str
    schema: JsonObject


def schema_as_json(schema: SharedSchema) -> SchemaRecord:
    return {"id": schema.id, "name": schema.name, "description": schema.description, "schema": schema.schema}
