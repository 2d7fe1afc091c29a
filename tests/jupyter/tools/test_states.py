"""Which cells are fresh, and why the others are not: with real kernels, over both adapters, people among those who run and edit."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest

from cellwright.core.errors import InvalidArgument
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.resources import NotebookResources
from cellwright.jupyter.server.connect import FoundServer
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import Insertion, Range
from cellwright.jupyter.tools.editing import edit_nb_cell
from cellwright.jupyter.tools.kernels import shutdown_nb_kernel
from cellwright.jupyter.tools.looking import get_nb_stat
from cellwright.jupyter.tools.notebooks import delete_nb_cells, insert_nb_cells
from cellwright.jupyter.tools.reading import read_nb_cells
from cellwright.jupyter.tools.running import execute_nb_cells, restart_nb_kernel
from jupyter_support import JupyterServer, PersonIn, write_notebook
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]
CALL = Call(Principal("ada", ALL_SCOPES))
SOURCES = [
    "rate = 2",
    "def scaled(x):\n    return x * rate",
    "prices = [1, 2]",
    "out = [scaled(p) for p in prices]\nout",
    "1 + 1",
]


@pytest.fixture
async def notebooks(jupyter: Jupyter) -> AsyncGenerator[LiveNotebooks]:
    async def connect() -> FoundServer:
        return FoundServer(jupyter, "named")

    service = LiveNotebooks(connect, lambda: datetime.now(UTC))
    try:
        yield service
    finally:
        await service.close()


async def states_of(notebooks: LiveNotebooks, path: str) -> list[str]:
    reply = await read_nb_cells(notebooks, CALL, path)
    return [str(cell.get("state")) for cell in reply.data["cells"]]


async def reasons_of(notebooks: LiveNotebooks, path: str) -> list[str]:
    reply = await read_nb_cells(notebooks, CALL, path)
    return [str(cell.get("because", "")) for cell in reply.data["cells"]]


async def run(notebooks: LiveNotebooks, path: str, **arguments: Any) -> Any:
    return (await execute_nb_cells(notebooks, CALL, path, **arguments)).data


@requirement("stale:states", "stale:shown")
async def test_an_edit_makes_stale_what_depends_on_it_and_nothing_else(
    notebooks: LiveNotebooks, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, SOURCES)
    assert await states_of(notebooks, path) == ["not run"] * 5
    await run(notebooks, path, cells="all")
    assert await states_of(notebooks, path) == ["fresh"] * 5
    stat = await get_nb_stat(notebooks, CALL, path, outline=True)
    assert stat["states"] == {"fresh": 5}
    assert stat["top_to_bottom"] == "would give what is shown"
    edited = (await edit_nb_cell(notebooks, CALL, path, "rate = 2", "rate = 3", 0)).data
    assert edited["stale"] == "1 cell is stale now: 3"
    assert await states_of(notebooks, path) == ["edited", "fresh", "fresh", "stale", "fresh"]
    assert (await reasons_of(notebooks, path))[3] == "rate comes from cell 0 (c0), which was edited since it ran"
    stat = await get_nb_stat(notebooks, CALL, path, outline=True)
    assert [line.partition("|")[0].split()[-1] for line in stat["outline"]] == ["edited", "2L", "1L", "stale", "1out"]
    assert stat["top_to_bottom"] == "would give something else: 1 edited, 1 stale"
    ran = await run(notebooks, path, ranges=[Range(0)])
    assert "stale" not in ran, "it was said already"
    assert (await reasons_of(notebooks, path))[3] == "rate comes from cell 0 (c0), which ran again since"
    (cell,) = (await run(notebooks, path, cells="stale"))["execution_results"]
    assert cell["outputs"][0]["data"]["text/plain"] == "[3, 6]"
    assert await states_of(notebooks, path) == ["fresh"] * 5
    with pytest.raises(InvalidArgument, match="every code cell is fresh"):
        await run(notebooks, path, cells="stale")
    content = await NotebookResources(notebooks).read(CALL, f"jupyter://{path}")
    assert content[0].meta is not None
    assert content[0].meta["top_to_bottom"] == "would give what is shown"


@requirement("stale:states")
async def test_cells_that_came_went_and_lost_their_kernel(
    notebooks: LiveNotebooks, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, SOURCES)
    await run(notebooks, path, cells="all")
    await insert_nb_cells(notebooks, CALL, path, 3, [Insertion("prices = [5]")], exec=False)
    states = await states_of(notebooks, path)
    assert states == ["fresh", "fresh", "fresh", "not run", "stale", "fresh"]
    assert (await reasons_of(notebooks, path))[4].endswith("which has not run")
    await delete_nb_cells(notebooks, CALL, path, [Range(3)])
    assert await states_of(notebooks, path) == ["fresh"] * 5
    await delete_nb_cells(notebooks, CALL, path, [Range(0)])
    assert await states_of(notebooks, path) == ["fresh", "fresh", "stale", "fresh"]
    assert (await reasons_of(notebooks, path))[2] == "rate comes from code that stands in no cell now"
    stat = await get_nb_stat(notebooks, CALL, path, outline=True)
    assert stat["undefined"] == ["rate: used in cell 2 (c3), defined only by code that stands in no cell now"]
    await restart_nb_kernel(notebooks, CALL, path, exec=False)
    assert await states_of(notebooks, path) == ["lost"] * 4
    await run(notebooks, path, ranges=[Range(3)])
    assert await states_of(notebooks, path) == ["lost"] * 3 + ["fresh"]
    await shutdown_nb_kernel(notebooks, CALL, path)
    assert await states_of(notebooks, path) == ["lost"] * 4


@requirement("stale:states", "stale:people")
async def test_what_people_type_and_run_counts(
    notebooks: LiveNotebooks, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, SOURCES)
    await run(notebooks, path, cells="all")
    assert await states_of(notebooks, path) == ["fresh"] * 5
    session = await notebooks.session(CALL, NotebookPath(path))
    async with person(path) as them:
        source = them.cells[2]["source"]
        source += "  # more"
        await them.settle()
        assert await states_of(notebooks, path) == ["fresh", "fresh", "edited", "stale", "fresh"]
        # They run it: their JupyterLab sends it to the kernel, and writes the count into the document.
        queue = await notebooks.queue(CALL, session)
        reply = await queue.kernel.execute(str(source))
        them.cells[2]["execution_count"] = float(reply.execution_count or 0)
        await them.settle()
        assert await states_of(notebooks, path) == ["fresh", "fresh", "fresh", "stale", "fresh"]
        assert (await reasons_of(notebooks, path))[3] == "prices comes from cell 2 (c2), which ran again since"


@requirement("stale:need")
async def test_what_a_cell_needs_is_run_before_it_and_what_needs_a_failed_one_is_not(
    notebooks: LiveNotebooks, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, [*SOURCES, "print(len(out))"])
    ran = await run(notebooks, path, needed_for=3)
    assert [cell["cell"] if "cell" in cell else cell["id"] for cell in ran["execution_results"]] == [
        "c0",
        "c1",
        "c2",
        "c3",
    ]
    assert await states_of(notebooks, path) == [*["fresh"] * 4, "not run", "not run"]
    await edit_nb_cell(notebooks, CALL, path, "[1, 2]", "[1, 2, 1/0]", 2)
    ran = await run(notebooks, path, cells="all", keep_going=True)
    assert [cell["status"] for cell in ran["execution_results"]] == [
        "done",
        "done",
        "error",
        "not_run",
        "done",
        "not_run",
    ]
    assert "needs what cell c2 defines" in ran["execution_results"][3]["error"]["evalue"]
    for wrong in ({"cells": "stale", "ranges": [Range(0)]}, {"needed_for": 1, "cells": "all"}):
        with pytest.raises(InvalidArgument):
            await run(notebooks, path, **wrong)


@requirement("stale:states")
async def test_what_is_no_code_does_nothing_and_what_may_do_anything_leaves_the_rest_unknown(
    notebooks: LiveNotebooks, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1", "b = a", "exec('c = 3')", "print(c, b)", "1"])
    await run(notebooks, path, cells="all")
    assert await states_of(notebooks, path) == ["fresh"] * 5
    edited = (await edit_nb_cell(notebooks, CALL, path, "a = 1", "a = = 1", 0)).data
    assert edited["stale"] == "1 cell is stale now: 1; not known whether stale: 2, 3"
    await edit_nb_cell(notebooks, CALL, path, "a = = 1", "a = 1", 0)
    assert await states_of(notebooks, path) == ["fresh"] * 5, "it is again what ran"
    await run(notebooks, path, ranges=[Range(2)])
    assert await states_of(notebooks, path) == ["fresh", "fresh", "unknown", "unknown", "fresh"]


@requirement("stale:need")
async def test_after_what_is_stale_was_run_nothing_is(
    notebooks: LiveNotebooks, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    sources = [
        "import math\nrow = {}",
        "rate = 2",
        "row['a'] = rate",
        "row['b'] = row['a'] + 1",
        "print(row)",
        "math.pi",
    ]
    write_notebook(jupyter_server.root, path, sources)
    await run(notebooks, path, cells="all")
    await edit_nb_cell(notebooks, CALL, path, "rate = 2", "rate = 5", 1)
    assert await states_of(notebooks, path) == ["fresh", "edited", "stale", "stale", "stale", "fresh"]
    ran = await run(notebooks, path, cells="stale")
    assert [cell["id"] for cell in ran["execution_results"]] == ["c0", "c1", "c2", "c3", "c4"]
    assert ran["execution_results"][-1]["outputs"][0]["text"] == "{'a': 5, 'b': 6}\n"
    assert "stale" not in ran
    assert await states_of(notebooks, path) == ["fresh"] * 6
    await run(notebooks, path, ranges=[Range(2)])
    ran = await run(notebooks, path, needed_for=3)
    assert [cell["id"] for cell in ran["execution_results"]] == ["c0", "c2", "c3"]
    assert await states_of(notebooks, path) == [*["fresh"] * 4, "stale", "fresh"]


@requirement("stale:people", "stale:states")
async def test_a_kernel_that_a_person_ended_or_replaced_is_noticed(
    notebooks: LiveNotebooks, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1", "a"])
    await run(notebooks, path, cells="all")
    assert await states_of(notebooks, path) == ["fresh"] * 2
    jupyter = (await notebooks.connected(CALL)).found.jupyter
    session = await jupyter.kernels.session_of(NotebookPath(path))
    assert session is not None
    assert session.kernel is not None
    await jupyter.kernels.shut_down(session.kernel.id)
    # Nothing in the notebook says so, and nobody tells us: Jupyter is asked again after a moment.
    async with asyncio.timeout(30):
        while await states_of(notebooks, path) != ["lost"] * 2:  # noqa: ASYNC110 - it is somebody else's doing
            await asyncio.sleep(0.2)
    ran = await run(notebooks, path, cells="stale")
    assert [cell["id"] for cell in ran["execution_results"]] == ["c0", "c1"]


@requirement("stale:states")
async def test_what_was_interrupted_and_what_ran_without_a_number(
    notebooks: LiveNotebooks, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1", "b = a", "print(b)", "raise KeyboardInterrupt"])
    kernel = (await notebooks.queue(CALL, await notebooks.session(CALL, NotebookPath(path)))).kernel
    for index in range(3):
        await run(notebooks, path, ranges=[Range(index)])
        # As extensions ask for variables: announced under the number that the next cell gets.
        await kernel.execute("'a look'", store_history=False)
        await states_of(notebooks, path)
    assert await states_of(notebooks, path) == [*["fresh"] * 3, "not run"]
    await run(notebooks, path, ranges=[Range(3)])
    assert (await states_of(notebooks, path))[3] == "unknown"
    assert (await reasons_of(notebooks, path))[3] == "it was interrupted"


@requirement("stale:states")
async def test_numbers_of_an_older_kernel_mean_nothing(
    notebooks: LiveNotebooks, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1", "print(a)", "x = 1", "print(a)"])
    await run(notebooks, path, cells="all")
    assert await states_of(notebooks, path) == ["fresh"] * 4
    await restart_nb_kernel(notebooks, CALL, path, exec=False)
    await edit_nb_cell(notebooks, CALL, path, "a = 1", "a = 5", 0)
    await run(notebooks, path, ranges=[Range(0), Range(3)])
    # The second cell shows [2], and what ran as [2] in this kernel has its very text.
    assert await states_of(notebooks, path) == ["fresh", "lost", "lost", "fresh"]
    await run(notebooks, path, cells="stale")
    assert await states_of(notebooks, path) == ["fresh"] * 4
