"""What agents are told of what is on disk: after edits and runs, on a full disk, and when Jupyter was killed."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.jupyter import errors
from cellwright.jupyter.documents import backing, saving
from jupyter_support import JupyterProcess, JupyterServer, eventually, sources_on_disk, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from soak_support import Ballast, small_disk

pytestmark = pytest.mark.anyio

StartJupyter = Callable[..., JupyterProcess]


@requirement("saving:run")
async def test_a_run_and_an_edit_that_runs_say_whether_they_are_on_disk(
    jupyter_server: JupyterServer, folder: str, tmp_path: Path
) -> None:
    path = f"{folder}/n.ipynb"
    file = write_notebook(jupyter_server.root, path, ["print('ran')"])
    with in_front_of(jupyter_server, tmp_path) as server:
        async with agent_of(server) as do:
            ran = await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
            assert ran["saved"] is True, ran
            assert "ran\\n" in file.read_text(encoding="utf-8")
            ran = await do("insert_nb_cells", path=path, position=-1, cells=[{"content": "6 * 7"}])
            if ran["saved"]:
                assert '"42"' in file.read_text(encoding="utf-8")
            else:
                assert ran["not_saved"]
            await eventually(lambda: '"42"' in file.read_text(encoding="utf-8"), "the output on disk")
            running = await do(
                "insert_nb_cells", path=path, position=-1, cells=[{"content": "import time; time.sleep(30)"}], timeout=0
            )
            assert (running["saved"], "still runs" in running["not_saved"]) == (False, True)
            halfway = await do("get_execution", execution_id=running["execution_id"])
            assert (halfway["saved"], "still runs" in halfway["not_saved"]) == (False, True)
            await do("cancel_execution", execution_id=running["execution_id"])
            ended = await do.failing("get_execution", execution_id=running["execution_id"])
            assert ended["saved"] is True or ended["not_saved"]
            stat = await do("get_nb_stat", path=path)
            assert stat["saved"] in (True, False)


@requirement("saving:run")
async def test_how_a_run_ended_is_told_without_opening_its_notebook_again(
    jupyter_server: JupyterServer, folder: str, tmp_path: Path
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["print('ran')"])
    with in_front_of(jupyter_server, tmp_path, "--toolsets", "all") as server:
        async with agent_of(server) as do:
            ran = await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
            await do("end_nb_session", path=path)
            assert (await do("get_execution", execution_id=ran["execution_id"]))["saved"] is True
            assert (await do("query_nb_sessions"))["active_sessions"] == 0


@requirement("saving:death")
@pytest.mark.long(60)
@pytest.mark.parametrize("pause", [0.0, 0.2, 0.7])
async def test_of_what_was_said_to_be_saved_nothing_is_missing_after_a_kill_and_the_rest_is_named(
    start_jupyter: StartJupyter, tmp_path: Path, pause: float
) -> None:
    process = start_jupyter()
    file = write_notebook(process.root, "n.ipynb", ["begin"])
    with in_front_of(process.address, tmp_path) as server:
        async with agent_of(server) as do:
            answers, unanswered = await _edit_until_killed(do, process, pause)
            assert len(answers) > 1
            on_disk = sources_on_disk(file)
            said_saved = [number for number, answer in enumerate(answers) if answer["saved"]]
            assert said_saved, answers
            missing = [number for number in range(len(answers)) if f"edit {number}" not in on_disk]
            assert not set(missing).intersection(range(max(said_saved) + 1))
            process.start()
            read = await until_answered(do, "n.ipynb")
            told = " ".join(read.get("notes", []))
            lost_ids = [answers[number]["cells"][0]["id"] for number in missing]
            assert all(cell_id in told for cell_id in lost_ids[:10]), (lost_ids, told)
            # One more may be gone: the last, which was not said to have arrived.
            assert "are gone" in told if missing else unanswered or "are gone" not in told
            assert "notes" not in await do("read_nb_cells", path="n.ipynb")
            if missing:
                again = await do("undo_nb_edit", path="n.ipynb", again=True)
                assert {cell["id"] for cell in again["cells"]} >= set(lost_ids)
            expected = ["begin", *(f"edit {number}" for number in range(len(answers)))]
            await eventually(
                lambda: [s for s in sources_on_disk(file) if s in expected] == expected, "all edits on disk"
            )


@requirement("saving:death:text")
@pytest.mark.long(30)
async def test_lost_edits_of_a_text_are_shown(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    process = start_jupyter()
    file = process.root / "n.md"
    file.write_text("begin\n", encoding="utf-8")
    with in_front_of(process.address, tmp_path, "--toolsets", "documents") as server:
        async with agent_of(server) as do:
            lines = ["first", "second", "third"]
            for line in lines:
                await do("insert_document_text", path="n.md", position=-1, text=f"{line} line\n")
            process.kill()
            missing = [f"+{line} line" for line in lines if line not in file.read_text("utf-8")]
            assert missing
            process.start()
            read = await do.whole("get_document_content", path="n.md")
            while read.is_error:
                read = await do.whole("get_document_content", path="n.md")
            (told,) = read.structured_content["notes"]
            assert "are gone" in told
            assert [line for line in told.splitlines() if line.endswith(" line") and line[0] == "+"] == missing
            assert "notes" not in await do("get_document_content", path="n.md")


async def _edit_until_killed(do: Agent, process: JupyterProcess, pause: float) -> tuple[list[dict[str, Any]], bool]:
    """Edits one after the other, until Jupyter is killed by force after a few seconds.

    Returns the answers of those that arrived, and whether there is one of which that is not known.
    """
    answers: list[dict[str, Any]] = []
    kill = asyncio.get_running_loop().run_in_executor(None, _kill_after, process, 3.3)
    while not kill.done():
        source = f"edit {len(answers)}"
        made = await do.whole("insert_nb_cells", path="n.ipynb", position=-1, cells=[{"content": source}], exec=False)
        if made.is_error:
            await kill
            return answers, True
        answers.append(made.structured_content)
        await asyncio.sleep(pause)
    await kill
    return answers, False


def _kill_after(process: JupyterProcess, seconds: float) -> None:
    time.sleep(seconds)
    process.kill()


async def until_answered(do: Agent, path: str) -> dict[str, Any]:
    """The first answer about the notebook after Jupyter is back."""
    read = await do.whole("read_nb_cells", path=path)
    return await until_answered(do, path) if read.is_error else read.structured_content


@pytest.fixture
def on_small_disk(tmp_path: Path) -> Iterator[JupyterProcess]:
    home = tmp_path / "jupyter"
    home.mkdir()
    with small_disk(home / "root"), JupyterProcess(home) as process:
        yield process


@requirement("saving:full")
async def test_on_a_full_disk_edits_runs_and_stat_say_so_until_there_is_room(
    on_small_disk: JupyterProcess, tmp_path: Path
) -> None:
    root = on_small_disk.root
    file = write_notebook(root, "n.ipynb", ["print('x' * 50_000)"])
    with in_front_of(on_small_disk.address, tmp_path, "--toolsets", "default,documents") as server:
        async with agent_of(server) as do:
            await do("execute_nb_cells", path="n.ipynb", ranges=[{"start": 0}])
            ballast = Ballast(root)
            ballast.top_up()
            edited = await do("edit_nb_cell", path="n.ipynb", cell=0, old="50_000", new="90_000")
            assert edited["saved"] is False
            assert "disk" in edited["not_saved"]
            ran = await do("execute_nb_cells", path="n.ipynb", ranges=[{"start": 0}])
            assert ran["saved"] is False
            assert "disk" in ran["not_saved"]
            stat = await do("get_nb_stat", path="n.ipynb")
            assert (stat["saved"], "disk" in stat["not_saved"]) == (False, True)
            refused = await do.error("create_document", path="new.md", type="markdown", content="x" * 100_000)
            ballast.drop()
            stat = await _until_saved(do, "n.ipynb")
            assert "not_saved" not in stat
            assert "90_000" in file.read_text(encoding="utf-8")
            assert "CONFLICT" not in refused["code"]
            await do("create_document", path="new.md", type="markdown", content="x" * 100_000)


async def _until_saved(do: Agent, path: str) -> dict[str, Any]:
    """The first stat that says that the notebook is on disk. The attempts to write it are at most the longest pause apart."""
    for _ in range(int(2 * max(saving.RETRY_SECONDS))):
        stat = await do("get_nb_stat", path=path)
        if stat["saved"]:
            return stat
        await asyncio.sleep(1)
    raise AssertionError("never saved")


@requirement("saving:run:death")
@pytest.mark.long(30)
async def test_a_run_whose_jupyter_was_killed_ends_and_says_why(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    process = start_jupyter()
    write_notebook(process.root, "n.ipynb", ["print('begun', flush=True)\nimport time\ntime.sleep(120)"])
    with in_front_of(process.address, tmp_path) as server:
        async with agent_of(server) as do:
            begun = await do("execute_nb_cells", path="n.ipynb", ranges=[{"start": 0}], timeout=2)
            process.kill()
            ended = await do.failing("get_execution", execution_id=begun["execution_id"], timeout=100)
            assert ended["status"] == "error"
            (cell,) = ended["execution_results"]
            assert "nothing has listened at its address" in cell["error"]["evalue"]
            assert "not in the document" not in str(ended)


@requirement("saving:frozen")
async def test_a_frozen_jupyter_is_named_within_seconds(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    process = start_jupyter()
    write_notebook(process.root, "n.ipynb", ["1"])
    with in_front_of(process.address, tmp_path) as server:
        async with agent_of(server) as do:
            await do("read_nb_cells", path="n.ipynb")
            await asyncio.sleep(backing.TRUST_SECONDS)
            with process.frozen():
                began = time.monotonic()
                refused = await do.error("read_nb_cells", path="n.ipynb")
                assert time.monotonic() - began < 3 * errors.ANSWER_SECONDS
            assert "has not answered for" in refused["message"]
            assert await do.sources("n.ipynb") == ["1"]
