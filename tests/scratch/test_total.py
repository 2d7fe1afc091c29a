"""What all pads of one caller together may keep, on both engines."""

from collections.abc import Callable
from typing import Any

import pytest

from cellwright.core.errors import LimitReached, NotFound
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.scratch.model import PadLimits, failure
from cellwright.scratch.schema import COUNT, MIGRATIONS
from cellwright.scratch.service import Pads
from cellwright.scratch.tools import plus, scratch
from cellwright.scratch.tools.common import CellInput
from cellwright.storage.cells import MIGRATIONS as CELLS
from cellwright.storage.database import Database, Engine, Transaction
from cellwright.storage.location import Location, open_database
from cellwright.storage.search.schema import MIGRATIONS as SEARCH
from requirements import requirement

pytestmark = pytest.mark.anyio

MakePads = Callable[..., Pads]
ANN = Call(Principal("ann", ALL_SCOPES))
BOB = Call(Principal("bob", ALL_SCOPES))
KIBI = 1024
OF_PADS = (
    "SELECT owner AS tenant, notebook AS pad, source AS content, metadata, json_schema FROM notebook_cells "
    "WHERE shelf = 'scratch'"
)
"""The cells of pads, as the statements that once counted them name them."""


def cell(content: str, **more: Any) -> CellInput:
    return CellInput("txt", content, **more)


def totals(tx: Transaction) -> dict[str, int]:
    kept: list[Any] = [
        *tx.rows("SELECT tenant, bytes FROM tenants"),
        *tx.rows("SELECT tenant || '/' || id, bytes FROM pads"),
        *tx.rows("SELECT tenant || '/' || pad || '@' || version, bytes FROM pad_changes"),
    ]
    return dict(kept)


async def kept_and_counted(database: Database) -> tuple[dict[str, int], dict[str, int]]:
    """The totals as they are kept, and as they are when all is counted anew."""

    def work(tx: Transaction) -> tuple[dict[str, int], dict[str, int]]:
        kept = totals(tx)
        for statement in COUNT.postgresql if database.engine is Engine.POSTGRESQL else COUNT.sqlite:
            tx.run(statement.replace("FROM cells x", f"FROM ({OF_PADS}) x"))
        return kept, totals(tx)

    return await database.write(work)


@requirement("door:pads")
async def test_what_would_be_too_much_is_refused_and_room_can_be_made(make_pads: MakePads) -> None:
    pads = make_pads(PadLimits(total_bytes=64 * KIBI))
    for name in ("a", "b", "c"):
        await scratch.scratch_create(pads, ANN, name, None, [cell("x" * 20 * KIBI)])
    more = "x" * 10 * KIBI
    refused = [
        scratch.scratch_create(pads, ANN, "d", None, [cell(more)]),
        scratch.scratch_append_cell(pads, ANN, "a", cell("é" * 5 * KIBI)),
        scratch.scratch_append_cell(pads, ANN, "a", cell("", metadata={"x": more})),
        scratch.scratch_upsert_schema(pads, ANN, "a", {"name": "s", "schema": {"title": more}}),
        plus.scratch_update(pads, ANN, "a", {"description": more}),
    ]
    for call in refused:
        with pytest.raises(LimitReached, match=r"more than the limit of --scratch-max-bytes, 65536") as raised:
            await call
        told = failure(raised.value)["error"]
        assert told["code"] == "CAPACITY_LIMIT_REACHED"
        assert "scratch_delete" in told["hint"]
    listed = (await scratch.scratch_list(pads, ANN))["scratchpads"]
    assert sorted((pad["scratch_id"], pad["cell_count"]) for pad in listed) == [("a", 1), ("b", 1), ("c", 1)]
    assert (await plus.scratch_history(pads, ANN, "a"))["version"] == 1, "nothing of it was done"
    await scratch.scratch_create(pads, BOB, "d", None, [cell(more)])
    await scratch.scratch_delete(pads, ANN, "b")
    await scratch.scratch_create(pads, ANN, "d", None, [cell(more)])
    free = make_pads(PadLimits(total_bytes=0))
    await scratch.scratch_create(free, ANN, "e", None, [cell("x" * 100 * KIBI)])
    # Over the limit, as after the operator lowered it: what makes less is taken.
    (first,) = (await scratch.scratch_list_cells(pads, ANN, "e"))["cells"]
    await scratch.scratch_replace_cell(pads, ANN, "e", first["cell_id"], cell("x" * 90 * KIBI))
    await plus.scratch_delete_cell(pads, ANN, "e", first["cell_id"])


