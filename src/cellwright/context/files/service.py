"""Lists, reads and searches the project's files: never outside of the root, and never files that hold secrets."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cellwright.context.files.grep import GrepWanted, Matches, compiled, grep, readable_folders
from cellwright.context.files.paths import Root
from cellwright.context.files.reading import (
    LARGEST_FILE,
    FileText,
    Picture,
    dependencies,
    is_named_as_picture,
    read_file,
    read_picture,
    read_text,
)
from cellwright.context.model import Unreadable
from cellwright.context.scanner.imports import Imports
from cellwright.context.scanner.layout import layout_of
from cellwright.context.scanner.walk import list_files
from cellwright.core.errors import CellwrightError
from cellwright.core.text.names import on_one_line

GREP_SECONDS = 10.0
PAGE_TOKENS = 20_000
PAGE_BYTES = 100 << 10
LAYOUT_SECONDS = 30.0
"""How long a listing of the project's files is recent enough for finding what a file imports."""


@dataclass(frozen=True, slots=True)
class ReadableFile:
    """A file that may be read, as it was when it was listed."""

    path: str
    """Relative to the root, `/` between names."""
    size: int
    modified: int
    """In nanoseconds since 1970. A different time or size means different contents."""


class ProjectFiles:
    """The files of one project."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._imports: tuple[float, Imports] | None = None

    def readable(self, largest: int = LARGEST_FILE) -> Iterator[ReadableFile]:
        """Files that may be read, in the order of their paths: not ignored by git, no links, no secrets, not too large.

        Walks the disk as it goes: consume it in slices, off the event loop. Only reading a file tells whether it is text.
        """
        for folder in readable_folders(self._root):
            for entry in folder.files:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if status.st_size <= largest:
                    yield ReadableFile(f"{folder.prefix}{entry.name}", status.st_size, status.st_mtime_ns)

    def text(self, path: str) -> str | None:
        """The text of a file; None if it is gone, not text, too large or not to be read. Blocks: call it off the event loop."""
        try:
            return read_text(self._root, path)[1]
        except CellwrightError:
            return None

    def exists(self, path: str) -> bool:
        """Whether there is such a file. Blocks: call it off the event loop."""
        try:
            with self._root.open(path, sys.maxsize):
                return True
        except CellwrightError:
            return False

    async def read(self, path: str, start: int | None = None, end: int | None = None, depth: int = 0) -> FileText:
        """A file of the project; with `depth` the files it imports as well."""
        file_text = await asyncio.to_thread(read_file, self._root, path, start, end)
        if not depth:
            return file_text
        imports = await self._current_imports()
        imported = await asyncio.to_thread(dependencies, self._root, imports, file_text.path, depth)
        return replace(file_text, dependencies=imported)

    async def page(self, path: str) -> str:
        """A whole file, for `context://file/{path}`."""
        file_text = await asyncio.to_thread(read_file, self._root, path, None, None, PAGE_TOKENS)
        if file_text.next is not None or len(file_text.text.encode()) > PAGE_BYTES:
            raise Unreadable(
                f"{on_one_line(path[:200])} is too long to be read as a whole", hint="read_file reads a part of it"
            )
        return file_text.text

    async def picture(self, path: str) -> Picture | None:
        """A picture, for `context://file/{path}`; None for any other file."""
        return await asyncio.to_thread(read_picture, self._root, path) if is_named_as_picture(path) else None

    async def page_from(self, path: str, start: int) -> FileText:
        """A file from a line on, as far as a page goes, for `context://file/{path}?start=…`."""
        return await asyncio.to_thread(read_file, self._root, path, start, None, PAGE_TOKENS, PAGE_BYTES)

    async def grep(
        self, pattern: str, file_pattern: str, *, case_sensitive: bool, context_lines: int, limit: int
    ) -> Matches:
        """The lines that fit an expression."""
        query = GrepWanted(compiled(pattern, case_sensitive=case_sensitive), file_pattern, context_lines, limit)
        return await asyncio.to_thread(grep, self._root, query, GREP_SECONDS)

    async def _current_imports(self) -> Imports:
        now = time.monotonic()
        if self._imports is None or now - self._imports[0] > LAYOUT_SECONDS:
            listing = await asyncio.to_thread(
                lambda: list_files(os.path.realpath(self._root.folder), reach=self._root.reach)
            )
            self._imports = (now, Imports(layout_of(listing, {})))
        return self._imports[1]
