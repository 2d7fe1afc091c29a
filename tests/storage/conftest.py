"""A way to open a database of either engine."""

from collections.abc import AsyncGenerator, Callable, Iterable

import pytest

from cellwright.storage.database import Database
from cellwright.storage.location import Location, open_database
from cellwright.storage.migrations import Migration
from storage_support import TABLES

OpenDatabase = Callable[..., Database]


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
