"""Toolset `editing`: small, exact changes inside a notebook, taking them back, and finding things in many."""

from typing import Annotated, Any

from pydantic import Field

from cellwright.core.clean import clean
from cellwright.core.toolset import Reply, Toolset, read, write
from cellwright.core.types import Call
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebook import Notebook
from cellwright.jupyter.paths import NotebookPath
from cellwright.jupyter.ranges import CellRange
from cellwright.jupyter.service import LiveNotebooks, require_run, wait_seconds
from cellwright.jupyter.textdiff import difference
from cellwright.jupyter.tools.common import (
    DEFAULT_OUTPUT_SIZE,
    DEFAULT_WAIT,
    OutputSize,
    Path,
    Wait,
    author_of,
    known,
    places,
    run_if_asked,
    with_run,
)
from cellwright.jupyter.tools.notebooks import Range
from cellwright.jupyter.tools.proposing import Propose, proposed
from cellwright.jupyter.tools.search import search_nbs
from cellwright.jupyter.undo import undo

DIFF_LINES = 40

Cell = Annotated[str | int, Field(description="id or index")]


def one_cell(cell: str | int) -> CellRange:
    return CellRange(start=cell) if isinstance(cell, int) else CellRange(id=cell)


def short_diff(before: str, after: str) -> str:
    lines = difference(before, after).splitlines()
    return "\n".join(lines[:DIFF_LINES]) + (
        f"\n… {len(lines) - DIFF_LINES} lines more" if len(lines) > DIFF_LINES else ""
    )


async def edit_nb_cell(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    cell: Cell,
    old: str,
    new: str,
    replace_all: bool = False,
    expect: str | None = None,
    exec: bool = False,  # noqa: A002 - as the other tools call it
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109
    propose: Propose = False,
) -> Reply[dict[str, Any]]:
    """Replace literal text in one cell. It must occur exactly once, unless replace_all. The result is a diff."""
    wanted = exec and not propose
    if wanted:
        require_run(call)
    wait_seconds(timeout)
    checked = NotebookPath(path)

    def change(view: Notebook) -> tuple[str, str, str, int]:
        index = view.resolve([one_cell(cell)])[0]
        before = view.head(index)
        count = view.edit(one_cell(cell), old, new, every=replace_all, expect=expect, author=author_of(call))
        cell_id = view.own_ids([index], author=author_of(call))[0] if wanted else before.id
        return cell_id, before.source, view.head(index).source, count

    async with notebooks.edit(call, checked, propose=propose) as (document, proposal):
        (cell_id, before, after, count), told = await document.change(change)
        where = places(document.view, [cell_id])
    done: JsonObject = {
        "message": f"Replaced {count} occurrences",
        "replaced": count,
        "diff": clean(short_diff(before, after)).text,
        "cells": where,
        **known(told),
        **proposed(proposal),
    }
    view = await run_if_asked(notebooks, call, checked, [cell_id], wanted=wanted, wait=timeout)
    return await with_run(done, view, checked, max_cell_output_size)


async def move_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range],
    position: Annotated[int, Field(description="index before which they go, as it is now; -1 is the end")],
    expect: dict[str, str] | None = None,
    propose: Propose = False,
) -> dict[str, Any]:
    """Move cells, with their outputs, keeping their order and ids. expect: {cell id: revision}."""
    checked = NotebookPath(path)
    named = [one.checked() for one in ranges]
    async with notebooks.edit(call, checked, propose=propose) as (document, proposal):
        ids, told = await document.change(
            lambda view: view.move(named, position, expect=expect, author=author_of(call))
        )
        where = places(document.view, ids)
    return {"message": f"Moved {len(ids)} cells", "cells": where, **known(told), **proposed(proposal)}


async def undo_nb_edit(notebooks: LiveNotebooks, call: Call, path: Path) -> dict[str, Any]:
    """Take back your own last edit of this notebook, and nobody else's. Refused if others changed the same text since."""
    checked = NotebookPath(path)
    async with notebooks.open(call, checked) as document:
        group, told = await document.change(lambda view: undo(view, author_of(call)))
        count = document.view.cell_count
    return {"message": f"Took back: {group.what}", "undone": group.what, "cell_count": count, **known(told)}


def editing_toolset(notebooks: LiveNotebooks) -> Toolset:
    tools = (
        write(edit_nb_cell, long=True),
        write(move_nb_cells),
        write(undo_nb_edit),
        read(search_nbs, long=True),
    )
    return Toolset("editing", "small exact changes inside a notebook, undo, and search in many", tools, notebooks)
