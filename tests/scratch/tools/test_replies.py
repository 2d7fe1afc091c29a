"""What pads answer: what was touched, whole and small; counts that are right; nothing foreign in a list."""

import json
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from cellwright.app.log import KEYS
from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.scratch.schema import MIGRATIONS
from cellwright.scratch.service import Pads
from cellwright.scratch.tools import plus, scratch
from cellwright.scratch.tools.common import CellInput
from cellwright.storage.cells import MIGRATIONS as CELLS
from cellwright.storage.location import Location, open_database
from cellwright.storage.search.schema import MIGRATIONS as SEARCH
from pads_support import FLAGS, call
from requirements import requirement
from support import HttpServer, http_client, http_server

pytestmark = pytest.mark.anyio
ANN = Call(Principal("ann", ALL_SCOPES))
MakePads = Callable[..., Pads]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with http_server(tmp_path_factory.mktemp("replies"), *FLAGS) as started:
        yield started


def numbered(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"language": "py", "content": f"x = {number}", **more} for number in range(count)]


async def ids_of(client: Client, pad: str) -> list[str]:
    ids: list[str] = []
    while True:
        page = await call(client, "scratch_list_cells", scratch_id=pad, offset=len(ids), limit=200)
        ids += [cell["cell_id"] for cell in page["cells"]]
        if "next" not in page:
            return ids


@requirement("scratch:reply:created")
async def test_creating_many_cells_names_them_all(server: HttpServer) -> None:
    async with http_client(server) as client:
        made = (await call(client, "scratch_create", scratch_id="many", cells=numbered(200)))["scratchpad"]
        assert [cell["cell_id"] for cell in made["cells"]] == await ids_of(client, "many")
        assert [cell["index"] for cell in made["cells"]] == list(range(200))
        assert "cells_left_out" not in made
        made = (await call(client, "scratch_create", scratch_id="more", cells=numbered(1000)))["scratchpad"]
        shown = len(made["cells"])
        assert all(isinstance(cell, dict) for cell in made["cells"])
        assert (shown > 200, shown + made["cells_left_out"]) == (True, 1000)
        assert [cell["cell_id"] for cell in made["cells"]] == (await ids_of(client, "more"))[:shown]


@requirement("scratch:reply:touched")
async def test_a_change_shows_the_cell_it_was_about(server: HttpServer) -> None:
    async with http_client(server) as client:
        await call(client, "scratch_create", scratch_id="long", cells=numbered(121, tags=["t"], metadata={"k": 1}))
        ids = await ids_of(client, "long")
        replaced = await call(
            client, "scratch_replace_cell", scratch_id="long", cell_id=ids[3], cell={"language": "sql", "content": "y"}
        )
        expected = {"cell_id": ids[3], "index": 3, "language": "sql", "type": "code"}
        assert replaced["scratchpad"]["cells"] == [{**expected, "tags": ["t"], "metadata": {"k": 1}}]
        assert (replaced["scratchpad"]["cell_count"], replaced["scratchpad"]["cells_left_out"]) == (121, 120)
        inserted = await call(client, "scratch_insert_cell", scratch_id="long", index=60, cell=numbered(1)[0])
        assert [cell["index"] for cell in inserted["scratchpad"]["cells"]] == [60]
        appended = await call(client, "scratch_append_cell", scratch_id="long", cell=numbered(1)[0])
        assert [cell["index"] for cell in appended["scratchpad"]["cells"]] == [122]
        gone = await call(client, "scratch_delete_cell", scratch_id="long", cell_id=ids[5])
        assert gone["deleted_cell"] == {"cell_id": ids[5], "index": 5}
        assert (gone["scratchpad"]["cells"], gone["scratchpad"]["cells_left_out"]) == ([], 122)


@requirement("scratch:reply:touched")
async def test_a_small_pad_is_shown_whole(server: HttpServer) -> None:
    async with http_client(server) as client:
        await call(client, "scratch_create", scratch_id="small", cells=numbered(3, tags=["t"]))
        shown = (await call(client, "scratch_append_cell", scratch_id="small", cell=numbered(1, tags=["u"])[0]))[
            "scratchpad"
        ]
        assert [cell["cell_id"] for cell in shown["cells"]] == await ids_of(client, "small")
        assert [cell.get("tags") for cell in shown["cells"]] == [None, None, None, ["u"]]
        assert (shown["cell_tags"], "cells_left_out" in shown) == (["t", "u"], False)


