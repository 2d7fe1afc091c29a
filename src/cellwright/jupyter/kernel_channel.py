"""How messages travel to and from a kernel: the shape of a message, a channel, and the channel over a websocket."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from cellwright.core.errors import CellwrightError, NotFound, Unavailable
from cellwright.jupyter.errors import JupyterDenied

KERNEL_SUBPROTOCOL = Subprotocol("v1.kernel.websocket.jupyter.org")
OPEN_SECONDS = 75.0
"""The server lets a websocket wait up to 60 s for a kernel that is still starting."""
LOOPBACK_SECONDS = 10.0
HTTP_FORBIDDEN = (401, 403)
HTTP_NOT_FOUND = 404
LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Linux only. The server's socket has Nagle on: with delayed acknowledgements every small reply would cost 40 ms.
TCP_QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the Jupyter protocol, without its signature."""

    channel: str
    header: JsonObject
    content: JsonObject
    parent: JsonObject = field(default_factory=dict[str, Any])
    metadata: JsonObject = field(default_factory=dict[str, Any])
    buffers: tuple[bytes, ...] = ()

    @property
    def type(self) -> str:
        return str(self.header.get("msg_type", ""))

    @property
    def id(self) -> str:
        return str(self.header.get("msg_id", ""))

    @property
    def parent_id(self) -> str:
        return str(self.parent.get("msg_id", ""))


class ChannelClosed(Exception):
    """The channel ended; what was sent meanwhile may be lost."""


class KernelGone(NotFound):
    """There is no such kernel on the server any more."""

    code = "KERNEL_GONE"
    meaning = "The kernel was shut down or never existed; its variables are gone. Running a cell starts a new one."


class KernelChannel(Protocol):
    """A duplex way to one kernel. All channels of the protocol share it."""

    async def send(self, message: Message) -> None:
        """Hand the message over, or raise ChannelClosed."""
        ...

    async def receive(self) -> Message:
        """The next message of any channel, in order, or ChannelClosed."""
        ...

    async def close(self) -> None: ...


OpenChannel = Callable[[], Awaitable[KernelChannel]]


def pack(message: Message) -> bytes:
    """The message as one binary frame of the v1 protocol: offsets, channel name, four JSON parts, buffers."""
    parts = [
        message.channel.encode(),
        *(json.dumps(part).encode() for part in (message.header, message.parent, message.metadata, message.content)),
        *message.buffers,
    ]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    words = (len(offsets), *offsets)
    return b"".join([*(word.to_bytes(8, "little") for word in words), *parts])


def unpack(frame: bytes) -> Message:
    """The reverse of `pack`. Raises ValueError for a frame that is not a message."""
    count = int.from_bytes(frame[:8], "little")
    if not 6 <= count <= len(frame) // 8:  # noqa: PLR2004 - channel, header, parent, metadata, content, end
        raise ValueError("not a kernel message")
    offsets = [int.from_bytes(frame[8 * i : 8 * i + 8], "little") for i in range(1, count + 1)]
    parts = [frame[start:end] for start, end in pairwise(offsets)]
    header, parent, metadata, content = (cast("JsonObject", json.loads(part)) for part in parts[1:5])
    return Message(parts[0].decode(), header, content, parent, metadata, tuple(parts[5:]))


class WebsocketChannel:
    """A kernel channel over one websocket of a Jupyter server."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._socket: socket.socket | None = connection.transport.get_extra_info("socket")

    async def send(self, message: Message) -> None:
        try:
            await self._connection.send(pack(message))
        except ConnectionClosed as error:
            raise ChannelClosed(str(error)) from error

    async def receive(self) -> Message:
        while True:
            try:
                frame = await self._connection.recv()
            except ConnectionClosed as error:
                raise ChannelClosed(str(error)) from error
            self._acknowledge_at_once()
            if isinstance(frame, bytes):
                return unpack(frame)

    async def close(self) -> None:
        await self._connection.close()

    def _acknowledge_at_once(self) -> None:
        # The kernel clears the option again, so it is set after each receive.
        if TCP_QUICKACK is not None and self._socket is not None and self._socket.fileno() >= 0:
            self._socket.setsockopt(socket.IPPROTO_TCP, TCP_QUICKACK, 1)


async def open_websocket(url: str, headers: Mapping[str, str]) -> WebsocketChannel:
    """Connect to `…/api/kernels/{id}/channels?session_id=…`. The same session id gets missed messages replayed."""
    own_socket = await _loopback_socket(url)
    options: dict[str, Any] = {"sock": own_socket} if own_socket else {}
    try:
        connection = await connect(
            url,
            additional_headers=headers,
            subprotocols=[KERNEL_SUBPROTOCOL],
            compression=None,
            open_timeout=OPEN_SECONDS,
            ping_timeout=60,
            close_timeout=5,
            max_size=None,
            **options,
        )
    except InvalidStatus as error:
        raise _refusal(url, error.response.status_code) from error
    except (OSError, TimeoutError, InvalidHandshake) as error:
        raise Unavailable(
            f"no connection to the kernel at {_without_query(url)}: {error}", hint="Check that Jupyter is still running"
        ) from error
    if connection.subprotocol != KERNEL_SUBPROTOCOL:
        await connection.close()
        raise Unavailable(
            f"the Jupyter server at {_without_query(url)} does not speak {KERNEL_SUBPROTOCOL}",
            hint="Update jupyter-server to 2.0 or newer",
        )
    return WebsocketChannel(connection)


async def _loopback_socket(url: str) -> socket.socket | None:
    """A connected socket for servers on this machine, so that a proxy from the environment is never asked."""
    address = urlsplit(url)
    if address.scheme != "ws" or address.hostname not in LOOPBACK:
        return None
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.hostname, address.port or 80, type=socket.SOCK_STREAM)
    failure: OSError | None = None
    for family, kind, protocol, _, target in found:
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(opened, target), LOOPBACK_SECONDS)
        except OSError as error:
            opened.close()
            failure = error
        else:
            return opened
    raise Unavailable(
        f"nothing answers at {_without_query(url)}: {failure}", hint="Check that Jupyter is still running"
    ) from failure


def _refusal(url: str, status: int) -> CellwrightError:
    where = _without_query(url)
    if status == HTTP_NOT_FOUND:
        return KernelGone(f"no kernel at {where}", hint="It was shut down; run a cell again to start a new one")
    if status in HTTP_FORBIDDEN:
        return JupyterDenied(f"Jupyter refused the connection to {where} ({status})", hint="Check the Jupyter token")
    return Unavailable(f"Jupyter answered {status} to the kernel connection at {where}")


def _without_query(url: str) -> str:
    """The address without what may hold a token."""
    return url.partition("?")[0]
