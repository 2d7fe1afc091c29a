"""The port: what the engine needs of a Jupyter server, whichever way it is reached.

`Jupyter` is filled in by the remote adapter (HTTP and websockets, any server by its address) and by the local adapter (inside
Jupyter Server). Nothing above this line knows which one runs.
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
    """A duplex way to one room: binary messages, in order. Websocket or memory."""

    async def send(self, message: bytes) -> None:
        """Hand the message over, or raise RoomClosed."""
        ...

    async def receive(self) -> bytes:
        """The next message, or RoomClosed."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RoomAccess:
    """A way into a room, and what its server is known to do."""

    id: str
    channel: RoomChannel
    answers_saves: bool = True
    """Whether the server answers a request to save; otherwise only its own autosave writes the file."""
    echoes: bool = True
    """Whether the server sends our own updates back: the sign that it still passes changes on to others."""
    name: str = ""
    """What people call the document, its path: messages say that instead of the room's id."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A copy of a shared document, and which run of the server keeps it."""

    id: str
    server_run: str
    """Another one means that the server was restarted, and that all its copies are gone."""


class Forks(Protocol):
    """Copies of shared documents, for changes that nobody is to see yet. They are gone when the server ends."""

    async def offered(self) -> bool:
        """Whether this server has them."""
        ...

    async def make(self, room: str, *, title: str, description: str) -> Fork:
        """A copy of the document in this room, which must be open. It does not follow the document."""
        ...

    async def of(self, room: str) -> Mapping[str, str]:
        """The copies there are of a room's document: id and description."""
        ...

    async def join(self, fork: str, name: str) -> RoomAccess:
        """A way into a copy. See that it is there first: servers take an unknown id for a new, empty room."""
        ...

    async def end(self, fork: str) -> None:
        """Throw the copy away, if it is there. Leave it first."""
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
        """Where people's browsers show files: the address before a file's path. None if this server shows no pages."""
        ...

    async def live(self, *, now: bool = False) -> bool:
        """Whether documents are shared here: if so, an open document's file is never written directly.

        `now`: asked once more, for a server may have been restarted since it was asked.
        """
        ...

    async def join(self, path: DocPath, kind: RoomKind) -> RoomAccess:
        """A way into the document's room. NotFound, before anything is opened, if there is no such file."""
        ...

    async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo: ...
    async def read(self, path: DocPath, kind: FileKind) -> FileContent: ...
    async def write(self, path: DocPath, kind: FileKind, content: object, *, expect: FileInfo | None) -> FileInfo:
        """Replace the file; with `expect`, only if it is still as it was then, else Conflict."""
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
        """Names only, which is much faster: files below `folder` that end with `suffix`, by path; else all, with folders."""
        ...

    async def listing(self, folder: DocPath | None, suffix: str = "", *, refresh: bool = False) -> FileListing:
        """What `find` finds, with its age where a server far away was asked some time ago; `refresh` asks it now."""
        ...

    async def describe(self, found: Sequence[FoundFile]) -> Sequence[FileInfo]:
        """More about some of what was found; what is gone by now is left out."""
        ...


class JupyterKernels(Protocol):
    """Kernels, and the sessions that bind them to notebooks."""

    @property
    def url(self) -> str: ...

    async def specs(self) -> Sequence[KernelSpec]: ...
    async def kernels(self) -> Sequence[KernelInfo]: ...
    async def kernel(self, kernel_id: str) -> KernelInfo: ...
    async def start_kernel(self, name: str | None = None) -> KernelInfo: ...
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
        """The notebook of the session has another path now; its kernel goes with it."""
        ...

    async def end_session(self, session_id: str) -> None: ...

    async def open_channel(self, kernel_id: str, session_id: str) -> KernelChannel:
        """A message channel to a running kernel. The same `session_id` gets missed messages replayed where possible."""
        ...


class Jupyter(Protocol):
    """A notebook workspace. Documents and kernels may live on two servers."""

    @property
    def documents(self) -> Documents: ...

    @property
    def kernels(self) -> JupyterKernels: ...

    async def about(self) -> Mapping[str, object]:
        """What is known of the servers, for people: versions, whether documents are shared."""
        ...

    async def close(self) -> None: ...
