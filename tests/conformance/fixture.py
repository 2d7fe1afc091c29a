"""Our server with the names that the official conformance suite asks for. Used by tests only.

Everything but these names is the product: the gate, both transports, subscriptions, listing, errors.

    python tests/conformance/fixture.py TOKEN PORT
"""

import asyncio
import base64
import json
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

from mcp import MCPError, types
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from cellwright import __version__
from cellwright.app.http import serving as http
from cellwright.app.http.tokens import OneToken
from cellwright.app.log import configure_logging
from cellwright.app.protocol.server import CellwrightServer, Context
from cellwright.app.protocol.transport import HttpEndpoint
from cellwright.app.settings import Settings
from cellwright.app.workspace import INSTRUCTIONS, Workspace, make_workspace
from cellwright.core.errors import NotFound
from cellwright.core.resources import Content, ResourceInfo, ResourceTemplate, ResourceUpdated
from cellwright.core.types import Call, Secret

Result = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[Context, types.CallToolRequestParams], Awaitable[Result]]

STRING: dict[str, Any] = {"type": "string"}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\0\0\0\0"


def text(value: str) -> types.TextContent:
    return types.TextContent(type="text", text=value)


def picture() -> types.ImageContent:
    return types.ImageContent(type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png")


def embedded(uri: str, body: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri=uri, text=body, mime_type="text/plain")
    )


def done(*content: types.ContentBlock) -> types.CallToolResult:
    return types.CallToolResult(content=list(content))


def form(message: str, **properties: Any) -> types.ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(prompt: str, most: int) -> types.CreateMessageRequest:
    messages = [types.SamplingMessage(role="user", content=text(prompt))]
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=messages, max_tokens=most))


