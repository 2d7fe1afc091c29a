"""Host and Origin: a request must be meant for this server, and must come from a page that may call it.

Starlette's TrustedHostMiddleware answers 400 in plain text, knows no ports and may redirect; its CORSMiddleware lets every Origin in
and judges a preflight by the headers it asks for. A browser that was lured here must be refused by status, so both are our own.
"""

from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from cellwright.app.http.heads import HEAD_KEY, read_head
from cellwright.app.http.messages import EXPOSED_HEADERS
from cellwright.app.http.refusal import Refusal

ALLOW_ORIGIN = "access-control-allow-origin"


class HostAndOrigin:
    """Refuses other hosts and foreign pages, and lets allowed pages read the responses."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], origins: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        head, repeated = read_head(scope)
        scope[HEAD_KEY] = head
        origin = head.get("origin")
        cors_headers: dict[str, str] = {}
        if origin is not None and origin in self._origins:
            cors_headers = {ALLOW_ORIGIN: origin, "vary": "origin", "access-control-expose-headers": EXPOSED_HEADERS}
        try:
            self._check_host(head)
            self._check_origin(scope["method"], head)
            _check_not_repeated(repeated)
            await self._app(scope, receive, _with_headers(cors_headers, send) if cors_headers else send)
        except Refusal as refusal:
            refusal.headers.update(cors_headers)
            raise

    def _check_host(self, head: Mapping[str, str]) -> None:
        host = head.get("host", "").lower()
        name, _, port = host.rpartition(":")
        # An allowed host without a port stands for every port.
        if host not in self._hosts and not (port.isdigit() and name in self._hosts and not _has_port(name)):
            raise Refusal(421, "this Host is not served here", hint="the operator can add it with --allowed-hosts")

    def _check_origin(self, method: str, head: Mapping[str, str]) -> None:
        origin = head.get("origin")
        if origin is not None and origin not in self._origins and not is_own(origin, head):
            raise Refusal(403, "this Origin may not call", hint="the operator can add it with --allowed-origins")
        if head.get("sec-fetch-site") == "cross-site" and origin not in self._origins and method != "GET":
            raise Refusal(403, "cross-site requests may not call")


def _check_not_repeated(header: str) -> None:
    if header:
        raise Refusal(400, f"the header {header} is given twice")


def is_own(origin: str | None, head: Mapping[str, str]) -> bool:
    """Whether this is the origin of the page that this very server serves."""
    host = head.get("host", "").lower()
    return origin in {f"http://{host}", f"https://{host}"}


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]


def _with_headers(cors_headers: Mapping[str, str], send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            headers = MutableHeaders(scope=message)
            # The response to a preflight has all of these already.
            if ALLOW_ORIGIN not in headers:
                for name, value in cors_headers.items():
                    headers.setdefault(name, value)
        await send(message)

    return send_with_headers
