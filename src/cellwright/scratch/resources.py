"""Pads as resources: `scratchpad://list`, `scratchpad://{id}`, its cells, and the pad in any notebook format."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from pydantic_core import to_json

from cellwright.core.clean import clean
from cellwright.core.errors import CellwrightError, NotFound
from cellwright.core.formats.formats import FORMATS
from cellwright.core.formats.model import mime_of
from cellwright.core.formats.writing import written
from cellwright.core.resources import Content, ResourceInfo, ResourceTemplate
from cellwright.core.types import Call
from cellwright.scratch.books import book_of, not_in_a_book
from cellwright.scratch.model import Cell
from cellwright.scratch.service import Pads
from cellwright.scratch.tools.common import pad_json, structure
from cellwright.scratch.watched import LIST_URI, SCHEME, parts, uri_of

LISTED = 200


class PadResources:
    """The resources of one workspace's pads, each caller's own."""

    scheme = SCHEME

    def __init__(self, pads: Pads) -> None:
        self._pads = pads

    def templates(self) -> Sequence[ResourceTemplate]:
        return (
            ResourceTemplate(
                "scratchpad://{id}", "pad", "A pad: what is said about it, and its cells", "application/json"
            ),
            ResourceTemplate("scratchpad://{id}/cells/{cell}", "cell of a pad", "The content of one cell"),
            ResourceTemplate("scratchpad://{id}/{format}", "pad as a file", f"The pad as {', '.join(FORMATS)}"),
        )

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        page = await self._pads.page(call.principal.id, (), (), LISTED, None)
        first = ResourceInfo(LIST_URI, "pads", "Your pads, last changed first", "application/json")
        return [
            first,
            *(
                ResourceInfo(
                    uri_of(pad["scratch_id"]),
                    clean(pad["title"] or pad["scratch_id"]).text,
                    clean(pad["description"] or "").text,
                    "application/json",
                )
                for pad in page.items
            ),
        ]

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        pad_id, rest = parts(uri)
        if pad_id is None:
            page = await self._pads.page(call.principal.id, (), (), LISTED, None)
            return [Content(_json(page.items), "application/json")]
        view = await self._pads.read(call.principal.id, pad_id)
        if not rest:
            shown = pad_json(view.pad, view.cell_tags)
            shown["cells"] = [{**structure(cell), "content": cell.content} for cell in view.cells]
            return [Content(_json(shown), "application/json")]
        if rest[0] == "cells" and len(rest) == 2:  # noqa: PLR2004
            return [_cell_content(_cell(view.cells, rest[1], uri))]
        if len(rest) == 1 and rest[0] in FORMATS:
            made = await asyncio.to_thread(written, book_of(view.pad, view.cells), rest[0])
            losses = [*made.losses, *not_in_a_book(view.cells)]
            return [Content(made.text, made.mime_type, {"losses": losses} if losses else {})]
        raise NotFound(f"no resource {uri[:200]}", hint=f"cells/ID, or one of: {', '.join(FORMATS)}")

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        try:
            await self.read(call, uri)
        except CellwrightError:
            return None
        return self._pads.watched.holding(call.principal.id, uri)

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        del template
        if argument == "format":
            return [name for name in FORMATS if name.startswith(prefix)]
        if argument != "id":
            return []
        page = await self._pads.page(call.principal.id, (), (), LISTED, None)
        return [pad["scratch_id"] for pad in page.items if pad["scratch_id"].startswith(prefix)]


def _cell(cells: Sequence[Cell], cell_id: str, uri: str) -> Cell:
    for cell in cells:
        if cell.id == cell_id:
            return cell
    raise NotFound(f"no resource {uri[:200]}")


def _cell_content(cell: Cell) -> Content:
    language = cell.language
    return Content(cell.content, mime_of(language), structure(cell))


def _json(value: object) -> str:
    return to_json(value).decode()
