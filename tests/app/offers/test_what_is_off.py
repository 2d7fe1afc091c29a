"""No door without a sign: what is not offered says by what it is off, and how it is had."""

import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from cellwright.app.offers.catalogue import Catalogue, Selection, ToolOff
from cellwright.app.settings import Settings
from cellwright.app.settings_loading import load_settings
from cellwright.app.workspace import INSTRUCTIONS, Workspace, local_user, make_workspace
from cellwright.core.errors import CellwrightError, Forbidden, InvalidArgument
from cellwright.core.types import ALL_SCOPES, Call, Principal, Scope
from requirements import requirement
from support import http_client, http_server, stdio_client

EVERYONE = Principal("everyone", ALL_SCOPES)
READER = Principal("reader", frozenset({Scope.READ}))
ERAS = ["auto", "legacy"]
LONGEST_INSTRUCTIONS = 800
CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "core": {"toolsets": ("core",)},
    "all": {"toolsets": ("all",)},
    "thinking": {"toolsets": ("thinking",)},
    "reading": {"toolsets": ("all",), "read_only": True},
    "without": {"exclude_tools": ("search_nbs", "export_notebook", "workspace_doctor")},
    "one": {"toolsets": ("workspace",), "exclude_tools": ("workspace_status",)},
}
"""Ways to start, with tools of every kind left out."""


def workspace_of(**chosen: Any) -> Workspace:
    return make_workspace(Settings(**chosen), "stdio")


def catalogue(**chosen: Any) -> Catalogue:
    return workspace_of(**chosen).catalogue


def refusal(made: Catalogue, name: str, who: Principal = EVERYONE, wish: Selection | None = None) -> CellwrightError:
    with pytest.raises(CellwrightError) as refused:
        made.find(name, who, wish)
    return refused.value


@requirement("doors:toolset-off")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_tool_of_a_toolset_that_is_off_says_how_it_is_switched_on(tmp_path: Path, mode: str) -> None:
    async with stdio_client(tmp_path, mode=mode) as client:
        result: Any = await client.call_tool("notebook_create", {"pattern": "mcts"})
    assert result.is_error
    error = result.structured_content["error"]
    assert (error["code"], error["details"]) == ("TOOL_OFF", {"tool": "notebook_create", "toolset": "thinking"})
    for word in (
        "'thinking', which is off",
        "--toolsets default,thinking",
        "CELLWRIGHT_TOOLSETS=default,thinking",
        "X-MCP-Toolsets: default,thinking",
    ):
        assert word in result.content[0].text


@requirement("doors:toolset-off")
def test_the_way_that_is_told_is_a_way() -> None:
    told = refusal(catalogue(), "scratch_create").hint
    flag = re.search(r"--toolsets (\S+)", told)
    variable = re.search(r"CELLWRIGHT_TOOLSETS=([\w,]+)", told)
    header = re.search(r"X-MCP-Toolsets: (\S+)", told)
    assert flag is not None
    assert variable is not None
    assert header is not None
    settings = load_settings({"toolsets": flag[1]}, environ={})
    assert make_workspace(settings, "stdio").catalogue.find("scratch_create", EVERYONE)
    settings = load_settings({}, environ={"CELLWRIGHT_TOOLSETS": variable[1]})
    assert make_workspace(settings, "stdio").catalogue.find("scratch_create", EVERYONE)
    made = catalogue()
    assert made.find("scratch_create", EVERYONE, made.wish(header[1], "", "", ""))


@requirement("doors:toolset-off")
def test_where_the_operator_chose_no_header_is_promised() -> None:
    error = refusal(catalogue(toolsets=("notebooks", "scratch")), "notebook_create")
    assert "--toolsets notebooks,scratch,thinking" in error.hint
    assert "X-MCP" not in error.hint


@requirement("doors:ruled-out")
def test_what_rules_a_tool_out_is_named() -> None:
    everything = ("all",)
    excluding = catalogue(toolsets=everything, exclude_tools=("execute_nb_cells",))
    assert "--exclude-tools" in refusal(excluding, "execute_nb_cells").message
    assert "--read-only" in refusal(catalogue(toolsets=everything, read_only=True), "execute_nb_cells").message
    made = catalogue()
    assert "X-MCP-Readonly" in refusal(made, "edit_nb_cell", wish=made.wish("", "", "", "true")).hint
    asked = made.wish("scratch", "", "", "")
    assert "X-MCP-Toolsets" in refusal(made, "edit_nb_cell", wish=asked).message
    assert "editing" in refusal(made, "edit_nb_cell", wish=asked).hint
    assert "X-MCP-Exclude-Tools" in refusal(made, "list_nbs", wish=made.wish("", "", "list_nbs", "")).message
    lacking = refusal(made, "edit_nb_cell", READER)
    assert isinstance(lacking, Forbidden)
    assert "'write'" in lacking.message
    for error in (refusal(excluding, "execute_nb_cells"), refusal(made, "edit_nb_cell", wish=asked)):
        assert isinstance(error, ToolOff)
        assert error.hint


