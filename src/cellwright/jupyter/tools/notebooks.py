"""Toolset `notebooks`: notebooks by path, read, changed and run live, together with the people who have them open."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from cellwright.core.budget import estimate_tokens
from cellwright.core.errors import InvalidArgument
from cellwright.core.resources import NOTEBOOK_VIEW
from cellwright.core.toolset import Image, Reply, Toolset, read, run, write
from cellwright.core.types import Call
from cellwright.jupyter.model import CellType, FileInfo, FileKind, Found, JsonObject, KernelInfo, NewCell
from cellwright.jupyter.notebook import Notebook, SourceChange
from cellwright.jupyter.paths import DocPath, NotebookPath, folder_path, path_from_url
from cellwright.jupyter.port import Documents
from cellwright.jupyter.ranges import CellRange, runs_of
from cellwright.jupyter.rooms import OpenDocument
from cellwright.jupyter.service import LiveNotebooks, require_run, wait_seconds
from cellwright.jupyter.shapes import MAX_PICTURES, shape_cell
from cellwright.jupyter.tools.common import (
    DEFAULT_OUTPUT_SIZE,
    DEFAULT_WAIT,
    OutputSize,
    Path,
    Wait,
    author_of,
    compact,
    content_of,
    known,
    off_the_loop,
    places,
    run_if_asked,
    weight,
    with_run,
)
from cellwright.jupyter.tools.proposing import Propose, proposed

PAGE_TOKENS = 5_000
PAGE_ENTRIES = 100
NEXT_RANGES = 50
MAX_MAX_CELL_DATA = 1_000_000


@dataclass(frozen=True)
class Range:
    """Cells by index (`end` exclusive; without it one cell) or by id."""

    start: int | None = None
    end: int | None = None
    id: str | None = None

    def checked(self) -> CellRange:
        return CellRange(self.start, self.end, self.id)


@dataclass(frozen=True)
class Modification:
    """New content for the cells of a range; `expect` is the revision they must still have."""

    range: Range
    content: str
    expect: str | None = None


@dataclass(frozen=True)
class Insertion:
    content: str
    type: Literal["code", "markdown", "raw"] = "code"


async def get_base_url(notebooks: LiveNotebooks, call: Call) -> dict[str, str]:
    """The address of the Jupyter server."""
    return {"base_url": (await notebooks.connected(call)).found.jupyter.documents.url}


async def nb_path_from_url(notebooks: LiveNotebooks, call: Call, url: str) -> dict[str, str]:
    """The notebook path in a JupyterLab address that a person copied from the browser."""
    base_url = (await notebooks.connected(call)).found.jupyter.documents.url
    return {"original_url": url, "base_url": base_url, "notebook_path": path_from_url(url, base_url).text}


async def list_nbs(
    notebooks: LiveNotebooks, call: Call, path: str = "", offset: Annotated[int, Field(ge=0)] = 0
) -> dict[str, Any]:
    """Notebooks below a folder, recursively. A long list comes in pages: go on with next_offset."""
    connected = await notebooks.connected(call)
    documents = connected.found.jupyter.documents
    listed = await documents.find(folder_path(path or connected.found.folder), ".ipynb")
    page: list[JsonObject] = []
    left = PAGE_TOKENS
    for info in await documents.describe(listed[offset : offset + PAGE_ENTRIES]):
        entry = _listed(info, documents.url)
        left -= estimate_tokens(compact(entry))
        if left < 0 and page:
            break
        page.append(entry)
    following = offset + len(page)
    return {"notebooks": page, "total": len(listed), "next_offset": following if following < len(listed) else None}


def _listed(info: FileInfo, base_url: str) -> JsonObject:
    return {
        "path": info.path,
        "name": info.name,
        "last_modified": info.last_modified.isoformat(),
        "created": info.created.isoformat(),
        "size": info.size,
        "writable": info.writable,
        "url": f"{base_url}/notebooks/{DocPath(info.path).quoted}",
    }


async def get_nb_stat(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    outline: bool = False,
    offset: Annotated[int, Field(ge=0, description="first cell of the outline")] = 0,
) -> dict[str, Any]:
    """Cell count, kernel, people. With outline: a line per cell (index, id, kind, first line); go on with next_offset. Starts nothing."""
    checked = NotebookPath(path)
    connected = await notebooks.connected(call)
    jupyter = connected.found.jupyter
    info, session = await asyncio.gather(_info(jupyter.documents, checked), jupyter.kernels.session_of(checked))
    async with connected.rooms.notebook(checked) as document:
        page = document.view.outline_page(offset) if outline else None
        stat: JsonObject = {
            "path": checked.text,
            "cell_count": document.view.cell_count,
            "last_modified": info.last_modified.isoformat(),
            "kernel": _kernel(session.kernel) if session and session.kernel else None,
            "live": document.live,
            "people": list(document.others),
        }
    if page is not None:
        stat |= {"outline": list(page.lines), "next_offset": page.next_offset}
    return stat


async def _info(documents: Documents, path: NotebookPath) -> FileInfo:
    """From the disk where that is possible, which is a tenth of the server's work for an answer."""
    described = await documents.describe([Found(path.text, FileKind.NOTEBOOK)])
    return described[0] if described else await documents.stat(path)


