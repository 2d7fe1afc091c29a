"""Pads as resources: `scratchpad://list`, `scratchpad://{id}`, its cells, and the pad in any notebook format."""

import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from pydantic_core import to_json

from cellwright.core.errors import CellwrightError, NotFound
from cellwright.core.resources import Content, ResourceInfo, ResourceTemplate
from cellwright.core.text.clean import clean
from cellwright.core.types import Call
from cellwright.notebook.formats.registry import FORMATS
from cellwright.notebook.model import mime_of
from cellwright.scratch.conversion import not_in_a_notebook, notebook_of
from cellwright.scratch.model import InvalidId
from cellwright.scratch.service import Pads
from cellwright.scratch.tools.common import CellText, PadText, pad_json, read_structure
from cellwright.scratch.tools.noting import note_cells
from cellwright.scratch.views import PadView
from cellwright.scratch.watched import LIST_URI, SCHEME, split_uri, uri_of

LISTED = 200
FIXED = (ResourceInfo(LIST_URI, "pads", "Your pads, last changed first; can be watched", "application/json"),)
"""The addresses that are always the same."""


class PadResources:
    """The pads of one workspace as resources. Each caller sees only their own."""

    scheme = SCHEME

    def __init__(self, pads: Pads) -> None:
        self._pads = pads

    def templates(self) -> Sequence[ResourceTemplate]:
        return (
            ResourceTemplate(
                "scratchpad://{id}",
                "pad",
                "A pad: what is said about it, and its cells; can be watched, as all below it",
                "application/json",
            ),
            ResourceTemplate("scratchpad://{id}/cells/{cell}", "cell of a pad", "The content of one cell"),
            ResourceTemplate("scratchpad://{id}/{format}", "pad as a file", f"The pad as {', '.join(FORMATS)}"),
        )

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        page = await self._pads.page(call.principal.id, (), (), LISTED, None)
        return [
            *FIXED,
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
        content, view = await self._read(call, uri)
        if view is not None:
            note_cells(self._pads.sights, call, view)
        return [content]

    async def _read(self, call: Call, uri: str) -> tuple[Content, PadView | None]:
        """What the URI shows, and the pad of which it shows cells."""
        pad_id, segments = split_uri(uri)
        if pad_id is None:
            page = await self._pads.page(call.principal.id, (), (), LISTED, None)
            return Content(_json(page.items), "application/json"), None
        if segments[:1] == ["cells"] and len(segments) == 2:  # noqa: PLR2004
            try:
                view = await self._pads.read(call.principal.id, pad_id, cell_ids=[segments[1]])
            except InvalidId:
                raise NotFound(f"no resource {uri[:200]}", hint="scratchpad://list shows the pads there are") from None
            cell = view.cells[0]
            return Content(cell.source, mime_of(cell.language), {**read_structure(cell)}), view
        view = await self._pads.read(call.principal.id, pad_id, with_schemas=not segments)
        if not segments:
            cells: list[CellText] = [{**read_structure(cell), "content": cell.source} for cell in view.cells]
            pad: PadText = {**pad_json(view, schema_tokens=sys.maxsize), "cells": cells}
            return Content(_json(pad), "application/json"), view
        if len(segments) == 1 and segments[0] in FORMATS:
            file = await self._pads.conversions.write(notebook_of(view.pad, view.cells), segments[0], call.principal.id)
            losses = [*file.losses, *not_in_a_notebook(view.cells)]
            return Content(file.text, file.mime_type, {"losses": losses} if losses else {}), view
        raise NotFound(f"no resource {uri[:200]}", hint=f"cells/ID, or one of: {', '.join(FORMATS)}")

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        try:
            await self._read(call, uri)
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


def _json(value: object) -> str:
    return to_json(value).decode()
