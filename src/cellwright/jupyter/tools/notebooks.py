"""Toolset `notebooks`: notebooks by path, read, changed and run live, together with the people who have them open."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from cellwright.core.errors import Forbidden, InvalidArgument
from cellwright.core.resources import NOTEBOOK_VIEW
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.toolset import Image, Reply, Toolset, read, run, write
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import DocPath, NotebookPath, folder_path, path_from_url
from cellwright.jupyter.inside.permitted import require_run
from cellwright.jupyter.model import CellType, FileInfo, FileKind, FoundFile, JsonObject, KernelSpec
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.notebooks.shapes import MAX_PICTURES, filled, shape_cell
from cellwright.jupyter.notebooks.whole import read_cell
from cellwright.jupyter.port import Documents
from cellwright.jupyter.service import Connected, LiveNotebooks, wait_seconds
from cellwright.jupyter.tools.common import (
    DEFAULT_OUTPUT_SIZE,
    DEFAULT_WAIT,
    CellKind,
    Insertion,
    OutputSize,
    Path,
    Range,
    Wait,
    author_of,
    compact,
    content_of,
    how_old,
    known,
    not_all,
    off_the_loop,
    places,
    run_if_asked,
    weight,
)
from cellwright.jupyter.tools.creating import create_nb
from cellwright.jupyter.tools.proposing import Propose, proposed
from cellwright.jupyter.tools.running import execute_nb_cells, restart_nb_kernel, with_rest
from cellwright.notebook.addressing import runs_of

PAGE_TOKENS = 5_000
PAGE_ENTRIES = 100
NEXT_RANGES = 50
MAX_MAX_CELL_DATA = 1_000_000


@dataclass(frozen=True)
class Modification:
    """expect: the revision they must have. metadata: entries to set, null removes one."""

    range: Range
    content: str | None = None
    expect: str | None = None
    type: CellKind | None = None
    metadata: dict[str, Any] | None = None

    def change(self) -> SourceChange:
        if self.content is None and self.type is None and self.metadata is None:
            raise InvalidArgument("a modification says nothing", hint="Give content, type or metadata")
        kind = None if self.type is None else CellType(self.type)
        return SourceChange(self.range.checked(), self.content, kind, self.expect, self.metadata)


async def get_base_url(notebooks: LiveNotebooks, call: Call) -> dict[str, str]:
    """The address of the Jupyter server."""
    return {"base_url": (await notebooks.connected(call)).found.jupyter.documents.url}


async def nb_path_from_url(notebooks: LiveNotebooks, call: Call, url: str) -> dict[str, str]:
    """The notebook path in a JupyterLab address that a person copied from the browser."""
    base_url = (await notebooks.connected(call)).found.jupyter.documents.url
    return {"original_url": url, "base_url": base_url, "notebook_path": path_from_url(url, base_url).text}


async def list_nbs(
    notebooks: LiveNotebooks,
    call: Call,
    path: str = "",
    offset: Annotated[int, Field(ge=0)] = 0,
    brief: Annotated[bool, Field(description="only paths, sizes and times")] = False,
    refresh: Annotated[bool, Field(description="ask the server anew: age_seconds tells how old the list is")] = False,
) -> dict[str, Any]:
    """Notebooks below a folder, recursively, by paths from the server's root. A long list has pages: go on with next_offset."""
    connected = await notebooks.connected(call)
    documents = connected.found.jupyter.documents
    listing = await documents.listing(folder_path(path or connected.found.folder), ".ipynb", refresh=refresh)
    listed = listing.files
    pages = await documents.pages()
    page: list[JsonObject] = []
    left = PAGE_TOKENS
    for info in await documents.describe(listed[offset : offset + PAGE_ENTRIES]):
        entry = _brief(info) if brief else _listed(info, pages)
        left -= estimate_tokens(compact(entry))
        if left < 0 and page:
            break
        page.append(entry)
    following = offset + len(page)
    answer: dict[str, Any] = {"notebooks": page, "total": len(listed), **how_old(listing)}
    if not listed.complete:
        # Then nobody knows how many there are.
        answer |= {"total": None, "note": listing.cut or not_all(path)}
    answer["next_offset"] = following if following < len(listed) else None
    return filled(answer) | {"url_of": _url_of(pages)} if brief else answer


