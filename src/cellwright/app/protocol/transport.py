"""The transports of the server: an ASGI app behind the gate, and a pair of pipes."""

import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TextIO, cast

import anyio
from mcp import types as wire
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from cellwright.app.http.messages import MODERN, excess_of
from cellwright.app.http.receiving import replayed
from cellwright.app.http.refusal import REFUSED
from cellwright.app.log import log_event
from cellwright.app.protocol.server import CellwrightServer
from cellwright.core.types import PRINCIPAL_KEY, Principal

LARGE_LINE = 64 * 1024
"""A longer line is measured in a thread, so that others are answered meanwhile."""
_WORD = r'"(?:jsonrpc|method)"\s*+:\s*+"[^"\\]{0,200}"'
_ID = r'"id"\s*+:\s*+(?:(?P<number>-?[0-9]{1,15})|"(?P<text>[^"\\]{0,200})")'
_ID_FIRST = re.compile(rf"\s*+\{{\s*+(?:{_WORD}\s*+,\s*+)*+{_ID}\s*+[,}}]")
_ID_LAST = re.compile(rf",\s*+{_ID}\s*+(?:,\s*+{_WORD}\s*+)?\}}\s*+$")
NOTIFICATION = "notifications/"
"""The prefix of the methods of messages that want no answer."""
NO_MESSAGE = (
    "this line is no message of JSON-RPC 2.0: one object with `method` and, if it asks for an answer, an `id` that is text "
    "or a whole number"
)
_ENDS = 600
"""The id is searched in so many characters at either end of a line."""


class HttpEndpoint:
    """The server as an ASGI app, for requests that passed the gate with their principal and their whole body."""

    def __init__(self, server: CellwrightServer, is_long: Callable[[str, bytes], bool], max_body: int) -> None:
        """`is_long` decides by a tool's name and a request's body whether a call may take long."""
        self._is_long = is_long
        self._streaming = _manager(server, max_body, json_response=False)
        # Most requests are answered at once and report nothing before. A task and a stream for each, and a watch for clients that
        # leave, would be a sixth of their cost.
        self._plain = _manager(server.without_lifespan(), max_body, json_response=True)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with self._streaming.run(), self._plain.run():
            yield

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        principal = cast("Principal", scope[PRINCIPAL_KEY])
        # The SDK binds each handshake-era session to this user; another principal that names the session gets 404.
        access = AccessToken(token="", client_id="cellwright", subject=principal.id, scopes=[])
        authenticated_scope = {**scope, "user": AuthenticatedUser(access)}
        headers = dict(scope["headers"])
        if headers.get(b"mcp-protocol-version") != MODERN.encode():
            try:
                await self._streaming.handle_request(authenticated_scope, receive, send)
            except anyio.ClosedResourceError:
                # The client ended its session while its last message was taken. The message is answered by then.
                log_event("session_ended_meanwhile", principal=principal.id)
            return
        body = (await receive()).get("body", b"")
        manager = self._plain if self._is_brief(headers, body) else self._streaming
        await manager.handle_request(authenticated_scope, replayed(body, receive), send)

    def _is_brief(self, headers: Mapping[bytes, bytes], body: bytes) -> bool:
        """Whether the request is answered at once, judged without parsing it. In this era its headers must agree with its body."""
        if b"progressToken" in body:
            # The caller wants progress reports.
            return False
        name = headers.get(b"mcp-name", b"").decode("latin-1")
        return headers.get(b"mcp-method") != b"tools/call" or not self._is_long(name, body)


def _manager(server: CellwrightServer, max_body: int, *, json_response: bool) -> StreamableHTTPSessionManager:
    return StreamableHTTPSessionManager(
        app=server,
        json_response=json_response,
        # Host and Origin are the gate's work, by the operator's settings.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=max_body,
    )


