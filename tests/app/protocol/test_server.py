"""Tools, errors, budgets, progress and resources: the official client, both transports, both eras."""

import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ResourceTemplateReference

from cellwright.app.protocol.results import TRUNCATED
from cellwright.app.settings import Settings
from cellwright.app.workspace import local_user, make_workspace
from cellwright.core.text.budget import DEFAULT_TOKENS, estimate_tokens
from locations import PROBE
from requirements import requirement
from support import HttpServer, clean_environ, http_client, http_server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def probe_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with http_server(
        tmp_path_factory.mktemp("probe"), "--toolsets", "all", "--rate", "0", program=(str(PROBE),)
    ) as server:
        yield server


@asynccontextmanager
async def on_stdio(folder: Path, mode: str) -> AsyncGenerator[Client]:
    arguments = [str(PROBE), "--stdio", "--toolsets", "all", "--root", str(folder)]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=clean_environ())
    async with Client(parameters, mode=mode, cache=None) as client:  # pyright: ignore[reportArgumentType]
        yield client


@pytest.fixture(scope="module")
async def stdio_2026(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Client]:
    """One for all tests: each start of the program is a second of a processor, and no test here changes what another one sees."""
    async with on_stdio(tmp_path_factory.mktemp("stdio"), "auto") as client:
        yield client


@pytest.fixture(scope="module")
async def stdio_2025(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Client]:
    async with on_stdio(tmp_path_factory.mktemp("stdio"), "legacy") as client:
        yield client


@pytest.fixture(params=["stdio-2026", "stdio-2025", "http-2026", "http-2025"])
def connect(request: pytest.FixtureRequest) -> Any:
    """A function that gives a client of this transport and era."""
    transport, _, era = str(request.param).partition("-")
    if transport == "stdio":
        client: Client = request.getfixturevalue(f"stdio_{era}")
        return lambda: nullcontext(client)
    server: HttpServer = request.getfixturevalue("probe_server")
    return lambda: http_client(server, "auto" if era == "2026" else "legacy")


@requirement("tools:result:both", "tools:annotations")
async def test_every_tool_gives_data_that_fits_its_schema_and_the_same_as_text(connect: Any) -> None:
    async with connect() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for name, arguments in (("workspace_status", {}), ("probe_echo", {"text": "hé 🙂", "numbers": 3})):
            result = await client.call_tool(name, arguments)
            assert not result.is_error
            jsonschema.validate(result.structured_content, tools[name].output_schema)
            assert len(result.content) == 1
        assert result.content[0].text == '{"text":"hé 🙂","numbers":[0,1,2]}'
        assert tools["probe_echo"].annotations.read_only_hint is True
        assert tools["probe_write"].annotations.read_only_hint is False
        assert tools["probe_write"].annotations.destructive_hint is True
        assert tools["probe_slow"].annotations.open_world_hint is True


@requirement("tools:result:both")
async def test_a_picture_is_a_picture(connect: Any) -> None:
    async with connect() as client:
        result = await client.call_tool("probe_picture", {})
        assert [block.type for block in result.content] == ["text", "image"]
        assert result.structured_content == {"text": "a dot", "numbers": []}


@requirement("tools:arguments:unknown")
async def test_a_wrong_argument_comes_back_as_an_error_the_model_can_read(connect: Any) -> None:
    async with connect() as client:
        result = await client.call_tool("probe_echo", {"txt": "x"})
        assert result.is_error
        assert (
            result.content[0].text
            == "INVALID_ARGUMENT: unknown argument 'txt'; did you mean 'text'? this tool takes: numbers, repeat, text"
        )
        assert result.structured_content["ok"] is False
        assert result.structured_content["error"]["code"] == "INVALID_ARGUMENT"


@requirement("tools:error:lanes")
async def test_failures_come_in_two_lanes(connect: Any) -> None:
    async with connect() as client:
        failed = await client.call_tool("probe_fail", {})
        assert failed.is_error
        error = failed.structured_content["error"]
        assert (error["code"], error["retryable"], error["hint"]) == ("UNAVAILABLE", True, "wait until it boils")
        crashed = await client.call_tool("probe_crash", {})
        assert crashed.is_error
        assert crashed.structured_content["error"]["code"] == "INTERNAL_ERROR"
        assert "secret-detail" not in str(crashed)


@requirement("tools:error:lanes")
async def test_the_log_has_the_crash_that_the_caller_does_not_see(probe_server: HttpServer) -> None:
    async with http_client(probe_server) as client:
        crashed: Any = await client.call_tool("probe_crash", {})
    identity = crashed.structured_content["error"]["message"].rpartition(" ")[2]
    lines = [
        line for line in probe_server.log.read_text(encoding="utf-8").splitlines() if f"request={identity}" in line
    ]
    assert any("event=crash" in line and "secret-detail-of-the-crash" in line for line in lines)


