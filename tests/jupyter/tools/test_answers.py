"""What notebook tools answer, to the letter: a real client, a real server of ours, a real Jupyter, real kernels."""

import asyncio
import json
import re
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from cellwright.app.settings import Settings
from cellwright.app.workspace import local_user, make_workspace
from cellwright.core.text.budget import estimate_tokens
from cellwright.jupyter.files.unreadable import what_is_wrong
from extension_support import ExtensionProcess
from extension_support import agent as extension_client
from jupyter_support import JupyterServer, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

MISSING = re.compile(r"… ([\d,]+) (?:of [\d,]+ )?characters")
CELL: dict[str, Any] = {
    "cell_type": "code",
    "id": "a",
    "metadata": {},
    "source": "1",
    "outputs": [],
    "execution_count": None,
}


@pytest.fixture(scope="module")
def ours(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("ours"), "--toolsets", "all") as server:
        yield server


@pytest.fixture
def agent(ours: HttpServer) -> Callable[..., AbstractAsyncContextManager[Agent]]:
    def connect(mode: str = "auto") -> AbstractAsyncContextManager[Agent]:
        return agent_of(ours, mode)

    return connect


def without(cell: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in cell.items() if key not in keys}


# -- what was cut ------------------------------------------------------------------------------------------------------------


@requirement("truth:cut:client")
@pytest.mark.parametrize("size", [20_000, 10_000_000])
async def test_output_over_both_limits_is_counted_exactly(
    agent: Any, jupyter_server: JupyterServer, folder: str, size: int
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["for n in range(5889): print(f'{n:09}')", "1"])
    everything = "".join(f"{number:09}\n" for number in range(5889))
    async with agent() as do:
        ran = await do("execute_nb_cells", path=path, ranges=[{"start": 0, "end": 2}], maxCellOutputSize=size)
        read = await do("read_nb_cells", path=path, maxCellData=min(size, 1_000_000))
        long, short = ran["execution_results"]
        assert (long["truncated"], long["original_size"], short["truncated"]) == (True, 58_890, False)
        assert read["truncated"] is True
        assert [cell["truncated"] for cell in read["cells"]] == [{"source": False, "outputs": [True]}]
        assert read["next"]["ranges"] == [{"start": 1, "end": 2}]
        for text in (long["outputs"][0]["text"], read["cells"][0]["outputs"][0]["text"]):
            (missing,) = MISSING.findall(text)
            head, _, tail = text.partition("…")
            tail = tail.partition("…\n")[2]
            assert everything.startswith(head)
            assert everything.endswith(tail)
            assert int(missing.replace(",", "")) == 58_890 - len(head) - len(tail)


@requirement("truth:cut:file")
async def test_an_error_that_was_too_long_to_keep_is_counted_from_what_it_said(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["raise ValueError('x' * 300_000)"])
    async with agent() as do:
        ran = (await do.failing("execute_nb_cells", path=path, ranges=[{"start": 0}]))["execution_results"][0]
        full, summary = [
            (await do("read_nb_cells", path=path, outputs=outputs))["cells"][0] for outputs in ("full", "summary")
        ]
        assert (ran["truncated"], full["truncated"]["outputs"]) == (True, [True])
        for error in (ran["error"], ran["outputs"][0], full["outputs"][0], summary["outputs"][0]):
            (missing,) = MISSING.findall(error["evalue"])
            assert int(missing.replace(",", "")) == 300_000 - error["evalue"].count("x")


# -- what is broken ----------------------------------------------------------------------------------------------------------

BROKEN = {
    "not-json": ("{\n not json", "not JSON, line 2"),
    "empty": ("", "empty"),
    "a-list": ("[]", "no object"),
    "no-cells": (json.dumps({"metadata": {}, "nbformat": 4, "nbformat_minor": 5}), "no list of cells"),
    "no-metadata": ([CELL, without(CELL, "metadata")], "cell 1 (from 0) has no metadata"),
    "odd-outputs": ([{**CELL, "outputs": 5}], "cell 0 (from 0) has outputs that are not a list"),
    "a-word": ([CELL, CELL, "word"], "cell 2 (from 0) is not an object"),
    "from-the-future": (json.dumps({"cells": [], "metadata": {}, "nbformat": 9}), "nbformat is 9"),
    "half-a-letter": ([CELL, {**CELL, "source": "x = '\ud800'"}], "cell 1 (from 0) has half of a character pair"),
    "large-number": (
        [{**CELL, "execution_count": 10**30}],
        "cell 0 (from 0) has a whole number that is too large: 1000",
    ),
    "large-below": (
        [
            CELL,
            {**CELL, "outputs": [{"output_type": "display_data", "metadata": {}, "data": {"a/json": [{"n": 10**30}]}}]},
        ],
        "cell 1 (from 0) has a whole number",
    ),
    "large-in-metadata": (
        json.dumps({"cells": [], "metadata": {"n": -(10**30)}, "nbformat": 4, "nbformat_minor": 5}),
        "its metadata has a whole number",
    ),
    "not-converted": (json.dumps({"metadata": {}, "nbformat": 3, "worksheets": 5}), "nbformat 3"),
}


