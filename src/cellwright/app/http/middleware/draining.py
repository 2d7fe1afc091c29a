"""While the server stops, calls under way may finish, and new requests are refused."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from cellwright.app.http.heads import head_of
from cellwright.app.http.messages import is_stream
from cellwright.app.http.refusal import Refusal
from cellwright.app.http.routes import OPEN, route_of


class CallsUnderWay:
    """How many calls are being served, and whether the server is closing."""

    def __init__(self) -> None:
        self.closing = False
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def counted(self) -> Generator[None]:
        self._count += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._idle.set()

    async def finished(self) -> None:
        """Return when no call is being served."""
        await self._idle.wait()


class Draining:
    """Counts the calls that have to finish before the server stops. Streams that stay open by design do not count."""

    def __init__(self, app: ASGIApp, calls: CallsUnderWay) -> None:
        self._app = app
        self._calls = calls

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if self._calls.closing:
            raise Refusal(503, "the server is stopping", {"retry-after": "5"}, hint="try again when it runs again")
        route = route_of(scope)
        if route is None or route.needs == OPEN or is_stream(scope["method"], head_of(scope)):
            await self._app(scope, receive, send)
            return
        with self._calls.counted():
            await self._app(scope, receive, send)