async def serve_stdio(server: CellwrightServer, stdin: TextIO, stdout: TextIO, max_line: int) -> None:
    """Serve one client on these pipes until it closes them. A message of more than `max_line` bytes is refused."""
    accepted, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    lines = _Lines(stdin, max_line)
    # The SDK only iterates over the lines of the file.
    allowed_lines = cast("anyio.AsyncFile[str]", lines.allowed())
    async with (
        stdio_server(allowed_lines, anyio.wrap_file(stdout)) as (incoming, outgoing),
        anyio.create_task_group() as group,
    ):

        async def accept_messages() -> None:
            async with accepted:
                async for item in incoming:
                    if await lines.is_message(item):
                        await accepted.send(item)

        async def send_refusals() -> None:
            async for message in lines.refusals:
                await outgoing.send(message)

        group.start_soon(send_refusals)
        group.start_soon(accept_messages)
        await server.run(messages, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


class _Lines:
    """The lines that a client sends on a pipe. A line that is no message is answered here, as its sender may wait for an answer."""

    def __init__(self, stdin: TextIO, max_line: int) -> None:
        self._stdin = stdin
        self._max_line = max_line
        self._passed_on: deque[str] = deque()
        """Lines that the SDK has got, and of each of which it makes one message or one exception."""
        self._refused, self.refusals = anyio.create_memory_object_stream[SessionMessage](0)

    async def allowed(self) -> AsyncGenerator[str]:
        """The lines that may be parsed; the others are refused."""
        while line := await self._next():
            body = line.encode("utf-8", "surrogatepass")
            if len(body) > self._max_line:
                excess = f"more than {self._max_line:,} bytes; send it in parts, or raise --max-body"
            else:
                excess = excess_of(body) if len(body) < LARGE_LINE else await anyio.to_thread.run_sync(excess_of, body)
            if excess:
                await self._refuse(line, REFUSED, f"this message has {excess}")
            elif not line.isspace():
                self._passed_on.append(line)
                yield line

    async def _next(self) -> str:
        """The next line, empty at the end. Of a line that is too long, enough to see that it is and to find its id."""
        line = await anyio.to_thread.run_sync(self._stdin.readline, self._max_line + 1)
        last = line
        while len(last) > self._max_line and not last.endswith("\n"):
            last = await anyio.to_thread.run_sync(self._stdin.readline, self._max_line + 1)
            line = line[: self._max_line + 1] + last[-_ENDS:]
        return line

    async def is_message(self, item: SessionMessage | Exception) -> bool:
        """Whether what the SDK made of the next line is a message for the server."""
        line = self._passed_on.popleft()
        if isinstance(item, Exception):
            await self._refuse(line, *_fault_of(item))
            return False
        message = item.message
        if (
            isinstance(message, wire.JSONRPCNotification)
            and not message.method.startswith(NOTIFICATION)
            and '"id"' in line
        ):
            # A request with an invalid id: the SDK takes it for a notification, which gets no answer.
            await self._refuse(line, wire.INVALID_REQUEST, NO_MESSAGE)
            return False
        return True

    async def _refuse(self, line: str, code: int, reason: str) -> None:
        error = wire.ErrorData(code=code, message=f"{reason}; nothing was done")
        await self._refused.send(SessionMessage(wire.JSONRPCError(jsonrpc="2.0", id=_id_of(line), error=error)))


def _fault_of(error: Exception) -> tuple[int, str]:
    """The protocol's error code for a line that is no message, and the reason."""
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if fault["type"] == "json_invalid":
            return wire.PARSE_ERROR, f"this line is no JSON ({fault['msg'].removeprefix('Invalid JSON: ')})"
    return wire.INVALID_REQUEST, NO_MESSAGE


def _id_of(line: str) -> int | str | None:
    """The id of a request that is not parsed. Clients write it near the beginning or near the end."""
    match = _ID_FIRST.match(line[:_ENDS]) or _ID_LAST.search(line[-_ENDS:])
    if match is None:
        return None
    return match["text"] if match["number"] is None else int(match["number"])
