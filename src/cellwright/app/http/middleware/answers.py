"""What every answer has that comes from a route: counted, not guessed at by browsers, not stored."""

from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope


class Answers:
    """Counts statuses, and adds the headers that an answer does not have by itself."""

    def __init__(self, app: ASGIApp, observe: Callable[[int], None]) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._observe(message["status"])
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                headers.setdefault("x-content-type-options", "nosniff")
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, watched)
