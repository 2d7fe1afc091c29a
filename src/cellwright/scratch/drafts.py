"""What callers give, checked before any transaction: pure, so a refusal costs nothing and changes nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

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
)
from cellwright.scratch.rows import dumped
from cellwright.scratch.store import new_id

MAX_LANGUAGE = 40
DEEPEST = 128
"""Levels of nesting. What goes in deeper, from an imported file say, could never be shown again."""
METADATA_SETTING = "--scratch-max-metadata-bytes"
SCHEMA_SETTING = "--scratch-max-schema-bytes"


def new_cells(drafts: Sequence[PadCellDraft], limits: PadLimits) -> list[Cell]:
    """Cells ready to be stored, each with an id that no other of them has."""
    if limits.cells and len(drafts) > limits.cells:
        raise LimitReached(
            f"a pad holds at most {counted(limits.cells, 'cell')} (--scratch-max-cells), not {len(drafts)}",
            details={"limit": limits.cells},
            hint="make several pads of it",
        )
    cells: list[Cell] = []
    seen: set[str] = set()
    for index, draft in enumerate(drafts):
        checked = checked_draft(draft, limits)
        cell_id = new_id() if checked.cell_id is None else checked_id(checked.cell_id, "cell_id")
        if cell_id in seen:
            raise InvalidId(f"cell_id {cell_id!r} is given twice", hint="leave it out, one is made")
        seen.add(cell_id)
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
    """The cell within its limits; tags of the metadata and tags beside it are the same thing."""
    language = draft.language.strip()
    if not language or len(language) > MAX_LANGUAGE or not language.isprintable():
        raise InvalidArgument(
            f"language {draft.language[:60]!r} is not a name", hint="for example py, md, json, sql, txt"
        )
    _no_nul(draft.content, "content")
    _within(_encoded(draft.content, "content"), limits.cell_bytes, "the cell's content", "--scratch-max-cell-bytes")
    metadata, tags = draft.metadata, draft.tags
    if metadata is not None:
        metadata, inside = _without_tags(metadata)
        tags = tags if inside is None else (*(tags or ()), *inside)
        _within(_size(metadata, "metadata"), limits.metadata_bytes, "the cell's metadata", METADATA_SETTING)
    if draft.json_schema is not None:
        _within(_size(draft.json_schema, "json_schema"), limits.schema_bytes, "json_schema", SCHEMA_SETTING)
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
    given = metadata["tags"]
    rest = {key: value for key, value in metadata.items() if key != "tags"}
    if given is None:
        return rest, ()
    if not isinstance(given, list) or not all(isinstance(tag, str) for tag in cast("list[object]", given)):
        raise InvalidArgument("metadata.tags is not a list of texts", hint='for example ["draft", "sql"]')
    return rest, tuple(cast("list[str]", given))


def pad_draft(metadata: Mapping[str, Any], limits: PadLimits) -> tuple[PadDraft, list[SharedSchema]]:
    """A pad's metadata as the caller gives it: the canonical keys apart, the rest as it is."""
    _within(_size(metadata, "metadata"), limits.metadata_bytes, "metadata", METADATA_SETTING)
    rest, tags = _without_tags(dict(metadata))
    # Reading shows it among the metadata; it follows from the cells.
    rest.pop("cell_tags", None)
    texts = {name: _text(rest.pop(name, None), name) for name in ("title", "description", "summary", "namespace")}
    schemas = _seeded(rest.pop("schemas", None), limits)
    namespace = texts.pop("namespace")
    about = PadDraft(
        **texts,
        namespace=checked_namespace(namespace) if namespace else None,
        tags=checked_tags(tags or ()),
        metadata=rest,
    )
    return about, schemas


