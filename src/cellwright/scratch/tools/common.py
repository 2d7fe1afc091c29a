"""What the scratch tools share: the cell as callers give it, and pads as replies show them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import to_json

from cellwright.core.budget import cut, estimate_tokens
from cellwright.scratch.model import Cell, CellDraft, JsonObject, Pad, SharedSchema
from cellwright.scratch.validation.model import Diagnostic, Validation
from cellwright.scratch.views import View, Written, canonical

PAGE_TOKENS = 4_500
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
    json_schema: dict[str, Any] | str | None = None
    metadata: dict[str, Any] | None = None
    tags: list[str] | None = None
    cell_id: str | None = None

    def draft(self) -> CellDraft:
        return CellDraft(
            self.language,
            self.content,
            self.cell_id,
            self.metadata,
            None if self.tags is None else tuple(self.tags),
            self.json_schema,
            self.validate,
        )


def written(result: Written) -> JsonObject:
    """The reply to a change: what is where now, never content."""
    view = result.view
    shown = pad_json(view.pad, view.cell_tags)
    shown["cells"] = [structure(cell) for cell in view.cells]
    if len(view.cells) < view.pad.cell_count:
        shown["cells_left_out"] = view.pad.cell_count - len(view.cells)
    reply: JsonObject = {"ok": True, "scratchpad": shown}
    if result.validation is not None:
        places = {cell.id: cell.index for cell in view.cells}
        reply["validation"] = [validation_json(found, places.get(found.cell_id)) for found in result.validation]
    if result.reset:
        reply["reset"] = True
    if result.evicted:
        reply["evicted_scratchpads"] = list(result.evicted)
    return reply


def pad_json(pad: Pad, cell_tags: Sequence[str], *, with_metadata: bool = True) -> JsonObject:
    about = pad.about
    own = canonical(about)
    shown: JsonObject = {"scratch_id": pad.id, **own, "cell_tags": list(cell_tags)}
    shown |= {"cell_count": pad.cell_count, "version": pad.version}
    if with_metadata:
        shown["metadata"] = {**about.metadata, **{name: value for name, value in own.items() if value}}
    return shown


def structure(cell: Cell) -> JsonObject:
    """A cell without its content."""
    shown: JsonObject = {"cell_id": cell.id, "index": cell.index, "language": cell.language, "type": kind(cell)}
    if cell.tags:
        shown["tags"] = list(cell.tags)
    metadata = {**cell.metadata, "tags": list(cell.tags)} if cell.tags else cell.metadata
    if metadata:
        shown["metadata"] = metadata
    if cell.status is not None:
        shown["validation"] = cell.status
    return shown


def kind(cell: Cell) -> str:
    return {"md": "markdown", "markdown": "markdown", "txt": "text", "text": "text"}.get(cell.language.lower(), "code")


def listed(cell: Cell) -> JsonObject:
    preview = cell.content[:PREVIEW]
    return {**structure(cell), "preview": preview, "characters": len(cell.content)}


def read_page(view: View, offset: int) -> tuple[list[JsonObject], int | None]:
    """Cells with their content as far as a reply goes, and where the rest begins."""
    whole = _all_at_once(view.cells[offset:])
    if whole is not None:
        return whole, None
    shown: list[JsonObject] = []
    left = PAGE_TOKENS
    for position, cell in enumerate(view.cells[offset:], offset):
        around = _cost(_around(cell))
        cost = around + estimate_tokens(cell.content)
        if shown and cost > left:
            return shown, position
        shown.append(_with_content(cell, view.pad.id, max(left - around, 1)))
        left -= cost
        if left <= 0 and position + 1 < len(view.cells):
            return shown, position + 1
    return shown, None


def _all_at_once(cells: Sequence[Cell]) -> list[JsonObject] | None:
    """All of them if they fit: one estimate of the whole is far cheaper than one for each."""
    if len(cells) > PAGE_TOKENS or sum(len(cell.content) for cell in cells) > PAGE_TOKENS * LIKELY_CHARACTERS:
        return None
    shown: list[JsonObject] = [{**_around(cell), "content": cell.content} for cell in cells]
    return shown if _cost(shown) <= PAGE_TOKENS else None


def fitting(items: Sequence[JsonObject]) -> list[JsonObject]:
    """The first of these, as many as one reply holds, at least one: what is left out must come on the next page."""
    if _cost(items) <= PAGE_TOKENS:
        return list(items)
    left = PAGE_TOKENS
    for count, item in enumerate(items):
        left -= _cost(item)
        if left < 0:
            return list(items[: max(count, 1)])
    return list(items)


def _cost(shown: JsonObject | Sequence[JsonObject]) -> int:
    return estimate_tokens(to_json(shown).decode())


def _around(cell: Cell) -> JsonObject:
    """A cell as reading shows it, but for its content."""
    return structure(cell) if cell.json_schema is None else {**structure(cell), "json_schema": cell.json_schema}


def _with_content(cell: Cell, pad_id: str, tokens: int) -> JsonObject:
    shown = _around(cell)
    if estimate_tokens(cell.content) <= tokens:
        return {**shown, "content": cell.content}
    return {
        **shown,
        "content": cut(cell.content, tokens).text,
        "content_characters": len(cell.content),
        "content_uri": f"scratchpad://{pad_id}/cells/{cell.id}",
    }


def validation_json(found: Validation, index: int | None) -> JsonObject:
    """One result in the contract's shape."""
    shown: JsonObject = {
        "cell_index": index,
        "cell_id": found.cell_id,
        "language": found.language,
        "valid": found.valid,
        "status": found.status,
        "errors": [_finding(one) for one in found.diagnostics if one.severity == "error"],
        "warnings": [_finding(one) for one in found.diagnostics if one.severity != "error"],
    }
    if found.schema is not None:
        shown["details"] = {"schema_applied": found.schema, "schemas": list(found.references)}
    return shown


def _finding(found: Diagnostic) -> JsonObject:
    shown: JsonObject = {"message": found.message, "code": found.source, "line": found.line, "column": found.column}
    if found.path:
        shown["path"] = found.path
    return shown


def schema_json(schema: SharedSchema) -> JsonObject:
    return {"id": schema.id, "name": schema.name, "description": schema.description, "schema": schema.schema}
