"""Thinking notebooks that run: a real kernel each, through a real server and the official client."""

import asyncio
import json
import os
import re
import signal
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from cellwright.app.workspace import Workspace
from cellwright.core.errors import LimitReached, NotFound
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.notebook.model import Kind
from cellwright.notebook.run import Kernels, RunStatus
from cellwright.thinking.drafts import CellDraft
from cellwright.thinking.kernels import MADE_ROOM, NEW_KERNEL
from cellwright.thinking.resources import ThinkingResources
from cellwright.thinking.runs import StartedRun
from cellwright.thinking.service import Thinking
from jupyter_support import JupyterServer
from notebook_agent import Agent, agent_of
from requirements import requirement
from support import TOKEN, HttpServer, http_server
from thinking_support import Clock, Opening

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

PLENTY = 60_000
ANN = Call(Principal("ann", ALL_SCOPES))
ENDLESS = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.05)"


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
        assert (failed["status"], failed["results"][0]["error"]["ename"]) == ("error", "ZeroDivisionError")
        assert texts(failed["results"][0]) == "before\n"
        asked = await agent.failing("notebook_run_cell", notebookId=notebook_id, cellId=cells[4], timeoutMs=PLENTY)
        assert asked["results"][0]["error"]["ename"] == asked["results"][0]["outputs"][-1]["ename"]
        assert asked["results"][0]["error"]["ename"] == "StdinNotImplementedError"
        died = await agent.failing("notebook_run_cell", notebookId=notebook_id, cellId=cells[5], timeoutMs=PLENTY)
        assert died["status"] == "died"
        assert "last words" in texts(died["results"][0])
        again = await run(agent, notebook_id, cells[0])
        assert again["status"] == "done"
        assert any("variables" in note for note in again["notes"])
        meta = (await agent.resource(again["uri"])).meta
        assert (meta["totalExecutions"], meta["hasErrors"]) == (7, True)
        await agent("notebook_close", notebookId=notebook_id)


def characters_there_were(outputs: list[Any]) -> int:
    """By what the cut outputs, and the note on those that are missing, say of themselves."""
    total = 0
    for output in outputs:
        text = texts({"outputs": [output]})
        if all_of_it := re.search(r"(?: of|\[cellwright:) ([\d,]+) characters left out", text):
            total += int(all_of_it[1].replace(",", ""))
        elif cut := re.search(r"(?:(?<=\d{9}\n)|(?<!\d{9})\n)… ([\d,]+) characters \(.*\) left out …\n", text):
            total += int(cut[1].replace(",", "")) + len(text) - len(cut[0])
    return total


@requirement("truth:cut:file", "truth:cut:flags")
async def test_what_a_notebook_did_not_keep_is_counted_when_it_is_read(server: HttpServer) -> None:
    """Four million characters: more than a run holds, more than a notebook keeps, more than an answer shows."""
    async with agent_of(server) as agent:
        notebook_id, (long, wide, raising) = await notebook_of(
            agent,
            "for number in range(400_000): print(f'{number:09}')",
            "for number in range(3_000): display(number)",
            "raise ValueError('x' * 300_000)",
        )
        ran = await run(agent, notebook_id, long)
        read = await agent("notebook_read", notebookId=notebook_id, cellId=long)
        for shown in (ran["results"][0], read["cells"][0]):
            assert characters_there_were(shown["outputs"]) == 4_000_000
            assert shown["truncated"] is True
            assert shown["outputs"][-1]["text"].endswith("000399999\n")
        ran = await run(agent, notebook_id, wide)
        assert any("items left out" in str(output) for output in ran["results"][0]["outputs"])
        assert ran["results"][0]["truncated"] is True
        await agent.failing("notebook_run_cell", notebookId=notebook_id, cellId=raising, timeoutMs=PLENTY)
        read = (await agent("notebook_read", notebookId=notebook_id, cellId=raising))["cells"][0]
        assert characters_there_were([{"text": read["outputs"][0]["evalue"]}]) == 300_000
        assert read["truncated"] is True
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
    async with agent_of(server) as agent:
        notebook_id, cells = await notebook_of(agent, "1", ENDLESS)
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


async def code_cells(thinking: Thinking, *sources: str) -> tuple[str, list[str]]:
    notebook_id = (await thinking.create(ANN, None, None, "python", None)).notebook.id
    drafts = [CellDraft(source, Kind.CODE) for source in sources]
    return notebook_id, [(await thinking.add_cell(ANN, notebook_id, draft, None)).cell.id for draft in drafts]


def printed(ran: StartedRun) -> str:
    return "".join(output.get("text", "") for cell in ran.view.cells for output in cell.outputs)


