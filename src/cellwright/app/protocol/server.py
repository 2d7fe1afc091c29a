"""Our tools and resources as an MCP server, on the SDK's low-level class."""

import base64
import copy
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.resources import files
from secrets import token_hex
from typing import Any, Self

from mcp import MCPError
from mcp import types as wire
from mcp.server import CacheHint, NotificationOptions, Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.models import InitializationOptions

from cellwright.app.http.messages import MODERN
from cellwright.app.log import log_event
from cellwright.app.masking import KnownSecrets
from cellwright.app.offers.catalogue import (
    EXCLUDE_HEADER,
    READONLY_HEADER,
    TOOLS_HEADER,
    TOOLSETS_HEADER,
    Catalogue,
    Selection,
    ToolOff,
)
from cellwright.app.offers.offered_prompts import OfferedPrompts
from cellwright.app.protocol.calls import CallRecorder, Observe, ToolCalls
from cellwright.app.protocol.convert import (
    UI_EXTENSION,
    as_result,
    brief_errors,
    contents_of,
    describe,
    prompt_of,
    protocol_error,
    resource_of,
)
from cellwright.app.protocol.results import answer_error
from cellwright.app.protocol.task_requests import TASKS_EXTENSION, TaskParams, TaskRequests, knows_tasks
from cellwright.app.protocol.tasks import Tasks
from cellwright.app.protocol.watching import Context, Watching
from cellwright.app.threads import on_behalf_of
from cellwright.core.errors import INTERNAL_ERROR, INTERNAL_MESSAGE, CellwrightError, InvalidUri, NotFound
from cellwright.core.prompts import Prompt
from cellwright.core.resources import VIEW_MIME, Changes, Resources
from cellwright.core.text.clean import shown
from cellwright.core.text.names import on_one_line
from cellwright.core.types import PRINCIPAL_KEY, Call, Principal

HOME_PAGE = "https://github.com/cellwright/cellwright"
PAGE = 200
TOOLS_FRESH_MS = 300_000
LONGEST_URI = 20_000
"""Longer than a path of 4,096 bytes, each of which is written as three characters."""
CHOICE_HEADERS = tuple(name.lower() for name in (TOOLSETS_HEADER, TOOLS_HEADER, EXCLUDE_HEADER, READONLY_HEADER))
IN_BAND = frozenset({"INSUFFICIENT_SCOPE", ToolOff.code})
"""Error codes that are answered as results, not as protocol errors: clients show results to the model, which can act on them."""


def _icon_url() -> str:
    """Our icon as a data URL, so that nobody has to fetch it."""
    svg = (files("cellwright") / "icon.svg").read_bytes()
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