@requirement("doors:nearest")
def test_near_misses_lead_to_tools_that_are_on_and_to_those_that_are_off() -> None:
    made = catalogue()
    for name, meant in (
        ("list_nb", "list_nbs"),
        ("read_nb_cels", "read_nb_cells"),
        ("Execute_NB_cells", "execute_nb_cells"),
    ):
        error = refusal(made, name)
        assert isinstance(error, InvalidArgument)
        assert (error.message, error.hint) == (f"unknown tool {name!r}", f"did you mean {meant!r}?")
    off = refusal(made, "scratch_craete").hint
    assert "did you mean 'scratch_create'?" in off
    assert "--toolsets default,scratch" in off
    assert "'list_notebooks'" in refusal(catalogue(toolsets=("cells",)), "list_notebookss").hint
    several = refusal(made, "read_cell_nb").hint
    assert several.startswith("did you mean 'read_nb_cells'? Or 'read_cell': ")
    assert "--toolsets default,cells" in several
    assert refusal(made, "qqqqqqqq").hint == "tools/list shows what there is"


@requirement("doors:alias")
def test_an_alias_chooses_and_excludes_its_tool() -> None:
    without = catalogue(toolsets=("all",), exclude_tools=("list_notebooks",))
    for name in ("list_notebook", "list_notebooks"):
        assert "--exclude-tools" in refusal(without, name).message
    only = catalogue(toolsets=("workspace",), tools=("list_notebooks",))
    assert only.find("list_notebook", EVERYONE).name == "list_notebook"


