"""Memory: what is left is let go of, what is kept has a bound in bytes, and what a server sends is measured first."""

import asyncio
import gc
import json
import time
import tracemalloc
import weakref
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import regex
from pycrdt import Array, Doc, create_update_message

from cellwright.core.errors import InvalidArgument, LimitReached
from cellwright.core.types import ALL_SCOPES, Call, Principal, Secret
from cellwright.core.weight import weight
from cellwright.jupyter.documents.updates import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_ITEMS,
    MAX_PARTS,
    MAX_TEXT_BYTES,
    PARTS_AT_A_TIME,
    IncomingUpdate,
    RefusedUpdate,
)
from cellwright.jupyter.edits import history as histories
from cellwright.jupyter.edits.history import Histories, Rewritten
from cellwright.jupyter.errors import UnknownOutcome
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.kernels.channel import Message
from cellwright.jupyter.kernels.executions import CURSOR_BYTES, KEPT_BYTES, CellJob, Execution, Executions
from cellwright.jupyter.kernels.outputs import Displays, OutputWriter
from cellwright.jupyter.model import NewCell, RoomKind
from cellwright.jupyter.notebooks import reading
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.remote.rest import Rest, RestAnswer
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.connect import to_named
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.search import Search, _hits
from cellwright.notebook.addressing import at
from jupyter_support import JupyterServer, eventually, write_notebook
from requirements import requirement

pytestmark = pytest.mark.anyio

CALL = Call(Principal("test", ALL_SCOPES))


@pytest.fixture
async def notebooks(server_process: JupyterServer) -> AsyncGenerator[LiveNotebooks]:
    address = JupyterAddress.parse(server_process.url, token=Secret(server_process.token))
    service = LiveNotebooks(to_named(address), lambda: datetime.now(UTC))
    try:
        yield service
    finally:
        await service.close()


