"""A Jupyter server through which private and secret files cannot be read, whoever uses it and however it is reached.

Where the server's root is on this machine, links are resolved before every request: what counts is where they lead. Of a remote
server only names are known; where its folders lie is none of our business.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cellwright.core.secrecy import SecretFile
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import (
    FileContent,
    FileInfo,
    FileKind,
    FileListing,
    FoundFile,
    FoundFiles,
    FoundList,
    RoomKind,
)
from cellwright.jupyter.port import Documents, Forks, Jupyter, JupyterKernels, RoomAccess
from cellwright.jupyter.server.connect import FoundServer
from cellwright.system.reach import Reach, names_private


def guarded(server: FoundServer, reach: Reach) -> FoundServer:
    """The same connection, but without access to anything private or secret."""
    return replace(server, jupyter=GuardedJupyter(server.jupyter, reach, server.root))


class GuardedJupyter:
    """A Jupyter server with guarded documents."""

    def __init__(self, jupyter: Jupyter, reach: Reach, root: Path | None) -> None:
        self._jupyter = jupyter
        self._documents = GuardedDocuments(jupyter.documents, reach, root)

    @property
    def documents(self) -> Documents:
        return self._documents

    @property
    def kernels(self) -> JupyterKernels:
        return self._jupyter.kernels

    async def about(self) -> Mapping[str, object]:
        return await self._jupyter.about()

    async def close(self) -> None:
        await self._jupyter.close()


class GuardedDocuments:
    """Documents, each checked before it is read."""

    def __init__(self, documents: Documents, reach: Reach, root: Path | None) -> None:
        """`root` is the server's root, if it is a folder of this machine."""
        self._documents = documents
        self._reach = reach
        self._root = os.path.realpath(root) if root is not None else None
        self._private = reach.private_below(self._root) if self._root is not None else frozenset[str]()

    # -- what may be read ------------------------------------------------------------------------------------------------------

    async def _check_readable(self, path: DocPath) -> None:
        """Raise SecretFile unless the contents may be read."""

        def check() -> None:
            real = self._real(path)
            # Only the names below the root count: those of the folders above it say nothing.
            inside = (real.removeprefix(f"{self._root}/").replace(os.sep, "/"),) if real else ()
            self._reach.check(path.text, real or "", path.text, *inside)

        await asyncio.to_thread(check)

    async def _check_public(self, path: DocPath | None) -> None:
        """Raise SecretFile if the path lies in a private place."""
        if path is not None and self._root is not None:
            await asyncio.to_thread(lambda: self._reach.check_public(path.text, self._real(path) or ""))

    async def _check_movable(self, path: DocPath) -> None:
        """Raise SecretFile for a folder with a private place in it: moved elsewhere, its files would no longer be private."""
        real = await asyncio.to_thread(self._real, path)
        if real and self._reach.private_below(real):
            raise SecretFile(
                f"{path} holds files of cellwright or Jupyter itself, and stays where it is",
                hint="move what is in it one by one; keys, settings and state are out of reach",
            )

    def _real(self, path: DocPath) -> str | None:
        """Where the path leads, links resolved; None on a server that is elsewhere."""
        return os.path.realpath(f"{self._root}/{path}") if self._root is not None else None

    def _without_private(self, files: FoundFiles) -> FoundFiles:
        """The files without those in private places."""
        if not self._private:
            return files
        return FoundList([file for file in files if not self._is_private(file.path)], complete=files.complete)

    def _is_private(self, path: str) -> bool:
        names = path.split("/")
        return any(names_private(self._private, "/".join(names[:count])) for count in range(1, len(names) + 1))

    # -- documents -------------------------------------------------------------------------------------------------------------

    @property
    def forks(self) -> Forks:
        return self._documents.forks

    @property
    def url(self) -> str:
        return self._documents.url

    async def pages(self) -> str | None:
        return await self._documents.pages()

    async def live(self, *, now: bool = False) -> bool:
        return await self._documents.live(now=now)

    async def join(self, path: DocPath, kind: RoomKind) -> RoomAccess:
        await self._check_readable(path)
        return await self._documents.join(path, kind)

    async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo:
        await self._check_public(path)
        return await self._documents.stat(path, with_hash=with_hash)

    async def read(self, path: DocPath, kind: FileKind) -> FileContent:
        await self._check_readable(path)
        return await self._documents.read(path, kind)

    async def write(self, path: DocPath, kind: FileKind, content: object, *, expect: FileInfo | None) -> FileInfo:
        await self._check_public(path)
        return await self._documents.write(path, kind, content, expect=expect)

    async def create(self, path: DocPath, kind: FileKind, content: object = None) -> FileInfo:
        await self._check_public(path)
        return await self._documents.create(path, kind, content)

    async def rename(self, path: DocPath, new_path: DocPath) -> FileInfo:
        await self._check_readable(path)
        await self._check_movable(path)
        await self._check_public(new_path)
        return await self._documents.rename(path, new_path)

    async def copy(self, path: DocPath, copy_path: DocPath) -> FileInfo:
        await self._check_readable(path)
        await self._check_public(copy_path)
        return await self._documents.copy(path, copy_path)

    async def delete(self, path: DocPath) -> None:
        await self._check_public(path)
        await self._check_movable(path)
        await self._documents.delete(path)

    async def folder(self, folder: DocPath | None) -> Sequence[FileInfo]:
        await self._check_public(folder)
        return [info for info in await self._documents.folder(folder) if not self._is_private(info.path)]

    async def walk(self, folder: DocPath | None) -> Sequence[FileInfo]:
        await self._check_public(folder)
        return [info for info in await self._documents.walk(folder) if not self._is_private(info.path)]

    async def find(self, folder: DocPath | None, suffix: str = "") -> FoundFiles:
        await self._check_public(folder)
        return self._without_private(await self._documents.find(folder, suffix))

    async def listing(self, folder: DocPath | None, suffix: str = "", *, refresh: bool = False) -> FileListing:
        await self._check_public(folder)
        listing = await self._documents.listing(folder, suffix, refresh=refresh)
        return replace(listing, files=self._without_private(listing.files)) if self._private else listing

    async def describe(self, files: Sequence[FoundFile]) -> Sequence[FileInfo]:
        return await self._documents.describe(files)
