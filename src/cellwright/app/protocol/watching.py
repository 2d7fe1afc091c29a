"""Who watches which resources, in both eras: one `Changes` feeds `resources/subscribe` and `subscriptions/listen`.

One private name of the SDK is used, `ServerSession._connection`: it is the only identity of a handshake-era connection
(tests/test_code.py checks that it exists).
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
from mcp import MCPError
from mcp import types as wire
from mcp.server import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.server.subscriptions import ResourcesListChanged as ListChangedEvent
from mcp.server.subscriptions import ResourceUpdated as UpdatedEvent

from cellwright.app.protocol.coalesce import Coalescer
from cellwright.app.protocol.convert import protocol_error
from cellwright.core.errors import CellwrightError, NotFound
from cellwright.core.resources import Change, Changes, Resources, ResourceUpdated
from cellwright.core.types import Call, Principal

Context = ServerRequestContext[Any, Any]

MAX_WATCHED = 100
NOTIFY_SECONDS = 5.0


@dataclass
class _Watcher:
    """A handshake-era connection and what it watches."""

    session: Any
    principal: Principal
    uris: dict[str, AsyncExitStack] = field(default_factory=dict[str, AsyncExitStack])
    """The watched addresses, each with what has to be closed afterwards."""

    async def forget(self) -> None:
        while self.uris:
            await self.uris.popitem()[1].aclose()


@dataclass
class _Listeners:
    """The `subscriptions/listen` streams of one caller. Each caller has its own bus, so nobody hears of another caller's changes."""

    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    open: int = 0

    def __post_init__(self) -> None:
        self.handler = ListenHandler(self.bus, max_subscriptions=MAX_WATCHED)


class Watching:
    """All watchers. `call_of` returns the call of a request, `provider` the provider of a resource."""

    def __init__(
        self, changes: Changes, call_of: Callable[[Context], Call], provider: Callable[[str], Resources]
    ) -> None:
        self._changes = changes
        self._call_of = call_of
        self._provider = provider
        self._watchers: dict[Any, _Watcher] = {}
        self._listeners: dict[str, _Listeners] = {}
        self._senders: anyio.abc.TaskGroup | None = None

    @property
    def connections(self) -> tuple[object, ...]:
        """The handshake-era connections that are notified of changes."""
        return tuple(self._watchers)

    async def _watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        try:
            return await self._provider(uri).watch(call, uri)
        except CellwrightError:
            return None

    async def subscribe(self, ctx: Context, params: wire.SubscribeRequestParams) -> wire.EmptyResult:
        uri = str(params.uri)
        watcher = self._watcher(ctx)
        if uri in watcher.uris:
            return wire.EmptyResult()
        if len(watcher.uris) >= MAX_WATCHED:
            raise MCPError(wire.INVALID_PARAMS, f"this connection watches {MAX_WATCHED} resources already")
        watched = await self._watch(self._call_of(ctx), uri)
        if watched is None:
            raise protocol_error(NotFound(f"no resource {uri[:200]}", hint="resources/list shows what there is"), uri)
        stack = AsyncExitStack()
        await stack.enter_async_context(watched)
        watcher.uris[uri] = stack
        return wire.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: wire.UnsubscribeRequestParams) -> wire.EmptyResult:
        stack = self._watcher(ctx).uris.pop(str(params.uri), None)
        if stack is not None:
            await stack.aclose()
        return wire.EmptyResult()

    async def listen(
        self, ctx: Context, params: wire.SubscriptionsListenRequestParams
    ) -> wire.SubscriptionsListenResult:
        call = self._call_of(ctx)
        requested = params.notifications
        allowed: list[str] = []
        listeners = self._listeners.setdefault(call.principal.id, _Listeners())
        listeners.open += 1
        try:
            async with AsyncExitStack() as stack:
                for uri in list(dict.fromkeys(requested.resource_subscriptions or ()))[:MAX_WATCHED]:
                    if (watched := await self._watch(call, uri)) is not None:
                        await stack.enter_async_context(watched)
                        allowed.append(uri)
                honoured = requested.model_copy(update={"resource_subscriptions": allowed or None})
                return await listeners.handler(ctx, params.model_copy(update={"notifications": honoured}))
        finally:
            listeners.open -= 1
            if not listeners.open:
                self._listeners.pop(call.principal.id, None)

    def _watcher(self, ctx: Context) -> _Watcher:
        connection = ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        if connection not in self._watchers:
            watcher = self._watchers[connection] = _Watcher(ctx.session, self._call_of(ctx).principal)
            connection.exit_stack.push_async_callback(watcher.forget)
            connection.exit_stack.callback(self._watchers.pop, connection, None)
        return self._watchers[connection]

    async def remember(self, ctx: Context, params: wire.NotificationParams) -> None:
        """After `initialized`, a handshake-era client is notified of list changes without asking."""
        del params
        self._watcher(ctx)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Announce changes for as long as the block runs."""
        async with anyio.create_task_group() as senders:
            self._senders = senders
            coalescer = Coalescer(self.announce)

            def on_change(change: Change) -> None:
                # Nearly always nobody watches.
                if self._listeners or self._watchers:
                    coalescer(change)

            stop = self._changes.subscribe(on_change)
            try:
                yield
            finally:
                stop()
                coalescer.close()
                self._senders = None
                senders.cancel_scope.cancel()

    def announce(self, change: Change) -> None:
        """Send one change to everyone who may know of it, each in a task, so that a client that stopped reading delays nobody."""
        if self._senders is None:
            return
        event = UpdatedEvent(uri=change.uri) if isinstance(change, ResourceUpdated) else ListChangedEvent()
        for owner, listeners in tuple(self._listeners.items()):
            if change.principal_id in {None, owner}:
                self._senders.start_soon(listeners.bus.publish, event)
        for watcher in tuple(self._watchers.values()):
            if change.principal_id not in {None, watcher.principal.id}:
                continue
            if not isinstance(change, ResourceUpdated):
                self._senders.start_soon(_notify, watcher.session.send_resource_list_changed)
            elif change.uri in watcher.uris:
                self._senders.start_soon(_notify, watcher.session.send_resource_updated, change.uri)

    def end_listening(self) -> None:
        """End every listen stream as the protocol wants it: with a last frame that says so."""
        for listeners in tuple(self._listeners.values()):
            listeners.handler.close()


async def _notify(send: Callable[..., Awaitable[None]], *arguments: str) -> None:
    with anyio.move_on_after(NOTIFY_SECONDS):
        await send(*arguments)
