"""Checks that the route exists, that it takes the method, and that the caller has the scope that it declares."""

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from cellwright.app.http.refusal import Refusal, challenge
from cellwright.app.http.routes import route_of
from cellwright.core.types import PRINCIPAL_KEY, Principal, Scope


class Scopes:
    """Checks each request against what its route declares."""

    def __init__(self, app: ASGIApp, metadata_url: str) -> None:
        self._app = app
        self._metadata_url = metadata_url

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        route = route_of(scope)
        if route is None:
            raise Refusal(404, "no such path")
        if scope["method"] not in route.methods:
            raise Refusal(405, "this path does not take that method", {"allow": ", ".join(sorted(route.methods))})
        if isinstance(route.needs, Scope):
            check_scope(scope[PRINCIPAL_KEY], route.needs, self._metadata_url)
        await self._app(scope, receive, send)


def check_scope(principal: Principal, needed: Scope, metadata_url: str) -> None:
    """Refuse a caller without the scope, and tell its client how to ask for a token that has it."""
    if not principal.may(needed):
        raise Refusal(
            403,
            f"the token lacks the scope {needed.value}",
            challenge(metadata_url, 'error="insufficient_scope"', f'scope="{needed.value}"'),
            hint="`cellwright token create NAME --scopes …` makes one that has it",
        )