@requirement("door:pads", "costs:ceiling")
async def test_one_pad_has_a_limit_of_its_own(make_pads: MakePads) -> None:
    pads = make_pads(PadLimits(pad_bytes=64 * KIBI))
    await scratch.scratch_create(pads, ANN, "a", None, [cell("x" * 20 * KIBI), cell("é" * 10 * KIBI)])
    more = "x" * 30 * KIBI
    for call in (
        scratch.scratch_append_cell(pads, ANN, "a", cell(more)),
        scratch.scratch_append_cell(pads, ANN, "a", cell("", metadata={"x": more})),
        scratch.scratch_upsert_schema(pads, ANN, "a", {"name": "s", "schema": {"title": more}}),
        scratch.scratch_create(pads, ANN, "b", None, [cell(more), cell(more), cell(more)]),
    ):
        with pytest.raises(LimitReached, match=r"more than the limit of --scratch-max-pad-bytes, 65536") as raised:
            await call
        assert "another pad" in failure(raised.value)["error"]["hint"]
    # Earlier versions do not count: the one cell may be written often.
    first, second = (await scratch.scratch_list_cells(pads, ANN, "a"))["cells"]
    for letter in "abcdefgh":
        await scratch.scratch_replace_cell(pads, ANN, "a", first["cell_id"], cell(letter * 30 * KIBI))
    await plus.scratch_delete_cell(pads, ANN, "a", second["cell_id"])
    await scratch.scratch_append_cell(pads, ANN, "a", cell(more))
    # Over the limit, as after the operator lowered it: what makes less is taken.
    lower = make_pads(PadLimits(pad_bytes=KIBI))
    await scratch.scratch_replace_cell(lower, ANN, "a", first["cell_id"], cell("x" * 20 * KIBI))
    with pytest.raises(LimitReached):
        await scratch.scratch_append_cell(lower, ANN, "a", cell("x"))


@requirement("door:pads:versions")
async def test_earlier_versions_give_way_the_oldest_first(make_pads: MakePads) -> None:
    pads = make_pads(PadLimits(total_bytes=64 * KIBI))
    await scratch.scratch_create(pads, ANN, "old", None, [cell("o" * 10 * KIBI, cell_id="c")])
    await scratch.scratch_replace_cell(pads, ANN, "old", "c", cell("o"))
    await scratch.scratch_create(pads, ANN, "p", None, [cell("0" * 10 * KIBI, cell_id="c")])
    for number in range(1, 30):
        await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell(str(number % 10) * 10 * KIBI))
    with pytest.raises(NotFound, match="not kept"):
        await pads.restore("ann", "old", 1)
    versions = [change["version"] for change in (await plus.scratch_history(pads, ANN, "p"))["changes"]]
    assert versions == list(range(30, 30 - len(versions), -1)), "the newest, without a gap"
    assert 2 <= len(versions) < 6
    await pads.restore("ann", "p", versions[-1])
    read = await scratch.scratch_read(pads, ANN, "p")
    assert read["scratchpad"]["cells"][0]["content"][:1] == str((versions[-1] - 1) % 10)