@requirement("scratch:reply:small")
async def test_replies_to_changes_are_small_and_say_nothing_twice(pads: Pads) -> None:
    about = {"title": "Title-once", "description": "Description-once", "tags": ["tag-once"], "mood": "mood-never"}
    cells = [CellInput("py", str(number), tags=["cell-tag"], metadata={"k": "v"}) for number in range(300)]
    await scratch.scratch_create(pads, ANN, "p", about, cells)
    reply = await scratch.scratch_append_cell(pads, ANN, "p", CellInput("py", "x", tags=["own-tag"]))
    text = json.dumps(reply)
    assert [text.count(word) for word in ("Title-once", "Description-once", "tag-once", "mood-never")] == [1, 1, 1, 0]
    # Once with the cell, once in the union of all.
    assert text.count("own-tag") == 2
    assert estimate_tokens(text) < 200


SCHEMAS: dict[str, Any] = {
    "num": {"id": "n1", "description": "a number", "schema": {"type": "number"}},
    "Über text": {"id": "n2", "description": "", "schema": {"$ref": "scratchpad://schemas/num"}},
}


@requirement("scratch:read:schemas")
async def test_a_pad_made_from_what_was_read_has_its_schemas(server: HttpServer) -> None:
    async with http_client(server) as client:
        given = {"title": "T", "tags": ["own"], "schemas": SCHEMAS, "mood": "calm"}
        cells = [{"language": "json", "content": "1", "tags": ["a"], "json_schema": "scratchpad://schemas/num"}]
        await call(client, "scratch_create", scratch_id="first", metadata=given, cells=cells)
        read = (await call(client, "scratch_read", scratch_id="first"))["scratchpad"]
        assert read["metadata"]["schemas"] == SCHEMAS
        assert (read["cell_tags"], read["metadata"]["cell_tags"]) == (["a"], ["a"])
        await call(client, "scratch_create", scratch_id="second", metadata=read["metadata"])
        again = (await call(client, "scratch_read", scratch_id="second"))["scratchpad"]
        assert again["metadata"] == {**read["metadata"], "cell_tags": []}
        listed = await call(client, "scratch_list_schemas", scratch_id="second")
        assert {one["name"]: {**one, "name": None} for one in listed["schemas"]} == {
            name: {**one, "name": None} for name, one in SCHEMAS.items()
        }
        bare = (await call(client, "scratch_read", scratch_id="first", include_metadata=False))["scratchpad"]
        assert "metadata" not in bare
        (content,) = (await client.read_resource("scratchpad://first")).contents
        assert json.loads(content.text)["metadata"]["schemas"] == SCHEMAS  # type: ignore[union-attr]


@requirement("scratch:read:schemas-budget")
async def test_schemas_that_do_not_fit_are_counted_and_listed_in_pages(server: HttpServer) -> None:
    async with http_client(server) as client:
        schemas = {f"s{number:03}": {"title": "word " * 100} for number in range(100)}
        await call(client, "scratch_create", scratch_id="wide", metadata={"schemas": schemas}, cells=numbered(5))
        read = (await call(client, "scratch_read", scratch_id="wide"))["scratchpad"]
        assert len(read["metadata"]["schemas"]) + read["schemas_left_out"] == 100
        assert [cell["content"] for cell in read["cells"]] == [f"x = {number}" for number in range(5)]
        names: list[str] = []
        while True:
            page = await call(client, "scratch_list_schemas", scratch_id="wide", offset=len(names))
            names += [one["name"] for one in page["schemas"]]
            if "next" not in page:
                break
            assert page["next"] == len(names)
        assert names == sorted(schemas)


@requirement("scratch:update:as-read")
async def test_metadata_as_it_was_read_can_be_given_back(pads: Pads) -> None:
    await scratch.scratch_create(pads, ANN, "p", {"title": "T", "schemas": SCHEMAS}, [CellInput("py", "1", tags=["a"])])
    read = (await scratch.scratch_read(pads, ANN, "p"))["scratchpad"]["metadata"]
    changed = await plus.scratch_update(pads, ANN, "p", {**read, "title": "U"})
    assert changed["scratchpad"]["title"] == "U"
    assert (await scratch.scratch_read(pads, ANN, "p"))["scratchpad"]["metadata"] == {**read, "title": "U"}
    with pytest.raises(InvalidArgument, match="not changed here"):
        await plus.scratch_update(pads, ANN, "p", {"schemas": {"num": {"type": "string"}}})


@requirement("scratch:evict:log")
async def test_an_eviction_is_an_event_with_keys(tmp_path: Path) -> None:
    with http_server(tmp_path, *FLAGS, "--scratch-max-pads", "1") as server:
        async with http_client(server) as client:
            await call(client, "scratch_create", scratch_id="old")
            await call(client, "scratch_create", scratch_id="new")
        (line,) = [line for line in server.log.read_text(encoding="utf-8").splitlines() if "pad_evicted" in line]
    keys = {word.partition("=")[0]: word.partition("=")[2] for word in line.split()}
    assert (keys["event"], keys["pad"], keys["policy"], keys["level"]) == ("pad_evicted", "old", "discard", "info")
    assert keys["principal"]
    assert keys.keys() <= KEYS | {"time", "level", "event"}


