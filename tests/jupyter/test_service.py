"""Which Jupyter server is used, and what happens when it goes away."""

# pyright: reportPrivateUsage=false

import asyncio
import os
import time
import urllib.error
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cellwright.core.types import ALL_SCOPES, Call, Principal, Secret
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.model import RoomKind, SessionInfo
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.connect import to_found_or_embedded, to_named
from cellwright.jupyter.server.embedded import EmbeddedJupyter
from cellwright.jupyter.service import LiveNotebooks
from cellwright.notebook.outputs import is_stream
from cellwright.notebook.run import RunStatus
from jupyter_support import JupyterProcess, JupyterServer, Person, PersonIn, eventually, write_notebook
from kernel_support import rest
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
CALL = Call(Principal("test", ALL_SCOPES))
HTTP_BAD_REQUEST = 400


@asynccontextmanager
async def notebooks_in(root: Path, runtime: Path, state: Path) -> AsyncGenerator[LiveNotebooks]:
    embedded = EmbeddedJupyter(root, state)
    connect = to_found_or_embedded(root, runtime, embedded)
    made = LiveNotebooks(connect, lambda: datetime.now(UTC), embedded=embedded)
    try:
        yield made
    finally:
        await made.close()


async def source_of(notebooks: LiveNotebooks, path: str) -> str:
    async with notebooks.open(CALL, NotebookPath(path)) as document:
        return document.view.head(0).source


@requirement("nb:server:found")
async def test_a_running_server_above_the_workspace_is_found_and_left_when_it_ends(tmp_path: Path) -> None:
    process = JupyterProcess(tmp_path)
    project = process.root / "project"
    write_notebook(process.root, "project/n.ipynb", ["here"])
    process.start()
    try:
        async with notebooks_in(project, tmp_path / "runtime_dir", tmp_path / "state") as notebooks:
            found = (await notebooks.connected(CALL)).found
            assert (found.origin, found.folder) == ("found", "project")
            assert await source_of(notebooks, "project/n.ipynb") == "here"
            url = await notebooks.lab_url(CALL, "n.ipynb")
            assert url == f"{process.url}/lab/tree/project/n.ipynb?token={process.token}"
            process.kill()
            assert (await notebooks.connected(CALL)).found.origin == "embedded"
            assert await source_of(notebooks, "n.ipynb") == "here"
    finally:
        process.stop()


