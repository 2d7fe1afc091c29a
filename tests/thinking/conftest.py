"""Thinking notebooks on a real database, and behind a real server in front of a real Jupyter."""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cellwright.app.settings import Settings
from cellwright.app.workspace import Workspace, make_workspace
from cellwright.core.resources import Change, Changes
from cellwright.core.types import Secret
from cellwright.notebook.run import Kernels
from cellwright.storage.cells import MIGRATIONS as CELLS
from cellwright.storage.database import Database
from cellwright.storage.location import Location, open_database
from cellwright.thinking.model import ThinkingLimits
from cellwright.thinking.schema import MIGRATIONS
from cellwright.thinking.service import Thinking
from cellwright.thinking.templates import TEMPLATES
from cellwright.workers.conversions import Conversions
from cellwright.workers.pool import WorkerPool
from jupyter_support import JupyterProcess, JupyterServer
from notebook_agent import in_front_of
from support import HttpServer
from thinking_support import Clock, MakeThinking, Opening

FLAGS = ("--toolsets", "thinking,kernels,scratch,notebooks")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def heard() -> list[Change]:
    """What was announced."""
    return []


@pytest.fixture
def opening(clock: Clock, heard: list[Change]) -> Opening:
    """Opens the notebooks of one place as often as wanted, as several processes would."""

    @asynccontextmanager
    async def places(where: Location) -> AsyncGenerator[Callable[[Kernels, ThinkingLimits | None], Thinking]]:
        opened: list[tuple[Thinking, Database]] = []
        pool = WorkerPool()

        def make(kernels: Kernels, limits: ThinkingLimits | None) -> Thinking:
            changes = Changes()
            changes.subscribe(heard.append)
            database = open_database(where, (*CELLS, *MIGRATIONS))
            made = Thinking(database, changes, kernels, TEMPLATES, (), Conversions(pool), limits=limits, clock=clock)
            opened.append((made, database))
            return made

        yield make
        for thinking, database in opened:
            await thinking.close()
            await database.close()
        await pool.close()

    return places


@pytest.fixture(scope="session")
def unused_kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    """For notebooks in which nothing runs: no Jupyter is started."""
    folder = tmp_path_factory.mktemp("unused")
    return make_workspace(Settings(root=folder, state_dir=folder / "state"), "stdio").thinking.kernels


@pytest.fixture
async def make_thinking(opening: Opening, where: Location, unused_kernels: Kernels) -> AsyncGenerator[MakeThinking]:
    """On both engines."""
    async with opening(where) as make:

        def made(limits: ThinkingLimits | None = None) -> Thinking:
            return make(unused_kernels, limits)

        yield made


@pytest.fixture
def thinking(make_thinking: MakeThinking) -> Thinking:
    return make_thinking()


@pytest.fixture
async def file_thinking(opening: Opening, tmp_path: Path, unused_kernels: Kernels) -> AsyncGenerator[Thinking]:
    """On a file alone, for what does not depend on the engine."""
    async with opening(tmp_path / "state" / "cellwright.db") as make:
        yield make(unused_kernels, None)


@pytest.fixture(scope="session")
def thinking_jupyter(tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterServer]:
    with JupyterProcess(tmp_path_factory.mktemp("thinking-jupyter")) as process:
        yield process.address


@pytest.fixture
async def make_workspace_at(
    thinking_jupyter: JupyterServer, tmp_path: Path
) -> AsyncGenerator[Callable[..., Workspace]]:
    """Whole workspaces in this process, in front of a real Jupyter."""
    opened: list[Workspace] = []

    def make(**more: Any) -> Workspace:
        state = tmp_path / f"workspace-{len(opened)}"
        token = Secret(thinking_jupyter.token)
        settings = Settings(
            root=tmp_path, state_dir=state, jupyter_url=thinking_jupyter.url, jupyter_token=token, **more
        )
        opened.append(make_workspace(settings, "stdio"))
        return opened[-1]

    yield make
    for workspace in opened:
        await workspace.close()


@pytest.fixture
async def make_running(
    opening: Opening, make_workspace_at: Callable[..., Workspace], tmp_path: Path
) -> AsyncGenerator[Callable[[], Thinking]]:
    """In this process, where the test moves the clock, with kernels of a real Jupyter."""
    async with opening(tmp_path / "state" / "cellwright.db") as make:
        yield lambda: make(make_workspace_at().thinking.kernels, None)


@pytest.fixture(scope="session")
def server(thinking_jupyter: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with in_front_of(thinking_jupyter, tmp_path_factory.mktemp("thinking"), *FLAGS) as started:
        yield started
