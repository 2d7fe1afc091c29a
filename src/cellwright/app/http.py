"""Streamable HTTP: the routes, the gate in front of them, and a server that drains when it is asked to stop."""

import asyncio
import ipaddress
import json
import signal
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, cast
from urllib.parse import urlsplit

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from cellwright.app.files import private_folder
from cellwright.app.gate import OPEN, Gate, Limits, Route, Verifier, Visitors
from cellwright.app.jwt import JwtVerifier
from cellwright.app.log import log_event
from cellwright.app.metrics import Metrics
from cellwright.app.protocol.server import CellwrightServer
from cellwright.app.protocol.transport import HttpEndpoint
from cellwright.app.requests import App, AsgiScope, Receive, Send
from cellwright.app.settings import Settings
from cellwright.app.tokens import OneToken, TokenStore, serve_token
from cellwright.core.errors import ConfigError
from cellwright.core.types import Scope, Secret

MCP_PATH = "/mcp"
SHORTEST_TOKEN = 20
HEAD_SECONDS = 10.0
LISTEN_ON_SECONDS = 2.0
LISTEN_ON_BYTES = 16 * 1024 * 1024
MAX_CONNECTIONS = 1_024
METADATA_PATH = "/.well-known/oauth-protected-resource"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def credentials(settings: Settings) -> tuple[list[Verifier], Secret | None]:
    """Who may come in, and the token that was made because none was given (loopback only)."""
    private_folder(settings.state_dir)
    store = TokenStore(settings.state_dir)
    known = store.list()
    verifiers: list[Verifier] = [store]
    if settings.token:
        if len(settings.token.reveal()) < SHORTEST_TOKEN and not is_loopback(settings.host):
            raise ConfigError(
                f"the token has fewer than {SHORTEST_TOKEN} characters, which can be guessed over a network",
                hint="`cellwright token create NAME` makes a good one",
            )
        verifiers.append(OneToken(settings.token))
    if settings.jwt_issuer:
        verifiers.append(JwtVerifier(settings.jwt_issuer, settings.jwt_audience, settings.jwt_jwks))
    if settings.token or settings.jwt_issuer or (known and not is_loopback(settings.host)):
        return verifiers, None
    if not is_loopback(settings.host):
        raise ConfigError(
            f"listening on {settings.host} without a token would let everyone on the network in",
            hint="create one with `cellwright token create NAME`, or give --token, --token-file or --jwt-issuer",
        )
    made = serve_token(settings.state_dir)
    return [*verifiers, OneToken(made)], made


