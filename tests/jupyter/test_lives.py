"""Who is told that their variables are gone, over every way to a real Jupyter server, and who is not."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from cellwright.core.types import ALL_SCOPES, Call, Principal, Secret
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.kernels import live
from cellwright.jupyter.lives import SHUT_DOWN, KernelLife, LastRuns, Runner
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.connect import FoundServer, to_found_or_embedded, to_named
from cellwright.jupyter.server.embedded import EmbeddedJupyter
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.kernels import shutdown_nb_kernel
from cellwright.jupyter.tools.looking import get_nb_stat
from cellwright.jupyter.tools.running import execute_nb_cells, restart_nb_kernel
from jupyter_support import JupyterProcess, JupyterServer, eventually, write_notebook
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

ADA, BOB = (Call(Principal(name, ALL_SCOPES)) for name in ("ada", "bob"))
ADA_TWICE = tuple(Call(Principal("ada", ALL_SCOPES), connection) for connection in ("1", "2"))
LOST = "variables, imports and open files of before are gone; run the cells again that define what you need"
RESTARTED = f"The kernel is new since your last run here (somebody else restarted it): {LOST}"
DIED = f"The kernel is new since your last run here (it died and was started again): {LOST}"


@pytest.fixture
async def notebooks(jupyter: Jupyter) -> AsyncGenerator[LiveNotebooks]:
    async def connect() -> FoundServer:
        return FoundServer(jupyter, "named")

    made = LiveNotebooks(connect, lambda: datetime.now(UTC))
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def path(jupyter_server: JupyterServer, folder: str, jupyter: Jupyter) -> AsyncGenerator[str]:
    name = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, name, ["x = 1", "import os; print(os.getpid())"])
    yield name
    session = await jupyter.kernels.session_of(NotebookPath(name))
    if session is not None:
        await jupyter.kernels.end_session(session.id)


async def notes(notebooks: LiveNotebooks, call: Call, path: str) -> list[str]:
    return (await execute_nb_cells(notebooks, call, path, cells="all")).data.get("notes", [])


async def looked(notebooks: LiveNotebooks, call: Call, path: str) -> str | None:
    return (await get_nb_stat(notebooks, call, path)).get("kernel_note")


async def kernel_of(jupyter: Jupyter, path: str) -> str:
    session = await jupyter.kernels.session_of(NotebookPath(path))
    assert session is not None
    assert session.kernel is not None
    return session.kernel.id


@requirement("kernel:lost:told", "kernel:lost:own")
async def test_a_restart_is_told_to_those_who_did_not_ask_for_it(
    notebooks: LiveNotebooks, jupyter: Jupyter, path: str
) -> None:
    for call in (ADA, BOB, *ADA_TWICE):
        assert await notes(notebooks, call, path) == []
    await restart_nb_kernel(notebooks, ADA, path, exec=False)
    assert await looked(notebooks, ADA, path) is None
    assert await notes(notebooks, ADA, path) == []
    assert await looked(notebooks, BOB, path) == RESTARTED
    assert await looked(notebooks, BOB, path) is None, "it was told"
    assert await notes(notebooks, BOB, path) == []
    assert await notes(notebooks, ADA_TWICE[0], path) == [RESTARTED]
    await restart_nb_kernel(notebooks, ADA_TWICE[0], path)
    await jupyter.kernels.restart(await kernel_of(jupyter, path))
    for call in (ADA, BOB, *ADA_TWICE):
        (note,) = await notes(notebooks, call, path)
        assert note.startswith("The kernel is new since your last run here (")
        assert await notes(notebooks, call, path) == []


@requirement("kernel:lost:told", "kernel:lost:own")
async def test_a_kernel_that_died_or_was_shut_down_is_told(
    notebooks: LiveNotebooks, jupyter: Jupyter, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise the last run would be one in the kernel that is gone, and fail for that.
    monkeypatch.setattr(live, "TRUST_SECONDS", 0.0)
    ran = await execute_nb_cells(notebooks, ADA, path, cells="all")
    (printed,) = cast("list[Any]", ran.data["execution_results"][1]["outputs"])
    pid = int(printed["text"])
    assert await notes(notebooks, BOB, path) == []
    os.kill(pid, signal.SIGKILL)
    queue = await notebooks.queue(ADA, await notebooks.session(ADA, NotebookPath(path)))
    await eventually(lambda: queue.kernel.restarts > 0, "the death of the kernel", 30)
    assert await looked(notebooks, ADA, path) == DIED
    assert await notes(notebooks, ADA, path) == []
    assert await notes(notebooks, BOB, path) == [DIED]
    await shutdown_nb_kernel(notebooks, ADA, path)
    assert await looked(notebooks, ADA, path) is None
    gone = await looked(notebooks, BOB, path)
    assert gone is not None
    assert gone.startswith("The kernel of your last run here is gone (it was shut down")
    assert await notes(notebooks, ADA, path) == []
    assert await notes(notebooks, BOB, path) == [], "it was told when they looked"
    session = await jupyter.kernels.session_of(NotebookPath(path))
    assert session is not None
    await jupyter.kernels.end_session(session.id)
    (note,) = await notes(notebooks, BOB, path)
    assert note.startswith("The kernel is new since your last run here (another one: it was shut down, or its Jupyter")


@requirement("kernel:lost:own")
async def test_two_notebooks_in_one_kernel_lose_it_together(
    notebooks: LiveNotebooks, jupyter: Jupyter, jupyter_server: JupyterServer, path: str
) -> None:
    other = path.replace("n.ipynb", "o.ipynb")
    write_notebook(jupyter_server.root, other, ["y = 1"])
    assert await notes(notebooks, ADA, path) == []
    await jupyter.kernels.start_session(NotebookPath(other), kernel_id=await kernel_of(jupyter, path))
    assert await notes(notebooks, ADA, other) == []
    await restart_nb_kernel(notebooks, ADA, path, exec=False)
    assert await notes(notebooks, ADA, other) == []


@requirement("kernel:lost:told")
async def test_a_server_that_was_started_again_is_told(start_jupyter: Callable[..., JupyterProcess]) -> None:
    process = start_jupyter()
    write_notebook(process.root, "n.ipynb", ["x = 1"])
    address = JupyterAddress.parse(process.url, token=Secret(process.token))
    notebooks = LiveNotebooks(to_named(address), lambda: datetime.now(UTC))
    try:
        assert await notes(notebooks, ADA, "n.ipynb") == []
        process.end_all()
        await asyncio.to_thread(process.start)
        (note,) = await notes(notebooks, ADA, "n.ipynb")
        assert "its Jupyter server was restarted" in note
        assert note.endswith(LOST)
    finally:
        await notebooks.close()


@requirement("kernel:lost:told")
async def test_an_embedded_server_that_died_is_told(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_notebook(root, "n.ipynb", ["x = 1"])
    embedded = EmbeddedJupyter(root, tmp_path / "state")
    connect = to_found_or_embedded(root, tmp_path / "runtime", embedded)
    notebooks = LiveNotebooks(connect, lambda: datetime.now(UTC), embedded=embedded)
    try:
        assert await notes(notebooks, ADA, "n.ipynb") == []
        running = embedded.running
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        await eventually(lambda: embedded.running is None, "its end", 30)
        (note,) = await notes(notebooks, ADA, "n.ipynb")
        assert note == f"The kernel is new since your last run here (another one: {SHUT_DOWN}): {LOST}"
    finally:
        await notebooks.close()


@requirement("kernel:lost:bounded")
def test_so_many_callers_are_remembered() -> None:
    runs = LastRuns(2)
    old, new = KernelLife("k", "c", 0, "p"), KernelLife("k", "c", 1, "q", "died")
    for name in "abc":
        assert runs.ran(Runner(name, name), old) == ""
    assert runs.looked(Runner("a", "a"), new) == "", "it was forgotten"
    assert runs.looked(Runner("b", "b"), new) == DIED
    assert runs.looked(Runner("c", "c"), KernelLife("k")) == "", "not connected: nothing is known"
    assert runs.looked(Runner("c", "c"), KernelLife("k", "d", 7, "p")) == "", "another connection to the same process"