def put(root: Path, path: str, content: str | list[Any]) -> None:
    if isinstance(content, list):
        content = json.dumps({"cells": content, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (root / path).write_text(content, encoding="utf-8")


@requirement("truth:broken:notebook")
async def test_a_file_that_is_no_notebook_is_explained(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    async with agent() as do:

        async def explained(name: str, content: str | list[Any], said: str) -> None:
            path = f"{folder}/{name}.ipynb"
            put(jupyter_server.root, path, content)
            error = await do.error("read_nb_cells", path=path)
            assert (error["code"], error["retryable"]) == ("INVALID_FORMAT", False), (name, error)
            assert said in error["message"], error
            assert path in error["message"]
            assert "text editor" in error["hint"]

        # All at once: whether Jupyter will send a notebook after all is waited for, of each.
        await asyncio.gather(*(explained(name, content, said) for name, (content, said) in BROKEN.items()))


@requirement("truth:broken:notebook")
def test_an_old_notebook_that_takes_long_to_open_is_not_called_broken() -> None:
    cell: dict[str, Any] = {
        "cell_type": "code",
        "input": ["x"],
        "language": "python",
        "metadata": {},
        "outputs": [],
        "collapsed": False,
    }
    old: dict[str, Any] = {
        "metadata": {"name": ""},
        "nbformat": 3,
        "nbformat_minor": 0,
        "worksheets": [{"cells": [cell], "metadata": {}}],
    }
    assert what_is_wrong(json.dumps(old)) == ""
    assert "cannot be converted" in what_is_wrong(json.dumps({**old, "worksheets": [{"cells": [5]}]}))


@requirement("truth:broken:notebook", "truth:broken:soon")
@pytest.mark.timeout(45)
async def test_a_notebook_that_is_never_sent_is_explained_before_the_wait_for_it_ends(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    """The wait for a room is a minute, which the time limit of this test does not leave."""
    path = f"{folder}/n.ipynb"
    put(jupyter_server.root, path, [CELL, without(CELL, "cell_type")])
    async with agent() as do:
        error = await do.error("read_nb_cells", path=path)
        assert error["code"] == "INVALID_FORMAT"
        assert "cell 1 (from 0) has nothing as cell_type" in error["message"]


# -- words -------------------------------------------------------------------------------------------------------------------


@requirement("truth:error:names", "truth:run:message")
async def test_a_run_that_fails_has_one_naming_and_exact_counts(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["1", "1 / 0", "3"])
    async with agent() as do:
        ran = await do.failing("execute_nb_cells", path=path, ranges=[{"start": 0, "end": 3}])
        assert ran["message"] == "error: of 3 code cells 1 done, 1 error, 1 not run"
        assert ran["executed_cells"] == 2
        failed = ran["execution_results"][1]
        summed = (await do("read_nb_cells", path=path, ranges=[{"start": 1}], outputs="summary"))["cells"][0]
        for error in (failed["error"], failed["outputs"][0], summed["outputs"][0]):
            assert (error["ename"], error["evalue"]) == ("ZeroDivisionError", "division by zero")
        # The contract of these tools has names of its own for an output.
        assert (failed["outputs"][0]["name"], failed["outputs"][0]["value"]) == (
            "ZeroDivisionError",
            "division by zero",
        )
        one = await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
        assert one["message"] == "Ran 1 code cell"
        assert (await do("execute_nb_cells", path=path, ranges=[{"start": 0}, {"start": 2}]))["message"] == (
            "Ran 2 code cells"
        )


@requirement("truth:ranges:message")
async def test_a_range_outside_is_refused_in_plain_words(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["0", "1", "2"])
    async with agent() as do:

        async def said(**one: int) -> str:
            error = await do.error("read_nb_cells", path=path, ranges=[one])
            return f"{error['message']}; {error['hint']}"

        has = "the notebook has 3 cells, index 0 to 2; end is exclusive: it is at most 3"
        assert await said(start=0, end=50) == f"start 0, end 50 is outside: {has}"
        assert await said(start=3) == f"there is no cell 3: {has}"
        assert await said(start=2, end=1) == f"end 1 is before start 2: {has}"


# -- since -------------------------------------------------------------------------------------------------------------------

STEPS = """
import time
from pathlib import Path
from IPython.display import clear_output
def step(name):
    while not Path(name).exists():
        time.sleep(0.02)
"""


@asynccontextmanager
async def polled(do: Agent, root: Path, path: str, code: str) -> AsyncGenerator[tuple[Any, Callable[[str], None]]]:
    """A run that goes on when it is let, and a poll of what is new in it."""
    place = (root / path).parent
    write_notebook(root, path, [STEPS + code])
    begun = await do("execute_nb_cells", path=path, ranges=[{"start": 0}], timeout=0)
    cursor = begun["cursor"]
    text = ""

    async def poll(wanted: str) -> Any:
        """What is new, asked for until the text so far ends as wanted."""
        nonlocal cursor, text
        seen: list[Any] = []
        while not text.endswith(wanted):
            answer = await do(
                "get_execution", execution_id=begun["execution_id"], since=cursor, timeout=0.2, maxCellOutputSize=9_999
            )
            cursor = answer.get("cursor", cursor)
            for result in answer["execution_results"]:
                seen.append(result)
                said = "".join(output.get("text", "") for output in result["outputs"])
                text = said if "cleared" in result else text + said
        return seen

    yield poll, lambda name: (place / name).touch()


@requirement("truth:since:new", "truth:since:rewritten", "truth:since:cleared", "truth:since:refused")
async def test_polling_tells_what_is_new_and_only_once(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    code = (
        "print('begun')\nstep('one')\nfor n in range(300): print(f'line {n}')\nstep('two')\n"
        "print('50%', end='', flush=True)\nstep('three')\nprint('\\r60%', end='', flush=True)\nstep('four')\n"
        "clear_output()\nprint('fresh')\nstep('five')\nprint('last')\n7"
    )
    lines = "".join(f"line {number}\n" for number in range(300))
    async with agent() as do:
        async with polled(do, jupyter_server.root, f"{folder}/n.ipynb", code) as (poll, let):
            await poll("begun\n")
            let("one")
            seen = await poll("line 299\n")
            assert "".join(one["outputs"][0]["text"] for one in seen if one["outputs"]) == lines
            let("two")
            assert [one["outputs"][0]["text"] for one in await poll("50%") if one["outputs"]] == ["50%"]
            let("three")
            assert [one["outputs"][0]["text"] for one in await poll("60%") if one["outputs"]] == ["60%"]
            let("four")
            seen = await poll("fresh\n")
            assert seen[-1]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "fresh\n"}]
            assert any("cleared" in one for one in seen)
            let("five")
            seen = await poll("last\n")
            assert not any("cleared" in one for one in seen)
        ended = await do("execute_nb_cells", path=f"{folder}/n.ipynb", ranges=[{"start": 0}])
        assert "cursor" not in ended
        error = await do.error("get_execution", execution_id=ended["execution_id"], since="99", timeout=600)
        assert error["code"] == "INVALID_ARGUMENT"
        assert "leave it out" in error["hint"]


# -- what is left out --------------------------------------------------------------------------------------------------------


@requirement("truth:lean:cells", "truth:lean:summary")
async def test_cells_without_what_is_empty(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["x = 1", "print('hi')", "y" * 3_000])
    async with agent() as do:
        await do("execute_nb_cells", path=path, ranges=[{"start": 1}])
        full = await do("read_nb_cells", path=path)
        keys = {"index", "id", "cell_type", "source", "revision", "metadata", "execution_count", "outputs", "truncated"}
        keys.add("state")
        assert all(set(cell) == keys for cell in full["cells"])
        assert set(full) == {"path", "view", "cells", "truncated", "max_cell_data", "live"}
        none = await do("read_nb_cells", path=path, outputs="none")
        assert set(none) == {"path", "view", "cells", "truncated"}
        plain = {"index", "id", "cell_type", "source", "revision"}
        assert [set(cell) for cell in none["cells"]] == [plain, plain | {"execution_count"}, plain | {"truncated"}]
        assert none["cells"][2]["truncated"] == {"source": True}
        summary = (await do("read_nb_cells", path=path, outputs="summary"))["cells"][1]
        assert summary["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "hi\n"}]
        edit = {"range": {"start": 1}, "content": "print('long ' * 100)"}
        await do("modify_nb_cells", path=path, modifications=[edit])
        long = (await do("read_nb_cells", path=path, outputs="summary"))["cells"][1]
        assert long["outputs"] == [{"output_type": "stream", "name": "stdout", "size": 501}]
        assert estimate_tokens(json.dumps(none)) < estimate_tokens(json.dumps(full))


@requirement("truth:lean:list")
async def test_a_brief_list(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    for number in range(3):
        write_notebook(jupyter_server.root, f"{folder}/n {number}.ipynb", ["1"])
    async with agent() as do:
        brief = await do("list_nbs", path=folder, brief=True)
        assert [set(entry) for entry in brief["notebooks"]] == [{"path", "size", "last_modified"}] * 3
        assert "next_offset" not in brief
        full = await do("list_nbs", path=folder)
        assert [entry["path"] for entry in brief["notebooks"]] == [entry["path"] for entry in full["notebooks"]]


@requirement("truth:lean:status")
async def test_the_status_names_toolsets(agent: Any) -> None:
    async with agent() as do:
        status = await do("workspace_status")
        assert {"notebooks", "scratch", "workspace"} <= set(status["toolsets"])
        assert "read_nb_cells" not in json.dumps(status)


# -- addresses ---------------------------------------------------------------------------------------------------------------


def opens(url: str, token: str) -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"token {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


async def given_urls(do: Agent) -> list[str | None]:
    """Every address of a notebook that the tools give."""
    listed = (await do("list_nbs"))["notebooks"][0]
    document = await do("get_document_info", path=listed["path"])
    shown = (await do("list_documents"))["documents"][0]
    return [listed["url"], document["url"], shown["url"]]


@requirement("truth:urls")
async def test_addresses_open_on_the_server_that_is_started_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    root = tmp_path / "work"
    root.mkdir()
    write_notebook(root, "a b#.ipynb", ["1"])
    workspace = make_workspace(Settings(root=root, state_dir=tmp_path / "state", toolsets=("all",)), "stdio")
    try:
        async with Client(workspace.server(local_user()), cache=None) as client:
            urls = await given_urls(Agent(client))
            connected = workspace.notebooks.ours
            assert connected is not None
            assert connected.found.token is not None
            token = connected.found.token.reveal()
            assert [await asyncio.to_thread(opens, str(url), token) for url in urls] == [200] * len(urls), urls
    finally:
        await workspace.close()


@requirement("truth:urls")
async def test_addresses_open_inside_jupyter(tmp_path: Path) -> None:
    with ExtensionProcess(tmp_path, "--CellwrightExtension.options={'toolsets': 'all'}", lab=True) as process:
        write_notebook(process.root, "a.ipynb", ["1"])
        async with extension_client(process.mcp, process.token) as client:
            urls = await given_urls(Agent(client))
            assert [await asyncio.to_thread(opens, str(url), process.token) for url in urls] == [200] * len(urls), urls


@requirement("truth:urls")
async def test_a_server_without_pages_gives_no_addresses(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    write_notebook(jupyter_server.root, f"{folder}/n.ipynb", ["1"])
    async with agent() as do:
        assert (await do("list_nbs", path=folder))["notebooks"][0]["url"] is None
        assert "no pages" in (await do("list_nbs", path=folder, brief=True))["url_of"]
        assert opens(f"{jupyter_server.url}/lab/tree/{folder}/n.ipynb", jupyter_server.token) == 404


@requirement("truth:kernel-id:bounded")
async def test_a_kernel_id_of_any_length_is_refused(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["1"])
    async with agent() as do:
        for size, code in ((70_000, "INVALID_ARGUMENT"), (201, "INVALID_ARGUMENT"), (200, "NOT_FOUND")):
            error = await do.error("use_notebook", notebook_name="n", notebook_path=path, kernel_id="k" * size)
            assert error["code"] == code
            assert len(json.dumps(error)) < 2_000
