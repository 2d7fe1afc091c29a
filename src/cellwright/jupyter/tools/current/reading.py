"""Reading the notebook in use: as a table, one cell, all cells."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.text.cutting import joined
from cellwright.core.text.sight import seen
from cellwright.core.toolset import Image, Reply
from cellwright.core.types import Call
from cellwright.jupyter.model import CellHead, JsonObject
from cellwright.jupyter.tools.current.common import (
    Block,
    CellIndex,
    CurrentCells,
    NotebookName,
    Offset,
    output_blocks,
    page_reply,
    paged,
    pictures_of,
)
from cellwright.jupyter.tools.notebooks import Range, read_nb_cells

CELL_COLUMNS = ("Index", "Type", "Count", "Lines", "Outputs", "State", "First_Line", "ID")
FIRST_LINE = 80
ONE_CELL_CHARACTERS = 10_000


async def list_cells(
    cells: CurrentCells, call: Call, notebook: NotebookName = None, offset: Offset = 0
) -> Reply[dict[str, Any]]:
    """The cells of the notebook as a table: index, type, execution count, lines, outputs, state, first line, id."""
    path = cells.path(call, notebook)
    async with cells.notebooks.open(call, path) as document:
        heads = document.view.outline()
    rows = [_row(index, head) for index, head in enumerate(heads)]
    data, text = paged("cells", CELL_COLUMNS, rows, offset)
    return page_reply({"path": path.text, **data}, text)


def _row(index: int, head: CellHead) -> tuple[object, ...]:
    first = next(iter(seen(head.source.strip()[:500]).text.splitlines()), "")
    first = first if len(first) <= FIRST_LINE else first[: FIRST_LINE - 1] + "…"
    lines = head.source.count("\n") + 1 if head.source else 0
    state = "running" if head.running else "failed" if head.failed else None
    kind = clean(head.cell_type).text
    return index, kind, head.execution_count, lines, head.output_count, state, first, clean(head.id).text


async def read_cell(
    cells: CurrentCells, call: Call, cell_index: CellIndex, notebook: NotebookName = None
) -> Reply[dict[str, Any]]:
    """One cell as it is now: its source, then its outputs, pictures included."""
    return await _read(cells, call, notebook, [Range(start=cell_index)], ONE_CELL_CHARACTERS)


async def read_cells(
    cells: CurrentCells,
    call: Call,
    notebook: NotebookName = None,
    start: Annotated[int, Field(ge=0, description="index to begin with")] = 0,
) -> Reply[dict[str, Any]]:
    """All cells with their outputs, pictures included. Long ones are cut (read_cell shows more); a long notebook comes in parts."""
    ranges = None
    if start:
        async with cells.notebooks.open(call, cells.path(call, notebook)) as document:
            ranges = [Range(start, max(start, document.view.cell_count))]
    return await _read(cells, call, notebook, ranges, 2_048)


async def _read(
    cells: CurrentCells, call: Call, notebook: str | None, ranges: list[Range] | None, limit: int
) -> Reply[dict[str, Any]]:
    path = cells.path(call, notebook)
    reply = await read_nb_cells(cells.notebooks, call, path.text, ranges, limit)
    data = reply.data
    pictures = pictures_of(reply)
    blocks = [block for cell in data["cells"] for block in _blocks(cell, pictures)]
    if "next" in data:
        start = data["next"]["ranges"][0]["start"]
        blocks.append(f"{counted(data['next']['left_out'], 'more cell')}: read_cells with start={start}")
    return Reply(data, tuple(blocks) or ("[no cells]",))


def _blocks(cell: JsonObject, pictures: Iterator[Image]) -> list[Block]:
    count = "" if cell["execution_count"] is None else f" [{cell['execution_count']}]"
    running = " running" if cell.get("running") else ""
    head = f"=== cell {cell['index']} {cell['cell_type']}{count}{running} id={cell['id']} ===\n"
    return [joined([head, cell["source"]]), *output_blocks(cell["outputs"], pictures)]
