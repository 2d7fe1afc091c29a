"""The port: what we need of a Jupyter server, in whichever way it is reached.

`Jupyter` is implemented by the remote adapter (HTTP and websockets, any server by its address) and by the local adapter (inside
Jupyter Server). Nothing that uses this port knows which one runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.kernels.channel import KernelChannel
from cellwright.jupyter.model import (
    FileContent,
    FileInfo,
    FileKind,
    FileListing,
    FoundFile,
    FoundFiles,
    KernelInfo,
    KernelSpec,
    RoomKind,
    SessionInfo,
)


class RoomClosed(Exception):
    """The channel of a room ended. Codes are those of websockets, and Jupyter's own from 4400 on."""

    def __init__(self, code: int | None, reason: str) -> None:
        super().__init__(f"{code} {reason}".strip())
        self.code, self.reason = code, reason


class RoomChannel(Protocol):
    """A two-way channel to one room: binary messages, in order, over a websocket or in memory."""

    async def send(self, message: bytes) -> None:
        """Hand the message over, or raise RoomClosed."""
        ...

    async def receive(self) -> bytes:
        """The next message. Raises RoomClosed at the end."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RoomAccess:
    """A channel into a room, and what its server can do."""

    id: str
    channel: RoomChannel
    answers_saves: bool = True
    """Whether the server answers a request to save; otherwise only its own autosave writes the file."""
    echoes: bool = True
    """Whether the server sends our own updates back: the sign that it still passes changes on to others."""
    name: str = ""
    """The path of the document, which messages say instead of the room's id."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A copy of a shared document, and which run of the server keeps it."""

    id: str
    server_run: str
    """If it differs, the server was restarted, and all its copies are gone."""


class Forks(Protocol):
    """Copies of shared documents, for changes that nobody should see yet. They are gone when the server ends."""

    async def offered(self) -> bool:
        """Whether this server has them."""
        ...

    async def make(self, room: str, *, title: str, description: str) -> Fork:
        """A copy of the document in this room, which must be open. It does not follow the document."""
        ...

    async def of(self, room: str) -> Mapping[str, str]:
        """The copies of a room's document: id and description."""
        ...

    async def join(self, fork: str, name: str) -> RoomAccess:
        """Join a copy. Check first that it exists: servers take an unknown id for a new, empty room."""
        ...

    async def end(self, fork: str) -> None:
        """Delete the copy, if it exists. Leave it first."""
        ...


class Documents(Protocol):
    """Files, and the rooms in which they are shared."""

    @property
    def forks(self) -> Forks: ...

    @property
    def url(self) -> str:
        """The base URL that people use in a browser, without a slash at its end."""
        ...

    async def pages(self) -> str | None:
        """The address at which browsers show files, without the file's path. None if this server has no pages."""
        ...

    async def live(self, *, now: bool = False) -> bool:
        """Whether documents are shared here: if so, an open document's file is never written directly.

        With `now` the server is asked again, because it may have been restarted since.
        """
        ...

    async def join(self, path: DocPath, kind: RoomKind) -> RoomAccess:
        """Join the document's room. Raises NotFound, before anything is opened, if there is no such file."""
        ...

    async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo: ...
    async def read(self, path: DocPath, kind: FileKind) -> FileContent: ...
    async def write(self, path: DocPath, kind: FileKind, content: object, *, expect: FileInfo | None) -> FileInfo:
        """Replace the file. With `expect`, raise Conflict if the file has changed since."""
        ...

    async def create(self, path: DocPath, kind: FileKind, content: object = None) -> FileInfo: ...
    async def rename(self, path: DocPath, new_path: DocPath) -> FileInfo: ...
    async def copy(self, path: DocPath, copy_path: DocPath) -> FileInfo: ...
    async def delete(self, path: DocPath) -> None: ...
    async def folder(self, folder: DocPath | None) -> Sequence[FileInfo]: ...
    async def walk(self, folder: DocPath | None) -> Sequence[FileInfo]:
        """All files and folders below `folder`, by path."""
        ...

    async def find(self, folder: DocPath | None, suffix: str = "") -> FoundFiles:
        """Files below `folder` that end with `suffix`, by path; without a suffix, all files and folders. Names only, which is faster."""
        ...

    async def listing(self, folder: DocPath | None, suffix: str = "", *, refresh: bool = False) -> FileListing:
        """The files of `find`, with the age of the list where a remote server was asked a while ago; `refresh` asks it now."""
        ...

    async def describe(self, files: Sequence[FoundFile]) -> Sequence[FileInfo]:
        """The details of some found files. Files that are gone by now are left out."""
        ...


class JupyterKernels(Protocol):
    """Kernels, and the sessions that bind them to notebooks."""

    @property
    def url(self) -> str: ...

    async def specs(self) -> Sequence[KernelSpec]: ...
    async def kernels(self) -> Sequence[KernelInfo]: ...
    async def kernel(self, kernel_id: str) -> KernelInfo: ...
    async def start_kernel(self, name: str | None = None, *, beside: DocPath | None = None) -> KernelInfo:
        """A kernel without a session. It works in the folder of the file `beside`; without one, in the server's root."""
        ...

    async def interrupt(self, kernel_id: str) -> None: ...
    async def restart(self, kernel_id: str) -> KernelInfo: ...
    async def shut_down(self, kernel_id: str) -> None: ...

    async def sessions(self) -> Sequence[SessionInfo]: ...
    async def session_of(self, path: NotebookPath) -> SessionInfo | None:
        """The session of this notebook, as it is now: a person may have switched its kernel."""
        ...

    async def start_session(
        self, path: NotebookPath, *, kernel_name: str | None = None, kernel_id: str | None = None
    ) -> SessionInfo:
        """Bind the notebook to a new kernel, or to a running one. A person's tab picks it up."""
        ...

    async def switch_kernel(
        self, session_id: str, *, kernel_name: str | None = None, kernel_id: str | None = None
    ) -> SessionInfo: ...
    async def move_session(self, session_id: str, path: NotebookPath) -> None:
        """Give the session the new path of its notebook; the kernel stays with it."""
        ...

    async def end_session(self, session_id: str) -> None: ...

    async def open_channel(self, kernel_id: str, session_id: str) -> KernelChannel:
        """A message channel to a running kernel. With the same `session_id`, missed messages are replayed where possible."""
        ...


class Jupyter(Protocol):
    """A notebook workspace. Documents and kernels may live on two servers."""

    @property
    def documents(self) -> Documents: ...

    @property
    def kernels(self) -> JupyterKernels: ...

    async def about(self) -> Mapping[str, object]:
        """Facts about the servers, for people: versions, whether documents are shared."""
        ...

    async def close(self) -> None: ...