def listen(settings: Settings) -> socket.socket:
    """The bound socket: made first, so that port 0 is known before anything is printed."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named: only then does asyncio switch Nagle's algorithm off, which costs 40 ms an answer.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host.strip("[]"), settings.port))
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
            hint="give another with --port, or 0 for a free one",
        ) from error
    bound.listen(128)
    return bound


def make_gate(
    settings: Settings,
    port: int,
    endpoint: App,
    metrics: Metrics,
    verifiers: Sequence[Verifier],
    tool_scope: Callable[[str], Scope | None],
    page: Sequence[Route] = (),
    visitors: Visitors | None = None,
) -> Gate:
    """Every route of the program, each with what it needs. `page` are those of the page, `visitors` who look at it."""
    routes = [
        *page,
        Route(MCP_PATH, frozenset({"GET", "POST", "DELETE"}), Scope.READ, endpoint),
        Route("/health", frozenset({"GET"}), OPEN, _answer(lambda: ("application/json", '{"status":"ok"}'))),
        Route(
            "/metrics", frozenset({"GET"}), Scope.READ, _answer(lambda: ("text/plain; version=0.0.4", metrics.text()))
        ),
    ]
    metadata_url = ""
    if settings.jwt_issuer:
        public = urlsplit(settings.jwt_audience)
        metadata_url = f"{public.scheme}://{public.netloc}{METADATA_PATH}"
        document = json.dumps(
            {
                "resource": settings.jwt_audience,
                "authorization_servers": [settings.jwt_issuer],
                "scopes_supported": [scope.value for scope in Scope],
                "bearer_methods_supported": ["header"],
            }
        )
        told = _answer(lambda: ("application/json", document))
        routes += [Route(path, frozenset({"GET"}), OPEN, told) for path in (METADATA_PATH, METADATA_PATH + MCP_PATH)]
    loopback = {f"{name}:{port}" for name in LOOPBACK_NAMES} | ({*LOOPBACK_NAMES} if port == 80 else set[str]())  # noqa: PLR2004
    own = loopback if is_loopback(settings.host) else loopback | {f"{settings.host}:{port}"}
    return Gate(
        routes,
        verifiers,
        hosts=frozenset({*own, *(name.lower() for name in settings.allowed_hosts)}),
        origins=frozenset(settings.allowed_origins),
        limits=Limits(settings.max_body, settings.body_timeout, settings.rate, settings.burst, settings.max_in_flight),
        tool_scope=tool_scope,
        metadata_url=metadata_url,
        observe=metrics.answered,
        visitors=visitors,
    )


def _answer(make: Callable[[], tuple[str, str]]) -> App:
    async def app(_scope: AsgiScope, _receive: Receive, send: Send) -> None:
        kind, text = make()
        body = text.encode()
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


class _Transport:
    """uvicorn's transport, with two habits of our own.

    What is written in one turn of the loop leaves at once: uvicorn writes head and body apart, and each of them wakes the client.
    Who is refused while they still send is listened to for a moment: a connection that is closed before that loses the refusal.
    """

    def __init__(self, transport: asyncio.Transport, still_sends: Callable[[], bool]) -> None:
        self._transport = transport
        self._still_sends = still_sends
        self._written: list[bytes] = []
        self._left = LISTEN_ON_BYTES
        self.ending = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the transport has
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if data and not self._written:
            asyncio.get_running_loop().call_soon(self.send)
        if data:
            self._written.append(data)

    def send(self) -> None:
        if self._written and not self._transport.is_closing():
            self._transport.write(b"".join(self._written))
        self._written.clear()

    def is_closing(self) -> bool:
        return self.ending or self._transport.is_closing()

    def close(self) -> None:
        self.send()
        if self.is_closing() or not self._still_sends():
            self._transport.close()
            return
        self.ending = True
        self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(LISTEN_ON_SECONDS, self._transport.close)

    def heard(self, data: bytes) -> None:
        """More of what was refused."""
        self._left -= len(data)
        if self._left < 0:
            self._transport.close()


class _Protocol(H11Protocol):
    """uvicorn's HTTP that does not wait for ever for the head of a request: nobody needs a token to begin one."""

    _head_timer: asyncio.TimerHandle | None = None
    _ours: _Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._ours = _Transport(transport, self._still_sends)
        super().connection_made(cast("asyncio.Transport", self._ours))
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        if self._ours.ending:
            self._ours.heard(data)
            return
        before = self.cycle
        super().data_received(data)
        cycle = self._cycle
        if cycle is not before or (cycle is not None and not cycle.response_complete):
            self._stop_waiting()
        elif self._head_timer is None:
            self._wait_for_head()

    def eof_received(self) -> None:
        # Who has said all may still listen, and asyncio closes the connection after this.
        self._ours.send()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        return self.cycle  # uvicorn's own type forgets that there is none at first

    def _still_sends(self) -> bool:
        cycle = self._cycle
        return cycle is not None and cycle.response_complete and cycle.more_body

    def _wait_for_head(self) -> None:
        self._head_timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _DrainingServer(uvicorn.Server):
    """uvicorn that lets calls finish before it begins to stop: once it does, streamed answers are cut off."""

    def __init__(
        self, config: uvicorn.Config, drain: Callable[[], Coroutine[None, None, None]], early: Sequence[int]
    ) -> None:
        """`early` are the signals that came before this server could listen to them."""
        super().__init__(config)
        self._drain = drain
        self._early = early
        self._loop = asyncio.get_running_loop()
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._early:
            self.handle_exit(self._early[0], None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._draining is not None:
            super().handle_exit(sig, frame)
            return
        log_event("stopping", signal=signal.Signals(sig).name)
        self._loop.call_soon_threadsafe(self._begin, sig)

    def _begin(self, sig: int) -> None:
        if self._draining is None:
            self._draining = self._loop.create_task(self._drain(), name="drain")
            self._draining.add_done_callback(lambda _done: self.handle_exit(sig, None))


async def serve(
    settings: Settings,
    server: CellwrightServer,
    endpoint: HttpEndpoint,
    gate: Gate,
    bound: socket.socket,
    early: Sequence[int] = (),
    end_streams: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; then finish what is under way, at most `--drain` seconds.

    `end_streams` ends those that stay open by design and are not the protocol's.
    """
    config = uvicorn.Config(
        cast("App", gate),  # pyright: ignore[reportArgumentType] - uvicorn's own scope types are narrower names for the same dicts
        http=_Protocol,
        lifespan="off",
        proxy_headers=False,  # whoever connects is who they are, whatever they say in a header
        limit_concurrency=MAX_CONNECTIONS,
        ws="none",  # no route speaks WebSocket, so none is ever accepted
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,  # after our own draining, what is left is only waited for as long as it takes to cut it
        h11_max_incomplete_event_size=64 * 1024,
    )

    async def drain() -> None:
        gate.close()
        server.watching.end_listening()
        end_streams()
        with suppress(TimeoutError):
            async with asyncio.timeout(settings.drain):
                await gate.finished()

    async with endpoint.running():
        await _DrainingServer(config, drain, early).serve([bound])