def _seeded(given: object, limits: PadLimits) -> list[SharedSchema]:
    if given is None:
        return []
    if not isinstance(given, dict):
        raise InvalidArgument(
            "metadata.schemas is not an object of name to schema",
            hint='for example {"schemas": {"name": {"type": "object"}}}',
        )
    if limits.schemas and len(cast("dict[str, object]", given)) > limits.schemas:
        raise LimitReached(
            f"a pad holds at most {counted(limits.schemas, 'schema')} (--scratch-max-schemas), not {len(cast('dict[str, object]', given))}",
            hint="leave out those that no cell refers to",
            details={"limit": limits.schemas},
        )
    found: list[SharedSchema] = []
    for name, entry in cast("dict[str, object]", given).items():
        wrapped = isinstance(entry, dict) and isinstance(cast("JsonObject", entry).get("schema"), dict)
        body: JsonObject = cast("JsonObject", entry) if wrapped else {"schema": cast("object", entry)}
        draft = schema_draft({"name": name, **body}, limits)[0]
        found.append(replace(draft, name=draft.name or draft.id))
    for what, known in (("id", [one.id for one in found]), ("name", [one.name for one in found])):
        if twice := next((one for one, times in Counter(known).items() if times > 1), None):
            raise InvalidArgument(f"metadata.schemas has two schemas of the {what} {twice[:80]!r}", hint="rename one")
    return found


def schema_draft(given: Mapping[str, Any], limits: PadLimits) -> tuple[SharedSchema, bool]:
    """A shared schema as the caller gives it, without a name if none was given, and whether it names one by id."""
    unknown = sorted(set(given) - {"id", "name", "description", "schema"})
    if unknown:
        raise InvalidArgument(
            f"schema has no field {unknown[0]!r}", hint="its fields are id, name, description, schema"
        )
    schema_id, name = _text(given.get("id"), "schema.id"), _text(given.get("name"), "schema.name")
    if schema_id is None and name is None:
        raise InvalidArgument(
            "the schema has neither name nor id", hint='give for example {"name": "invoice", "schema": {…}}'
        )
    body = given.get("schema")
    if not isinstance(body, dict):
        raise InvalidArgument(
            "schema.schema is not a JSON Schema object", hint='for example {"name": "n", "schema": {"type": "object"}}'
        )
    _within(_size(given, "schema"), limits.schema_bytes, "the schema", SCHEMA_SETTING)
    if name is not None and len(name) > MAX_NAME:
        raise InvalidArgument(f"schema.name is longer than {MAX_NAME} characters", hint="put more into description")
    made = checked_id(schema_id, "schema.id") if schema_id else new_id()
    description = _text(given.get("description"), "schema.description") or ""
    return SharedSchema(made, name or "", description, cast("JsonObject", body)), schema_id is not None


def _text(given: object, name: str) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str):
        raise InvalidArgument(f"{name} is not text", hint="give it as a string")
    _no_nul(given, name)
    return given.strip() or None


def _no_nul(text: str, name: str) -> None:
    if "\x00" in text:
        raise InvalidArgument(f"{name} holds a NUL character, which no text has", hint="remove it, or encode the bytes")


def _size(value: object, name: str) -> int:
    """How many bytes the value is as JSON; InvalidArgument for what JSON or our replies cannot carry."""
    if deeper_than(value, DEEPEST):
        raise InvalidArgument(f"{name} is nested deeper than {DEEPEST} levels", hint="make it flatter")
    try:
        return _encoded(dumped(value), name)
    except ValueError:
        raise InvalidArgument(
            f"{name} holds a number that is too large, or none (NaN)", hint="give it as text"
        ) from None


def _encoded(text: str, name: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"{name} holds half of a surrogate pair, which is no character", hint="send the text as plain UTF-8"
        ) from None


def _within(size: int, limit: int, what: str, setting: str) -> None:
    if limit and size > limit:
        raise LimitReached(
            f"{what} has {size} bytes, more than {limit}, the limit of {setting}",
            details={"size": size, "limit": limit},
            hint="split it, or keep only what is needed",
        )
