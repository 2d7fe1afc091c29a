"""Thinking notebooks by every address that was promised, with the problem in them, and read cell by cell."""

import ast
import base64
import json
from collections.abc import Generator
from typing import Any

import pytest
from mcp import MCPError
from mcp.types import ResourceTemplateReference

from cellwright.core.errors import InvalidArgument
from cellwright.notebook.model import Kind
from cellwright.thinking.templates import TEMPLATES
from notebook_agent import Agent, agent_of
from requirements import requirement
from support import HttpServer, http_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
ERAS = ["auto", "legacy"]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE = f"""
import base64
from IPython.display import Image, SVG, display
display(Image(data=base64.b64decode("{PIXEL}")))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg"><text>drawn</text><script>alert(1)</script></svg>'))
print("said")
"""
HOSTILE = (
    '"); import os; os.system("touch /tmp/never") #',
    'it\'s "quoted" and \\backslashed\\',
    "three \"\"\" quotes ''' and a\nnew line",
    "\u202eright to left\u2066 and \u200binvisible",
    "{braces} %s $dollar ```fence```",
)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    """A server in which nothing runs."""
    with http_server(tmp_path_factory.mktemp("quiet"), "--toolsets", "thinking,workspace", "--rate", "0") as server:
        yield server


async def refused(agent: Agent, uri: str) -> MCPError:
    with pytest.raises(MCPError) as error:
        await agent.client.read_resource(uri)
    return error.value


@requirement("doors:current")
async def test_current_is_never_of_another_session(quiet: HttpServer) -> None:
    async with agent_of(quiet, "legacy") as first, agent_of(quiet, "legacy") as second:
        made = await first("notebook_create", title="Of the first")
        error = await refused(second, "notebook://current")
        assert (error.code, error.error.message.partition(";")[0]) == (-32602, "No notebook for current session")
        exported = await second.failing("export_notebook", source="notebook://current", to="md")
        assert "No notebook for current session" in exported["error"]["message"]
        assert "# Of the first" in (await first.resource("notebook://current")).text
        await first("notebook_close", notebookId=made["notebookId"])
        assert (await refused(first, "notebook://current")).code == -32602


@requirement("doors:current")
async def test_current_of_a_client_without_connections_is_the_callers(quiet: HttpServer) -> None:
    async with agent_of(quiet) as first:
        made = await first("notebook_create", title="Mine")
    async with agent_of(quiet) as again, agent_of(quiet, "legacy") as connected:
        assert "# Mine" in (await again.resource("notebook://current")).text
        assert (await refused(connected, "notebook://current")).code == -32602
        await again("notebook_close", notebookId=made["notebookId"])


@requirement("doors:current:listed", "doors:listed")
@pytest.mark.parametrize("mode", ERAS)
async def test_what_is_listed_says_whose_and_what_it_is(quiet: HttpServer, mode: str) -> None:
    async with agent_of(quiet, mode) as agent:

        async def listed() -> dict[str, Any]:
            return {one.uri: one for one in (await agent.client.list_resources()).resources}

        assert "notebook://current" not in await listed()
        made = await agent("notebook_create", pattern="tree_of_thought")
        shown = await listed()
        content = await agent.resource(made["uri"])
        for uri in ("notebook://current", made["uri"], f"{made['uri']}/cells"):
            assert shown[uri].meta == content.meta
            assert shown[uri].meta["pattern"] == "tree_of_thought"
        assert shown[made["uri"]].name == "tree_of_thought Notebook"
        assert made["sessionId"] in shown[made["uri"]].description
        assert shown[f"{made['uri']}/cells"].description == f"{made['cellCount']} cells"
        for uri in shown:
            await agent.resource(uri)
        await agent("notebook_close", notebookId=made["notebookId"])
        assert "notebook://current" not in await listed()


@requirement("doors:invalid-uri")
@pytest.mark.parametrize("mode", ERAS)
async def test_malformed_and_unknown_addresses(quiet: HttpServer, mode: str) -> None:
    async with agent_of(quiet, mode) as agent:
        for uri in ("notebook://", "notebook://a", "notebook://a/b/c/d/e/f/g", "notebook://a/b c", "notebook:///x/y"):
            error = await refused(agent, uri)
            data: Any = error.error.data
            assert (error.code, data["reason"], data["resource"]) == (-32602, "INVALID_URI", uri)
        error = await refused(agent, "nowhere://x")
        assert (error.code, error.error.message.partition(";")[0]) == (-32602, "Unknown resource: nowhere://x")
        assert "Unknown resource: " in (await refused(agent, "no-address")).error.message


