"""Turns a Refusal that another middleware raised into a response."""

import json
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from cellwright.app.http.refusal import Refusal, refusal_json
from cellwright.app.http.routes import route_of
from cellwright.app.log import log_event


class Refusals:
    """Catches every Refusal that is raised behind it, logs it, counts it and answers it."""

    def __init__(self, app: ASGIApp, observe: Callable[[int], None]) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Refusal as refusal:
            method, path = scope["method"], str(scope["path"])
            log_event("refused", status=refusal.status, reason=refusal.reason, method=method, path=path)
            self._observe(refusal.status)
            route = route_of(scope)
            as_protocol = route is not None and route.protocol and method == "POST"
            await response_of(refusal, as_protocol=as_protocol)(scope, receive, send)


def response_of(refusal: Refusal, *, as_protocol: bool) -> Response:
    headers = {
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        # The unread rest of the body must not be taken for the next request.
        "connection": "close",
        **refusal.headers,
    }
    body = json.dumps(refusal_json(refusal.status, refusal.message, refusal.headers, as_protocol=as_protocol))
    return Response(body, refusal.status, headers, "application/json")
