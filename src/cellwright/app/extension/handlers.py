"""The routes in Jupyter's web server. All but MCP itself is decided here, by Jupyter's rules and by stricter ones."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import ensure_async
from tornado.http1connection import HTTP1Connection
from tornado.web import HTTPError, stream_request_body

from cellwright.app.extension.admission import principal_of
from cellwright.app.extension.bridge import answer_by, scope_of
from cellwright.app.http.messages import CORS_HEADERS, CORS_METHODS, EXPOSED_HEADERS
from cellwright.app.http.refusal import refusal_json
from cellwright.core.errors import CellwrightError
from cellwright.core.types import Scope

if TYPE_CHECKING:
    from jupyter_server.auth.identity import User
    from starlette.types import ASGIApp

    from cellwright.app.extension.engine import ExtensionEngine

MCP_PATH = "/mcp"
UNKNOWN_CALLER = "a valid Jupyter token is needed; `jupyter server list` shows those of running servers"
BODY_SECONDS = 10.0
"""How long a client may take to send its body, whether or not Jupyter knows yet who it is."""
SMALL_BODY = 64 * 1024
LONGEST_LENGTH = 18
"""A Content-Length with more digits is not parsed."""
# Credentials, and what Jupyter has checked already, are not passed on.
NOT_PASSED_ON = frozenset({"authorization", "cookie", "host", "origin", "x-xsrftoken", "referer"})


class JsonHandler(JupyterHandler):
    """A route that always answers in JSON, never with a login page or an error page."""

    speaks_protocol = False
    """Whether this route speaks MCP: refusals are then sent as errors of the protocol."""

    def initialize(self, engine: "Callable[[], Awaitable[ExtensionEngine]]") -> None:
        self._load = engine
        self.gone = asyncio.Event()

    def write_error(self, status_code: int, **kwargs: Any) -> None:  # noqa: ANN401 - Tornado's own signature
        error = kwargs.get("exc_info", (None, None, None))[1]
        if self.allow_origin or self.allow_origin_pat:
            # Tornado has dropped these headers: a page that may call must be able to read why it was refused.
            self.set_cors_headers()
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        if status_code == 401:  # noqa: PLR2004
            self.set_header("WWW-Authenticate", 'Bearer realm="jupyter"')
        if status_code == 405:  # noqa: PLR2004
            self.set_header("Allow", ", ".join(self.SUPPORTED_METHODS))
        # Tornado stores the message as a format string.
        reason = error.log_message % error.args if isinstance(error, HTTPError) and error.log_message else self._reason
        as_protocol = self.speaks_protocol and self.request.method == "POST"
        self.finish(refusal_json(status_code, reason, {}, as_protocol=as_protocol))  # pyright: ignore[reportUnknownMemberType] - Tornado's dict has no parameters

    def compute_etag(self) -> None:
        return None

    def _request_summary(self) -> str:
        # For Tornado's log of refused requests. Without the query: a token in it is refused, but may be valid.
        return f"{self.request.method} {self.request.path} ({self.request.remote_ip})"


class HealthHandler(JsonHandler):
    """Says that this route is served. Open to everybody, because a probe has no token; it imports nothing."""

    SUPPORTED_METHODS = ("GET",)

    @allow_unauthenticated
    def get(self) -> None:
        self.set_header("Cache-Control", "no-store")
        self.finish({"status": "ok"})  # pyright: ignore[reportUnknownMemberType]


@stream_request_body
class EngineHandler(JsonHandler):
    """A route of the MCP server. It is streamed, so that a request is checked before its body is read."""

    def initialize(self, engine: "Callable[[], Awaitable[ExtensionEngine]]") -> None:
        super().initialize(engine)
        self._chunks: list[bytes] = []
        self._size = 0
        self._engine: ExtensionEngine | None = None
        self._refusal: HTTPError | None = None
        self._has_whole_body = False
        self._deadline: asyncio.TimerHandle | None = None
        self._left = False
        self._ended = False
        self.login_cookie: str | None = None
        self._unknown_reason = UNKNOWN_CALLER

    def write_error(self, status_code: int, **kwargs: Any) -> None:  # noqa: ANN401 - Tornado's own signature
        if not self._has_whole_body:
            # Tornado then closes the connection without saying so: the client would send its next request into it.
            self.set_header("Connection", "close")
        super().write_error(status_code, **kwargs)

    def get_login_url(self) -> str:
        raise HTTPError(401, self._unknown_reason)

    def check_xsrf_cookie(self) -> None:
        if not hasattr(self, "_jupyter_current_user"):
            return  # Tornado calls this before Jupyter knows the caller; Jupyter calls it again
        # Jupyter would check these first and answer 403 or 404 to somebody who only lacks a token.
        if self.current_user is None:
            raise HTTPError(401, self._unknown_reason)
        self._check_origin()
        super().check_xsrf_cookie()

    def turn_away(self) -> None:
        """Refuse a caller whom Jupyter does not know."""
        raise HTTPError(401, self._unknown_reason)

    def check_request(self) -> None:
        """Refuse a request that another site may have forged."""
        self.check_xsrf_cookie()

    def _check_origin(self) -> None:
        """Check callers with a token too: Jupyter accepts them from every page, which MCP forbids."""
        origin = self.request.headers.get("Origin")
        if not origin or self.allow_origin == "*":
            return
        is_own_page = urlsplit(origin.lower()).netloc == (self.request.headers.get("Host") or "").lower()
        allowed = origin == self.allow_origin or bool(
            self.allow_origin_pat and re.fullmatch(self.allow_origin_pat, origin)
        )
        if not is_own_page and not allowed:
            raise HTTPError(403, "this Origin may not call; the operator can add it with ServerApp.allow_origin")

    async def prepare(self, **_redirect: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.leave_query_token_out()
        try:
            await self._check_caller()
        except HTTPError as refusal:
            if self._announced_size() > SMALL_BODY:
                raise
            # Sent after the body has been read: a connection that is closed before that may lose the response.
            self._refusal = refusal
        # Begun only now, because the first request imports everything. We have our own timer because Tornado's costs every request
        # a task and three turns of the loop.
        if not self._finished:
            self._deadline = asyncio.get_running_loop().call_later(BODY_SECONDS, self._too_slow)

    def _too_slow(self) -> None:
        if isinstance(self.request.connection, HTTP1Connection):
            self.request.connection.close()

    async def _check_caller(self) -> None:
        await super().prepare()
        if self.request.method == "OPTIONS":
            self._check_origin()  # a browser sends this without a token, and it has no effect
            return
        if self.current_user is None and not self._finished:
            # With allow_unauthenticated_access Jupyter lets everybody through.
            self.turn_away()
        if self._finished:
            return
        if not self.identity_provider.auth_enabled:
            raise HTTPError(403, "this Jupyter server lets everybody in; cellwright wants a token or a password on it")
        self.check_request()
        self._engine = await self._load_engine()
        if self._announced_size() > self._engine.max_body:
            raise self._too_large(self._engine)
        # A server that is used only through MCP is not idle.
        self.settings["api_last_activity"] = datetime.now(UTC)

    def _too_large(self, engine: "ExtensionEngine") -> HTTPError:
        return HTTPError(
            413, f"the body is larger than {engine.max_body} bytes; send it in parts, or raise max_body in options"
        )

    def _announced_size(self) -> int:
        announced = self.request.headers.get("Content-Length", "0")
        is_number = announced.isascii() and announced.isdigit() and len(announced) <= LONGEST_LENGTH
        return int(announced) if is_number else sys.maxsize

    async def _load_engine(self) -> "ExtensionEngine":
        try:
            return await self._load()
        except CellwrightError as error:
            self.log.warning("cellwright cannot start: %s", error)
            raise HTTPError(503, str(error)) from error

    def data_received(self, chunk: bytes) -> None:
        self._size += len(chunk)
        # A body that is too large is refused after it was read; it need not be kept.
        if self._engine is not None and self._size <= self._engine.max_body:
            self._chunks.append(chunk)

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._end_deadline()
        self._left = True
        self.gone.set()

    def on_finish(self) -> None:
        super().on_finish()
        self._end_deadline()

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def take_request(self) -> None:
        """The whole request has arrived: raise the refusal, if there is one."""
        self._has_whole_body = True
        self._end_deadline()
        if self._refusal is not None:
            raise self._refusal

    async def pass_on(
        self, choose: "Callable[[ExtensionEngine], ASGIApp]", path: str = MCP_PATH, query: bytes = b""
    ) -> None:
        """Let the app that `choose` returns answer this request, as the caller whom Jupyter let in."""
        self.take_request()
        assert self._engine is not None
        if self._size > self._engine.max_body:
            raise self._too_large(self._engine)
        principal = await principal_of(self, cast("User", self.current_user))
        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in self.request.headers.get_all()
            if name.lower() not in NOT_PASSED_ON
        ]
        if not self.token_authenticated:
            self.login_cookie = self.get_cookie(self.identity_provider.get_cookie_name(self))
        with self._engine.admitted.ticket(principal) as ticket, self._engine.staying.watched(self):
            scope = scope_of(self, path, [*headers, *self._engine.way_in(ticket)], query)
            await answer_by(self, choose(self._engine), scope, b"".join(self._chunks), self.gone)
        if self._ended and not self._left:
            self.finish()  # pyright: ignore[reportUnknownMemberType]

    def end(self) -> None:
        self._ended = True
        self.gone.set()

    async def still_in(self) -> bool:
        """Whether the request would be let in if it came now. A new handler asks, because Jupyter stores its decision on the handler."""
        again = type(self)(self.application, self.request, engine=self._load)
        # The new handler has taken over the callback.
        connection = cast("HTTP1Connection", self.request.connection)
        connection.set_close_callback(self.on_connection_close)
        again.leave_query_token_out()
        user = await ensure_async(self.identity_provider.get_user(again))
        if user is None:
            return False
        again.current_user = user
        return (await principal_of(again, user)).may(Scope.READ)

    def leave_query_token_out(self) -> None:
        """Routes that accept a token in the address change nothing here."""


class ProgramHandler(EngineHandler):
    """A route for programs. They send their token in a header each time, because addresses are written to logs."""

    def leave_query_token_out(self) -> None:
        for arguments in (self.request.arguments, self.request.query_arguments):
            if arguments.pop("token", None):
                self._unknown_reason = (
                    "a token in the address is not taken here; send it as a header, Authorization: Bearer …"
                )

    def set_secure_cookie(self, *_name_and_value: object, **_options: object) -> None:
        """Set no cookie. Jupyter would answer every token with a login cookie, which would let a program in without its token."""

    def set_cors_headers(self) -> None:
        super().set_cors_headers()  # pyright: ignore[reportUnknownMemberType] - Jupyter's own is not typed
        self.set_header("Access-Control-Expose-Headers", EXPOSED_HEADERS)

    @allow_unauthenticated
    def options(self) -> None:
        """The CORS preflight. Jupyter's settings decide which origins may call."""
        self.take_request()
        self.set_header("Access-Control-Allow-Headers", CORS_HEADERS)
        self.set_header("Access-Control-Allow-Methods", CORS_METHODS)
        self.set_header("Access-Control-Max-Age", "600")
        self.set_status(204)
        self.finish()  # pyright: ignore[reportUnknownMemberType] - Tornado's dict has no parameters


