"""A Jupyter that dies under a run, or hangs while somebody looks: soon said, and nothing said that is not known."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from cellwright.core.errors import Unavailable
from cellwright.core.types import ALL_SCOPES, Call, Principal, Secret
from cellwright.jupyter import errors
from cellwright.jupyter.documents import backing
from cellwright.jupyter.kernels import connection
from cellwright.jupyter.remote import rest
from cellwright.jupyter.remote.rest import Rest
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.connect import to_named
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.kernels import get_execution
from cellwright.jupyter.tools.looking import get_nb_stat
from cellwright.jupyter.tools.reading import read_nb_cells
from cellwright.jupyter.tools.running import execute_nb_cells
from jupyter_support import JupyterProcess, eventually, write_notebook
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

CALL = Call(Principal("ada", ALL_SCOPES))
StartJupyter = Callable[..., JupyterProcess]


@asynccontextmanager
async def notebooks_of(process: JupyterProcess) -> AsyncGenerator[LiveNotebooks]:
    address = JupyterAddress.parse(process.url, token=Secret(process.token))
    notebooks = LiveNotebooks(to_named(address), lambda: datetime.now(UTC))
    try:
        yield notebooks
    finally:
        await notebooks.close()


@contextmanager
def hanging(process: JupyterProcess) -> Generator[None]:
    assert process._process is not None  # pyright: ignore[reportPrivateUsage]
    pid = process._process.pid  # pyright: ignore[reportPrivateUsage]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@requirement("kernel:server-gone")
async def test_a_run_whose_jupyter_has_died_fails_and_claims_nothing(
    start_jupyter: StartJupyter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "GONE_SECONDS", 3.0)
    process = start_jupyter()
    write_notebook(process.root, "n.ipynb", ["print('on', flush=True)\nimport time; time.sleep(600)"])
    async with notebooks_of(process) as notebooks:
        begun: Any = (await execute_nb_cells(notebooks, CALL, "n.ipynb", cells="all", timeout=0)).data
        execution = notebooks.executions.get(CALL.principal.id, begun["execution_id"])
        await eventually(lambda: bool(execution.cells[0].memory.outputs), "the beginning of the run", 60)
        process.end_all()
        await eventually(lambda: bool(execution.view().doubt), "the loss being noticed")
        lost: Any = (await get_execution(notebooks, CALL, execution.id, timeout=0)).data
        assert lost["status"] == "running"
        assert "whether this still runs is not known" in lost["notes"][-1]
        assert lost["next"].startswith("not known whether it still runs: get_execution(")
        began = time.monotonic()
        ended = await get_execution(notebooks, CALL, execution.id, timeout=60)
        assert time.monotonic() - began < 20
        told: Any = ended.data
        assert (ended.failed, told["status"]) == (True, "error")
        (cell,) = told["execution_results"]
        error: Any = cell.get("error")
        assert "nothing has listened at its address for 3 s; what became of this run is not known" in error["evalue"]
        assert "in the document any more" not in str(told)


@requirement("jupyter:hangs")
async def test_looking_at_an_open_notebook_does_not_wait_for_a_jupyter_that_hangs(
    start_jupyter: StartJupyter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(backing, "TRUST_SECONDS", -1.0)
    process = start_jupyter()
    write_notebook(process.root, "n.ipynb", ["1"])
    async with notebooks_of(process) as notebooks:
        await get_nb_stat(notebooks, CALL, "n.ipynb")
        with hanging(process):
            for look in (read_nb_cells, get_nb_stat):
                async with asyncio.timeout(10):
                    with pytest.raises(Unavailable, match=r"Jupyter has not answered for 1 s about .*n\.ipynb"):
                        await look(notebooks, CALL, "n.ipynb")
        assert (await get_nb_stat(notebooks, CALL, "n.ipynb"))["cell_count"] == 1


@requirement("jupyter:hangs")
async def test_the_error_of_a_request_says_what_went_wrong(
    start_jupyter: StartJupyter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "REQUEST_SECONDS", 0.5)
    process = start_jupyter()
    client = Rest(JupyterAddress.parse(process.url, token=Secret(process.token)))
    try:
        with hanging(process), pytest.raises(Unavailable, match=r"did not finish its answer about status: \w+"):
            await client.get("api/status", "status")
    finally:
        await client.close()