@requirement("door:pads:total")
async def test_the_total_is_exact_after_every_change(make_pads: MakePads, where: Location) -> None:
    pads = make_pads(PadLimits(pads=3, total_bytes=40 * KIBI))
    database = open_database(where, (*SEARCH, *CELLS, *MIGRATIONS))
    schema = {"name": "s", "description": "é", "schema": {"title": "ü"}}
    metadata: dict[str, Any] = {
        "title": "Größe",
        "description": "…",
        "summary": "s",
        "x": [1.5, None],
        "schemas": {"s": {"schema": {}}},
    }
    changes: list[Callable[[], Any]] = [
        lambda: scratch.scratch_create(pads, ANN, "a", metadata, [cell("ä" * KIBI, cell_id="c", metadata={"k": "ß"})]),
        lambda: scratch.scratch_append_cell(pads, ANN, "a", cell("b", cell_id="d", json_schema={"type": "string"})),
        lambda: plus.scratch_insert_cell(pads, ANN, "a", 0, cell("e")),
        lambda: scratch.scratch_replace_cell(pads, ANN, "a", "c", cell("f" * 5 * KIBI, metadata={}), 0),
        lambda: scratch.scratch_upsert_schema(pads, ANN, "a", schema),
        lambda: scratch.scratch_upsert_schema(pads, ANN, "a", {**schema, "schema": {"title": "longer"}}),
        lambda: plus.scratch_update(pads, ANN, "a", {"title": "é", "namespace": "n"}),
        lambda: plus.scratch_delete_schema(pads, ANN, "a", "s"),
        lambda: plus.scratch_delete_cell(pads, ANN, "a", "d"),
        lambda: pads.restore("ann", "a", 3),
        lambda: scratch.scratch_create(pads, ANN, "a", None, [cell("anew")], "any"),
        lambda: scratch.scratch_namespace_create(pads, ANN, "m"),
        *(lambda name=name: scratch.scratch_create(pads, ANN, name, None, [cell(name * KIBI)]) for name in "bcde"),
        *(lambda: scratch.scratch_create(pads, ANN, "e", None, [cell("e" * 6 * KIBI)], "any") for _ in range(12)),
        lambda: scratch.scratch_delete(pads, ANN, "e"),
        lambda: scratch.scratch_create(pads, BOB, "z", {"title": "z"}),
    ]
    try:
        for number, change in enumerate(changes):
            await change()
            kept, counted = await kept_and_counted(database)
            assert kept == counted, number
            assert kept["ann"] <= 40 * KIBI
    finally:
        await database.close()


@requirement("door:pads:total")
async def test_an_older_database_is_counted_once(where: Location) -> None:
    older = open_database(where, (*SEARCH, *CELLS, *MIGRATIONS[:2]))

    def fill(tx: Transaction) -> None:
        tx.run("INSERT INTO tenants (tenant, pads) VALUES ('ann', 1), ('bob', 0)")
        tx.run(
            "INSERT INTO pads (tenant, id, title, metadata, created, updated, version, cell_count) "
            "VALUES ('ann', 'p', 'é', '{}', 1, 1, 2, 1)"
        )
        tx.run(
            "INSERT INTO cells (tenant, pad, id, position, language, content, metadata, validate_on_write) "
            "VALUES ('ann', 'p', 'c', 0, 'txt', 'größe', '{}', 0)"
        )
        tx.run(
            "INSERT INTO shared_schemas (tenant, pad, id, name, description, body) VALUES ('ann', 'p', 's', 's', '', '{}')"
        )
        tx.run(
            "INSERT INTO pad_changes (tenant, pad, version, at, what, undo) VALUES ('ann', 'p', 2, 1, 'insert', '{\"…\":1}')"
        )

    await older.write(fill)
    await older.close()
    newer = open_database(where, (*SEARCH, *CELLS, *MIGRATIONS))
    try:
        assert await newer.read(totals) == {"ann": 24, "bob": 0, "ann/p": 24, "ann/p@2": 9}
    finally:
        await newer.close()
