"""The notebook tools through a real client, a real server of ours, a real Jupyter and a person in the same notebook."""

import asyncio
import base64
import json
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from mcp import MCPError

from cellwright.core.foreign_json import JsonBounds
from cellwright.core.text.budget import DEFAULT_TOKENS, estimate_tokens
from cellwright.core.types import Secret
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import FileKind
from cellwright.jupyter.remote.contents import Contents
from cellwright.jupyter.remote.rest import JSON_BOUNDS, Rest, RestAnswer
from cellwright.jupyter.server.address import JupyterAddress
from jupyter_support import JupyterServer, PersonIn, eventually, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer, http_client, stdio_client

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def ours(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    """Our server in front of the shared Jupyter."""
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("ours"), "--agent-name", "Robin the Agent") as server:
        yield server


@pytest.fixture
def agent(ours: HttpServer) -> Callable[..., AbstractAsyncContextManager[Agent]]:
    def connect(mode: str = "auto") -> AbstractAsyncContextManager[Agent]:
        return agent_of(ours, mode)

    return connect


def texts(result: Any) -> list[str]:
    return [output.get("text", "") for output in result["execution_results"][0]["outputs"]]


@requirement("nb:urls")
async def test_addresses(agent: Any, jupyter_server: JupyterServer) -> None:
    async with agent() as do:
        assert (await do("get_base_url"))["base_url"] == jupyter_server.url
        for page in ("tree", "notebooks", "edit", "view", "lab/tree", "lab/workspaces/x/tree", "doc/tree"):
            found = await do("nb_path_from_url", url=f"{jupyter_server.url}/{page}/a%20b/n%23.ipynb?x=1#y")
            assert found["notebook_path"] == "a b/n#.ipynb"
        for url in ("http://other-host/tree/a.ipynb", "javascript:alert(1)", f"{jupyter_server.url}/tree/a.txt"):
            assert (await do.failing("nb_path_from_url", url=url))["error"]["code"] == "INVALID_ARGUMENT"


