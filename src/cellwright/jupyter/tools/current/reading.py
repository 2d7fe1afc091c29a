"""Reading the notebook in use: as a table, one cell, all cells."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.text.cutting import joined
from cellwright.core.text.sight import seen
from cellwright.core.toolset import Image, Reply
from cellwright.core.types import Call
from cellwright.jupyter.model import CellHead
from cellwright.jupyter.notebooks.cellreadings import CellReading
from cellwright.jupyter.notebooks.meanwhile import ViewShown
from cellwright.jupyter.tools.common import Range, news_block
from cellwright.jupyter.tools.current.common import (
    Block,
    CellIndex,
    CurrentCells,
    NotebookName,
    Offset,
    output_blocks,
    paged,
)
from cellwright.jupyter.tools.reading import NotebookReading, whole_cells

CELL_COLUMNS = ("Index", "Type", "Count", "Lines", "Outputs", "State", "First_Line", "ID")
FIRST_LINE = 80
ONE_CELL_CHARACTERS = 10_000


class CellRow(TypedDict):
    index: int
    type: str
    count: int | None
    lines: int
    outputs: int
    state: str | None
    first_line: str
    id: str


class CellTable(ViewShown):
    path: str
    cells: list[CellRow]
    total: int
    next_offset: int | None


async def list_cells(
    cells: CurrentCells, call: Call, notebook: NotebookName = None, offset: Offset = 0
) -> Reply[CellTable]:
    """The cells of the notebook as a table: index, type, execution count, lines, outputs, state, first line, id."""
    path = cells.path(call, notebook)
    async with cells.notebooks.open(call, path) as document:
        page = paged([_row(index, head) for index, head in enumerate(document.view.outline())], offset)
        shown = cells.notebooks.sight(call, path).outline_shown(document.view, offset, len(page.rows))
    data: CellTable = {
        "path": path.text,
        **shown,
        "cells": page.rows,
        "total": page.total,
        "next_offset": page.next_offset,
    }
    return Reply(data, (*page.blocks(CELL_COLUMNS), *news_block(data), *cells.doubt(call, notebook, path)))


def _row(index: int, head: CellHead) -> CellRow:
    first = next(iter(seen(head.source.strip()[:500]).text.splitlines()), "")
    first = first if len(first) <= FIRST_LINE else first[: FIRST_LINE - 1] + "…"
    return {
        "index": index,
        "type": clean(head.cell_type).text,
        "count": head.execution_count,
        "lines": head.source.count("\n") + 1 if head.source else 0,
        "outputs": head.output_count,
        "state": "running" if head.running else "failed" if head.failed else None,
        "first_line": first,
        "id": clean(head.id).text,
    }


async def read_cell(
    cells: CurrentCells, call: Call, cell_index: CellIndex, notebook: NotebookName = None
) -> Reply[NotebookReading]:
    """One cell as it is now: its source, then its outputs, pictures included."""
    return await _read(cells, call, notebook, [Range(start=cell_index)], ONE_CELL_CHARACTERS)


async def read_cells(
    cells: CurrentCells,
    call: Call,
    notebook: NotebookName = None,
    start: Annotated[int, Field(ge=0, description="index to begin with")] = 0,
) -> Reply[NotebookReading]:
    """All cells with their outputs, pictures included. Long ones are cut (read_cell shows more); a long notebook comes in parts."""
    ranges = None
    if start:
        async with cells.notebooks.open(call, cells.path(call, notebook)) as document:
            ranges = [Range(start, max(start, document.view.cell_count))]
    return await _read(cells, call, notebook, ranges, 2_048)


async def _read(
    cells: CurrentCells, call: Call, notebook: str | None, ranges: list[Range] | None, limit: int
) -> Reply[NotebookReading]:
    sight = cells.notebooks.sight(call, cells.path(call, notebook))
    data, images = await whole_cells(cells.notebooks, call, sight, ranges, limit)
    pictures = iter(images)
    blocks = [block for cell in data["cells"] for block in _blocks(cell, pictures)]
    if "next" in data:
        start = data["next"]["ranges"][0]["start"]
        blocks.append(f"{counted(data['next']['left_out'], 'more cell')}: read_cells with start={start}")
    return Reply(data, (*(blocks or ["[no cells]"]), *news_block(data), *cells.doubt(call, notebook, sight.path)))


def _blocks(cell: CellReading, pictures: Iterator[Image]) -> list[Block]:
    count = "" if cell["execution_count"] is None else f" [{cell['execution_count']}]"
    running = " running" if cell.get("running") else ""
    head = f"=== cell {cell['index']} {cell['cell_type']}{count}{running} id={cell['id']} ===\n"
    return [joined([head, cell["source"]]), *output_blocks(cell["outputs"], pictures)]
