"""`read_nb_cells`: cells as they are now, as many as an answer holds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, NotRequired, TypeVar, cast

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import Conflict
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.toolset import Image, Reply
from cellwright.core.types import Call
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.kernels.images import Fitted
from cellwright.jupyter.model import LiveCell
from cellwright.jupyter.notebooks.cellreadings import CellDigest, CellReading, CellStateShown, digest_cell, shape_cell
from cellwright.jupyter.notebooks.meaning import CallersSight
from cellwright.jupyter.notebooks.meanwhile import OrderNews
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.shapes import MAX_PICTURES
from cellwright.jupyter.notebooks.whole import read_cell
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.staleness.tracking import StatesOfNotebook
from cellwright.jupyter.staleness.words import state_shown
from cellwright.jupyter.tools.common import (
    Path,
    Range,
    ViewName,
    cell_ranges,
    compact,
    content_of,
    off_the_loop,
    weight,
)
from cellwright.notebook.addressing import runs_of

PAGE_TOKENS = 5_000
NEXT_RANGES = 50
TRIES = 5
MAX_MAX_CELL_DATA = 1_000_000

C = TypeVar("C")


class IndexSpan(TypedDict):
    start: int
    end: int


class RestOfCells(TypedDict):
    """How to ask for the rest, and for nothing else."""

    ranges: list[IndexSpan]
    left_out: int
    then: NotRequired[str]


class RestIfAny(TypedDict, total=False):
    next: RestOfCells


class NotebookReading(RestIfAny, OrderNews):
    path: str
    view: str
    cells: list[CellReading]
    truncated: bool
    max_cell_data: int
    live: bool


class NotebookDigest(RestIfAny, OrderNews):
    path: str
    view: str
    cells: list[CellDigest]
    truncated: bool
    live: NotRequired[Literal[False]]


async def read_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range] | None = None,
    max_cell_data: Annotated[int, Field(alias="maxCellData", ge=1, le=MAX_MAX_CELL_DATA)] = 2_048,
    outputs: Annotated[
        Literal["full", "summary", "none"], Field(description="summary and none leave out what is empty")
    ] = "full",
    view: ViewName = None,
) -> Reply[NotebookReading | NotebookDigest]:
    """Read cells as they are now, also unsaved edits of people. Long sources and outputs are cut to maxCellData; pictures are shown."""
    notebook_path = NotebookPath(path)
    sight = notebooks.sight(call, notebook_path, view)
    if outputs != "full":
        return Reply(await _digest(notebooks, call, sight, ranges, max_cell_data, outputs=outputs == "summary"))
    data, pictures = await whole_cells(notebooks, call, sight, ranges, max_cell_data)
    return Reply(data, content_of(pictures))


async def whole_cells(
    notebooks: LiveNotebooks, call: Call, sight: CallersSight, ranges: list[Range] | None, limit: int
) -> tuple[NotebookReading, list[Image]]:
    """Cells with their outputs, and the pictures in them."""
    path = sight.path

    def shape(
        cell: LiveCell, fitted: Mapping[str, Fitted], room: int, state: CellStateShown
    ) -> tuple[CellReading, list[Image]]:
        return shape_cell(cell, path, limit, fitted, room, state)

    page = await _page(notebooks, call, sight, ranges, MAX_PICTURES, shape)
    cut = any(cell["truncated"]["source"] or any(cell["truncated"]["outputs"]) for cell in page.cells)
    reading: NotebookReading = {
        "path": path.text,
        "view": page.view,
        "cells": page.cells,
        "truncated": bool(page.remaining) or cut,
        "max_cell_data": limit,
        "live": page.live,
        **page.news,
        **_rest(page.remaining),
    }
    return reading, page.pictures


async def _digest(
    notebooks: LiveNotebooks, call: Call, sight: CallersSight, ranges: list[Range] | None, limit: int, *, outputs: bool
) -> NotebookDigest:
    def shape(
        cell: LiveCell, _fitted: Mapping[str, Fitted], _room: int, state: CellStateShown
    ) -> tuple[CellDigest, list[Image]]:
        return digest_cell(cell, limit, outputs=outputs, state=state), []

    page = await _page(notebooks, call, sight, ranges, 0, shape)
    digest: NotebookDigest = {
        "path": sight.path.text,
        "view": page.view,
        "cells": page.cells,
        "truncated": bool(page.remaining) or any("truncated" in cell for cell in page.cells),
    }
    if not page.live:
        digest["live"] = False
    return {**digest, **page.news, **_rest(page.remaining)}


@dataclass(frozen=True, slots=True)
class _Page(Generic[C]):
    """The first of the requested cells, and the indexes of the remaining ones."""

    cells: list[C]
    pictures: list[Image]
    remaining: Sequence[int]
    live: bool
    view: str
    news: OrderNews


async def _page(
    notebooks: LiveNotebooks,
    call: Call,
    sight: CallersSight,
    ranges: list[Range] | None,
    most_pictures: int,
    shape: Callable[[LiveCell, Mapping[str, Fitted], int, CellStateShown], tuple[C, list[Image]]],
) -> _Page[C]:
    async with notebooks.open(call, sight.path) as document:
        states = await notebooks.states.look(call, await notebooks.connected(call), document)
        for _ in range(TRIES):
            page = await _page_of(notebooks, call, document, states, sight, ranges, most_pictures, shape)
            if page is not None:
                return page
    raise moving_while_read(sight.path.text)


async def _page_of(
    notebooks: LiveNotebooks,
    call: Call,
    document: OpenDocument[LiveNotebook],
    states: StatesOfNotebook,
    sight: CallersSight,
    ranges: list[Range] | None,
    most_pictures: int,
    shape: Callable[[LiveCell, Mapping[str, Fitted], int, CellStateShown], tuple[C, list[Image]]],
) -> _Page[C] | None:
    """The page; None if cells came, went or moved while it was read: then an index would mean two cells."""
    cells: list[C] = []
    pictures: list[Image] = []
    seen: dict[str, str] = {}
    view = document.view
    indexes = list(range(view.cell_count)) if ranges is None else sight.indexes_to_read(view, cell_ranges(ranges))
    now = view.sight()
    tokens_left = PAGE_TOKENS
    for index in indexes:
        cell = await read_cell(view, index)
        if not view.sight().has_order_of(now):
            return None
        size = len(cell.source) + weight(cell.outputs)
        room = most_pictures - len(pictures)
        fitted = await notebooks.pictures.in_outputs(cell.outputs, room, call.principal.id)
        shaped_cell, cell_pictures = await off_the_loop(
            size, shape, cell, fitted, room, state_shown(states, view, index, cell.head)
        )
        if not view.sight().has_order_of(now):
            return None
        tokens_left -= estimate_tokens(compact(shaped_cell))
        if tokens_left < 0 and cells:
            break
        cells.append(shaped_cell)
        if cell.head.revision != now.revisions[index] and not cut_source(shaped_cell):
            seen[now.keys[index]] = cell.head.revision
        pictures += cell_pictures
    news = sight.order_news(now) if len(cells) < view.cell_count else OrderNews()
    shown = list(zip([now.keys[index] for index in indexes], cells, strict=False))
    whole = [key for key, cell in shown if not cut_source(cell)]
    cut = [key for key, cell in shown if cut_source(cell)]
    return _Page(cells, pictures, indexes[len(cells) :], document.live, sight.show(now, whole, seen, lines=cut), news)


def moving_while_read(path: str) -> Conflict:
    return Conflict(f"cells of {path} came, went or moved all the time while they were read", hint="Try again")


def cut_source(cell: object) -> bool:
    """Whether not all of the source is shown."""
    cuts: object = cast("dict[str, object]", cell).get("truncated")
    return isinstance(cuts, dict) and bool(cast("dict[str, object]", cuts).get("source"))


def _rest(remaining: Sequence[int]) -> RestIfAny:
    if not remaining:
        return {}
    ranges: list[IndexSpan] = [{"start": start, "end": end} for start, end in runs_of(remaining)]
    rest: RestOfCells = {"ranges": ranges[:NEXT_RANGES], "left_out": len(remaining)}
    if len(ranges) > NEXT_RANGES:
        rest["then"] = f"what you asked for from cell {ranges[NEXT_RANGES]['start']} on"
    return {"next": rest}
