"""Tools for programs that do not speak MCP: a list and a call in plain JSON.

Each request becomes one request of the protocol, through the same gate to the same server, so nothing can differ.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from cellwright import __version__
from cellwright.app.requests import MODERN, App, AsgiScope, Message, Receive, Send

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "plain JSON", "version": __version__},
    "io.modelcontextprotocol/clientCapabilities": {},
}
# Ours to set: by these the server chooses how to read the request.
REPLACED = (b"content-length", b"accept", b"mcp-")
JSON = (b"content-type", b"application/json")
STATUS_OK = 200
STATUS_BAD = 400


def tools_list(mcp: App) -> App:
    """GET: `{"tools": […]}`, those that this caller may use."""

    async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        await receive()
        headers = [pair for pair in scope["headers"] if pair[0] != JSON[0]]
        await _answer(send, *await _ask(mcp, {**scope, "headers": [*headers, JSON]}, receive, "tools/list", {}))

    return app


def tools_call(mcp: App) -> App:
    """POST of `{"tool_name", "arguments"}`: the result of the tool, as the protocol has it."""

    async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        wanted = _wanted((await receive()).get("body", b""))
        if isinstance(wanted, str):
            await _answer(send, STATUS_BAD, {"error": wanted})
            return
        await _answer(send, *await _ask(mcp, scope, receive, "tools/call", wanted))

    return app


def _wanted(body: bytes) -> dict[str, Any] | str:
    """The call that the body asks for, or what is wrong with it."""
    form = 'the body must be {"tool_name": "…", "arguments": {…}}'
    try:
        found: object = json.loads(body)
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
    mcp: App, scope: AsgiScope, receive: Receive, method: str, params: Mapping[str, Any]
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
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    status = STATUS_OK
    chunks: list[bytes] = []

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    async def collect(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        chunks.append(message.get("body", b""))

    await mcp({**scope, "method": "POST", "headers": headers}, replay, collect)
    return _told(status, b"".join(chunks))


def _told(status: int, body: bytes) -> tuple[int, dict[str, Any]]:
    """The protocol's answer without its envelope. Work that took long was streamed: the answer is the last event."""
    if not body:
        return status, {}
    text = body if body.startswith(b"{") else body.rpartition(b"data: ")[2]
    answer: dict[str, Any] = json.loads(text)
    if "result" in answer:
        return status, answer["result"]
    return (STATUS_BAD if status == STATUS_OK else status), {"error": answer["error"]}


async def _answer(send: Send, status: int, body: Mapping[str, Any]) -> None:
    headers = [JSON, (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
