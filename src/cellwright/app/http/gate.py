"""The one door for HTTP: who may come in, with what, how often. Pure ASGI: each concern is a middleware in a module of its own.

In this order: Host, Origin, token, route, scope, turn, content type, size and pace of the body, scope of the tool. Only what passes all of
it reaches the app behind, with its principal in the scope. Starlette's router finds the route first, as what is asked of a request hangs
on where it goes; that there is none is said in its turn. A middleware refuses by raising a Refusal, which the outermost answers.
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
    """Lets requests in to the routes behind it, or says why not."""

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
            Middleware(Refusals, observe),  # so that whoever says no further in is heard
            Middleware(HostAndOrigin, hosts, origins),  # Host, Origin
            Middleware(Draining, self._calls),
            Middleware(Preflights, origins),
            Middleware(Answers, observe),
            Middleware(Callers, verifiers, visitors, metadata_url),  # token
            Middleware(Scopes, metadata_url),  # route, scope
            Middleware(TurnTaking, limits),  # turn
            Middleware(Bodies, limits, tool_scope, metadata_url),  # content type, size and pace, scope of the tool
        ]
        way_in: ASGIApp = hand_over
        for make, args, kwargs in reversed(order):
            way_in = make(way_in, *args, **kwargs)
        guarded = [GuardedRoute(route, way_in) for route in routes]
        self._router = Router(guarded, redirect_slashes=False, default=way_in)

    def close(self) -> None:
        """Let nobody else in; those who are in may finish."""
        self._calls.closing = True

    async def finished(self) -> None:
        """Return when no call is being served. Streams that stay open by design do not count."""
        await self._calls.finished()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._router(scope, receive, send)
        elif scope["type"] == "websocket":
            # There is no route for these: closed before they are accepted, whoever asks.
            await receive()
            await WebSocketClose(1008)(scope, receive, send)


class GuardedRoute(BaseRoute):
    """A route as the router sees it: who asks for it comes to the gate, which finds it in the scope."""

    def __init__(self, route: Route, way_in: ASGIApp) -> None:
        self._route = route
        self._way_in = way_in

    def matches(self, scope: AsgiScope) -> tuple[Match, AsgiScope]:
        match, details = self._route.matches(scope)
        return match, details if match is Match.NONE else {**details, ROUTE_KEY: self._route}

    async def handle(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        await self._way_in(scope, receive, send)


async def hand_over(scope: AsgiScope, receive: Receive, send: Send) -> None:
    """Everything was asked: the app of the route answers."""
    await scope[ROUTE_KEY].app(scope, receive, send)
