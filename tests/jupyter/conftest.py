"""One real Jupyter server with collaboration for all tests of this folder, and people to share notebooks with."""

import secrets
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from cellwright.core.types import Secret
from cellwright.jupyter.address import JupyterAddress
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.presence import Collaborator
from cellwright.jupyter.remote import RemoteJupyter
from cellwright.jupyter.rooms import Rooms
from jupyter_support import JupyterProcess, JupyterServer, Person, PersonIn, person_in


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def jupyter_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """The shared server: url, token, root. Tests put their files in folders of their own."""
    process = JupyterProcess(tmp_path_factory.mktemp("jupyter"))
    try:
        process.start()
        yield process.address
    finally:
        process.stop()


@pytest.fixture
def start_jupyter(tmp_path: Path) -> Iterator[Callable[..., JupyterProcess]]:
    """Starts a server of the test's own, which it may kill, restart or configure; stopped at the end."""
    started: list[JupyterProcess] = []

    def start(**settings: object) -> JupyterProcess:
        home = tmp_path / f"jupyter{len(started)}"
        home.mkdir()
        process = JupyterProcess(home, **settings)  # pyright: ignore[reportArgumentType]
        started.append(process)
        process.start()
        return process

    try:
        yield start
    finally:
        for process in started:
            process.stop()


@pytest.fixture
def folder(jupyter_server: JupyterServer) -> str:
    """A fresh folder in the shared server's root, as a path relative to it."""
    name = f"test-{secrets.token_hex(6)}"
    (jupyter_server.root / name).mkdir()
    return name


@pytest.fixture(params=["remote"])
async def jupyter(request: pytest.FixtureRequest, jupyter_server: JupyterServer) -> AsyncGenerator[Jupyter]:
    """The port to the shared server. Tests that take it hold for every adapter."""
    assert request.param == "remote"
    async with RemoteJupyter(JupyterAddress.parse(jupyter_server.url, token=Secret(jupyter_server.token))) as remote:
        yield remote


@pytest.fixture
async def rooms(jupyter: Jupyter) -> AsyncGenerator[Rooms]:
    """Open documents of one agent on the shared server."""
    opened = Rooms(jupyter.documents, Collaborator("Test Agent"))
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def person(jupyter_server: JupyterServer) -> PersonIn:
    """`async with person(path) as them:` somebody else who has the file open on the shared server."""

    def enter(path: str, kind: str = "notebook") -> AbstractAsyncContextManager[Person]:
        return person_in(jupyter_server, path, kind)

    return enter