class McpHandler(ProgramHandler):
    """The protocol, both eras."""

    SUPPORTED_METHODS = ("GET", "POST", "DELETE", "OPTIONS")
    speaks_protocol = True

    async def get(self) -> None:
        await self.pass_on(lambda engine: engine.protocol)

    post = delete = get


class ToolsListHandler(ProgramHandler):
    """The tools of this caller, for programs that do not speak MCP."""

    SUPPORTED_METHODS = ("GET", "OPTIONS")

    async def get(self) -> None:
        await self.pass_on(lambda engine: engine.tools_list)


class ToolsCallHandler(ProgramHandler):
    """One call of one tool, for programs that do not speak MCP."""

    SUPPORTED_METHODS = ("POST", "OPTIONS")

    async def post(self) -> None:
        await self.pass_on(lambda engine: engine.tools_call)


class PageHandler(EngineHandler):
    """The page and its requests. A person who is not logged in is redirected to Jupyter's login, for the page itself only."""

    SUPPORTED_METHODS = ("GET", "POST")

    def get_login_url(self) -> str:
        if self.path_args != ["/"]:
            raise HTTPError(401, UNKNOWN_CALLER)
        return str(self.settings["login_url"])

    def turn_away(self) -> None:
        if self.request.method != "GET":
            super().turn_away()
        # Always back to this page, whatever the query says.
        self.redirect(f"{self.get_login_url()}?{urlencode({'next': f'{self.base_url}cellwright/'})}")

    def check_xsrf_cookie(self) -> None:
        # Reading needs only the login; later checks redirect or refuse whoever is not logged in.
        if self.request.method == "POST":
            super().check_xsrf_cookie()

    def check_request(self) -> None:
        super().check_request()
        if self.request.method == "POST":
            return
        fetch_site = self.request.headers.get("Sec-Fetch-Site", "none")
        if fetch_site not in {"none", "same-origin"} and self.path_args != ["/"]:
            # Reading changes nothing, and no other site could read the response, but none has a reason to ask.
            raise HTTPError(403, "this is for the page of this server, not for other sites")

    async def get(self, path: str) -> None:
        if path == "/":
            _ = self.xsrf_token  # sets the cookie that the page's requests have to repeat
        # Jupyter accepts tokens in the query; they are not passed on.
        pairs = parse_qsl(self.request.query, keep_blank_values=True)
        query = urlencode([(name, value) for name, value in pairs if name != "token"])
        await self.pass_on(lambda engine: engine.protocol, path, query.encode())

    async def post(self, path: str) -> None:
        await self.pass_on(lambda engine: engine.protocol, path)


class PageFolderHandler(JsonHandler):
    """Redirects to the page with a slash at its end, which its relative addresses need."""

    SUPPORTED_METHODS = ("GET",)

    @allow_unauthenticated
    def get(self) -> None:
        self.redirect(f"{self.base_url}cellwright/")
