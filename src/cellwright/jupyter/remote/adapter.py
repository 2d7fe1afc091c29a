"""The remote adapter: any Jupyter server by its address, over HTTP and websockets."""

import asyncio
import socket
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Self
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from cellwright.core.errors import Unavailable
from cellwright.jupyter.documents.forks import RemoteForks
from cellwright.jupyter.documents.updates import MAX_MESSAGE_BYTES
from cellwright.jupyter.files import rules as filerules
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import RoomKind
from cellwright.jupyter.port import RoomAccess, RoomClosed
from cellwright.jupyter.remote.contents import Contents
from cellwright.jupyter.remote.kernel_websocket import acknowledge_at_once
from cellwright.jupyter.remote.kernels import RemoteKernels
from cellwright.jupyter.remote.rest import DENIED, METHOD_NOT_ALLOWED, NOT_FOUND, Rest
from cellwright.jupyter.server.address import JupyterAddress

OPEN_SECONDS = 15.0
CLOSE_SECONDS = 3.0
PING_SECONDS = 20.0
DOUBT_SECONDS = 1.0
NO_PAGES_SECONDS = 60.0
SILENT_SECONDS = 60.0
"""A server that loads a large notebook does not answer pings meanwhile."""


class Sharing(StrEnum):
    """How a server shares documents."""

    COLLABORATION = "jupyter-collaboration"
    DOCUMENTS = "jupyter-server-documents"
    NONE = "none"