@requirement("nb:server:again")
async def test_our_own_server_is_started_again_when_it_died(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_notebook(root, "n.ipynb", ["here"])
    async with notebooks_in(root, tmp_path / "runtime", tmp_path / "state") as notebooks:
        assert await source_of(notebooks, "n.ipynb") == "here"
        embedded = notebooks._embedded
        assert embedded is not None
        running = embedded.running
        assert running is not None
        os.kill(running.pid, 9)
        child = embedded._child
        assert child is not None
        child.process.wait(20)
        assert await source_of(notebooks, "n.ipynb") == "here"
        again = embedded.running
        assert again is not None
        assert again.pid != running.pid


# A thread that prints, with the cell as its parent, when the test says so.
LATE = """
import os, threading, time
from IPython.display import display
shown = display('old', display_id=True)
print('now')
kernel = get_ipython().kernel
def later(parent=kernel.get_parent()):
    for n in range(3):
        while not os.path.exists(f'go{n}'): time.sleep(0.02)
        kernel.session.send(kernel.iopub_socket, 'stream', {'name': 'stdout', 'text': f'late {n}\\n'}, parent=parent)
threading.Thread(target=later, daemon=True).start()
"""


@pytest.fixture
async def live(jupyter_server: JupyterServer) -> AsyncGenerator[LiveNotebooks]:
    """Notebooks on the shared server."""
    address = JupyterAddress.parse(jupyter_server.url, token=Secret(jupyter_server.token))
    made = LiveNotebooks(to_named(address), lambda: datetime.now(UTC))
    try:
        yield made
    finally:
        await made.close()


async def ran(notebooks: LiveNotebooks, path: NotebookPath, *cells: str) -> list[str]:
    view = await notebooks.run(CALL, path, cells, 60)
    assert view.state is RunStatus.DONE, view
    texts = [output["text"] for cell in view.cells for output in cell.outputs if is_stream(output)]
    await eventually(lambda: not notebooks._holders, "the notebook let go")
    return texts


def text_in(them: Person, cell: int) -> str:
    return str(them.cells[cell]["outputs"].to_py())


@requirement("executions:run:late")
async def test_late_output_reaches_the_notebook_also_when_it_was_opened_anew(
    live: LiveNotebooks, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = NotebookPath(f"{folder}/n.ipynb")
    write_notebook(jupyter_server.root, path.text, [LATE, "shown.update('new')", "1"])
    place = jupyter_server.root / folder
    async with person(path.text) as them:
        assert await ran(live, path, "c0") == ["now\n"]
        (place / "go0").touch()
        await eventually(lambda: "late 0" in text_in(them, 0), "late output after the run")
        assert await (await live.connected(CALL)).rooms.end(path, RoomKind.NOTEBOOK)
        await ran(live, path, "c1")
        await eventually(lambda: "new" in text_in(them, 0), "an update in a notebook that was opened anew")
        (place / "go1").touch()
        await eventually(lambda: "late 1" in text_in(them, 0), "late output in a notebook that was opened anew")
        outputs = them.cells[0]["outputs"].to_py()
        assert [output["output_type"] for output in outputs] == ["display_data", "stream"]
        assert outputs[1]["text"] == "now\nlate 0\nlate 1\n"


@requirement("executions:run:late")
async def test_late_output_leaves_alone_what_was_changed_while_the_notebook_was_not_open(
    live: LiveNotebooks, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = NotebookPath(f"{folder}/n.ipynb")
    write_notebook(jupyter_server.root, path.text, [LATE, "shown.update('new')"])
    async with person(path.text) as them:
        await ran(live, path, "c0")
        assert await (await live.connected(CALL)).rooms.end(path, RoomKind.NOTEBOOK)
        them.cells[0]["execution_count"] = 99.0
        await them.settle()
        await ran(live, path, "c1")
        (jupyter_server.root / folder / "go0").touch()
        (jupyter_server.root / folder / "go1").touch()
        (jupyter_server.root / folder / "go2").touch()
        await ran(live, path, "c1")
        assert "now" in text_in(them, 0)
        assert "late" not in text_in(them, 0)


@requirement("outputs:document:trusted")
async def test_after_a_run_jupyter_trusts_the_notebook_on_disk(
    live: LiveNotebooks, jupyter_server: JupyterServer, folder: str
) -> None:
    path = NotebookPath(f"{folder}/n.ipynb")
    file = write_notebook(jupyter_server.root, path.text, ["from IPython.display import HTML\nHTML('<b>rich</b>')"])
    await ran(live, path, "c0")
    await eventually(lambda: "execute_result" in file.read_text("utf-8"), "the output on disk")
    cells = await asyncio.to_thread(cells_on_disk, jupyter_server, path.text)
    assert [cell["metadata"].get("trusted") for cell in cells] == [True]


def cells_on_disk(server: JupyterServer, path: str) -> list[Any]:
    """As Jupyter reads them, with its trust; it cannot in the middle of writing."""
    deadline = time.monotonic() + 15
    while True:
        try:
            return rest(server, "GET", f"/api/contents/{path}")["content"]["cells"]
        except urllib.error.HTTPError as error:
            with error:
                if error.code != HTTP_BAD_REQUEST:
                    raise
        assert time.monotonic() < deadline, "never readable"


PID = "import os; print(os.getpid())"


@requirement("executions:shared:session-trusted")
async def test_the_kernel_is_not_asked_for_every_time_and_a_persons_switch_is_noticed(
    live: LiveNotebooks, jupyter_server: JupyterServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = NotebookPath(f"{folder}/n.ipynb")
    write_notebook(jupyter_server.root, path.text, [PID])
    connected = await live.connected(CALL)
    asked: list[str] = []
    sessions = connected.found.jupyter.kernels.session_of

    async def counted(path: NotebookPath) -> SessionInfo | None:
        asked.append(path.text)
        return await sessions(path)

    monkeypatch.setattr(connected.found.jupyter.kernels, "session_of", counted)
    monkeypatch.setattr("cellwright.jupyter.kernels.live.TRUST_SECONDS", 30.0)
    first = await ran(live, path, "c0")
    assert await ran(live, path, "c0") == first
    before = len(asked)
    assert await ran(live, path, "c0") == first
    assert len(asked) == before, "asked again although it was just seen"

    session = await sessions(path)
    assert session is not None
    body = {"kernel": {"name": "python3"}}
    await asyncio.to_thread(rest, jupyter_server, "PATCH", f"/api/sessions/{session.id}", body)
    lost = await live.run(CALL, path, ["c0"], 60)
    assert lost.state is not RunStatus.DONE, "the old kernel is gone, and that is said"
    assert await ran(live, path, "c0") != first, "though it would still be trusted"
    monkeypatch.setattr("cellwright.jupyter.kernels.live.TRUST_SECONDS", 0.0)
    second = await ran(live, path, "c0")
    await asyncio.to_thread(rest, jupyter_server, "PATCH", f"/api/sessions/{session.id}", body)
    assert await ran(live, path, "c0") not in (first, second), "a switch is noticed once the trust has run out"
