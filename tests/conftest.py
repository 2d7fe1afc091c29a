"""Fixtures for all tests."""

import gc
import os
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import psycopg
import pytest

from cellwright.storage.database import Engine
from cellwright.storage.location import Location
from storage_support import PostgresServer
from wheel_support import slim_wheel

# Before anything imports jsonschema, which would have a grammar of addresses made: a second of each process that runs tests.
sys.modules["rfc3987_syntax"] = None  # pyright: ignore[reportArgumentType] - what says that it is not there
# What is imported stays: it need not be looked through again and again (see `pytest_collection_finish`).
gc.disable()
# How long an example takes says how busy the machine is, not whether what it shows is right.
# The same examples each time: whether a commit passes is no matter of luck. `make proofs` looks for others.
hypothesis.settings.register_profile(
    "cellwright", deadline=None, derandomize="CELLWRIGHT_TEST_CHANCE" not in os.environ
)
hypothesis.settings.load_profile("cellwright")
# What a test leaves in the state folder that nobody named must not be the state of whoever runs the tests.
STATE = tempfile.mkdtemp(prefix="cellwright-state-")
os.environ["XDG_STATE_HOME"] = STATE
# Nor does the environment that is active where the tests are run decide which Python runs their cells.
for _active in ("VIRTUAL_ENV", "CONDA_PREFIX"):
    os.environ.pop(_active, None)
# Whoever wants no bytecode would have each of hundreds of processes compile all that it loads, and pytest all tests each time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_unconfigure() -> None:
    shutil.rmtree(STATE, ignore_errors=True)


def pytest_collection_finish() -> None:
    """From here on the collector looks at what tests make."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have each of several processes begin with what takes long (marked `long`): what begins last decides when all is over."""
    processes = int(getattr(config, "workerinput", {"workercount": 1})["workercount"])
    if processes == 1:
        return
    # Those of one file stay together, for what they share.
    long: dict[Path, list[pytest.Item]] = {}
    seconds: Counter[Path] = Counter()
    for item in items:
        if mark := item.get_closest_marker("long"):
            long.setdefault(item.path, []).append(item)
            seconds[item.path] += mark.args[0]
    first: list[list[pytest.Item]] = [[] for _ in range(processes)]
    busy = [0.0] * processes
    for path, took in seconds.most_common():
        least = busy.index(min(busy))
        first[least] += long[path]
        busy[least] += took
    others = [item for item in items if not item.get_closest_marker("long")]
    # `worksteal` gives each process a part of the list, the last ones one more if it does not divide; then it evens out.
    size, more = divmod(len(items), processes)
    ordered: list[pytest.Item] = []
    for number, begun in enumerate(first):
        then = max(0, size + (number >= processes - more) - len(begun))
        ordered += [*begun, *others[:then]]
        del others[:then]
    items[:] = [*ordered, *others]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, as the program does."""
    return "asyncio"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project's wheel, in need of no more than `cellwright install` uses."""
    return slim_wheel(tmp_path_factory.mktemp("wheel"))


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