@requirement("doors:files")
@pytest.mark.parametrize("mode", ERAS)
async def test_notebooks_and_cells_as_files(quiet: HttpServer, mode: str) -> None:
    async with agent_of(quiet, mode) as agent:
        made = await agent("notebook_create", title="Filed", language="javascript")
        which = {"notebookId": made["notebookId"]}
        named = await agent("notebook_add_cell", **which, source="1 + 1", filename="tree-node.js")
        plain = await agent("notebook_add_cell", **which, source="2 + 2")
        words = await agent("notebook_add_cell", **which, source="Words.", cellType="markdown")
        folder = f"file:///notebooks/{made['sessionId']}"
        for ending, form, mime in (
            ("src.md", "srcmd", "text/markdown"),
            ("ipynb", "ipynb", "application/x-ipynb+json"),
            ("json", "json", "application/json"),
            ("md", "md", "text/markdown"),
            ("html", "html", "text/html"),
        ):
            same = await agent.resource(f"{made['uri']}/{form}")
            for name in ("notebook", made["notebookId"]):
                content = await agent.resource(f"{folder}/{name}.{ending}")
                assert (content.text, content.mime_type, content.meta) == (same.text, mime, same.meta)
                assert content.uri == f"{folder}/{name}.{ending}"
        for file, text in (
            ("tree-node.js", "1 + 1"),
            (f"{named['cell']['id']}.js", "1 + 1"),
            (f"{plain['cell']['id']}.js", "2 + 2"),
            (f"{words['cell']['id']}.md", "Words."),
        ):
            assert (await agent.resource(f"{folder}/cells/{file}")).text == text
        newer = await agent("notebook_create", title="Newer", session=made["sessionId"])
        assert "# Newer" in (await agent.resource(f"{folder}/notebook.src.md")).text
        reference = ResourceTemplateReference(type="ref/resource", uri="file:///notebooks/{session}/cells/{file}")
        chosen = {"session": made["sessionId"]}
        found = (await agent.client.complete(reference, {"name": "file", "value": "tree"}, chosen)).completion.values
        assert found == ["tree-node.js"]
        found = (await agent.client.complete(reference, {"name": "session", "value": ""})).completion.values
        assert made["sessionId"] in found
        for one in (made, newer):
            await agent("notebook_close", notebookId=one["notebookId"])


@requirement("doors:files")
async def test_the_disk_is_not_reached(quiet: HttpServer) -> None:
    async with agent_of(quiet) as agent:
        made = await agent("notebook_create")
        folder = f"file:///notebooks/{made['sessionId']}"
        for uri in (
            "file:///etc/passwd",
            "file:///notebooks/../../etc/passwd",
            f"{folder}/../../../etc/passwd",
            f"{folder}/%2e%2e%2fetc%2fpasswd",
            f"{folder}/notebook.exe",
            f"{folder}/cells/none.py",
            f"{folder}/cells/../notebook.src.md",
            "file:///notebooks/s-0/notebook.src.md",
            "file:///notebooks/",
        ):
            assert (await refused(agent, uri)).code == -32602, uri
        await agent("notebook_close", notebookId=made["notebookId"])


@requirement("doors:problem")
@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("problem", HOSTILE)
def test_a_problem_stands_in_the_source_as_a_literal(name: str, problem: str) -> None:
    template = TEMPLATES[name]
    *before, begin = template.with_problem(problem).cells
    assert tuple(before) == template.notebook.cells[:-1]
    plain, tree = ast.parse(template.notebook.cells[-1].source), ast.parse(begin.source)
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert texts == [problem.strip()]
    assert [type(node) for node in ast.walk(tree)] == [type(node) for node in ast.walk(plain)]
    assert begin.source.replace("\n", "").isprintable(), "nothing in it is unseen"


@requirement("doors:problem")
def test_a_problem_says_something() -> None:
    for wrong in ("", "  \n", "x" * 4_001):
        with pytest.raises(InvalidArgument):
            TEMPLATES["mcts"].with_problem(wrong)


