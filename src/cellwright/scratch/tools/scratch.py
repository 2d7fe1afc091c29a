"""Toolset `scratch`: an agent's own paper. Cells in any language, durable, validated when asked, found again."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.text.budget import MAX_TOKENS
from cellwright.core.text.clean import clean
from cellwright.core.toolset import Reply, Toolset, read, write
from cellwright.core.types import Call
from cellwright.scratch.listing import NamespaceEntry, PadEntry
from cellwright.scratch.model import failure
from cellwright.scratch.rows import SchemaRecord, schema_as_json
from cellwright.scratch.service import Pads
from cellwright.scratch.tools.common import (
    CellInput,
    CellPreview,
    Expected,
    ExplainedExpected,
    Namespaces,
    PadId,
    PadText,
    PadWritten,
    Tags,
    change_reply,
    pad_json,
    preview,
    read_page,
)
from cellwright.scratch.tools.noting import basis_of, note_page, note_previews, note_schemas
from cellwright.scratch.tools.pages import PAGE_TOKENS, cost_of, fitting
from cellwright.scratch.tools.validating import ValidationPage, validation_page
from cellwright.storage.search.port import Mode
from cellwright.storage.search.words import MAX_WORDS

Limit = Annotated[int, Field(ge=1, le=200)]
CREATED_TOKENS = 12_000
SNIPPET = 240


async def scratch_create(
    pads: Pads,
    call: Call,
    scratch_id: PadId | None = None,
    metadata: Annotated[
        dict[str, Any] | None, Field(description="title, description, summary, namespace, tags, schemas, and your own")
    ] = None,
    cells: list[CellInput] | None = None,
    expect: ExplainedExpected = None,
) -> Reply[PadWritten]:
    """Create a pad with its first cells; with expect reset the one of this id."""
    drafts = [cell.draft() for cell in cells or ()]
    basis = basis_of(call, expect)
    created = await pads.create(call.principal.id, scratch_id, metadata or {}, drafts, basis)
    # A caller that created many cells needs their ids.
    return Reply(change_reply(created, CREATED_TOKENS), max_tokens=MAX_TOKENS)


class PadReading(TypedDict):
    ok: Literal[True]
    scratchpad: PadText
    next: NotRequired[int]


async def scratch_read(
    pads: Pads,
    call: Call,
    scratch_id: PadId,
    cell_ids: list[str] | None = None,
    tags: Tags = None,
    include_metadata: bool = True,
    namespaces: Namespaces = None,
    offset: Annotated[int, Field(ge=0)] = 0,
) -> PadReading:
    """Read a pad: all cells, or those of these ids and tags. Long pads come in pages: `next` is the offset to go on with."""
    view = await pads.read(
        call.principal.id,
        scratch_id,
        cell_ids=cell_ids,
        tags=tags or (),
        namespaces=namespaces,
        with_schemas=include_metadata,
    )
    head = pad_json(view, with_metadata=include_metadata)
    metadata = head.get("metadata", {})
    schema_tokens = cost_of(metadata["schemas"]) if "schemas" in metadata else 0
    cells, following = read_page(view, offset, PAGE_TOKENS - schema_tokens)
    note_page(pads.sights, call, view, head, cells)
    reply: PadReading = {"ok": True, "scratchpad": {**head, "cells": cells}}
    if following is not None:
        reply["next"] = following
    return reply


async def scratch_append_cell(
    pads: Pads, call: Call, scratch_id: PadId, cell: CellInput, expect: Expected = None
) -> PadWritten:
    """Append a cell. With validate it is checked as well; it is stored whatever the check says."""
    basis = basis_of(call, expect)
    return change_reply(await pads.insert(call.principal.id, scratch_id, cell.draft(), basis=basis))


async def scratch_replace_cell(
    pads: Pads,
    call: Call,
    scratch_id: PadId,
    cell_id: str,
    cell: CellInput,
    new_index: int | None = None,
    expect: ExplainedExpected = None,
) -> PadWritten:
    """Replace a cell's content; metadata and tags that are not given stay. new_index moves it."""
    basis = basis_of(call, expect)
    return change_reply(await pads.replace_cell(call.principal.id, scratch_id, cell_id, cell.draft(), new_index, basis))


class PadDeletion(TypedDict):
    ok: Literal[True]
    scratch_id: str
    deleted: bool
    diff: NotRequired[str]


async def scratch_delete(pads: Pads, call: Call, scratch_id: PadId, expect: ExplainedExpected = None) -> PadDeletion:
    """Delete a pad with its cells and history, for good."""
    deleted, diff = await pads.delete(call.principal.id, scratch_id, basis_of(call, expect))
    reply: PadDeletion = {"ok": True, "scratch_id": scratch_id, "deleted": deleted}
    return {**reply, "diff": diff} if diff else reply


