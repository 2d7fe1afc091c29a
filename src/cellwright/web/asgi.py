"""Requests and answers of the page, in ASGI's terms, with the headers that every answer has."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qsl

from pydantic_core import to_json

from cellwright.core.errors import CellwrightError, InvalidArgument
from cellwright.core.types import Principal

AsgiScope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

SEND_SECONDS = 30.0
"""How long one piece of a stream may take to be read by a client that has stopped reading."""
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
COMMON_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-dns-prefetch-control": "off",
}
PAGE_HEADERS = {**COMMON_HEADERS, "content-security-policy": PAGE_POLICY, "x-frame-options": "DENY"}
STATUS_OF = {
    "NOT_FOUND": 404,
    "CONFLICT": 409,
    "INSUFFICIENT_SCOPE": 403,
    "CAPACITY_LIMIT_REACHED": 429,
    "UNAVAILABLE": 503,
    "TIMEOUT": 504,
}
STATUS_BAD = 400
STATUS_NONE = 204
STATUS_ELSEWHERE = 303


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was let in. `principal` is None where everybody is."""

    principal: Principal | None
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def caller(self) -> Principal:
        assert self.principal is not None
        return self.principal

    def text(self, name: str) -> str:
        found = self.query.get(name, "")
        if not found:
            raise InvalidArgument(f"the query lacks {name!r}", hint=f"give it as ?{name}=…")
        return found

    def number(self, name: str, default: int, most: int) -> int:
        found = self.query.get(name, str(default))
        if not (found.isascii() and found.isdigit() and len(found) <= 9 and int(found) <= most):  # noqa: PLR2004
            raise InvalidArgument(f"{name} is a whole number from 0 to {most}")
        return int(found)

    def json(self) -> dict[str, object]:
        try:
            found: object = json.loads(self.body or b"{}")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise InvalidArgument("the body is not a JSON object")
        return cast("dict[str, object]", found)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=lambda: PAGE_HEADERS)

    @classmethod
    def json(cls, value: object) -> "Answer":
        return cls(body=to_json(value))


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer that goes on until its pieces end or the client leaves; then `left` is called."""

    pieces: AsyncIterator[bytes]
    left: Callable[[], None]


def failure(error: CellwrightError) -> Answer:
    codes = [str(getattr(kind, "code", "")) for kind in type(error).__mro__]
    status = next((STATUS_OF[code] for code in codes if code in STATUS_OF), STATUS_BAD)
    told = {"code": error.code, "message": error.message, "hint": error.hint}
    return Answer(status, to_json({"error": told}))


def request_of(scope: AsgiScope, principal: Principal | None, body: bytes = b"") -> Request:
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, errors="replace")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    return Request(principal, dict(pairs), headers, body)


async def body_of(receive: Receive) -> bytes:
    """The body, which the gate has read and bounded already."""
    return bytes((await receive()).get("body", b""))


async def send_answer(send: Send, answer: Answer) -> None:
    headers = {"content-type": answer.kind, "content-length": str(len(answer.body)), **answer.headers}
    if answer.status == STATUS_NONE:
        del headers["content-type"], headers["content-length"]
    await send({"type": "http.response.start", "status": answer.status, "headers": _raw(headers)})
    await send({"type": "http.response.body", "body": answer.body})


async def send_stream(receive: Receive, send: Send, stream: Streamed) -> None:
    leaving = asyncio.create_task(_gone(receive))
    leaving.add_done_callback(lambda _done: stream.left())
    headers = {
        **PAGE_HEADERS,
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
    }
    try:
        await send({"type": "http.response.start", "status": 200, "headers": _raw(headers)})
        async for piece in stream.pieces:
            async with asyncio.timeout(SEND_SECONDS):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        # It does not read: what is left of the connection is the server's to close.
        return
    finally:
        stream.left()
        leaving.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