@requirement("tools:unknown")
async def test_an_unknown_tool_is_a_protocol_error_with_the_nearest_name(connect: Any) -> None:
    async with connect() as client:
        with pytest.raises(MCPError, match="did you mean 'probe_echo'") as caught:
            await client.call_tool("probe_eco", {})
        assert caught.value.error.code == -32602


async def test_an_alias_can_be_called_and_is_not_listed(connect: Any) -> None:
    async with connect() as client:
        assert (await client.call_tool("probe_parrot", {"text": "x"})).structured_content["text"] == "x"
        assert "probe_parrot" not in {tool.name for tool in (await client.list_tools()).tools}


@requirement("tools:result:budget")
@pytest.mark.parametrize("arguments", [{"text": "word ", "repeat": 500_000}, {"text": "x", "numbers": 200_000}])
async def test_a_flood_is_cut_and_says_so(connect: Any, arguments: dict[str, Any]) -> None:
    async with connect() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("probe_echo", arguments)
        assert estimate_tokens(result.content[0].text) <= DEFAULT_TOKENS
        assert result.meta[TRUNCATED]["original_tokens"] > DEFAULT_TOKENS
        jsonschema.validate(result.structured_content, tools["probe_echo"].output_schema)


@requirement("tools:progress")
async def test_progress_arrives_while_the_work_goes_on(connect: Any) -> None:
    async with connect() as client:
        seen: list[tuple[float, float | None, str | None]] = []

        async def told(done: float, total: float | None, message: str | None) -> None:
            seen.append((done, total, message))

        result = await client.call_tool("probe_slow", {"tag": "p", "steps": 4, "delay": 0.02}, progress_callback=told)
        assert result.structured_content["text"] == "p"
        assert seen == [(n, 4, f"step {n}") for n in (1, 2, 3, 4)]


@requirement("tools:cancel")
async def test_a_cancelled_call_stops_the_work(connect: Any) -> None:
    async with connect() as client:
        tag = f"tag-{id(client)}"
        with anyio.move_on_after(0.5):
            await client.call_tool("probe_slow", {"tag": tag, "steps": 10_000, "delay": 0.01})
        with anyio.fail_after(10):
            seen = ""
            while tag not in seen:
                seen = (await client.call_tool("probe_cancelled", {})).structured_content["text"]


@requirement("resources:read")
async def test_resources_are_listed_and_read_with_their_type(connect: Any) -> None:
    async with connect() as client:
        listed = {resource.uri: resource for resource in (await client.list_resources()).resources}
        assert listed["cellwright://status"].mime_type == "application/json"
        (content,) = (await client.read_resource("cellwright://status")).contents
        assert content.mime_type == "application/json"
        assert '"version"' in content.text
        with pytest.raises(MCPError) as caught:
            await client.read_resource("cellwright://nothing")
        assert caught.value.error.code == -32602
        assert caught.value.error.data["uri"] == "cellwright://nothing"
        with pytest.raises(MCPError) as caught:
            await client.read_resource("nowhere://x")
        assert caught.value.error.code == -32602


@requirement("resources:malformed")
async def test_a_malformed_address_says_so(connect: Any) -> None:
    async with connect() as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("no-address")
        assert caught.value.error.code == -32600
        assert caught.value.error.data["resource"] == "no-address"
        assert caught.value.error.data["reason"] == "INVALID_URI"


@requirement("resources:completion")
async def test_error_codes_are_completed_and_explained(connect: Any) -> None:
    async with connect() as client:
        reference = ResourceTemplateReference(uri="cellwright://errors/{code}")
        found = await client.complete(reference, {"name": "code", "value": "con"})
        assert found.completion.values == ["CONFIG_ERROR", "CONFLICT"]
        (content,) = (await client.read_resource("cellwright://errors/CONFLICT")).contents
        assert "changed since you read it" in content.text


async def test_instructions_tell_how_to_begin_and_are_short(connect: Any) -> None:
    async with connect() as client:
        assert client.instructions is not None
        assert len(client.instructions) <= 600
        assert "workspace_status" in client.instructions


@requirement("telemetry:off")
def test_spans_are_made_only_if_asked_for(tmp_path: Path) -> None:
    without = make_workspace(Settings(root=tmp_path), "stdio").server(local_user())
    with_spans = make_workspace(Settings(root=tmp_path, otel=True), "stdio").server(local_user())
    spans = "OpenTelemetryMiddleware"
    assert spans not in [type(middleware).__name__ for middleware in without.middleware]
    assert [type(middleware).__name__ for middleware in with_spans.middleware].count(spans) == 1