@requirement("nb:list")
async def test_listing_is_recursive_and_paged(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    for number in range(120):
        write_notebook(jupyter_server.root, f"{folder}/deep/er/n{number:03}.ipynb", ["1"])
    async with agent() as do:
        seen: list[str] = []
        offset = 0
        while offset is not None:
            page = await do("list_nbs", path=folder, offset=offset)
            assert set(page["notebooks"][0]) == {"path", "name", "last_modified", "created", "size", "writable", "url"}
            seen += [entry["path"] for entry in page["notebooks"]]
            offset = page["next_offset"]
        assert seen == [f"{folder}/deep/er/n{number:03}.ipynb" for number in range(120)]


@requirement("nb:stat")
async def test_stat_starts_nothing(agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["x = 1", "y = 2"])
    async with agent() as do, person(path) as them:
        them.announce("Ada")
        await them.settle()
        stat = await do("get_nb_stat", path="/" + path, outline=True)
        assert stat["path"] == path
        assert stat["cell_count"] == 2
        assert stat["kernel"] is None
        assert stat["live"] is True
        assert stat["outline"] == ["0 c0 code 1L | x = 1", "1 c1 code 1L | y = 2"]
        assert (await do("get_nb_stat", path=path))["kernel"] is None


@requirement("nb:read:live", "nb:modify:acknowledged")
async def test_both_see_what_the_other_typed(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["first", "second"])
    async with agent() as do, person(path) as them:
        them.text_of(0).insert(0, "typed ")
        await them.settle()
        cells = (await do("read_nb_cells", path=path))["cells"]
        assert [cell["source"] for cell in cells] == ["typed first", "second"]
        await do(
            "modify_nb_cells", path=path, modifications=[{"range": {"start": 1}, "content": "changed"}], exec=False
        )
        await them.settle()
        assert them.sources == ["typed first", "changed"]


@requirement("nb:read:ranges")
async def test_ranges(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["0", "1", "2", "3"])
    async with agent() as do:

        async def read(*ranges: dict[str, Any]) -> list[str]:
            return [cell["source"] for cell in (await do("read_nb_cells", path=path, ranges=list(ranges)))["cells"]]

        assert await read({"start": 1}) == ["1"]
        assert await read({"start": 1, "end": 3}) == ["1", "2"]
        assert await read({"start": 2, "end": 2}) == []
        assert await read({"id": "c3"}, {"start": 0}) == ["0", "3"]
        wrong: tuple[dict[str, Any], ...] = (
            {"start": 4},
            {"start": -1},
            {"start": 3, "end": 2},
            {"start": 0, "end": 9},
            {"id": "zz"},
            {},
        )
        for one in wrong:
            error = (await do.failing("read_nb_cells", path=path, ranges=[one]))["error"]
            assert error["code"] in {"INVALID_ARGUMENT", "NOT_FOUND"}
        assert "4 cells" in (await do.failing("read_nb_cells", path=path, ranges=[{"start": 4}]))["error"]["message"]
        overlap = await do.failing("delete_nb_cells", path=path, ranges=[{"start": 0, "end": 2}, {"start": 1}])
        assert "overlap" in overlap["error"]["message"]


@requirement("nb:read:cut", "nb:spellings")
async def test_long_cells_are_cut_with_exact_counts(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["x" * 5_000, "print('y' * 3000); 7"])
    async with agent() as do:
        await do("execute_nb_cells", path=path, ranges=[{"start": 1}])
        read = await do("read_nb_cells", path=path, maxCellData=1_000)
        assert read["truncated"] is True
        assert read["max_cell_data"] == 1_000
        long, ran = read["cells"]
        assert "4,000 of 5,000 characters left out" in long["source"]
        assert long["truncated"] == {"source": True, "outputs": []}
        assert ran["truncated"] == {"source": False, "outputs": [True, False]}
        assert await do("read_nb_cells", path=path, max_cell_data=1_000) == read
        twice = await do.failing("read_nb_cells", path=path, max_cell_data=1, maxCellData=1)
        assert twice["error"]["code"] == "INVALID_ARGUMENT"


@requirement("nb:read:pages")
async def test_a_large_notebook_is_read_in_parts(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, [f"value_{number} = {'word ' * 100!r}" for number in range(100)])
    async with agent() as do:
        seen: list[int] = []
        ranges = None
        while True:
            result = await do.whole("read_nb_cells", path=path, ranges=ranges)
            assert estimate_tokens(result.content[0].text) <= DEFAULT_TOKENS
            seen += [cell["index"] for cell in result.structured_content["cells"]]
            following = result.structured_content.get("next")
            if following is None:
                break
            ranges = following["ranges"]
        assert seen == list(range(100))


@requirement("nb:read:pages")
async def test_the_rest_of_scattered_ranges_is_what_was_asked_for(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, [f"value_{number} = {'word ' * 100!r}" for number in range(120)])
    wanted = [*range(0, 60, 2), *range(80, 110)]
    async with agent() as do:
        ranges: Any = [*({"start": index} for index in range(0, 60, 2)), {"start": 80, "end": 110}]
        seen: list[int] = []
        while ranges is not None:
            part = await do("read_nb_cells", path=path, ranges=ranges)
            seen += [cell["index"] for cell in part["cells"]]
            assert part.get("next", {"left_out": 0})["left_out"] == len(wanted) - len(seen)
            ranges = part["next"]["ranges"] if "next" in part else None
        assert seen == wanted


@requirement("nb:outline:pages")
async def test_a_long_outline_comes_in_pages(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, [f"# step {number}\nvalue = {number}" for number in range(1_000)])
    async with agent() as do:
        lines: list[str] = []
        offset: int | None = 0
        pages = 0
        while offset is not None:
            result = await do.whole("get_nb_stat", path=path, outline=True, offset=offset)
            assert estimate_tokens(result.content[0].text) <= 5_000
            assert result.structured_content["cell_count"] == 1_000
            lines += result.structured_content["outline"]
            offset = result.structured_content["next_offset"]
            pages += 1
        assert [line.split()[:2] for line in lines] == [[str(number), f"c{number}"] for number in range(1_000)]
        assert 2 <= pages <= 6
        await do("edit_nb_cell", path=path, cell=990, old="# step 990", new="# changed")
        last = (await do("get_nb_stat", path=path, outline=True, offset=990))["outline"]
        assert last[0] == "990 c990 code 2L | # changed"
        error = await do.error("get_nb_stat", path=path, outline=True, offset=1_000)
        assert "1,000 cells" in error["message"]


@requirement("nb:modify:minimal")
async def test_a_person_typing_in_the_same_cell_loses_nothing(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["alpha = 1\nomega = 9"])
    async with agent() as do, person(path) as them:
        typed = "# thinking about it"
        for number, letter in enumerate(typed):
            them.text_of(0).insert(len("alpha = 1") + number, letter)
            await them.settle()
            if number in {5, 10, 15}:
                now = (await do("read_nb_cells", path=path))["cells"][0]["source"]
                changed = now.replace("omega = ", "omega = 1")
                change = {"range": {"id": "c0"}, "content": changed}
                await do("modify_nb_cells", path=path, modifications=[change], exec=False)
        await them.settle()
        assert them.sources == [f"alpha = 1{typed}\nomega = 1119"]


@requirement("nb:modify:expect")
async def test_a_stale_edit_is_refused_with_the_difference(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["x = 1"])
    async with agent() as do, person(path) as them:
        revision = (await do("read_nb_cells", path=path))["cells"][0]["revision"]
        them.text_of(0).insert(5, "00")
        await them.settle()
        stale = {"range": {"start": 0}, "content": "x = 2", "expect": revision}
        error = (await do.failing("modify_nb_cells", path=path, modifications=[stale], exec=False))["error"]
        assert error["code"] == "CONFLICT"
        assert "x = 100" in json.dumps(error)
        assert them.sources == ["x = 100"]


@requirement("nb:insert", "nb:run:live", "nb:run:shared-kernel")
async def test_inserting_and_running_while_a_person_watches(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["import time"])
    async with agent() as do, person(path) as them:
        slow = "for n in range(20):\n    print('line', n, flush=True)\n    time.sleep(0.1)"
        cells = [{"content": "# notes", "type": "markdown"}, {"content": "import time"}, {"content": slow}]
        call = asyncio.create_task(do("insert_nb_cells", path=path, position=-1, cells=cells))

        def shown() -> str:
            outputs = them.cells[-1].get("outputs") if len(them.cells) == 4 else None
            return "".join(str(output["text"]) for output in outputs or ())

        await eventually(lambda: "line 3" in shown(), "output in the person's document")
        assert not call.done(), "the person saw output only after the call had ended"
        result = await call
        assert [cell["index"] for cell in result["cells"]] == [1, 2, 3]
        assert [run["status"] for run in result["execution_results"]] == ["done", "done"]
        assert result["execution_results"][1]["outputs"][0]["text"].endswith("line 19\n")
        session = (await do("get_nb_stat", path=path))["kernel"]
        assert session["state"] in {"idle", "busy"}


@requirement("nb:run:shared-kernel")
async def test_the_persons_kernel_is_used(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    import httpx2  # noqa: PLC0415

    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["import os; os.getcwd()"])
    headers = {"Authorization": f"token {jupyter_server.token}"}
    body = {"path": path, "name": "n", "type": "notebook", "kernel": {"name": "python3"}}
    async with httpx2.AsyncClient(base_url=jupyter_server.url, headers=headers, timeout=30) as http, agent() as do:
        session = (await http.post("/api/sessions", json=body)).json()
        ran = await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
        assert folder in ran["execution_results"][0]["outputs"][0]["data"]["text/plain"]
        assert (await do("get_nb_stat", path=path))["kernel"]["id"] == session["kernel"]["id"]
        assert len([one for one in (await http.get("/api/sessions")).json() if one["path"] == path]) == 1


@requirement("nb:delete")
async def test_ranges_of_a_deletion_mean_the_state_before(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, [str(number) for number in range(8)])
    async with agent() as do, person(path) as them:
        gone = await do("delete_nb_cells", path=path, ranges=[{"start": 2, "end": 3}, {"start": 5, "end": 6}])
        assert gone["deleted_cells"] == 2
        await them.settle()
        assert them.sources == ["0", "1", "3", "4", "6", "7"]


ORDER = """
import sys
from IPython.display import display, clear_output
print("one"); sys.stdout.flush()
print("two", file=sys.stderr); sys.stderr.flush()
shown = display("first", display_id=True)
print("bar 1\\rbar 2"); sys.stdout.flush()
shown.update("second")
"last"
"""


@requirement("nb:run:order")
async def test_outputs_keep_order_and_kind(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, [ORDER, "print('gone'); clear_output(wait=True); print('stays')"])
    async with agent() as do:
        ran = await do("execute_nb_cells", path=path, ranges=[{"start": 0, "end": 2}])
        first = ran["execution_results"][0]["outputs"]
        assert [output["output_type"] for output in first] == [
            "stream",
            "stream",
            "display_data",
            "stream",
            "execute_result",
        ]
        assert [output.get("name") for output in first[:2]] == ["stdout", "stderr"]
        assert first[2]["data"]["text/plain"] == "'second'"
        assert first[3]["text"] == "bar 2\n"
        assert [output["text"] for output in ran["execution_results"][1]["outputs"]] == ["stays\n"]
        again = (await do("read_nb_cells", path=path))["cells"][0]["outputs"]
        assert again == first


@requirement("nb:run:error")
async def test_an_error_is_an_error_and_the_rest_is_not_run(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["1", "1/0", "3"])
    async with agent() as do:
        ran = await do.failing("execute_nb_cells", path=path, ranges=[{"start": 0, "end": 3}])
        assert [run["status"] for run in ran["execution_results"]] == ["done", "error", "not_run"]
        error = ran["execution_results"][1]["error"]
        assert (error["ename"], error["evalue"], error["cell_id"]) == ("ZeroDivisionError", "division by zero", "c1")
        assert error["hint"]
        assert "\x1b" not in json.dumps(ran)
        assert ran["executed_cells"] == 2
        stored = (await do("read_nb_cells", path=path))["cells"][1]["outputs"][0]
        assert stored["output_type"] == "error"


@requirement("nb:run:input")
async def test_input_fails_at_once_and_the_kernel_goes_on(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["input('name? ')", "40 + 2"])
    async with agent() as do:
        asked = await do.failing("execute_nb_cells", path=path, ranges=[{"start": 0}])
        assert asked["execution_results"][0]["error"]["ename"] == "StdinNotImplementedError"
        ran = await do("execute_nb_cells", path=path, ranges=[{"start": 1}])
        assert ran["execution_results"][0]["outputs"][0]["data"]["text/plain"] == "42"


@requirement("nb:run:timeout", "nb:run:cancel")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_run_outlives_its_wait(agent: Any, jupyter_server: JupyterServer, folder: str, mode: str) -> None:
    path = f"{folder}/n.ipynb"
    loop = "import time\nfor n in range(600):\n    print(n, flush=True)\n    time.sleep(0.05)"
    write_notebook(jupyter_server.root, path, [loop, "'usable'"])
    async with agent(mode) as do:
        await do("execute_nb_cells", path=path, ranges=[{"start": 1}])
        begun = await do("execute_nb_cells", path=path, ranges=[{"start": 0}], timeout=1.0)
        assert begun["status"] == "running"
        assert begun["execution_results"][0]["outputs"][0]["text"].startswith("0\n1\n")
        later = await do("get_execution", execution_id=begun["execution_id"], timeout=0.5)
        assert later["status"] == "running"
        assert len(texts(later)[0]) > len(texts(begun)[0])
        ended = await do("cancel_execution", execution_id=begun["execution_id"])
        assert ended["status"] == "interrupted"
        assert texts(ended)[0].startswith("0\n1\n")
        ran = await do("execute_nb_cells", path=path, ranges=[{"start": 1}])
        assert ran["execution_results"][0]["outputs"][0]["data"]["text/plain"] == "'usable'"


@requirement("nb:run:mcp-cancel", "nb:run:progress")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_cancelling_the_request_interrupts_the_kernel_and_leaving_does_not(
    agent: Any, jupyter_server: JupyterServer, folder: str, mode: str
) -> None:
    path = f"{folder}/n.ipynb"
    loop = "import time\nfor n in range(600):\n    print('step', n, flush=True)\n    time.sleep(0.05)"
    write_notebook(jupyter_server.root, path, ["'warm'", loop])

    async def second(do: Any) -> dict[str, Any]:
        return (await do("read_nb_cells", path=path, ranges=[{"start": 1}]))["cells"][0]

    def is_interrupted(cell: dict[str, Any]) -> bool:
        return any(output.get("name") == "KeyboardInterrupt" for output in cell["outputs"])

    async with agent(mode) as do:
        await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
        told: list[str] = []
        begun = anyio.Event()

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            del progress, total
            told.append(message or "")
            if "step" in told[-1]:
                begun.set()

        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                arguments = {"path": path, "ranges": [{"start": 0, "end": 2}]}
                await do.client.call_tool("execute_nb_cells", arguments, progress_callback=progress)

            tasks.start_soon(call)
            with anyio.fail_after(20):
                await begun.wait()
            tasks.cancel_scope.cancel()
        assert told[-1].startswith("cell 2 of 2: step ")
        if mode == "auto":
            # To close a request is all that a client of this era can do, whether it gives up or lost its way: the run goes on.
            with anyio.fail_after(20):
                while (cell := await second(do))["outputs"][0]["text"].count("step") < len(told) + 20:
                    assert not is_interrupted(cell)
            await do("interrupt_nb_kernel", path=path)
        with anyio.fail_after(20):
            while not is_interrupted(await second(do)):
                pass


@requirement("nb:run:images", "nb:resources")
async def test_pictures_are_pictures(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()"
    write_notebook(jupyter_server.root, path, [plot])
    async with agent() as do:
        result = await do.whole("execute_nb_cells", path=path, ranges=[{"start": 0}], timeout=90)
        assert [block.type for block in result.content] == ["text", "image"]
        picture = base64.b64decode(result.content[1].data)
        assert picture.startswith(b"\x89PNG")
        assert len(result.content[0].text) < 2_000
        place = result.structured_content["execution_results"][0]["outputs"][0]["data"]["image/png"]["resource"]
        (content,) = (await do.client.read_resource(place)).contents
        assert content.mime_type == "image/png"
        assert base64.b64decode(content.blob).startswith(b"\x89PNG")
        (outline,) = (await do.client.read_resource(f"jupyter://{path}")).contents
        assert outline.text.startswith("0 c0 code [1] 3L 1out | import matplotlib")
        (source,) = (await do.client.read_resource(f"jupyter://{path}/cells/c0")).contents
        assert source.text == plot
        for wrong in (
            f"jupyter://{path}/cells/zz",
            f"jupyter://{path}/cells/c0/outputs/9",
            f"jupyter://{folder}/no.ipynb",
        ):
            with pytest.raises(MCPError) as caught:
                await do.client.read_resource(wrong)
            assert caught.value.error.code == -32602
        with pytest.raises(MCPError) as caught:
            await do.client.read_resource("jupyter://nothing")
        assert caught.value.error.code == -32600


@requirement("nb:run:flood")
async def test_a_flood_stays_within_the_budget(tmp_path: Path) -> None:
    """In our own server: one with Jupyter's default limits drops such output before anybody sees it."""
    write_notebook(tmp_path / "root", "n.ipynb", ["for _ in range(200):\n    print('x' * 99_999)\nprint('the end')"])
    async with stdio_client(tmp_path) as client:
        do = Agent(client)
        result = await do.whole("execute_nb_cells", path="n.ipynb", ranges=[{"start": 0}], timeout=90)
        assert not result.is_error
        assert estimate_tokens(result.content[0].text) <= DEFAULT_TOKENS
        ran = result.structured_content["execution_results"][0]
        assert ran["truncated"] is True
        assert ran["omitted"]
        assert ran["outputs"][-1]["text"].endswith("the end\n")
        assert (await do("get_nb_stat", path="n.ipynb"))["cell_count"] == 1
        read = await do.whole("read_nb_cells", path="n.ipynb")
        assert estimate_tokens(read.content[0].text) <= DEFAULT_TOKENS


@requirement("nb:run:owner")
async def test_an_execution_is_its_owners(
    agent: Any, ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["1"])
    state = ours.log.parent / "state"
    token = await _token(state, "other", "read,write,run")
    async with agent() as do:
        ran = await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
        async with http_client(HttpServer(ours.process, ours.url, token, ours.log)) as client:
            other = Agent(client)
            error = (await other.failing("get_execution", execution_id=ran["execution_id"]))["error"]
            assert error["code"] == "NOT_FOUND"


async def _token(state: Path, name: str, scopes: str) -> str:
    command = [
        sys.executable,
        "-m",
        "cellwright",
        "token",
        "create",
        name,
        "--scopes",
        scopes,
        "--state-dir",
        str(state),
    ]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    return output.decode().split()[0]


@requirement("nb:scope")
async def test_a_token_without_run_edits_and_runs_nothing(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    file = write_notebook(jupyter_server.root, path, ["1"])
    token = await _token(ours.log.parent / "state", "editor", "read,write")
    async with http_client(HttpServer(ours.process, ours.url, token, ours.log)) as client:
        do = Agent(client)
        change = {"range": {"start": 0}, "content": "open('proof', 'w')"}
        error = (await do.failing("modify_nb_cells", path=path, modifications=[change]))["error"]
        assert error["code"] == "INSUFFICIENT_SCOPE"
        assert (await do("read_nb_cells", path=path))["cells"][0]["source"] == "1"
        await do("modify_nb_cells", path=path, modifications=[change], exec=False)
        assert "execute_nb_cells" not in {tool.name for tool in (await client.list_tools()).tools}
        assert not (file.parent / "proof").exists()


@requirement("nb:restart", "nb:kernels")
async def test_restarting_loses_variables_and_runs_again(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["x = globals().get('x', 0) + 1\nx"])
    async with agent() as do:
        for expected in ("1", "2"):
            ran = await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
            assert ran["execution_results"][0]["outputs"][0]["data"]["text/plain"] == expected
        again = await do("restart_nb_kernel", path=path)
        assert again["kernel_restarted"] is True
        assert again["cells_executed"] is True
        assert again["execution_results"][0]["outputs"][0]["data"]["text/plain"] == "1"
        quiet = await do("restart_nb_kernel", path=path, exec=False, clear_outputs=True)
        assert quiet["cells_executed"] is False
        cell = (await do("read_nb_cells", path=path))["cells"][0]
        assert cell["outputs"] == []
        assert cell["source"].startswith("x = globals()")
        kernels = (await do("list_available_kernels"))["kernels"]
        assert kernels[0].keys() >= {"name", "display_name", "language", "path", "default", "from"}
        error = (await do.failing("assign_nb_kernel", path=path, kernel_name="cobol"))["error"]
        assert "python3" in str(error)
        assert (await do("assign_nb_kernel", path=path, kernel_name="python3"))["kernel_assigned"] is True


@requirement("nb:edit")
async def test_a_literal_edit(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1\nb = 1\nc = 2"])
    async with agent() as do:
        done = await do("edit_nb_cell", path=path, cell="c0", old="c = 2", new="c = 3")
        assert "-c = 2" in done["diff"]
        assert "+c = 3" in done["diff"]
        for wrong in ({"old": "= 1"}, {"old": "zzz"}, {"old": ""}):
            error = await do.failing("edit_nb_cell", path=path, cell=0, new="", **wrong)
            assert error["error"]["hint"] or error["error"]["message"]
        assert (await do("read_nb_cells", path=path))["cells"][0]["source"] == "a = 1\nb = 1\nc = 3"
        assert (await do("edit_nb_cell", path=path, cell=0, old="= 1", new="= 5", replace_all=True))["replaced"] == 2


@requirement("nb:move")
async def test_moving_keeps_ids_and_outputs(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["print(0)", "1", "2", "3"])
    async with agent() as do, person(path) as them:
        await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
        await do("move_nb_cells", path=path, ranges=[{"start": 0, "end": 2}], position=-1)
        cells = (await do("read_nb_cells", path=path))["cells"]
        assert [cell["id"] for cell in cells] == ["c2", "c3", "c0", "c1"]
        assert cells[2]["outputs"][0]["text"] == "0\n"
        await them.settle()
        assert them.sources == ["2", "3", "print(0)", "1"]


@requirement("nb:modify:expect", "nb:move")
async def test_a_move_of_a_cell_that_changed_is_refused(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["x = 1", "y = 2"])
    async with agent() as do, person(path) as them:
        cells = (await do("read_nb_cells", path=path))["cells"]
        expect = {cell["id"]: cell["revision"] for cell in cells}
        them.text_of(0).insert(5, "00")
        await them.settle()
        moving: dict[str, Any] = {"path": path, "ranges": [{"start": 0}], "position": -1}
        error = await do.error("move_nb_cells", **moving, expect={"c0": expect["c0"]})
        assert error["code"] == "CONFLICT"
        assert "x = 100" in json.dumps(error)
        not_named = await do.error("move_nb_cells", **moving, expect={"c1": expect["c1"]})
        assert not_named["code"] == "INVALID_ARGUMENT"
        assert them.sources == ["x = 100", "y = 2"]
        await do("move_nb_cells", **moving, expect={"c0": error["details"]["revision"]})
        await them.settle()
        assert them.sources == ["y = 2", "x = 100"]


@requirement("nb:undo")
async def test_undo_takes_back_only_ones_own(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["x", "y"])
    async with agent() as do, person(path) as them:
        await do("edit_nb_cell", path=path, cell=0, old="x", new="agent")
        them.text_of(1).insert(0, "person ")
        await them.settle()
        await do("undo_nb_edit", path=path)
        await them.settle()
        assert them.sources == ["x", "person y"]
        assert (await do.failing("undo_nb_edit", path=path))["error"]["message"]


@requirement("nb:search")
async def test_search_in_many_notebooks(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    write_notebook(jupyter_server.root, f"{folder}/a.ipynb", ["needle = 1"])
    write_notebook(jupyter_server.root, f"{folder}/b.ipynb", ["print('nee' + 'dle 42')"])
    write_notebook(jupyter_server.root, f"{folder}/c.ipynb", ["nothing"])
    async with agent() as do, person(f"{folder}/c.ipynb") as them:
        await do("execute_nb_cells", path=f"{folder}/b.ipynb", ranges=[{"start": 0}])
        await do("get_nb_stat", path=f"{folder}/c.ipynb")
        them.text_of(0).insert(0, "NEEDLE typed, not saved: ")
        await them.settle()
        found = await do("search_nbs", query="needle", path=folder)
        places = {(hit["path"].rpartition("/")[2], hit["where"]) for hit in found["hits"]}
        assert places == {("a.ipynb", "source"), ("b.ipynb", "output"), ("c.ipynb", "source")}
        numbers = await do("search_nbs", query=r"needle \d+", regex=True, path=folder, where="outputs")
        assert [hit["snippet"] for hit in numbers["hits"]] == ["needle 42"]
        assert (await do.failing("search_nbs", query="(", regex=True))["error"]["code"] == "INVALID_ARGUMENT"


@requirement("nb:search:large")
async def test_a_file_too_large_to_be_searched_is_named(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    write_notebook(jupyter_server.root, f"{folder}/small.ipynb", ["needle"])
    with (jupyter_server.root / folder / "enormous.ipynb").open("wb") as file:
        file.truncate(60_000_000)
    async with agent() as do:
        found = await do("search_nbs", query="needle", path=folder)
        assert [hit["path"] for hit in found["hits"]] == [f"{folder}/small.ipynb"]
        assert (found["unread"], found["searched"]) == ([f"{folder}/enormous.ipynb"], 1)


class WatchedAnswer(RestAnswer):
    """Tells where it was decoded."""

    __slots__ = ("decoded_in",)
    decoded_in: list[threading.Thread]

    def json(self, bounds: JsonBounds = JSON_BOUNDS) -> Any:
        self.decoded_in.append(threading.current_thread())
        return super().json(bounds)


class WatchedRest(Rest):
    def __init__(self, address: JupyterAddress) -> None:
        super().__init__(address)
        self.decoded_in: list[threading.Thread] = []

    async def probe(self, *given: Any, **named: Any) -> RestAnswer:
        answer = await super().probe(*given, **named)
        watched = WatchedAnswer(answer.status, answer.headers, answer.body)
        watched.decoded_in = self.decoded_in
        return watched


@requirement("nb:search:large")
async def test_a_large_file_is_decoded_where_it_keeps_nobody_waiting(
    jupyter_server: JupyterServer, folder: str
) -> None:
    write_notebook(jupyter_server.root, f"{folder}/large.ipynb", ["x" * 1_000_000])
    rest = WatchedRest(JupyterAddress.parse(jupyter_server.url, token=Secret(jupyter_server.token)))
    try:
        read = await Contents(rest).read(DocPath(f"{folder}/large.ipynb"), FileKind.NOTEBOOK)
    finally:
        await rest.close()
    assert len(read.content["cells"][0]["source"]) == 1_000_000
    assert threading.main_thread() not in rest.decoded_in[1:]
    assert len(rest.decoded_in) == 2


@requirement("nb:variables", "nb:complete")
async def test_looking_into_the_kernel(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["import json\nrows = list(range(1000))\nname = 'Ada'"])
    async with agent() as do:
        missing = (await do.failing("inspect_variables", path=path))["error"]
        assert missing["code"] == "NOT_FOUND"
        await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
        seen = (await do("inspect_variables", path=path))["variables"]
        assert set(seen) == {"rows", "name"}
        assert seen["rows"]["length"] == 1000
        assert len(seen["rows"]["value"]) <= 300
        assert seen["name"]["value"] == "'Ada'"
        assert (await do("inspect_variables", path=path, names=["name", "none"]))["variables"]["none"] is None
        matches = (await do("complete_code", path=path, code="json.dum"))["matches"]
        assert any(match.endswith("dumps") for match in matches)


@requirement("nb:missing")
async def test_a_missing_notebook_harms_nobody(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["x"])
    async with agent() as do, person(path) as them:
        await do("read_nb_cells", path=path)
        for tool, more in (
            ("read_nb_cells", {}),
            ("get_nb_stat", {}),
            ("execute_nb_cells", {"ranges": [{"start": 0}]}),
        ):
            error = (await do.failing(tool, path=f"{folder}/none.ipynb", **more))["error"]
            assert error["code"] == "NOT_FOUND"
        them.text_of(0).insert(0, "still live ")
        await them.settle()
        assert (await do("read_nb_cells", path=path))["cells"][0]["source"] == "still live x"


@requirement("nb:names")
@pytest.mark.parametrize("name", ["with space", "emoji 🙂", "sharp#", "per%cent", "per%2Fcent", "question?", "größe"])
async def test_odd_names(agent: Any, jupyter_server: JupyterServer, folder: str, name: str) -> None:
    path = f"{folder}/{name}/{name}.ipynb"
    write_notebook(jupyter_server.root, path, ["x = 1"])
    async with agent() as do:
        refused = "%2F" in name
        if refused:
            assert (await do.failing("read_nb_cells", path=path))["error"]["code"] == "INVALID_ARGUMENT"
            return
        await do("edit_nb_cell", path=path, cell=0, old="1", new="2")
        assert (await do("read_nb_cells", path=path))["cells"][0]["source"] == "x = 2"
        listed = (await do("list_nbs", path=folder))["notebooks"]
        assert [entry["path"] for entry in listed] == [path]
        url = f"{jupyter_server.url}/lab/tree/{quote(path)}"
        assert (await do("nb_path_from_url", url=url))["notebook_path"] == path


@requirement("nb:watch")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_persons_edit_reaches_a_watching_agent(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str, person: PersonIn, mode: str
) -> None:
    path = f"{folder}/n.ipynb"
    uri = f"jupyter://{path}/cells/c1"
    write_notebook(jupyter_server.root, path, ["x", "y"])
    heard: list[str] = []

    def note(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.append(str(message.params.uri))

    async with person(path) as them, http_client(ours, mode, on_message=note) as client:
        if mode == "legacy":
            await client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]
            them.text_of(0).insert(0, "not watched ")
            them.text_of(1).insert(0, "watched ")
            await eventually(lambda: bool(heard), "the notification")
        else:
            async with client.listen(resource_subscriptions=[uri]) as events:
                them.text_of(0).insert(0, "not watched ")
                them.text_of(1).insert(0, "watched ")
                with anyio.fail_after(20):
                    heard.append(getattr(await anext(events), "uri", ""))
        assert heard[0] == uri


@requirement("nb:outline:tokens")
async def test_the_outline_of_200_cells_is_cheap(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    lines = [
        f"result_{number} = compute_something(data[{number}], option='value')  # a comment\n" * 5
        for number in range(200)
    ]
    write_notebook(jupyter_server.root, path, lines)
    async with agent() as do:
        result = await do.whole("get_nb_stat", path=path, outline=True)
        assert len(result.structured_content["outline"]) == 200
        assert estimate_tokens(result.content[0].text) <= 5_000


@requirement("nb:two-agents")
@pytest.mark.long(20)
async def test_two_agents_on_two_notebooks_do_not_meet(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    paths = [f"{folder}/{name}.ipynb" for name in ("one", "two")]
    for path in paths:
        write_notebook(jupyter_server.root, path, ["start"])

    async def work(path: str, mark: str, mode: str) -> None:
        async with agent(mode) as do:
            for number in range(250):
                await do(
                    "edit_nb_cell",
                    path=path,
                    cell=0,
                    old="start" if number == 0 else f"{mark}{number - 1}",
                    new=f"{mark}{number}",
                )
                cells = (await do("read_nb_cells", path=path))["cells"]
                assert [cell["source"] for cell in cells] == [f"{mark}{number}"]

    await asyncio.gather(work(paths[0], "one-", "auto"), work(paths[1], "two-", "legacy"))


@requirement("nb:embedded")
async def test_an_embedded_server_is_started_on_demand_and_gone_afterwards(tmp_path: Path) -> None:
    import psutil  # noqa: PLC0415

    root = tmp_path / "root"
    write_notebook(root, "n.ipynb", ["21 * 2"])
    before = {process.pid for process in psutil.process_iter()}

    def strays() -> list[str]:
        """Our processes: other tests have servers of their own at the same time."""
        found: list[str] = []
        for process in psutil.process_iter():
            if process.pid in before:
                continue
            try:
                line = " ".join(process.cmdline())
                told = [line, *process.environ().values(), process.cwd()]
            except psutil.Error:
                continue
            if any(str(tmp_path) in text for text in told):
                found.append(line)
        return found

    async with stdio_client(tmp_path) as client:
        do = Agent(client)
        assert "not connected" in str((await do("workspace_status"))["parts"])
        ran = await do("execute_nb_cells", path="n.ipynb", ranges=[{"start": 0}])
        assert ran["execution_results"][0]["outputs"][0]["data"]["text/plain"] == "42"
        assert "embedded" in str((await do("workspace_status"))["parts"])
        assert len(strays()) > 1, "they can be told from those of others"

    await eventually(lambda: strays() == [], "nothing left behind", 20)
    assert json.loads((root / "n.ipynb").read_text(encoding="utf-8"))["cells"][0]["execution_count"] == 1
