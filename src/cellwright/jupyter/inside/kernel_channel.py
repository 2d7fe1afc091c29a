"""A kernel's messages over its own sockets, for when we run inside the server of the kernel."""

import asyncio
import hmac
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from jupyter_core.utils import ensure_async

from cellwright.core.errors import Unavailable
from cellwright.jupyter.errors import JupyterDenied
from cellwright.jupyter.kernels.channel import OPEN_SECONDS, ChannelClosed, JsonObject, Message, messages_of

CHANNELS = ("iopub", "shell", "control")
"""Without stdin: the code that we run may not ask for input."""
ALIVE_EVERY = 0.1
SIGNED_PARTS = 5
"""Signature, header, parent, metadata, content; what follows are buffers."""


class SocketChannel:
    """A kernel channel over the sockets of the server's kernel manager."""

    def __init__(self, kernels: object, kernel_id: str, session_id: str) -> None:
        self._kernels: Any = kernels
        self._kernel: Any = self._kernels.get_kernel(kernel_id)
        self._id, self._session_id = kernel_id, session_id
        self._received: asyncio.Queue[Message | tuple[str, list[bytes]] | ChannelClosed] = asyncio.Queue()
        self._unpacked: Iterator[Message] = iter(())
        self._closed: ChannelClosed | None = None
        self._streams: dict[str, Any] = {name: getattr(self._kernel, f"connect_{name}")() for name in CHANNELS}
        for name, stream in self._streams.items():
            stream.on_recv(partial(self._queue_frames, name))
        # The server counts us among the users of the kernel, and does not end it as idle.
        self._kernels.notify_connect(kernel_id)
        self._watched = {"restart": partial(self._report, "restarting"), "dead": partial(self._report, "dead")}
        for event, callback in self._watched.items():
            self._kernel.add_restart_callback(callback, event)

    async def send(self, message: Message) -> None:
        if self._closed is not None:
            raise self._closed
        allowed: Sequence[str] = self._kernels.allowed_message_types
        if allowed and message.type not in allowed:
            raise JupyterDenied(
                f"Jupyter lets nobody send {message.type} to kernels", hint="See its setting allowed_message_types"
            )
        parts = (message.header, message.parent, message.metadata, message.content)
        packed = [*(json.dumps(part).encode() for part in parts), *message.buffers]
        self._kernel.session.send_raw(self._streams[message.channel], packed)

    async def receive(self) -> Message:
        while True:
            if (message := next(self._unpacked, None)) is not None:
                return message
            received = await self._received.get()
            if isinstance(received, ChannelClosed):
                self._received.put_nowait(received)
                raise received
            if isinstance(received, Message):
                return received
            self._unpacked = self._unpack(*received)

    async def close(self) -> None:
        if self._closed is not None:
            return
        self._closed = ChannelClosed("closed")
        self._received.put_nowait(self._closed)
        for event, callback in self._watched.items():
            self._kernel.remove_restart_callback(callback, event)
        self._kernels.notify_disconnect(self._id)
        for stream in self._streams.values():
            if not stream.closed():
                stream.on_recv(None)
                stream.close(linger=0)

    def _queue_frames(self, channel: str, frames: list[bytes]) -> None:
        self._received.put_nowait((channel, frames))

    def _unpack(self, channel: str, frames: list[bytes]) -> Iterator[Message]:
        """The messages in the frames. Raises ValueError if they are no messages of this kernel."""
        session = self._kernel.session
        _, parts = cast("tuple[Any, list[bytes]]", session.feed_identities(frames))
        if len(parts) < SIGNED_PARTS or not hmac.compare_digest(session.sign(parts[1:SIGNED_PARTS]), parts[0]):
            raise ValueError("not a message of this kernel")
        for message in messages_of(channel, parts[1:SIGNED_PARTS], tuple(parts[SIGNED_PARTS:])):
            hidden = channel == "iopub" and message.type == "error" and not self._kernels.allow_tracebacks
            yield replace(message, content=self._without_traceback(message.content)) if hidden else message

    def _without_traceback(self, content: JsonObject) -> JsonObject:
        """An error without its traceback, as the server sends it on websockets if its operator disallows tracebacks."""
        traceback = [str(self._kernels.traceback_replacement_message)]
        return {**content, "ename": "ExecutionError", "evalue": "Execution error", "traceback": traceback}

    def _report(self, state: str) -> None:
        """Report that the process ended, as the server's websockets do, after the kernel's last messages."""
        iopub = self._streams["iopub"]
        if not iopub.closed():
            iopub.flush()
        header = {"msg_type": "status", "msg_id": secrets.token_hex(16), "session": self._session_id}
        self._received.put_nowait(Message("iopub", header, {"execution_state": state}))


def start_of(kernel: object) -> asyncio.Future[None] | None:
    """The future of the start or restart that the kernel's manager is doing; None if the manager has none."""
    ready: Any = getattr(kernel, "ready", None)
    if ready is None or asyncio.isfuture(cast("object", ready)):
        return ready
    return asyncio.wrap_future(ready)


async def wait_until_alive(kernel: object, address: str) -> None:
    """Wait until the kernel's process runs, which may be a while after its start was requested."""
    manager: Any = kernel
    failed = Unavailable(
        f"Jupyter answered 500 to the kernel connection at {address}",
        hint="try again; if it stays, Jupyter's log says why",
    )
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            if (ready := start_of(manager)) is not None:
                await asyncio.shield(ready)
            while not await ensure_async(manager.is_alive()):  # noqa: ASYNC110 - a process tells nobody
                await asyncio.sleep(ALIVE_EVERY)
    except (OSError, RuntimeError, ValueError, LookupError) as error:
        raise failed from error
