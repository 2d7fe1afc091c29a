"""What every response of a route gets: it is counted, browsers must not guess its type, and nobody stores it."""

from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope


class Answers:
    """Counts statuses, and adds headers that a response does not have already."""

    def __init__(self, app: ASGIApp, observe: Callable[[int], None]) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._observe(message["status"])
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                headers.setdefault("x-content-type-options", "nosniff")
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, send_counted)
