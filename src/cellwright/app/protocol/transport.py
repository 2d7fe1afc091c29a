"""The server behind the gate, and on a pair of pipes."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TextIO, cast

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from cellwright.app.gate import PRINCIPAL_KEY
from cellwright.app.protocol.server import CellwrightServer
from cellwright.app.requests import MODERN, AsgiScope, Receive, Send, replayed
from cellwright.core.types import Principal


class HttpEndpoint:
    """The server as an ASGI app, for requests that the gate has let in with their principal and the whole of their body."""

    def __init__(self, server: CellwrightServer, max_body: int) -> None:
        self._is_long = server.is_long
        self._streaming = _manager(server, max_body, json_response=False)
        # Most requests are answered in a moment, with nothing to say before: a task and a stream for each, and somebody to see
        # whether the client leaves, would be a sixth of their cost.
        self._plain = _manager(server.without_life(), max_body, json_response=True)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with self._streaming.run(), self._plain.run():
            yield

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        principal = cast("Principal", scope[PRINCIPAL_KEY])
        # The SDK binds each handshake-era session to this user: another principal that names the session gets 404.
        access = AccessToken(token="", client_id="cellwright", subject=principal.id, scopes=[])
        known = {**scope, "user": AuthenticatedUser(access)}
        if not self._is_brief(dict(scope["headers"])):
            await self._streaming.handle_request(known, receive, send)
            return
        body = (await receive()).get("body", b"")
        # With a progress token the caller wants to hear before the end.
        manager = self._streaming if b"progressToken" in body else self._plain
        await manager.handle_request(known, replayed(body, receive), send)

    def _is_brief(self, headers: Mapping[bytes, bytes]) -> bool:
        """As far as its headers tell. In this era they must say what the body says."""
        if headers.get(b"mcp-protocol-version") != MODERN.encode():
            return False
        return headers.get(b"mcp-method") != b"tools/call" or not self._is_long(
            headers.get(b"mcp-name", b"").decode("latin-1")
        )


def _manager(server: CellwrightServer, max_body: int, *, json_response: bool) -> StreamableHTTPSessionManager:
    return StreamableHTTPSessionManager(
        app=server,
        json_response=json_response,
        # Host and Origin are the gate's work, by the operator's settings.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=max_body,
    )


async def serve_stdio(server: CellwrightServer, stdin: TextIO, stdout: TextIO) -> None:
    """Serve one client on these pipes until it closes them."""
    async with stdio_server(anyio.wrap_file(stdin), anyio.wrap_file(stdout)) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
