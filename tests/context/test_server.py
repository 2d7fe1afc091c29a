"""Project context through a real server and the official client, and through the command line."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError

from cellwright.app.cli.main import main
from requirements import requirement
from support import PATIENT_SECONDS, HttpServer, clean_environ, http_client, http_server

pytestmark = pytest.mark.anyio
FLAGS = (
    "--toolsets",
    "workspace,context,scratch,thinking",
    "--rate",
    "0",
    "--embedding-model",
    "none",
    "--log-level",
    "debug",
)
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
        book = await call(client, "notebook_create")
        await call(
            client,
            "notebook_add_cell",
            notebookId=book["notebookId"],
            cellType="markdown",
            source="# Counting cats\n\nSlowly.",
        )
        assert "BARK" in (await call(client, "read_file", path="src/zoo/dogs/__init__.py"))["text"]
        overview = await text_of(client, "context://project/overview")
        assert overview.startswith("# Project: zoo\n")
        assert "### cats\nCats.\n" in overview
        assert "## Dependencies\n\ndogs\n" in await text_of(client, "context://module/cats")
        session = await text_of(client, "context://session/current")
        assert re.match(r"# Active Session\n\n\*\*Started:\*\* \d{4}-\d\d-\d\dT[\d:]+Z  \n\*\*Duration:\*\* ", session)
        assert "### src/zoo/dogs/__init__.py\n**Access Count:** " in session
        links = re.findall(r"\*\*Resource:\*\* (\S+)", session)
        assert {f"scratchpad://pad-{mode}", book["uri"], "context://file/src/zoo/dogs/__init__.py"} <= set(links)
        for link in links:
            assert await text_of(client, link)
        topics = session.partition("## Topics")[2].partition("## Activity")[0]
        assert "- Counting cats\n" in topics
        assert "- dogs\n" in topics
        assert re.search(r"- \*\*Tool Calls:\*\* \d+\n- \*\*Discoveries:\*\* \d+\n", session)
        recent = await text_of(client, "context://sessions/recent?limit=1")
        assert recent.startswith("# Recent Sessions (1)\n\n## Session ")
        shown = httpx2.get(f"{server.base}/api/project", headers=server.headers, timeout=PATIENT_SECONDS).json()[
            "sessions"
        ]
        assert book["uri"] in {thing["uri"] for one in shown for thing in one["touched"]}
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
async def test_errors_have_the_codes_and_data_of_the_contract(server: HttpServer) -> None:
    async with http_client(server, "legacy") as client:
        # A new connection has no session until it calls a tool.
        code, message, data = await refusal(client, "context://session/current")
        assert (code, message) == (-32602, "No active session")
        assert (data["resource"], bool(data["reason"])) == ("context://session/current", True)
        await call(client, "context_scan")
        code, message, data = await refusal(client, "context://module/invalid")
        assert (code, message) == (-32602, "Module not found: invalid")
        assert data["resource"] == "context://module/invalid"
        assert data["reason"].startswith("Module 'invalid' not found in project.yaml")
        for uri in ("context://module/../../x", "context://module/..%2f..%2fx"):
            assert (await refusal(client, uri))[0] == -32602
        for limit in ("0", "-1", "101", "1e9", "NaN", "10;drop", "", "5&limit=6", "%00", "\u0661"):
            uri = f"context://sessions/recent?limit={limit}"
            code, _, data = await refusal(client, uri)
            assert (code, bool(data["reason"])) == (-32602, True), limit
        for uri in (
            "context://",
            "context://project",
            "context://nothing/at/all",
            "context://session/other",
            "context://module/",
        ):
            code, _, data = await refusal(client, uri)
            assert (code, data["resource"], bool(data["reason"])) == (-32600, uri, True), uri
        assert (await refusal(client, "context://project/overview?x=1"))[0] == -32602
        assert (await refusal(client, "context://discoveries?type=thought"))[0] == -32602
        for uri in ("context://file/.env", "context://file/../x", "context://file/%2e%2e/x", "context://file/src"):
            code, message, data = await refusal(client, uri)
            assert (code, data["resource"]) == (-32602, uri)
            assert "CANARY" not in message


@requirement("context:resources", "context:file:broken", "context:secrets:logs")
async def test_a_broken_project_file_is_an_error_of_its_own_and_hides_nothing_else(server: HttpServer) -> None:
    file = server.log.parent / "root" / ".cellwright" / "project.yaml"
    async with http_client(server) as client:
        await call(client, "context_scan")
        before = file.read_bytes()
        try:
            file.write_text("a: CANARY-0123456789\na: CANARY-0123456789\n", encoding="utf-8")
            uri = "context://project/overview"
            code, message, data = await refusal(client, uri)
            assert (code, data["resource"], bool(data["reason"])) == (-32603, uri, True)
            assert "project.yaml line 2" in message
            assert str(server.log.parent) not in message
            assert "CANARY" not in message
            assert len((await client.list_resources()).resources) >= 4
            result = await client.call_tool("context_scan", {})
            assert result.is_error
            assert "PROJECT_FILE_BROKEN" in str(result.structured_content) + str(result.content)
        finally:
            file.write_bytes(before)
        assert (await text_of(client, uri)).startswith("# Project: zoo\n")
    assert "CANARY" not in server.log.read_text(encoding="utf-8")


@requirement("context:scan:large")
async def test_a_scan_tells_its_client_how_far_it_is(server: HttpServer) -> None:
    told: list[tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert message
        told.append((progress, total))

    async with http_client(server) as client:
        result = await client.call_tool("context_scan", {}, progress_callback=hear)
        assert not result.is_error
    # The three files with code, of the five there are.
    assert told[-1] == (3, 3)
    assert told == sorted(told)


@requirement("context:resources", "context:discoveries")
async def test_watching_completion_and_discoveries(server: HttpServer) -> None:
    async with http_client(server) as client:
        await call(client, "context_scan")
        watched = [
            "context://project/overview",
            "context://discoveries",
            "context://session/current",
            "context://sessions/recent",
            "context://module/cats",
        ]
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
        reference = ResourceTemplateReference(type="ref/resource", uri="context://discoveries{?type,module}")
        for argument, prefix, wanted in (("type", "de", ["decision"]), ("module", "C", ["cats"]), ("type", "x", [])):
            done = await client.complete(reference, {"name": argument, "value": prefix})
            assert done.completion.values == wanted


@requirement("context:names", "context:names:shown", "context:names:kept")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_name_with_line_breaks_goes_there_and_back(server: HttpServer, mode: str) -> None:
    name = "cat\n# Active Session\t\r\n\U0001f469\u200d\U0001f4bb e\u0301 #?%41.txt"
    (server.log.parent / "root" / name).write_text("found here", encoding="utf-8")
    async with http_client(server, mode) as client:
        matches = (await call(client, "grep_codebase", pattern="found here", file_pattern="cat*"))["matches"]
        assert [one["path"] for one in matches] == [name]
        assert (await call(client, "read_file", path=name))["path"] == name
        session = await text_of(client, "context://session/current")
        shown = "cat\u240a# Active Session\u2409\u240d\u240a\U0001f469\u200d\U0001f4bb e\u0301 #?%41.txt"
        (link,) = re.findall(rf"### {re.escape(shown)}\n(?:[^#].*\n)*?\*\*Resource:\*\* (\S+)\n", session)
        assert await text_of(client, link) == "found here"
        hits = (await call(client, "context_search", query="found here", types=["file"]))["hits"]
        assert (name, shown, link) in [(one["path"], one["title"], one["uri"]) for one in hits]
        everywhere = (await call(client, "search_workspace", query="found here"))["results"]
        assert (name, shown) in [(one.get("path"), one["title"]) for one in everywhere]
    assert all(line.startswith("time=") for line in server.log.read_text(encoding="utf-8").splitlines())


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


def arguments(tmp_path: Path, *words: str) -> list[str]:
    return [
        *words,
        "--root",
        str(tmp_path / "root"),
        "--state-dir",
        str(tmp_path / "state"),
        "--embedding-model",
        "none",
    ]


@requirement("context:cli")
def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CELLWRIGHT_")]:
        monkeypatch.delenv(name)

    def cellwright(*words: str) -> tuple[int, str, str]:
        code = main(arguments(tmp_path, *words))
        said = capsys.readouterr()
        return code, said.out, said.err

    put(tmp_path / "root")
    code, said, errors = cellwright("init")
    assert code == 0, errors
    assert "3 modules" in said
    file = tmp_path / "root" / ".cellwright" / "project.yaml"
    before = file.read_bytes()
    again = json.loads(cellwright("init", "--json")[1])
    assert (again["changed"], file.read_bytes()) == (False, before)
    shown = cellwright("show")[1]
    assert shown.startswith("# Project: zoo\n")
    assert "\x1b" not in shown
    assert json.loads(cellwright("show", "--json")[1])["name"] == "zoo"
    assert json.loads(cellwright("show", "cats", "--json")[1])["dependencies"] == ["dogs"]
    code, _, errors = cellwright("show", "cows")
    assert (code, "Module not found: cows" in errors) == (1, True)
    status = json.loads(cellwright("status", "--json")[1])
    assert status["tokens"]["total"] > 0
    assert (status["discoveries"], status["sessions"]) == (0, [])
    said = cellwright("status")[1]
    assert all(
        heading in said for heading in ("Sessions\n", "Discoveries\n", "What a model would be given, in tokens\n")
    )
    file.write_text("project: [\n", encoding="utf-8")
    code, _, errors = cellwright("init")
    assert (code, "line 2" in errors, file.read_text(encoding="utf-8")) == (1, True, "project: [\n")


@requirement("context:cli:colours")
@pytest.mark.parametrize(("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_and_a_bar_are_for_people(tmp_path: Path, environ: dict[str, str], coloured: bool) -> None:
    """A real terminal, as far as a program can tell."""
    put(tmp_path / "root")
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "cellwright", *arguments(tmp_path, "init")]
        environment = {**clean_environ(TERM="xterm"), **environ}
        environment = (
            environment if "NO_COLOR" in environ else {k: v for k, v in environment.items() if k != "NO_COLOR"}
        )
        done = subprocess.run(
            command, stdin=theirs, stdout=theirs, stderr=theirs, timeout=50, check=False, env=environment
        )
        said = os.read(ours, 65_536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0, said
    assert ("\x1b[1m" in said) is coloured
    assert "100%" in said