class PadList(TypedDict):
    ok: Literal[True]
    scratchpads: list[PadEntry]
    next_cursor: NotRequired[str]


async def scratch_list(
    pads: Pads,
    call: Call,
    namespaces: Namespaces = None,
    tags: Tags = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> PadList:
    """List your pads, last changed first."""
    page = await pads.page(call.principal.id, namespaces or (), tags or (), limit, cursor)
    entries = fitting(page.items)
    following = page.next if len(entries) == len(page.items) else page.cursors[len(entries) - 1]
    reply: PadList = {"ok": True, "scratchpads": entries}
    if following is not None:
        reply["next_cursor"] = following
    return reply


class CellList(TypedDict):
    ok: Literal[True]
    scratch_id: str
    version: int
    cells: list[CellPreview]
    next: NotRequired[int]


async def scratch_list_cells(
    pads: Pads,
    call: Call,
    scratch_id: PadId,
    cell_ids: list[str] | None = None,
    tags: Tags = None,
    offset: Annotated[int, Field(ge=0)] = 0,
    limit: Limit = 50,
) -> CellList:
    """List a pad's cells with the first characters of each."""
    view = await pads.read(call.principal.id, scratch_id, cell_ids=cell_ids, tags=tags or ())
    page = fitting([preview(cell) for cell in view.cells[offset : offset + limit]])
    following = offset + len(page)
    note_previews(pads.sights, call, view, view.cells[offset:following])
    reply: CellList = {"ok": True, "scratch_id": scratch_id, "version": view.pad.version, "cells": page}
    if following < len(view.cells):
        reply["next"] = following
    return reply


class PadValidation(ValidationPage):
    ok: Literal[True]
    scratch_id: str


async def scratch_validate(
    pads: Pads,
    call: Call,
    scratch_id: PadId,
    cell_ids: list[str] | None = None,
    offset: Annotated[int, Field(ge=0)] = 0,
    limit: Limit = 50,
) -> PadValidation:
    """Check cells: syntax by language, JSON and YAML against their schema. Changes and runs nothing. Results come worst first.

    A warning may be right; `valid: null` means that nobody here can tell."""
    results = await pads.validate(call.principal.id, scratch_id, cell_ids)
    page = validation_page([(cell.index, validation) for cell, validation in results], offset, limit)
    return {"ok": True, "scratch_id": scratch_id, **page}


class PadHit(TypedDict):
    """A pad, or one of its cells, that was found."""

    scratch_id: str
    cell_id: str | None
    namespace: str | None
    tags: list[str]
    score: float
    snippet: str
    language: str | None


class PadHits(TypedDict):
    ok: Literal[True]
    hits: list[PadHit]
    embedder: str | None
    mode: str


async def scratch_search(
    pads: Pads,
    call: Call,
    query: Annotated[str, Field(max_length=2_000)],
    namespaces: Namespaces = None,
    tags: Tags = None,
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
    mode: Literal["hybrid", "text", "semantic"] = "hybrid",
) -> PadHits:
    """Search your pads by words and by meaning."""
    results = await pads.search(call.principal.id, query, namespaces or (), tags or (), limit, Mode(mode))
    words = query.lower().split()[:MAX_WORDS]
    snippets = await pads.index.of_each(results.hits, lambda entry: snippet(entry.text or entry.title, words))
    hits: list[PadHit] = [
        {
            "scratch_id": hit.entry.key.thing,
            "cell_id": hit.entry.key.part or None,
            "namespace": hit.entry.namespace or None,
            "tags": list(hit.entry.tags),
            "score": round(hit.score, 4),
            "snippet": excerpt,
            "language": hit.entry.language or None,
        }
        for hit, excerpt in zip(results.hits, snippets, strict=True)
    ]
    return {"ok": True, "hits": hits, "embedder": results.embedder, "mode": results.mode.value}


def snippet(text: str, words: Sequence[str]) -> str:
    """The text around the first place of any of these words, which are in lower case; else the beginning of the text."""
    # This is the only character that is longer in lower case, which would shift all places after it.
    lower = text.replace("İ", "i").lower()
    first = len(lower)
    for word in words:
        place = lower.find(word, 0, first + len(word) - 1)
        first = place if place >= 0 else first
    start = max(first - SNIPPET // 4, 0) if first < len(lower) else 0
    excerpt = clean(text[start : start + SNIPPET]).text
    return f"{'…' if start else ''}{excerpt}{'…' if start + SNIPPET < len(text) else ''}"


class TagList(TypedDict):
    ok: Literal[True]
    scratchpad_tags: list[str]
    cell_tags: list[str]


async def scratch_list_tags(pads: Pads, call: Call, namespaces: Namespaces = None) -> TagList:
    """List the tags of your pads and of their cells."""
    of_pads, of_cells = await pads.tags(call.principal.id, namespaces or ())
    return {"ok": True, "scratchpad_tags": of_pads, "cell_tags": of_cells}


class SchemaList(TypedDict):
    ok: Literal[True]
    scratch_id: str
    schemas: list[SchemaRecord]
    next: NotRequired[int]


async def scratch_list_schemas(
    pads: Pads, call: Call, scratch_id: PadId, offset: Annotated[int, Field(ge=0)] = 0
) -> SchemaList:
    """List a pad's shared JSON Schemas."""
    pad, schemas = await pads.schemas(call.principal.id, scratch_id)
    page = fitting([schema_as_json(schema) for schema in schemas[offset:]])
    following = offset + len(page)
    note_schemas(pads.sights, call, pad, schemas[offset:following])
    reply: SchemaList = {"ok": True, "scratch_id": scratch_id, "schemas": page}
    if following < len(schemas):
        reply["next"] = following
    return reply


class OneSchema(TypedDict):
    ok: Literal[True]
    schema: SchemaRecord


class SchemaChange(OneSchema):
    version: int
    diff: str


async def scratch_get_schema(pads: Pads, call: Call, scratch_id: PadId, schema_id: str) -> OneSchema:
    """One shared schema, by id or name."""
    pad, schema = await pads.schema(call.principal.id, scratch_id, schema_id)
    note_schemas(pads.sights, call, pad, [schema])
    return {"ok": True, "schema": schema_as_json(schema)}


async def scratch_upsert_schema(
    pads: Pads,
    call: Call,
    scratch_id: PadId,
    schema: Annotated[dict[str, Any], Field(description="{id?, name?, description?, schema}")],
    expect: Expected = None,
) -> SchemaChange:
    """Add or change a shared schema, by id or name; cells refer to it as scratchpad://schemas/NAME."""
    outcome = await pads.put_schema(call.principal.id, scratch_id, schema, basis_of(call, expect))
    record = schema_as_json(outcome.schema)
    return {"ok": True, "schema": record, "version": outcome.pad.version, "diff": outcome.diff}


class NamespaceList(TypedDict):
    ok: Literal[True]
    namespaces: list[NamespaceEntry]


class NamespaceCreation(TypedDict):
    ok: Literal[True]
    namespace: str
    created: bool


class NamespaceRenaming(TypedDict):
    ok: Literal[True]
    namespace: str
    migrated_count: int


class NamespaceDeletion(TypedDict):
    ok: Literal[True]
    deleted: bool
    removed_scratchpads: int


async def scratch_namespace_list(pads: Pads, call: Call) -> NamespaceList:
    """List your namespaces with how many pads each has."""
    return {"ok": True, "namespaces": await pads.namespaces(call.principal.id)}


async def scratch_namespace_create(pads: Pads, call: Call, namespace: str) -> NamespaceCreation:
    """Create a namespace. Pads make theirs by themselves."""
    name, created = await pads.create_namespace(call.principal.id, namespace)
    return {"ok": True, "namespace": name, "created": created}


async def scratch_namespace_rename(
    pads: Pads, call: Call, old_namespace: str, new_namespace: str, migrate_scratchpads: bool = True
) -> NamespaceRenaming:
    """Rename a namespace and move its pads along."""
    name, moved = await pads.rename_namespace(
        call.principal.id, old_namespace, new_namespace, migrate=migrate_scratchpads, session=call.session
    )
    return {"ok": True, "namespace": name, "migrated_count": moved}


async def scratch_namespace_delete(
    pads: Pads, call: Call, namespace: str, delete_scratchpads: bool = False
) -> NamespaceDeletion:
    """Delete a namespace; one with pads only together with them."""
    deleted, removed = await pads.delete_namespace(call.principal.id, namespace, with_pads=delete_scratchpads)
    return {"ok": True, "deleted": deleted, "removed_scratchpads": removed}


def scratch_toolset(pads: Pads) -> Toolset:
    return Toolset(
        "scratch",
        "durable scratch pads: cells in any language, validated, tagged, searchable",
        (
            write(scratch_create, destructive=True),
            read(scratch_read),
            write(scratch_append_cell),
            write(scratch_replace_cell),
            write(scratch_delete, destructive=True, idempotent=True),
            read(scratch_list),
            read(scratch_list_cells),
            read(scratch_validate, long=True),
            read(scratch_search),
            read(scratch_list_tags),
            read(scratch_list_schemas),
            read(scratch_get_schema),
            write(scratch_upsert_schema, idempotent=True),
            read(scratch_namespace_list),
            write(scratch_namespace_create, idempotent=True),
            write(scratch_namespace_rename),
            write(scratch_namespace_delete, destructive=True, idempotent=True),
        ),
        pads,
        failure,
    )
