"""Messages to and from a kernel, and the channel that carries them."""

import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, cast

from cellwright.core.errors import NotFound, Unavailable
from cellwright.core.foreign_json import JsonBounds, parsed
from cellwright.jupyter.kernels.long_stream import pieces

OPEN_SECONDS = 75.0
"""The server lets a websocket wait up to 60 s for a kernel that is still starting."""
CONTENT_BOUNDS = JsonBounds(size=16 * 1024 * 1024, items=500_000, depth=200)
"""Of the content of a message. The code that runs in the kernel decides what is in it."""
MAX_MESSAGE_BYTES = 80 * 1024 * 1024
"""A longer message is not even received. That ends the connection, and with it the requests under way."""
ABOUT_BOUNDS = JsonBounds(size=1024 * 1024, items=10_000, depth=50)
"""Of the header and the parent header of a message."""

JsonObject = dict[str, Any]
Part = bytes | memoryview


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
    """The channel ended; messages under way may be lost."""


class TooLong(ChannelClosed):
    """The channel ended because of a message that is too long to be received."""


class NothingListens(Unavailable):
    """Nothing listens at the server's address: it has ended, or is being started again."""


class KernelGone(NotFound):
    """There is no such kernel on the server any more."""

    code = "KERNEL_GONE"
    meaning = "The kernel was shut down or never existed; its variables are gone. Running a cell starts a new one."


class KernelChannel(Protocol):
    """A two-way channel to one kernel. All channels of the protocol share it."""

    async def send(self, message: Message) -> None:
        """Hand the message over, or raise ChannelClosed."""
        ...

    async def receive(self) -> Message:
        """The next message of any channel, in order. Raises ChannelClosed at the end."""
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


def unpack(frame: bytes) -> Iterator[Message]:
    """The reverse of `pack`. Raises ValueError for a frame that is not a message."""
    count = int.from_bytes(frame[:8], "little")
    if not 6 <= count <= len(frame) // 8:  # noqa: PLR2004 - channel, header, parent, metadata, content, end
        raise ValueError("not a kernel message")
    offsets = [int.from_bytes(frame[8 * i : 8 * i + 8], "little") for i in range(1, count + 1)]
    view = memoryview(frame)
    channel, *parts = [view[start:end] for start, end in pairwise(offsets)]
    return messages_of(bytes(channel).decode(), parts[:4], parts[4:])


def messages_of(channel: str, parts: Sequence[Part], buffers: Sequence[Part] = ()) -> Iterator[Message]:
    """The message of four JSON parts; for a long stream, several messages with a piece each. Raises ValueError if it is no message.

    A message that is too large is replaced by one that says so. Each part is measured before it is copied.
    """
    header_part, parent_part, metadata_part, content_part = parts
    header, parent = _parsed(header_part, ABOUT_BOUNDS), _parsed(parent_part, ABOUT_BOUNDS)
    try:
        content, metadata = _parsed(content_part, CONTENT_BOUNDS), _parsed(metadata_part, CONTENT_BOUNDS)
    except _TooMuch as error:
        if channel != "iopub":
            raise
        kind = str(header.get("msg_type", ""))[:40]
        missing = "this output"
        with contextlib.suppress(ValueError):
            if kind == "stream":
                for name, text in pieces(content_part):
                    yield Message(channel, header, {"name": name, "text": text}, parent)
                    missing = "the rest of this output"
                return
        yield left_out(f"the kernel sent a {kind} that has {error}", header, parent, missing)
        return
    # Buffers belong to widgets, and we do not use them: long ones are left out.
    small_buffers = tuple(map(bytes, buffers)) if sum(map(len, buffers)) <= ABOUT_BOUNDS.size else ()
    yield Message(channel, header, content, parent, metadata, small_buffers)


class _TooMuch(ValueError):
    """The JSON exceeds its bounds."""


def _parsed(part: Part, bounds: JsonBounds) -> JsonObject:
    if len(part) > bounds.size:
        raise _TooMuch(f"{len(part):,} bytes; at most {bounds.size:,} are taken")
    data = bytes(part)
    if excess := bounds.excess(data):
        raise _TooMuch(excess)
    return cast("JsonObject", parsed(data))


def left_out(reason: str, header: JsonObject, parent: JsonObject, missing: str = "this output") -> Message:
    """A note among the outputs, in the place of one that was too large."""
    text = f"[cellwright: {reason}, so {missing} is missing here; write large data to a file and show a part of it]\n"
    return Message("iopub", {**header, "msg_type": "stream"}, {"name": "stderr", "text": text}, parent)
