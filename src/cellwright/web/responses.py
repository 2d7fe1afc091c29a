"""The responses of the page: the headers that all of them have, failures in JSON, and a stream of events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from pydantic_core import to_json
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from cellwright.core.errors import CellwrightError

SEND_SECONDS = 30.0
"""How long sending one piece of a stream may take before the client counts as one that stopped reading."""
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


class PageResponse(Response):
    """A response with the page's headers; JSON, unless the headers name another type."""

    media_type = "application/json"

    def __init__(self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(body, status, {**PAGE_HEADERS, **(headers or {})})


class NoContent(Response):
    """Success, without a body."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status_code=204, headers={**PAGE_HEADERS, **(headers or {})})


class EventStream(StreamingResponse):
    """Server-sent events until the pieces end or the client leaves. Then `on_leave` is called, perhaps twice.

    Starlette's own response does not notice a client that leaves where the server speaks ASGI 2.4, as our bridge in Jupyter does, and it
    waits for ever for a client that has stopped reading.
    """

    def __init__(self, pieces: AsyncIterator[bytes], on_leave: Callable[[], None]) -> None:
        headers = {"content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(pieces, headers={**PAGE_HEADERS, **headers})
        self._on_leave = on_leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        leaving = asyncio.create_task(self.listen_for_disconnect(receive))
        leaving.add_done_callback(lambda _: self._on_leave())

        async def sending(message: Message) -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        try:
            await self.stream_response(sending)
        except TimeoutError:
            # The client does not read. The server closes the rest of the connection.
            return
        finally:
            self._on_leave()
            leaving.cancel()


def json_response(value: object) -> PageResponse:
    return PageResponse(to_json(value))


def failure(error: CellwrightError) -> PageResponse:
    codes = [str(getattr(kind, "code", "")) for kind in type(error).__mro__]
    status = next((STATUS_OF[code] for code in codes if code in STATUS_OF), STATUS_BAD)
    return PageResponse(to_json({"error": {"code": error.code, "message": error.message, "hint": error.hint}}), status)
