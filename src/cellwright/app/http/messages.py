"""What the gate reads of an MCP request: its era, its tool, and how much JSON it holds. Imports nothing heavy."""

import json
from collections.abc import Mapping
from typing import cast

from cellwright.core.foreign_json import JsonBounds

MODERN = "2026-07-28"
EVENT_STREAM = "text/event-stream"
CORS_HEADERS = (
    "authorization, content-type, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, last-event-id, "
    "x-mcp-toolsets, x-mcp-tools, x-mcp-exclude-tools, x-mcp-readonly"
)
CORS_METHODS = "GET, POST, DELETE"
EXPOSED_HEADERS = "mcp-session-id, www-authenticate"
ENCODED = "=?"
"""The beginning of a header value that is encoded."""
MOST_VALUES = 100_000
DEEPEST = 100
"""Limits of a message beside its bytes: nothing else can run while the parser is at work."""


def is_stream(method: str, head: Mapping[str, str]) -> bool:
    """Whether the response is a stream that stays open by design. Such streams have a limit of their own and do not count as calls."""
    listens = head.get("mcp-method") == "subscriptions/listen" and head.get("mcp-protocol-version") == MODERN
    return listens or (method == "GET" and EVENT_STREAM in head.get("accept", ""))


def excess_of(body: bytes) -> str:
    """Why this message must not be parsed, as the end of a sentence ("it has …") with advice; empty if it may be parsed."""
    excess = JsonBounds(len(body), MOST_VALUES, DEEPEST).excess(body)
    if not excess:
        return ""
    return f"{excess}; send it in parts" if excess.endswith("values") else f"{excess}; make it flatter"


def called_tool(head: Mapping[str, str], body: bytes) -> str | None:
    """The tool that this request calls; None if it does something else."""
    name = head.get("mcp-name", "")
    if head.get("mcp-protocol-version") == MODERN and "mcp-method" in head and not name.startswith(ENCODED):
        # In this era the headers must agree with the body; the server behind the gate refuses requests where they do not.
        return name if head["mcp-method"] == "tools/call" else None
    if b"tools/call" not in body and b"\\" not in body:
        return None
    try:
        message: object = json.loads(body)
    except (ValueError, RecursionError):
        return None  # the protocol answers malformed bodies itself
    return _tool_in(message)


def _tool_in(message: object) -> str | None:
    if not isinstance(message, dict):
        return None
    request = cast("dict[str, object]", message)
    params = request.get("params")
    if request.get("method") != "tools/call" or not isinstance(params, dict):
        return None
    name = cast("dict[str, object]", params).get("name")
    return name if isinstance(name, str) else None
