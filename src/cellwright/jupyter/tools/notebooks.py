"""Toolset `notebooks`: notebooks by path, read, changed and run live, together with the people who have them open."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from cellwright.core.budget import estimate_tokens
from cellwright.core.errors import InvalidArgument
from cellwright.core.toolset import Image, Reply, Toolset, read, run, write
from cellwright.core.types import Call
from cellwright.jupyter.model import CellType, FileInfo, JsonObject, KernelInfo, NewCell
from cellwright.jupyter.notebook import SourceChange
from cellwright.jupyter.paths import DocPath, NotebookPath, folder_path, path_from_url
from cellwright.jupyter.ranges import CellRange
from cellwright.jupyter.service import LiveNotebooks, code_cells, require_run, wait_seconds
from cellwright.jupyter.shapes import MAX_PICTURES, shape_cell
from cellwright.jupyter.shapes import outline as outlined
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

PAGE_TOKENS = 5_000
PAGE_ENTRIES = 100
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
    listed = sorted(
        await documents.find(folder_path(path or connected.found.folder), ".ipynb"), key=lambda one: one.path
    )
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


async def get_nb_stat(notebooks: LiveNotebooks, call: Call, path: Path, outline: bool = False) -> dict[str, Any]:
    """Cell count, kernel and whether people are in it. With outline: a line per cell (index, id, kind, first line). Starts nothing."""
    checked = NotebookPath(path)
    connected = await notebooks.connected(call)
    info = await connected.found.jupyter.documents.stat(checked)
    session = await connected.found.jupyter.kernels.session_of(checked)
    async with connected.rooms.notebook(checked) as document:
        heads = document.view.outline() if outline else []
        stat: JsonObject = {
            "path": checked.text,
            "cell_count": document.view.cell_count,
            "last_modified": info.last_modified.isoformat(),
            "kernel": _kernel(session.kernel) if session and session.kernel else None,
            "live": document.live,
            "people": list(document.others),
        }
    if outline:
        stat["outline"] = outlined(heads)
    return stat


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
            cell = view.cell(CellRange(start=index))
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
        following = wanted[len(cells)]
        data["next"] = {"start": following, "end": wanted[-1] + 1, "left_out": len(wanted) - len(cells)}
    return Reply(data, content_of(data, pictures))


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
) -> Reply[dict[str, Any]]:
    """Give cells new content and run them. Only what differs changes: people typing there keep their text. expect refuses stale edits."""
    if exec:
        require_run(call)
    wait_seconds(timeout)
    checked = NotebookPath(path)
    changes = [SourceChange(one.range.checked(), one.content, expect=one.expect) for one in modifications]
    async with notebooks.open(call, checked) as document:
        ids, told = await document.change(lambda view: view.replace(changes, author=author_of(call)))
        where = places(document.view, ids)
    done: JsonObject = {
        "message": f"Modified {len(ids)} cells in {len(changes)} ranges",
        "modified_ranges": len(changes),
        "cells": where,
        **known(told),
    }
    view = await run_if_asked(notebooks, call, checked, ids, wanted=exec, wait=timeout)
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
) -> Reply[dict[str, Any]]:
    """Insert cells and run the code ones. The result has their ids and outputs."""
    if exec:
        require_run(call)
    wait_seconds(timeout)
    checked = NotebookPath(path)
    made = [NewCell(one.content, CellType(one.type)) for one in cells]
    async with notebooks.open(call, checked) as document:
        ids, told = await document.change(lambda view: view.insert(position, made, author=author_of(call)))
        where = places(document.view, ids)
    done: JsonObject = {"message": f"Inserted {len(ids)} cells", "cells": where, **known(told)}
    view = await run_if_asked(notebooks, call, checked, ids, wanted=exec, wait=timeout)
    return await with_run(done, view, checked, max_cell_output_size)


async def delete_nb_cells(
    notebooks: LiveNotebooks, call: Call, path: Path, ranges: list[Range], expect: dict[str, str] | None = None
) -> dict[str, Any]:
    """Delete cells; undo_nb_edit brings them back. All ranges mean the notebook as it is before. expect: {cell id: revision}."""
    checked = NotebookPath(path)
    named = [one.checked() for one in ranges]
    async with notebooks.open(call, checked) as document:
        gone, told = await document.change(lambda view: view.delete(named, expect=expect, author=author_of(call)))
        left = document.view.cell_count
    return {
        "message": f"Deleted {len(gone)} cells, {left} are left",
        "deleted_cells": len(gone),
        "ids": gone,
        **known(told),
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
    async with notebooks.open(call, checked) as document:
        indexes = document.view.resolve([one.checked() for one in ranges])
        ids = code_cells(document.view, [document.view.ids[index] for index in indexes])
    if not ids:
        raise InvalidArgument("none of these cells is a code cell", hint="get_nb_stat with outline shows which are")
    view = await notebooks.run(call, checked, ids, timeout)
    done: JsonObject = {
        "message": f"{view.state.value}: {len(ids)} code cells",
        "executed_ranges": len(ranges),
        "executed_cells": sum(cell.state.value not in {"not_run", "queued"} for cell in view.cells),
    }
    return await with_run(done, view, checked, max_cell_output_size)


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
        ids = list(document.view.ids)
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
        read(read_nb_cells),
        write(modify_nb_cells, long=True),
        write(insert_nb_cells, long=True),
        write(delete_nb_cells, destructive=True),
        run(execute_nb_cells),
        run(restart_nb_kernel),
        read(list_available_kernels),
        run(assign_nb_kernel),
    )
    return Toolset(
        "notebooks", "live notebooks by path: read, change and run them together with people", tools, notebooks
    )
