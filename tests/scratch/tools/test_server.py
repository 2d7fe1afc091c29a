"""Pads through a real server and the official client: the envelope, tenants, resources, and what survives a kill."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

import copies
from requirements import requirement
from support import HttpServer, clean_environ, http_client, http_server, stdio_client

pytestmark = pytest.mark.anyio
FLAGS = ("--toolsets", "scratch,scratch_plus", "--rate", "0")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with http_server(tmp_path_factory.mktemp("pads"), *FLAGS) as started:
        yield started


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    (text,) = result.content
    assert json.loads(text.text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    (text,) = result.content
    assert json.loads(text.text) == result.structured_content  # type: ignore[union-attr]
    found: Any = result.structured_content
    assert found["ok"] is False
    assert set(found["error"]) - {"reason"} == {"code", "message", "error", "hint", "retryable", "details"}
    assert found["error"]["error"] == found["error"]["message"]
    return found["error"]


@requirement("scratch:envelope")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_everything_is_in_the_envelope(server: HttpServer, mode: str) -> None:
    pad = f"envelope-{mode}"
    async with http_client(server, mode) as client:
        assert (await call(client, "scratch_create", scratch_id=pad))["ok"] is True
        one = {"language": "py", "content": "x"}
        for tool, arguments, code in (
            ("scratch_read", {"scratch_id": "nope"}, "NOT_FOUND"),
            ("scratch_read", {"scratch_id": "a b"}, "INVALID_ID"),
            ("scratch_read", {"scratch_id": 5}, "VALIDATION_ERROR"),
            ("scratch_read", {}, "VALIDATION_ERROR"),
            ("scratch_read", {"scratch_id": pad, "unknown": 1}, "VALIDATION_ERROR"),
            ("scratch_append_cell", {"scratch_id": pad, "cell": {**one, "wrong": 1}}, "VALIDATION_ERROR"),
            ("scratch_append_cell", {"scratch_id": pad, "cell": {"content": "x"}}, "VALIDATION_ERROR"),
            ("scratch_append_cell", {"scratch_id": pad, "cell": "x"}, "VALIDATION_ERROR"),
            ("scratch_append_cell", {"scratch_id": pad, "cell": {**one, "content": "\x00"}}, "VALIDATION_ERROR"),
            (
                "scratch_append_cell",
                {"scratch_id": pad, "cell": {**one, "content": "x" * 1_100_000}},
                "CAPACITY_LIMIT_REACHED",
            ),
            ("scratch_insert_cell", {"scratch_id": pad, "index": 7, "cell": one}, "INVALID_INDEX"),
            ("scratch_search", {"query": "x", "limit": 500}, "VALIDATION_ERROR"),
            ("scratch_import", {"content": "{", "format": "ipynb"}, "VALIDATION_ERROR"),
            ("scratch_read", {"scratch_id": pad, "namespaces": ["n"]}, "CONFLICT"),
        ):
            assert (await refusal(client, tool, **arguments))["code"] == code, (tool, arguments)


@requirement("scratch:envelope", "scratch:envelope:silent")
async def test_a_broken_database_is_told_in_the_envelope_without_paths(tmp_path: Path) -> None:
    with http_server(tmp_path, *FLAGS) as server:
        (tmp_path / "state" / "cellwright.db").write_bytes(b"this is no database" * 1000)
        async with http_client(server) as client:
            error = await refusal(client, "scratch_list")
    assert error["code"] == "INTERNAL_ERROR"
    assert str(tmp_path) not in str(error)
    assert "sqlite" not in str(error).lower()


@pytest.fixture
def two_tenants(tmp_path: Path) -> Generator[tuple[HttpServer, dict[str, str], dict[str, str]]]:
    headers: list[dict[str, str]] = []
    for name in ("ann", "bob"):
        made = copies.run("token", "create", name, "--state-dir", str(tmp_path / "state"), env=clean_environ())
        token = next(word for word in made.stdout.split() if word.startswith("cw_"))
        headers.append({"Authorization": f"Bearer {token}"})
    with http_server(tmp_path, *FLAGS) as server:
        yield server, headers[0], headers[1]


@requirement("scratch:tenants", "scratch:resources")
async def test_tenants_are_those_of_the_tokens(two_tenants: tuple[HttpServer, dict[str, str], dict[str, str]]) -> None:
    server, ann, bob = two_tenants
    async with http_client(server, headers=ann) as first, http_client(server, headers=bob) as second:
        await call(
            first, "scratch_create", scratch_id="p", cells=[{"language": "py", "content": "ann's", "cell_id": "c"}]
        )
        await call(
            second, "scratch_create", scratch_id="p", cells=[{"language": "py", "content": "bob's", "cell_id": "c"}]
        )
        for client, text in ((first, "ann's"), (second, "bob's")):
            (content,) = (await client.read_resource("scratchpad://p/cells/c")).contents
            assert content.text == text  # type: ignore[union-attr]
        await call(first, "scratch_create", scratch_id="mine")
        errors: list[str] = []
        for uri in ("scratchpad://mine", "scratchpad://none"):
            with pytest.raises(MCPError) as refused:
                await second.read_resource(uri)
            errors.append(str(refused.value.error).replace("mine", "none"))
        assert errors[0] == errors[1]
        assert "scratchpad://mine" not in {str(one.uri) for one in (await second.list_resources()).resources}


@requirement("scratch:resources")
async def test_resources_and_their_changes(server: HttpServer) -> None:
    async with http_client(server) as client:
        cells = [
            {"language": "md", "content": "# Hi", "cell_id": "m"},
            {"language": "py", "content": "x = 1", "cell_id": "c"},
        ]
        await call(client, "scratch_create", scratch_id="res", metadata={"title": "T"}, cells=cells)
        kinds = {
            "scratchpad://list": "application/json",
            "scratchpad://res": "application/json",
            "scratchpad://res/cells/c": "text/x-python",
            "scratchpad://res/ipynb": "application/x-ipynb+json",
            "scratchpad://res/srcmd": "text/markdown",
            "scratchpad://res/json": "application/json",
            "scratchpad://res/md": "text/markdown",
        }
        for uri, mime in kinds.items():
            (content,) = (await client.read_resource(uri)).contents
            assert content.mime_type == mime, uri
        for uri in ("scratchpad://res/cells/none", "scratchpad://res/docx", "scratchpad://", "scratchpad://a b"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
        async with client.listen(resource_subscriptions=["scratchpad://res"], resources_list_changed=True) as heard:
            await call(client, "scratch_append_cell", scratch_id="res", cell={"language": "py", "content": "y"})
            with anyio.fail_after(10):
                assert str(getattr(await anext(heard), "uri", "")) == "scratchpad://res"
            await call(client, "scratch_delete", scratch_id="res")
            with anyio.fail_after(10):
                while type(await anext(heard)).__name__ != "ResourcesListChanged":
                    pass


UNDER_WAY = 8


async def write_on(client: Client, pad: str, kept: dict[str, int], under_way: anyio.Event) -> None:
    while True:
        await call(client, "scratch_append_cell", scratch_id=pad, cell={"language": "py", "content": "z"})
        kept[pad] += 1
        if kept[pad] == UNDER_WAY:
            under_way.set()


@requirement("scratch:durable")
async def test_what_was_acknowledged_survives_kill(tmp_path: Path) -> None:
    """Several rounds of mixed writes, each ended by kill -9 in the middle of writing."""
    kept: dict[str, int] = {}
    gone: set[str] = set()
    for turn in range(3):
        with http_server(tmp_path, *FLAGS) as server:
            async with http_client(server) as client:
                listed = await call(client, "scratch_list", limit=200)
                found = {pad["scratch_id"]: pad["cell_count"] for pad in listed["scratchpads"]}
                assert not gone & set(found)
                # One write may have been done and not acknowledged.
                assert all(found[pad] - count in {0, 1} for pad, count in kept.items())
                kept = {pad: found[pad] for pad in kept}
                for number in range(4):
                    pad = f"{turn}-{number}"
                    await call(client, "scratch_create", scratch_id=pad, cells=[{"language": "py", "content": "x"}])
                    kept[pad] = 1
                    await call(client, "scratch_append_cell", scratch_id=pad, cell={"language": "py", "content": "y"})
                    kept[pad] = 2
                await call(client, "scratch_delete", scratch_id=f"{turn}-0")
                gone.add(f"{turn}-0")
                kept.pop(f"{turn}-0")
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as group:
                        under_way = anyio.Event()
                        group.start_soon(write_on, client, f"{turn}-1", kept, under_way)
                        with anyio.fail_after(30):
                            await under_way.wait()
                        server.process.kill()
                        scope.cancel()


@requirement("scratch:durable")
async def test_four_processes_on_one_store(tmp_path: Path) -> None:
    """Each stdio client is a process of its own, all on one file."""
    tools = ("--toolsets", "scratch")
    async with (
        stdio_client(tmp_path, *tools) as one,
        stdio_client(tmp_path, *tools) as two,
        stdio_client(tmp_path, *tools) as three,
        stdio_client(tmp_path, *tools) as four,
    ):
        await call(one, "scratch_create", scratch_id="shared")
        async with anyio.create_task_group() as group:
            for number, client in enumerate((one, two, three, four)):

                async def write(client: Client = client, number: int = number) -> None:
                    for turn in range(10):
                        one = {"language": "py", "content": f"{number}.{turn}"}
                        await call(client, "scratch_append_cell", scratch_id="shared", cell=one)

                group.start_soon(write)
        cells = (await call(three, "scratch_read", scratch_id="shared"))["scratchpad"]["cells"]
    assert sorted(cell["content"] for cell in cells) == sorted(f"{n}.{t}" for n in range(4) for t in range(10))
    assert [cell["index"] for cell in cells] == list(range(40))