@requirement("doors:status")
@pytest.mark.anyio
async def test_status_says_what_is_off(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        async with http_client(server) as client:
            line = (await client.call_tool("workspace_status", {})).structured_content["off"]  # type: ignore[index]
            assert "\n" not in line
            for toolset in ("documents", "sessions", "cells", "scratch", "scratch_plus", "thinking", "context"):
                assert toolset in line
            assert "--toolsets default,NAME" in line
            (content,) = (await client.read_resource("cellwright://status")).contents
            assert line in getattr(content, "text", "").encode().decode("unicode_escape")
        async with http_client(server, headers={"X-MCP-Toolsets": "all"}) as client:
            status: Any = (await client.call_tool("workspace_status", {})).structured_content
            assert status["off"] == "", "the request has switched everything on"
        async with http_client(server, headers={"X-MCP-Toolsets": "all", "X-MCP-Readonly": "true"}) as client:
            status = (await client.call_tool("workspace_status", {})).structured_content
            assert status["off"] == "tools that change or run something: by X-MCP-Readonly"


@requirement("doors:status")
def test_every_reason_stands_in_the_line() -> None:
    assert catalogue(toolsets=("all",)).off(EVERYONE) == ""
    assert catalogue(toolsets=("all",)).off(READER) == "tools that need run or write: your token lacks the scope"
    assert (
        catalogue(toolsets=("all",), read_only=True).off(READER) == "tools that change or run something: by --read-only"
    )
    assert catalogue(toolsets=("all",), exclude_tools=("list_nbs",)).off(EVERYONE) == "list_nbs: by --exclude-tools"
    assert "some tools of workspace, notebooks" in catalogue(toolsets=("core",)).off(EVERYONE)


@requirement("doors:instructions")
@pytest.mark.parametrize("choice", CHOICES)
def test_instructions_name_what_is_there_and_what_is_off(choice: str) -> None:
    made = workspace_of(**CHOICES[choice])
    known = {tool.name for toolset in made.catalogue.toolsets for tool in toolset.tools}
    offered = {tool.name for tool in made.catalogue.offered(local_user())}
    told = made.instructions
    assert set(re.findall(r"[a-z]+(?:_[a-z]+)+", told)) & known <= offered
    assert len(told) <= LONGEST_INSTRUCTIONS
    on = {tool.toolset for tool in made.catalogue.offered(local_user())}
    off = {toolset.name for toolset in made.catalogue.toolsets} - on
    sentence = told.partition("Toolsets that are off: ")[2].partition(";")[0]
    assert set(sentence.split(", ")) - {""} == (set() if choice == "reading" else off)
    assert (told == INSTRUCTIONS) is (choice == "all")


@requirement("doors:prompts")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_prompts_come_with_their_tools(tmp_path: Path, mode: str) -> None:
    reading = {"explore-notebook", "cite-cells", "resume-project"}
    work = {*reading, "reproduce-from-clean-kernel", "summarise-to-pad"}
    with http_server(tmp_path, "--rate", "0") as server:

        async def listed(**headers: str) -> set[str]:
            async with http_client(server, mode, headers) as client:
                return {prompt.name for prompt in (await client.list_prompts()).prompts}

        assert await listed() == work
        assert await listed(**{"X-MCP-Toolsets": "default,thinking"}) > work | {"mcts", "ooda_loop"}
        assert await listed(**{"X-MCP-Readonly": "true"}) == reading
        async with http_client(server, mode) as client:
            with pytest.raises(MCPError) as refused:
                await client.get_prompt("mcts", {"problem": "a hard one"})
        assert refused.value.error.code == -32602
        assert "the prompt mcts needs notebook_add_cell" in str(refused.value)
        assert "--toolsets default,thinking" in str(refused.value)


@requirement("doors:prompts:text")
@pytest.mark.parametrize("choice", CHOICES)
def test_a_prompt_names_only_tools_that_its_reader_has(choice: str) -> None:
    made = workspace_of(**CHOICES[choice])
    known = {tool.name for toolset in made.catalogue.toolsets for tool in toolset.tools}
    offered = frozenset(tool.name for tool in made.catalogue.offered(local_user()))
    arguments = {"path": "a.ipynb", "problem": "x", "goal": "x", "cells": "0", "request": "x"}
    shown = 0
    for prompt in made.prompts:
        if not prompt.tools <= offered:
            continue
        shown += 1
        wanted = {one.name: arguments[one.name] for one in prompt.arguments if one.name in arguments}
        text = prompt.write(wanted, offered)
        named = set(re.findall(r"[a-z]+(?:_[a-z]+)+", text)) & known
        assert named <= offered, prompt.name
        assert prompt.tools <= named, f"{prompt.name} needs what it does not name"
    assert shown == {"default": 5, "core": 3, "all": 12, "thinking": 7, "reading": 3, "without": 4, "one": 0}[choice]


@requirement("doors:start")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_start_brings_the_tools_for_a_current_notebook(tmp_path: Path, mode: str) -> None:
    program = ("-m", "cellwright", "start", "--transport", "streamable-http")
    with http_server(tmp_path, program=program) as server:
        async with http_client(server, mode) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"use_notebook", "insert_execute_code_cell", "list_kernels", "list_nbs"} <= names
            assert "scratch_create" not in names
        async with http_client(server, mode, {"X-MCP-Toolsets": "all"}) as client:
            assert "scratch_create" in {tool.name for tool in (await client.list_tools()).tools}


@requirement("doors:start")
def test_what_is_said_in_so_many_words_stays_said() -> None:
    def names(**chosen: Any) -> set[str]:
        return {tool.name for tool in catalogue(**chosen).offered(local_user())}

    assert "use_notebook" in names(document_id="a.ipynb")
    assert "use_notebook" not in names()
    assert "use_notebook" not in names(document_id="a.ipynb", toolsets=("notebooks",))
    defaults = {"current_notebook": True}
    assert load_settings({}, environ={}, defaults=defaults).current_notebook
    assert not load_settings({"current_notebook": "false"}, environ={}, defaults=defaults).current_notebook
    assert not load_settings({}, environ={"CELLWRIGHT_CURRENT_NOTEBOOK": "0"}, defaults=defaults).current_notebook


@pytest.mark.anyio
async def test_a_wish_that_cannot_be_read_is_refused_everywhere(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        async with http_client(server, headers={"X-MCP-Toolsets": "thinkin"}) as client:
            for ask in (
                client.list_prompts(),
                client.get_prompt("resume-project"),
                client.call_tool("workspace_status", {}),
                client.read_resource("cellwright://status"),
            ):
                with pytest.raises(MCPError, match="did you mean 'thinking'"):
                    await ask


@pytest.mark.anyio
async def test_status_is_asked_without_a_request(tmp_path: Path) -> None:
    """By a program that has the workspace itself: nobody made a wish."""
    made = make_workspace(Settings(root=tmp_path, state_dir=tmp_path / "state"), "stdio")
    async with Client(made.server(local_user()), cache=None) as client:
        assert "thinking" in (await client.call_tool("workspace_status", {})).structured_content["off"]  # type: ignore[index]
    assert Call(local_user()).wish is None
    await made.close()
