"""One real Jupyter server with collaboration for all tests of this folder, and people to share notebooks with."""

import secrets
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from jupyter_server.serverapp import ServerApp

from cellwright.core.types import Secret
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.inside.adapter import LocalJupyter
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.remote.adapter import RemoteJupyter
from cellwright.jupyter.server.address import JupyterAddress
from jupyter_support import JupyterProcess, JupyterServer, Person, PersonIn, person_in
from local_support import address_of, server_in_loop


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What takes the port holds for every adapter; all else is tried against a server of its own process."""
    if "adapter" in metafunc.fixturenames:
        every = ["remote", "local"] if "jupyter" in metafunc.fixturenames else [_ONLY_REMOTE]
        metafunc.parametrize("adapter", every, indirect=True, scope="session")


_ONLY_REMOTE = pytest.param("remote", id=pytest.HIDDEN_PARAM)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def adapter(request: pytest.FixtureRequest) -> str:
    """How the server is reached: `remote` or `local`. Session-wide, so that pytest runs all tests of one before the other."""
    return request.param


@pytest.fixture(scope="session")
def server_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    with JupyterProcess(tmp_path_factory.mktemp("jupyter")) as process:
        yield process.address


@pytest.fixture(scope="session")
async def server_here(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[ServerApp]:
    """A server in the event loop of the tests."""
    async with server_in_loop(tmp_path_factory.mktemp("local") / "jupyter") as server:
        yield server


@pytest.fixture(scope="session")
def jupyter_server(adapter: str, request: pytest.FixtureRequest) -> JupyterServer:
    """The shared server: url, token, root. Tests put their files in folders of their own."""
    if adapter == "local":
        return address_of(request.getfixturevalue("server_here"))
    return request.getfixturevalue("server_process")


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
            process.end_all()


@pytest.fixture
def folder(jupyter_server: JupyterServer) -> str:
    """A fresh folder in the shared server's root, as a path relative to it."""
    name = f"test-{secrets.token_hex(6)}"
    (jupyter_server.root / name).mkdir()
    return name


@pytest.fixture
def port(adapter: str, jupyter_server: JupyterServer, request: pytest.FixtureRequest) -> Jupyter:
    if adapter == "local":
        return LocalJupyter(request.getfixturevalue("server_here"))
    return RemoteJupyter(JupyterAddress.parse(jupyter_server.url, token=Secret(jupyter_server.token)))


@pytest.fixture
async def jupyter(port: Jupyter) -> AsyncGenerator[Jupyter]:
    """The port to the shared server. Tests that take it hold for every adapter."""
    try:
        yield port
    finally:
        await port.close()


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
