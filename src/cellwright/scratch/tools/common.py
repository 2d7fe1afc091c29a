"""What the scratch tools share: the cell as callers give it, and pads as replies show them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from cellwright.core.text.budget import cut, estimate_tokens
from cellwright.notebook.model import Cell
from cellwright.scratch.model import JsonObject, PadCellDraft, SharedSchema
from cellwright.scratch.tools.pages import PAGE_TOKENS, cost_of, fitting
from cellwright.scratch.tools.validating import written_validation
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


def written(result: WrittenPad, tokens: int = PAGE_TOKENS) -> JsonObject:
    """The reply to a change: what was touched and where it is now, never content.

    A change of the whole pad shows all of it, as far as `tokens` go; `cells_left_out` counts the cells that are not shown.
    """
    view, touched = result.view, result.touched
    whole = touched is None or not (touched or result.deleted)
    shown = pad_json(view) if whole else pad_lines(view)
    cells = [structure(cell) if touched is None or cell.id in touched else outline(cell) for cell in view.cells]
    shown["cells"] = fitting(cells, tokens)
    if len(shown["cells"]) < view.pad.cell_count:
        shown["cells_left_out"] = view.pad.cell_count - len(shown["cells"])
    reply: JsonObject = {"ok": True, "scratchpad": shown}
    if result.deleted is not None:
        reply["deleted_cell"] = {"cell_id": result.deleted.id, "index": result.deleted.index}
    if result.validation is not None:
        places = {cell.id: cell.index for cell in view.cells}
        reply |= written_validation([(places.get(one.cell_id), one) for one in result.validation])
    if result.reset:
        reply["reset"] = True
        reply["note"] = (
            f"a pad of this id was there; scratch_history with restore: {view.pad.version - 1} brings it back"
        )
    if result.evicted:
        reply["evicted_scratchpads"] = list(result.evicted)
    return reply


def pad_json(view: PadView, *, with_metadata: bool = True, schema_tokens: int = SCHEMA_TOKENS) -> JsonObject:
    """A pad without its cells. What it says about itself stands in fields of its own and, as the caller gave it, in `metadata`."""
    pad = view.pad
    own = {**canonical(pad.about), "cell_tags": list(view.cell_tags)}
    shown: JsonObject = {"scratch_id": pad.id, **own, "cell_count": pad.cell_count, "version": pad.version}
    if not with_metadata:
        return shown
    shown["metadata"] = {**pad.about.metadata, **{name: value for name, value in own.items() if value is not None}}
    schemas = fitting(
        [{"name": schema.name, **schema_entry(schema)} for schema in view.schemas], schema_tokens, least=0
    )
    if schemas:
        shown["metadata"]["schemas"] = {schema.pop("name"): schema for schema in schemas}
    if len(schemas) < len(view.schemas):
        shown["schemas_left_out"] = len(view.schemas) - len(schemas)
    return shown


def pad_lines(view: PadView) -> JsonObject:
    """A pad in few words, for a change of its cells: what it says about itself once, and nothing that is empty."""
    pad = view.pad
    own = {**canonical(pad.about), "cell_tags": list(view.cell_tags)}
    about = {name: value for name, value in own.items() if value}
    return {"scratch_id": pad.id, **about, "cell_count": pad.cell_count, "version": pad.version}


def outline(cell: Cell) -> JsonObject:
    """Which cell it is: enough to name it."""
    return {"cell_id": cell.id, "index": cell.index, "language": cell.language, "type": kind(cell)}


def structure(cell: Cell) -> JsonObject:
    """A cell without its content."""
    shown = outline(cell)
    if cell.tags:
        shown["tags"] = list(cell.tags)
    if cell.metadata:
        shown["metadata"] = cell.metadata
    if cell.check.status is not None:
        shown["validation"] = cell.check.status
    return shown


def read_structure(cell: Cell) -> JsonObject:
    """A cell without its content, as reading shows it: its tags are those of its metadata too."""
    shown = structure(cell)
    return {**shown, "metadata": {**cell.metadata, "tags": list(cell.tags)}} if cell.tags else shown


def kind(cell: Cell) -> str:
    return {"md": "markdown", "markdown": "markdown", "txt": "text", "text": "text"}.get(cell.language.lower(), "code")


def listed(cell: Cell) -> JsonObject:
    preview = cell.source[:PREVIEW]
    return {**read_structure(cell), "preview": preview, "characters": len(cell.source)}


def read_page(view: PadView, offset: int, tokens: int) -> tuple[list[JsonObject], int | None]:
    """Cells with their content as far as a reply goes, and where the rest begins."""
    whole = _all_at_once(view.cells[offset:], tokens)
    if whole is not None:
        return whole, None
    shown: list[JsonObject] = []
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


def _all_at_once(cells: Sequence[Cell], tokens: int) -> list[JsonObject] | None:
    """All of them if they fit: one estimate of the whole is far cheaper than one for each."""
    if len(cells) > tokens or sum(len(cell.source) for cell in cells) > tokens * LIKELY_CHARACTERS:
        return None
    shown: list[JsonObject] = [{**_around(cell), "content": cell.source} for cell in cells]
    return shown if cost_of(shown) <= tokens else None


def _around(cell: Cell) -> JsonObject:
    """A cell as reading shows it, but for its content."""
    shown = read_structure(cell)
    return shown if cell.check.schema is None else {**shown, "json_schema": cell.check.schema}


def _with_content(cell: Cell, pad_id: str, tokens: int) -> JsonObject:
    shown = _around(cell)
    if estimate_tokens(cell.source) <= tokens:
        return {**shown, "content": cell.source}
    return {
        **shown,
        "content": cut(cell.source, tokens).text,
        "content_characters": len(cell.source),
        "content_uri": f"scratchpad://{pad_id}/cells/{cell.id}",
    }


def schema_entry(schema: SharedSchema) -> JsonObject:
    """A shared schema as `metadata.schemas` holds it under its name, when read and when given."""
    return {"id": schema.id, "description": schema.description, "schema": schema.schema}


def schema_json(schema: SharedSchema) -> JsonObject:
    return {"id": schema.id, "name": schema.name, "description": schema.description, "schema": schema.schema}
