"""Which tools are offered, to whom, and what they cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from cellwright.app.offers.catalogue import CORE_TOOLS, DEFAULT_TOOLSETS, TWINS, Catalogue, Selection, ToolOff
from cellwright.app.protocol.convert import describe
from cellwright.app.settings import Settings
from cellwright.app.workspace import local_user, make_workspace
from cellwright.core.errors import ConfigError, Forbidden, InvalidArgument
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.toolset import Effect
from cellwright.core.types import ALL_SCOPES, Principal, Scope
from locations import PROBE, TESTS
from probe import Probe, probe_toolset
from requirements import requirement
from support import http_client, http_server, stdio_client

SNAPSHOTS = TESTS / "snapshots"
EVERYONE = Principal("everyone", ALL_SCOPES)
WORKSPACE = {"workspace_status", "workspace_doctor", "search_workspace", "export_notebook", "import_notebook"}
READER = Principal("reader", frozenset({Scope.READ}))


def catalogue(**chosen: Any) -> Catalogue:
    settings = Settings()
    workspace = make_workspace(settings, "stdio", [probe_toolset(Probe())])
    return Catalogue(workspace.catalogue.toolsets, Selection(**chosen))


def names(made: Catalogue, who: Principal = EVERYONE, wish: Selection | None = None) -> set[str]:
    return {tool.name for tool in made.offered(who, wish)}


@requirement("toolsets:selection")
def test_toolsets_tools_and_exclusions() -> None:
    everything = names(catalogue(toolsets=("all",)))
    by_default = [toolset for toolset in catalogue().toolsets if toolset.name in DEFAULT_TOOLSETS]
    assert names(catalogue()) == {tool.name for toolset in by_default for tool in toolset.tools}
    assert names(catalogue()) < everything
    assert names(catalogue(toolsets=("workspace",))) == WORKSPACE
    assert names(catalogue(toolsets=("core",))) == set(CORE_TOOLS) & everything
    assert names(catalogue(toolsets=("core",), tools=("probe_echo",))) == {*CORE_TOOLS, "probe_echo"}
    assert names(catalogue(toolsets=("all",), exclude_tools=("probe_echo",))) == everything - {"probe_echo"}
    assert "probe_echo" not in names(catalogue(tools=("probe_echo",), exclude_tools=("probe_echo",)))


@requirement("toolsets:read-only")
def test_read_only_beats_everything() -> None:
    made = catalogue(toolsets=("all",), tools=("probe_write",), read_only=True)
    assert all(tool.tool.effect is Effect.READ for tool in made.offered(EVERYONE))
    wish = made.wish("all", "probe_write", "", "false")
    assert all(tool.tool.effect is Effect.READ for tool in made.offered(EVERYONE, wish))
    for toolset in made.toolsets:
        for tool in toolset.tools:
            if tool.effect is not Effect.READ:
                for name in (tool.name, *tool.aliases):
                    with pytest.raises(ToolOff, match="--read-only"):
                        made.find(name, EVERYONE, wish)


@requirement("toolsets:hidden")
def test_a_tool_that_is_not_offered_cannot_be_found() -> None:
    made = catalogue()
    for name in ("probe_echo", "probe_parrot"):
        with pytest.raises(ToolOff, match="'probe', which is off"):
            made.find(name, EVERYONE)


def test_a_tool_beyond_the_token_is_forbidden_and_names_one_scope() -> None:
    made = catalogue(toolsets=("all",))
    assert names(made, READER) == {tool.name for tool in made.offered(EVERYONE) if tool.tool.effect is Effect.READ}
    with pytest.raises(Forbidden) as caught:
        made.find("probe_write", READER)
    assert caught.value.details["scope"] == "write"


@requirement("toolsets:unknown")
@pytest.mark.parametrize(
    ("chosen", "meant"),
    [
        ({"toolsets": ("workspce",)}, "workspace"),
        ({"tools": ("probe_eko",)}, "probe_echo"),
        ({"exclude_tools": ("probe_eko",)}, "probe_echo"),
    ],
)
def test_an_unknown_name_stops_the_start(chosen: dict[str, tuple[str, ...]], meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
        catalogue(**chosen)


@requirement("toolsets:header")
def test_a_request_cannot_go_beyond_what_the_operator_chose() -> None:
    free, bound = catalogue(), catalogue(toolsets=("workspace",), exclude_tools=("workspace_doctor",))
    everything = free.wish("all", "", "", "")
    assert "probe_echo" in names(free, EVERYONE, everything)
    assert names(bound, EVERYONE, everything) == WORKSPACE - {"workspace_doctor"}
    assert names(bound, EVERYONE, bound.wish("", "workspace_doctor,probe_echo", "", "")) == set()
    assert "probe_write" not in names(free, READER, everything)
    with pytest.raises(InvalidArgument, match="did you mean 'workspace'"):
        free.wish("workspce", "", "", "")


@requirement("toolsets:header")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_headers_choose_over_http(tmp_path: Path, mode: str) -> None:
    with http_server(tmp_path, program=(str(PROBE),)) as server:
        async with http_client(server, mode, {"X-MCP-Toolsets": "probe", "X-MCP-Readonly": "true"}) as client:
            offered = {tool.name for tool in (await client.list_tools()).tools}
            assert "probe_echo" in offered
            assert not {"probe_write", "workspace_status"} & offered
        async with http_client(server, mode) as client:
            assert not {tool.name for tool in (await client.list_tools()).tools} & {"probe_echo", "probe_write"}


def product() -> Catalogue:
    return make_workspace(Settings(toolsets=("all",)), "stdio").catalogue


def shown(tool: Any) -> str:
    return json.dumps(
        describe(tool).model_dump(by_alias=True, exclude_none=True, mode="json"), indent=1, ensure_ascii=False
    )


@requirement("toolsets:budget")
@pytest.mark.parametrize(
    ("chosen", "most_tools", "most_tokens"),
    [(("default",), 40, 8_000), (("core",), 16, 4_000), (("compact",), 90, 18_750), (("all",), 112, 22_500)],
)
def test_the_catalogue_stays_small(chosen: tuple[str, ...], most_tools: int, most_tokens: int) -> None:
    offered = make_workspace(Settings(toolsets=chosen), "stdio").catalogue.offered(local_user())
    assert 0 < len(offered) <= most_tools
    listed = [describe(tool).model_dump(by_alias=True, exclude_none=True, mode="json") for tool in offered]
    assert estimate_tokens(json.dumps(listed, ensure_ascii=False, separators=(",", ":"))) <= most_tokens


@requirement("toolsets:compact")
@pytest.mark.anyio
async def test_compact_has_every_tool_but_those_whose_work_another_does(tmp_path: Path) -> None:
    everything = {tool.name for tool in product().offered(local_user())}
    assert set(TWINS) | set(TWINS.values()) <= everything
    assert not set(TWINS) & set(TWINS.values())
    async with stdio_client(tmp_path, "--toolsets", "compact") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == everything - set(TWINS)
        refused = await client.call_tool("scratch_export", {"scratch_id": "a", "format": "md"})
        assert refused.is_error
        told = str(refused.structured_content)
        assert "because export_notebook does the same" in told
        assert "call export_notebook; or start cellwright with --toolsets compact,scratch_plus" in told


@requirement("toolsets:snapshot")
def test_each_tool_is_as_it_was(request: pytest.FixtureRequest) -> None:
    """A change of a tool's surface shows up in review. `make docs` writes the snapshots again."""
    del request
    expected = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in SNAPSHOTS.glob("*.json")}
    found = {
        tool.name: {"tokens": estimate_tokens(shown(tool)), "tool": json.loads(shown(tool))}
        for tool in product().offered(local_user())
    }
    assert found == expected


def test_every_tool_has_a_short_description_and_an_output_schema() -> None:
    for tool in product().offered(local_user()):
        assert 20 <= len(tool.description) <= 300, tool.name
        assert tool.signature.output_schema is not None, tool.name


def test_default_and_core_name_things_that_exist() -> None:
    made = product()
    assert set(DEFAULT_TOOLSETS) <= {toolset.name for toolset in made.toolsets}
    assert set(CORE_TOOLS) <= {tool.name for tool in made.offered(local_user())}
