"""What is stored may be as large as it is allowed to be: whoever reads it lets others work in between."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc

from cellwright.app.loopwatch import HeldLoop, LoopWatch
from cellwright.core.errors import Conflict
from cellwright.core.weight import characters_in, written_size
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.whole import read_cell, read_heads, whole_json
from cellwright.jupyter.resources import MOST_CHARACTERS, NotebookResources
from cellwright.jupyter.tools.common import SMALL_CHARACTERS, weight
from cellwright.notebook.addressing import at
from requirements import requirement

pytestmark = pytest.mark.anyio

MANY = 6_000
NUMBERS = [number + 0.5 for number in range(400_000)]


def code(name: str, source: str = "", outputs: list[JsonObject] | None = None, **more: Any) -> JsonObject:
    base: JsonObject = {"cell_type": "code", "metadata": {}, "execution_count": None}
    return {**base, "id": name, "source": source, "outputs": outputs or [], **more}


def shown(**data: Any) -> JsonObject:
    return {
        "output_type": "display_data",
        "data": {name.replace("_", "/"): value for name, value in data.items()},
        "metadata": {},
    }


def notebook_of(*cells: JsonObject, minor: int = 5) -> LiveNotebook:
    notebook = LiveNotebook(Doc(), "test.ipynb")
    notebook.fill({"nbformat": 4, "nbformat_minor": minor, "metadata": {"title": "t"}, "cells": list(cells)})
    return notebook


async def held(work: Callable[[], Awaitable[object]]) -> list[HeldLoop]:
    """The turns of the loop over 100 ms while this is done. Looking for garbage among all that other tests left is none of its work."""
    reports: list[HeldLoop] = []
    watch = LoopWatch(reports.append)
    gc.collect()
    gc.disable()
    watch.start()
    try:
        await asyncio.sleep(0.01)
        await work()
        await asyncio.sleep(0.01)
    finally:
        watch.stop()
        gc.enable()
    return reports


def at_once(work: Callable[[], object]) -> Callable[[], Awaitable[object]]:
    async def do() -> object:
        return work()

    return do


@requirement("costs:stored")
async def test_how_many_cells_are_unknown_is_counted_through_every_change() -> None:
    notebook = notebook_of(*(code(f"c{number}", "x") for number in range(10)))
    cells: Any = notebook.doc["cells"]

    def unread_count() -> int:
        return notebook._index._heads.count(None)

    for change in (
        lambda: notebook.load_head(3),
        lambda: cells[3].update({"execution_count": 1}),
        lambda: cells[4].update({"execution_count": 1}),
        lambda: cells.insert(2, cells[5].to_py()),
        lambda: [notebook.load_head(index) for index in range(8)],
        lambda: cells.__delitem__(slice(1, 4)),
        lambda: cells.__delitem__(slice(4, 8)),
    ):
        change()
        assert notebook.unread_count == unread_count()


@requirement("costs:stored")
async def test_a_small_cell_is_read_from_the_document_once() -> None:
    notebook = notebook_of(code("a", "x = 1"))
    assert await read_cell(notebook, 0) is await read_cell(notebook, 0)


@requirement("costs:stored")
@pytest.mark.timeout(300)
async def test_a_notebook_of_thousands_of_cells_is_read_with_turns_for_others() -> None:
    notebook = notebook_of(*(code(f"c{number}") for number in range(MANY)))
    # Read at once it would be noticed: the measure can tell.
    assert await held(at_once(notebook.as_json))
    assert await held(lambda: whole_json(notebook)) == []
    assert notebook.unread_count == notebook.cell_count
    assert await held(lambda: read_heads(notebook)) == []
    assert notebook.unread_count == 0
    assert await held(at_once(notebook.outline)) == []


@requirement("costs:stored")
@pytest.mark.parametrize("minor", [4, 5])
async def test_it_is_the_same_as_read_at_once(minor: int) -> None:
    rich = shown(application_json={"a": [1, 2.5, None, {"b": ["é"]}]}, text_plain="x")
    notebook = notebook_of(
        code("a", "x = 1", [rich, {"output_type": "stream", "name": "stdout", "text": "said\n"}], execution_count=3),
        {
            "cell_type": "markdown",
            "id": "b",
            "metadata": {"tags": ["t"]},
            "source": "# é",
            "attachments": {"p": {"image/png": "aGk="}},
        },
        minor=minor,
    )
    with notebook.doc.transaction():
        notebook.doc["cells"].append("no cell at all")
    assert await whole_json(notebook) == notebook.as_json()
    for index in range(3):
        assert await read_cell(notebook, index) == notebook.cell_at(index)


@requirement("costs:stored")
async def test_what_changes_meanwhile_is_read_anew_so_that_all_is_of_one_moment() -> None:
    notebook = notebook_of(*(code(f"c{number}", "old") for number in range(2_000)))
    reading = asyncio.ensure_future(whole_json(notebook))
    await asyncio.sleep(0.005)
    assert not reading.done()
    for index in (0, 1_999):
        notebook.edit(at(index), "old", "new")
    cells = (await reading)["cells"]
    assert (cells[0]["source"], cells[1_999]["source"]) == ("new", "new")


@requirement("costs:stored")
@pytest.mark.timeout(300)
async def test_one_that_never_stays_the_same_is_a_conflict() -> None:
    notebook = notebook_of(*(code(f"c{number}", "x") for number in range(2_000)))

    async def typing() -> None:
        while True:
            notebook.edit(at(0), "x", "xx")
            notebook.edit(at(0), "xx", "x")
            await asyncio.sleep(0)

    person = asyncio.ensure_future(typing())
    try:
        with pytest.raises(Conflict, match="changed all the time"):
            await whole_json(notebook)
    finally:
        person.cancel()


@requirement("costs:stored")
@pytest.mark.timeout(300)
async def test_a_cell_with_hundreds_of_thousands_of_numbers_is_read_with_turns_for_others() -> None:
    notebook = notebook_of(code("a", "", [shown(application_json=NUMBERS)]))
    cells: list[Any] = []

    async def read() -> None:
        cells.append(await read_cell(notebook, 0))

    reports = await held(read)
    assert [report for report in reports if "whole.py" in report.stack] == []
    assert cells[0].outputs[0]["data"]["application/json"] == NUMBERS
    assert weight(cells[0].outputs) > SMALL_CHARACTERS, "it would be shown on the event loop"


class _Notebooks:
    """A service with one notebook."""

    def __init__(self, view: LiveNotebook) -> None:
        self._view = view

    @asynccontextmanager
    async def open(self, *_: object) -> AsyncGenerator[object]:
        yield SimpleNamespace(view=self._view, live=True)


@requirement("costs:stored")
@pytest.mark.timeout(300)
async def test_an_output_of_megabytes_is_cleaned_beside_the_loop_and_bounded() -> None:
    coloured = {"output_type": "stream", "name": "stdout", "text": "\x1b[31mé\x1b[0m" * 300_000}
    notebook = notebook_of(code("a", "", [coloured, shown(application_json=NUMBERS)]))
    resources = cast("Any", NotebookResources).__new__(NotebookResources)
    resources._notebooks = _Notebooks(notebook)
    bodies: list[str] = []

    async def read(number: int) -> None:
        bodies.append((await resources.read(None, f"jupyter://a.ipynb/cells/a/outputs/{number}"))[0].body)

    # The document itself is read on the loop, which for a text of megabytes is one step of the library.
    for number in (0, 1):
        reports = await held(lambda number=number: read(number))
        assert [one for one in reports if "clean.py" in one.stack or "encoder.py" in one.stack] == []
    assert bodies[0] == "é" * 300_000
    assert len(bodies[1]) < MOST_CHARACTERS + 200
    assert "characters left out" in bodies[1]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@requirement("costs:stored")
@given(VALUES)
def test_a_size_that_is_found_step_by_step_is_the_size(value: Any) -> None:
    assert written_size(value) == len(str([value])) - 2


@requirement("costs:stored")
def test_counting_ends_when_it_is_enough() -> None:
    assert characters_in(["x" * 10, {"k": "y" * 10}], 1_000) >= 21
    many: Any = [["x"] * 10_000] * 10_000
    assert 100 < characters_in(many, 100) < 100_000