def _brief(info: FileInfo) -> JsonObject:
    return {"path": info.path, "size": info.size, "last_modified": info.last_modified.isoformat(timespec="seconds")}


def _url_of(pages: str | None) -> str:
    return f"{pages}/PATH" if pages else "this server shows no pages"


def _listed(info: FileInfo, pages: str | None) -> JsonObject:
    return {
        "path": info.path,
        "name": info.name,
        "last_modified": info.last_modified.isoformat(),
        "created": info.created.isoformat(),
        "size": info.size,
        "writable": info.writable,
        "url": f"{pages}/{DocPath(info.path).quoted}" if pages else None,
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
    info, kernel = await asyncio.gather(_info(jupyter.documents, checked), _kernel_of(connected, checked))
    async with connected.rooms.notebook(checked) as document:
        page = document.view.outline_page(offset) if outline else None
        stat: JsonObject = {
            "path": checked.text,
            "cell_count": document.view.cell_count,
            "last_modified": info.last_modified.isoformat(),
            **kernel,
            "live": document.live,
            "people": list(document.others),
        }
    if page is not None:
        stat |= {"outline": list(page.lines), "next_offset": page.next_offset}
    return stat


async def _info(documents: Documents, path: NotebookPath) -> FileInfo:
    """From the disk where that is possible, which is a tenth of the server's work for an answer."""
    described = await documents.describe([FoundFile(path.text, FileKind.NOTEBOOK)])
    return described[0] if described else await documents.stat(path)


async def _kernel_of(connected: Connected, path: NotebookPath) -> JsonObject:
    """The notebook's kernel, None if it has none; who may not know that is told so."""
    try:
        session = await connected.found.jupyter.kernels.session_of(path)
    except Forbidden as denied:
        return {"kernel": None, "kernel_note": f"whether it has one is not shown: {denied.message}"}
    kernel = session.kernel if session else None
    if kernel is None:
        return {"kernel": None}
    return {"kernel": {"name": kernel.name, "id": kernel.id, "state": connected.kernels.state_of(kernel)}}


async def read_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range] | None = None,
    max_cell_data: Annotated[int, Field(alias="maxCellData", ge=1, le=MAX_MAX_CELL_DATA)] = 2_048,
    outputs: Annotated[
        Literal["full", "summary", "none"], Field(description="summary and none leave out what is empty")
    ] = "full",
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
            cell = await read_cell(view, index)
            size = len(cell.source) + weight(cell.outputs)
            room = MAX_PICTURES - len(pictures) if outputs == "full" else 0
            fitted = await notebooks.pictures.in_outputs(cell.outputs, room, call.principal.id)
            made, shown = await off_the_loop(size, shape_cell, cell, checked, max_cell_data, outputs, fitted, room)
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
    }
    if outputs == "full":
        data["max_cell_data"] = max_cell_data
    if outputs == "full" or not live:
        data["live"] = live
    if len(cells) < len(wanted):
        data["next"] = _following(wanted[len(cells) :])
    return Reply(data, content_of(pictures))


def _following(left: Sequence[int]) -> JsonObject:
    """How to ask for the rest, and for nothing else."""
    ranges = [{"start": start, "end": end} for start, end in runs_of(left)]
    shown: JsonObject = {"ranges": ranges[:NEXT_RANGES], "left_out": len(left)}
    if len(ranges) > NEXT_RANGES:
        shown["then"] = f"what you asked for from cell {ranges[NEXT_RANGES]['start']} on"
    return shown


