"""Watching resources: two eras, one publish; nobody hears what is not theirs."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from cellwright.app.protocol.coalesce import Coalescer
from cellwright.app.settings import Settings
from cellwright.app.workspace import Workspace, local_user, make_workspace
from cellwright.core.errors import NotFound
from cellwright.core.resources import (
    Change,
    Content,
    ResourceInfo,
    ResourceListChanged,
    ResourceTemplate,
    ResourceUpdated,
)
from cellwright.core.types import ALL_SCOPES, Call, Principal
from requirements import requirement
from support import until

pytestmark = pytest.mark.anyio

MINE = "pad://mine"
OTHERS = "pad://others"


class Pads:
    """Two resources, of which the caller owns one."""

    scheme = "pad"

    def __init__(self) -> None:
        self.watched = 0

    def templates(self) -> Sequence[ResourceTemplate]:
        return []

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        del call
        return [ResourceInfo(MINE, "mine"), *(ResourceInfo(f"pad://{n}", str(n)) for n in range(450))]

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        if await self.watch(call, uri) is None:
            raise NotFound(f"no resource {uri}")
        return [Content("text", "text/plain")]

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        del call
        return self.held() if uri == MINE else None

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        self.watched += 1
        try:
            yield
        finally:
            self.watched -= 1

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        del call, template, argument, prefix
        return []


def workspace_with_pads(tmp_path: Path) -> Workspace:
    made = make_workspace(Settings(root=tmp_path), "stdio")
    return replace(made, resources=(*made.resources, Pads()))


class Notes:
    """What a client was told."""

    def __init__(self) -> None:
        self.updated: list[str] = []
        self.lists = 0

    async def __call__(self, message: Any) -> None:
        method = getattr(message, "method", "")
        if method == "notifications/resources/updated":
            self.updated.append(str(message.params.uri))
        elif method == "notifications/resources/list_changed":
            self.lists += 1


async def subscribe(client: Client, uri: str) -> None:
    await client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated] - serving the older era is the point


@requirement("watch:both-eras")
async def test_a_subscribed_client_hears_of_its_resource_until_it_unsubscribes(tmp_path: Path) -> None:
    workspace = workspace_with_pads(tmp_path)
    notes = Notes()
    async with Client(workspace.server(local_user()), mode="legacy", message_handler=notes, cache=None) as client:
        await subscribe(client, MINE)
        workspace.changes.publish(ResourceUpdated("pad://elsewhere"))
        workspace.changes.publish(ResourceUpdated(MINE))
        workspace.changes.publish(ResourceListChanged())
        await until(lambda: bool(notes.updated) and bool(notes.lists), "told of the change")
        assert notes.updated == [MINE]
        await client.unsubscribe_resource(MINE)  # pyright: ignore[reportDeprecated]
        workspace.changes.publish(ResourceUpdated(MINE, principal_id=None))
        await asyncio.sleep(1.2)  # longer than the quiet second, so a late notification would have come
        assert notes.updated == [MINE]


@requirement("watch:both-eras")
async def test_a_listening_client_hears_of_what_it_asked_for(tmp_path: Path) -> None:
    workspace = workspace_with_pads(tmp_path)
    async with (
        Client(workspace.server(local_user()), cache=None) as client,
        client.listen(resource_subscriptions=[MINE], resources_list_changed=True) as heard,
    ):
        workspace.changes.publish(ResourceUpdated("pad://elsewhere"))
        workspace.changes.publish(ResourceUpdated(MINE))
        workspace.changes.publish(ResourceListChanged())
        with anyio.fail_after(10):
            events = [await anext(heard), await anext(heard)]
        assert [type(event).__name__ for event in events] == ["ResourceUpdated", "ResourcesListChanged"]


@requirement("watch:held")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_is_watched_is_held_until_nobody_watches(tmp_path: Path, mode: str) -> None:
    workspace = workspace_with_pads(tmp_path)
    pads = workspace.resources[-1]
    assert isinstance(pads, Pads)
    async with Client(workspace.server(local_user()), mode=mode, cache=None) as client:  # pyright: ignore[reportArgumentType]
        if mode == "legacy":
            await subscribe(client, MINE)
            await subscribe(client, MINE)
            assert pads.watched == 1
        else:
            async with client.listen(resource_subscriptions=[MINE, OTHERS]):
                assert pads.watched == 1
            await until(lambda: pads.watched == 0, "let go")
    await until(lambda: pads.watched == 0, "let go when the connection ended")


@requirement("watch:authorised")
async def test_what_may_not_be_read_cannot_be_subscribed(tmp_path: Path) -> None:
    workspace = workspace_with_pads(tmp_path)
    async with Client(workspace.server(local_user()), mode="legacy", cache=None) as client:
        for uri in (OTHERS, "pad://never", "nowhere://x", "no-address"):
            with pytest.raises(MCPError) as caught:
                await subscribe(client, uri)
            assert caught.value.error.code == -32602


@requirement("watch:authorised")
async def test_what_may_not_be_read_is_not_in_the_acknowledged_filter(tmp_path: Path) -> None:
    workspace = workspace_with_pads(tmp_path)
    async with (
        Client(workspace.server(local_user()), cache=None) as client,
        client.listen(resource_subscriptions=[OTHERS, MINE, "nowhere://x"]) as heard,
    ):
        assert heard.honored.resource_subscriptions == [MINE]
        workspace.changes.publish(ResourceUpdated(OTHERS))
        workspace.changes.publish(ResourceUpdated(MINE))
        with anyio.fail_after(10):
            assert getattr(await anext(heard), "uri", "") == MINE


@requirement("watch:principal")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_one_callers_changes_are_not_told_to_another(tmp_path: Path, mode: str) -> None:
    workspace = workspace_with_pads(tmp_path)
    server = workspace.server(Principal("me", ALL_SCOPES))
    notes = Notes()
    async with Client(server, mode=mode, message_handler=notes, cache=None) as client:  # pyright: ignore[reportArgumentType]
        events: list[str] = []
        if mode == "legacy":
            await subscribe(client, MINE)
            events = notes.updated
            workspace.changes.publish(ResourceUpdated(MINE, principal_id="somebody else"))
            workspace.changes.publish(ResourceListChanged(principal_id="somebody else"))
            workspace.changes.publish(ResourceUpdated(MINE, principal_id="me"))
            await until(lambda: bool(notes.updated), "told of my own change")
            assert notes.lists == 0
        else:
            async with client.listen(resource_subscriptions=[MINE], resources_list_changed=True) as heard:
                workspace.changes.publish(ResourceUpdated(MINE, principal_id="somebody else"))
                workspace.changes.publish(ResourceListChanged(principal_id="somebody else"))
                workspace.changes.publish(ResourceUpdated(MINE, principal_id="me"))
                with anyio.fail_after(10):
                    events.append(getattr(await anext(heard), "uri", "a list change"))
        assert events == [MINE]


@requirement("watch:rate")
async def test_a_burst_becomes_two_notifications_and_the_last_is_not_lost() -> None:
    told: list[Change] = []
    coalescer = Coalescer(told.append, quiet=0.05)
    for _ in range(100):
        coalescer(ResourceUpdated(MINE))
    coalescer(ResourceUpdated(OTHERS))
    assert told == [ResourceUpdated(MINE), ResourceUpdated(OTHERS)]
    await until(lambda: len(told) == 3, "the trailing notification")
    assert told[2] == ResourceUpdated(MINE)
    coalescer.close()


@requirement("resources:pages")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_long_list_comes_in_pages(tmp_path: Path, mode: str) -> None:
    workspace = workspace_with_pads(tmp_path)
    async with Client(workspace.server(local_user()), mode=mode, cache=None) as client:  # pyright: ignore[reportArgumentType]
        seen: list[str] = []
        cursor = None
        while True:
            page = await client.list_resources(cursor=cursor)
            seen += [str(resource.uri) for resource in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert len(seen) == len(set(seen))
        assert {MINE, *(f"pad://{n}" for n in range(450))} <= set(seen)
        for bad in ("x", "-1", "\u0661", "9" * 30):
            with pytest.raises(MCPError):
                await client.list_resources(cursor=bad)
