"""Errors and their codes as clients meet them: once, encodable, explained, and the same on the page."""

import importlib
import json
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from adversarial_support import call_tool
from cellwright.app.cli.main import main
from cellwright.app.protocol.convert import protocol_error
from cellwright.app.resources import all_codes
from cellwright.app.settings import Settings
from cellwright.app.workspace import make_workspace
from cellwright.core.errors import INTERNAL_ERROR, NotFound, error_types
from cellwright.scratch.model import CODES
from locations import DOCS
from notebook_agent import Agent
from requirements import requirement
from support import HttpServer, free_port, http_client, http_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    folder = tmp_path_factory.mktemp("truth")
    (folder / "a.txt").write_text("one\nneedle\nthree\n", encoding="utf-8")
    with http_server(folder, "--root", str(folder), "--toolsets", "all", "--rate", "0") as made:
        yield made


def errors_page() -> str:
    sys.path.insert(0, str(DOCS))
    try:
        generate: Any = importlib.import_module("generate")
    finally:
        sys.path.remove(str(DOCS))
    return str(generate.errors_page())


@requirement("truth:codes")
async def test_every_code_has_its_resource_and_its_row(server: HttpServer) -> None:
    make_workspace(Settings(toolsets=("all",)), "stdio")
    codes = all_codes()
    assert {kind.code for kind in error_types()} | CODES | {INTERNAL_ERROR} == set(codes)
    rows = Counter(line.split("`")[1] for line in errors_page().splitlines() if line.startswith("| `"))
    assert rows == dict.fromkeys(codes, 1)
    async with http_client(server) as client:
        do = Agent(client)
        for code, meant in codes.items():
            shown = json.loads((await do.resource(f"cellwright://errors/{code}")).text)
            assert shown == {"code": code, "meaning": meant.meaning, "retryable": meant.retryable}
        await do.refused_resource("cellwright://errors/NOTHING")


@requirement("truth:names:encodable")
async def test_any_name_of_an_argument_is_refused_in_words(server: HttpServer) -> None:
    async with http_client(server) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
    assert len(tools) > 90
    for name in tools:
        answer = call_tool(server, name, {"\ud800\u202e\x1b[31m": 1})
        assert answer.status == 200, name
        result = answer.json()["result"]
        error = result["structuredContent"]["error"]
        assert (result["isError"], error["code"]) in {(True, "INVALID_ARGUMENT"), (True, "VALIDATION_ERROR")}, name
        assert "unknown argument" in error["message"]
        shown = json.dumps(result, ensure_ascii=False)
        shown.encode("utf-8")
        assert not set("\u202e\x1b") & set(shown)


@requirement("truth:names:encodable")
def test_names_elsewhere_are_encodable_too(server: HttpServer) -> None:
    for name, arguments in (
        ("read_nb_cells", {"path": "a.ipynb", "ranges": [{"\ud800": 1}]}),
        ("scratch_create", {"cells": [{"language": "py", "content": "", "\udfff": 1}]}),
    ):
        answer = call_tool(server, name, arguments)
        body = answer.json()
        assert body.get("error", {}).get("code") != -32603, body
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    with pytest.raises(MCPError) as refused:
        raise protocol_error(NotFound("no \ud800", details={"\udfff": ["\ud800"]}), "cellwright://\ud800")
    refused.value.error.model_dump_json()


@requirement("truth:lean:errors")
async def test_an_error_says_its_message_once(server: HttpServer) -> None:
    async with http_client(server) as client:
        refused = await client.call_tool("read_nb_cells", {"path": 5, "maxCellData": "x"})
        error: Any = refused.structured_content
        message = error["error"]["message"]
        assert json.dumps(error).count("should be a valid string") == 1
        assert refused.content[0].text == f"INVALID_ARGUMENT: {message}; {error['error']['hint']}"  # type: ignore[union-attr]
        assert "details" not in error["error"]
        pad: Any = (await client.call_tool("scratch_read", {"scratch_id": 5})).structured_content
        # `error` repeats `message`, as the contract of these tools wants it.
        assert json.dumps(pad).count("should be a valid string") == 2


@requirement("truth:lean:grep")
async def test_a_match_alone_has_no_empty_lists(server: HttpServer) -> None:
    async with http_client(server) as client:
        do = Agent(client)
        alone = await do("grep_codebase", pattern="needle", file_pattern="a.txt", context_lines=0)
        assert alone["matches"] == [{"path": "a.txt", "line": 2, "text": "needle"}]
        around = await do("grep_codebase", pattern="needle", file_pattern="a.txt", context_lines=1)
        assert around["matches"] == [
            {"path": "a.txt", "line": 2, "text": "needle", "before": ["one"], "after": ["three"]}
        ]


@requirement("truth:scratch:envelope")
async def test_a_database_that_is_down_is_told_as_it_is(tmp_path: Path) -> None:
    nowhere = f"postgresql://somebody@127.0.0.1:{free_port()}/pads"
    environ = {"CELLWRIGHT_DATABASE": nowhere}
    with http_server(tmp_path, "--toolsets", "scratch", environ=environ) as server:
        async with http_client(server) as client:
            result = await client.call_tool("scratch_create", {"scratch_id": "p"})
            assert result.is_error
            error: Any = result.structured_content
            shown = error["error"]
            assert (shown["code"], shown["reason"], shown["retryable"]) == (INTERNAL_ERROR, "UNAVAILABLE", True)
            assert "PostgreSQL server does not answer" in shown["message"]
            assert "try again later" in shown["hint"]
            assert shown["error"] == shown["message"]
            missing: Any = (await client.call_tool("scratch_read", {"scratch_id": 5})).structured_content
            assert set(missing["error"]) == {"code", "message", "error", "hint", "retryable", "details"}
            assert missing["error"]["retryable"] is False


OLD: dict[str, Any] = {
    "metadata": {"name": "old"},
    "nbformat": 3,
    "nbformat_minor": 0,
    "worksheets": [
        {
            "metadata": {},
            "cells": [
                {"cell_type": "heading", "level": 2, "source": ["Title"], "metadata": {}},
                {
                    "cell_type": "code",
                    "input": ["1 + 1"],
                    "language": "python",
                    "collapsed": False,
                    "prompt_number": 3,
                    "metadata": {},
                    "outputs": [{"output_type": "pyout", "prompt_number": 3, "text": ["2"], "metadata": {}}],
                },
            ],
        }
    ],
}


@requirement("truth:older:export")
def test_an_old_notebook_is_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "old.ipynb"
    file.write_text(json.dumps(OLD), encoding="utf-8")
    assert main(["export", str(file), "--to", "ipynb"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["nbformat"] == 4
    assert [(cell["cell_type"], cell["source"]) for cell in made["cells"]] == [
        ("markdown", "## Title"),
        ("code", "1 + 1"),
    ]
    assert made["cells"][1]["outputs"][0]["data"]["text/plain"] in ("2", ["2"])


@requirement("truth:older:export")
@pytest.mark.parametrize("worksheets", [5, [5], [{"cells": [{"cell_type": "banana"}]}]])
def test_what_only_says_that_it_is_old_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], worksheets: object
) -> None:
    file = tmp_path / "odd.ipynb"
    file.write_text(json.dumps({**OLD, "worksheets": worksheets}), encoding="utf-8")
    assert main(["export", str(file), "--to", "ipynb"]) == 1
    assert "Traceback" not in capsys.readouterr().err
