"""Finds out who calls: by a bearer token, or on the page's own routes by the cookie of a visit. Credentials are not passed on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from cellwright.app.http.heads import address_of, head_of, without_credentials
from cellwright.app.http.messages import is_stream
from cellwright.app.http.middleware.origins import is_own
from cellwright.app.http.refusal import Refusal, challenge
from cellwright.app.http.routes import OPEN, Route, route_of
from cellwright.app.http.turns import Buckets
from cellwright.app.log import log_event
from cellwright.core.types import PRINCIPAL_KEY, Principal

RECHECK_KEY = "cellwright.recheck"
"""Key of a function by which the app behind asks later who the caller's token is: None once it is not valid any more."""
VISIT_KEY = "cellwright.visit"
"""Key of the name of the visit that the caller's cookie stands for; empty without a cookie."""
LINE_KEY = "cellwright.line"
"""Key of the line that this request waits in."""
FULL_KEY = "cellwright.full"
"""In the scope's state when the server has as many connections as it can serve: then only OPEN routes answer."""
PAGE_HEADER = "x-cellwright"
HOW_TO_GET_ONE = (
    "`cellwright serve` prints one when it starts, `cellwright token create NAME` makes one; the client sends it in the header "
    "Authorization after the word Bearer"
)
WRONG_TOKENS_A_SECOND = 1.0
WRONG_TOKENS_AT_ONCE = 20


class Verifier(Protocol):
    """Checks one kind of bearer token."""

    def verify(self, token: str) -> Principal | None: ...


class Visitors(Protocol):
    """Checks the cookies of people who look at the page."""

    def find(self, cookies: str) -> tuple[str, Principal] | None:
        """The visit that a Cookie header names, and its principal now."""
        ...


@dataclass(frozen=True)
class Caller:
    """The principal who calls, and the visit if it came with a cookie."""

    principal: Principal
    visit: str = ""


class Callers:
    """Puts the principal into the scope, and takes the credentials out."""

    def __init__(
        self, app: ASGIApp, verifiers: Sequence[Verifier], visitors: Visitors | None, metadata_url: str
    ) -> None:
        self._app = app
        self._verifiers = tuple(verifiers)
        self._visitors = visitors
        self._metadata_url = metadata_url
        self._wrong_tokens = Buckets(WRONG_TOKENS_A_SECOND, WRONG_TOKENS_AT_ONCE)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        route = route_of(scope)
        inner_scope = without_credentials(scope)
        if route is not None and route.needs == OPEN:
            await self._app(inner_scope, receive, send)
            return
        if FULL_KEY in scope.get("state", ()):
            raise Refusal(
                503,
                "the server has as many connections as it can serve",
                {"retry-after": "5"},
                hint="close clients that are not used any more, or try again in a moment",
            )
        head = head_of(scope)
        caller = self._authenticate(scope, head, route)
        principal = caller.principal
        inner_scope[PRINCIPAL_KEY] = principal
        inner_scope[RECHECK_KEY] = lambda: self._principal_of_token(head)[0]
        inner_scope[VISIT_KEY] = caller.visit
        # People who look at the page must not slow down the agents, nor each other.
        is_page = route is not None and route.visits
        inner_scope[LINE_KEY] = caller.visit or (
            f"{principal.id} from {address_of(scope)}" if is_page else principal.id
        )
        # Whatever a GET says that it accepts, its response may be a stream.
        if scope["method"] == "GET" or is_stream(scope["method"], head):
            send = self._while_valid(send, str(scope["path"]), head, route)
        await self._app(inner_scope, receive, send)

    def _authenticate(self, scope: AsgiScope, head: Mapping[str, str], route: Route | None) -> Caller:
        visitor = self._visitor_of_cookie(head, route)
        if visitor is not None:
            _check_same_site(scope["method"], head)
            return visitor
        principal, has_token = self._principal_of_token(head)
        if principal is not None:
            return Caller(principal)
        if has_token and not self._wrong_tokens.take(address_of(scope)):
            reason = "too many wrong tokens from this address"
            raise Refusal(429, reason, {"retry-after": "1"}, hint="wait a second, then send the right one")
        headers = challenge(self._metadata_url, *(['error="invalid_token"'] if has_token else []))
        wrong = ": this one is unknown, revoked or out of date" if has_token else ""
        raise Refusal(401, f"a valid bearer token is needed{wrong}", headers, hint=HOW_TO_GET_ONE)

    def _principal_of_token(self, head: Mapping[str, str]) -> tuple[Principal | None, bool]:
        """The principal that the bearer token names, and whether there was a token at all."""
        kind, _, token = head.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            return None, bool(token)
        # Every verifier is asked, so that the time does not tell which one knew the token.
        principals = [principal for verifier in self._verifiers if (principal := verifier.verify(token.strip()))]
        return (principals[0] if principals else None), True

    def _visitor_of_cookie(self, head: Mapping[str, str], route: Route | None) -> Caller | None:
        """The caller that the cookie stands for, on routes that take one. It does not count beside a token, right or wrong."""
        if self._visitors is None or route is None or not route.visits or "authorization" in head:
            return None
        visit = self._visitors.find(head.get("cookie", ""))
        return Caller(visit[1], visit[0]) if visit else None

    def _while_valid(self, send: Send, path: str, head: Mapping[str, str], route: Route | None) -> Send:
        """`send` for a stream that may stay open for hours: it ends the stream when the token is revoked or expires."""
        ended = False

        async def send_while_valid(message: Message) -> None:
            nonlocal ended
            if ended:
                return
            is_body = message["type"] == "http.response.body"
            if is_body and self._visitor_of_cookie(head, route) is None and self._principal_of_token(head)[0] is None:
                ended = True
                log_event("stream_ended", reason="the token is not valid any more", path=path)
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return send_while_valid


def _check_same_site(method: str, head: Mapping[str, str]) -> None:
    """A browser sends cookies by itself, so a request with one must come from our own page."""
    if head.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        raise Refusal(403, "this is for the page of this server, not for other sites")
    if method != "GET" and not (is_own(head.get("origin"), head) and head.get(PAGE_HEADER) == "page"):
        raise Refusal(403, "with a cookie this is for the page of this server only")
