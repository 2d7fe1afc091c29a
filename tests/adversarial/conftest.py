"""A real Jupyter, our server in front of it, agents and people, for the families about notebooks."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from jupyter_support import JupyterProcess, JupyterServer, Person, PersonIn, person_in
from notebook_agent import Agent, agent_of, in_front_of
from support import HttpServer


@pytest.fixture(scope="session")
def jupyter_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterProcess]:
    with JupyterProcess(tmp_path_factory.mktemp("jupyter")) as process:
        yield process


@pytest.fixture(scope="session")
def jupyter_server(jupyter_process: JupyterProcess) -> JupyterServer:
    return jupyter_process.address


@pytest.fixture(scope="session")
def ours(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """Our server in front of the shared Jupyter."""
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("ours")) as server:
        yield server


@pytest.fixture
def agent(ours: HttpServer) -> Callable[..., AbstractAsyncContextManager[Agent]]:
    """`async with agent() as do:` a client of our server."""

    def connect(mode: str = "auto") -> AbstractAsyncContextManager[Agent]:
        return agent_of(ours, mode)

    return connect


@pytest.fixture
def nb_folder(jupyter_server: JupyterServer) -> str:
    """A fresh folder in the shared server's root, as a path relative to it."""
    name = f"test-{secrets.token_hex(6)}"
    (jupyter_server.root / name).mkdir()
    return name


@pytest.fixture
def person(jupyter_server: JupyterServer) -> PersonIn:
    """`async with person(path) as them:` somebody else who has the notebook open."""

    def enter(path: str, kind: str = "notebook") -> AbstractAsyncContextManager[Person]:
        return person_in(jupyter_server, path, kind)

    return enter
