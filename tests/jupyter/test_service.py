"""Which Jupyter server is used, and what happens when it goes away."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.jupyter.connect import to_found_or_embedded
from cellwright.jupyter.embedded import EmbeddedJupyter
from cellwright.jupyter.paths import NotebookPath
from cellwright.jupyter.service import LiveNotebooks
from jupyter_support import JupyterProcess, write_notebook
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
CALL = Call(Principal("test", ALL_SCOPES))


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