def resident() -> int:
    """The memory that this process has now, in bytes."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


async def leave(notebooks: LiveNotebooks, path: NotebookPath) -> None:
    connected = await notebooks.connected(CALL)
    assert await connected.rooms.end(path, RoomKind.NOTEBOOK)


def stream(text: str) -> Message:
    return Message("iopub", {"msg_type": "stream"}, {"name": "stdout", "text": text})


def documents_alive() -> int:
    return sum(type(thing) is Doc for thing in gc.get_objects())


@requirement("memory:left")
@pytest.mark.timeout(240)
@pytest.mark.long(25)
async def test_a_notebook_that_is_left_again_and_again_takes_no_more_memory(
    notebooks: LiveNotebooks, server_process: JupyterServer
) -> None:
    path = NotebookPath("large-and-left.ipynb")
    write_notebook(server_process.root, path.text, ["x = 1\n" * 200] * 900)
    size = (server_process.root / path.text).stat().st_size
    assert size > 1_000_000
    gc.collect()
    documents = documents_alive()
    baseline = 0
    for number in range(28):
        async with notebooks.open(CALL, path) as document:
            assert document.view.cell_count == 900
            document.view.outline()
            left = weakref.ref(document.view.doc)
            del document
        await leave(notebooks, path)
        gc.collect()
        assert left() is None
        if number == 14:  # by then the allocator has what it needs for one such notebook
            baseline = resident()
    # What an earlier test left may go meanwhile.
    assert documents_alive() <= documents
    # The allocator takes a step of a few megabytes now and then; a notebook that stayed each time would be 13 of them.
    assert resident() - baseline < 4 * size


@requirement("memory:left")
async def test_a_left_document_goes_at_once_not_when_rings_are_looked_for(
    notebooks: LiveNotebooks, server_process: JupyterServer
) -> None:
    path = NotebookPath("goes-at-once.ipynb")
    write_notebook(server_process.root, path.text, ["1"])
    gc.collect()
    gc.disable()
    try:
        async with notebooks.open(CALL, path) as document:
            await document.change(lambda view: view.insert(-1, [NewCell("2")]))
            left = weakref.ref(document.view.doc)
            del document
        await leave(notebooks, path)
        assert left() is None
    finally:
        gc.enable()


@requirement("memory:left")
async def test_the_result_of_a_run_does_not_keep_its_notebook(
    notebooks: LiveNotebooks, server_process: JupyterServer
) -> None:
    path = NotebookPath("run-and-left.ipynb")
    write_notebook(
        server_process.root, path.text, ["from IPython.display import display\nh = display(1, display_id=True)"]
    )
    async with notebooks.open(CALL, path) as document:
        cell_id = document.view.id_at(0)
        left = weakref.ref(document.view.doc)
        del document
    view = await notebooks.run(CALL, path, [cell_id], 60)
    assert view.state.ended
    await leave(notebooks, path)
    gc.collect()
    assert left() is None
    assert notebooks.executions.get("test", view.id).ended
    # It is found again where somebody opens the notebook: late output goes there.
    async with notebooks.open(CALL, path) as document:
        run = notebooks.executions.get("test", view.id).cells[0]
        assert run.job.sink is not None
        run.job.sink.write(stream("late"))
        run.job.sink.end(run.execution_count)
        assert "late" in json.dumps(document.view.json_at(0)["outputs"])
    await notebooks.shut_down(CALL, path)


@requirement("memory:left")
async def test_a_kernel_that_was_shut_down_goes_at_once_though_the_results_of_its_runs_are_kept(
    notebooks: LiveNotebooks, server_process: JupyterServer
) -> None:
    path = NotebookPath("run-and-shut-down.ipynb")
    write_notebook(server_process.root, path.text, ["x = 1"])
    async with notebooks.open(CALL, path) as document:
        cell_id = document.view.id_at(0)
        del document
    view = await notebooks.run(CALL, path, [cell_id], 60)
    assert view.state.ended
    queue = await notebooks.queue(CALL, await notebooks.session(CALL, path))
    ran = weakref.ref(queue.kernel.ran)
    del queue
    gc.collect()
    gc.disable()
    try:
        await notebooks.shut_down(CALL, path)
        await eventually(lambda: ran() is None, "what ran in the kernel let go of")
    finally:
        gc.enable()
    assert notebooks.executions.get("test", view.id).view().doubt == ""


@requirement("memory:kept")
def test_sources_that_were_shown_are_remembered_up_to_a_bound_in_bytes() -> None:
    notebook = LiveNotebook(Doc())
    notebook.insert(0, [NewCell("first")])
    first = notebook.head(0).revision
    for number in range(40):
        notebook.replace([SourceChange(at(0), f"{number}" + "x" * 1_000_000)])
        notebook.head(0)
    assert weight(dict(notebook._shown_sources)) < reading.REMEMBERED_BYTES * 1.01
    assert first not in notebook._shown_sources
    assert notebook.head(0).revision in notebook._shown_sources


@requirement("memory:kept")
def test_edits_are_remembered_up_to_a_bound_in_bytes_for_each_notebook_and_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(histories, "MAX_BYTES", 1_000_000)
    monkeypatch.setattr(histories, "ALL_BYTES", 3_000_000)
    kept = Histories()
    for name in "abcde":
        for number in range(30):
            kept.of(name).add("ada", "edit a cell", [Rewritten("c", f"{number}" + "x" * 50_000, "")])
    every = [kept.of(name) for name in "abcde"]
    assert all(history.weight <= 1_000_000 for history in every)
    assert sum(history.weight for history in every) <= 3_000_000
    assert every[0].last_of("ada") is None
    assert every[4].last_of("ada") is not None


def execution_with(text: str, rounds: int = 1) -> Execution:
    displays = Displays()
    now = datetime.now(UTC)
    execution = Execution("ada", "k", [CellJob(lambda: "", "c")], displays, created=now)
    for _ in range(rounds):
        execution.cells[0].memory.write(stream(text))
    execution.finish()
    return execution


@requirement("memory:kept")
async def test_results_of_runs_are_kept_up_to_a_bound_in_bytes() -> None:
    executions = Executions(lambda: datetime.now(UTC), keep=1_000, keep_for=timedelta(days=1))
    # A wide character makes all of its text four bytes wide.
    made = [execution_with("\N{GRINNING FACE}" + "x" * 1_000_000) for _ in range(40)]
    for execution in made:
        executions.add(execution)
    kept = executions.of("ada")
    assert made[0].weight > 4_000_000
    assert sum(execution.weight for execution in kept[:-1]) <= KEPT_BYTES
    assert len(kept) > 5
    assert kept[-1] is made[-1]


@requirement("memory:kept")
async def test_cursors_of_a_run_are_kept_up_to_a_bound_in_bytes() -> None:
    execution = execution_with("x" * 600_000)
    names = [execution.view().cursor() for _ in range(6)]
    assert weight(execution._cursors) <= 2 * CURSOR_BYTES
    assert execution.view(names[-1]).cells == ()
    with pytest.raises(InvalidArgument, match="too old"):
        execution.view(names[0])


@requirement("memory:kept")
def test_displays_do_not_keep_the_outputs_that_showed_them() -> None:
    displays = Displays()
    writer = OutputWriter(lambda: None, displays)
    displays.register("d", weakref.ref(writer))
    for _ in range(1_000):
        displays.register("d", weakref.ref(writer))
    assert len(displays._owners["d"]) == 1
    alive = weakref.ref(writer)
    del writer
    assert alive() is None


def number(value: int) -> bytes:
    """A number as updates have it."""
    encoded = b""
    while value > 127:
        encoded += bytes([128 | (value & 127)])
        value >>= 7
    return encoded + bytes([value])


CELLS = number(1) + number(5) + b"cells"


def lists_in_lists(depth: int) -> bytes:
    """An update that puts a value of so many levels into the cells."""
    value = b"\x75\x01" * depth + b"\x7e"
    return number(1) + number(1) + number(7) + number(0) + b"\x08" + CELLS + number(1) + value + number(0)


def arrays_in_arrays(depth: int) -> bytes:
    """The same with shared arrays."""
    items = b"".join(
        b"\x07" + (CELLS if clock == 0 else number(0) + number(7) + number(clock - 1)) + number(0)
        for clock in range(depth)
    )
    return number(1) + number(depth) + number(7) + number(0) + items + number(0)


def many_values(count: int) -> bytes:
    """An update with so many values in the cells."""
    return number(1) + number(1) + number(7) + number(0) + b"\x08" + CELLS + number(count) + b"\x7e" * count + number(0)


def many_items(count: int) -> bytes:
    """An update with so many items, each of them one value in the cells."""
    item = b"\x08" + CELLS + number(1) + b"\x7e"
    return number(1) + number(count) + number(7) + number(0) + item * count + number(0)


def many_entries(count: int) -> bytes:
    """An update with a shared object in the cells that has so many entries."""
    items = [b"\x07" + CELLS + number(1)]
    for place in range(count):
        key = f"k{place}".encode()
        items.append(b"\x28" + number(0) + number(7) + number(0) + number(len(key)) + key + number(1) + b"\x7e")
    return number(1) + number(len(items)) + number(7) + number(0) + b"".join(items) + number(0)


def one_text(text: str) -> bytes:
    """An update that puts this text into the cells."""
    data = text.encode()
    value = b"\x77" + number(len(data)) + data
    return number(1) + number(1) + number(7) + number(0) + b"\x08" + CELLS + number(1) + value + number(0)


@requirement("memory:updates")
@pytest.mark.parametrize(
    ("update", "why"),
    [
        (lists_in_lists(200_000), "levels of nesting"),
        (arrays_in_arrays(60_000), "levels of nesting"),
        (many_values(MAX_PARTS + 1), "parts"),
        (many_items(MAX_ITEMS + 1), "items"),
        (many_entries(MAX_ENTRIES + 1), "entries in one object"),
        (one_text("😀" + "x" * (MAX_TEXT_BYTES // 4)), "texts take more than 40 MiB"),
        (b"\xff" * 20_000, "cannot be read"),
    ],
    ids=["lists", "arrays", "many", "items", "entries", "wide", "broken"],
)
def test_an_update_that_would_end_or_fill_the_process_is_refused_unapplied(update: bytes, why: str) -> None:
    with pytest.raises(RefusedUpdate, match=why):
        list(IncomingUpdate(update).check())


@requirement("memory:updates")
def test_a_chain_through_all_items_is_followed_with_turns_for_others() -> None:
    count = 40_000
    # A list of shared arrays: each stands beside the one before it.
    items = [
        b"\x07" + CELLS + number(0),
        *(b"\x87" + number(7) + number(place) + number(0) for place in range(count - 1)),
    ]
    update = number(1) + number(count) + number(7) + number(0) + b"".join(items) + number(0)
    turns = sum(1 for _ in IncomingUpdate(update).check())
    assert turns >= 2 * (count // PARTS_AT_A_TIME) - 1


@requirement("memory:updates")
def test_an_object_may_have_as_many_entries_as_can_be_read_in_a_moment() -> None:
    update = many_entries(MAX_ENTRIES)
    list(IncomingUpdate(update).check())
    document: Doc[Any] = Doc()
    document.apply_update(update)
    assert len(document.get("cells", type=Array)[0]) == MAX_ENTRIES


@requirement("memory:updates")
def test_what_people_really_have_in_notebooks_is_taken() -> None:
    nested: Any = "leaf"
    for _ in range(MAX_DEPTH // 3):
        nested = {"é": [nested, 1.5, -7, 2**40, True, None, "😀"]}
    document: Doc[Any] = Doc()
    notebook = LiveNotebook(document)
    output = {"output_type": "display_data", "data": {"application/json": nested}, "metadata": {}}
    notebook.fill(
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {"deep": nested},
            "cells": [
                {"cell_type": "code", "id": f"c{index}", "source": "é😀x\n" * 20, "metadata": {}, "outputs": [output]}
                for index in range(200)
            ],
        }
    )
    for index in range(100):
        notebook.replace([SourceChange(at(index), f"changed 😀 {index}")])
    notebook.delete([at(3)])
    update = document.get_update()
    slices = sum(1 for _ in IncomingUpdate(update).check())
    assert slices > 1
    again: Doc[Any] = Doc()
    again.apply_update(update)
    assert LiveNotebook(again).cell_count == 199


@requirement("memory:updates")
async def test_a_server_that_sends_such_an_update_loses_that_room_and_nothing_else(
    notebooks: LiveNotebooks, server_process: JupyterServer
) -> None:
    path = NotebookPath("hostile.ipynb")
    write_notebook(server_process.root, path.text, ["1"])
    async with notebooks.open(CALL, path) as document:
        room = document.room
        assert room is not None
        channel = room._access.channel
        receive, lost = channel.receive, asyncio.Event()
        room.when_lost(lost.set)
        messages = [create_update_message(lists_in_lists(200_000))]

        async def poisoned() -> bytes:
            return messages.pop() if messages else await receive()

        channel.receive = poisoned  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(UnknownOutcome):
            await document.change(lambda view: view.insert(-1, [NewCell("2")]))
        await asyncio.wait_for(lost.wait(), 30)
        with pytest.raises(RefusedUpdate, match="levels of nesting"):
            document.check_open()
    async with notebooks.open(CALL, path) as document:
        assert document.view.cell_count in (1, 2)


@requirement("memory:updates")
def test_nesting_that_grows_update_by_update_is_refused() -> None:
    document: Doc[Any] = Doc()
    notebook = LiveNotebook(document)
    notebook.insert(0, [NewCell("1")])
    deep: Array[Any] = Array()
    notebook.shared_at(0)["deep"] = deep
    for _ in range(MAX_DEPTH - 1):
        below: Array[Any] = Array()
        deep.append(below)
        deep = below
    with pytest.raises(ExceptionGroup) as failures:
        deep.append(1)
    assert isinstance(failures.value.exceptions[0], RefusedUpdate)


@requirement("memory:answers")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[" + b"[]," * 600_000 + b"[]]", "values"),
        (b"[" * 300 + b"]" * 300, "nesting"),
        (b'"' + b"x" * 40_000_000 + b'"', "bytes"),
    ],
    ids=["many", "deep", "long"],
)
def test_an_answer_with_too_much_in_it_is_refused_unparsed(body: bytes, why: str) -> None:
    answer = RestAnswer(200, {}, body)  # pyright: ignore[reportArgumentType]
    tracemalloc.start()
    try:
        with pytest.raises(LimitReached, match=why):
            answer.json()
        assert tracemalloc.get_traced_memory()[1] < 3 * len(body) + 10_000
    finally:
        tracemalloc.stop()


@requirement("memory:answers")
async def test_an_id_that_is_too_long_for_an_address_is_an_argument_that_is_wrong(
    server_process: JupyterServer,
) -> None:
    rest = Rest(JupyterAddress.parse(server_process.url, token=Secret(server_process.token)))
    try:
        with pytest.raises(InvalidArgument, match="cannot be part of an address"):
            await rest.get("api/kernels/" + "x" * 70_000, "kernel " + "x" * 70_000)
    finally:
        await rest.close()


@requirement("memory:search")
def test_a_hit_in_a_line_of_megabytes_takes_no_multiple_of_it() -> None:
    line = "a\u200bé " * 1_000_000 + "needle" + " tail" * 1_000_000
    search = Search(regex.compile("needle"), "source", time.monotonic() + 600)
    tracemalloc.start()
    try:
        hits = _hits(NotebookPath("n.ipynb"), [("c", line, ())], search, 5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "needle" in hits[0]["snippet"]
    assert hits[0]["snippet"].startswith("…")
    assert hits[0]["snippet"].endswith("…")
    assert peak < 3 * weight(line)
