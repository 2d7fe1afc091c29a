"""A room's channel in memory. The room sees a client like any other; we see the same channel as over a websocket."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

from pycrdt import Decoder, Encoder

from cellwright.jupyter.documents.room import LEAVE_SECONDS, RAW
from cellwright.jupyter.port import RoomClosed

GOING_AWAY = 1001

Save = Callable[[], Awaitable[str]]
Leave = Callable[[], Awaitable[None]]


class RoomClient:
    """The client that the room sees. The room iterates over its messages until an empty one comes."""

    def __init__(self, room_id: str) -> None:
        self.path = room_id
        self.from_us: asyncio.Queue[bytes] = asyncio.Queue()
        self.to_us: asyncio.Queue[bytes | RoomClosed] = asyncio.Queue()

    async def send(self, message: bytes) -> None:
        self.to_us.put_nowait(message)

    async def recv(self) -> bytes:
        return await self.from_us.get()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        message = await self.from_us.get()
        if not message:
            raise StopAsyncIteration
        return message

    async def hang_up(self, serving: asyncio.Task[Any]) -> None:
        """End our messages, and wait until the task that serves this client has ended."""
        self.from_us.put_nowait(b"")
        _, late = await asyncio.wait([serving], timeout=LEAVE_SECONDS)
        for task in late:
            task.cancel()


class MemoryRoomChannel:
    """Our end. It answers requests to save, as the server's websocket handler does; the room does not see them."""

    def __init__(self, client: RoomClient, save: Save, leave: Leave) -> None:
        self._client = client
        self._save = save
        self._leave = leave
        self._ended: RoomClosed | None = None
        self._left = False

    def end(self, code: int | None, reason: str) -> None:
        """The other side is gone. Its earlier messages can still be received."""
        if self._ended is None:
            self._ended = RoomClosed(code, reason)
            self._client.to_us.put_nowait(self._ended)

    async def send(self, message: bytes) -> None:
        if self._ended is not None:
            raise self._ended
        if message[0] == RAW:
            await self._answer(message)
        else:
            self._client.from_us.put_nowait(message)

    async def receive(self) -> bytes:
        message = await self._client.to_us.get()
        if isinstance(message, RoomClosed):
            self._client.to_us.put_nowait(message)
            raise message
        return message

    async def close(self) -> None:
        if not self._left:
            self._left = True
            self.end(GOING_AWAY, "")
            await self._leave()

    async def _answer(self, message: bytes) -> None:
        decoder = Decoder(message)
        decoder.read_var_uint()
        if decoder.read_var_string() != "save":
            return
        number = decoder.read_var_uint()
        answer = Encoder()
        answer.write_var_uint(RAW)
        answer.write_var_string(json.dumps({"type": "save", "responseTo": number, "status": await self._save()}))
        self._client.to_us.put_nowait(answer.to_bytes())


def refused_channel(code: int | None, reason: str) -> MemoryRoomChannel:
    """A channel that is closed from the beginning, as a websocket is when the room could not be opened."""

    async def save() -> str:
        return "failed"

    async def leave() -> None:
        return None

    channel = MemoryRoomChannel(RoomClient(""), save, leave)
    channel.end(code, reason)
    return channel
