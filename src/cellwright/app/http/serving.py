"""Streamable HTTP: the routes, the gate in front of them, and a server that drains before it stops."""

import asyncio
import json
import signal
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import FrameType
from urllib.parse import urlsplit

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from cellwright.app.http.connection_protocol import ConnectionProtocol
from cellwright.app.http.connections import Connections
from cellwright.app.http.gate import Gate
from cellwright.app.http.jwt import JwtVerifier
from cellwright.app.http.metrics import Metrics
from cellwright.app.http.middleware.callers import Verifier, Visitors
from cellwright.app.http.routes import OPEN, Route
from cellwright.app.http.tokens import OneToken, TokenStore, serve_token
from cellwright.app.http.turns import is_loopback, limits_of
from cellwright.app.log import log_event
from cellwright.app.protocol.server import CellwrightServer
from cellwright.app.protocol.transport import HttpEndpoint
from cellwright.app.settings import Settings
from cellwright.core.errors import ConfigError
from cellwright.core.types import Scope, Secret
from cellwright.system import machine
from cellwright.system.files import private_folder

MCP_PATH = "/mcp"
SHORTEST_TOKEN = 20
KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep an unused connection: a request that they send while we close it would be lost."""
MAX_CONNECTIONS = 2_048
OWN_FILES = 512
"""File descriptors for anything but clients' connections: the database, Jupyter, kernels."""
METADATA_PATH = "/.well-known/oauth-protected-resource"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


def credentials(settings: Settings) -> tuple[list[Verifier], Secret | None]:
    """The verifiers of all tokens that are accepted, and the token that was generated if none was configured (loopback only)."""
    private_folder(settings.state_dir)
    store = TokenStore(settings.state_dir)
    stored_tokens = store.list()
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
    if settings.token or settings.jwt_issuer or (stored_tokens and not is_loopback(settings.host)):
        return verifiers, None
    if not is_loopback(settings.host):
        raise ConfigError(
            f"listening on {settings.host} without a token would let everyone on the network in",
            hint="create one with `cellwright token create NAME`, or give --token, --token-file or --jwt-issuer",
        )
    generated = serve_token(settings.state_dir)
    return [*verifiers, OneToken(generated)], generated


def listen(settings: Settings) -> socket.socket:
    """The bound socket. It is opened first, so that the port is known before anything is printed, even if it was given as 0."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named because only then does asyncio switch off Nagle's algorithm, which costs 40 ms per response.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    machine.prepare_listening(listener)
    try:
        listener.bind((settings.host.strip("[]"), settings.port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
            hint="give another with --port, or 0 for a free one",
        ) from error
    listener.listen(128)
    return listener


def make_gate(
    settings: Settings,
    port: int,
    endpoint: ASGIApp,
    metrics: Metrics,
    verifiers: Sequence[Verifier],
    tool_scope: Callable[[str], Scope | None],
    page_routes: Sequence[Route] = (),
    visitors: Visitors | None = None,
    max_connections: int = MAX_CONNECTIONS,
) -> Gate:
    """The gate with every route of the program, each with the scope that it needs.

    `visitors` are the people who look at the page.
    """
    get = frozenset({"GET"})

    async def health(_request: Request) -> Response:
        return Response('{"status":"ok"}', media_type="application/json")

    async def counters(_request: Request) -> Response:
        return Response(metrics.text(), headers={"content-type": "text/plain; version=0.0.4"})

    routes = [
        # First, because most requests are for it.
        Route(MCP_PATH, frozenset({"GET", "POST", "DELETE"}), Scope.READ, endpoint, protocol=True),
        Route("/health", get, OPEN, health),
        Route("/metrics", get, Scope.ADMIN, counters),
        *page_routes,
    ]
    metadata_url = ""
    if settings.jwt_issuer:
        public = urlsplit(settings.jwt_audience)
        metadata_url = f"{public.scheme}://{public.netloc}{METADATA_PATH}"
        metadata = _resource_metadata(settings)
        routes += [Route(path, get, OPEN, metadata) for path in (METADATA_PATH, METADATA_PATH + MCP_PATH)]
    loopback = {f"{name}:{port}" for name in LOOPBACK_NAMES} | ({*LOOPBACK_NAMES} if port == 80 else set[str]())  # noqa: PLR2004
    own_hosts = loopback if is_loopback(settings.host) else loopback | {f"{settings.host}:{port}"}
    return Gate(
        routes,
        verifiers,
        hosts=frozenset({*own_hosts, *(name.lower() for name in settings.allowed_hosts)}),
        origins=frozenset(settings.allowed_origins),
        limits=limits_of(settings, settings.host).within(max_connections),
        tool_scope=tool_scope,
        metadata_url=metadata_url,
        observe=metrics.answered,
        visitors=visitors,
    )


def _resource_metadata(settings: Settings) -> Callable[[Request], Coroutine[None, None, Response]]:
    document = json.dumps(
        {
            "resource": settings.jwt_audience,
            "authorization_servers": [settings.jwt_issuer],
            "scopes_supported": [scope.value for scope in Scope],
            "bearer_methods_supported": ["header"],
        }
    )

    async def metadata(_request: Request) -> Response:
        return Response(document, media_type="application/json")

    return metadata


class _DrainingServer(uvicorn.Server):
    """uvicorn that lets calls finish before it begins to stop, because stopping cuts off streamed responses."""

    def __init__(
        self, config: uvicorn.Config, drain: Callable[[], Coroutine[None, None, None]], early_signals: Sequence[int]
    ) -> None:
        """`early_signals` are those that arrived before this server could handle them."""
        super().__init__(config)
        self._drain = drain
        self._early_signals = early_signals
        self._loop = asyncio.get_running_loop()
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._early_signals:
            self.handle_exit(self._early_signals[0], None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._draining is not None:
            super().handle_exit(sig, frame)
            return
        log_event("stopping", signal=signal.Signals(sig).name)
        self._loop.call_soon_threadsafe(self._begin_draining, sig)

    def _begin_draining(self, sig: int) -> None:
        if self._draining is None:
            self._draining = self._loop.create_task(self._drain(), name="drain")
            self._draining.add_done_callback(lambda _task: self.handle_exit(sig, None))


def room_for_connections() -> int:
    """How many connections the system allows, after asking it to allow enough."""
    files = machine.room_for_files(MAX_CONNECTIONS + OWN_FILES)
    return min(MAX_CONNECTIONS, max(files - OWN_FILES, files // 2))


async def serve(
    settings: Settings,
    server: CellwrightServer,
    endpoint: HttpEndpoint,
    gate: Gate,
    listener: socket.socket,
    early_signals: Sequence[int] = (),
    end_streams: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; then finish the calls under way, for at most `--drain` seconds.

    `end_streams` ends the streams that stay open by design and are not part of the protocol.
    """
    ConnectionProtocol.all_connections = Connections(room_for_connections())
    config = uvicorn.Config(
        gate,  # pyright: ignore[reportArgumentType] - uvicorn's own scope types are narrower names for the same dicts
        http=ConnectionProtocol,
        lifespan="off",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        proxy_headers=False,  # an address in a header is not believed
        ws="none",  # no route speaks WebSocket
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,  # our own draining is over by then; this is the time to cut off the rest
    )

    async def drain() -> None:
        gate.close()
        server.watching.end_listening()
        end_streams()
        with suppress(TimeoutError):
            async with asyncio.timeout(settings.drain):
                await gate.finished()

    async with endpoint.running():
        await _DrainingServer(config, drain, early_signals).serve([listener])
