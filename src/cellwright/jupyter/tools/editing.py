"""Toolset `editing`: small, exact changes inside a notebook, taking them back, and finding things in many."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from regex import IGNORECASE, Pattern, escape
from regex import compile as compile_pattern
from regex import error as PatternError  # noqa: N812 - a class, whatever its name

from cellwright.core.clean import clean
from cellwright.core.errors import CellwrightError, DeadlineExceeded, InvalidArgument
from cellwright.core.toolset import Reply, Toolset, read, write
from cellwright.core.types import Call
from cellwright.jupyter.model import (
    DataOutput,
    ErrorOutput,
    FileKind,
    JsonObject,
    Output,
    StreamOutput,
    joined,
    output_from_json,
)
from cellwright.jupyter.notebook import Notebook, difference
from cellwright.jupyter.paths import NotebookPath, folder_path
from cellwright.jupyter.ranges import CellRange
from cellwright.jupyter.service import LiveNotebooks, require_run, wait_seconds
from cellwright.jupyter.shapes import cell_uri, cut_text
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
from cellwright.jupyter.undo import undo

DIFF_LINES = 40
SNIPPET_CHARACTERS = 160
MAX_PATTERN = 500
MATCH_SECONDS = 1.0
MAX_NOTEBOOKS_SEARCHED = 2_000

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
) -> Reply[dict[str, Any]]:
    """Replace literal text in one cell. It must occur exactly once, unless replace_all. The result is a diff."""
    if exec:
        require_run(call)
    wait_seconds(timeout)
    checked = NotebookPath(path)

    def change(view: Notebook) -> tuple[str, str, str, int]:
        index = view.resolve([one_cell(cell)])[0]
        before = view.head(index)
        count = view.edit(one_cell(cell), old, new, every=replace_all, expect=expect, author=author_of(call))
        return before.id, before.source, view.head(index).source, count

    async with notebooks.open(call, checked) as document:
        (cell_id, before, after, count), told = await document.change(change)
        where = places(document.view, [cell_id])
    done: JsonObject = {
        "message": f"Replaced {count} occurrences",
        "replaced": count,
        "diff": clean(short_diff(before, after)).text,
        "cells": where,
        **known(told),
    }
    view = await run_if_asked(notebooks, call, checked, [cell_id], wanted=exec, wait=timeout)
    return await with_run(done, view, checked, max_cell_output_size)


async def move_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range],
    position: Annotated[int, Field(description="index before which they go, as it is now; -1 is the end")],
) -> dict[str, Any]:
    """Move cells, with their outputs, keeping their order and ids."""
    checked = NotebookPath(path)
    named = [one.checked() for one in ranges]
    async with notebooks.open(call, checked) as document:
        ids, told = await document.change(lambda view: view.move(named, position, author=author_of(call)))
        where = places(document.view, ids)
    return {"message": f"Moved {len(ids)} cells", "cells": where, **known(told)}


async def undo_nb_edit(notebooks: LiveNotebooks, call: Call, path: Path) -> dict[str, Any]:
    """Take back your own last edit of this notebook, and nobody else's. Refused if others changed the same text since."""
    checked = NotebookPath(path)
    async with notebooks.open(call, checked) as document:
        group, told = await document.change(lambda view: undo(view, author_of(call)))
        count = document.view.cell_count
    return {"message": f"Took back: {group.what}", "undone": group.what, "cell_count": count, **known(told)}


@dataclass(frozen=True)
class Hit:
    path: str
    cell_id: str
    index: int
    where: str
    line: int
    snippet: str
    uri: str