def _kernel(kernel: KernelInfo) -> JsonObject:
    return {"name": kernel.name, "id": kernel.id, "state": kernel.state}


async def read_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range] | None = None,
    max_cell_data: Annotated[int, Field(alias="maxCellData", ge=1, le=MAX_MAX_CELL_DATA)] = 2_048,
    outputs: Literal["full", "summary", "none"] = "full",
) -> Reply[dict[str, Any]]:
    """Read cells as they are now, also unsaved edits of people. Long sources and outputs are cut to maxCellData; pictures are shown."""
    checked = NotebookPath(path)
    cells: list[JsonObject] = []
    pictures: list[Image] = []
    async with notebooks.open(call, checked) as document:
        view = document.view
        wanted = list(range(view.cell_count)) if ranges is None else view.resolve([one.checked() for one in ranges])
        left = PAGE_TOKENS
        for index in wanted:
            cell = view.cell_at(index)
            size = weight(cell.outputs)
            made, shown = await off_the_loop(
                size, shape_cell, cell, checked, max_cell_data, outputs, MAX_PICTURES - len(pictures)
            )
            left -= estimate_tokens(compact(made))
            if left < 0 and cells:
                break
            cells.append(made)
            pictures += shown
        live = document.live
    data: JsonObject = {
        "path": checked.text,
        "cells": cells,
        "truncated": len(cells) < len(wanted) or any(_is_cut(cell) for cell in cells),
        "max_cell_data": max_cell_data,
        "live": live,
    }
    if len(cells) < len(wanted):
        data["next"] = _following(wanted[len(cells) :])
    return Reply(data, content_of(data, pictures))


def _following(left: Sequence[int]) -> JsonObject:
    """How to ask for the rest, and for nothing else."""
    ranges = [{"start": start, "end": end} for start, end in runs_of(left)]
    shown: JsonObject = {"ranges": ranges[:NEXT_RANGES], "left_out": len(left)}
    if len(ranges) > NEXT_RANGES:
        shown["then"] = f"what you asked for from cell {ranges[NEXT_RANGES]['start']} on"
    return shown


def _is_cut(cell: JsonObject) -> bool:
    truncated = cell["truncated"]
    return bool(truncated["source"] or any(truncated["outputs"]))


async def modify_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    modifications: list[Modification],
    exec: bool = True,  # noqa: A002 - the contract's name
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109 - the contract's name
    propose: Propose = False,
) -> Reply[dict[str, Any]]:
    """Give cells new content and run them. Only what differs changes: people typing there keep their text. expect refuses stale edits."""
    wanted = exec and not propose
    if wanted:
        require_run(call)
    wait_seconds(timeout)
    checked = NotebookPath(path)
    changes = [SourceChange(one.range.checked(), one.content, expect=one.expect) for one in modifications]

    def change(view: Notebook) -> list[str]:
        ids = view.replace(changes, author=author_of(call))
        indexes = view.resolve([one.range for one in changes])
        return ids if not wanted or view.have_own_ids(indexes) else view.own_ids(indexes, author=author_of(call))

    async with notebooks.edit(call, checked, propose=propose) as (document, proposal):
        ids, told = await document.change(change)
        where = places(document.view, ids)
    done: JsonObject = {
        "message": f"Modified {len(ids)} cells in {len(changes)} ranges",
        "modified_ranges": len(changes),
        "cells": where,
        **known(told),
        **proposed(proposal),
    }
    view = await run_if_asked(notebooks, call, checked, ids, wanted=wanted, wait=timeout)
    return await with_run(done, view, checked, max_cell_output_size)


async def insert_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    position: Annotated[int, Field(description="index of the first new cell; -1 appends")],
    cells: list[Insertion],
    exec: bool = True,  # noqa: A002
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109
    propose: Propose = False,
) -> Reply[dict[str, Any]]:
    """Insert cells and run the code ones. The result has their ids and outputs."""
    wanted = exec and not propose
    if wanted:
        require_run(call)
    wait_seconds(timeout)
    checked = NotebookPath(path)
    made = [NewCell(one.content, CellType(one.type)) for one in cells]
    async with notebooks.edit(call, checked, propose=propose) as (document, proposal):
        ids, told = await document.change(lambda view: view.insert(position, made, author=author_of(call)))
        where = places(document.view, ids)
    done: JsonObject = {"message": f"Inserted {len(ids)} cells", "cells": where, **known(told), **proposed(proposal)}
    view = await run_if_asked(notebooks, call, checked, ids, wanted=wanted, wait=timeout)
    return await with_run(done, view, checked, max_cell_output_size)


