"""Thinking notebooks on a real database, and behind a real server in front of a real Jupyter."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from cellwright.app.settings import Settings
from cellwright.app.workspace import make_workspace
from cellwright.core.resources import Change, Changes
from cellwright.storage.location import open_database
from cellwright.thinking.model import Limits
from cellwright.thinking.schema import MIGRATIONS
from cellwright.thinking.service import Thinking
from cellwright.thinking.templates import TEMPLATES
from jupyter_support import JupyterProcess, JupyterServer
from notebook_agent import in_front_of
from support import HttpServer
from thinking_support import Clock, MakeThinking

FLAGS = ("--toolsets", "thinking,kernels,scratch,notebooks")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def heard() -> list[Change]:
    """What was announced."""
    return []


@pytest.fixture
async def make_thinking(tmp_path: Path, clock: Clock, heard: list[Change]) -> AsyncGenerator[MakeThinking]:
    """Opens the notebooks of one place as often as wanted. Nothing runs in them, so no Jupyter is started."""
    workspace = make_workspace(Settings(root=tmp_path, state_dir=tmp_path / "other"), "stdio")
    opened: list[Thinking] = []
    databases = [workspace.database]

    def make(limits: Limits | None = None) -> Thinking:
        changes = Changes()
        changes.subscribe(heard.append)
        database = open_database(tmp_path / "state" / "cellwright.db", MIGRATIONS)
        databases.append(database)
        made = Thinking(database, changes, workspace.thinking.kernels, TEMPLATES, limits=limits, clock=clock)
        opened.append(made)
        return made

    yield make
    for thinking in opened:
        await thinking.close()
    await workspace.close()
    for database in databases[1:]:
        await database.close()


@pytest.fixture
def thinking(make_thinking: MakeThinking) -> Thinking:
    return make_thinking()


@pytest.fixture(scope="session")
def thinking_jupyter(tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterServer]:
    process = JupyterProcess(tmp_path_factory.mktemp("thinking-jupyter"))
    try:
        process.start()
        yield process.address
    finally:
        process.stop()


@pytest.fixture(scope="session")
def server(thinking_jupyter: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with in_front_of(thinking_jupyter, tmp_path_factory.mktemp("thinking"), *FLAGS) as started:
        yield started
