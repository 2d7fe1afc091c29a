"""States of the cells of a notebook in memory: odd ids, and what is read in a worker process."""

from typing import Any

import pytest
from pycrdt import Doc

from cellwright.jupyter.kernels.channel import Message
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.ran import KernelRuns
from cellwright.jupyter.staleness.names import NamesOfCells, is_small
from cellwright.jupyter.staleness.tracking import KernelSeen, StatesOfNotebook, has_code
from cellwright.jupyter.staleness.words import stale_news, state_shown
from cellwright.notebook.addressing import at
from cellwright.workers.pool import WorkerPool
from requirements import requirement

pytestmark = pytest.mark.anyio


def notebook_of(*cells: tuple[str, str]) -> LiveNotebook:
    notebook = LiveNotebook(Doc())
    shown: list[dict[str, Any]] = [
        {"cell_type": "code", "id": cell_id, "metadata": {}, "source": source, "outputs": [], "execution_count": number}
        for number, (cell_id, source) in enumerate(cells, 1)
    ]
    notebook.fill({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": shown})
    return notebook


def ran_in_order(notebook: LiveNotebook) -> KernelRuns:
    runs = KernelRuns()
    runs.begin_life()
    for number, head in enumerate(notebook.heads(), 1):
        for kind, content in (
            ("execute_input", {"execution_count": number, "code": head.source}),
            ("status", {"execution_state": "idle"}),
        ):
            runs.receive(Message("iopub", {"msg_type": kind}, content, {"msg_id": str(number)}))
    return runs


def states_of(states: StatesOfNotebook, notebook: LiveNotebook) -> list[str | None]:
    return [state_shown(states, notebook, index, head).get("state") for index, head in enumerate(notebook.heads())]


@requirement("stale:states")
async def test_ids_that_nobody_gives_are_places() -> None:
    notebook = notebook_of(("\0abc", "a = 1"), ("\x003", "b = a"), ("same", "c = b"), ("same", "print(c)"))
    pool = WorkerPool()
    states = StatesOfNotebook(notebook, NamesOfCells(pool))
    seen = KernelSeen(ran_in_order(notebook))
    await states.update(notebook, seen, "ada")
    assert states_of(states, notebook) == ["fresh"] * 4
    states.news()
    notebook.edit(at(0), "1", "2")
    await states.update(notebook, seen, "ada")
    assert stale_news(states.news(), notebook) == {"stale": "3 cells are stale now: 1, 2, 3"}
    await pool.close()


@requirement("stale:states")
async def test_a_text_that_may_take_long_is_read_beside_the_loop() -> None:
    sources = ["x = 1", "\n".join(f"a{n} = [a{n - 1}, x]" for n in range(1, 60)), "%time y = x"]
    pool = WorkerPool()
    reader = NamesOfCells(pool)
    found = await reader.read("python", sources, "ada")
    assert not is_small(sources[1])
    assert found[sources[0]].defines == {"x"}
    assert "a59" in found[sources[1]].defines
    assert "x" in found[sources[2]].uses
    await pool.close()


@requirement("stale:states")
async def test_comments_are_those_of_the_language() -> None:
    assert not has_code("# only a comment\n\n", "python")
    assert has_code("#define N 5", "c++")
    assert not has_code("\n  \n", "c++")
