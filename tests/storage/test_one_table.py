"""A store that the version before wrote, with a table of cells for each part: the one table has all of it.

`before_one_table.json` has the rows of such a store, and what that version answered when it was asked for them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from cellwright.app.parts import MIGRATIONS
from cellwright.app.settings import Settings
from cellwright.app.workspace import make_workspace
from cellwright.core.resources import Changes
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.scratch.model import PadLimits
from cellwright.scratch.service import Pads, Policy
from cellwright.scratch.tools import plus, scratch
from cellwright.scratch.validation.validators import Validators
from cellwright.storage.database import Database, Transaction
from cellwright.storage.location import Location, open_database
from cellwright.storage.search.opening import open_search
from cellwright.thinking.model import ThinkingLimits
from cellwright.thinking.service import Thinking
from cellwright.thinking.templates import TEMPLATES
from cellwright.workers.conversions import Conversions
from cellwright.workers.pool import WorkerPool
from requirements import requirement

pytestmark = pytest.mark.anyio

BEFORE: dict[str, Any] = json.loads((Path(__file__).parent / "before_one_table.json").read_text(encoding="utf-8"))
LAST_BEFORE = {"cells": 0, "scratch": 3, "thinking": 3}
PEOPLE = {name: Call(Principal(name, ALL_SCOPES)) for name in ("ann", "bob")}


def fill(tx: Transaction) -> None:
    for table, content in BEFORE["tables"].items():
        columns = content["columns"]
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        for row in content["rows"]:
            tx.run(statement, *row)


@pytest.fixture
async def written_before(where: Location) -> Location:
    before = [one for one in MIGRATIONS if one.version <= LAST_BEFORE.get(one.part, one.version)]
    database = open_database(where, before)
    await database.write(fill)
    await database.close()
    return where


async def pads_of(database: Database) -> dict[str, Any]:
    validators = Validators(WorkerPool(processes=1))
    pads = Pads(database, open_search(database), validators, Changes(), limits=PadLimits(), policy=Policy())
    try:
        found: dict[str, Any] = {}
        for name in BEFORE["pads"]:
            owner, _, pad = name.partition("/")
            call = PEOPLE[owner]
            read, history = await scratch.scratch_read(pads, call, pad), await plus.scratch_history(pads, call, pad)
            # The version before told no differences.
            for change in history["changes"]:
                change.pop("diff", None)
            found[name] = {"read": read, "history": history}
        # And what is there can be gone back to.
        restored = await plus.scratch_history(pads, PEOPLE["ann"], "plan", restore=1)
        assert [cell["cell_id"] for cell in restored["scratchpad"]["cells"]] == ["intro", "code", "data", "raw"]
        return found
    finally:
        await pads.close()
        await validators.pool.close()


@requirement("storage:migrations:cells")
async def test_a_store_of_the_version_before_is_taken_over_whole(written_before: Location, tmp_path: Path) -> None:
    database = open_database(written_before, MIGRATIONS)
    pool = WorkerPool(processes=1)
    kernels = make_workspace(Settings(root=tmp_path, state_dir=tmp_path / "unused"), "stdio").thinking.kernels
    thinking = Thinking(
        *(database, Changes(), kernels, TEMPLATES, (), Conversions(pool)), limits=ThinkingLimits(ttl=1e9)
    )
    try:
        found = await pads_of(database)
        assert json.loads(json.dumps(found)) == BEFORE["pads"]
        view = await thinking.read(PEOPLE["ann"], BEFORE["thinking"]["id"])
        assert [
            {
                "id": cell.id,
                "kind": cell.kind.value,
                "source": cell.source,
                "language": cell.language,
                "filename": cell.filename,
                "metadata": cell.metadata,
                "execution_count": cell.execution_count,
                "outputs": list(cell.outputs),
                "status": cell.status,
            }
            for cell in view.cells
        ] == BEFORE["thinking"]["cells"]
        assert view.notebook.has_errors
        assert (await thinking.read(PEOPLE["bob"], BEFORE["thinking"]["bob"])).cells == []
    finally:
        await thinking.close()
        await database.close()
        await pool.close()
