"""The one door for HTTP: who may come in, with what, how often. Pure ASGI, so it sees `http` and `websocket` alike.

In this order: Host, Origin, token, route, scope, rate, content type, size and pace of the body, scope of the tool. Only what passes all of
it reaches the app behind, with its principal in the scope. A route without a declared scope cannot be written down.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from cellwright.app.log import log_event
from cellwright.app.requests import (
    EXPOSED_HEADERS,
    TWICE,
    App,
    AsgiScope,
    Message,
    Receive,
    Refusal,
    Send,
    answer_preflight,
    answer_refused,
    called_tool,
    check_kind,
    has_port,
    headers_of,
    is_stream,
    replayed,
    without_credentials,
)
from cellwright.core.types import Principal, Scope

PRINCIPAL_KEY = "cellwright.principal"
"""Where the app behind finds who calls."""
RECHECK_KEY = "cellwright.recheck"
"""Where it finds a function that says who the caller's token is at any later time: None once it is not valid any more."""
VISIT_KEY = "cellwright.visit"
"""Where it finds the name of the visit that the caller's cookie stands for; empty without one."""
PAGE_HEADER = "x-cellwright"
OPEN = "open"
WRONG_TOKENS_A_SECOND = 1.0
WRONG_TOKENS_AT_ONCE = 20
MAX_BUCKETS = 10_000


class Verifier(Protocol):
    """Knows one kind of bearer token."""

    def verify(self, token: str) -> Principal | None: ...


class Visitors(Protocol):
    """Knows the cookies of people who look at the page."""

    def find(self, cookies: str) -> tuple[str, Principal] | None:
        """The visit that a Cookie header names, and who it is now."""
        ...


@dataclass(frozen=True)
class Route:
    """A path, what it answers to, and who may use it: a scope, or OPEN, said out loud."""

    path: str
    methods: frozenset[str]
    needs: Scope | str
    app: App
    visits: bool = False
    """Whether a person's cookie lets in as well as a token; said of the page's own routes only."""

    def __post_init__(self) -> None:
        if not isinstance(self.needs, Scope) and self.needs != OPEN:
            raise ValueError(f"route {self.path} declares neither a scope nor OPEN")


@dataclass(frozen=True)
class Caller:
    """Who came in; with a cookie, by which visit."""

    principal: Principal
    visit: str = ""


@dataclass(frozen=True)
class Limits:
    """How much one caller may send."""

    max_body: int
    body_timeout: float
    rate: float
    burst: int
    max_in_flight: int


