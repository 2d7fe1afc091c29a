"""CORS preflights: the OPTIONS requests by which a browser asks whether a page of another origin may call. They need no token."""

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from cellwright.app.http.heads import head_of
from cellwright.app.http.messages import CORS_HEADERS, CORS_METHODS


class Preflights:
    """Answers OPTIONS requests of allowed origins. From other origins, OPTIONS is a method like any other."""

    def __init__(self, app: ASGIApp, origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        origin = head_of(scope).get("origin")
        if scope["method"] != "OPTIONS" or origin is None or origin not in self._origins:
            await self._app(scope, receive, send)
            return
        headers = {
            "access-control-allow-origin": origin,
            "access-control-allow-methods": CORS_METHODS,
            "access-control-allow-headers": CORS_HEADERS,
            "access-control-max-age": "600",
            "vary": "origin",
        }
        await Response(status_code=204, headers=headers)(scope, receive, send)
