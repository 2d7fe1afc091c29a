"""The one module that knows the MCP SDK: our tools, resources, errors and events, in both eras of the protocol.

Handshake-era clients (2024-11-05 to 2025-11-25) watch with `resources/subscribe`, clients of 2026-07-28 with `subscriptions/listen`; both
are fed by the workspace's `Changes`. One private name of the SDK is used, `ServerSession._connection`: it is the only identity
that a handshake-era connection has (tests/app/test_sdk_seam.py holds it in place).
"""

import base64
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TextIO, cast

import anyio
import anyio.abc
from mcp import MCPError
from mcp import types as wire
from mcp.server import CacheHint, NotificationOptions, Server, ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.server.subscriptions import ResourcesListChanged as ListChangedEvent
from mcp.server.subscriptions import ResourceUpdated as UpdatedEvent
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field

from cellwright.app.catalogue import Catalogue, OfferedTool, Selection
from cellwright.app.coalesce import Coalescer
from cellwright.app.gate import MODERN, PRINCIPAL_KEY
from cellwright.app.log import log_event
from cellwright.app.results import Answer, answer_error, answer_result
from cellwright.app.tasks import Task, Tasks
from cellwright.core.errors import INTERNAL_ERROR, INTERNAL_MESSAGE, CellwrightError, InvalidUri, NotFound
from cellwright.core.resources import Change, Changes, Resources, ResourceUpdated
from cellwright.core.toolset import Effect, Image, Link
from cellwright.core.types import Call, Principal

Context = ServerRequestContext[Any, Any]

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
PAGE = 200
MAX_WATCHED = 100
TELL_SECONDS = 5.0
TOOLS_FRESH_MS = 300_000
HEADER_TOOLSETS = "x-mcp-toolsets"
HEADER_TOOLS = "x-mcp-tools"
HEADER_EXCLUDE = "x-mcp-exclude-tools"
HEADER_READ_ONLY = "x-mcp-readonly"

Observe = Callable[[str, str, float], None]
"""Told of every tool call: tool, outcome, seconds."""


class TaskParams(wire.RequestParams):
    """What `tasks/get` and `tasks/cancel` take."""

    task_id: str = Field(alias="taskId")


@dataclass
class _Watcher:
    """A handshake-era connection and what it watches."""

    session: Any
    principal: Principal
    uris: dict[str, AsyncExitStack] = field(default_factory=dict[str, AsyncExitStack])
    """What it watches, each with what is held for it."""

    async def forget(self) -> None:
        while self.uris:
            await self.uris.popitem()[1].aclose()


@dataclass
class _Listeners:
    """The `subscriptions/listen` streams of one caller. Each caller has a bus of its own, so nobody hears of another's changes."""

    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    open: int = 0

    def __post_init__(self) -> None:
        self.handler = ListenHandler(self.bus, max_subscriptions=MAX_WATCHED)