async def search_nbs(
    notebooks: LiveNotebooks,
    call: Call,
    query: str,
    path: str = "",
    regex: bool = False,
    where: Literal["source", "outputs", "both"] = "both",
    case_sensitive: bool = False,
    limit: Annotated[int, Field(ge=1, le=200)] = 30,
) -> dict[str, Any]:
    """Find text, or a regular expression, in the cells and text outputs of all notebooks below a folder (or in one)."""
    pattern = _pattern(query, regex=regex, case_sensitive=case_sensitive)
    connected = await notebooks.connected(call)
    documents = connected.found.jupyter.documents
    if path.endswith(".ipynb"):
        files = [NotebookPath(path).text]
    else:
        found = await documents.find(folder_path(path or connected.found.folder), ".ipynb")
        files = sorted(one.path for one in found)
    hits: list[JsonObject] = []
    unread: list[str] = []
    open_now = {room.path for room in connected.rooms.open_rooms() if room.connected}
    for number, file in enumerate(files[:MAX_NOTEBOOKS_SEARCHED]):
        await call.progress(number, len(files), file)
        checked = NotebookPath(file)
        try:
            if file in open_now:
                async with connected.rooms.notebook(checked) as document:
                    cells = [(cell.head.id, cell.source, cell.outputs) for cell in document.view.cells()]
            else:
                # Reading the file is enough for what nobody has open, and opens no room.
                cells = _cells_of((await documents.read(checked, FileKind.NOTEBOOK)).content)
        except CellwrightError:
            unread.append(file)
            continue
        # In a thread, by an engine that lets others run meanwhile and gives up in time: the pattern may be anything.
        hits += await asyncio.to_thread(_hits, checked, cells, pattern, where, limit - len(hits))
        if len(hits) >= limit:
            break
    return {
        "hits": hits,
        "searched": min(len(files), MAX_NOTEBOOKS_SEARCHED),
        "unread": unread[:20],
        "more": len(hits) >= limit,
    }


def _pattern(query: str, *, regex: bool, case_sensitive: bool) -> Pattern[str]:
    if not query or len(query) > MAX_PATTERN:
        raise InvalidArgument(f"query must have 1 to {MAX_PATTERN} characters")
    try:
        return compile_pattern(query if regex else escape(query), 0 if case_sensitive else IGNORECASE)
    except PatternError as error:
        raise InvalidArgument(
            f"query is not a regular expression: {error}", hint="regex: false searches it literally"
        ) from None


CellText = tuple[str, str, tuple[Output, ...]]


def _cells_of(content: JsonObject) -> list[CellText]:
    return [
        (
            str(cell.get("id", "")),
            joined(cell.get("source")),
            tuple(output_from_json(raw) for raw in cell.get("outputs") or ()),
        )
        for cell in content.get("cells") or ()
    ]


def _hits(path: NotebookPath, cells: list[CellText], pattern: Pattern[str], where: str, most: int) -> list[JsonObject]:
    found: list[JsonObject] = []
    for index, (cell_id, source, outputs) in enumerate(cells):
        texts: list[tuple[str, str]] = [("source", source)] if where != "outputs" else []
        if where != "source":
            texts += [("output", text) for output in outputs for text in _texts(output)]
        for kind, text in texts:
            for number, line in _matching_lines(text, pattern):
                if len(found) >= most:
                    return found
                snippet = cut_text(clean(line.strip()).text, SNIPPET_CHARACTERS)[0]
                found.append(
                    {
                        "path": path.text,
                        "cell_id": cell_id,
                        "index": index,
                        "where": kind,
                        "line": number,
                        "snippet": snippet,
                        "uri": cell_uri(path, cell_id),
                    }
                )
    return found


def _matching_lines(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, str]]:
    try:
        for number, line in enumerate(text.split("\n"), 1):
            if pattern.search(line, timeout=MATCH_SECONDS, concurrent=True):
                yield number, line
    except TimeoutError:
        raise DeadlineExceeded(
            f"the expression took more than {MATCH_SECONDS:g} s on one line",
            hint="write it without nested repetition, or search literally with regex: false",
        ) from None


def _texts(output: Output) -> list[str]:
    match output:
        case StreamOutput():
            return [output.text]
        case ErrorOutput():
            return [f"{output.name}: {output.value}", *output.traceback]
        case DataOutput():
            plain = output.data.get("text/plain")
            return [plain] if isinstance(plain, str) else []
        case _:
            return []


def editing_toolset(notebooks: LiveNotebooks) -> Toolset:
    tools = (
        write(edit_nb_cell, long=True),
        write(move_nb_cells),
        write(undo_nb_edit),
        read(search_nbs, long=True),
    )
    return Toolset("editing", "small exact changes inside a notebook, undo, and search in many", tools, notebooks)
