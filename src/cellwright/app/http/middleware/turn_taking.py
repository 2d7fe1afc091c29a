"""Every request waits for its turn in its caller's line; `turns` decides when it comes."""

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from cellwright.app.http.heads import address_of, head_of
from cellwright.app.http.messages import is_stream
from cellwright.app.http.middleware.callers import LINE_KEY
from cellwright.app.http.receiving import Incoming
from cellwright.app.http.turns import TurnLimits, Turns


class TurnTaking:
    """Passes a request on when it is its turn. Requests for open routes have no line and do not wait."""

    def __init__(self, app: ASGIApp, limits: TurnLimits) -> None:
        self._app = app
        self._turns = Turns(limits)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        line: str | None = scope.get(LINE_KEY)
        if line is None:
            await self._app(scope, receive, send)
            return
        head = head_of(scope)
        # What tells the clients of one caller apart: the session, or else the address.
        source = head.get("mcp-session-id") or address_of(scope)
        announced = head.get("content-length", "0")
        size = int(announced) if announced.isdigit() else 0
        incoming = Incoming(receive)
        turn = await self._turns.join(line, source, size, incoming.left, is_stream=is_stream(scope["method"], head))
        try:
            await self._app(scope, incoming, send)
        finally:
            turn.end()
