"""Tools for programs that do not speak MCP: a list and a call in plain JSON.

Each request becomes one request of the protocol, through the same gate to the same server, so nothing can differ.
"""

import json
from collections.abc import Mapping
from typing import Any, TypedDict, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response
from starlette.types import ASGIApp, Message, Receive
from starlette.types import Scope as AsgiScope

from cellwright import __version__
from cellwright.app.http.messages import MODERN
from cellwright.app.http.middleware.bodies import check_json
from cellwright.app.http.receiving import replayed
from cellwright.app.http.refusal import Refusal

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "plain JSON", "version": __version__},
    "io.modelcontextprotocol/clientCapabilities": {},
}
# Ours to set: by these the server chooses how to read the request.
REPLACED = (b"content-length", b"accept", b"mcp-")
JSON = (b"content-type", b"application/json")
# A request that chooses its toolsets or tools itself gets what it asks for.
CHOOSING = (b"x-mcp-toolsets", b"x-mcp-tools")
STATUS_OK = 200
STATUS_BAD = 400


def tools_list(mcp: ASGIApp, toolsets: str = "") -> ASGIApp:
    """GET: `{"tools": […]}`, those that this caller may use, each with the names of its arguments as `parameters`.

    `toolsets` are what a request means that names none.
    """

    async def respond(request: Request) -> Response:
        await request.body()
        scope = _with_toolsets(request.scope, toolsets)
        headers = [pair for pair in scope["headers"] if pair[0] != JSON[0]]
        status, answer = await _ask(mcp, {**scope, "headers": [*headers, JSON]}, request.receive, "tools/list", {})
        if "tools" in answer:
            answer = {**answer, "tools": [_with_parameters(tool) for tool in answer["tools"]]}
        return _response(status, answer)

    return request_response(respond)


def tools_call(mcp: ASGIApp, toolsets: str = "") -> ASGIApp:
    """POST of `{"tool_name", "arguments"}`: the result of the tool, as the protocol has it."""

    async def respond(request: Request) -> Response:
        scope = _with_toolsets(request.scope, toolsets)
        wanted = _wanted(await request.body())
        if isinstance(wanted, str):
            return _response(STATUS_BAD, {"error": wanted})
        return _response(*await _ask(mcp, scope, request.receive, "tools/call", wanted))

    return request_response(respond)


def _with_toolsets(scope: AsgiScope, toolsets: str) -> AsgiScope:
    if not toolsets or any(name in CHOOSING for name, _ in scope["headers"]):
        return scope
    return {**scope, "headers": [*scope["headers"], (CHOOSING[0], toolsets.encode())]}


def _with_parameters(tool: dict[str, Any]) -> dict[str, Any]:
    return {**tool, "parameters": list(tool["inputSchema"].get("properties", {}))}


class ToolWanted(TypedDict):
    """A tool and its arguments, as the protocol names them."""

    name: str
    arguments: dict[str, object]


def _wanted(body: bytes) -> ToolWanted | str:
    """The call that the body asks for, or what is wrong with it."""
    form = 'the body must be {"tool_name": "…", "arguments": {…}}'
    try:
        check_json(body)
        found: object = json.loads(body)
    except Refusal as refusal:
        return refusal.message
    except (ValueError, RecursionError):
        return f"{form}; this is not JSON"
    if not isinstance(found, dict):
        return form
    given = cast("dict[str, object]", found)
    if unknown := given.keys() - {"tool_name", "arguments"}:
        return f"{form}; there is no {min(unknown)[:80]!r}"
    name, arguments = given.get("tool_name"), given.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return form
    return {"name": name, "arguments": arguments}


async def _ask(
    mcp: ASGIApp, scope: AsgiScope, receive: Receive, method: str, params: Mapping[str, object]
) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}).encode()
    # A name that is no header value goes without: the server then says so.
    name = str(params.get("name", ""))
    routed = [(b"mcp-name", name.encode())] if name.isascii() and name.isprintable() and name else []
    headers = [
        *((key, value) for key, value in scope["headers"] if not key.startswith(REPLACED)),
        (b"content-length", str(len(body)).encode()),
        (b"accept", b"application/json, text/event-stream"),
        (b"mcp-protocol-version", MODERN.encode()),
        (b"mcp-method", method.encode()),
        *routed,
    ]
    status = STATUS_OK
    chunks: list[bytes] = []

    async def collect(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        chunks.append(message.get("body", b""))

    await mcp({**scope, "method": "POST", "headers": headers}, replayed(body, receive), collect)
    return _told(status, b"".join(chunks))


def _told(status: int, body: bytes) -> tuple[int, dict[str, Any]]:
    """The protocol's answer without its envelope. Work that took long was streamed: the answer is the last event."""
    if not body:
        return status, {}
    text = body if body.startswith(b"{") else body.rpartition(b"data: ")[2]
    answer: dict[str, Any] = json.loads(text)
    if "result" in answer:
        return status, answer["result"]
    error = answer["error"]
    told = {"error": error["message"], **({"data": error["data"]} if error.get("data") else {})}
    return (STATUS_BAD if status == STATUS_OK else status), told


def _response(status: int, body: Mapping[str, Any]) -> Response:
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(json.dumps(body), status, headers, "application/json")
