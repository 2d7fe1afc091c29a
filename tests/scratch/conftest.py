"""Pads on a real database of either engine."""

from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path

import pytest

from cellwright.core.resources import Changes
from cellwright.scratch.model import PadLimits
from cellwright.scratch.schema import MIGRATIONS
from cellwright.scratch.service import Pads, Policy
from cellwright.scratch.validation.validators import Validators
from cellwright.storage.cells import MIGRATIONS as CELLS
from cellwright.storage.location import Location, open_database
from cellwright.storage.search.opening import open_search
from cellwright.storage.search.schema import MIGRATIONS as SEARCH
from cellwright.workers.pool import WorkerPool
from quick_disk import quick_folder

MakePads = Callable[..., Pads]


@pytest.fixture(scope="session")
async def shared_validators() -> AsyncGenerator[Validators]:
    """One pool for all, as in a server: its processes are started once."""
    shared = Validators(WorkerPool(processes=2))
    yield shared
    await shared.pool.close()


@pytest.fixture
async def make_pads(where: Location, shared_validators: Validators) -> AsyncGenerator[MakePads]:
    """Opens the pads of one place, as often as wanted: as several processes would."""
    opened: list[tuple[Pads, object]] = []

    def make(
        limits: PadLimits | None = None,
        policy: Policy | None = None,
        clock: Callable[[], float] | None = None,
        changes: Changes | None = None,
    ) -> Pads:
        database = open_database(where, (*SEARCH, *CELLS, *MIGRATIONS))
        pads = Pads(
            database,
            open_search(database),
            shared_validators,
            changes or Changes(),
            limits=limits or PadLimits(),
            policy=policy or Policy(),
            **({"clock": clock} if clock else {}),
        )
        opened.append((pads, database))
        return pads

    yield make
    for pads, database in opened:
        await pads.close()
        await database.close()  # type: ignore[attr-defined]


@pytest.fixture
def in_memory() -> Generator[Path]:
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def pads(make_pads: MakePads) -> Pads:
    return make_pads()