class CellwrightServer(Server[None]):
    """Our tools and resources as an MCP server. The only state that it holds for callers is what they watch."""

    def __init__(
        self,
        *,
        version: str,
        instructions: str,
        catalogue: Catalogue,
        resources: Sequence[Resources],
        prompts: Sequence[Prompt] = (),
        changes: Changes,
        tasks: Tasks,
        result_tokens: int,
        local: Principal | None = None,
        observe: Observe = lambda _tool, _outcome, _seconds: None,
        recorder: CallRecorder | None = None,
        telemetry: bool = False,
        secrets: KnownSecrets | None = None,
    ) -> None:
        """`local` is the caller over stdio, where there is no token; over HTTP every request carries its principal.

        `secrets` are masked in every answer.
        """
        self._watching = Watching(changes, self.call_of, self._provider)
        super().__init__(
            "cellwright",
            version=version,
            title="cellwright",
            website_url=HOME_PAGE,
            icons=[wire.Icon(src=_icon_url(), mime_type="image/svg+xml", sizes=["any"])],
            instructions=instructions,
            lifespan=self._lifespan,
            get_tool_input_schema=catalogue.schema_with_headers,
            cache_hints={"tools/list": CacheHint(ttl_ms=TOOLS_FRESH_MS, scope="private")},
            on_list_tools=self.list_tools,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_subscribe_resource=self._watching.subscribe,
            on_unsubscribe_resource=self._watching.unsubscribe,
            on_subscriptions_listen=self._watching.listen,
            on_completion=self.complete,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
        )
        if not telemetry:
            self.middleware.clear()
        self.middleware.append(self._add_server_info)
        self.middleware.append(self._mask_secrets)
        self.middleware.append(brief_errors)
        self._catalogue = catalogue
        self._prompts = OfferedPrompts(prompts, catalogue)
        self._resources = {provider.scheme: provider for provider in resources}
        self._tasks = tasks
        self._local = local
        self._connected: set[str] = set()
        self._secrets = secrets or KnownSecrets()
        self.calls = ToolCalls(result_tokens, observe, recorder)
        self._task_requests = TaskRequests(tasks, self.calls, self._principal)
        self.extensions |= {TASKS_EXTENSION: {}, UI_EXTENSION: {"mimeTypes": [VIEW_MIME]}}
        # Not in the constructor, whose types do not allow a task as the answer.
        self.add_request_handler("tools/call", wire.CallToolRequestParams, self.call_tool)
        self.add_request_handler("tasks/get", TaskParams, self._task_requests.get)
        self.add_request_handler("tasks/cancel", TaskParams, self._task_requests.cancel)
        self.add_request_handler("tasks/update", TaskParams, self._task_requests.update)
        self.add_notification_handler("notifications/initialized", wire.NotificationParams, self._watching.remember)

    @property
    def server_info_stamp(self) -> dict[str, Any]:
        """What every answer in the era without a handshake says about the server: without the icon and all else that never changes."""
        return {"name": self.name, "version": self.version}

    async def _add_server_info(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: the answer to `server/discover` describes the server in full."""
        result = await call_next(ctx)
        if ctx.method != "server/discover" or not isinstance(result, dict):
            return result
        server_info = self.server_info.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {**result, "_meta": {**(result.get("_meta") or {}), wire.SERVER_INFO_META_KEY: server_info}}

    async def _mask_secrets(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: secrets are masked here in every answer to every request, in results and failures alike."""
        try:
            result = await call_next(ctx)
        except MCPError as error:
            data = self._secrets.json(error.data)
            raise MCPError(error.code, self._secrets.text(error.message), data) from None
        return self._secrets.json(result) if isinstance(result, dict) else result

    # -- callers -------------------------------------------------------------------------------------------------------------

    def call_of(self, ctx: Context) -> Call:
        """The call that a request makes: its principal, its connection, and how its progress is reported."""
        client = ctx.session.client_params
        principal = self._principal(ctx)
        on_behalf_of(principal.id)

        async def report(completed: float, total: float | None, message: str) -> None:
            await ctx.session.report_progress(completed, total, shown(self._secrets.text(message)))

        return Call(
            principal=principal,
            connection=_connection_name(ctx),
            client=client.client_info.name if client else "",
            request_id=token_hex(4),
            report=report,
            may_have_left=ctx.protocol_version == MODERN and ctx.request is not None,
        )

    def _principal(self, ctx: Context) -> Principal:
        scope: Mapping[str, Any] = getattr(ctx.request, "scope", {})
        principal = scope.get(PRINCIPAL_KEY, self._local)
        if not isinstance(principal, Principal):
            # The gate refuses such requests; only a transport without a gate comes here.
            raise MCPError(wire.INVALID_REQUEST, "not authenticated")
        return principal

    def _wish(self, ctx: Context) -> Selection | None:
        headers: Mapping[str, str] = getattr(ctx.request, "headers", {})
        return self._catalogue.wish(*(headers.get(name, "") for name in CHOICE_HEADERS))

    # -- tools ---------------------------------------------------------------------------------------------------------------

    async def list_tools(self, ctx: Context, params: wire.PaginatedRequestParams | None) -> wire.ListToolsResult:
        del params
        try:
            offered = self._catalogue.offered(self._principal(ctx), self._wish(ctx))
        except CellwrightError as error:
            raise protocol_error(error) from None
        return wire.ListToolsResult(tools=[describe(tool, views=_shows_views(ctx)) for tool in offered])

    async def call_tool(
        self, ctx: Context, params: wire.CallToolRequestParams
    ) -> wire.CallToolResult | wire.InputRequiredResult | dict[str, Any]:
        call = self.call_of(ctx)
        try:
            wish = self._wish(ctx)
            offered = self._catalogue.find(params.name, call.principal, wish)
        except CellwrightError as error:
            if error.code in IN_BAND:
                return as_result(answer_error(error))
            raise protocol_error(error) from None
        arguments = params.arguments or {}
        call = call if wish is None else replace(call, wish=wish)
        self._record_disconnect(ctx, call)
        if offered.tool.may_take_long(arguments) and knows_tasks(ctx):
            return await self._task_requests.call(call, offered, arguments)
        return as_result(await self.calls.run(call, offered, arguments))

    def _record_disconnect(self, ctx: Context, call: Call) -> None:
        """Tell the recorder when a handshake-era connection ends, because its session ends with it."""
        recorder = self.calls.recorder
        if recorder is None or call.connection is None or call.session in self._connected:
            return
        self._connected.add(call.session)
        stack = ctx.session._connection.exit_stack  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        stack.callback(recorder.left, call.session)
        stack.callback(self._connected.discard, call.session)

    # -- resources -----------------------------------------------------------------------------------------------------------

    async def list_resources(
        self, ctx: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListResourcesResult:
        call = self.call_of(ctx)
        start = _offset(params.cursor if params else None)
        infos = [info for provider in self._resources.values() for info in await provider.list(call)]
        page = [resource_of(info) for info in infos[start : start + PAGE]]
        next_cursor = str(start + PAGE) if start + PAGE < len(infos) else None
        return wire.ListResourcesResult(resources=page, next_cursor=next_cursor)

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
            call = replace(call, wish=self._wish(ctx))
            contents = await self._provider(uri).read(call, uri)
        except CellwrightError as error:
            log_event("resource", uri=uri, outcome=error.code, request=call.request_id)
            raise protocol_error(error, uri) from None
        except Exception:  # noqa: BLE001 - the edge of the process, as for tools
            log_event("crash", level=40, exc_info=True, uri=uri, request=call.request_id)
            raise MCPError(
                wire.INTERNAL_ERROR,
                f"{INTERNAL_MESSAGE} {call.request_id}",
                {"resource": uri, "reason": INTERNAL_ERROR},
            ) from None
        return wire.ReadResourceResult(contents=await contents_of(uri, contents))

    def _provider(self, uri: str) -> Resources:
        if len(uri) > LONGEST_URI:
            raise InvalidUri(
                f"an address of {len(uri)} characters names no resource; at most {LONGEST_URI} are read",
                hint="resources/templates/list shows the shapes",
            )
        scheme, separator, _ = uri.partition("://")
        if not separator:
            raise InvalidUri(f"Unknown resource: {uri[:200]!r}", hint="an address has the form scheme://…")
        provider = self._resources.get(scheme)
        if provider is None:
            schemes = ", ".join(sorted(self._resources))
            raise NotFound(f"Unknown resource: {on_one_line(uri[:200])}", hint=f"schemes here: {schemes}")
        return provider

    async def complete(self, ctx: Context, params: wire.CompleteRequestParams) -> wire.CompleteResult:
        values: Sequence[str] = ()
        call, argument = self.call_of(ctx), params.argument
        if isinstance(params.ref, wire.ResourceTemplateReference):
            scheme = params.ref.uri.partition("://")[0]
            if (provider := self._resources.get(scheme)) is not None:
                template = _with_values(params.ref.uri, params.context)
                values = await provider.complete(call, template, argument.name, argument.value)
        else:
            values = await self._prompts.complete(call, params.ref.name, argument.name, argument.value)
        first = shown(list(values[:100]))
        return wire.CompleteResult(
            completion=wire.Completion(values=first, total=len(values), has_more=len(values) > len(first))
        )

    # -- prompts -------------------------------------------------------------------------------------------------------------

    async def list_prompts(self, ctx: Context, params: wire.PaginatedRequestParams | None) -> wire.ListPromptsResult:
        del params
        try:
            offered = self._prompts.offered(self._principal(ctx), self._wish(ctx))
        except CellwrightError as error:
            raise protocol_error(error) from None
        return wire.ListPromptsResult(prompts=[prompt_of(prompt) for prompt in offered])

    async def get_prompt(
        self, ctx: Context, params: wire.GetPromptRequestParams
    ) -> wire.GetPromptResult | wire.InputRequiredResult:
        try:
            prompt, text = self._prompts.write(
                params.name, params.arguments or {}, self._principal(ctx), self._wish(ctx)
            )
        except CellwrightError as error:
            raise protocol_error(error) from None
        message = wire.PromptMessage(role="user", content=wire.TextContent(type="text", text=shown(text)))
        return wire.GetPromptResult(description=prompt.description, messages=[message])

    # -- lifespan ------------------------------------------------------------------------------------------------------------

    @property
    def watching(self) -> Watching:
        return self._watching

    @asynccontextmanager
    async def _lifespan(self, _server: Server[None]) -> AsyncGenerator[None]:
        async with self._watching.running():
            try:
                yield None
            finally:
                await self._tasks.close()

    def without_lifespan(self) -> Self:
        """The same server for a second transport: the lifespan of the first one is not entered twice."""
        twin = copy.copy(self)
        twin.lifespan = _no_lifespan
        return twin

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """What a handshake-era client learns: resource lists change, tools never do."""
        options = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


@asynccontextmanager
async def _no_lifespan(_server: Server[None]) -> AsyncGenerator[None]:
    yield None


def _connection_name(ctx: Context) -> str | None:
    if ctx.protocol_version == MODERN:
        return None
    session_id = getattr(ctx.request, "headers", {}).get("mcp-session-id")
    return session_id or f"{id(ctx.session._connection):x}"  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _shows_views(ctx: Context) -> bool:
    declared = ctx.session.client_capabilities
    settings = (declared.extensions or {}).get(UI_EXTENSION) if declared else None
    mime_types = settings.get("mimeTypes") if settings else None
    return isinstance(mime_types, list) and VIEW_MIME in mime_types


def _with_values(template: str, context: wire.CompletionContext | None) -> str:
    """A template with the values that the client has chosen for its other variables."""
    for name, value in ((context and context.arguments) or {}).items():
        template = template.replace(f"{{{name}}}", value)
    return template


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:  # noqa: PLR2004
        raise MCPError(wire.INVALID_PARAMS, "this cursor did not come from resources/list")
    return int(cursor)
