"""Files of the Jupyter server we run inside of, by its contents manager."""

import asyncio
import copy
import inspect
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from jupyter_core.utils import ensure_async
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.contents.filemanager import FileContentsManager
from tornado.web import HTTPError

from cellwright.core.errors import Conflict, InvalidArgument, LimitReached, NotFound
from cellwright.jupyter.contents import LARGE_BYTES, MAX_LISTED, MAX_READ_BYTES
from cellwright.jupyter.local_calls import ServerCalls
from cellwright.jupyter.localfiles import describe_all, leads_outside, walk_local
from cellwright.jupyter.model import FileContent, FileInfo, FileKind, Found, JsonObject, timestamp
from cellwright.jupyter.paths import DocPath, is_path
from cellwright.jupyter.sight import spelt

BAD_REQUEST, NOT_FOUND = 400, 404


class LocalContents:
    """The contents manager, with the checks that the server's API makes before it."""

    def __init__(self, serverapp: ServerApp, calls: ServerCalls) -> None:
        self._calls = calls
        self._manager: Any = cast("Any", serverapp).contents_manager
        self._hashes = "require_hash" in inspect.signature(self._manager.get).parameters

    async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo:
        """What the server knows of the file, without reading it."""
        return _info(await self._calls.look(f"file {path}", lambda: self._get(path.text, with_hash=with_hash)))

    async def exists(self, path: DocPath) -> bool:
        try:
            await self.stat(path)
        except NotFound:
            return False
        return True

    async def read(self, path: DocPath, kind: FileKind) -> FileContent:
        """The file with its contents and their hash. Notebooks come as the JSON of format 4."""
        size = (await self.stat(path)).size or 0
        if size > MAX_READ_BYTES:
            raise LimitReached(f"{path} has {size} bytes; at most {MAX_READ_BYTES} are read")
        model = await self._calls.look(
            f"file {path}", lambda: self._get(path.text, content=True, kind=kind, with_hash=True)
        )
        content = model.get("content")
        if kind is FileKind.NOTEBOOK:
            content = await _plain(content, size)
        return FileContent(_info(model), content, model.get("format"))

    async def write(self, path: DocPath, kind: FileKind, content: object, *, expect: FileInfo | None) -> FileInfo:
        """Replace the file. With `expect`, only if the file is still as it was then.

        The manager has no conditional write, so the check comes just before. Never call this while the document is shared.
        """
        if expect is not None:
            await self._check_unchanged(path, expect)
        ours = await self._put(path, kind, "json" if kind is FileKind.NOTEBOOK else "text", content)
        now = await self.stat(path, with_hash=True)
        # If somebody else wrote right after us, their hash is not what we know: the time of our own write is.
        return now if now.last_modified == ours.last_modified else ours

    async def _check_unchanged(self, path: DocPath, expect: FileInfo) -> None:
        now = await self.stat(path, with_hash=expect.hash is not None)
        same = now.hash == expect.hash if expect.hash is not None else now.last_modified == expect.last_modified
        if not same:
            raise Conflict(
                f"{path} was changed on disk since it was read; nothing was written",
                hint="Read it again, then repeat the edit",
                details={"last_modified": now.last_modified.isoformat()},
            )

    async def create(self, path: DocPath, kind: FileKind, content: object = None) -> FileInfo:
        """A new file. Fails if there is one already."""
        if await self.exists(path):
            raise Conflict(f"{path} exists already", hint="Choose another path, or overwrite_document to replace it")
        if path.parent is not None and not await self.exists(path.parent):
            raise NotFound(f"no folder {path.parent} on the Jupyter server", hint="Create the folder first")
        if kind is FileKind.DIRECTORY:
            await self._calls.do(f"folder {path}", lambda: self._save(path.text, {"type": "directory"}))
            return await self.stat(path)
        made = content if content is not None else _empty(kind)
        return await self.write(path, kind, made, expect=None)

    async def rename(self, path: DocPath, new_path: DocPath) -> FileInfo:
        if await self.exists(new_path):
            raise Conflict(f"{new_path} exists already; {path} was not renamed", hint="Choose another path")
        return _info(await self._calls.do(f"file {path}", lambda: self._rename(path.text, new_path.text)))

    async def copy(self, path: DocPath, copy_path: DocPath) -> FileInfo:
        """A copy under exactly this path, made by the server's own reading and writing."""
        if await self.exists(copy_path):
            raise Conflict(f"{copy_path} exists already; nothing was copied", hint="Choose another path")
        info = await self.stat(path)
        if info.kind is FileKind.DIRECTORY:
            raise InvalidArgument(f"{path} is a folder; only files can be copied")
        source = await self.read(path, info.kind)
        await self._put(copy_path, info.kind, source.format, source.content)
        return await self.stat(copy_path)

    async def delete(self, path: DocPath) -> None:
        await self._calls.do(f"file {path}", lambda: self._delete(path.text))

    async def folder(self, folder: DocPath | None) -> list[FileInfo]:
        """What is in one folder, by name."""
        place = folder.text if folder else ""
        model = await self._calls.look(
            f"folder {folder or '/'}", lambda: self._get(place, content=True, kind=FileKind.DIRECTORY)
        )
        return sorted((_info(entry) for entry in model["content"]), key=lambda info: info.path)

    async def walk(self, folder: DocPath | None) -> list[FileInfo]:
        """All files and folders below `folder`, by path."""
        return await self.describe(await self.find(folder))

    async def find(self, folder: DocPath | None, suffix: str = "") -> Sequence[Found]:
        """Files below `folder` by path, hidden ones left out; straight from the disk where that is what the manager shows."""
        if folder is not None and folder.is_hidden:
            raise NotFound(f"no folder {folder} on the Jupyter server", hint="Hidden folders are not shown")
        root = self._root
        found = await asyncio.to_thread(_find_here, root, folder, suffix) if root is not None else None
        return found if found is not None else await self._walk_by_folders(folder, suffix)

    async def describe(self, found: Sequence[Found]) -> list[FileInfo]:
        """More about some of what was found; what is gone by now is left out."""
        root = self._root
        if root is not None and not any(one.info for one in found):
            return await asyncio.to_thread(describe_all, root, found)
        return [one.info for one in found if one.info is not None]

    @property
    def _root(self) -> Path | None:
        """The folder that the manager shows, if it shows a folder of this machine."""
        return Path(self._manager.root_dir) if isinstance(self._manager, FileContentsManager) else None

    async def _walk_by_folders(self, folder: DocPath | None, suffix: str) -> list[Found]:
        found: list[Found] = []
        pending: list[DocPath | None] = [folder]
        while pending:
            place = pending.pop()
            try:
                infos = await self.folder(place)
            except NotFound:
                # A folder below may be deleted while the walk goes on; the one that was asked for must be there.
                if place is folder:
                    raise
                continue
            folders = [info for info in infos if info.kind is FileKind.DIRECTORY]
            pending += [DocPath(info.path) for info in folders if is_path(info.path)]
            found += [Found(one.path, one.kind, one) for one in infos if _wanted(one, suffix) and is_path(one.path)]
            if len(found) > MAX_LISTED:
                raise LimitReached(
                    f"more than {MAX_LISTED} files below {folder or '/'}", hint="List a folder further down"
                )
        return sorted(found, key=lambda one: one.path)

    async def _put(self, path: DocPath, kind: FileKind, kept_as: str | None, content: object) -> FileInfo:
        # The manager makes objects of its own out of what it is given: what we hold stays ours.
        body: JsonObject = {"type": kind.value, "format": kept_as, "content": copy.deepcopy(content)}
        return _info(await self._calls.do(f"file {path}", lambda: self._save(path.text, body)))

    async def _get(
        self, path: str, *, content: bool = False, kind: FileKind | None = None, with_hash: bool = False
    ) -> JsonObject:
        await self._refuse_hidden(NOT_FOUND, "file or directory {!r} does not exist", path)
        wanted = {"require_hash": with_hash} if self._hashes else {}
        return await ensure_async(
            self._manager.get(path=path, type=kind.value if kind else None, format=None, content=content, **wanted)
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

    async def _refuse_hidden(self, status: int, said: str, *paths: str) -> None:
        """The manager leaves this to the API's handlers; they name the first path as they know it."""
        for path in paths:
            if not self._manager.allow_hidden and await ensure_async(self._manager.is_hidden(path)):
                raise HTTPError(status, said.format(f"/{paths[0]}"))


def _find_here(root: Path, folder: DocPath | None, suffix: str) -> Sequence[Found] | None:
    """From the disk; None where only the manager may say what is there."""
    return None if leads_outside(root, folder) else walk_local(root, folder, suffix, MAX_LISTED)


async def _plain(content: object, size: int) -> object:
    """The manager gives a notebook as objects of its own; the rest of us knows plain JSON."""
    if size <= LARGE_BYTES:
        return json.loads(json.dumps(content))
    # A hundred megabytes take seconds, in which nobody else would be answered.
    return await asyncio.to_thread(lambda: json.loads(json.dumps(content)))


def _wanted(info: FileInfo, suffix: str) -> bool:
    return not suffix or (info.kind is not FileKind.DIRECTORY and info.path.endswith(suffix))


def _empty(kind: FileKind) -> object:
    if kind is FileKind.NOTEBOOK:
        return {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return ""


def _info(model: JsonObject) -> FileInfo:
    return FileInfo(
        path=spelt(str(model["path"]).strip("/")),
        kind=FileKind(model["type"]),
        created=_moment(model["created"]),
        last_modified=_moment(model["last_modified"]),
        size=model.get("size"),
        writable=bool(model.get("writable", True)),
        mime_type=model.get("mimetype"),
        hash=model.get("hash"),
    )


def _moment(told: datetime | str) -> datetime:
    """Managers give times, or text as the API does."""
    if isinstance(told, str):
        return timestamp(told)
    return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