def ask(state: str | None = None, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def accepted(params: Any, key: str, name: str) -> Any:
    given: dict[str, Any] = params.input_responses or {}
    answer = given.get(key)
    fields: dict[str, Any] = getattr(answer, "content", None) or {}
    return fields.get(name) if getattr(answer, "action", "") == "accept" else None


def whose_name() -> types.ElicitRequest:
    return form("What is your name?", name=STRING)


async def progress(ctx: Context, _params: types.CallToolRequestParams) -> Result:
    for step in (0, 50, 100):
        await ctx.session.report_progress(step, 100)
        await asyncio.sleep(0.05)
    return done(text("ok"))


async def logs(ctx: Context, _params: types.CallToolRequestParams) -> Result:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", line, related_request_id=ctx.request_id)  # pyright: ignore[reportDeprecated]
        await asyncio.sleep(0.05)
    return done(text("ok"))


async def sample_now(ctx: Context, params: types.CallToolRequestParams) -> Result:
    messages = [types.SamplingMessage(role="user", content=text(str((params.arguments or {})["prompt"])))]
    answer: Any = await ctx.session.create_message(messages, max_tokens=100, related_request_id=ctx.request_id)  # pyright: ignore[reportDeprecated]
    return done(text(f"LLM response: {answer.content.text}"))


async def elicit(ctx: Context, message: str, properties: dict[str, Any], required: list[str]) -> Result:
    schema = {"type": "object", "properties": properties, "required": required}
    answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return done(text(f"Elicitation completed: action={answer.action}, content={answer.content}"))


async def elicit_plain(ctx: Context, params: types.CallToolRequestParams) -> Result:
    fields = {"username": STRING, "email": STRING}
    return await elicit(ctx, str((params.arguments or {})["message"]), fields, list(fields))


async def elicit_defaults(ctx: Context, _params: types.CallToolRequestParams) -> Result:
    fields: dict[str, Any] = {
        "name": {**STRING, "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {**STRING, "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await elicit(ctx, "defaults", fields, [])


async def elicit_enums(ctx: Context, _params: types.CallToolRequestParams) -> Result:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{i}", "title": f"{n} Option"} for i, n in ((1, "First"), (2, "Second"), (3, "Third"))]
    fields: dict[str, Any] = {
        "untitledSingle": {**STRING, "enum": plain},
        "titledSingle": {**STRING, "oneOf": titled},
        "legacyEnum": {
            **STRING,
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {**STRING, "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await elicit(ctx, "enums", fields, [])


def always(*content: types.ContentBlock) -> Handler:
    async def handler(_ctx: Context, _params: types.CallToolRequestParams) -> Result:
        return done(*content)

    return handler


async def failing(_ctx: Context, _params: types.CallToolRequestParams) -> Result:
    return types.CallToolResult(content=[text("This tool intentionally returns an error for testing")], is_error=True)


async def ask_name(_ctx: Context, params: types.CallToolRequestParams) -> Result:
    name = accepted(params, "user_name", "name")
    return done(text(f"Hello, {name}!")) if isinstance(name, str) else ask(user_name=whose_name())


async def ask_capital(_ctx: Context, params: types.CallToolRequestParams) -> Result:
    answer: Any = (params.input_responses or {}).get("capital_question")
    return (
        done(text(answer.content.text))
        if answer
        else ask(capital_question=sampling("What is the capital of France?", 100))
    )


async def ask_roots(_ctx: Context, params: types.CallToolRequestParams) -> Result:
    answer: Any = (params.input_responses or {}).get("client_roots")
    return (
        done(text(str([str(root.uri) for root in answer.roots])))
        if answer
        else ask(client_roots=types.ListRootsRequest())
    )


def confirm(word: str) -> Handler:
    async def handler(_ctx: Context, params: types.CallToolRequestParams) -> Result:
        if params.request_state == "s1" and accepted(params, "confirm", "ok") is not None:
            return done(text(word))
        return ask("s1", confirm=form("Please confirm", ok={"type": "boolean"}))

    return handler


async def ask_all(_ctx: Context, params: types.CallToolRequestParams) -> Result:
    if {"user_name", "greeting", "client_roots"} <= set(params.input_responses or {}) and params.request_state == "m":
        return done(text("all received"))
    return ask(
        "m", user_name=whose_name(), greeting=sampling("Generate a greeting", 50), client_roots=types.ListRootsRequest()
    )


async def ask_twice(_ctx: Context, params: types.CallToolRequestParams) -> Result:
    if params.request_state == "r2" and accepted(params, "step2", "color"):
        return done(text("done"))
    if params.request_state == "r1" and accepted(params, "step1", "name"):
        return ask("r2", step2=form("Step 2: What is your favorite color?", color=STRING))
    return ask("r1", step1=form("Step 1: What is your name?", name=STRING))


async def ask_what_is_known(ctx: Context, params: types.CallToolRequestParams) -> Result:
    declared = ctx.session.client_capabilities
    if params.input_responses:
        return done(text("ok"))
    requests: dict[str, Any] = {}
    if declared and declared.elicitation is not None:
        requests["user_name"] = whose_name()
    if declared and declared.sampling is not None:
        requests["greeting"] = sampling("Generate a greeting", 50)
    return ask(**requests) if requests else done(text("no capability"))


async def needs_sampling(ctx: Context, _params: types.CallToolRequestParams) -> Result:
    declared = ctx.session.client_capabilities
    if not declared or declared.sampling is None:
        raise MCPError(-32021, "sampling required", {"requiredCapabilities": {"sampling": {}}})
    return done(text("ok"))


async def ask_while_streaming(ctx: Context, params: types.CallToolRequestParams) -> Result:
    await ctx.session.report_progress(1, 2)
    return done(text("ok")) if accepted(params, "user_name", "name") else ask(user_name=whose_name())


async def echo_region(_ctx: Context, params: types.CallToolRequestParams) -> Result:
    return done(text(str((params.arguments or {})["region"])))


MIXED = (text("Multiple content types test:"), picture(), embedded("test://mixed-content-resource", '{"test":"data"}'))
TOOLS: dict[str, tuple[Handler, dict[str, Any]]] = {
    "test_simple_text": (always(text("This is a simple text response for testing.")), {}),
    "test_image_content": (always(picture()), {}),
    "test_audio_content": (
        always(types.AudioContent(type="audio", data=base64.b64encode(WAV).decode(), mime_type="audio/wav")),
        {},
    ),
    "test_embedded_resource": (
        always(embedded("test://embedded-resource", "This is an embedded resource content.")),
        {},
    ),
    "test_multiple_content_types": (always(*MIXED), {}),
    "test_error_handling": (failing, {}),
    "test_tool_with_progress": (progress, {}),
    "test_tool_with_logging": (logs, {}),
    "test_logging_tool": (logs, {}),
    "test_sampling": (sample_now, {"prompt": STRING}),
    "test_elicitation": (elicit_plain, {"message": STRING}),
    "test_elicitation_sep1034_defaults": (elicit_defaults, {}),
    "test_elicitation_sep1330_enums": (elicit_enums, {}),
    "test_input_required_result_elicitation": (ask_name, {}),
    "test_input_required_result_sampling": (ask_capital, {}),
    "test_input_required_result_list_roots": (ask_roots, {}),
    "test_input_required_result_request_state": (confirm("state-ok"), {}),
    "test_input_required_result_tampered_state": (confirm("ok"), {}),
    "test_input_required_result_multiple_inputs": (ask_all, {}),
    "test_input_required_result_multi_round": (ask_twice, {}),
    "test_input_required_result_capabilities": (ask_what_is_known, {}),
    "test_missing_capability": (needs_sampling, {}),
    "test_streaming_elicitation": (ask_while_streaming, {}),
    "test_custom_headers": (echo_region, {"region": {**STRING, "x-mcp-header": "Region"}}),
}
PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


def schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


class FixtureResources:
    """The `test://` resources."""

    scheme = "test"

    def templates(self) -> Sequence[ResourceTemplate]:
        return [ResourceTemplate("test://template/{id}/data", "template", "a template", "application/json")]

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        del call
        names = ("static-text", "static-binary", "watched-resource")
        return [
            ResourceInfo(f"test://{name}", name, "a fixture", "image/png" if "binary" in name else "text/plain")
            for name in names
        ]

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        del call
        match uri.removeprefix("test://").split("/"):
            case ["static-text"]:
                return [Content("This is the content of the static text resource.", "text/plain")]
            case ["static-binary"]:
                return [Content(PNG, "image/png")]
            case ["watched-resource"]:
                return [Content("watched", "text/plain")]
            case ["template", identity, "data"]:
                body = {"id": identity, "templateTest": True, "data": f"Data for ID: {identity}"}
                return [Content(json.dumps(body), "application/json")]
            case _:
                raise NotFound(f"no resource {uri}")

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        return nullcontext() if uri in {info.uri for info in await self.list(call)} else None

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        del call, template, argument
        return [prefix + "1"]


class FixtureServer(CellwrightServer):
    """The product plus the suite's tools and prompts."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(
            version=__version__,
            instructions=INSTRUCTIONS,
            catalogue=workspace.catalogue,
            resources=[*workspace.resources, FixtureResources()],
            changes=workspace.changes,
            tasks=workspace.tasks,
            result_tokens=workspace.settings.result_tokens,
        )
        self._published = workspace.changes
        self.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="cellwright"))
        self.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        self.add_request_handler("prompts/list", types.PaginatedRequestParams, self._list_prompts)
        self.add_request_handler("prompts/get", types.GetPromptRequestParams, self._get_prompt)

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        listed = await super().list_tools(ctx, params)
        own = [
            types.Tool(name=name, description=f"conformance fixture {name}", input_schema=schema(properties))
            for name, (_, properties) in TOOLS.items()
        ]
        return types.ListToolsResult(tools=[*listed.tools, *own])

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Result | dict[str, Any]:
        if params.name in TOOLS:
            return await TOOLS[params.name][0](ctx, params)
        if params.name in {"test_trigger_tool_change", "test_trigger_prompt_change"}:
            self._published.publish(ResourceUpdated("test://watched-resource"))
            return done(text("ok"))
        return await super().call_tool(ctx, params)

    async def _set_level(self, _ctx: Context, _params: types.SetLevelRequestParams) -> types.EmptyResult:
        return types.EmptyResult()

    async def _list_prompts(self, _ctx: Context, _params: types.PaginatedRequestParams) -> types.ListPromptsResult:
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=name,
                    description=f"conformance fixture {name}",
                    arguments=[types.PromptArgument(name=one, required=True) for one in arguments],
                )
                for name, arguments in PROMPTS.items()
            ]
        )

    async def _get_prompt(
        self, _ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        given = params.arguments or {}
        match params.name:
            case "test_simple_prompt":
                content: list[types.ContentBlock] = [text("This is a simple prompt for testing.")]
            case "test_prompt_with_arguments":
                content = [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
            case "test_prompt_with_embedded_resource":
                content = [
                    embedded(given["resourceUri"], "Embedded resource content for testing."),
                    text("Please process the embedded resource above."),
                ]
            case "test_prompt_with_image":
                content = [picture(), text("Please analyze the image above.")]
            case "test_input_required_result_prompt":
                context = accepted(params, "user_context", "context")
                if not context:
                    return ask(user_context=form("What context should the prompt use?", context=STRING))
                content = [text(f"Use {context}")]
            case _:
                raise MCPError(types.INVALID_PARAMS, f"unknown prompt {params.name}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in content])


async def serve(token: str, proxy_port: int) -> None:
    settings = Settings(
        root=Path(tempfile.gettempdir()),
        port=0,
        rate=0,
        allowed_hosts=(f"127.0.0.1:{proxy_port}", f"localhost:{proxy_port}"),
    )
    workspace = make_workspace(settings, "streamable-http")
    server = FixtureServer(workspace)
    endpoint = HttpEndpoint(server, workspace.catalogue.is_long, settings.max_body)
    bound: socket.socket = http.listen(settings)
    port = int(bound.getsockname()[1])
    gate = http.make_gate(
        settings, port, endpoint, workspace.metrics, [OneToken(Secret(token))], workspace.catalogue.needed_scope
    )
    print(port, flush=True)  # noqa: T201
    await http.serve(settings, server, endpoint, gate, bound)


if __name__ == "__main__":
    configure_logging("warning")
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
