"""Project contexts on a real database of either engine, in a real folder."""

import secrets
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from pathlib import Path

import psycopg
import pytest

from cellwright.app.context_traces import trace_of
from cellwright.app.parts import MIGRATIONS
from cellwright.context.service import Limits, ProjectContext
from cellwright.core.resources import Changes
from cellwright.storage.database import Database, Engine
from cellwright.storage.embeddings.models import Models
from cellwright.storage.embeddings.port import EmbeddingChoice
from cellwright.storage.indexed import IndexedSearch
from cellwright.storage.location import Location, open_database
from cellwright.storage.open_search import open_search
from storage_support import PostgresServer

MakeContext = Callable[..., ProjectContext]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture(params=list(Engine))
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """An empty place of one engine. Tests that take it hold for both."""
    if request.param is Engine.SQLITE:
        return tmp_path / "state" / "cellwright.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    schema = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(server.url().reveal(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return server.url(schema)


@pytest.fixture
async def make_context(root: Path, where: Location) -> AsyncGenerator[MakeContext]:
    """Opens the context of one project, as often as wanted: as several processes would."""
    opened: list[tuple[ProjectContext, IndexedSearch, Database]] = []

    def make(limits: Limits | None = None, clock: Callable[[], float] | None = None) -> ProjectContext:
        database = open_database(where, MIGRATIONS)
        search = open_search(database, Models(EmbeddingChoice("none", "", None)))
        more = {"clock": clock} if clock else {}
        context = ProjectContext(root, database, search, Changes(), trace_of, limits=limits, **more)
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
