"""Checks of what callers give, before any transaction. They do no I/O, so a refusal costs and changes nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cellwright.core.errors import InvalidArgument, LimitReached
from cellwright.core.nesting import deeper_than
from cellwright.core.text.counting import counted
from cellwright.notebook.model import Cell, Check
from cellwright.scratch.model import (
    MAX_NAME,
    InvalidId,
    JsonObject,
    PadCellDraft,
    PadDraft,
    PadLimits,
    SharedSchema,
    checked_id,
    checked_namespace,
    checked_tags,
    kind_of,
    new_id,
)
from cellwright.scratch.rows import dumped
from cellwright.scratch.validation.checked import is_list, is_object

MAX_LANGUAGE = 40
DEEPEST = 128
"""Levels of nesting. Deeper values, from an imported file for example, could be stored but not shown again."""
METADATA_SETTING = "--scratch-max-metadata-bytes"
SCHEMA_SETTING = "--scratch-max-schema-bytes"


def new_cells(drafts: Sequence[PadCellDraft], limits: PadLimits) -> list[Cell]:
    """Cells ready to be stored, each with an id of its own."""
    if limits.cells and len(drafts) > limits.cells:
        raise LimitReached(
            f"a pad holds at most {counted(limits.cells, 'cell')} (--scratch-max-cells), not {len(drafts)}",
            details={"limit": limits.cells},
            hint="make several pads of it",
        )
    cells: list[Cell] = []
    cell_ids: set[str] = set()
    for index, draft in enumerate(drafts):
        checked = checked_draft(draft, limits)
        cell_id = new_id() if checked.cell_id is None else checked_id(checked.cell_id, "cell_id")
        if cell_id in cell_ids:
            raise InvalidId(f"cell_id {cell_id!r} is given twice", hint="leave it out, one is made")
        cell_ids.add(cell_id)
        cells.append(
            Cell(
                kind_of(checked.language),
                checked.content,
                checked.language,
                id=cell_id,
                metadata=checked.metadata or {},
                tags=checked.tags or (),
                check=Check(checked.json_schema, checked.validate),
                index=index,
            )
        )
    return cells


def checked_draft(draft: PadCellDraft, limits: PadLimits) -> PadCellDraft:
    """The cell, if it is within the limits. Tags in its metadata join those given beside it."""
    language = draft.language.strip()
    if not language or len(language) > MAX_LANGUAGE or not language.isprintable():
        raise InvalidArgument(
            f"language {draft.language[:60]!r} is not a name", hint="for example py, md, json, sql, txt"
        )
    _refuse_nul(draft.content, "content")
    _refuse_over(
        _utf8_bytes(draft.content, "content"), limits.cell_bytes, "the cell's content", "--scratch-max-cell-bytes"
    )
    metadata, tags = draft.metadata, draft.tags
    if metadata is not None:
        metadata, metadata_tags = _without_tags(metadata)
        tags = tags if metadata_tags is None else (*(tags or ()), *metadata_tags)
        _refuse_over(_json_bytes(metadata, "metadata"), limits.metadata_bytes, "the cell's metadata", METADATA_SETTING)
    if draft.json_schema is not None:
        _refuse_over(_json_bytes(draft.json_schema, "json_schema"), limits.schema_bytes, "json_schema", SCHEMA_SETTING)
    return PadCellDraft(
        language,
        draft.content,
        draft.cell_id,
        metadata,
        None if tags is None else checked_tags(tags),
        draft.json_schema,
        draft.validate,
    )


def _without_tags(metadata: JsonObject) -> tuple[JsonObject, tuple[str, ...] | None]:
    if "tags" not in metadata:
        return metadata, None
    tags = metadata["tags"]
    other_fields = {key: value for key, value in metadata.items() if key != "tags"}
    if tags is None:
        return other_fields, ()
    if not is_list(tags) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidArgument("metadata.tags is not a list of texts", hint='for example ["draft", "sql"]')
    return other_fields, tuple(tags)


def pad_draft(metadata: Mapping[str, Any], limits: PadLimits) -> tuple[PadDraft, list[SharedSchema]]:
    """A pad's metadata as the caller gives it, split into the fields of the pad, its schemas and the rest."""
    _refuse_over(_json_bytes(metadata, "metadata"), limits.metadata_bytes, "metadata", METADATA_SETTING)
    other_fields, tags = _without_tags(dict(metadata))
    # Reading shows this key in the metadata, but it is computed from the cells.
    other_fields.pop("cell_tags", None)
    texts = {
        name: _text(other_fields.pop(name, None), name) for name in ("title", "description", "summary", "namespace")
    }
    schemas = _initial_schemas(other_fields.pop("schemas", None), limits)
    namespace = texts.pop("namespace")
    about = PadDraft(
        **texts,
        namespace=checked_namespace(namespace) if namespace else None,
        tags=checked_tags(tags or ()),
        metadata=other_fields,
    )
    return about, schemas


