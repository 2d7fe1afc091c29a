"""Conversions of our values into those of the SDK."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

from mcp import MCPError
from mcp import types as wire
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext

from cellwright.app.offers.catalogue import OfferedTool
from cellwright.app.protocol.results import Answer, brief
from cellwright.core.errors import CellwrightError
from cellwright.core.prompts import Prompt
from cellwright.core.resources import Content, ResourceInfo
from cellwright.core.text.clean import shown
from cellwright.core.toolset import Effect, Image, Link, Tool

UI_EXTENSION = "io.modelcontextprotocol/ui"
LARGE_BODY = 100_000


def describe(offered: OfferedTool, *, views: bool = False) -> wire.Tool:
    """A tool as clients see it. `views`: include its view, for hosts that show views."""
    tool, output_schema = offered.tool, offered.signature.output_schema
    if output_schema is not None:
        # Clients pay for empty parts as well.
        output_schema = {key: part for key, part in output_schema.items() if part}
    return wire.Tool(
        name=offered.name,
        description=offered.description,
        input_schema=offered.signature.input_schema,
        output_schema=output_schema,
        annotations=_annotations(tool),
        _meta={"ui": {"resourceUri": tool.view}} if views and tool.view else None,
    )


def _annotations(tool: Tool) -> wire.ToolAnnotations:
    """The hints about a tool. For a tool that only reads, the others mean nothing and are left out, as clients pay for each."""
    reads = tool.effect is Effect.READ
    return wire.ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=None if reads else tool.destructive,
        idempotent_hint=True if tool.idempotent and not reads else None,
        open_world_hint=tool.effect is Effect.RUN,
    )


def prompt_of(prompt: Prompt) -> wire.Prompt:
    """A prompt as clients see it."""
    return wire.Prompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            wire.PromptArgument(name=argument.name, description=argument.description, required=argument.required)
            for argument in prompt.arguments
        ],
    )


def as_result(answer: Answer) -> wire.CallToolResult:
    """An answer as it goes on the wire."""
    return wire.CallToolResult(
        content=[block_of(part) for part in answer.content],
        structured_content=answer.data,
        is_error=answer.failed,
        _meta=answer.meta or None,
    )


def block_of(part: str | Image | Link) -> wire.ContentBlock:
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


def content_of(
    uri: str, body: str | bytes, mime_type: str, meta: dict[str, object]
) -> wire.TextResourceContents | wire.BlobResourceContents:
    """One content of a resource as it goes on the wire. Invisible characters are made visible."""
    meta, mime_type = shown(meta), shown(mime_type)
    if isinstance(body, bytes):
        blob = base64.b64encode(body).decode("ascii")
        return wire.BlobResourceContents(uri=uri, blob=blob, mime_type=mime_type, _meta=meta or None)
    return wire.TextResourceContents(uri=uri, text=shown(body), mime_type=mime_type, _meta=meta or None)


async def contents_of(
    uri: str, contents: Sequence[Content]
) -> list[wire.TextResourceContents | wire.BlobResourceContents]:
    """All contents of a resource as they go on the wire. Large ones are converted in a thread."""

    def make() -> list[wire.TextResourceContents | wire.BlobResourceContents]:
        return [content_of(uri, item.body, item.mime_type, item.meta) for item in contents]

    is_large = sum(len(item.body) for item in contents) > LARGE_BODY
    return await asyncio.to_thread(make) if is_large else make()


async def brief_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> Any:  # noqa: ANN401 - the SDK's own
    """Middleware: an error repeats little of the request, and nothing invisible. This includes errors that the SDK raises."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        raise MCPError(error.code, shown(brief(error.message)), shown(brief(error.data))) from None


def protocol_error(error: CellwrightError, uri: str | None = None) -> MCPError:
    """A failure as a protocol error, where the protocol does not want a result."""
    data: dict[str, Any] = {**error.as_json()}
    if uri is not None:
        data |= {"uri": uri, "resource": uri, "reason": error.details.get("reason", error.code)}
    return MCPError(error.rpc_code, shown(str(error)), shown(data))


def resource_of(info: ResourceInfo) -> wire.Resource:
    """A resource as clients see it in a list."""
    return wire.Resource(
        uri=info.uri,
        name=shown(info.name),
        description=shown(info.description) or None,
        mime_type=shown(info.mime_type),
        _meta=shown(info.meta) or None,
    )