@requirement("thinking:kernels", "thinking:resources:read-only")
async def test_few_kernels_and_idle_ones_end(
    thinking_jupyter: JupyterServer, make_workspace_at: Callable[..., Workspace]
) -> None:
    before = kernels_of(thinking_jupyter)
    thinking = make_workspace_at(thinking_max_kernels=1, thinking_kernel_idle=0.015).thinking
    first, (cell, busy) = await code_cells(thinking, "x = 1", "import time\ntime.sleep(1.2)\nprint(x)")
    second, (other,) = await code_cells(thinking, "1")
    assert (await thinking.run(ANN, first, cell, 60)).view.status is RunStatus.DONE
    # A kernel that works is not idle, however long it takes. Nor does reading use it, however often.
    assert printed(await thinking.run(ANN, first, busy, 60)) == "1\n"
    with anyio.fail_after(30):
        while await anyio.to_thread.run_sync(kernels_of, thinking_jupyter) - before:
            await thinking.text(ANN, first, "cells")
    assert (await thinking.run(ANN, second, other, 60)).view.status is RunStatus.DONE
    await thinking.close_notebook(ANN, second)
    lost = await thinking.run(ANN, first, cell, 60)
    assert (lost.view.status, lost.notes) == (RunStatus.DONE, [NEW_KERNEL])
    await thinking.close()
    assert kernels_of(thinking_jupyter) == before


@requirement("thinking:restart")
async def test_a_kernel_on_somebodys_jupyter_outlives_us_and_is_found_again(
    make_running: Callable[[], Thinking],
) -> None:
    first, second = make_running(), make_running()
    notebook_id, cells = await code_cells(first, "x = 41", "print('x' in globals())")
    await first.run(ANN, notebook_id, cells[0], 60)
    found = (await second.read(ANN, notebook_id)).notebook
    assert second.kernel_state("ann", found) == "unknown"
    again = await second.run(ANN, notebook_id, cells[1], 60)
    assert (printed(again), again.notes) == ("True\n", [])
    assert second.kernel_state("ann", found) == "live"
    await second.close_notebook(ANN, notebook_id)


@requirement("thinking:restart", "thinking:durable")
async def test_kill_and_restart_with_a_jupyter_of_our_own(tmp_path: Path) -> None:
    """An embedded Jupyter ends with us, kernels and all: what was written is back, and the reply says what is not."""
    alone = {"JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    flags = ("--toolsets", "thinking", "--rate", "0")
    with http_server(tmp_path, *flags, environ=alone) as server:
        async with agent_of(server) as agent:
            notebook_id, cells = await notebook_of(agent, "x = 41\nprint('kept')", "print('x' in globals())")
            done = await run(agent, notebook_id, cells[0])
            assert done["status"] == "done"
            kill(server)
    with http_server(tmp_path, *flags, environ=alone) as server:
        async with agent_of(server) as agent:
            await check_found_again(agent, done)
            lost = await run(agent, notebook_id, cells[1])
            assert (lost["status"], texts(lost["results"][0])) == ("done", "False\n")
            assert any("variables of earlier runs are gone" in note for note in lost["notes"])


def kill(server: HttpServer) -> None:
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait(10)


async def check_found_again(agent: Agent, done: Any) -> None:
    found = json.loads((await agent.resource(f"{done['uri']}/cells")).text)
    assert [cell["source"] for cell in found] == ["x = 41\nprint('kept')", "print('x' in globals())"]
    assert found[0]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "kept\n"}]
    assert json.loads((await agent.resource(done["executionUri"])).text)["status"] == "done"


@requirement("thinking:run:cancel")
async def test_a_client_that_cancels_stops_its_run(server: HttpServer) -> None:
    async with agent_of(server, "legacy") as agent, agent_of(server) as other:
        notebook_id, cells = await notebook_of(agent, "x = 1", ENDLESS, "print(x)")
        uri = (await run(agent, notebook_id, cells[0]))["uri"]

        async def status() -> str:
            return (await other.resource(f"{uri}/cells/{cells[1]}")).meta["status"]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(run, agent, notebook_id, cells[1]))
            with anyio.fail_after(20):
                while await status() != "running":
                    pass
            tasks.cancel_scope.cancel()
        with anyio.fail_after(20):
            while await status() == "running":
                pass
        assert await status() == "failed"
        stopped = json.loads((await other.resource(f"{uri}/cells")).text)[1]
        assert stopped["outputs"][-1]["ename"] == "KeyboardInterrupt"
        after = await run(agent, notebook_id, cells[2])
        assert (after["status"], texts(after["results"][0])) == ("done", "1\n")
        await agent("notebook_close", notebookId=notebook_id)


