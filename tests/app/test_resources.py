"""Addresses as they are promised: the documentation has them, they can be read, and what is said to be watched can be."""

import re
from collections.abc import Generator

import pytest
from mcp import MCPError

from cellwright.app.resources import FIXED as WORKSPACE_ADDRESSES
from cellwright.context.resources import FIXED as CONTEXT_ADDRESSES
from cellwright.core.resources import ResourceInfo
from cellwright.scratch.resources import FIXED as PAD_ADDRESSES
from cellwright.thinking.resources import FIXED as THINKING_ADDRESSES
from jupyter_support import write_notebook
from locations import DOCS
from notebook_agent import Agent, agent_of
from requirements import requirement
from support import HttpServer, http_server, until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(200)]
FIXED: tuple[ResourceInfo, ...] = (*WORKSPACE_ADDRESSES, *PAD_ADDRESSES, *THINKING_ADDRESSES, *CONTEXT_ADDRESSES)
PROMISED = {
    "notebook://list",
    "notebook://current",
    "notebook://templates",
    "scratchpad://list",
    "context://project/overview",
    "context://session/current",
}
WATCHED = "can be watched"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    folder = tmp_path_factory.mktemp("addresses")
    write_notebook(folder / "root", "tides.ipynb", ["6 * 7"])
    with http_server(folder, "--toolsets", "all", "--rate", "0") as started:
        yield started


@requirement("doors:addresses")
async def test_every_fixed_address_is_written_down_and_read(server: HttpServer) -> None:
    assert {info.uri for info in FIXED} >= PROMISED
    page = (DOCS / "resources.md").read_text(encoding="utf-8")
    assert [info.uri for info in FIXED if f"| `{info.uri}` | {info.mime_type} |" not in page] == []
    async with agent_of(server, "legacy") as agent:
        for uri, sentence in (
            ("notebook://current", "No notebook for current session"),
            ("context://session/current", "No active session"),
        ):
            with pytest.raises(MCPError, match=sentence) as refused:
                await agent.client.read_resource(uri)
            assert refused.value.error.code == -32602
        made = await agent("notebook_create")
        for info in FIXED:
            content = await agent.resource(info.uri)
            assert content.mime_type == info.mime_type
        listed = {one.uri: one for one in (await agent.client.list_resources()).resources}
        assert {info.uri for info in FIXED} <= listed.keys()
        await agent("notebook_close", notebookId=made["notebookId"])


async def can_be_watched(agent: Agent, uri: str) -> bool:
    try:
        await agent.client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated] - the older era
    except MCPError:
        return False
    return True


@requirement("doors:watched")
async def test_what_is_said_to_be_watched_can_be(server: HttpServer) -> None:
    async with agent_of(server, "legacy") as agent:
        assert WATCHED in str(agent.client.instructions)
        made = await agent("notebook_create")
        added = await agent("notebook_add_cell", notebookId=made["notebookId"], source="1")
        await agent("scratch_create", scratch_id="watched", cells=[{"language": "md", "content": "x"}])
        await agent("get_nb_stat", path="tides.ipynb")
        listed = (await agent.client.list_resources()).resources
        told = {one.uri for one in listed if WATCHED in str(one.description)}
        assert told >= PROMISED - {"notebook://templates"} | {made["uri"], "jupyter://tides.ipynb"}
        below = {"scratchpad://watched", "scratchpad://watched/md", f"{made['uri']}/cells/{added['cell']['id']}"}
        for uri in sorted(told | below):
            assert await can_be_watched(agent, uri), uri
        for uri in ("context://file/tides.ipynb", f"{made['uri']}/cells/{added['cell']['id']}/outputs/0"):
            assert not await can_be_watched(agent, uri), uri
        templates = (await agent.client.list_resource_templates()).resource_templates
        said = {one.uri_template for one in templates if re.search(r"watched", str(one.description))}
        assert {"jupyter://{+path}", "scratchpad://{id}", "notebook://{session}/{notebook}"} <= said


@requirement("doors:watched")
async def test_a_watcher_of_the_current_notebook_hears_of_it(server: HttpServer) -> None:
    async with agent_of(server) as agent:
        async with agent.client.listen(resource_subscriptions=["notebook://current"]) as heard:
            made = await agent("notebook_create")
            news: list[str] = [str(getattr(await anext(heard), "uri", ""))]
            await until(lambda: news == ["notebook://current"], "the new notebook")
        await agent("notebook_close", notebookId=made["notebookId"])
