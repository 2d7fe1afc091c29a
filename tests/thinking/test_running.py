"""Thinking notebooks that run: a real kernel each, through a real server and the official client."""

import json
import os
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from jupyter_support import JupyterServer
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

PLENTY = 60_000


async def notebook_of(agent: Agent, *sources: str, **arguments: Any) -> tuple[str, list[str]]:
    notebook_id = (await agent("notebook_create", **arguments))["notebookId"]
    cells = [
        (await agent("notebook_add_cell", notebookId=notebook_id, cellType="code", source=source))["cell"]["id"]
        for source in sources
    ]
    return notebook_id, cells


async def run(agent: Agent, notebook_id: str, cell_id: str, **more: Any) -> Any:
    return (
        await agent.whole("notebook_run_cell", notebookId=notebook_id, cellId=cell_id, **{"timeoutMs": PLENTY, **more})
    ).structured_content


def texts(result: Any) -> str:
    found: list[str] = []
    for output in result["outputs"]:
        found.append(output.get("text", ""))
        found.append(str(output.get("data", {}).get("text/plain", "")))
    return "".join(found)


@requirement("thinking:run", "thinking:run:input", "thinking:reply", "thinking:run:death")
async def test_state_rich_output_errors_input_and_death(server: HttpServer) -> None:
    sources = (
        "x = 20",
        "import asyncio\nawait asyncio.sleep(0)\nprint('hi')\nx + 1",
        "from IPython.display import SVG\nSVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')",
        "print('before'); 1/0",
        "input('name?')",
        # What is printed leaves the kernel by a thread of its own, which dies with it: it is given the time to do so.
        "print('last words', flush=True)\nimport os, time; time.sleep(1); os._exit(1)",
    )
    async with agent_of(server) as agent:
        notebook_id, cells = await notebook_of(agent, *sources)
        first = await run(agent, notebook_id, cells[0])
        assert (first["status"], first["kernel"], "notes" in first) == ("done", "live", False)
        assert {"notebookId", "sessionId", "uri", "executionId"} <= first.keys()
        second = await run(agent, notebook_id, cells[1])
        assert texts(second["results"][0]) == "hi\n21"
        picture = await run(agent, notebook_id, cells[2])
        assert "image/svg+xml" in picture["results"][0]["outputs"][0]["data"]
        failed = await agent.failing("notebook_run_cell", notebookId=notebook_id, cellId=cells[3], timeoutMs=PLENTY)
        assert (failed["status"], failed["results"][0]["error"]["name"]) == ("error", "ZeroDivisionError")
        assert texts(failed["results"][0]) == "before\n"
        asked = await agent.failing("notebook_run_cell", notebookId=notebook_id, cellId=cells[4], timeoutMs=PLENTY)
        assert asked["results"][0]["error"]["name"] == "StdinNotImplementedError"
        died = await agent.failing("notebook_run_cell", notebookId=notebook_id, cellId=cells[5], timeoutMs=PLENTY)
        assert died["status"] == "died"
        assert "last words" in texts(died["results"][0])
        again = await run(agent, notebook_id, cells[0])
        assert again["status"] == "done"
        assert any("variables" in note for note in again["notes"])
        meta = (await agent.resource(again["uri"])).meta
        assert (meta["totalExecutions"], meta["hasErrors"]) == (7, True)
        await agent("notebook_close", notebookId=notebook_id)


@requirement("thinking:run:all")
async def test_run_all_stops_at_the_first_error(server: HttpServer) -> None:
    async with agent_of(server) as agent:
        notebook_id, cells = await notebook_of(agent, "a = 1", "print(a)", "raise ValueError(a)", "print('never')")
        await agent("notebook_add_cell", notebookId=notebook_id, cellType="markdown", source="# Text", index=0)
        await agent("notebook_add_cell", notebookId=notebook_id, cellType="code", source="{}", language="json", index=0)
        ran = await agent.failing("notebook_run_all", notebookId=notebook_id, timeoutMs=PLENTY)
        assert [one["status"] for one in ran["results"]] == ["done", "done", "error", "not_run"]
        assert len(ran["skipped"]) == 1
        found = json.loads((await agent.resource(f"{ran['uri']}/cells")).text)
        by_id = {cell["id"]: cell for cell in found}
        assert [by_id[cell]["status"] for cell in cells] == ["idle", "idle", "failed", "idle"]
        assert by_id[cells[3]]["outputs"] == []
        await agent("notebook_update_cell", notebookId=notebook_id, cellId=cells[2], source="print('mended')")
        mended = await agent("notebook_run_all", notebookId=notebook_id, timeoutMs=PLENTY)
        assert [one["status"] for one in mended["results"]] == ["done"] * 4
        await agent("notebook_close", notebookId=notebook_id)


