"""The least that talks to a kernel, and the least that takes part in a shared document."""

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import quote

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from pycrdt import (
    Array,
    Doc,
    Map,
    Text,
    TransactionEvent,
    YMessageType,
    YSyncMessageType,
    create_sync_message,  # pyright: ignore[reportUnknownVariableType] - its Doc has no parameter
    create_update_message,
    handle_sync_message,  # pyright: ignore[reportUnknownVariableType]
)
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from wire import BenchError
from workspace import Workspace

KERNEL_SECONDS = 30.0
ROOM_SECONDS = 60.0
REMOTE = "remote"
QUICK_ACKNOWLEDGEMENT: int | None = getattr(socket, "TCP_QUICKACK", None)
"""Jupyter sends nothing more while a message is unacknowledged, which the system puts off for 40 ms: no floor may wait for that."""


class RawKernel:
    """ZMQ sockets of a kernel that runs already, used without any loop or thread of our own."""

    def __init__(self, connection_file: Path) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._client: Any = BlockingKernelClient(context=self._context)
        self._client.load_connection_file(str(connection_file))
        self._shell: zmq.Socket[bytes] = self._client.connect_shell()
        self._iopub: zmq.Socket[bytes] = self._client.connect_iopub()
        for one in (self._shell, self._iopub):
            one.setsockopt(zmq.RCVTIMEO, int(KERNEL_SECONDS * 1000))
        self._subscribe()

    def _subscribe(self) -> None:
        """Ask until output comes: a subscription takes a moment, and what is published before that is lost."""
        end = time.monotonic() + KERNEL_SECONDS
        while not self._iopub.poll(100):
            if time.monotonic() > end:
                raise BenchError("the kernel publishes nothing")
            self._client.session.send(self._shell, "kernel_info_request", {})
            self._receive(self._shell)
        while self._iopub.poll(200):
            self._receive(self._iopub)

    def _receive(self, channel: "zmq.Socket[bytes]") -> dict[str, Any]:
        try:
            return self._client.session.recv(channel, mode=0)[1]
        except zmq.Again as error:
            raise BenchError("the kernel does not answer") from error

    def run(self, code: str) -> None:
        """Run code; return when both its answer and the end of its output have come."""
        content: dict[str, Any] = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
        }
        asked = self._client.session.send(self._shell, "execute_request", content)["header"]["msg_id"]
        while self._receive(self._shell)["parent_header"].get("msg_id") != asked:
            pass
        while True:
            said = self._receive(self._iopub)
            idle = said["msg_type"] == "status" and said["content"]["execution_state"] == "idle"
            if idle and said["parent_header"].get("msg_id") == asked:
                return

    def close(self) -> None:
        self._context.destroy(linger=0)


class RawRoom:
    """A replica of a notebook on a websocket: what a person's browser is to Jupyter."""

    def __init__(self, at: Workspace, path: str, cells: Sequence[int]) -> None:
        """`cells` are those that will be edited or looked at: the document itself counts from its start to find one."""
        self._at, self._path, self._cells = at, path, cells
        self._doc: Doc[Any] = Doc(client_id=random.getrandbits(32))
        self._answers: asyncio.Queue[None] = asyncio.Queue()
        self._seen: asyncio.Future[float] | None = None
        self._awaited = (0, "")
        self._mine: list[bytes] = []

    async def __aenter__(self) -> Self:
        kind = {"format": "json", "type": "notebook"}
        session = self._at.ask("PUT", f"api/collaboration/session/{quote(self._path)}", kind)
        room = f"{session['format']}:{session['type']}:{session['fileId']}?sessionId={session['sessionId']}"
        headers = {"Authorization": f"token {self._at.token}"}
        url = f"ws{self._at.url[4:]}/api/collaboration/room/{room}"
        self._wire: ClientConnection = await connect(
            url, additional_headers=headers, max_size=None, compression=None, proxy=None
        )
        self._socket: socket.socket = self._wire.transport.get_extra_info("socket")
        self._reader = asyncio.create_task(self._read())
        self._subscription = self._doc.observe(self._note_own)
        await self.flush()
        shared = self._doc.get("cells", type=Array[Map[Any]])
        self._texts: dict[int, Text] = {cell: shared[cell]["source"] for cell in self._cells}
        return self

    async def __aexit__(self, *_: object) -> None:
        self._doc.unobserve(self._subscription)
        await self._wire.close()
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader

    async def edit(self, cell: int, new: str) -> None:
        """Replace the last characters of the cell and send that."""
        text = self._texts[cell]
        with self._doc.transaction():
            del text[len(text) - len(new) :]
            text += new
        for update in self._mine:
            await self._wire.send(create_update_message(update))
        self._mine.clear()

    async def flush(self) -> None:
        """Return when the server has all that was sent: it answers in order."""
        await self._wire.send(create_sync_message(self._doc))
        await asyncio.wait_for(self._answers.get(), ROOM_SECONDS)

    async def seen_after(self, cell: int, text: str, act: Callable[[], Awaitable[object]]) -> float:
        """How many seconds after `act` was begun the cell here ends with `text`."""
        self._awaited = (cell, text)
        self._seen = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        acting = asyncio.ensure_future(act())
        try:
            return await asyncio.wait_for(self._seen, ROOM_SECONDS) - began
        finally:
            self._seen = None
            await acting

    def _note_own(self, event: TransactionEvent) -> None:
        if cast("Any", event).transaction.origin() != hash(REMOTE):
            self._mine.append(event.update)

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in self._wire:
                if QUICK_ACKNOWLEDGEMENT is not None:
                    self._socket.setsockopt(socket.IPPROTO_TCP, QUICK_ACKNOWLEDGEMENT, 1)
                assert isinstance(message, bytes)
                if message[0] == YMessageType.SYNC:
                    await self._take(message)

    async def _take(self, message: bytes) -> None:
        with self._doc.transaction(origin=REMOTE):
            reply = handle_sync_message(message[1:], self._doc)
        if reply is not None:
            await self._wire.send(reply)
        if message[1] == YSyncMessageType.SYNC_STEP2:
            self._answers.put_nowait(None)
        elif self._seen is not None and not self._seen.done():
            cell, awaited = self._awaited
            if str(self._texts[cell]).endswith(awaited):
                self._seen.set_result(time.perf_counter())