@requirement("thinking:run:lost")
async def test_a_run_outlives_a_caller_who_may_only_have_lost_the_connection(
    make_running: Callable[[], Thinking], tmp_path: Path
) -> None:
    thinking, gate = make_running(), tmp_path / "gate"
    waiting = (
        f"import pathlib, time\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.02)\nprint('through')"
    )
    notebook_id, (cell,) = await code_cells(thinking, waiting)

    async def now() -> tuple[str, str]:
        found = (await thinking.read(ANN, notebook_id)).cells[0]
        return found.status, "".join(output.get("text", "") for output in found.outputs)

    call = asyncio.create_task(thinking.run(replace(ANN, may_have_left=True), notebook_id, cell, 60))
    with anyio.fail_after(20):
        while (await now())[0] != "running":
            pass
    call.cancel()
    await asyncio.wait({call}, timeout=20)
    assert call.cancelled()
    gate.touch()
    with anyio.fail_after(20):
        while (await now())[0] == "running":
            pass
    assert await now() == ("idle", "through\n")
    await thinking.close_notebook(ANN, notebook_id)


class SlowStart:
    """Real kernels, of which one that was started is not given out before the test says so."""

    def __init__(self, real: Kernels) -> None:
        self.real = real
        self.started, self.go = asyncio.Event(), asyncio.Event()

    async def start(self, call: Call, language: str) -> str:
        kernel = await self.real.start(call, language)
        self.started.set()
        await self.go.wait()
        return kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@requirement("thinking:kernels:starting")
@pytest.mark.parametrize("how", ["closed", "cancelled"])
async def test_a_kernel_that_starts_for_nobody_is_shut_down(
    thinking_jupyter: JupyterServer,
    opening: Opening,
    make_workspace_at: Callable[..., Workspace],
    tmp_path: Path,
    how: str,
) -> None:
    before = kernels_of(thinking_jupyter)
    slow = SlowStart(make_workspace_at().thinking.kernels)
    async with opening(tmp_path / "state" / "cellwright.db") as make:
        thinking = make(cast("Kernels", slow), None)
        notebook_id, (cell,) = await code_cells(thinking, "1")
        call = asyncio.create_task(thinking.run(ANN, notebook_id, cell, 60))
        await asyncio.wait_for(slow.started.wait(), 30)
        assert len(kernels_of(thinking_jupyter) - before) == 1
        if how == "closed":
            await thinking.close_notebook(ANN, notebook_id)
        else:
            call.cancel()
            await asyncio.wait({call}, timeout=30)
        slow.go.set()
        await asyncio.wait({call}, timeout=30)
        assert call.cancelled() if how == "cancelled" else isinstance(call.exception(), NotFound)
        with anyio.fail_after(20):
            while await anyio.to_thread.run_sync(kernels_of, thinking_jupyter) - before:
                pass