@requirement("scratch:history:cells")
async def test_history_names_what_each_change_was_about(make_pads: MakePads) -> None:
    moment = [1_700_000_000.25]
    pads = make_pads(clock=lambda: moment[0])
    await scratch.scratch_create(pads, ANN, "p", {"title": "T"}, [CellInput("py", c, cell_id=c) for c in "abc"])
    await plus.scratch_insert_cell(pads, ANN, "p", 1, CellInput("py", "i", cell_id="i"))
    await scratch.scratch_replace_cell(pads, ANN, "p", "c", CellInput("py", "C"))
    await scratch.scratch_replace_cell(pads, ANN, "p", "a", CellInput("py", "A"), 2)
    await plus.scratch_delete_cell(pads, ANN, "p", "b")
    await plus.scratch_update(pads, ANN, "p", {"title": "U", "mood": "calm"})
    await scratch.scratch_upsert_schema(pads, ANN, "p", {"id": "s1", "name": "num", "schema": {}})
    await plus.scratch_history(pads, ANN, "p", restore=1)
    changes = (await plus.scratch_history(pads, ANN, "p"))["changes"]
    assert {change.pop("at") for change in changes} == {"2023-11-14T22:13:20.250Z"}
    diffs = [change.pop("diff").split("\n") for change in changes]
    assert [lines[0] for lines in diffs[1:4]] == ["schema num", "about the pad", "- [1] b: b"]
    assert diffs[-1] == ["+ [1] i: i"]
    assert changes == [
        {"version": 8, "change": "restore 1"},
        {"version": 7, "change": "schema", "schema": {"id": "s1", "name": "num"}},
        {"version": 6, "change": "update", "fields": ["mood", "title"]},
        {"version": 5, "change": "delete", "cells": [{"cell_id": "b", "index": 1}]},
        {"version": 4, "change": "replace", "cells": [{"cell_id": "a", "index": 2, "moved_from": 0}]},
        {"version": 3, "change": "replace", "cells": [{"cell_id": "c", "index": 3}]},
        {"version": 2, "change": "insert", "cells": [{"cell_id": "i", "index": 1}]},
    ]


@requirement("scratch:history:diff")
async def test_history_shows_what_a_change_did(make_pads: MakePads) -> None:
    pads = make_pads()
    await scratch.scratch_create(pads, ANN, "p", {"title": "T"}, [CellInput("py", "a\nb\nc", cell_id="x")])
    await scratch.scratch_replace_cell(pads, ANN, "p", "x", CellInput("py", "a\nB\nc", tags=["t"]))
    await plus.scratch_insert_cell(pads, ANN, "p", 0, CellInput("md", "new", cell_id="y"))
    await plus.scratch_delete_cell(pads, ANN, "p", "x")
    await plus.scratch_update(pads, ANN, "p", {"title": "U"})
    await scratch.scratch_upsert_schema(pads, ANN, "p", {"id": "s1", "name": "num", "schema": {"type": "number"}})

    async def diff(version: int) -> str:
        shown = await plus.scratch_history(pads, ANN, "p", diff=version)
        assert (shown["ok"], shown["scratch_id"], shown["version"]) == (True, "p", version)
        return str(shown["diff"])

    assert await diff(2) == 'cell x, index 0\n+tags: ["t"]\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c'
    assert (await plus.scratch_history(pads, ANN, "p", diff=2))["change"] == "replace"
    assert await diff(3) == 'cell y, new, index 0\n+language: "md"\n@@ -0,0 +1 @@\n+new'
    assert (await diff(4)).splitlines()[0] == "cell x, deleted"
    words = (await diff(5)).splitlines()
    assert (words[0], [line[0] for line in words if "title" in line]) == ("about the pad", ["-", "+"])
    assert (await diff(6)).startswith("schema num\n@@")
    assert "+a\n+b\n+c" in await diff(1)
    with pytest.raises(NotFound, match="version 9"):
        await plus.scratch_history(pads, ANN, "p", diff=9)
    with pytest.raises(InvalidArgument, match="two questions"):
        await plus.scratch_history(pads, ANN, "p", diff=2, restore=1)


@requirement("scratch:reset:told")
async def test_a_reset_says_how_the_pad_of_before_is_had_back(server: HttpServer) -> None:
    async with http_client(server) as client:
        await call(client, "scratch_create", scratch_id="r", cells=[{"language": "py", "content": "old"}])
        reset = await call(client, "scratch_create", scratch_id="r", cells=[], expect=1)
        assert reset["reset"] is True
        version = int(re.findall(r"scratch_history with restore: (\d+)", reset["note"])[0])
        back = await call(client, "scratch_history", scratch_id="r", restore=version)
        assert back["scratchpad"]["cell_count"] == 1
        read = await call(client, "scratch_read", scratch_id="r")
        assert [cell["content"] for cell in read["scratchpad"]["cells"]] == ["old"]


