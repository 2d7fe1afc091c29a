"""What the scratch tools share: cells as callers give them, and pads as replies show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from cellwright.core.text.budget import cut, estimate_tokens
from cellwright.notebook.model import Cell
from cellwright.scratch.model import JsonObject, PadCellDraft, SharedSchema
from cellwright.scratch.sight.memory import Expect
from cellwright.scratch.tools.pages import PAGE_TOKENS, cost_of, fitting
from cellwright.scratch.tools.validating import CheckedCell, written_validation
from cellwright.scratch.views import PadView, WrittenPad, canonical

SCHEMA_TOKENS = 1_500
PREVIEW = 80
LIKELY_CHARACTERS = 6
"""Text with more characters per token than this is not estimated: it will not fit."""

PadId = Annotated[str, Field(description="A-Z a-z 0-9 _ -")]
_INTEGER_OR_TEXT = {"type": ["integer", "string"]}
# Every client pays for the schema of each change: this is the shortest, and it is explained where most changes begin.
Expected = Annotated[Expect | None, WithJsonSchema(_INTEGER_OR_TEXT)]
ExplainedExpected = Annotated[
    Expect | None, WithJsonSchema({**_INTEGER_OR_TEXT, "description": "version you saw, or any"})
]
Tags = Annotated[list[str] | None, Field(description="any of these")]
Namespaces = Annotated[list[str] | None, Field(description="any of these")]


@dataclass(frozen=True)
class CellInput:
    """A cell. `json_schema`: a schema, or `scratchpad://schemas/NAME`."""

    language: str
    content: str
    validate: bool = False
    json_schema: dict[str, Any] | str | bool | None = None
    metadata: dict[str, Any] | None = None
    tags: list[str] | None = None
    cell_id: str | None = None

    def draft(self) -> PadCellDraft:
        return PadCellDraft(
            self.language,
            self.content,
            self.cell_id,
            self.metadata,
            None if self.tags is None else tuple(self.tags),
            self.json_schema,
            self.validate,
        )


class CellOutline(TypedDict):
    """A cell's id, place and attributes, without its content."""

    cell_id: str
    index: int
    language: str
    type: Literal["markdown", "text", "code"]
    tags: NotRequired[list[str]]
    metadata: NotRequired[Mapping[str, Any]]
    validation: NotRequired[str]


class CellPreview(CellOutline):
    preview: str
    characters: int


class CellAround(CellOutline):
    """A cell as reading shows it, without its content."""

    json_schema: NotRequired[JsonObject | str | bool]


class CellText(CellAround):
    """A cell with its content; content that is too long is cut, with the URI of the whole."""

    content: str
    content_characters: NotRequired[int]
    content_uri: NotRequired[str]


class PadHead(TypedDict):
    """A pad without its cells."""

    scratch_id: str
    title: NotRequired[str | None]
    description: NotRequired[str | None]
    summary: NotRequired[str | None]
    namespace: NotRequired[str | None]
    tags: NotRequired[list[str]]
    cell_tags: NotRequired[list[str]]
    cell_count: int
    version: int
    metadata: NotRequired[JsonObject]
    schemas_left_out: NotRequired[int]


MAY_BE_EMPTY: tuple[Literal["title", "description", "summary", "namespace", "tags", "cell_tags"], ...] = (
    "title",
    "description",
    "summary",
    "namespace",
    "tags",
    "cell_tags",
)
"""The keys of a `PadHead` that `pad_lines` leaves out when they are empty."""


class PadOutline(PadHead):
    cells: list[CellOutline]
    cells_left_out: NotRequired[int]


class PadText(PadHead):
    cells: list[CellText]


class DeletedPadCell(TypedDict):
    cell_id: str
    index: int


class PadWritten(TypedDict):
    """The reply to a change."""

    ok: Literal[True]
    scratchpad: PadOutline
    diff: NotRequired[str]
    merged_with: NotRequired[str]
    deleted_cell: NotRequired[DeletedPadCell]
    validation: NotRequired[list[CheckedCell]]
    validation_totals: NotRequired[dict[str, int]]
    validation_left_out: NotRequired[int]
    reset: NotRequired[Literal[True]]
    note: NotRequired[str]
    evicted_scratchpads: NotRequired[list[str]]


class SchemaEntry(TypedDict):
    """A shared schema as it stands in `metadata.schemas` under its name, in replies and in arguments."""

    id: str
    description: str
    schema: JsonObject


def change_reply(result: WrittenPad, tokens: int = PAGE_TOKENS) -> PadWritten:
    """The reply to a change: the cells that were touched and their indexes, without content.

    A change of the whole pad shows all cells that fit into `tokens`; `cells_left_out` counts the others.
    """
    view, touched = result.view, result.touched
    about_whole_pad = touched is None or not (touched or result.deleted)
    head = pad_json(view) if about_whole_pad else pad_lines(view)
    cells = [structure(cell) if touched is None or cell.id in touched else outline(cell) for cell in view.cells]
    pad: PadOutline = {**head, "cells": fitting(cells, tokens)}
    if len(pad["cells"]) < view.pad.cell_count:
        pad["cells_left_out"] = view.pad.cell_count - len(pad["cells"])
    reply: PadWritten = {"ok": True, "scratchpad": pad}
    if result.diff:
        reply["diff"] = result.diff
    if result.merged:
        reply["merged_with"] = result.merged
    if result.deleted is not None:
        reply["deleted_cell"] = {"cell_id": result.deleted.id, "index": result.deleted.index}
    if result.validation is not None:
        indexes = {cell.id: cell.index for cell in view.cells}
        placed = [(indexes.get(validation.cell_id), validation) for validation in result.validation]
        reply = {**reply, **written_validation(placed)}
    if result.reset:
        reply["reset"] = True
        reply["note"] = (
            f"a pad of this id was there; scratch_history with restore: {view.pad.version - 1} brings it back"
        )
    if result.evicted:
        reply["evicted_scratchpads"] = list(result.evicted)
    return reply


