"""Fixtures for all tests."""

import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cellwright.storage.database import Engine
from cellwright.storage.location import Location
from storage_support import PostgresServer

# What a test leaves in the state folder that nobody named must not be the state of whoever runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="cellwright-state-")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, as the program does."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One real PostgreSQL for all tests of this process that want one."""
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