@requirement("scratch:history:cells")
async def test_changes_from_before_are_still_there(where: Location, make_pads: MakePads) -> None:
    old = open_database(where, (*SEARCH, *CELLS, *MIGRATIONS[:1]))
    await old.write(
        lambda tx: [
            tx.run("INSERT INTO tenants (tenant, pads) VALUES ('ann', 1)"),
            tx.run(
                "INSERT INTO pads (tenant, id, metadata, created, updated, version, cell_count) "
                "VALUES ('ann', 'p', '{}', 1, 1, 2, 0)"
            ),
            tx.run(
                "INSERT INTO pad_changes (tenant, pad, version, at, what, undo) VALUES ('ann', 'p', 2, 1000000, 'delete', ?)",
                json.dumps({"put": {"id": "c", "index": 0, "language": "py", "content": "x", "tags": []}}),
            ),
        ]
    )
    await old.close()
    pads = make_pads()
    assert (await plus.scratch_history(pads, ANN, "p"))["changes"] == [
        {"version": 2, "at": "1970-01-01T00:00:01.000Z", "change": "delete", "diff": "- [0] c: x"}
    ]
    restored = await plus.scratch_history(pads, ANN, "p", restore=1)
    assert [cell["cell_id"] for cell in restored["scratchpad"]["cells"]] == ["c"]


@requirement("scratch:validate:pages")
async def test_validating_many_cells_names_every_invalid_one(server: HttpServer) -> None:
    cells = numbered(121)
    broken = (37, 60, 88)
    for place in broken:
        cells[place]["content"] = "def f(:"
    cells[5] = {"language": "json", "content": "1", "json_schema": {"$ref": "urn:none"}}
    cells[6] = {"language": "md", "content": "```open"}
    cells[7] = {"language": "txt", "content": "x"}
    async with http_client(server) as client:
        await call(client, "scratch_create", scratch_id="checked", cells=cells)
        ids = await ids_of(client, "checked")
        page = await call(client, "scratch_validate", scratch_id="checked")
        assert page["totals"] == {
            "cells": 121,
            "invalid": 3,
            "failed": 0,
            "undecided": 1,
            "warning": 1,
            "valid": 115,
            "skipped": 1,
        }
        assert page["invalid_cells"] == [ids[place] for place in broken]
        assert [one["cell_index"] for one in page["results"][:5]] == [*broken, 5, 6]
        seen = page["results"]
        while "next" in page:
            assert page["next"] == len(seen)
            page = await call(client, "scratch_validate", scratch_id="checked", offset=len(seen), limit=30)
            assert page["totals"]["cells"] == 121
            seen += page["results"]
        assert sorted(one["cell_index"] for one in seen) == list(range(121))
        some = await call(client, "scratch_validate", scratch_id="checked", cell_ids=ids[:3], limit=2)
        assert (some["totals"]["cells"], len(some["results"]), some["next"]) == (3, 2, 2)


@requirement("scratch:validate:bounded")
async def test_results_hold_results_only_however_much_is_found(server: HttpServer) -> None:
    content = json.dumps(["word " * 60] * 80)
    cells = [
        {"language": "json", "content": content, "json_schema": {"items": {"type": "integer"}}, "validate": True}
        for _ in range(70)
    ]
    async with http_client(server) as client:
        made = await call(client, "scratch_create", scratch_id="much", cells=cells)
        assert len(made["validation"]) + made["validation_left_out"] == made["validation_totals"]["invalid"] == 70
        page = await call(client, "scratch_validate", scratch_id="much")
        for result in (*made["validation"], *page["results"]):
            assert len(result["errors"]) + len(result["warnings"]) + result["findings_left_out"] == 51
            assert all("message" in finding for finding in result["errors"])
        assert (page["totals"]["invalid"], len(page["invalid_cells"])) == (70, 50)
        assert page["next"] == len(page["results"])


@requirement("scratch:boolean-schema")
async def test_true_and_false_are_schemas(server: HttpServer) -> None:
    async with http_client(server) as client:
        await call(client, "scratch_create", scratch_id="boolean")
        for schema, status in ((True, "valid"), (False, "invalid")):
            cell = {"language": "json", "content": "1", "json_schema": schema, "validate": True}
            reply = await call(client, "scratch_append_cell", scratch_id="boolean", cell=cell)
            assert reply["validation"][0]["status"] == status
        read = await call(client, "scratch_read", scratch_id="boolean")
        assert [cell["json_schema"] for cell in read["scratchpad"]["cells"]] == [True, False]
