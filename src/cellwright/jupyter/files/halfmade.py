"""Files whose writing broke off, as on a full disk: what is left of them must not stand in the way of a second attempt."""

from datetime import datetime
from typing import Protocol

from cellwright.core.errors import CellwrightError, InvalidArgument, NotFound
from cellwright.jupyter.errors import UnknownOutcome
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import FileContent, FileInfo, FileKind
from cellwright.notebook.model import joined

REMEMBERED = 1_000


class Files(Protocol):
    """The methods of a server's files that are used here."""

    async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo: ...
    async def read(self, path: DocPath, kind: FileKind) -> FileContent: ...
    async def delete(self, path: DocPath) -> None: ...


class HalfMade:
    """The remains of failed creations: removed, or remembered where the server cannot remove them."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._remains: dict[str, tuple[int | None, datetime]] = {}

    async def is_left(self, path: DocPath) -> bool:
        """Whether a failed creation left this file, and nobody has touched it since."""
        mark = self._remains.pop(path.text, None)
        return mark is not None and mark == _mark(await self._files.stat(path))

    async def after(self, path: DocPath, kind: FileKind, content: object, failure: CellwrightError) -> CellwrightError:
        """Remove what a failed creation left of a file that was not there before. Returns the failure, with the fate of the file."""
        if isinstance(failure, UnknownOutcome):
            return failure
        try:
            info = await self._files.stat(path)
            if not await self._is_half(info, path, kind, content):
                return failure
        except NotFound:
            return failure
        try:
            await self._files.delete(path)
        except CellwrightError:
            # A server that moves files to the trash needs space for that, too.
            if len(self._remains) < REMEMBERED:
                self._remains[path.text] = _mark(info)
            outcome = f"an unfinished {path} is left, which the same call replaces"
        else:
            outcome = f"nothing is left of {path}"
        hint = failure.hint or "Try again when there is room on the disk"
        return type(failure)(f"{failure.message}; {outcome}", hint=hint, details=failure.details)

    async def _is_half(self, info: FileInfo, path: DocPath, kind: FileKind, content: object) -> bool:
        """Whether the file has a part of this content and nothing else. A file that somebody else made meanwhile is not ours."""
        if not info.size:
            return content != ""
        try:
            text = joined((await self._files.read(path, kind)).content)
        except InvalidArgument:
            # A notebook that breaks off is no JSON.
            return kind is FileKind.NOTEBOOK
        return kind is FileKind.FILE and text != content and joined(content).startswith(text)


def _mark(info: FileInfo) -> tuple[int | None, datetime]:
    return info.size, info.last_modified
