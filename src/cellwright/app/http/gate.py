"""The one entrance for HTTP requests. It is pure ASGI: each check is a middleware in a module of its own.

The order is: Host, Origin, token, route, scope, turn, content type, size and pace of the body, scope of the tool. Only a request that
passes all checks reaches the app behind, with its principal in the scope. Starlette's router finds the route first, because the checks
depend on it; a missing route is reported only when its turn comes. A middleware refuses by raising a Refusal, which the outermost one
turns into a response.
"""

from collections.abc import Callable, Sequence

from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Match, Router
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope
from starlette.websockets import WebSocketClose

from cellwright.app.http.middleware.answers import Answers
from cellwright.app.http.middleware.bodies import Bodies
from cellwright.app.http.middleware.callers import Callers, Verifier, Visitors
from cellwright.app.http.middleware.draining import CallsUnderWay, Draining
from cellwright.app.http.middleware.origins import HostAndOrigin
from cellwright.app.http.middleware.preflights import Preflights
from cellwright.app.http.middleware.refusals import Refusals
from cellwright.app.http.middleware.scopes import Scopes
from cellwright.app.http.middleware.turn_taking import TurnTaking
from cellwright.app.http.routes import ROUTE_KEY, Route
from cellwright.app.http.turns import TurnLimits
from cellwright.core.types import Scope


class Gate:
    """Lets requests in to the routes behind it, or answers why not."""

    def __init__(
        self,
        routes: Sequence[Route],
        verifiers: Sequence[Verifier],
        *,
        hosts: frozenset[str],
        origins: frozenset[str],
        limits: TurnLimits,
        tool_scope: Callable[[str], Scope | None],
        metadata_url: str = "",
        observe: Callable[[int], None] = lambda _status: None,
        visitors: Visitors | None = None,
    ) -> None:
        self.routes = tuple(routes)
        self._calls = CallsUnderWay()
        order = [
            Middleware(Refusals, observe),  # outermost: answers what the others refuse
            Middleware(HostAndOrigin, hosts, origins),  # Host, Origin
            Middleware(Draining, self._calls),
            Middleware(Preflights, origins),
            Middleware(Answers, observe),
            Middleware(Callers, verifiers, visitors, metadata_url),  # token
            Middleware(Scopes, metadata_url),  # route, scope
            Middleware(TurnTaking, limits),  # turn
            Middleware(Bodies, limits, tool_scope, metadata_url),  # content type, size and pace, scope of the tool
        ]
        app: ASGIApp = run_route
        for cls, args, kwargs in reversed(order):
            app = cls(app, *args, **kwargs)
        guarded = [GuardedRoute(route, app) for route in routes]
        self._router = Router(guarded, redirect_slashes=False, default=app)

    def close(self) -> None:
        """Refuse new requests; those that were let in may finish."""
        self._calls.closing = True

    async def finished(self) -> None:
        """Return when no call is being served. Streams that stay open by design do not count."""
        await self._calls.finished()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._router(scope, receive, send)
        elif scope["type"] == "websocket":
            # No route takes WebSockets: they are closed before they are accepted.
            await receive()
            await WebSocketClose(1008)(scope, receive, send)


class GuardedRoute(BaseRoute):
    """A route as the router sees it: it leads to the first middleware, which finds the real route in the scope."""

    def __init__(self, route: Route, app: ASGIApp) -> None:
        self._route = route
        self._app = app

    def matches(self, scope: AsgiScope) -> tuple[Match, AsgiScope]:
        match, details = self._route.matches(scope)
        return match, details if match is Match.NONE else {**details, ROUTE_KEY: self._route}

    async def handle(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


async def run_route(scope: AsgiScope, receive: Receive, send: Send) -> None:
    """Behind all checks: the app of the route answers."""
    await scope[ROUTE_KEY].app(scope, receive, send)
