"""Callers who mean no good, and many at once, through a real server and the official client."""

import json
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError

from cellwright.scratch.model import PadCellDraft
from cellwright.scratch.service import Pads
from cellwright.storage.search.port import Mode
from pads_support import FLAGS, ONE, call, cells_of, refused
from requirements import requirement
from support import HttpServer, http_client, http_server

pytestmark = pytest.mark.anyio
MOVES = 15
"""Twice as many calls are under way at once, which is nearly all that a caller may have."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with http_server(tmp_path_factory.mktemp("proof"), *FLAGS) as started:
        yield started


@requirement("scratch:proof:at-once")
async def test_appends_and_moves_at_once_leave_every_cell_once(server: HttpServer) -> None:
    async with http_client(server) as client, http_client(server) as other:
        started = [{**ONE, "content": str(n), "cell_id": f"c{n}"} for n in range(10)]
        await call(client, "scratch_create", scratch_id="race", cells=started)
        async with anyio.create_task_group() as group:
            for n in range(MOVES):
                mover, adder = (client, other) if n % 2 else (other, client)
                cell = {**ONE, "content": f"moved {n}"}
                moved = {"scratch_id": "race", "cell_id": f"c{n % 10}", "cell": cell, "new_index": n * 7 % 10}
                added = {"scratch_id": "race", "cell": {**ONE, "content": f"new {n}", "cell_id": f"n{n}"}}
                group.start_soon(lambda mover=mover, moved=moved: call(mover, "scratch_replace_cell", **moved))
                group.start_soon(lambda adder=adder, added=added: call(adder, "scratch_append_cell", **added))
        cells = await cells_of(client, "race")
    assert [cell["index"] for cell in cells] == list(range(10 + MOVES))
    assert {cell["cell_id"] for cell in cells} == {f"c{n}" for n in range(10)} | {f"n{n}" for n in range(MOVES)}


NESTED: dict[str, Any] = json.loads('{"a":' * 150 + "{}" + "}" * 150)


def notebook(source: str = "x", metadata: str = "{}", about: str = "{}") -> str:
    cell = (
        f'{{"cell_type": "code", "source": "{source}", "metadata": {metadata}, "outputs": [], "execution_count": null}}'
    )
    return f'{{"cells": [{cell}], "nbformat": 4, "nbformat_minor": 5, "metadata": {about}}}'


HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    *(("scratch_create", {"scratch_id": pad}, "INVALID_ID") for pad in ("", "..", "a" * 129, "ä", "a\n", "a\0", "a/b")),
    ("scratch_read", {"scratch_id": "h", "cell_ids": [str(n) for n in range(15_000)]}, "INVALID_ID"),
    ("scratch_read", {"scratch_id": "h", "cell_ids": [str(n) for n in range(40_000)]}, "VALIDATION_ERROR"),
    ("scratch_read", {"scratch_id": "h", "cell_ids": ["\0"]}, "INVALID_ID"),
    ("scratch_list", {"namespaces": [str(n) for n in range(70_000)]}, "VALIDATION_ERROR"),
    ("scratch_list_tags", {"namespaces": [str(n) for n in range(70_000)]}, "VALIDATION_ERROR"),
    ("scratch_search", {"query": "x", "namespaces": [str(n) for n in range(70_000)]}, "VALIDATION_ERROR"),
    ("scratch_list", {"tags": [str(n) for n in range(70_000)]}, "VALIDATION_ERROR"),
    *(("scratch_list", {"cursor": cursor}, "VALIDATION_ERROR") for cursor in ("zzz", "12.\0", "-1.a", "٣.a", "9" * 30)),
    ("scratch_update", {"scratch_id": "h", "metadata": {"title": 5}}, "VALIDATION_ERROR"),
    ("scratch_update", {"scratch_id": "h", "metadata": {"schemas": {"a": {}}}}, "VALIDATION_ERROR"),
    ("scratch_upsert_schema", {"scratch_id": "h", "schema": {"name": "n" * 201, "schema": {}}}, "VALIDATION_ERROR"),
    (
        "scratch_upsert_schema",
        {"scratch_id": "h", "schema": {"name": "n", "description": "d" * 300_000, "schema": {}}},
        "CAPACITY_LIMIT_REACHED",
    ),
    *(
        ("scratch_import", {"scratch_id": "bad", "format": "ipynb", "content": content}, "VALIDATION_ERROR")
        for content in (
            notebook("\\ud800"),
            notebook("\\u0000"),
            notebook(metadata='{"k": "\\ud800"}'),
            notebook(metadata='{"k": 1e999}'),
            notebook(about='{"k": NaN}'),
            notebook(about='{"a":' * 400 + "1" + "}" * 400),
            notebook(about='{"a":' * 5_000 + "1" + "}" * 5_000),
            notebook(about='{"tags": 5}'),
            "[" * 100_000,
        )
    ),
]


@requirement("scratch:proof:hostile", "scratch:envelope")
async def test_hostile_arguments_are_refused_in_the_envelope(server: HttpServer) -> None:
    async with http_client(server) as client:
        await call(client, "scratch_create", scratch_id="h", cells=[ONE])
        for tool, arguments, code in HOSTILE:
            with anyio.fail_after(5):
                error = await refused(client, tool, **arguments)
            assert error["code"] == code, (tool, str(arguments)[:100], error)
        for tool, arguments in (
            ("scratch_update", {"scratch_id": "h", "metadata": NESTED}),
            ("scratch_append_cell", {"scratch_id": "h", "cell": {**ONE, "json_schema": NESTED}}),
        ):
            # At the door already, before anything is parsed.
            with pytest.raises(MCPError, match="levels of nesting; make it flatter"):
                await client.call_tool(tool, arguments)
        assert (await refused(client, "scratch_read", scratch_id="bad"))["code"] == "NOT_FOUND"
        assert len(await cells_of(client, "h")) == 1
        for uri in ("h/../h", "h?x", "h#x", "%68", "u@h", "h:80", "h/cells/%00", "h//", "list/", "a" * 9_999):
            with pytest.raises(MCPError):
                await client.read_resource(f"scratchpad://{uri}")
    assert "event=crash" not in server.log.read_text(encoding="utf-8")


@requirement("scratch:proof:literal")
async def test_names_and_questions_mean_themselves(pads: Pads) -> None:
    odd = ["x' OR '1'='1", '"', "%", "_", ";--", "*", "NEAR(", "a AND b", "\\", "日本", "{x}", "?1", ":a", "%s", "$1"]
    for number, name in enumerate(odd):
        await pads.create(
            "ann", f"p{number}", {"namespace": name, "tags": [name]}, [PadCellDraft("py", f"w{number} thing")]
        )
    for number, name in enumerate(odd):
        for found in (
            await pads.page("ann", [name], (), 50, None),
            await pads.page("ann", (), [name], 50, None),
        ):
            assert [item["scratch_id"] for item in found.items] == [f"p{number}"]
        hits = (await pads.search("ann", "thing", [name], [name], 50, Mode.TEXT)).hits
        assert {hit.entry.key.thing for hit in hits} == {f"p{number}"}
        assert not {hit.entry.key.thing for hit in (await pads.search("bob", name, (), (), 50, Mode.TEXT)).hits}
        await pads.search("ann", name, (), (), 50, Mode.TEXT)
    for name in odd:
        assert (await pads.rename_namespace("ann", name, f"{name}2", migrate=True))[1] == 1
        assert await pads.delete_namespace("ann", f"{name}2", with_pads=True) == (True, 1)


@requirement("scratch:proof:pages")
async def test_pages_leave_nothing_out(server: HttpServer) -> None:
    async with http_client(server) as client:
        small = [{**ONE, "content": str(n)} for n in range(500)]
        await call(client, "scratch_create", scratch_id="many", cells=small)
        assert [cell["content"] for cell in await cells_of(client, "many")] == [str(n) for n in range(500)]
        large = [{**ONE, "metadata": {"k": "y" * 3_000}}] * 60
        await call(client, "scratch_create", scratch_id="wide", cells=large)
        assert [cell["index"] for cell in await cells_of(client, "wide")] == list(range(60))
        previews: list[int] = []
        offset: int | None = 0
        while offset is not None:
            page = await call(client, "scratch_list_cells", scratch_id="wide", limit=200, offset=offset)
            previews += [cell["index"] for cell in page["cells"]]
            offset = page.get("next")
        assert previews == list(range(60))
        for n in range(60):
            about = {"title": f"T{n}", "description": "long " * 150, "namespace": "paged"}
            await call(client, "scratch_create", scratch_id=f"page-{n}", metadata=about)
        listed: list[str] = []
        more: dict[str, str] = {}
        while True:
            page = await call(client, "scratch_list", namespaces=["paged"], limit=200, **more)
            listed += [pad["scratch_id"] for pad in page["scratchpads"]]
            if "next_cursor" not in page:
                break
            more = {"cursor": page["next_cursor"]}
        assert listed == [f"page-{n}" for n in reversed(range(60))]


@requirement("scratch:proof:bombs")
async def test_pads_answer_while_bombs_are_validated(tmp_path: Path) -> None:
    levels: dict[str, Any] = {"d60": {"type": "string"}}
    for level in range(60):
        levels[f"d{level}"] = {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2}
    bomb: dict[str, Any] = {
        "language": "json",
        "content": '"x"',
        "validate": True,
        "json_schema": {"$ref": "#/$defs/d0", "$defs": levels},
    }
    with http_server(tmp_path, *FLAGS, "--scratch-validation-timeout", "1") as server:
        async with http_client(server) as attacker, http_client(server) as victim:
            await call(attacker, "scratch_create", scratch_id="bombs")
            await call(victim, "scratch_create", scratch_id="calm")
            async with anyio.create_task_group() as group:
                for _ in range(4):
                    group.start_soon(lambda: call(attacker, "scratch_append_cell", scratch_id="bombs", cell=bomb))
                for _ in range(20):
                    with anyio.fail_after(5):
                        await call(victim, "scratch_append_cell", scratch_id="calm", cell=ONE)
            assert len(await cells_of(attacker, "bombs")) == 4
            assert (await refused(attacker, "scratch_validate", scratch_id="bombs"))["code"] == "VALIDATION_TIMEOUT"


@requirement("scratch:proof:told")
async def test_every_form_of_a_pad_is_told_to_have_changed(server: HttpServer) -> None:
    async with http_client(server) as client:
        await call(client, "scratch_create", scratch_id="told", cells=[ONE])
        wanted = {"scratchpad://told", "scratchpad://told/md", "scratchpad://told/ipynb", "scratchpad://list"}
        async with client.listen(resource_subscriptions=sorted(wanted)) as heard:
            await call(client, "scratch_append_cell", scratch_id="told", cell=ONE)
            told: set[str] = set()
            with anyio.fail_after(10):
                while told != wanted:
                    told.add(str(getattr(await anext(heard), "uri", "")))


@requirement("scratch:proof:private")
async def test_the_database_is_private(server: HttpServer) -> None:
    async with http_client(server) as client:
        await call(client, "scratch_create", scratch_id="private")
    folder = server.log.parent / "state"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.glob("cellwright.db*"))
    assert files
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