class Buckets:
    """Token buckets by key: `rate` a second, `burst` at once. Rate 0 means no limit."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> bool:
        """Whether one more is allowed now."""
        if not self._rate:
            return True
        now = self._clock()
        level, since = self._levels.pop(key, (float(self._burst), now))
        level = min(self._burst, level + (now - since) * self._rate)
        # Re-inserted at the end, so the first keys are the longest unused and the first to be forgotten.
        self._levels[key] = (level - 1 if level >= 1 else level, now)
        if len(self._levels) > MAX_BUCKETS:
            del self._levels[next(iter(self._levels))]
        return level >= 1


class Gate:
    """Lets requests in to the routes behind it, or says why not."""

    def __init__(
        self,
        routes: Sequence[Route],
        verifiers: Sequence[Verifier],
        *,
        hosts: frozenset[str],
        origins: frozenset[str],
        limits: Limits,
        tool_scope: Callable[[str], Scope | None],
        metadata_url: str = "",
        observe: Callable[[int], None] = lambda _status: None,
        visitors: Visitors | None = None,
    ) -> None:
        self._visitors = visitors
        self._routes = {route.path: route for route in routes}
        self._verifiers = tuple(verifiers)
        self._hosts = hosts
        self._origins = origins
        self._limits = limits
        self._tool_scope = tool_scope
        self._metadata_url = metadata_url
        self._observe = observe
        self._rates = Buckets(limits.rate, limits.burst)
        self._wrong = Buckets(WRONG_TOKENS_A_SECOND, WRONG_TOKENS_AT_ONCE)
        self._in_flight: dict[str, int] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False

    def close(self) -> None:
        """Let nobody else in; those who are in may finish."""
        self._closing = True

    async def finished(self) -> None:
        """Return when no call is being served. Streams that stay open by design do not count."""
        await self._idle.wait()

    @property
    def routes(self) -> tuple[Route, ...]:
        return tuple(self._routes.values())

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # There is no route for these: closed before they are accepted, whoever asks.
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            return
        headers = headers_of(scope)
        try:
            await self._enter(scope, headers, receive, send)
        except Refusal as refusal:
            path = str(scope["path"])
            log_event("refused", status=refusal.status, reason=refusal.reason, method=scope["method"], path=path)
            self._observe(refusal.status)
            await answer_refused(send, refusal, self._cors(headers))

    async def _enter(self, scope: AsgiScope, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        self._check_host(headers)
        self._check_origin(scope, headers)
        if TWICE in headers:
            raise Refusal(400, f"the header {headers[TWICE]} is given twice")
        if self._closing:
            raise Refusal(503, "the server is stopping", {"retry-after": "5"})
        if scope["method"] == "OPTIONS" and headers.get("origin") in self._origins:
            await answer_preflight(send, headers["origin"])
            return
        route = self._routes.get(str(scope["path"]).rstrip("/") or "/")
        if route is not None and route.needs == OPEN:
            self._check_method(route, scope)
            await route.app(scope, receive, self._watched(send, headers))
            return
        caller = self._authenticate(scope, headers, route)
        if route is None:
            raise Refusal(404, "no such path")
        self._check_method(route, scope)
        self._check_scope(caller.principal, cast("Scope", route.needs))
        await self._admit(route, caller, scope, headers, receive, send)

    async def _admit(
        self,
        route: Route,
        caller: Caller,
        scope: AsgiScope,
        headers: Mapping[str, str],
        receive: Receive,
        send: Send,
    ) -> None:
        principal = caller.principal
        # Those who look must not slow down those who work, nor each other.
        source = str((scope.get("client") or ("",))[0])
        key = caller.visit or (f"{principal.id} from {source}" if route.visits else principal.id)
        if not self._rates.take(key):
            raise Refusal(429, "too many requests", {"retry-after": "1"})
        if is_stream(scope, headers):
            await self._pass(route, caller, scope, headers, receive, send)
            return
        under_way = self._in_flight.get(principal.id, 0)
        if under_way >= self._limits.max_in_flight:
            raise Refusal(429, "too many requests under way", {"retry-after": "1"})
        self._in_flight[principal.id] = under_way + 1
        self._idle.clear()
        try:
            await self._pass(route, caller, scope, headers, receive, send)
        finally:
            self._in_flight[principal.id] -= 1
            if not self._in_flight[principal.id]:
                del self._in_flight[principal.id]
            if not self._in_flight:
                self._idle.set()

    async def _pass(
        self,
        route: Route,
        caller: Caller,
        scope: AsgiScope,
        headers: Mapping[str, str],
        receive: Receive,
        send: Send,
    ) -> None:
        if scope["method"] == "POST":
            check_kind(headers)
            body = await self._body(headers, receive)
            self._check_tool(caller.principal, headers, body)
            receive = replayed(body, receive)
        guarded = self._watched(send, headers)
        if is_stream(scope, headers):
            guarded = self._while_valid(guarded, scope, headers, route)
        known = {
            PRINCIPAL_KEY: caller.principal,
            RECHECK_KEY: lambda: self._known(headers)[0],
            VISIT_KEY: caller.visit,
        }
        await route.app({**without_credentials(scope), **known}, receive, guarded)

    def _check_host(self, headers: Mapping[str, str]) -> None:
        host = headers.get("host", "").lower()
        name, _, port = host.rpartition(":")
        # An allowed host that is written without a port means every port of it.
        if host not in self._hosts and not (port.isdigit() and name in self._hosts and not has_port(name)):
            raise Refusal(421, "this Host is not served here; the operator can add it with --allowed-hosts")

    def _check_origin(self, scope: AsgiScope, headers: Mapping[str, str]) -> None:
        origin = headers.get("origin")
        host = headers.get("host", "").lower()
        if origin is not None and origin not in self._origins and origin not in {f"http://{host}", f"https://{host}"}:
            raise Refusal(403, "this Origin may not call; the operator can add it with --allowed-origins")
        if headers.get("sec-fetch-site") == "cross-site" and origin not in self._origins and scope["method"] != "GET":
            raise Refusal(403, "cross-site requests may not call")

    def _known(self, headers: Mapping[str, str]) -> tuple[Principal | None, bool]:
        """Who the token names, and whether there was one."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            return None, bool(token)
        # Every verifier is asked, so that the time taken says nothing about which one knew the token.
        known = [principal for verifier in self._verifiers if (principal := verifier.verify(token.strip()))]
        return (known[0] if known else None), True

    def _visit(self, headers: Mapping[str, str], route: Route | None) -> Caller | None:
        """Who the cookie stands for, where one is taken. It counts for nothing beside a token, right or wrong."""
        if self._visitors is None or route is None or not route.visits or "authorization" in headers:
            return None
        found = self._visitors.find(headers.get("cookie", ""))
        return Caller(found[1], found[0]) if found else None

    def _check_visit(self, scope: AsgiScope, headers: Mapping[str, str]) -> None:
        """A browser sends cookies by itself: what comes with one must come from our own page."""
        if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            raise Refusal(403, "this is for the page of this server, not for other sites")
        if scope["method"] == "GET":
            return
        host = headers.get("host", "").lower()
        if headers.get("origin") not in {f"http://{host}", f"https://{host}"} or headers.get(PAGE_HEADER) != "page":
            raise Refusal(403, "with a cookie this is for the page of this server only")

    def _authenticate(self, scope: AsgiScope, headers: Mapping[str, str], route: Route | None) -> Caller:
        visit = self._visit(headers, route)
        if visit is not None:
            self._check_visit(scope, headers)
            return visit
        principal, token = self._known(headers)
        if principal is not None:
            return Caller(principal)
        if token:
            source = str((scope.get("client") or ("",))[0])
            if not self._wrong.take(source):
                raise Refusal(429, "too many wrong tokens", {"retry-after": "1"})
        challenge = 'Bearer realm="cellwright"' + (', error="invalid_token"' if token else "")
        if self._metadata_url:
            challenge += f', resource_metadata="{self._metadata_url}"'
        raise Refusal(401, "a valid bearer token is needed", {"www-authenticate": challenge})

    def _check_method(self, route: Route, scope: AsgiScope) -> None:
        if scope["method"] not in route.methods:
            raise Refusal(405, "this path does not take that method", {"allow": ", ".join(sorted(route.methods))})

    def _check_scope(self, principal: Principal, needed: Scope) -> None:
        if not principal.may(needed):
            challenge = f'Bearer realm="cellwright", error="insufficient_scope", scope="{needed.value}"'
            if self._metadata_url:
                challenge += f', resource_metadata="{self._metadata_url}"'
            raise Refusal(403, f"the token lacks the scope {needed.value}", {"www-authenticate": challenge})

    def _check_tool(self, principal: Principal, headers: Mapping[str, str], body: bytes) -> None:
        """A call of a tool beyond the token's scope is refused here with its status; the server refuses it again by itself."""
        name = called_tool(headers, body)
        needed = self._tool_scope(name) if name is not None else None
        if needed is not None:
            self._check_scope(principal, needed)

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        announced = headers.get("content-length", "0")
        if not announced.isdigit() or int(announced) > self._limits.max_body:
            raise Refusal(413, f"the body is larger than {self._limits.max_body} bytes")
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the client left before its request was whole")
                    chunks.append(message.get("body", b""))
                    size += len(chunks[-1])
                    if size > self._limits.max_body:
                        raise Refusal(413, f"the body is larger than {self._limits.max_body} bytes")
                    if not message.get("more_body", False):
                        return b"".join(chunks)
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {self._limits.body_timeout:g} s") from None

    def _cors(self, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        origin = headers.get("origin")
        if origin not in self._origins:
            return []
        exposed = (b"access-control-expose-headers", EXPOSED_HEADERS.encode())
        return [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin"), exposed]

    def _while_valid(self, send: Send, scope: AsgiScope, headers: Mapping[str, str], route: Route) -> Send:
        """`send` for a stream that may stay open for hours: it ends when the token is revoked or runs out."""
        ended = False

        async def guarded(message: Message) -> None:
            nonlocal ended
            if ended:
                return
            if message["type"] == "http.response.body" and not self._still_in(headers, route):
                ended = True
                log_event("stream_ended", reason="the token is not valid any more", path=str(scope["path"]))
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return guarded

    def _still_in(self, headers: Mapping[str, str], route: Route) -> bool:
        return self._visit(headers, route) is not None or self._known(headers)[0] is not None

    def _watched(self, send: Send, headers: Mapping[str, str]) -> Send:
        """`send` that counts statuses and adds the headers every answer has."""
        extra = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"), *self._cors(headers)]

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._observe(message["status"])
                own = {name.lower() for name, _ in message.get("headers", ())}
                message["headers"] = [*message.get("headers", ()), *(pair for pair in extra if pair[0] not in own)]
            await send(message)

        return watched
