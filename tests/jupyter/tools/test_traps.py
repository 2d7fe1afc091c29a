"""What goes wrong in real life, through the tools: each trap here has caught a server of this kind before."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from cellwright.core.errors import Conflict
from cellwright.core.text.budget import DEFAULT_TOKENS, estimate_tokens
from cellwright.core.types import Secret
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.model import FileKind
from cellwright.jupyter.remote.adapter import RemoteDocuments
from cellwright.jupyter.remote.rest import Rest
from cellwright.jupyter.server.address import JupyterAddress
from jupyter_support import JupyterProcess, JupyterServer, eventually, sources_on_disk, write_notebook
from kernel_support import rest
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

StartJupyter = Callable[..., JupyterProcess]
SLOW = "import time\nfor n in range(600):\n    print(n, flush=True)\n    time.sleep(0.05)"


@pytest.fixture(scope="module")
def ours(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("traps")) as server:
        yield server


def plain(ran: Any) -> str:
    return ran["execution_results"][-1]["outputs"][-1]["data"]["text/plain"]


@requirement("traps:kernel:killed")
async def test_a_kernel_killed_while_a_cell_runs(ours: HttpServer, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["import os\nkept = 1\nos.getpid()", SLOW, "'kept' in dir()"])
    async with agent_of(ours) as do:
        process = int(plain(await do("execute_nb_cells", path=path, ranges=[{"start": 0}])))
        begun = await do("execute_nb_cells", path=path, ranges=[{"start": 1, "end": 3}], timeout=0.5)
        assert begun["status"] == "running"
        os.kill(process, signal.SIGKILL)
        ended = await do.failing("get_execution", execution_id=begun["execution_id"], timeout=30)
        assert [one["status"] for one in ended["execution_results"]] == ["died", "not_run"]
        assert "variables" in str(ended["execution_results"][0]["error"])
        assert ended["execution_results"][0]["outputs"][0]["text"].startswith("0\n1\n")
        assert plain(await do("execute_nb_cells", path=path, ranges=[{"start": 2}])) == "False"


@requirement("traps:kernel:restarted")
async def test_a_kernel_restarted_by_somebody_while_a_cell_runs(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["kept = 1", SLOW, "'kept' in dir()"])
    async with agent_of(ours) as do:
        await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
        begun = await do("execute_nb_cells", path=path, ranges=[{"start": 1}], timeout=0.5)
        kernel = (await do("get_nb_stat", path=path))["kernel"]["id"]
        await asyncio.to_thread(rest, jupyter_server, "POST", f"/api/kernels/{kernel}/restart")
        ended = await do.failing("get_execution", execution_id=begun["execution_id"], timeout=30)
        assert ended["status"] != "running"
        assert plain(await do("execute_nb_cells", path=path, ranges=[{"start": 2}])) == "False"


@requirement("traps:kernel:restart-then-run")
async def test_a_cell_run_right_after_a_restart_runs_in_the_new_kernel(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["kept = 1", SLOW, "'kept' in dir()"])
    async with agent_of(ours) as do:
        await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
        running = await do("execute_nb_cells", path=path, ranges=[{"start": 1}], timeout=0.2)
        waiting = await do("execute_nb_cells", path=path, ranges=[{"start": 2}], timeout=0)
        await do("restart_nb_kernel", path=path, exec=False)
        assert plain(await do("execute_nb_cells", path=path, ranges=[{"start": 2}], timeout=60)) == "False"
        assert (await do.failing("get_execution", execution_id=running["execution_id"]))["status"] == "died"
        dropped = await do.failing("get_execution", execution_id=waiting["execution_id"])
        assert dropped["status"] == "not_run"
        assert "restarted" in str(dropped) or "died" in str(dropped)


def add_bash(jupyter: JupyterProcess) -> None:
    """The kernel for bash, for this server alone."""
    spec = jupyter.home / "data_dir" / "kernels" / "bash"
    spec.mkdir(parents=True)
    command = [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"]
    about = {"argv": command, "display_name": "Bash", "language": "bash", "env": {"PS1": "$"}}
    (spec / "kernel.json").write_text(json.dumps(about), encoding="utf-8")


BASH = {"kernelspec": {"name": "bash", "display_name": "Bash", "language": "bash"}}


@requirement("traps:kernel:language")
async def test_a_notebook_in_another_language(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    jupyter = start_jupyter()
    add_bash(jupyter)
    sources = ["kept=41; for n in 1 2 3; do echo line $n; done", "echo $((kept + 1))", "ls /nowhere-at-all", "echo no"]
    waits = ["echo on; read answer; echo never", "echo on; sleep 60; echo never", "echo $kept"]
    write_notebook(jupyter.root, "b.ipynb", [*sources, *waits], metadata=BASH)
    with in_front_of(jupyter.address, tmp_path) as server:
        async with agent_of(server) as do:
            ran = await do("execute_nb_cells", path="b.ipynb", ranges=[{"start": 0, "end": 2}])
            assert [one["outputs"][0]["text"] for one in ran["execution_results"]] == [
                "line 1\nline 2\nline 3\n",
                "42\n",
            ]
            assert (await do("get_nb_stat", path="b.ipynb"))["kernel"]["name"] == "bash"
            failed = await do.failing("execute_nb_cells", path="b.ipynb", ranges=[{"start": 2, "end": 4}])
            assert [one["status"] for one in failed["execution_results"]] == ["error", "not_run"]
            assert "nowhere-at-all" in str(failed["execution_results"][0]["outputs"])
            for cell in (4, 5):
                begun = await do("execute_nb_cells", path="b.ipynb", ranges=[{"start": cell}], timeout=0)
                await wait_for_output(do, begun["execution_id"], "on")
                stopped = await do("cancel_execution", execution_id=begun["execution_id"])
                assert (stopped["status"], "never" in str(stopped)) == ("interrupted", False)
            assert "41" in str(
                (await do("execute_nb_cells", path="b.ipynb", ranges=[{"start": 6}]))["execution_results"]
            )
            assert "echo" in (await do("complete_code", path="b.ipynb", code="ech"))["matches"]


async def wait_for_output(do: Agent, execution_id: str, text: str) -> None:
    for _ in range(100):
        view = await do("get_execution", execution_id=execution_id, timeout=0.1)
        if text in str(view["execution_results"][0]["outputs"]):
            return
    pytest.fail(f"never came: {text}")


@requirement("traps:kernel:no-notebook")
async def test_no_kernel_is_started_for_a_notebook_that_is_not_there(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/none.ipynb"
    async with agent_of(ours) as do:
        for more in ({}, {"kernel_name": "python3"}):
            assert (await do.error("restart_nb_kernel", path=path, **more))["code"] == "NOT_FOUND"
        assert (await do.error("assign_nb_kernel", path=path, kernel_name="python3"))["code"] == "NOT_FOUND"
    sessions = await asyncio.to_thread(rest, jupyter_server, "GET", "/api/sessions")
    assert [session["path"] for session in sessions if session["path"] == path] == []


@requirement("traps:kernel:looked-at")
async def test_looking_at_variables_changes_nothing_of_the_persons(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["40 + 2", "_ + 1"])
    async with agent_of(ours) as do:
        await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
        await do("inspect_variables", path=path)
        assert plain(await do("execute_nb_cells", path=path, ranges=[{"start": 1}])) == "43"


@requirement("traps:kernel:looked-at")
async def test_variables_are_seen_past_names_that_hide_builtins(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["type = 'report'\nstr = 5\nprint = None\nset = {1}"])
    async with agent_of(ours) as do:
        await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
        seen = (await do("inspect_variables", path=path))["variables"]
        assert seen["type"]["value"] == "'report'"
        assert {"type", "str", "set"} <= set(seen)


@requirement("traps:size:ten-thousand")
@pytest.mark.timeout(300)
async def test_ten_thousand_cells(ours: HttpServer, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, [f"value_{number} = {number}" for number in range(10_000)])
    async with agent_of(ours) as do:
        result = await do.whole("get_nb_stat", path=path, outline=True)
        assert result.structured_content["cell_count"] == 10_000
        assert estimate_tokens(result.content[0].text) <= DEFAULT_TOKENS
        (cell,) = (await do("read_nb_cells", path=path, ranges=[{"start": 9_999}]))["cells"]
        assert cell["source"] == "value_9999 = 9999"
        await do("edit_nb_cell", path=path, cell=cell["id"], old="9999 =", new="last =")
        refused = await do.error("delete_nb_cells", path=path, ranges=[{"start": 0, "end": 9_990}])
        assert refused["code"] == "CAPACITY_LIMIT_REACHED"
        for start in range(9_000, -1, -1_000):
            await do("delete_nb_cells", path=path, ranges=[{"start": start, "end": min(start + 1_000, 9_990)}])
        assert len(await do.sources(path)) == 10
        assert (await do.sources(path))[-1] == "value_last = 9999"


def _format_3(root: Path, path: str) -> Path:
    cells: list[dict[str, Any]] = [
        {"cell_type": "heading", "level": 2, "metadata": {}, "source": ["A heading"]},
        {
            "cell_type": "code",
            "collapsed": False,
            "input": ["6 * 7"],
            "language": "python",
            "metadata": {},
            "outputs": [],
        },
    ]
    file = root / path
    content: dict[str, Any] = {
        "metadata": {"name": ""},
        "nbformat": 3,
        "nbformat_minor": 0,
        "worksheets": [{"cells": cells, "metadata": {}}],
    }
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def _format_4_2(root: Path, path: str) -> Path:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": ["## A heading"]},
        {"cell_type": "code", "metadata": {}, "source": ["6 * 7"], "outputs": [], "execution_count": None},
    ]
    return write_notebook(root, path, [], cells=cells, nbformat_minor=2)


@requirement("traps:format:old")
@pytest.mark.parametrize("make", [_format_3, _format_4_2])
async def test_notebooks_of_old_formats(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str, make: Callable[..., Path]
) -> None:
    path = f"{folder}/n.ipynb"
    file = make(jupyter_server.root, path)
    before = file.read_text(encoding="utf-8")
    async with agent_of(ours) as do:
        assert [source.strip("# ") for source in await do.sources(path)] == ["A heading", "6 * 7"]
        assert file.read_text(encoding="utf-8") == before
        assert plain(await do("execute_nb_cells", path=path, ranges=[{"start": 1}])) == "42"
        await do("edit_nb_cell", path=path, cell=1, old="6", new="5")
        await eventually(lambda: "5 * 7" in file.read_text(encoding="utf-8"), "the edit on disk")
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    if make is _format_4_2:
        assert content["nbformat_minor"] == 2
        assert not any("id" in cell for cell in content["cells"])


@requirement("traps:file:changed")
async def test_what_another_program_writes_is_read_and_kept(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    file = write_notebook(jupyter_server.root, path, ["one", "two"])
    async with agent_of(ours) as do:
        assert await do.sources(path) == ["one", "two"]
        write_notebook(jupyter_server.root, path, ["one", "two", "from another program"])
        deadline = time.monotonic() + 20
        while await do.sources(path) != ["one", "two", "from another program"]:
            assert time.monotonic() < deadline, "the change on disk was never read"
        await do("edit_nb_cell", path=path, cell=0, old="one", new="mine")
        kept = ["mine", "two", "from another program"]
        await eventually(lambda: sources_on_disk(file) == kept, "both changes on disk")


@requirement("traps:jupyter:wrong-token")
async def test_a_wrong_token_is_said_to_be_that(jupyter_server: JupyterServer, folder: str, tmp_path: Path) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["1"])
    wrong = "0123456789abcdef-wrong"
    with in_front_of(jupyter_server, tmp_path, token=wrong) as ours:
        async with agent_of(ours) as do:
            for tool, more in (
                ("list_nbs", {"path": folder}),
                ("read_nb_cells", {"path": path}),
                ("execute_nb_cells", {"path": path, "ranges": [{"start": 0}]}),
                ("list_available_kernels", {}),
            ):
                error = await do.error(tool, **more)
                assert "token" in f"{error['message']} {error['hint']}".lower(), (tool, error)
                assert wrong not in str(error)
                assert error["code"] != "NOT_FOUND"
        assert wrong not in ours.log.read_text(encoding="utf-8")


@requirement("traps:jupyter:not-live")
async def test_without_collaboration_all_tools_work_on_the_file(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    process = await asyncio.to_thread(start_jupyter, collaboration=False)
    file = write_notebook(process.root, "n.ipynb", ["6 * 7", "x"])
    with in_front_of(process.address, tmp_path) as ours:
        async with agent_of(ours) as do:
            assert (await do("read_nb_cells", path="n.ipynb"))["live"] is False
            edited = await do("edit_nb_cell", path="n.ipynb", cell="c1", old="x", new="y")
            assert (edited["live"], edited["saved"]) == (False, True)
            assert sources_on_disk(file) == ["6 * 7", "y"]
            assert plain(await do("execute_nb_cells", path="n.ipynb", ranges=[{"start": 0}])) == "42"
            await eventually(lambda: "42" in file.read_text(encoding="utf-8"), "the output in the file")
            # Waits for whatever else is being written.
            await do("edit_nb_cell", path="n.ipynb", cell="c1", old="y", new="z")
            write_notebook(process.root, "n.ipynb", ["theirs", "y", "more"])
            change = {"range": {"id": "c0"}, "content": "mine", "expect": "0000000000"}
            await do.error("modify_nb_cells", path="n.ipynb", modifications=[change], exec=False)
            assert await do.sources("n.ipynb") == ["theirs", "y", "more"]
            await do("edit_nb_cell", path="n.ipynb", cell="c2", old="more", new="mine")
            assert sources_on_disk(file) == ["theirs", "y", "mine"]
            assert (await do("undo_nb_edit", path="n.ipynb"))["live"] is False
            assert sources_on_disk(file) == ["theirs", "y", "more"]


class MeddledRest(Rest):
    """Another program writes the file as soon as Jupyter has written it for us."""

    meddle: Callable[[], object] = staticmethod(lambda: None)

    async def request(self, method: str, *given: Any, **named: Any) -> Any:
        answer = await super().request(method, *given, **named)
        if method == "PUT":
            self.meddle()
        return answer


@requirement("traps:jupyter:not-live")
async def test_what_another_program_writes_right_after_us_is_not_taken_for_ours(
    jupyter_server: JupyterServer, folder: str
) -> None:
    path = NotebookPath(f"{folder}/n.ipynb")
    file = write_notebook(jupyter_server.root, path.text, ["first"])
    rest_to = MeddledRest(JupyterAddress.parse(jupyter_server.url, token=Secret(jupyter_server.token)))
    documents = RemoteDocuments(rest_to)
    try:
        read = await documents.read(path, FileKind.NOTEBOOK)
        rest_to.meddle = lambda: write_notebook(jupyter_server.root, path.text, ["theirs"])
        written = await documents.write(path, FileKind.NOTEBOOK, read.content, expect=read.info)
        with pytest.raises(Conflict):
            await documents.write(path, FileKind.NOTEBOOK, read.content, expect=written)
        assert sources_on_disk(file) == ["theirs"]
    finally:
        await rest_to.close()


@requirement("traps:search:expression")
async def test_an_expression_without_end_keeps_nobody_waiting(
    jupyter_server: JupyterServer, folder: str, tmp_path: Path
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a" * 40 + "!"])
    with in_front_of(jupyter_server, tmp_path) as ours:
        try:
            async with agent_of(ours) as do, agent_of(ours) as bystander:
                await do("read_nb_cells", path=path)
                search = asyncio.create_task(do.whole("search_nbs", query="(a+)+$", regex=True, path=path))
                async with asyncio.timeout(5):
                    for _ in range(20):
                        await bystander("workspace_status")
                async with asyncio.timeout(20):
                    result = await search
                assert "INTERNAL_ERROR" not in str(result.structured_content)
        finally:
            # One that hangs in the search would not end when asked to.
            ours.process.kill()
