"""How messages travel to and from a kernel: the shape of a message, and of a channel."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, cast

from cellwright.core.errors import NotFound

OPEN_SECONDS = 75.0
"""The server lets a websocket wait up to 60 s for a kernel that is still starting."""

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