def pad_json(view: PadView, *, with_metadata: bool = True, schema_tokens: int = SCHEMA_TOKENS) -> PadHead:
    """A pad without its cells. Its fields stand at the top and, as the caller gave them, in `metadata`."""
    about = view.pad.about
    head = _head(view)
    if not with_metadata:
        return head
    fields = {name: value for name, value in canonical(about).items() if value is not None}
    metadata: JsonObject = {**about.metadata, **fields, "cell_tags": list(view.cell_tags)}
    head["metadata"] = metadata
    entries = [{"name": schema.name, **schema_entry(schema)} for schema in view.schemas]
    schemas = view.schemas[: len(fitting(entries, schema_tokens, least=0))]
    if schemas:
        metadata["schemas"] = {schema.name: schema_entry(schema) for schema in schemas}
    if len(schemas) < len(view.schemas):
        head["schemas_left_out"] = len(view.schemas) - len(schemas)
    return head


def pad_lines(view: PadView) -> PadHead:
    """A short head, for the reply to a change of cells: each field once, and none that is empty."""
    head = _head(view)
    for name in MAY_BE_EMPTY:
        if not head.get(name):
            head.pop(name, None)
    return head


def _head(view: PadView) -> PadHead:
    pad = view.pad
    return {
        "scratch_id": pad.id,
        **canonical(pad.about),
        "cell_tags": list(view.cell_tags),
        "cell_count": pad.cell_count,
        "version": pad.version,
    }


def outline(cell: Cell) -> CellOutline:
    """Enough of a cell to name it."""
    return {"cell_id": cell.id, "index": cell.index, "language": cell.language, "type": kind(cell)}


def structure(cell: Cell) -> CellOutline:
    """A cell without its content."""
    attributes = outline(cell)
    if cell.tags:
        attributes["tags"] = list(cell.tags)
    if cell.metadata:
        attributes["metadata"] = cell.metadata
    if cell.check.status is not None:
        attributes["validation"] = cell.check.status
    return attributes


def read_structure(cell: Cell) -> CellOutline:
    """A cell without its content, as reading shows it: its tags stand in its metadata too."""
    attributes = structure(cell)
    if cell.tags:
        attributes["metadata"] = {**cell.metadata, "tags": list(cell.tags)}
    return attributes


def kind(cell: Cell) -> Literal["markdown", "text", "code"]:
    match cell.language.lower():
        case "md" | "markdown":
            return "markdown"
        case "txt" | "text":
            return "text"
        case _:
            return "code"


def preview(cell: Cell) -> CellPreview:
    return {**read_structure(cell), "preview": cell.source[:PREVIEW], "characters": len(cell.source)}


def read_page(view: PadView, offset: int, tokens: int) -> tuple[list[CellText], int | None]:
    """As many cells with their content as fit into a reply, and the offset of the next one."""
    all_cells = _all_at_once(view.cells[offset:], tokens)
    if all_cells is not None:
        return all_cells, None
    page: list[CellText] = []
    tokens_left = tokens
    for position, cell in enumerate(view.cells[offset:], offset):
        around = cost_of(_around(cell))
        cost = around + estimate_tokens(cell.source)
        if page and cost > tokens_left:
            return page, position
        page.append(_with_content(cell, view.pad.id, max(tokens_left - around, 1)))
        tokens_left -= cost
        if tokens_left <= 0 and position + 1 < len(view.cells):
            return page, position + 1
    return page, None


def _all_at_once(cells: Sequence[Cell], tokens: int) -> list[CellText] | None:
    """All cells if they fit, else None: one estimate of the whole is far cheaper than one for each cell."""
    if len(cells) > tokens or sum(len(cell.source) for cell in cells) > tokens * LIKELY_CHARACTERS:
        return None
    texts: list[CellText] = [{**_around(cell), "content": cell.source} for cell in cells]
    return texts if cost_of(texts) <= tokens else None


def _around(cell: Cell) -> CellAround:
    around: CellAround = {**read_structure(cell)}
    if cell.check.schema is not None:
        around["json_schema"] = cell.check.schema
    return around


def _with_content(cell: Cell, pad_id: str, tokens: int) -> CellText:
    around = _around(cell)
    if estimate_tokens(cell.source) <= tokens:
        return {**around, "content": cell.source}
    return {
        **around,
        "content": cut(cell.source, tokens).text,
        "content_characters": len(cell.source),
        "content_uri": f"scratchpad://{pad_id}/cells/{cell.id}",
    }


def schema_entry(schema: SharedSchema) -> SchemaEntry:
    return {"id": schema.id, "description": schema.description, "schema": schema.schema}
