"""Files of a Jupyter server over its contents API."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cellwright.core.errors import CellwrightError
from cellwright.jupyter.files import rules as filerules
from cellwright.jupyter.files.halfmade import HalfMade
from cellwright.jupyter.files.on_disk import describe_all, is_root
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import FileContent, FileInfo, FileKind, FileListing, FoundFile, FoundFiles
from cellwright.jupyter.parsing import file_info
from cellwright.jupyter.remote.rest import FILE_BOUNDS, NOT_FOUND, Rest, RestAnswer, not_jupyter
from cellwright.jupyter.remote.snapshots import Snapshots

TRUST_SECONDS = 10.0
SERVER_FAILED = 500


class Contents:
    """The contents API of one server."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._claims = filerules.Claims()
        self._halves = HalfMade(self)
        self._root_checked = -TRUST_SECONDS
        self._snapshots = Snapshots(self.folder)

    async def close(self) -> None:
        """End the walks that run in the background."""
        await self._snapshots.close()

    async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo:
        """The server's facts about the file, without its contents."""
        parameters = {"content": 0, "hash": 1} if with_hash else {"content": 0}
        return _info(self._rest.accept(await self._probe_file(path, parameters), f"file {path}").json())

    async def _probe_file(self, path: DocPath, parameters: dict[str, int]) -> RestAnswer:
        """The server's answer about the file. Where the path leads through a file, the server fails, which means: not found."""
        answer = await self._rest.probe("GET", _api(path), f"file {path}", parameters=parameters)
        if answer.status >= SERVER_FAILED and await self._leads_through_a_file(path):
            return RestAnswer(NOT_FOUND, answer.headers, b"")
        return answer

    async def _leads_through_a_file(self, path: DocPath) -> bool:
        folders = path.text.split("/")[:-1]
        for depth in range(1, len(folders) + 1):
            folder = DocPath("/".join(folders[:depth]))
            answer = await self._rest.probe("GET", _api(folder), f"folder {folder}", parameters={"content": 0})
            if not answer.is_success or _info(answer.json()).kind is not FileKind.DIRECTORY:
                return answer.is_success
        return False

    async def exists(self, path: DocPath) -> bool:
        answer = await self._probe_file(path, {"content": 0})
        if answer.status == NOT_FOUND:
            return False
        self._rest.accept(answer, f"file {path}")
        return True

    async def read(self, path: DocPath, kind: FileKind) -> FileContent:
        """The file with its contents and their hash. Notebooks come as the JSON of format 4."""
        filerules.check_size(path, await self.stat(path))
        parameters = {"content": 1, "hash": 1, "type": kind.value}
        answer = await self._rest.request("GET", _api(path), f"file {path}", parameters=parameters)
        # Decoding a hundred megabytes takes seconds, which would hold up everybody else.
        large = len(answer.body) > filerules.LARGE_BYTES
        model: dict[str, Any] = await asyncio.to_thread(answer.json, FILE_BOUNDS) if large else answer.json()
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
        self._snapshots.changed(now)
        # If somebody else wrote right after us, `now` is about their contents: return the time of our own write.
        return now if now.last_modified == ours.last_modified else ours

    async def create(self, path: DocPath, kind: FileKind, content: object = None) -> FileInfo:
        """Make a new file. Raises Conflict if there is one already. A failed attempt leaves nothing that blocks the next."""
        async with self._claims.hold(path):
            if await self.exists(path) and not await self._halves.is_left(path):
                raise filerules.taken(path)
            if path.parent is not None and not await self.exists(path.parent):
                raise filerules.no_parent(path.parent)
            if kind is FileKind.DIRECTORY:
                await self._rest.request("PUT", _api(path), f"folder {path}", body={"type": "directory"})
                return await self._changed(path)
            content = content if content is not None else filerules.empty(kind)
            try:
                return await self.write(path, kind, content, expect=None)
            except CellwrightError as failure:
                raise await self._halves.after(path, kind, content, failure) from failure

    async def rename(self, path: DocPath, new_path: DocPath) -> FileInfo:
        async with self._claims.hold(new_path):
            if await self.exists(new_path):
                raise filerules.taken_for_rename(path, new_path)
            answer = await self._rest.request("PATCH", _api(path), f"file {path}", body={"path": new_path.text})
            info = _info(answer.json())
            self._snapshots.moved(path, info)
            return info

    async def copy(self, path: DocPath, copy_path: DocPath) -> FileInfo:
        """Copy a file to exactly this path, by reading and writing it through the server."""
        async with self._claims.hold(copy_path):
            if await self.exists(copy_path):
                raise filerules.taken_for_copy(copy_path)
            info = await self.stat(path)
            filerules.check_copyable(path, info)
            source = await self.read(path, info.kind)
            body = {"type": info.kind.value, "format": source.format, "content": source.content}
            await self._rest.request("PUT", _api(copy_path), f"file {copy_path}", body=body)
            return await self._changed(copy_path)

    async def delete(self, path: DocPath) -> None:
        await self._rest.request("DELETE", _api(path), f"file {path}")
        self._snapshots.gone(path)

    async def _changed(self, path: DocPath) -> FileInfo:
        info = await self.stat(path)
        self._snapshots.changed(info)
        return info

    async def folder(self, folder: DocPath | None) -> list[FileInfo]:
        """The contents of one folder, by name."""
        about = f"folder {folder or '/'}"
        model = await self._rest.get(_api(folder), about, content=1, type="directory")
        return sorted((_info(entry) for entry in model["content"]), key=lambda info: info.path)

    async def walk(self, folder: DocPath | None) -> list[FileInfo]:
        """All files and folders below `folder`, by path."""
        return await self.describe(await self.find(folder))

    async def find(self, folder: DocPath | None, suffix: str = "") -> FoundFiles:
        """Files below `folder` by path, without hidden ones, as on the server; see `listing`."""
        return (await self.listing(folder, suffix)).files

    async def listing(self, folder: DocPath | None, suffix: str = "", *, refresh: bool = False) -> FileListing:
        """The files with the age of the list: straight from the disk if the root is on this machine, otherwise from a snapshot."""
        filerules.check_shown(folder)
        root = await self._root()
        files = await asyncio.to_thread(filerules.find_here, root, folder, suffix) if root is not None else None
        return (
            FileListing(files) if files is not None else await self._snapshots.listing(folder, suffix, refresh=refresh)
        )

    async def describe(self, files: Sequence[FoundFile]) -> list[FileInfo]:
        """The details of some found files. Files that are gone by now are left out."""
        root = await self._root()
        if root is not None and not any(file.info for file in files):
            return await asyncio.to_thread(describe_all, root, files)
        return [file.info for file in files if file.info is not None]

    async def _root(self) -> Path | None:
        """The server's root folder if it is on this machine. It is checked again after a while."""
        root = self._rest.address.root
        if root is None or time.monotonic() - self._root_checked < TRUST_SECONDS:
            return root
        info = _info(await self._rest.get(_api(None), "folder /", content=0))
        if not await asyncio.to_thread(is_root, root, info.last_modified):
            return None
        self._root_checked = time.monotonic()
        return root


def _api(path: DocPath | None) -> str:
    return f"api/contents/{path.quoted if path else ''}"


def _info(model: dict[str, Any]) -> FileInfo:
    try:
        return file_info(model)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise not_jupyter(str(model)) from error