class CellwrightServer(Server[None]):
    """Our tools and resources as an MCP server. It holds no state of any caller but what they watch."""

    def __init__(
        self,
        *,
        version: str,
        instructions: str,
        catalogue: Catalogue,
        resources: Sequence[Resources],
        changes: Changes,
        tasks: Tasks,
        result_tokens: int,
        local: Principal | None = None,
        observe: Observe = lambda _tool, _outcome, _seconds: None,
        telemetry: bool = False,
    ) -> None:
        """`local` is who calls over stdio, where there is no token; over HTTP every request carries its principal."""
        super().__init__(
            "cellwright",
            version=version,
            title="cellwright",
            instructions=instructions,
            lifespan=self._lifespan,
            get_tool_input_schema=self._input_schema,
            cache_hints={"tools/list": CacheHint(ttl_ms=TOOLS_FRESH_MS, scope="private")},
            on_list_tools=self.list_tools,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
            on_completion=self.complete,
        )
        if not telemetry:
            self.middleware.clear()
        self._catalogue = catalogue
        self._resources = {provider.scheme: provider for provider in resources}
        self._changes = changes
        self._tasks = tasks
        self._result_tokens = result_tokens
        self._local = local
        self._observe = observe
        self._watchers: dict[Any, _Watcher] = {}
        self._listeners: dict[str, _Listeners] = {}
        self._senders: anyio.abc.TaskGroup | None = None
        self.extensions[TASKS_EXTENSION] = {}
        # Not by the constructor, whose type does not know the shape of a task.
        self.add_request_handler("tools/call", wire.CallToolRequestParams, self.call_tool)
        for method, handler in (("get", self._task_get), ("cancel", self._task_cancel), ("update", self._task_update)):
            self.add_request_handler(f"tasks/{method}", TaskParams, handler)
        self.add_notification_handler("notifications/initialized", wire.NotificationParams, self._remember)

    # -- who asks ------------------------------------------------------------------------------------------------------------

    def call_of(self, ctx: Context) -> Call:
        """The call behind a request: its principal, its connection, where its progress goes."""
        client = ctx.session.client_params
        return Call(
            principal=self._principal(ctx),
            connection=_connection_name(ctx),
            client=client.client_info.name if client else "",
            request_id=secrets.token_hex(4),
            report=ctx.session.report_progress,
        )

    def _principal(self, ctx: Context) -> Principal:
        scope: Mapping[str, Any] = getattr(ctx.request, "scope", {})
        principal = scope.get(PRINCIPAL_KEY, self._local)
        if not isinstance(principal, Principal):
            # The gate refuses these; reaching this line means a transport without one.
            raise MCPError(wire.INVALID_REQUEST, "not authenticated")
        return principal

    def _wish(self, ctx: Context) -> Selection | None:
        headers: Mapping[str, str] = getattr(ctx.request, "headers", {})
        names = (HEADER_TOOLSETS, HEADER_TOOLS, HEADER_EXCLUDE, HEADER_READ_ONLY)
        return self._catalogue.wish(*(headers.get(name, "") for name in names))

    # -- tools ---------------------------------------------------------------------------------------------------------------

    async def list_tools(self, ctx: Context, params: wire.PaginatedRequestParams | None) -> wire.ListToolsResult:
        del params
        try:
            offered = self._catalogue.offered(self._principal(ctx), self._wish(ctx))
        except CellwrightError as error:
            raise _protocol_error(error) from None
        return wire.ListToolsResult(tools=[describe(tool) for tool in offered])

    async def call_tool(
        self, ctx: Context, params: wire.CallToolRequestParams
    ) -> wire.CallToolResult | wire.InputRequiredResult | dict[str, Any]:
        call = self.call_of(ctx)
        try:
            offered = self._catalogue.find(params.name, call.principal, self._wish(ctx))
        except CellwrightError as error:
            if error.code == "INSUFFICIENT_SCOPE":
                return _as_result(answer_error(error))
            raise _protocol_error(error) from None
        arguments = params.arguments or {}
        if offered.tool.long and _knows_tasks(ctx):
            return await self._call_as_task(call, offered, arguments)
        return _as_result(await self._run(call, offered, arguments))

    async def _run(self, call: Call, offered: OfferedTool, arguments: Mapping[str, Any]) -> Answer:
        """One call of one tool: arguments checked, work done, failures in words, size bounded, all of it logged."""
        started = time.perf_counter()
        outcome = "cancelled"
        try:
            taken = offered.signature.parse(arguments)
            first = (offered.service, call) if offered.signature.takes_call else (offered.service,)
            result = await offered.tool.function(*first, **taken)
            answer = answer_result(result, offered.signature, self._result_tokens)
            outcome = "failed" if answer.failed else "ok"
        except CellwrightError as error:
            outcome = error.code
            answer = answer_error(error)
        except Exception:  # noqa: BLE001 - the edge of the process: a crash is logged whole and told in one line
            outcome = INTERNAL_ERROR
            log_event("crash", level=40, exc_info=True, tool=offered.name, request=call.request_id)
            answer = answer_error(_Crash(f"{INTERNAL_MESSAGE} {call.request_id}"))
        finally:
            spent = time.perf_counter() - started
            self._observe(offered.name, outcome, spent)
            log_event(
                "tool",
                tool=offered.name,
                outcome=outcome,
                ms=spent * 1000,
                principal=call.principal.id,
                request=call.request_id,
            )
        return answer

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        return self._catalogue.schema(name)

    # -- tasks ---------------------------------------------------------------------------------------------------------------

    async def _call_as_task(
        self, call: Call, offered: OfferedTool, arguments: Mapping[str, Any]
    ) -> wire.CallToolResult | dict[str, Any]:
        async def work(task: Task) -> dict[str, Any]:
            async def note(_done: float, _total: float | None, message: str) -> None:
                self._tasks.note(task, message)

            answer = await self._run(replace(call, report=note), offered, arguments)
            return {"result": _as_result(answer).model_dump(by_alias=True, mode="json", exclude_none=True)}

        try:
            task = await self._tasks.start(call.principal, work)
        except CellwrightError as error:
            return _as_result(answer_error(error))
        if task.status == "completed":
            self._tasks.forget(task)
            return wire.CallToolResult.model_validate(task.outcome["result"])
        return {"resultType": "task", **task.as_json(self._tasks.ttl)}

    async def _task_get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        return {"resultType": "complete", **self._task(ctx, params).as_json(self._tasks.ttl)}

    async def _task_cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        self._tasks.cancel(self._task(ctx, params))
        return {"resultType": "complete"}

    async def _task_update(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        self._task(ctx, params)
        return {"resultType": "complete"}

    def _task(self, ctx: Context, params: TaskParams) -> Task:
        if ctx.protocol_version != MODERN:
            raise MCPError(wire.METHOD_NOT_FOUND, "Method not found")
        if not _knows_tasks(ctx):
            data: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
            raise MCPError(
                wire.MISSING_REQUIRED_CLIENT_CAPABILITY, "the client did not declare the tasks extension", data
            )
        named = getattr(ctx.request, "headers", {}).get("mcp-name", params.task_id)
        if named != params.task_id:
            raise MCPError(wire.HEADER_MISMATCH, "the mcp-name header is not params.taskId")
        try:
            return self._tasks.find(self._principal(ctx), params.task_id)
        except CellwrightError as error:
            raise _protocol_error(error) from None

    # -- resources -----------------------------------------------------------------------------------------------------------

    async def list_resources(
        self, ctx: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListResourcesResult:
        call = self.call_of(ctx)
        start = _offset(params.cursor if params else None)
        found = [info for provider in self._resources.values() for info in await provider.list(call)]
        page = [
            wire.Resource(uri=info.uri, name=info.name, description=info.description or None, mime_type=info.mime_type)
            for info in found[start : start + PAGE]
        ]
        more = str(start + PAGE) if start + PAGE < len(found) else None
        return wire.ListResourcesResult(resources=page, next_cursor=more)

    async def list_templates(
        self, ctx: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListResourceTemplatesResult:
        del ctx, params
        return wire.ListResourceTemplatesResult(
            resource_templates=[
                wire.ResourceTemplate(
                    uri_template=template.uri_template,
                    name=template.name,
                    description=template.description or None,
                    mime_type=template.mime_type,
                )
                for provider in self._resources.values()
                for template in provider.templates()
            ]
        )

    async def read_resource(
        self, ctx: Context, params: wire.ReadResourceRequestParams
    ) -> wire.ReadResourceResult | wire.InputRequiredResult:
        call = self.call_of(ctx)
        uri = str(params.uri)
        try:
            contents = await self._provider(uri).read(call, uri)
        except CellwrightError as error:
            log_event("resource", uri=uri, outcome=error.code, request=call.request_id)
            raise _protocol_error(error, uri) from None
        except Exception:  # noqa: BLE001 - the edge of the process, as for tools
            log_event("crash", level=40, exc_info=True, uri=uri, request=call.request_id)
            raise MCPError(
                wire.INTERNAL_ERROR,
                f"{INTERNAL_MESSAGE} {call.request_id}",
                {"resource": uri, "reason": INTERNAL_ERROR},
            ) from None
        return wire.ReadResourceResult(
            contents=[_content(uri, item.body, item.mime_type, item.meta) for item in contents]
        )

    def _provider(self, uri: str) -> Resources:
        scheme, separator, _ = uri.partition("://")
        if not separator:
            raise InvalidUri(f"{uri[:200]!r} is not a resource address", hint="it has the form scheme://…")
        provider = self._resources.get(scheme)
        if provider is None:
            raise NotFound(f"no resource {uri[:200]}", hint=f"schemes here: {', '.join(sorted(self._resources))}")
        return provider

    async def complete(self, ctx: Context, params: wire.CompleteRequestParams) -> wire.CompleteResult:
        values: Sequence[str] = ()
        if isinstance(params.ref, wire.ResourceTemplateReference):
            scheme = params.ref.uri.partition("://")[0]
            if (provider := self._resources.get(scheme)) is not None:
                argument = params.argument
                values = await provider.complete(self.call_of(ctx), params.ref.uri, argument.name, argument.value)
        shown = list(values[:100])
        return wire.CompleteResult(
            completion=wire.Completion(values=shown, total=len(values), has_more=len(values) > len(shown))
        )

    # -- watching ------------------------------------------------------------------------------------------------------------

    async def _watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        try:
            return await self._provider(uri).watch(call, uri)
        except CellwrightError:
            return None

    async def _subscribe(self, ctx: Context, params: wire.SubscribeRequestParams) -> wire.EmptyResult:
        uri = str(params.uri)
        watcher = self._watcher(ctx)
        if uri in watcher.uris:
            return wire.EmptyResult()
        if len(watcher.uris) >= MAX_WATCHED:
            raise MCPError(wire.INVALID_PARAMS, f"this connection watches {MAX_WATCHED} resources already")
        held = await self._watch(self.call_of(ctx), uri)
        if held is None:
            raise _protocol_error(NotFound(f"no resource {uri[:200]}", hint="resources/list shows what there is"), uri)
        stack = AsyncExitStack()
        await stack.enter_async_context(held)
        watcher.uris[uri] = stack
        return wire.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: wire.UnsubscribeRequestParams) -> wire.EmptyResult:
        stack = self._watcher(ctx).uris.pop(str(params.uri), None)
        if stack is not None:
            await stack.aclose()
        return wire.EmptyResult()

    async def _listen(
        self, ctx: Context, params: wire.SubscriptionsListenRequestParams
    ) -> wire.SubscriptionsListenResult:
        call = self.call_of(ctx)
        wanted = params.notifications
        allowed: list[str] = []
        listeners = self._listeners.setdefault(call.principal.id, _Listeners())
        listeners.open += 1
        try:
            async with AsyncExitStack() as stack:
                for uri in list(dict.fromkeys(wanted.resource_subscriptions or ()))[:MAX_WATCHED]:
                    if (held := await self._watch(call, uri)) is not None:
                        await stack.enter_async_context(held)
                        allowed.append(uri)
                honoured = wanted.model_copy(update={"resource_subscriptions": allowed or None})
                return await listeners.handler(ctx, params.model_copy(update={"notifications": honoured}))
        finally:
            listeners.open -= 1
            if not listeners.open:
                self._listeners.pop(call.principal.id, None)

    def _watcher(self, ctx: Context) -> _Watcher:
        connection = ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        if connection not in self._watchers:
            watcher = self._watchers[connection] = _Watcher(ctx.session, self._principal(ctx))
            connection.exit_stack.push_async_callback(watcher.forget)
            connection.exit_stack.callback(self._watchers.pop, connection, None)
        return self._watchers[connection]

    async def _remember(self, ctx: Context, params: wire.NotificationParams) -> None:
        """From `initialized` on, a handshake-era client hears of list changes without asking."""
        del params
        self._watcher(ctx)

    @asynccontextmanager
    async def _lifespan(self, _server: Server[None]) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as senders:
            self._senders = senders
            coalescer = Coalescer(self._announce)
            stop = self._changes.subscribe(coalescer)
            try:
                yield None
            finally:
                stop()
                coalescer.close()
                self._senders = None
                await self._tasks.close()
                senders.cancel_scope.cancel()

    def _announce(self, change: Change) -> None:
        """Send one change to everyone who may know: a task each, so that a client that stopped reading delays nobody."""
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
                self._senders.start_soon(_tell, watcher.session.send_resource_list_changed)
            elif change.uri in watcher.uris:
                self._senders.start_soon(_tell, watcher.session.send_resource_updated, change.uri)

    def end_listening(self) -> None:
        """End every listen stream in the way the protocol wants: with a last frame that says so."""
        for listeners in tuple(self._listeners.values()):
            listeners.handler.close()

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """What a handshake-era client is told: resource lists change; tools never do."""
        told = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(told, experimental_capabilities, extensions)


class HttpEndpoint:
    """The server as an ASGI app, for requests that the gate has let in with their principal."""

    def __init__(self, server: CellwrightServer, max_body: int) -> None:
        self._manager = StreamableHTTPSessionManager(
            app=server,
            # Host and Origin are the gate's work, by the operator's settings.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=max_body,
        )

    def running(self) -> AbstractAsyncContextManager[None]:
        return self._manager.run()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's own types are Any
        principal = cast("Principal", scope[PRINCIPAL_KEY])
        # The SDK binds each handshake-era session to this user: another principal that names the session gets 404.
        access = AccessToken(token="", client_id="cellwright", subject=principal.id, scopes=[])
        await self._manager.handle_request({**scope, "user": AuthenticatedUser(access)}, receive, send)


async def serve_stdio(server: CellwrightServer, stdin: TextIO, stdout: TextIO) -> None:
    """Serve one client on these pipes until it closes them."""
    async with stdio_server(anyio.wrap_file(stdin), anyio.wrap_file(stdout)) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class _Crash(CellwrightError):
    code = INTERNAL_ERROR
    meaning = "cellwright failed inside. The operator's log has the details; the same call may or may not work again."


async def _tell(send: Callable[..., Awaitable[None]], *arguments: str) -> None:
    with anyio.move_on_after(TELL_SECONDS):
        await send(*arguments)


def _connection_name(ctx: Context) -> str | None:
    if ctx.protocol_version == MODERN:
        return None
    session_id = getattr(ctx.request, "headers", {}).get("mcp-session-id")
    return session_id or f"{id(ctx.session._connection):x}"  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _knows_tasks(ctx: Context) -> bool:
    declared = ctx.session.client_capabilities
    return ctx.protocol_version == MODERN and bool(declared and TASKS_EXTENSION in (declared.extensions or {}))


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:  # noqa: PLR2004
        raise MCPError(wire.INVALID_PARAMS, "this cursor did not come from resources/list")
    return int(cursor)


def describe(offered: OfferedTool) -> wire.Tool:
    """A tool as clients see it."""
    tool = offered.tool
    return wire.Tool(
        name=offered.name,
        title=offered.title,
        description=offered.description,
        input_schema=offered.signature.input_schema,
        output_schema=offered.signature.output_schema,
        annotations=wire.ToolAnnotations(
            read_only_hint=tool.effect is Effect.READ,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.effect is Effect.RUN,
        ),
    )


def _as_result(answer: Answer) -> wire.CallToolResult:
    return wire.CallToolResult(
        content=[_block(part) for part in answer.content],
        structured_content=answer.data,
        is_error=answer.failed,
        _meta=answer.meta or None,
    )


def _block(part: str | Image | Link) -> wire.ContentBlock:
    match part:
        case str():
            return wire.TextContent(type="text", text=part)
        case Image():
            return wire.ImageContent(
                type="image", data=base64.b64encode(part.data).decode("ascii"), mime_type=part.mime_type
            )
        case Link():
            return wire.ResourceLink(
                type="resource_link", uri=part.uri, name=part.name, mime_type=part.mime_type or None
            )


def _content(
    uri: str, body: str | bytes, mime_type: str, meta: dict[str, object]
) -> wire.TextResourceContents | wire.BlobResourceContents:
    if isinstance(body, bytes):
        blob = base64.b64encode(body).decode("ascii")
        return wire.BlobResourceContents(uri=uri, blob=blob, mime_type=mime_type, _meta=meta or None)
    return wire.TextResourceContents(uri=uri, text=body, mime_type=mime_type, _meta=meta or None)


def _protocol_error(error: CellwrightError, uri: str | None = None) -> MCPError:
    data: dict[str, Any] = {**error.as_json()}
    if uri is not None:
        data |= {"uri": uri, "resource": uri, "reason": error.code}
    return MCPError(error.rpc_code, str(error), data)