def _is_cut(cell: JsonObject) -> bool:
    truncated = cell.get("truncated", {})
    return bool(truncated.get("source") or any(truncated.get("outputs", ())))


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
    """Give cells new content and run them; or a type, or metadata (tags). Only what differs changes: what people type there stays."""
    wanted = exec and not propose and any(one.content is not None for one in modifications)
    if wanted:
        require_run(call)
    wait_seconds(timeout)
    checked = NotebookPath(path)
    changes = [one.change() for one in modifications]

    def change(view: LiveNotebook) -> tuple[list[str], list[str], list[str]]:
        rewritten = view.resolve([one.range for one in changes if one.source is not None])
        lost = _lost_by_type(view, changes)
        ids = view.replace(changes, author=author_of(call))
        own = not wanted or view.have_own_ids(rewritten)
        runnable = (
            [view.id_at(index) for index in rewritten] if own else view.own_ids(rewritten, author=author_of(call))
        )
        return ids, runnable, lost

    async with notebooks.edit(call, checked, propose=propose) as (document, proposal):
        (ids, runnable, lost), told = await document.change(change)
        where = places(document.view, ids)
    done: JsonObject = {
        "message": f"Modified {counted(len(ids), 'cell')} in {counted(len(changes), 'range')}",
        "modified_ranges": len(changes),
        "cells": where,
        **({"removed": lost} if lost else {}),
        **known(told),
        **proposed(proposal),
    }
    view = await run_if_asked(notebooks, call, checked, runnable, wanted=wanted, wait=timeout)
    return await with_rest(notebooks, call, checked, done, view, max_cell_output_size)


def _lost_by_type(view: LiveNotebook, changes: Sequence[SourceChange]) -> list[str]:
    """What cells lose that are about to get another type: only code has outputs, and only other cells have attachments."""
    lost: list[str] = []
    for index in view.resolve([one.range for one in changes if one.cell_type is not None]):
        cell = view.cell_at(index)
        wanted = next(one.cell_type for one in changes if index in view.resolve([one.range]))
        if cell.head.cell_type == wanted:
            continue
        gone = (
            ("outputs", len(cell.outputs)),
            ("attachments", len(cell.attachments) if wanted is CellType.CODE else 0),
        )
        lost += [f"{count} {what} of cell {cell.id}" for what, count in gone if count]
    return lost


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
    made = [one.cell() for one in cells]
    async with notebooks.edit(call, checked, propose=propose) as (document, proposal):
        ids, told = await document.change(lambda view: view.insert(position, made, author=author_of(call)))
        where = places(document.view, ids)
    done: JsonObject = {
        "message": f"Inserted {counted(len(ids), 'cell')}",
        "cells": where,
        **known(told),
        **proposed(proposal),
    }
    view = await run_if_asked(notebooks, call, checked, ids, wanted=wanted, wait=timeout)
    return await with_rest(notebooks, call, checked, done, view, max_cell_output_size)


async def delete_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range],
    expect: dict[str, str] | None = None,
    propose: Propose = False,
) -> dict[str, Any]:
    """Delete cells; undo_nb_edit brings them back. Ranges mean the notebook as it is before. expect: {cell id: revision}."""
    checked = NotebookPath(path)
    named = [one.checked() for one in ranges]
    async with notebooks.edit(call, checked, propose=propose) as (document, proposal):
        gone, told = await document.change(lambda view: view.delete(named, expect=expect, author=author_of(call)))
        left = document.view.cell_count
    return {
        "message": f"Deleted {counted(len(gone), 'cell')}; {left} left",
        "deleted_cells": len(gone),
        "ids": gone,
        **known(told),
        **proposed(proposal),
    }


async def list_available_kernels(notebooks: LiveNotebooks, call: Call) -> dict[str, Any]:
    """Kernels that can be started: language, interpreter and where it comes from. A notebook that names none runs in the default."""
    specs = await (await notebooks.connected(call)).found.jupyter.kernels.specs()
    listed: JsonObject = {"kernels": [_spec(spec) for spec in specs]}
    if unusable := await notebooks.unusable_environments(call):
        listed["unusable"] = [clean(reason).text for reason in unusable]
    return listed


def _spec(spec: KernelSpec) -> JsonObject:
    shown: JsonObject = {
        "name": spec.name,
        "display_name": clean(spec.display_name).text,
        "language": clean(spec.language).text,
        "path": clean(next(iter(spec.resources.values()), "").rpartition("/")[0]).text,
        "default": spec.is_default,
        "from": clean(spec.origin).text or "installed for Jupyter",
    }
    if spec.interpreter:
        shown["interpreter"] = clean(spec.interpreter).text
    if spec.version:
        shown["version"] = clean(spec.version).text
    return shown


async def assign_nb_kernel(notebooks: LiveNotebooks, call: Call, path: Path, kernel_name: str) -> dict[str, Any]:
    """Give the notebook another kernel. The old one is shut down, its variables are lost."""
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
        write(create_nb),
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
