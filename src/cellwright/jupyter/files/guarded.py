"""A Jupyter server of which only what may be read is read: whatever uses it, by whichever way it is reached.

Where the server's root is on this machine, links are resolved before anything is asked for: what counts is where they lead. Of a server
far away only names are known, and its own folders are not ours to know.
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


def guarded(found: FoundServer, reach: Reach) -> FoundServer:
    """The same connection, through which nothing private or secret can be had."""
    return replace(found, jupyter=GuardedJupyter(found.jupyter, reach, found.root))


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
    """Documents of which only what may be read is read."""

    def __init__(self, documents: Documents, reach: Reach, root: Path | None) -> None:
        """`root` is the server's root, if it is a folder of this machine."""
        self._documents = documents
        self._reach = reach
        self._root = os.path.realpath(root) if root is not None else None
        self._private = reach.private_below(self._root) if self._root is not None else frozenset[str]()

    # -- what may be read ------------------------------------------------------------------------------------------------------

    async def _readable(self, path: DocPath) -> None:
        """SecretFile unless the contents may be read."""
        await asyncio.to_thread(self._check_readable, path)

    def _check_readable(self, path: DocPath) -> None:
        real = self._real(path)
        self._reach.check(path.text, real or "", path.text, *((self._inside(real),) if real else ()))

    async def _public(self, *paths: DocPath | None) -> None:
        """SecretFile for what lies in a private place."""
        for path in paths:
            if path is not None and self._root is not None:
                await asyncio.to_thread(self._check_public, path)

    def _check_public(self, path: DocPath) -> None:
        self._reach.check_public(path.text, self._real(path) or "")

    async def _whole(self, path: DocPath) -> None:
        """SecretFile for a folder with a private place in it: what is moved would be private no longer."""
        real = await asyncio.to_thread(self._real, path)
        if real and self._reach.private_below(real):
            raise SecretFile(
                f"{path} holds files of cellwright or Jupyter itself, and stays where it is",
                hint="move what is in it one by one; keys, settings and state are out of reach",
            )

    def _real(self, path: DocPath) -> str | None:
        """Where the path leads, links resolved; None on a server that is elsewhere."""
        return os.path.realpath(f"{self._root}/{path}") if self._root is not None else None

    def _inside(self, real: str) -> str:
        """A path as its names are judged: those of the folders above the root say nothing."""
        return real.removeprefix(f"{self._root}/").replace(os.sep, "/")

    def _shown(self, found: FoundFiles) -> FoundFiles:
        """What was found, without what lies in private places."""
        if not self._private:
            return found
        return FoundList([one for one in found if not self._is_private(one.path)], complete=found.complete)

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
        await self._readable(path)
        return await self._documents.join(path, kind)

    async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo:
        await self._public(path)
        return await self._documents.stat(path, with_hash=with_hash)

    async def read(self, path: DocPath, kind: FileKind) -> FileContent:
        await self._readable(path)
        return await self._documents.read(path, kind)

    async def write(self, path: DocPath, kind: FileKind, content: object, *, expect: FileInfo | None) -> FileInfo:
        await self._public(path)
        return await self._documents.write(path, kind, content, expect=expect)

    async def create(self, path: DocPath, kind: FileKind, content: object = None) -> FileInfo:
        await self._public(path)
        return await self._documents.create(path, kind, content)

    async def rename(self, path: DocPath, new_path: DocPath) -> FileInfo:
        await self._readable(path)
        await self._whole(path)
        await self._public(new_path)
        return await self._documents.rename(path, new_path)

    async def copy(self, path: DocPath, copy_path: DocPath) -> FileInfo:
        await self._readable(path)
        await self._public(copy_path)
        return await self._documents.copy(path, copy_path)

    async def delete(self, path: DocPath) -> None:
        await self._public(path)
        await self._whole(path)
        await self._documents.delete(path)

    async def folder(self, folder: DocPath | None) -> Sequence[FileInfo]:
        await self._public(folder)
        return [info for info in await self._documents.folder(folder) if not self._is_private(info.path)]

    async def walk(self, folder: DocPath | None) -> Sequence[FileInfo]:
        await self._public(folder)
        return [info for info in await self._documents.walk(folder) if not self._is_private(info.path)]

    async def find(self, folder: DocPath | None, suffix: str = "") -> FoundFiles:
        await self._public(folder)
        return self._shown(await self._documents.find(folder, suffix))

    async def listing(self, folder: DocPath | None, suffix: str = "", *, refresh: bool = False) -> FileListing:
        await self._public(folder)
        listing = await self._documents.listing(folder, suffix, refresh=refresh)
        return replace(listing, files=self._shown(listing.files)) if self._private else listing

    async def describe(self, found: Sequence[FoundFile]) -> Sequence[FileInfo]:
        return await self._documents.describe(found)