async def delete_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range],
    expect: dict[str, str] | None = None,
    propose: Propose = False,
) -> dict[str, Any]:
    """Delete cells; undo_nb_edit brings them back. All ranges mean the notebook as it is before. expect: {cell id: revision}."""
    checked = NotebookPath(path)
    named = [one.checked() for one in ranges]
    async with notebooks.edit(call, checked, propose=propose) as (document, proposal):
        gone, told = await document.change(lambda view: view.delete(named, expect=expect, author=author_of(call)))
        left = document.view.cell_count
    return {
        "message": f"Deleted {len(gone)} cells, {left} are left",
        "deleted_cells": len(gone),
        "ids": gone,
        **known(told),
        **proposed(proposal),
    }


async def execute_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range],
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109
) -> Reply[dict[str, Any]]:
    """Run cells in order in the notebook's kernel, the one people use. Stops at the first error; the rest is not_run."""
    wait_seconds(timeout)
    checked = NotebookPath(path)
    require_run(call)
    async with notebooks.open(call, checked) as document:
        view = document.view
        indexes = view.resolve([one.checked() for one in ranges])
        code = [index for index in indexes if view.head(index).cell_type == CellType.CODE]
        ids = await _own_ids(document, code, call)
    if not ids:
        raise InvalidArgument("none of these cells is a code cell", hint="get_nb_stat with outline shows which are")
    ran = await notebooks.run(call, checked, ids, timeout)
    done: JsonObject = {
        "message": f"{ran.state.value}: {len(ids)} code cells",
        "executed_ranges": len(ranges),
        "executed_cells": sum(cell.state.value not in {"not_run", "queued"} for cell in ran.cells),
    }
    return await with_run(done, ran, checked, max_cell_output_size)


async def _own_ids(document: OpenDocument[Notebook], indexes: Sequence[int], call: Call) -> list[str]:
    """Ids by which these cells are found while they run; two cells of one id get one each."""
    if document.view.have_own_ids(indexes):
        return [document.view.id_at(index) for index in indexes]
    # In one step with the resolving that came before: nothing was awaited since.
    ids, _ = await document.change(lambda view: view.own_ids(indexes, author=author_of(call)))
    return ids


async def restart_nb_kernel(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    clear_outputs: bool = False,
    exec: bool = True,  # noqa: A002
    kernel_name: str | None = None,
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109
) -> Reply[dict[str, Any]]:
    """Restart the notebook's kernel (variables are lost), then run all code cells in order unless exec is false."""
    wait_seconds(timeout)
    checked = NotebookPath(path)
    await notebooks.restart(call, checked, kernel_name)
    async with notebooks.open(call, checked) as document:
        if clear_outputs:
            await document.change(lambda view: view.clear_outputs(author=author_of(call)))
        heads = document.view.outline() if exec else []
        code = [index for index, head in enumerate(heads) if head.cell_type == CellType.CODE]
        ids = await _own_ids(document, code, call)
    done: JsonObject = {"message": "Restarted the kernel", "kernel_restarted": True, "outputs_cleared": clear_outputs}
    view = await run_if_asked(notebooks, call, checked, ids, wanted=exec, wait=timeout)
    return await with_run({**done, "cells_executed": view is not None}, view, checked, max_cell_output_size)


async def list_available_kernels(notebooks: LiveNotebooks, call: Call) -> dict[str, Any]:
    """Kernels that can be started, with their languages."""
    specs = await (await notebooks.connected(call)).found.jupyter.kernels.specs()
    return {
        "kernels": [
            {
                "name": spec.name,
                "display_name": spec.display_name,
                "language": spec.language,
                "path": next(iter(spec.resources.values()), "").rpartition("/")[0],
            }
            for spec in specs
        ]
    }


async def assign_nb_kernel(notebooks: LiveNotebooks, call: Call, path: Path, kernel_name: str) -> dict[str, Any]:
    """Give the notebook another kernel. The old one, if it has one, is shut down and its variables are lost."""
    checked = NotebookPath(path)
    await notebooks.assign(call, checked, kernel_name)
    message = f"{checked} now runs in {kernel_name}"
    return {"message": message, "kernel_assigned": True, "kernel_name": kernel_name}


def notebooks_toolset(notebooks: LiveNotebooks) -> Toolset:
    tools = (
        read(get_base_url),
        read(nb_path_from_url),
        read(list_nbs),
        read(get_nb_stat),
        read(read_nb_cells, view=NOTEBOOK_VIEW),
        write(modify_nb_cells, long=True),
        write(insert_nb_cells, long=True),
        write(delete_nb_cells, destructive=True),
        run(execute_nb_cells, view=NOTEBOOK_VIEW),
        run(restart_nb_kernel),
        read(list_available_kernels),
        run(assign_nb_kernel),
    )
    return Toolset(
        "notebooks", "live notebooks by path: read, change and run them together with people", tools, notebooks
    )
