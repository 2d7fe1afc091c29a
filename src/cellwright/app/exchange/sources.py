"""Where books come from: whatever a caller can name, as it is now."""

import json
from dataclasses import dataclass
from typing import cast

from cellwright.app.exchange.address import Address, Where, address_of
from cellwright.app.exchange.texts import format_of, no_format, read
from cellwright.core.errors import NotFound
from cellwright.core.formats.ipynb import from_notebook
from cellwright.core.formats.losses import MOST
from cellwright.core.formats.model import Book
from cellwright.core.types import Call
from cellwright.jupyter.model import CellType, JsonObject
from cellwright.jupyter.paths import NotebookPath
from cellwright.jupyter.tools.documents_common import DocumentFiles
from cellwright.scratch.books import book_of
from cellwright.scratch.service import Pads
from cellwright.thinking.service import Thinking

CURRENT = "current"
FORMAT = 4


@dataclass(frozen=True, slots=True)
class Found:
    """A book, where it was, and what of that place it does not have."""

    book: Book
    uri: str
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sources:
    files: DocumentFiles
    pads: Pads
    thinking: Thinking

    async def find(self, call: Call, source: str, format_name: str | None = None) -> Found:
        """The book that a caller names. `format_name` is for a file whose name does not tell."""
        address = address_of(source)
        match address.where:
            case Where.PAD:
                view = await self.pads.read(call.principal.id, address.name)
                schemas = await self.pads.schemas(call.principal.id, address.name)
                lost = [f"the pad's {len(schemas)} shared schemas"] if schemas else []
                checked = sum(1 for cell in view.cells if cell.json_schema is not None or cell.validate)
                lost += [f"how {checked} cells of the pad are validated"] if checked else []
                return Found(book_of(view.pad, view.cells), f"scratchpad://{view.pad.id}", tuple(lost))
            case Where.THINKING:
                return await self._thinking(call, address.name)
            case Where.TEMPLATE:
                return Found(self.thinking.pattern(address.name).book, source)
            case Where.FILE:
                try:
                    return await self._file(call, address, format_name)
                except NotFound as missing:
                    hint = missing.hint or "list_nbs shows the notebooks there are"
                    raise NotFound(missing.message, hint=hint, details=missing.details) from missing

    async def _thinking(self, call: Call, notebook_id: str) -> Found:
        if notebook_id == CURRENT:
            current = await self.thinking.current(call)
            if current is None:
                raise NotFound("you have no thinking notebook", hint="notebook_create makes one")
            notebook_id = current.id
        view = await self.thinking.read(call, notebook_id)
        return Found(view.notebook.book(view.cells), view.notebook.uri)

    async def _file(self, call: Call, address: Address, format_name: str | None) -> Found:
        path = self.files.path(address.name)
        if path.is_notebook:
            async with self.files.notebooks.open(call, NotebookPath(path.text)) as document:
                content, odd = _proper(document.view.as_json())
            return Found(from_notebook(content), f"jupyter://{path.quoted}", tuple(odd))
        if format_name is None and format_of(path.text) is None:
            raise no_format(path.text)
        async with self.files.text(call, path) as document:
            text = document.view.text
        book, losses = read(text, format_name or format_of(path.text, text) or "md")
        return Found(book, path.text, tuple(losses))


def _proper(content: JsonObject) -> tuple[JsonObject, list[str]]:
    """A live notebook as a file would have to be. Anybody can put anything where a cell should be: that spoils only itself."""
    cells: list[object] = list(content["cells"])
    odd = [index for index, cell in enumerate(cells) if not _is_cell(cell)]
    for index in odd:
        cells[index] = {"cell_type": "raw", "metadata": {}, "source": json.dumps(cells[index], ensure_ascii=False)}
    told = [f"cell {index + 1} is no proper cell; it is taken as raw text" for index in odd[:MOST]]
    return {**content, "cells": cells, "nbformat": FORMAT}, told


def _is_cell(found: object) -> bool:
    if not isinstance(found, dict):
        return False
    cell = cast("JsonObject", found)
    return cell.get("cell_type") in list(CellType) and isinstance(cell.get("source"), str)