@requirement("doors:problem", "doors:outputs", "doors:read-cell")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_template_runs_with_its_problem_and_shows_it(server: HttpServer, mode: str) -> None:
    problem = HOSTILE[1]
    async with agent_of(server, mode) as agent:
        error = await agent.error("notebook_create", problem="x")
        assert "blank notebook" in error["message"]
        made = await agent("notebook_create", pattern="tree_of_thought", problem=problem)
        which = {"notebookId": made["notebookId"]}
        ran = await agent("notebook_run_all", **which, timeoutMs=60_000)
        assert ran["status"] == "done"
        board = ran["results"][-1]["outputs"][-1]["data"]
        assert problem in board["text/plain"]
        address = board["image/svg+xml"]["resource"]
        drawn = await agent.resource(address)
        assert (drawn.mime_type, drawn.text[:4]) == ("image/svg+xml", "<svg")
        begin = ran["results"][-1]["cellId"]
        (cell,) = (await agent("notebook_read", **which, cellId=begin))["cells"]
        assert ast.literal_eval(cell["source"].partition("(")[2].partition(")\n")[0]) == problem
        assert cell["outputs"][-1]["data"]["image/svg+xml"]["resource"] == address
        await agent("notebook_close", **which)


@requirement("doors:outputs", "doors:read-cell")
@pytest.mark.parametrize("mode", ERAS)
async def test_pictures_have_an_address_and_cells_are_read(server: HttpServer, mode: str) -> None:
    async with agent_of(server, mode) as agent:
        made = await agent("notebook_create")
        which = {"notebookId": made["notebookId"]}
        added = await agent("notebook_add_cell", **which, source=PICTURE)
        cell = {**which, "cellId": added["cell"]["id"]}
        ran = await agent("notebook_run_cell", **cell, timeoutMs=60_000)
        picture, drawing, _ = ran["results"][0]["outputs"]
        address = picture["data"]["image/png"]["resource"]
        assert address == f"{made['uri']}/cells/{added['cell']['id']}/outputs/0"
        content = await agent.resource(address)
        assert (base64.b64decode(content.blob), content.mime_type) == (base64.b64decode(PIXEL), "image/png")
        assert content.meta["cellId"] == added["cell"]["id"]
        svg = await agent.resource(drawing["data"]["image/svg+xml"]["resource"])
        assert "drawn" in svg.text
        said = await agent.resource(f"{made['uri']}/cells/{added['cell']['id']}/outputs/2")
        assert (said.text, said.mime_type) == ("said\n", "text/plain")
        for number in ("3", "-1", "x", "1234567"):
            error = await refused(agent, f"{made['uri']}/cells/{added['cell']['id']}/outputs/{number}")
            assert error.code == -32602
        whole = await agent.whole("notebook_read", **cell)
        assert [block.type for block in whole.content] == ["text", "image"]
        (shown,) = whole.structured_content["cells"]
        assert (shown["source"], shown["status"], shown["id"]) == (PICTURE, "idle", added["cell"]["id"])
        assert shown["outputs"][0]["data"]["image/png"]["resource"] == address
        assert shown["executionCount"] == 1
        listed = (await agent("notebook_read", **which))["cells"]
        assert [(one["id"], one["outputs"], one["status"]) for one in listed] == [(shown["id"], 3, "idle")]
        assert (await agent.error("notebook_read", **which, cellId="none"))["code"] == "NOT_FOUND"
        await agent("notebook_close", **which)


@requirement("doors:outputs")
async def test_an_output_that_is_not_kept_has_no_address(server: HttpServer) -> None:
    """A cell keeps a megabyte: the text after a larger output is kept, under a number of its own."""
    source = (
        "from IPython.display import display\ndisplay({'application/x-big': 'x' * 1_100_000}, raw=True)\nprint('after')"
    )
    async with agent_of(server) as agent:
        made = await agent("notebook_create")
        added = await agent("notebook_add_cell", notebookId=made["notebookId"], source=source)
        cell = {"notebookId": made["notebookId"], "cellId": added["cell"]["id"]}
        ran = await agent("notebook_run_cell", **cell, timeoutMs=60_000)
        assert "resource" not in json.dumps(ran["results"][0]["outputs"][0])
        base = f"{made['uri']}/cells/{cell['cellId']}/outputs"
        assert (await agent.resource(f"{base}/0")).text == "after\n"
        await agent("notebook_close", notebookId=made["notebookId"])


@requirement("doors:problem")
def test_the_words_that_ask_for_the_problem_stand_in_the_last_cell() -> None:
    for template in TEMPLATES.values():
        last = template.notebook.cells[-1]
        assert last.kind is Kind.CODE
        assert "Write" in last.source
        assert "Write" not in template.with_problem("?").cells[-1].source
