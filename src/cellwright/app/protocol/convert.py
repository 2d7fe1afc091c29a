"""Our values as the SDK's, one function each."""

import base64
from typing import Any

from mcp import MCPError
from mcp import types as wire

from cellwright.app.catalogue import OfferedTool
from cellwright.app.results import Answer
from cellwright.core.errors import CellwrightError
from cellwright.core.prompts import Prompt
from cellwright.core.toolset import Effect, Image, Link

UI_EXTENSION = "io.modelcontextprotocol/ui"


def describe(offered: OfferedTool, *, views: bool = False) -> wire.Tool:
    """A tool as clients see it. `views`: with the view that it has, for hosts that show them."""
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
        _meta={"ui": {"resourceUri": tool.view}} if views and tool.view else None,
    )


def prompt_of(prompt: Prompt) -> wire.Prompt:
    """A prompt as clients see it."""
    return wire.Prompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            wire.PromptArgument(name=one.name, description=one.description, required=one.required)
            for one in prompt.arguments
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
    """What reading a resource gave, as it goes on the wire."""
    if isinstance(body, bytes):
        blob = base64.b64encode(body).decode("ascii")
        return wire.BlobResourceContents(uri=uri, blob=blob, mime_type=mime_type, _meta=meta or None)
    return wire.TextResourceContents(uri=uri, text=body, mime_type=mime_type, _meta=meta or None)


def protocol_error(error: CellwrightError, uri: str | None = None) -> MCPError:
    """A failure where the protocol wants an error of its own, not a result."""
    data: dict[str, Any] = {**error.as_json()}
    if uri is not None:
        data |= {"uri": uri, "resource": uri, "reason": error.details.get("reason", error.code)}
    return MCPError(error.rpc_code, str(error), data)
