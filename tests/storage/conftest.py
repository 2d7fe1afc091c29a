"""One real PostgreSQL server for all tests of this folder, and a way to open a database of either engine."""

import secrets
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from pathlib import Path

import psycopg
import pytest

from cellwright.storage.database import Database, Engine
from cellwright.storage.location import Location, open_database
from cellwright.storage.migrations import Migration
from storage_support import TABLES, PostgresServer

OpenDatabase = Callable[..., Database]


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
async def opened() -> AsyncGenerator[OpenDatabase]:
    """Opens databases and closes them at the end."""
    found: list[Database] = []

    def at(where: Location, migrations: Iterable[Migration] = TABLES) -> Database:
        found.append(open_database(where, migrations))
        return found[-1]

    yield at
    for database in found:
        await database.close()


@pytest.fixture
async def database(where: Location, opened: OpenDatabase) -> Database:
    return opened(where)