@requirement("thinking:run:budget")
async def test_a_long_run_goes_on_and_can_be_stopped(server: HttpServer) -> None:
    endless = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.05)"
    async with agent_of(server) as agent:
        notebook_id, cells = await notebook_of(agent, "1", endless)
        await run(agent, notebook_id, cells[0])
        going = await agent("notebook_run_cell", notebookId=notebook_id, cellId=cells[1], timeoutMs=1_500)
        assert going["status"] == "running"
        assert texts(going["results"][0]) == "begun\n"
        live = json.loads((await agent.resource(going["executionUri"])).text)
        assert (live["status"], live["cells"][0]["outputs"][0]["text"]) == ("running", "begun\n")
        cell = await agent.resource(f"{going['uri']}/cells/{cells[1]}")
        assert (cell.meta["status"], cell.meta["hasOutputs"]) == ("running", True)
        await agent("cancel_execution", execution_id=going["executionId"])
        deadline = time.monotonic() + 20
        while (ended := json.loads((await agent.resource(going["executionUri"])).text))["status"] == "running":
            assert time.monotonic() < deadline
        assert ended["status"] == "interrupted"
        assert ended["cells"][0]["outputs"][0]["text"] == "begun\n"
        assert (await run(agent, notebook_id, cells[0]))["status"] == "done"
        await agent("notebook_close", notebookId=notebook_id)


@requirement("thinking:language")
async def test_a_language_without_a_kernel(server: HttpServer) -> None:
    async with agent_of(server) as agent:
        notebook_id, cells = await notebook_of(agent, "console.log(1)", language="javascript")
        error = await agent.error("notebook_run_cell", notebookId=notebook_id, cellId=cells[0])
        assert error["code"] == "NO_KERNEL"
        assert "python" in error["message"]
        assert "deno" in error["hint"]
        other = await notebook_of(agent, "1")
        added = await agent(
            "notebook_add_cell", notebookId=other[0], cellType="code", source="1", language="javascript"
        )
        error = await agent.error("notebook_run_cell", notebookId=other[0], cellId=added["cell"]["id"])
        assert "one kernel" in error["message"]


def kernels_of(jupyter: JupyterServer) -> set[str]:
    request = urllib.request.Request(f"{jupyter.url}/api/kernels", headers={"Authorization": f"token {jupyter.token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return {one["id"] for one in json.load(answer)}


@requirement("thinking:kernels")
async def test_few_kernels_and_idle_ones_end(thinking_jupyter: JupyterServer, tmp_path: Path) -> None:
    before = kernels_of(thinking_jupyter)
    flags = ("--toolsets", "thinking", "--thinking-max-kernels", "1", "--thinking-kernel-idle", "0.02")
    with in_front_of(thinking_jupyter, tmp_path, *flags) as server:
        async with agent_of(server) as agent:
            first, (cell, busy) = await notebook_of(agent, "x = 1", "import time\ntime.sleep(1.6)\nprint(x)")
            second, (other,) = await notebook_of(agent, "1")
            assert (await run(agent, first, cell))["status"] == "done"
            error = await agent.error("notebook_run_cell", notebookId=second, cellId=other)
            assert error["code"] == "CAPACITY_LIMIT_REACHED"
            assert error["details"]["notebooks"] == [first]
            # A kernel that works is not idle, however long it takes.
            assert texts((await run(agent, first, busy))["results"][0]) == "1\n"
            deadline = time.monotonic() + 30
            while kernels_of(thinking_jupyter) - before:
                assert time.monotonic() < deadline
            assert (await run(agent, second, other))["status"] == "done"
            await agent("notebook_close", notebookId=second)
            lost = await run(agent, first, cell)
            assert lost["status"] == "done"
            assert any("gone" in note for note in lost["notes"])
    deadline = time.monotonic() + 30
    while kernels_of(thinking_jupyter) - before:
        assert time.monotonic() < deadline


def end_kernel(jupyter: JupyterServer, kernel_id: str) -> None:
    request = urllib.request.Request(
        f"{jupyter.url}/api/kernels/{kernel_id}", method="DELETE", headers={"Authorization": f"token {jupyter.token}"}
    )
    with urllib.request.urlopen(request, timeout=20):
        pass


@requirement("thinking:restart")
async def test_kill_and_restart(thinking_jupyter: JupyterServer, tmp_path: Path) -> None:
    """A kernel on somebody's Jupyter outlives us and is found again; one that did not is told of."""
    before = kernels_of(thinking_jupyter)
    flags = ("--toolsets", "thinking")
    with in_front_of(thinking_jupyter, tmp_path, *flags) as server:
        async with agent_of(server) as agent:
            notebook_id, cells = await notebook_of(agent, "x = 41\nprint('kept')", "print('x' in globals())")
            done = await run(agent, notebook_id, cells[0])
            assert done["status"] == "done"
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait(10)
    (kernel,) = kernels_of(thinking_jupyter) - before
    with in_front_of(thinking_jupyter, tmp_path, *flags) as server:
        async with agent_of(server) as agent:
            found = json.loads((await agent.resource(f"{done['uri']}/cells")).text)
            assert [cell["source"] for cell in found] == ["x = 41\nprint('kept')", "print('x' in globals())"]
            assert found[0]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "kept\n"}]
            assert json.loads((await agent.resource(done["executionUri"])).text)["status"] == "done"
            added = await agent("notebook_add_cell", notebookId=notebook_id, cellType="markdown", source="again")
            assert added["kernel"] == "unknown"
            again = await run(agent, notebook_id, cells[1])
            assert texts(again["results"][0]) == "True\n"
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait(10)
    end_kernel(thinking_jupyter, kernel)
    with in_front_of(thinking_jupyter, tmp_path, *flags) as server:
        async with agent_of(server) as agent:
            lost = await run(agent, notebook_id, cells[1])
            assert texts(lost["results"][0]) == "False\n"
            assert any("gone" in note for note in lost["notes"])