class WebsocketRoomChannel:
    """A room's channel over a websocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._socket: socket.socket | None = connection.transport.get_extra_info("socket")
        acknowledge_at_once(self._socket)

    async def send(self, message: bytes) -> None:
        try:
            await self._connection.send(message)
        except ConnectionClosed as error:
            raise self._closed() from error

    async def receive(self) -> bytes:
        while True:
            try:
                message = await self._connection.recv()
            except ConnectionClosed as error:
                raise self._closed() from error
            acknowledge_at_once(self._socket)
            if isinstance(message, bytes):
                return message

    async def close(self) -> None:
        await self._connection.close()

    def _closed(self) -> RoomClosed:
        return RoomClosed(self._connection.close_code, self._connection.close_reason or "")


PAGES = {"lab": "lab/tree", "tree": "tree"}
"""The pages that a server may have, JupyterLab before the plain notebook, and the path under which each shows files."""


class RemoteDocuments(Contents):
    """Files of one server, and the rooms in which it shares them."""

    def __init__(self, rest: Rest) -> None:
        super().__init__(rest)
        self._sharing: Sharing | None = None
        self._probed = 0.0
        self._pages: str | None = None
        self._ask_for_pages_at = 0.0
        self._probing = asyncio.Lock()
        self._forks = RemoteForks(rest, self._has_collaboration, lambda fork: self._connect(fork, ""))

    @property
    def forks(self) -> RemoteForks:
        return self._forks

    async def _has_collaboration(self) -> bool:
        return await self.sharing() is Sharing.COLLABORATION

    @property
    def url(self) -> str:
        return self._rest.address.url

    async def pages(self) -> str | None:
        """The server's answer is kept if it has pages. Otherwise it is asked again after a while: a restart may bring pages."""
        if self._pages is None and time.monotonic() >= self._ask_for_pages_at:
            self._ask_for_pages_at = time.monotonic() + NO_PAGES_SECONDS
            for page, file_prefix in PAGES.items():
                if (await self._rest.probe("GET", page, "its pages")).is_success:
                    self._pages = f"{self.url}/{file_prefix}"
                    break
        return self._pages

    async def live(self, *, now: bool = False) -> bool:
        return await self.sharing(now=now) is not Sharing.NONE

    async def sharing(self, *, now: bool = False) -> Sharing:
        """How documents are shared. The answer is kept, unless it is that they are not: after a restart the server may share them."""
        async with self._probing:
            doubtful = self._sharing is Sharing.NONE and (now or time.monotonic() - self._probed > DOUBT_SECONDS)
            if self._sharing is None or doubtful:
                self._sharing = await self._probe()
                self._probed = time.monotonic()
            return self._sharing

    async def _probe(self) -> Sharing:
        answer = await self._rest.probe("GET", "api/collaboration/session/x", "collaboration")
        if answer.status == METHOD_NOT_ALLOWED:
            return Sharing.NONE if await self._lab_ignores_it() else Sharing.COLLABORATION
        # File ids alone do not mean that documents are shared: that takes rooms as well.
        room = await self._rest.probe("GET", "api/collaboration/room/x", "collaboration")
        if room.status == NOT_FOUND:
            return Sharing.NONE
        indexed = await self._rest.probe("POST", "api/fileid/index", "file ids")
        return Sharing.NONE if indexed.status == NOT_FOUND else Sharing.DOCUMENTS

    async def _lab_ignores_it(self) -> bool:
        """With `disable_rtc` there are rooms, but people's JupyterLab writes files without them."""
        page = await self._rest.probe("GET", "lab", "JupyterLab")
        return page.is_success and b'"disableRTC": true' in page.body

    async def join(self, path: DocPath, kind: RoomKind) -> RoomAccess:
        # Joining the room of a file that does not exist stops live updates in every room of the server.
        filerules.check_joinable(path, await self.stat(path), kind)
        if await self.sharing() is Sharing.DOCUMENTS:
            parameters = {"path": path.text}
            answer = await self._rest.request("POST", "api/fileid/index", f"file {path}", parameters=parameters)
            room = f"{kind.value}:{answer.json()['id']}"
            return RoomAccess(room, await self._connect(room, ""), answers_saves=False, echoes=False, name=path.text)
        about, api_path = f"file {path}", f"api/collaboration/session/{path.quoted}"
        answer = await self._rest.probe("PUT", api_path, about, body=kind.as_json())
        if answer.status in (NOT_FOUND, METHOD_NOT_ALLOWED):
            # The file exists, so it is the service that is missing: the server was restarted without it.
            self._sharing = None
            raise Unavailable(f"{self.url} no longer shares documents", hint="Try again: the file itself is used then")
        session = self._rest.accept(answer, about).json()
        room = f"{session['format']}:{session['type']}:{session['fileId']}"
        channel = await self._connect(room, f"?sessionId={quote(session['sessionId'], safe='')}")
        return RoomAccess(room, channel, name=path.text)

    async def _connect(self, room: str, query: str) -> WebsocketRoomChannel:
        address = self._rest.address
        try:
            connection = await connect(
                f"{address.websocket_url}/api/collaboration/room/{quote(room, safe=':')}{query}",
                additional_headers=await self._rest.websocket_headers(),
                max_size=MAX_MESSAGE_BYTES,
                compression=None if address.is_loopback else "deflate",
                proxy=None if address.is_loopback else True,
                open_timeout=OPEN_SECONDS,
                close_timeout=CLOSE_SECONDS,
                ping_interval=PING_SECONDS,
                ping_timeout=SILENT_SECONDS,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            if status in DENIED:
                raise self._rest.denied(status) from error
            raise Unavailable(f"{self.url} answered {status} when we joined room {room}", hint="Try again") from error
        except (OSError, TimeoutError, InvalidHandshake) as error:
            raise Unavailable(f"no connection to {address.url} for room {room}: {error}", hint="Try again") from error
        return WebsocketRoomChannel(connection)


class RemoteJupyter:
    """A workspace on one Jupyter server, or with documents on one and kernels on another."""

    def __init__(self, documents: JupyterAddress, kernels: JupyterAddress | None = None) -> None:
        self._rests = [Rest(documents)]
        if kernels is not None and kernels != documents:
            self._rests.append(Rest(kernels))
        self._documents = RemoteDocuments(self._rests[0])
        self._kernels = RemoteKernels(self._rests[-1])

    @property
    def documents(self) -> RemoteDocuments:
        return self._documents

    @property
    def kernels(self) -> RemoteKernels:
        return self._kernels

    async def about(self) -> Mapping[str, object]:
        version = await self._rests[0].get("api", "version")
        status = await self._rests[-1].get("api/status", "status")
        return {
            "documents_url": self._documents.url,
            "kernels_url": self._kernels.url,
            "jupyter_server": version.get("version"),
            "sharing": (await self._documents.sharing()).value,
            "kernels": status.get("kernels"),
        }

    async def close(self) -> None:
        await self._documents.close()
        await asyncio.gather(*(rest.close() for rest in self._rests))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
