"""A kernel's channel over a websocket of a Jupyter server. Imported only when there is a server: the library takes a while."""

import asyncio
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode
from websockets.typing import Subprotocol

from cellwright.core.errors import CellwrightError, Unavailable
from cellwright.jupyter.errors import JupyterDenied, NobodyListens
from cellwright.jupyter.kernels.channel import (
    MAX_MESSAGE_BYTES,
    OPEN_SECONDS,
    ChannelClosed,
    KernelGone,
    Message,
    TooLong,
    pack,
    unpack,
)

KERNEL_SUBPROTOCOL = Subprotocol("v1.kernel.websocket.jupyter.org")
LOOPBACK_SECONDS = 10.0
HTTP_FORBIDDEN = (401, 403)
HTTP_NOT_FOUND = 404
LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Linux only.
TCP_QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)


def acknowledge_at_once(connected_socket: socket.socket | None) -> None:
    """Acknowledge what was received without delay. The server's socket has Nagle on, so a late acknowledgement costs 40 ms.

    The operating system clears the option again, so it is set after each receive.
    """
    if TCP_QUICKACK is not None and connected_socket is not None and connected_socket.fileno() >= 0:
        connected_socket.setsockopt(socket.IPPROTO_TCP, TCP_QUICKACK, 1)


class WebsocketChannel:
    """A kernel channel over one websocket of a Jupyter server."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._socket: socket.socket | None = connection.transport.get_extra_info("socket")
        self._unpacked: Iterator[Message] = iter(())

    async def send(self, message: Message) -> None:
        try:
            await self._connection.send(pack(message))
        except ConnectionClosed as error:
            raise ChannelClosed(str(error)) from error

    async def receive(self) -> Message:
        while True:
            if (message := next(self._unpacked, None)) is not None:
                return message
            try:
                frame = await self._connection.recv()
            except ConnectionClosed as error:
                raise _ending(error) from error
            acknowledge_at_once(self._socket)
            if isinstance(frame, bytes):
                self._unpacked = unpack(frame)

    async def close(self) -> None:
        await self._connection.close()


async def open_websocket(url: str, headers: Mapping[str, str]) -> WebsocketChannel:
    """Connect to `…/api/kernels/{id}/channels?session_id=…`. With the same session id, missed messages are replayed."""
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
            max_size=MAX_MESSAGE_BYTES,
            **options,
        )
    except InvalidStatus as error:
        raise _refusal(url, error.response.status_code) from error
    except (OSError, TimeoutError, InvalidHandshake) as error:
        unreachable = NobodyListens if isinstance(error, ConnectionRefusedError) else Unavailable
        raise unreachable(
            f"no connection to the kernel at {_without_query(url)}: {error}", hint="Check that Jupyter is still running"
        ) from error
    if connection.subprotocol != KERNEL_SUBPROTOCOL:
        await connection.close()
        raise Unavailable(
            f"the Jupyter server at {_without_query(url)} does not speak {KERNEL_SUBPROTOCOL}",
            hint="Update jupyter-server to 2.0 or newer",
        )
    return WebsocketChannel(connection)


def _ending(error: ConnectionClosed) -> ChannelClosed:
    # We end the connection ourselves at the head of a frame that is too long, before reading the rest of it.
    if error.sent is not None and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
        return TooLong(f"the kernel sent a message of more than {MAX_MESSAGE_BYTES:,} bytes")
    return ChannelClosed(str(error))


async def _loopback_socket(url: str) -> socket.socket | None:
    """A connected socket for servers on this machine, so that a proxy from the environment is never used."""
    address = urlsplit(url)
    if address.scheme != "ws" or address.hostname not in LOOPBACK:
        return None
    loop = asyncio.get_running_loop()
    targets = await loop.getaddrinfo(address.hostname, address.port or 80, type=socket.SOCK_STREAM)
    failure: OSError | None = None
    for family, kind, protocol, _, target in targets:
        new_socket = socket.socket(family, kind, protocol)
        new_socket.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(new_socket, target), LOOPBACK_SECONDS)
        except OSError as error:
            new_socket.close()
            failure = error
        else:
            return new_socket
    raise NobodyListens(
        f"nothing answers at {_without_query(url)}: {failure}", hint="Check that Jupyter is still running"
    ) from failure


def _refusal(url: str, status: int) -> CellwrightError:
    address = _without_query(url)
    if status == HTTP_NOT_FOUND:
        return KernelGone(f"no kernel at {address}", hint="It was shut down; run a cell again to start a new one")
    if status in HTTP_FORBIDDEN:
        return JupyterDenied(
            f"Jupyter refused the connection to {address} ({status})",
            hint="Check the token or password; a proxy must let websockets pass, with what --jupyter-headers gives",
        )
    return Unavailable(
        f"Jupyter answered {status} to the kernel connection at {address}",
        hint="try again; if it stays, Jupyter's log says why",
    )


def _without_query(url: str) -> str:
    """The address without its query, which may have a token in it."""
    return url.partition("?")[0]
