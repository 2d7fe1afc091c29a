"""Project contexts on a real database of either engine, in a real folder."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path

import pytest

from cellwright.app.parts import MIGRATIONS
from cellwright.context.service import ContextLimits, ProjectContext
from cellwright.core.resources import Changes
from cellwright.storage.database import Database
from cellwright.storage.location import Location, open_database
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.embeddings.port import EmbeddingChoice
from cellwright.storage.search.indexed import IndexedSearch
from cellwright.storage.search.opening import open_search
from traces_support import NAMING

MakeContext = Callable[..., ProjectContext]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
async def make_context(root: Path, where: Location) -> AsyncGenerator[MakeContext]:
    """Opens the context of one project, as often as wanted: as several processes would."""
    opened: list[tuple[ProjectContext, IndexedSearch, Database]] = []

    def make(
        limits: ContextLimits | None = None, clock: Callable[[], float] | None = None, changes: Changes | None = None
    ) -> ProjectContext:
        database = open_database(where, MIGRATIONS)
        search = open_search(database, Models(EmbeddingChoice("none", "", None)))
        context = ProjectContext(
            root, database, search, changes or Changes(), NAMING, limits=limits, clock=clock or time.time
        )
        opened.append((context, search, database))
        return context

    yield make
    for context, search, database in opened:
        await context.close()
        await search.close()
        await database.close()


@pytest.fixture
def context(make_context: MakeContext) -> ProjectContext:
    return make_context()


def put(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


@pytest.fixture
def files(root: Path) -> Callable[[Mapping[str, str]], None]:
    return lambda wanted: put(root, wanted)
