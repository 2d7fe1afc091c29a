"""Files of the Jupyter server we run inside of, by its contents manager."""

import asyncio
import copy
import inspect
import json
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from jupyter_core.utils import ensure_async
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.contents.filemanager import FileContentsManager
from tornado.web import HTTPError

from cellwright.core.errors import CellwrightError, NotFound
from cellwright.jupyter.files import rules as filerules
from cellwright.jupyter.files.halfmade import HalfMade
from cellwright.jupyter.files.on_disk import describe_all
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.inside.calls import ServerCalls
from cellwright.jupyter.model import (
    MOST_FOLDERS_ASKED,
    WALK_SECONDS_ASKING,
    FileContent,
    FileInfo,
    FileKind,
    FileListing,
    FoundFile,
    FoundFiles,
    FoundList,
    JsonObject,
)
from cellwright.jupyter.parsing import file_info

BAD_REQUEST, NOT_FOUND = 400, 404


class LocalContents:
    """The contents manager, with the checks that the server's API makes before it."""

    def __init__(self, serverapp: ServerApp, calls: ServerCalls) -> None:
        self._calls = calls
        self._claims = filerules.Claims()
        self._halves = HalfMade(self)
        self._manager: Any = cast("Any", serverapp).contents_manager
        self._hashes = "require_hash" in inspect.signature(self._manager.get).parameters

    async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo:
        """The server's facts about the file, without its contents."""
        return file_info(await self._calls.look(f"file {path}", lambda: self._get(path.text, with_hash=with_hash)))

    async def exists(self, path: DocPath) -> bool:
        try:
            await self.stat(path)
        except NotFound:
            return False
        return True

    async def read(self, path: DocPath, kind: FileKind) -> FileContent:
        """The file with its contents and their hash. Notebooks come as the JSON of format 4."""
        size = filerules.check_size(path, await self.stat(path))
        model = await self._calls.look(
            f"file {path}", lambda: self._get(path.text, content=True, kind=kind, with_hash=True)
        )
        content = model.get("content")
        if kind is FileKind.NOTEBOOK:
            content = await _plain(content, size)
        return FileContent(file_info(model), content, model.get("format"))

    async def write(self, path: DocPath, kind: FileKind, content: object, *, expect: FileInfo | None) -> FileInfo:
        """Replace the file. With `expect`, only if the file is still as it was then.

        The manager has no conditional write, so the check comes just before. Never call this while the document is shared.
        """
        if expect is not None:
            filerules.check_unchanged(path, await self.stat(path, with_hash=expect.hash is not None), expect)
        ours = await self._put(path, kind, filerules.format_of(kind), content)
        now = await self.stat(path, with_hash=True)
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
                await self._calls.do(f"folder {path}", lambda: self._save(path.text, {"type": "directory"}))
                return await self.stat(path)
            content = content if content is not None else filerules.empty(kind)
            try:
                return await self.write(path, kind, content, expect=None)
            except CellwrightError as failure:
                raise await self._halves.after(path, kind, content, failure) from failure

    async def rename(self, path: DocPath, new_path: DocPath) -> FileInfo:
        async with self._claims.hold(new_path):
            if await self.exists(new_path):
                raise filerules.taken_for_rename(path, new_path)
            return file_info(await self._calls.do(f"file {path}", lambda: self._rename(path.text, new_path.text)))

    async def copy(self, path: DocPath, copy_path: DocPath) -> FileInfo:
        """Copy a file to exactly this path, by reading and writing it through the server."""
        async with self._claims.hold(copy_path):
            if await self.exists(copy_path):
                raise filerules.taken_for_copy(copy_path)
            info = await self.stat(path)
            filerules.check_copyable(path, info)
            source = await self.read(path, info.kind)
            await self._put(copy_path, info.kind, source.format, source.content)
            return await self.stat(copy_path)

    async def delete(self, path: DocPath) -> None:
        await self._calls.do(f"file {path}", lambda: self._delete(path.text))

    async def folder(self, folder: DocPath | None) -> list[FileInfo]:
        """The contents of one folder, by name."""
        path = folder.text if folder else ""
        model = await self._calls.look(
            f"folder {folder or '/'}", lambda: self._get(path, content=True, kind=FileKind.DIRECTORY)
        )
        return sorted((file_info(entry) for entry in model["content"]), key=lambda info: info.path)

    async def walk(self, folder: DocPath | None) -> list[FileInfo]:
        """All files and folders below `folder`, by path."""
        return await self.describe(await self.find(folder))

    async def find(self, folder: DocPath | None, suffix: str = "") -> FoundFiles:
        """Files below `folder` by path, without hidden ones; straight from the disk where the manager shows a folder on it."""
        filerules.check_shown(folder)
        root = self.root
        files = await asyncio.to_thread(filerules.find_here, root, folder, suffix) if root is not None else None
        return files if files is not None else await self._walk_by_folders(folder, suffix)

    async def listing(self, folder: DocPath | None, suffix: str = "", *, refresh: bool = False) -> FileListing:
        """The files of `find`, which are never old here."""
        del refresh
        return FileListing(await self.find(folder, suffix))

    async def describe(self, files: Sequence[FoundFile]) -> list[FileInfo]:
        """The details of some found files. Files that are gone by now are left out."""
        root = self.root
        if root is not None and not any(file.info for file in files):
            return await asyncio.to_thread(describe_all, root, files)
        return [file.info for file in files if file.info is not None]

    @property
    def root(self) -> Path | None:
        """The folder that the manager shows, if it is a folder of this machine."""
        return Path(self._manager.root_dir) if isinstance(self._manager, FileContentsManager) else None

    async def _walk_by_folders(self, start: DocPath | None, suffix: str) -> FoundFiles:
        files: list[FoundFile] = []
        pending: deque[DocPath | None] = deque([start])
        folder_count = 0
        end = time.monotonic() + WALK_SECONDS_ASKING
        while pending and folder_count < MOST_FOLDERS_ASKED and time.monotonic() < end:
            folder_count += 1
            folder = pending.popleft()
            try:
                infos = await self.folder(folder)
            except NotFound:
                # A folder below may be deleted during the walk; the start must be there.
                if folder is start:
                    raise
                continue
            pending += filerules.enterable(infos)
            files += filerules.matching(infos, suffix)
            filerules.check_listed(files, start)
        return FoundList(sorted(files, key=lambda file: file.path), complete=not pending)

    async def _put(self, path: DocPath, kind: FileKind, format_name: str | None, content: object) -> FileInfo:
        # A copy, because the manager turns the content into objects of its own.
        body: JsonObject = {"type": kind.value, "format": format_name, "content": copy.deepcopy(content)}
        return file_info(await self._calls.do(f"file {path}", lambda: self._save(path.text, body)))

    async def _get(
        self, path: str, *, content: bool = False, kind: FileKind | None = None, with_hash: bool = False
    ) -> JsonObject:
        await self._refuse_hidden(NOT_FOUND, "file or directory {!r} does not exist", path)
        options = {"require_hash": with_hash} if self._hashes else {}
        return await ensure_async(
            self._manager.get(path=path, type=kind.value if kind else None, format=None, content=content, **options)
        )

    async def _save(self, path: str, body: JsonObject) -> JsonObject:
        await self._refuse_hidden(BAD_REQUEST, "Cannot create file or directory {!r}", path)
        exists: bool = await ensure_async(self._manager.file_exists(path))
        return await ensure_async(self._manager.save(body, path) if exists else self._manager.new(body, path))

    async def _rename(self, path: str, new_path: str) -> JsonObject:
        await self._refuse_hidden(BAD_REQUEST, "Cannot rename file or directory {!r}", path, new_path)
        return await ensure_async(self._manager.update({"path": new_path}, path))

    async def _delete(self, path: str) -> None:
        await self._refuse_hidden(BAD_REQUEST, "Cannot delete file or directory {!r}", path)
        await ensure_async(self._manager.delete(path))

    async def _refuse_hidden(self, status: int, message: str, *paths: str) -> None:
        """Refuse hidden files, which the manager leaves to the API's handlers. Like them, name the first path."""
        for path in paths:
            if not self._manager.allow_hidden and await ensure_async(self._manager.is_hidden(path)):
                raise HTTPError(status, message.format(f"/{paths[0]}"))


async def _plain(content: object, size: int) -> object:
    """A notebook as plain JSON. The manager gives it as objects of its own."""
    if size <= filerules.LARGE_BYTES:
        return json.loads(json.dumps(content))
    # A hundred megabytes take seconds, which would hold up everybody else.
    return await asyncio.to_thread(lambda: json.loads(json.dumps(content)))