def _initial_schemas(schemas_by_name: object, limits: PadLimits) -> list[SharedSchema]:
    if schemas_by_name is None:
        return []
    if not is_object(schemas_by_name):
        raise InvalidArgument(
            "metadata.schemas is not an object of name to schema",
            hint='for example {"schemas": {"name": {"type": "object"}}}',
        )
    if limits.schemas and len(schemas_by_name) > limits.schemas:
        raise LimitReached(
            f"a pad holds at most {counted(limits.schemas, 'schema')} (--scratch-max-schemas), not {len(schemas_by_name)}",
            hint="leave out those that no cell refers to",
            details={"limit": limits.schemas},
        )
    schemas: list[SharedSchema] = []
    for name, entry in schemas_by_name.items():
        fields: JsonObject = entry if is_object(entry) and is_object(entry.get("schema")) else {"schema": entry}
        draft = schema_draft({"name": name, **fields}, limits)[0]
        schemas.append(replace(draft, name=draft.name or draft.id))
    for field, names in (("id", [schema.id for schema in schemas]), ("name", [schema.name for schema in schemas])):
        if duplicate := next((name for name, count in Counter(names).items() if count > 1), None):
            raise InvalidArgument(
                f"metadata.schemas has two schemas of the {field} {duplicate[:80]!r}", hint="rename one"
            )
    return schemas


def schema_draft(fields: Mapping[str, Any], limits: PadLimits) -> tuple[SharedSchema, bool]:
    """A shared schema as the caller gives it, and whether an id was given. Its name is empty if none was given."""
    unknown = sorted(set(fields) - {"id", "name", "description", "schema"})
    if unknown:
        raise InvalidArgument(
            f"schema has no field {unknown[0]!r}", hint="its fields are id, name, description, schema"
        )
    schema_id, name = _text(fields.get("id"), "schema.id"), _text(fields.get("name"), "schema.name")
    if schema_id is None and name is None:
        raise InvalidArgument(
            "the schema has neither name nor id", hint='give for example {"name": "invoice", "schema": {…}}'
        )
    body = fields.get("schema")
    if not is_object(body):
        raise InvalidArgument(
            "schema.schema is not a JSON Schema object", hint='for example {"name": "n", "schema": {"type": "object"}}'
        )
    _refuse_over(_json_bytes(fields, "schema"), limits.schema_bytes, "the schema", SCHEMA_SETTING)
    if name is not None and len(name) > MAX_NAME:
        raise InvalidArgument(f"schema.name is longer than {MAX_NAME} characters", hint="put more into description")
    has_id = schema_id is not None
    schema_id = checked_id(schema_id, "schema.id") if has_id else new_id()
    description = _text(fields.get("description"), "schema.description") or ""
    return SharedSchema(schema_id, name or "", description, body), has_id


def _text(value: object, name: str) -> str | None:
    """The text without blanks around it; None if there is none."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} is not text", hint="give it as a string")
    _refuse_nul(value, name)
    return value.strip() or None


def _refuse_nul(text: str, name: str) -> None:
    if "\x00" in text:
        raise InvalidArgument(f"{name} holds a NUL character, which no text has", hint="remove it, or encode the bytes")


def _json_bytes(value: object, name: str) -> int:
    """How many bytes the value has as JSON; InvalidArgument for values that JSON or our replies cannot hold."""
    if deeper_than(value, DEEPEST):
        raise InvalidArgument(f"{name} is nested deeper than {DEEPEST} levels", hint="make it flatter")
    try:
        return _utf8_bytes(dumped(value), name)
    except ValueError:
        raise InvalidArgument(
            f"{name} holds a number that is too large, or none (NaN)", hint="give it as text"
        ) from None


def _utf8_bytes(text: str, name: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"{name} holds half of a surrogate pair, which is no character", hint="send the text as plain UTF-8"
        ) from None


def _refuse_over(size: int, limit: int, subject: str, setting: str) -> None:
    if limit and size > limit:
        raise LimitReached(
            f"{subject} has {size} bytes, more than {limit}, the limit of {setting}",
            details={"size": size, "limit": limit},
            hint="split it, or keep only what is needed",
        )
