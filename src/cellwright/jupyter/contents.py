"""Files of a Jupyter server over its contents API."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cellwright.core.errors import NotFound
from cellwright.jupyter import filerules
from cellwright.jupyter.localfiles import describe_all, is_root
from cellwright.jupyter.model import FileContent, FileInfo, FileKind, Found
from cellwright.jupyter.parsing import file_info
from cellwright.jupyter.paths import DocPath
from cellwright.jupyter.rest import NOT_FOUND, Rest, not_jupyter

CONCURRENT_LISTINGS = 8
TRUST_SECONDS = 10.0


class Contents:
    """The contents API of one server."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._claims = filerules.Claims()
        self._root_checked = -TRUST_SECONDS

    async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo:
        """What the server knows of the file, without reading it."""
        parameters = {"content": 0, "hash": 1} if with_hash else {"content": 0}
        return _info(await self._rest.get(_api(path), f"file {path}", **parameters))

    async def exists(self, path: DocPath) -> bool:
        answer = await self._rest.probe("GET", _api(path), f"file {path}", parameters={"content": 0})
        if answer.status == NOT_FOUND:
            return False
        self._rest.accept(answer, f"file {path}")
        return True

    async def read(self, path: DocPath, kind: FileKind) -> FileContent:
        """The file with its contents and their hash. Notebooks come as the JSON of format 4."""
        filerules.check_size(path, await self.stat(path))
        parameters = {"content": 1, "hash": 1, "type": kind.value}
        answer = await self._rest.request("GET", _api(path), f"file {path}", parameters=parameters)
        # Decoding a hundred megabytes takes seconds, in which nobody else would be answered.
        large = len(answer.body) > filerules.LARGE_BYTES
        model: dict[str, Any] = await asyncio.to_thread(answer.json) if large else answer.json()
        return FileContent(_info(model), model.get("content"), model.get("format"))

    async def write(self, path: DocPath, kind: FileKind, content: object, *, expect: FileInfo | None) -> FileInfo:
        """Replace the file. With `expect`, only if the file is still as it was then.

        The server has no conditional write, so the check comes just before. Never call this while the document is shared.
        """
        if expect is not None:
            filerules.check_unchanged(path, await self.stat(path, with_hash=expect.hash is not None), expect)
        body = {"type": kind.value, "format": filerules.format_of(kind), "content": content}
        answer = await self._rest.request("PUT", _api(path), f"file {path}", body=body)
        ours, now = _info(answer.json()), await self.stat(path, with_hash=True)
        # If somebody else wrote right after us, their hash is not what we know: the time of our own write is.
        return now if now.last_modified == ours.last_modified else ours

    async def create(self, path: DocPath, kind: FileKind, content: object = None) -> FileInfo:
        """A new file. Fails if there is one already."""
        with self._claims.hold(path, filerules.taken(path)):
            if await self.exists(path):
                raise filerules.taken(path)
            if path.parent is not None and not await self.exists(path.parent):
                raise filerules.no_parent(path.parent)
            if kind is FileKind.DIRECTORY:
                await self._rest.request("PUT", _api(path), f"folder {path}", body={"type": "directory"})
                return await self.stat(path)
            made = content if content is not None else filerules.empty(kind)
            return await self.write(path, kind, made, expect=None)

    async def rename(self, path: DocPath, new_path: DocPath) -> FileInfo:
        with self._claims.hold(new_path, filerules.taken_for_rename(path, new_path)):
            if await self.exists(new_path):
                raise filerules.taken_for_rename(path, new_path)
            model = await self._rest.request("PATCH", _api(path), f"file {path}", body={"path": new_path.text})
            return _info(model.json())

    async def copy(self, path: DocPath, copy_path: DocPath) -> FileInfo:
        """A copy under exactly this path, made by the server's own reading and writing."""
        with self._claims.hold(copy_path, filerules.taken_for_copy(copy_path)):
            if await self.exists(copy_path):
                raise filerules.taken_for_copy(copy_path)
            info = await self.stat(path)
            filerules.check_copyable(path, info)
            source = await self.read(path, info.kind)
            body = {"type": info.kind.value, "format": source.format, "content": source.content}
            await self._rest.request("PUT", _api(copy_path), f"file {copy_path}", body=body)
            return await self.stat(copy_path)

    async def delete(self, path: DocPath) -> None:
        await self._rest.request("DELETE", _api(path), f"file {path}")

    async def folder(self, folder: DocPath | None) -> list[FileInfo]:
        """What is in one folder, by name."""
        about = f"folder {folder or '/'}"
        model = await self._rest.get(_api(folder), about, content=1, type="directory")
        return sorted((_info(entry) for entry in model["content"]), key=lambda info: info.path)

    async def walk(self, folder: DocPath | None) -> list[FileInfo]:
        """All files and folders below `folder`, by path."""
        return await self.describe(await self.find(folder))

    async def find(self, folder: DocPath | None, suffix: str = "") -> Sequence[Found]:
        """Files below `folder` by path, hidden ones left out as the server does; straight from the disk if it is here."""
        filerules.check_shown(folder)
        root = await self._root()
        found = await asyncio.to_thread(filerules.find_here, root, folder, suffix) if root is not None else None
        return found if found is not None else await self._walk_there(folder, suffix)

    async def describe(self, found: Sequence[Found]) -> list[FileInfo]:
        """More about some of what was found; what is gone by now is left out."""
        root = await self._root()
        if root is not None and not any(one.info for one in found):
            return await asyncio.to_thread(describe_all, root, found)
        return [one.info for one in found if one.info is not None]

    async def _root(self) -> Path | None:
        """The server's root folder if it is on this machine: believed for a while after it was checked."""
        root = self._rest.address.root
        if root is None or time.monotonic() - self._root_checked < TRUST_SECONDS:
            return root
        told = _info(await self._rest.get(_api(None), "folder /", content=0))
        if not await asyncio.to_thread(is_root, root, told.last_modified):
            return None
        self._root_checked = time.monotonic()
        return root

    async def _walk_there(self, folder: DocPath | None, suffix: str) -> list[Found]:
        found: list[Found] = []
        pending: list[DocPath | None] = [folder]
        while pending:
            batch, pending = pending[:CONCURRENT_LISTINGS], pending[CONCURRENT_LISTINGS:]
            for infos in await asyncio.gather(*(self._folder_or_gone(one, first=one is folder) for one in batch)):
                pending += filerules.enterable(infos)
                found += filerules.matching(infos, suffix)
            filerules.check_listed(found, folder)
        return sorted(found, key=lambda one: one.path)

    async def _folder_or_gone(self, folder: DocPath | None, *, first: bool) -> list[FileInfo]:
        """A folder below may be deleted while the walk goes on; the one that was asked for must be there."""
        try:
            return await self.folder(folder)
        except NotFound:
            if first:
                raise
            return []


def _api(path: DocPath | None) -> str:
    return f"api/contents/{path.quoted if path else ''}"


def _info(model: dict[str, Any]) -> FileInfo:
    try:
        return file_info(model)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise not_jupyter(str(model)) from error
