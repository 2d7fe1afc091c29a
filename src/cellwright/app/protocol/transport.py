"""The server behind the gate, and on a pair of pipes."""

from contextlib import AbstractAsyncContextManager
from typing import Any, TextIO, cast

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from cellwright.app.gate import PRINCIPAL_KEY
from cellwright.app.protocol.server import CellwrightServer
from cellwright.core.types import Principal


class HttpEndpoint:
    """The server as an ASGI app, for requests that the gate has let in with their principal."""

    def __init__(self, server: CellwrightServer, max_body: int) -> None:
        self._manager = StreamableHTTPSessionManager(
            app=server,
            # Host and Origin are the gate's work, by the operator's settings.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=max_body,
        )

    def running(self) -> AbstractAsyncContextManager[None]:
        return self._manager.run()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's own types are Any
        principal = cast("Principal", scope[PRINCIPAL_KEY])
        # The SDK binds each handshake-era session to this user: another principal that names the session gets 404.
        access = AccessToken(token="", client_id="cellwright", subject=principal.id, scopes=[])
        await self._manager.handle_request({**scope, "user": AuthenticatedUser(access)}, receive, send)


async def serve_stdio(server: CellwrightServer, stdin: TextIO, stdout: TextIO) -> None:
    """Serve one client on these pipes until it closes them."""
    async with stdio_server(anyio.wrap_file(stdin), anyio.wrap_file(stdout)) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
