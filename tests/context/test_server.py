"""Project context through a real server and the official client, and through the command line."""

import json
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from requirements import requirement
from support import HttpServer, clean_environ, http_client, http_server

pytestmark = pytest.mark.anyio
FLAGS = ("--toolsets", "workspace,context,scratch", "--rate", "0", "--embedding-model", "none")
FILES = {
    "pyproject.toml": '[project]\nname = "zoo"\n',
    "src/zoo/__init__.py": '"""The zoo."""\n',
    "src/zoo/cats/__init__.py": '"""Cats."""\nfrom zoo import dogs\n',
    "src/zoo/dogs/__init__.py": '"""Dogs."""\nBARK = "loud"\n',
    ".env": "KEY=CANARY-0123456789",
}


def put(root: Path) -> None:
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    folder = tmp_path_factory.mktemp("zoo")
    put(folder / "root")
    with http_server(folder, *FLAGS) as started:
        yield started


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def text_of(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    return content.text  # type: ignore[union-attr]


async def refusal(client: Client, uri: str) -> tuple[int, str, Any]:
    with pytest.raises(MCPError) as refused:
        await client.read_resource(uri)
    error = refused.value.error
    return error.code, error.message, error.data


@requirement("context:resources", "context:sessions")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_finds_its_way(server: HttpServer, mode: str) -> None:
    async with http_client(server, mode) as client:
        scanned = await call(client, "context_scan")
        assert scanned["modules"] == ["zoo", "cats", "dogs"]
        await call(client, "scratch_create", scratch_id=f"pad-{mode}")
        assert "BARK" in (await call(client, "read_file", path="src/zoo/dogs/__init__.py"))["text"]
        overview = await text_of(client, "context://project/overview")
        assert overview.startswith("# Project: zoo\n")
        assert "### cats\nCats.\n" in overview
        assert "## Dependencies\n\ndogs\n" in await text_of(client, "context://module/cats")
        session = await text_of(client, "context://session/current")
        assert re.match(r"# Active Session\n\n\*\*Started:\*\* \d{4}-\d\d-\d\dT[\d:]+Z  \n\*\*Duration:\*\* ", session)
        assert "### src/zoo/dogs/__init__.py\n**Access Count:** " in session
        assert f"**Resource:** scratchpad://pad-{mode}" in session
        assert re.search(r"- \*\*Tool Calls:\*\* \d+\n- \*\*Discoveries:\*\* \d+\n", session)
        recent = await text_of(client, "context://sessions/recent?limit=1")
        assert recent.startswith("# Recent Sessions (1)\n\n## Session ")
        listed = {str(one.uri) for one in (await client.list_resources()).resources}
        assert {"context://project/overview", "context://session/current", "context://module/dogs"} <= listed
        templates = {one.uri_template for one in (await client.list_resource_templates()).resource_templates}
        assert "context://module/{name}" in templates
        assert await text_of(client, "context://file/src/zoo/__init__.py") == '"""The zoo."""'
    if mode == "legacy":
        async with http_client(server, mode) as client:
            recent = await text_of(client, "context://sessions/recent")
            assert "**Status:** completed" in recent


@requirement("context:resources")
async def test_errors_have_the_codes_and_data_of_the_contract(server: HttpServer, tmp_path: Path) -> None:
    async with http_client(server) as client:
        await call(client, "context_scan")
        code, message, data = await refusal(client, "context://module/invalid")
        assert (code, message) == (-32602, "Module not found: invalid")
        assert data["resource"] == "context://module/invalid"
        assert data["reason"].startswith("Module 'invalid' not found in project.yaml")
        for uri in ("context://module/../../x", "context://module/..%2f..%2fx"):
            assert (await refusal(client, uri))[0] == -32602
        for limit in ("0", "-1", "101", "1e9", "NaN", "10;drop", "", "5&limit=6", "%00", "\u0661"):
            code, _, data = await refusal(client, f"context://sessions/recent?limit={limit}")
            assert (code, bool(data["reason"])) == (-32602, True), limit
        for uri in (
            "context://",
            "context://project",
            "context://nothing/at/all",
            "context://session/other",
            "context://module/",
        ):
            assert (await refusal(client, uri))[0] == -32600, uri
        assert (await refusal(client, "context://project/overview?x=1"))[0] == -32602
        assert (await refusal(client, "context://discoveries?type=thought"))[0] == -32602
        for uri in ("context://file/.env", "context://file/../x", "context://file/%2e%2e/x", "context://file/src"):
            code, message, _ = await refusal(client, uri)
            assert code == -32602
            assert "CANARY" not in message
    put(tmp_path / "root")
    (tmp_path / "root" / ".cellwright").mkdir()
    (tmp_path / "root" / ".cellwright" / "project.yaml").write_text("project: [\n", encoding="utf-8")
    with http_server(tmp_path, *FLAGS) as broken:
        async with http_client(broken) as client:
            assert (await refusal(client, "context://session/current"))[:2] == (-32602, "No active session")
            code, message, _ = await refusal(client, "context://project/overview")
            assert code == -32603
            assert "project.yaml line 2" in message
            assert str(tmp_path) not in message
            await client.list_resources()


@requirement("context:resources", "context:discoveries")
async def test_watching_completion_and_discoveries(server: HttpServer) -> None:
    async with http_client(server) as client:
        await call(client, "context_scan")
        watched = ["context://project/overview", "context://discoveries", "context://session/current"]
        async with client.listen(resource_subscriptions=watched) as heard:
            made = await call(client, "context_record", type="rule", content="Cats come first", module="cats")
            assert made["merged"] is False
            await call(client, "context_enrich", apply=True)
            seen: set[str] = set()
            with anyio.fail_after(10):
                while not set(watched) <= seen:
                    seen.add(str(getattr(await anext(heard), "uri", "")))
        assert "- Cats come first" in await text_of(client, "context://module/cats")
        assert "## rule: Cats come first" in await text_of(client, "context://discoveries?type=rule&module=cats")
        assert "(0)" in await text_of(client, "context://discoveries?type=issue")
        from mcp.types import ResourceTemplateReference  # noqa: PLC0415

        reference = ResourceTemplateReference(type="ref/resource", uri="context://module/{name}")
        done = await client.complete(reference, {"name": "name", "value": "d"})
        assert done.completion.values == ["dogs"]


@requirement("context:secrets")
async def test_no_tool_gives_a_secret(server: HttpServer) -> None:
    async with http_client(server) as client:
        for tool, arguments in (
            ("read_file", {"path": ".env"}),
            ("grep_codebase", {"pattern": "CANARY"}),
            ("context_search", {"query": "CANARY"}),
            ("read_file", {"path": "src/../.env"}),
        ):
            assert "CANARY-0123456789" not in str(await client.call_tool(tool, arguments)), tool


def cellwright(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = ["--root", str(tmp_path / "root"), "--state-dir", str(tmp_path / "state")]
    command = [sys.executable, "-m", "cellwright", *arguments, *where]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, env=clean_environ())


@requirement("context:cli")
def test_the_commands(tmp_path: Path) -> None:
    put(tmp_path / "root")
    made = cellwright(tmp_path, "init")
    assert made.returncode == 0, made.stderr
    assert "3 modules" in made.stdout
    file = tmp_path / "root" / ".cellwright" / "project.yaml"
    before = file.read_bytes()
    again = json.loads(cellwright(tmp_path, "init", "--json").stdout)
    assert (again["changed"], file.read_bytes()) == (False, before)
    assert cellwright(tmp_path, "show").stdout.startswith("# Project: zoo\n")
    assert json.loads(cellwright(tmp_path, "show", "cats", "--json").stdout)["dependencies"] == ["dogs"]
    missing = cellwright(tmp_path, "show", "cows")
    assert (missing.returncode, "Module not found: cows" in missing.stderr) == (1, True)
    status = json.loads(cellwright(tmp_path, "status", "--json").stdout)
    assert status["tokens"]["total"] > 0
    file.write_text("project: [\n", encoding="utf-8")
    broken = cellwright(tmp_path, "init")
    assert (broken.returncode, "line 2" in broken.stderr, file.read_text(encoding="utf-8")) == (1, True, "project: [\n")
