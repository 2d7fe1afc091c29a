"""An ASGI app behind a Tornado handler. Responses are streamed, and a client that leaves is noticed."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

if TYPE_CHECKING:
    # Not imported when Jupyter starts, but with the first request.
    from starlette.types import ASGIApp, Message
    from starlette.types import Scope as AsgiScope

# Headers about the connection, which Tornado sets itself.
HOP_BY_HOP = frozenset({b"connection", b"content-length", b"transfer-encoding"})


def scope_of(
    handler: RequestHandler, path: str, headers: Sequence[tuple[bytes, bytes]], query: bytes = b""
) -> "AsgiScope":
    """The ASGI scope of the request. The query is left out unless it is given: the protocol has none, and Jupyter takes tokens there."""
    request = handler.request
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.protocol,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "headers": list(headers),
        "client": (request.remote_ip, 0),
        "server": None,
        "state": {},
    }


async def answer_by(
    handler: RequestHandler, app: "ASGIApp", scope: "AsgiScope", body: bytes, gone: asyncio.Event
) -> None:
    """Let `app` answer this request. `gone` is set when the client has left."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> "Message":
        if pending:
            return pending.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: "Message") -> None:
        if gone.is_set():
            return
        if message["type"] == "http.response.start":
            _begin_response(handler, message)
            return
        if message.get("body"):
            handler.write(message["body"])  # pyright: ignore[reportUnknownMemberType] - Tornado's dict has no parameters
        if message.get("more_body"):
            try:
                await handler.flush()
            except StreamClosedError:
                gone.set()

    await app(scope, receive, send)
    if not gone.is_set():
        handler.finish()  # pyright: ignore[reportUnknownMemberType]


def _begin_response(handler: RequestHandler, message: "Message") -> None:
    handler.set_status(message["status"])
    handler.clear_header("Content-Type")
    for raw_name, raw_value in message.get("headers", ()):
        if raw_name.lower() not in HOP_BY_HOP:
            handler.set_header(raw_name.decode("latin-1"), raw_value.decode("latin-1"))
