"""Requests as ASGI has them: their types, what the gate reads from one, and how it says no."""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, cast

AsgiScope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

MODERN = "2026-07-28"
CORS_HEADERS = (
    "authorization, content-type, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, last-event-id, "
    "x-mcp-toolsets, x-mcp-tools, x-mcp-exclude-tools, x-mcp-readonly"
)
ENCODED = "=?"
"""So begins a header's value that is not written as it is."""
CORS_METHODS = "GET, POST, DELETE"
EXPOSED_HEADERS = "mcp-session-id, www-authenticate"
ONCE = frozenset({"host", "origin", "authorization", "cookie", "content-length", "content-type", "content-encoding"})
# By these the server behind chooses the era and the session: given twice, it and the gate could choose differently.
ROUTING = frozenset({"mcp-protocol-version", "mcp-session-id"})
TWICE = "given-twice"


class Refusal(Exception):
    """Why a request is not let in."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}


def headers_of(scope: AsgiScope) -> dict[str, str]:
    """Names in lower case. One of these that stands twice counts as wrong: two readers could pick differently."""
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        found[name] = "" if name in found and name in ONCE else raw_value.decode("latin-1")
        if name in ROUTING and sum(raw.lower() == raw_name.lower() for raw, _ in scope["headers"]) > 1:
            found[TWICE] = name
    return found


def has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]


def without_credentials(scope: AsgiScope) -> AsgiScope:
    """What lets the caller in stays at the door."""
    kept = [(name, value) for name, value in scope["headers"] if name.lower() not in {b"authorization", b"cookie"}]
    return {**scope, "headers": kept}


def is_stream(scope: AsgiScope, headers: Mapping[str, str]) -> bool:
    """Whether the answer is a stream that stays open by design: those are bounded elsewhere, not as calls under way."""
    listens = headers.get("mcp-method") == "subscriptions/listen" and headers.get("mcp-protocol-version") == MODERN
    return scope["method"] == "GET" or listens


def check_kind(headers: Mapping[str, str]) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "the body must be application/json")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal(415, "compressed bodies are not taken")


def called_tool(headers: Mapping[str, str], body: bytes) -> str | None:
    """The tool that this request calls; None if it does something else."""
    name = headers.get("mcp-name", "")
    if headers.get("mcp-protocol-version") == MODERN and "mcp-method" in headers and not name.startswith(ENCODED):
        # In this era the headers must say what the body says: the server behind refuses what does not.
        return name if headers["mcp-method"] == "tools/call" else None
    if b"tools/call" not in body and b"\\" not in body:
        return None
    try:
        message: object = json.loads(body)
    except (ValueError, RecursionError):
        return None  # not ours to judge: the protocol answers malformed bodies
    return _named(message)


def _named(message: object) -> str | None:
    if not isinstance(message, dict):
        return None
    found = cast("dict[str, object]", message)
    params = found.get("params")
    if found.get("method") != "tools/call" or not isinstance(params, dict):
        return None
    name = cast("dict[str, object]", params).get("name")
    return name if isinstance(name, str) else None


def replayed(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


async def answer_refused(send: Send, refusal: Refusal, extra: Sequence[tuple[bytes, bytes]]) -> None:
    body = json.dumps({"error": refusal.reason}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        # What was not read of the body must not be taken for the next request.
        (b"connection", b"close"),
        *((name.encode(), value.encode("latin-1")) for name, value in refusal.headers.items()),
        *extra,
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def answer_preflight(send: Send, origin: str) -> None:
    headers = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", CORS_METHODS.encode()),
        (b"access-control-allow-headers", CORS_HEADERS.encode()),
        (b"access-control-max-age", b"600"),
        (b"vary", b"origin"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