@requirement("thinking:keep")
async def test_keeping(server: HttpServer, thinking_jupyter: JupyterServer) -> None:
    async with agent_of(server) as agent:
        notebook_id, cells = await notebook_of(agent, "print('kept')", title="To be kept")
        await run(agent, notebook_id, cells[0])
        kept = await agent("notebook_keep", notebookId=notebook_id, path="kept.ipynb")
        assert kept["keptUri"] == "jupyter://kept.ipynb"
        on_disk = json.loads((thinking_jupyter.root / "kept.ipynb").read_text(encoding="utf-8"))
        assert on_disk["cells"][0]["outputs"][0]["text"] in ("kept\n", ["kept\n"])
        live = await agent("read_nb_cells", path="kept.ipynb")
        assert live["cells"][0]["id"] == cells[0]
        for path in ("kept.ipynb", "../out.ipynb", "/etc/x.ipynb", ".hidden/x.ipynb", "x.txt", "file:///x.ipynb"):
            assert (await agent.error("notebook_keep", notebookId=notebook_id, path=path))["code"]
        await agent("notebook_keep", notebookId=notebook_id, path="scratchpad://kept-pad")
        pad = await agent("scratch_read", scratch_id="kept-pad")
        assert [cell["content"] for cell in pad["scratchpad"]["cells"]] == ["print('kept')"]
        error = await agent.error("notebook_keep", notebookId=notebook_id, path="scratchpad://kept-pad")
        assert error["code"] == "CONFLICT"
        assert (await agent.resource(kept["uri"])).text.startswith("<!-- srcbook:")
        await agent("notebook_close", notebookId=notebook_id)


@requirement("thinking:hostile")
async def test_hostile_outputs(server: HttpServer) -> None:
    # The source itself spells everything with escapes, so that what is found was put out.
    hostile = (
        "import sys\n"
        "sys.stdout.write('\\x1b[31mred\\x1b[0m \\u202egnp\\u200b\\U000e0041 nul\\x00 end\\n')\n"
        "from IPython.display import HTML, display\n"
        "display(HTML('<b>a&#8203;b</b>'))\n"
        "display({'text/plain': 'half', 'application/json': {'k\\u200b': ['\\x1b[2J']}}, raw=True)\n"
        "print('y' * 3_000_000)\n"
        "raise ValueError('\\u202e\\x1b]0;title\\x07')"
    )
    async with agent_of(server) as agent:
        notebook_id, cells = await notebook_of(agent, hostile)
        failed = await agent.failing("notebook_run_cell", notebookId=notebook_id, cellId=cells[0], timeoutMs=PLENTY)
        shown = [json.dumps(failed, ensure_ascii=False)]
        for form in ("", "/cells", "/json", "/ipynb", f"/executions/{failed['executionId']}"):
            content = await agent.resource(failed["uri"] + form)
            shown.append(content.text)
            if form in ("/cells", "/json", "/ipynb"):
                assert content.meta["hiddenCharactersRemoved"] >= 4
                assert len(content.text.encode()) < 1_300_000
        for text in shown:
            for bad in ("\x1b", "\\u001b", "\u202e", "\u200b", "\U000e0041", "\x00", "\\u0000"):
                assert bad not in text, bad
        cell = json.loads((await agent.resource(failed["uri"] + "/cells")).text)[0]
        assert "&#8203;" not in json.dumps(cell["outputs"][1]["data"])
        assert cell["outputs"][-1]["ename"] == "ValueError"
        assert "red" in cell["outputs"][0]["text"]
        await agent("notebook_close", notebookId=notebook_id)


@requirement("thinking:create", "thinking:run:all")
async def test_a_template_runs_to_its_picture(server: HttpServer) -> None:
    async with agent_of(server) as agent:
        made = await agent("notebook_create", pattern="tree_of_thought")
        ran = await agent("notebook_run_all", notebookId=made["notebookId"], timeoutMs=PLENTY)
        assert {one["status"] for one in ran["results"]} == {"done"}
        await agent("notebook_close", notebookId=made["notebookId"])
