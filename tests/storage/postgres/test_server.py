"""What only a server can do to us."""

import asyncio
import json
import traceback
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from cellwright.core.errors import CellwrightError, ConfigError, Unavailable
from cellwright.core.types import Secret
from cellwright.storage.database import Database, Transaction
from cellwright.storage.errors import CommitUnknown, StorageLost
from cellwright.storage.location import locate, open_database
from cellwright.storage.postgres.search import PgVectors
from cellwright.storage.search.schema import MIGRATIONS as SEARCH
from requirements import requirement
from storage_support import PASSWORD, PostgresServer

OpenDatabase = Callable[..., Database]
END_OTHERS = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'cellwright'"


@pytest.fixture
def own(postgres_server: PostgresServer) -> Secret:
    with psycopg.connect(postgres_server.url().reveal(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS own CASCADE")
        connection.execute("CREATE SCHEMA own")
    return postgres_server.url("own")


def end_connections(server: PostgresServer) -> None:
    with psycopg.connect(server.url().reveal(), autocommit=True) as connection:
        found = connection.execute(END_OTHERS).fetchone()
        assert found
        assert found[0] > 0


def insert(tx: Transaction) -> int:
    return tx.run("INSERT INTO cells (name) VALUES (NULL)")


@requirement("storage:postgres:lost")
@pytest.mark.anyio
async def test_a_connection_that_was_ended_is_replaced_unnoticed(
    postgres_server: PostgresServer, own: Secret, opened: OpenDatabase
) -> None:
    database = opened(own)
    await database.write(insert)
    assert await database.read(lambda tx: tx.row("SELECT count(*) FROM cells")) == (1,)
    end_connections(postgres_server)
    assert await database.read(lambda tx: tx.row("SELECT count(*) FROM cells")) == (1,)
    assert await database.write(insert) == 1
    ended: list[int] = []

    def ended_in_the_middle(tx: Transaction) -> int:
        insert(tx)
        if not ended:
            end_connections(postgres_server)
            ended.append(1)
        return insert(tx)

    # Nothing of the first attempt was committed, so the work is done once more and counts once.
    assert await database.write(ended_in_the_middle) == 1
    assert await database.read(lambda tx: tx.row("SELECT count(*) FROM cells")) == (4,)


@requirement("storage:postgres:lost")
@pytest.mark.anyio
async def test_a_connection_lost_at_the_commit_is_not_called_undone(
    postgres_server: PostgresServer, own: Secret, opened: OpenDatabase
) -> None:
    """The work ends, then the connection, then the commit is sent: nobody can know whether it arrived."""
    database = opened(own)

    def work(tx: Transaction) -> None:
        insert(tx)
        end_connections(postgres_server)

    with pytest.raises(CommitUnknown) as met:
        await database.write(work)
    assert not met.value.retryable
    assert "before you make it again" in met.value.hint
    assert await database.read(lambda tx: tx.row("SELECT count(*) FROM cells")) == (0,)


@requirement("storage:postgres:lost")
@pytest.mark.anyio
async def test_a_server_that_went_away_and_came_back(
    postgres_server: PostgresServer, own: Secret, opened: OpenDatabase
) -> None:
    database = opened(own)
    await database.write(insert)
    await asyncio.to_thread(postgres_server.stop)
    try:
        for call in (database.read, database.write):
            with pytest.raises(StorageLost, match="does not answer") as met:
                await call(insert)
            assert isinstance(met.value, Unavailable)
            assert met.value.retryable
    finally:
        await asyncio.to_thread(postgres_server.start)
    assert await database.write(insert) == 1
    assert await database.read(lambda tx: tx.row("SELECT count(*) FROM cells")) == (2,)


@requirement("storage:postgres:password")
@pytest.mark.anyio
@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/x",
        f"postgresql://u:{PASSWORD}@/x?host=/nowhere",
        f"postgresql://u:{PASSWORD}%zz@host/x",
        f"postgresql://u:{PASSWORD}@[::1/x",
        f"postgresql://u@host/x?nosuch={PASSWORD}",
        f"postgresql://u:{PASSWORD}@host:notaport/x",
    ],
)
async def test_no_failure_shows_the_password(address: str, caplog: pytest.LogCaptureFixture) -> None:
    database: Database | None = None
    with pytest.raises(CellwrightError) as met:  # noqa: PT012 - some are refused at once, some when they are used
        database = open_database(Secret(address))
        await database.read(lambda tx: tx.row("SELECT 1"))
    if database:
        await database.close()
    shown = json.dumps(met.value.as_json()) + "".join(traceback.format_exception(met.value)) + caplog.text
    # The line of this test that holds the address is part of no product.
    assert PASSWORD not in shown.replace(address, "")
    assert isinstance(met.value, ConfigError | StorageLost)


@requirement("storage:postgres:lost")
@pytest.mark.anyio
async def test_a_statement_that_a_server_stops_is_said(own: Secret, opened: OpenDatabase) -> None:
    database = opened(own)

    def work(tx: Transaction) -> None:
        tx.rows("SELECT set_config('statement_timeout', '50ms', true)")
        tx.rows("SELECT pg_sleep(5)")

    with pytest.raises(CellwrightError, match="was stopped") as met:
        await database.write(work)
    assert met.value.code == "TIMEOUT"
    assert await database.write(insert) == 1


@requirement("storage:location")
def test_the_setting_names_a_file_or_a_server(tmp_path: Path) -> None:
    assert locate("", tmp_path) == tmp_path / "cellwright.db"
    assert locate("/data/x.db", tmp_path) == Path("/data/x.db")
    assert locate("postgresql://u:p@h/d", tmp_path) == Secret("postgresql://u:p@h/d")
    with pytest.raises(ConfigError, match="does not know"):
        locate("mysql://u:p@h/d", tmp_path)


@requirement("search:processes")
@pytest.mark.anyio
async def test_two_that_make_the_table_of_vectors_at_once_both_have_it(own: Secret) -> None:
    databases = [open_database(own, SEARCH), open_database(own, SEARCH)]
    try:
        for turn in range(30):
            await databases[0].write(lambda tx: tx.run("DROP TABLE IF EXISTS search_vectors"))
            making = [one.write(lambda tx: PgVectors().prepare(tx, "a model", 3)) for one in databases]
            assert await asyncio.gather(*making) == [True, True], turn
    finally:
        for one in databases:
            await one.close()