@requirement("thinking:run:progress")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_running_all_tells_how_far_it_is(server: HttpServer, mode: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with agent_of(server, mode) as agent:
        slow = "import time\nprint('{}', flush=True)\ntime.sleep(0.7)"
        notebook_id, _ = await notebook_of(agent, slow.format("one"), slow.format("two"))
        arguments = {"notebookId": notebook_id, "timeoutMs": PLENTY}
        ran: Any = await agent.client.call_tool("notebook_run_all", arguments, progress_callback=note)
        assert ran.structured_content["status"] == "done"
        await agent("notebook_close", notebookId=notebook_id)
    assert [message for _, _, message in told if message and message.endswith(("one", "two"))] == [
        "cell 1 of 2: one",
        "cell 2 of 2: two",
    ]
    values = [progress for progress, _, _ in told]
    assert values == sorted(set(values))
    assert {total for _, total, _ in told} == {2}


@requirement("thinking:ttl", "thinking:run:ttl")
async def test_a_run_that_outlives_the_time_to_live_keeps_its_notebook(
    make_running: Callable[[], Thinking], clock: Clock, tmp_path: Path
) -> None:
    thinking = make_running()
    go_on = tmp_path / "go-on"
    waiting = f"import os, time\nprint('begun', flush=True)\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.02)\nprint('end')"
    notebook_id, (cell,) = await code_cells(thinking, waiting)
    running = asyncio.create_task(thinking.run(ANN, notebook_id, cell, 60))
    with anyio.fail_after(30):
        while (await thinking.read(ANN, notebook_id)).cells[0].status != "running":
            pass
    for _ in range(3):
        clock.now += 3_600
        assert await thinking.sweep() == 0
        assert [one.id for one in await thinking.all_of(ANN)] == [notebook_id]
    go_on.touch()
    assert printed(await running) == "begun\nend\n"
    # From its end on it has its time as any other.
    clock.now += 1_700
    assert await thinking.sweep() == 0
    clock.now += 101
    assert await thinking.sweep() == 1


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
        for path in ("kept.ipynb", "../out.ipynb", "/../x.ipynb", ".hidden/x.ipynb", "x.txt", "file:///x.ipynb"):
            assert (await agent.error("notebook_keep", notebookId=notebook_id, path=path))["code"]
        # A path is one of the Jupyter server, whatever it begins with; folders are made on the way.
        deep = await agent("notebook_keep", notebookId=notebook_id, path="/etc/kept.ipynb")
        assert deep["path"] == "etc/kept.ipynb"
        assert (thinking_jupyter.root / "etc" / "kept.ipynb").is_file()
        await agent("notebook_keep", notebookId=notebook_id, path="scratchpad://kept-pad")
        pad = await agent("scratch_read", scratch_id="kept-pad")
        assert [cell["content"] for cell in pad["scratchpad"]["cells"]] == ["print('kept')"]
        error = await agent.error("notebook_keep", notebookId=notebook_id, path="scratchpad://kept-pad")
        # Of what the tool has no argument for, nothing is said.
        assert (error["code"], error["hint"]) == ("CONFLICT", "give another place: keeping overwrites nothing")
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
        f"print('{TOKEN[:9]}' + '{TOKEN[9:]}')\n"
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
            for bad in (TOKEN, "\x1b", "\\u001b", "\u202e", "\u200b", "\U000e0041", "\x00", "\\u0000"):
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


@requirement("thinking:kernels:room")
async def test_the_notebook_that_was_idle_longest_makes_room(
    thinking_jupyter: JupyterServer, make_workspace_at: Callable[..., Workspace]
) -> None:
    before = kernels_of(thinking_jupyter)
    workspace = make_workspace_at(thinking_max_kernels=2)
    thinking = workspace.thinking
    first, (make, look) = await code_cells(thinking, "x = 1", "print('x' in globals())")
    second, (other, endless) = await code_cells(thinking, "y = 2", ENDLESS)
    third, (one,) = await code_cells(thinking, "print(3)")
    for notebook_id, cell in ((first, make), (second, other), (third, one)):
        assert (await thinking.run(ANN, notebook_id, cell, 60)).view.status is RunStatus.DONE
    assert len(kernels_of(thinking_jupyter) - before) == 2

    found = (await thinking.read(ANN, first)).notebook
    assert (thinking.kernel_state("ann", found), thinking.kernel_note("ann", found)) == ("gone", MADE_ROOM)
    (content,) = await ThinkingResources(thinking).read(ANN, found.uri)
    assert (content.meta or {})["kernelNote"] == MADE_ROOM
    assert thinking.kernel_note("ann", (await thinking.read(ANN, second)).notebook) == ""

    # The second is at work, so it is the third that makes room, though it was used later.
    await thinking.run(ANN, second, endless, 0)
    lost = await thinking.run(ANN, first, look, 60)
    assert (printed(lost), lost.notes) == ("False\n", [MADE_ROOM])
    assert thinking.kernel_note("ann", found) == ""
    assert thinking.kernel_note("ann", (await thinking.read(ANN, third)).notebook) == MADE_ROOM
    again = await thinking.run(ANN, first, look, 60)
    assert again.notes == []

    await thinking.run(ANN, first, (await added(thinking, first, ENDLESS)), 0)
    with pytest.raises(LimitReached, match="--thinking-max-kernels") as refused:
        await thinking.run(ANN, third, one, 60)
    assert set(refused.value.details["notebooks"]) == {first, second}  # pyright: ignore[reportArgumentType]
    assert "cancel_execution" in refused.value.hint
    await thinking.close_notebook(ANN, second)
    assert printed(await thinking.run(ANN, third, one, 60)) == "3\n"
    await thinking.close()
    assert kernels_of(thinking_jupyter) == before


async def added(thinking: Thinking, notebook_id: str, source: str) -> str:
    return (await thinking.add_cell(ANN, notebook_id, CellDraft(source, Kind.CODE), None)).cell.id


@requirement("thinking:kernels:room")
async def test_many_at_once_never_have_more_kernels_than_allowed(
    thinking_jupyter: JupyterServer, make_workspace_at: Callable[..., Workspace]
) -> None:
    before = kernels_of(thinking_jupyter)
    thinking = make_workspace_at(thinking_max_kernels=2).thinking
    made = [await code_cells(thinking, f"print({number})") for number in range(4)]
    for _ in range(2):
        ran = await asyncio.gather(
            *(thinking.run(ANN, notebook_id, cells[0], 60) for notebook_id, cells in made), return_exceptions=True
        )
        for number, result in enumerate(ran):
            # Whoever came when both were at work was refused; whoever was not, ran in a kernel that was there to its end.
            assert isinstance(result, LimitReached) or printed(cast("StartedRun", result)) == f"{number}\n"
        assert any(isinstance(result, StartedRun) for result in ran)
        assert len(kernels_of(thinking_jupyter) - before) <= 2
    await thinking.close()
    assert kernels_of(thinking_jupyter) == before
