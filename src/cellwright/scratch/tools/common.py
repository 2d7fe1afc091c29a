"""What the scratch tools share: the cell as callers give it, and pads as replies show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.text.budget import cut, estimate_tokens
from cellwright.notebook.model import Cell
from cellwright.scratch.model import JsonObject, PadCellDraft, SharedSchema
from cellwright.scratch.tools.pages import PAGE_TOKENS, cost_of, fitting
from cellwright.scratch.tools.validating import CheckedCell, written_validation
from cellwright.scratch.views import PadView, WrittenPad, canonical

SCHEMA_TOKENS = 1_500
PREVIEW = 80
LIKELY_CHARACTERS = 6
"""A text of more characters than this for each token will not fit; it is not worth a try."""

PadId = Annotated[str, Field(description="A-Z a-z 0-9 _ -")]
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
    """Which cell it is, and what is said about it; never its content."""

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
    """A cell as reading shows it, but for its content."""

    json_schema: NotRequired[JsonObject | str | bool]


class CellText(CellAround):
    """A cell with its content; where that is too long, its beginning, and where all of it is."""

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
"""Of a pad's head."""


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
    deleted_cell: NotRequired[DeletedPadCell]
    validation: NotRequired[list[CheckedCell]]
    validation_totals: NotRequired[dict[str, int]]
    validation_left_out: NotRequired[int]
    reset: NotRequired[Literal[True]]
    note: NotRequired[str]
    evicted_scratchpads: NotRequired[list[str]]


class SchemaEntry(TypedDict):
    """A shared schema as `metadata.schemas` holds it under its name, when read and when given."""

    id: str
    description: str
    schema: JsonObject


def written(result: WrittenPad, tokens: int = PAGE_TOKENS) -> PadWritten:
    """The reply to a change: what was touched and where it is now, never content.

    A change of the whole pad shows all of it, as far as `tokens` go; `cells_left_out` counts the cells that are not shown.
    """
    view, touched = result.view, result.touched
    whole = touched is None or not (touched or result.deleted)
    head = pad_json(view) if whole else pad_lines(view)
    cells = [structure(cell) if touched is None or cell.id in touched else outline(cell) for cell in view.cells]
    shown: PadOutline = {**head, "cells": fitting(cells, tokens)}
    if len(shown["cells"]) < view.pad.cell_count:
        shown["cells_left_out"] = view.pad.cell_count - len(shown["cells"])
    reply: PadWritten = {"ok": True, "scratchpad": shown}
    if result.deleted is not None:
        reply["deleted_cell"] = {"cell_id": result.deleted.id, "index": result.deleted.index}
    if result.validation is not None:
        places = {cell.id: cell.index for cell in view.cells}
        checked = written_validation([(places.get(one.cell_id), one) for one in result.validation])
        reply = {**reply, **checked}
    if result.reset:
        reply["reset"] = True
        reply["note"] = (
            f"a pad of this id was there; scratch_history with restore: {view.pad.version - 1} brings it back"
        )
    if result.evicted:
        reply["evicted_scratchpads"] = list(result.evicted)
    return reply


def pad_json(view: PadView, *, with_metadata: bool = True, schema_tokens: int = SCHEMA_TOKENS) -> PadHead:
    """A pad without its cells. What it says about itself stands in fields of its own and, as the caller gave it, in `metadata`."""
    about = view.pad.about
    shown = _head(view)
    if not with_metadata:
        return shown
    said = {name: value for name, value in canonical(about).items() if value is not None}
    metadata: JsonObject = {**about.metadata, **said, "cell_tags": list(view.cell_tags)}
    shown["metadata"] = metadata
    named = [{"name": schema.name, **schema_entry(schema)} for schema in view.schemas]
    schemas = view.schemas[: len(fitting(named, schema_tokens, least=0))]
    if schemas:
        metadata["schemas"] = {schema.name: schema_entry(schema) for schema in schemas}
    if len(schemas) < len(view.schemas):
        shown["schemas_left_out"] = len(view.schemas) - len(schemas)
    return shown


def pad_lines(view: PadView) -> PadHead:
    """A pad in few words, for a change of its cells: what it says about itself once, and nothing that is empty."""
    shown = _head(view)
    for name in MAY_BE_EMPTY:
        if not shown.get(name):
            shown.pop(name, None)
    return shown


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
    """Which cell it is: enough to name it."""
    return {"cell_id": cell.id, "index": cell.index, "language": cell.language, "type": kind(cell)}


def structure(cell: Cell) -> CellOutline:
    """A cell without its content."""
    shown = outline(cell)
    if cell.tags:
        shown["tags"] = list(cell.tags)
    if cell.metadata:
        shown["metadata"] = cell.metadata
    if cell.check.status is not None:
        shown["validation"] = cell.check.status
    return shown


def read_structure(cell: Cell) -> CellOutline:
    """A cell without its content, as reading shows it: its tags are those of its metadata too."""
    shown = structure(cell)
    if cell.tags:
        shown["metadata"] = {**cell.metadata, "tags": list(cell.tags)}
    return shown


def kind(cell: Cell) -> Literal["markdown", "text", "code"]:
    match cell.language.lower():
        case "md" | "markdown":
            return "markdown"
        case "txt" | "text":
            return "text"
        case _:
            return "code"


def listed(cell: Cell) -> CellPreview:
    preview = cell.source[:PREVIEW]
    return {**read_structure(cell), "preview": preview, "characters": len(cell.source)}


def read_page(view: PadView, offset: int, tokens: int) -> tuple[list[CellText], int | None]:
    """Cells with their content as far as a reply goes, and where the rest begins."""
    whole = _all_at_once(view.cells[offset:], tokens)
    if whole is not None:
        return whole, None
    shown: list[CellText] = []
    left = tokens
    for position, cell in enumerate(view.cells[offset:], offset):
        around = cost_of(_around(cell))
        cost = around + estimate_tokens(cell.source)
        if shown and cost > left:
            return shown, position
        shown.append(_with_content(cell, view.pad.id, max(left - around, 1)))
        left -= cost
        if left <= 0 and position + 1 < len(view.cells):
            return shown, position + 1
    return shown, None


def _all_at_once(cells: Sequence[Cell], tokens: int) -> list[CellText] | None:
    """All of them if they fit: one estimate of the whole is far cheaper than one for each."""
    if len(cells) > tokens or sum(len(cell.source) for cell in cells) > tokens * LIKELY_CHARACTERS:
        return None
    shown: list[CellText] = [{**_around(cell), "content": cell.source} for cell in cells]
    return shown if cost_of(shown) <= tokens else None


def _around(cell: Cell) -> CellAround:
    shown: CellAround = {**read_structure(cell)}
    if cell.check.schema is not None:
        shown["json_schema"] = cell.check.schema
    return shown


def _with_content(cell: Cell, pad_id: str, tokens: int) -> CellText:
    shown = _around(cell)
    if estimate_tokens(cell.source) <= tokens:
        return {**shown, "content": cell.source}
    return {
        **shown,
        "content": cut(cell.source, tokens).text,
        "content_characters": len(cell.source),
        "content_uri": f"scratchpad://{pad_id}/cells/{cell.id}",
    }


def schema_entry(schema: SharedSchema) -> SchemaEntry:
    return {"id": schema.id, "description": schema.description, "schema": schema.schema}
