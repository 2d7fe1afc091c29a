"""What the document tools share: their service, argument types, and what is said of a file or of a text."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.budget import MAX_TOKENS
from cellwright.core.types import Call
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.documents.text import Excerpt, TextDocument
from cellwright.jupyter.files.paths import DocPath, folder_path
from cellwright.jupyter.model import FileInfo, FileKind, RoomKind
from cellwright.jupyter.port import Documents
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.documents.shown import ShownTexts

DEFAULT_CONTENT = 32_768
MAX_CONTENT = 1_000_000
PAGE_TOKENS = 5_000
BESIDES_TOKENS = 800
"""What a result says besides the text."""
TEXT_TOKENS = min(18_000, MAX_TOKENS - BESIDES_TOKENS)
"""More text than this no client takes in one result, however many characters were asked for."""
SNIFF_BYTES = 1024 * 1024
"""Up to this size a file is read to tell whether it is text; a larger one is judged by its name."""

Path = Annotated[str, Field(description="file, relative to the server's root")]
MaxContent = Annotated[int, Field(ge=1, le=MAX_CONTENT, description="characters to return at most")]


@dataclass(frozen=True, slots=True)
class DocumentFiles:
    """The service of the document tools."""

    notebooks: LiveNotebooks
    allow_hidden: bool = False
    """Whether files and folders whose names begin with a dot may be touched, as far as Jupyter itself lets us."""
    shown: ShownTexts = field(default_factory=ShownTexts)

    def path(self, text: str) -> DocPath:
        """A path as the tools take it. Nothing hidden: settings, keys, checkpoints."""
        return self._not_hidden(DocPath(text))

    def folder(self, text: str) -> DocPath | None:
        folder = folder_path(text)
        return self._not_hidden(folder) if folder else None

    def text_path(self, text: str, instead: str) -> DocPath:
        """The path of a text document; a notebook has tools of its own."""
        path = self.path(text)
        if path.is_notebook:
            raise InvalidArgument(f"{path} is a notebook, not a text document", hint=f"Use {instead}")
        return path

    def _not_hidden(self, path: DocPath) -> DocPath:
        if path.is_hidden and not self.allow_hidden:
            raise InvalidArgument(
                f"{path.text!a} is hidden; hidden files and checkpoints are not for these tools",
                hint="Choose a path in which no name begins with a dot",
            )
        return path

    @asynccontextmanager
    async def text(self, call: Call, path: DocPath) -> AsyncGenerator[OpenDocument[TextDocument]]:
        """The live document, held open for the block."""
        connected = await self.notebooks.connected(call)
        async with connected.rooms.document(path) as document:
            call.news.extend(connected.rooms.news(path, RoomKind.TEXT, call.principal.id))
            yield document


def url_of(info: FileInfo, pages: str | None) -> str | None:
    """Where a person opens it; None on a server without pages, and for a name that our own tools would refuse."""
    try:
        return f"{pages}/{DocPath(info.path).quoted}" if pages else None
    except InvalidArgument:
        return None


class DescribedFile(TypedDict):
    name: str
    path: str
    type: str
    created: str
    last_modified: str
    size: int | None
    writable: bool
    url: str | None


def described(info: FileInfo, pages: str | None) -> DescribedFile:
    return {
        "name": info.name,
        "path": info.path,
        "type": info.kind.value,
        "created": info.created.isoformat(),
        "last_modified": info.last_modified.isoformat(),
        "size": info.size,
        "writable": info.writable,
        "url": url_of(info, pages),
    }


async def format_of(documents: Documents, path: DocPath, info: FileInfo) -> str | None:
    """How Jupyter would give the contents. Its own answer has that only together with them."""
    if info.kind is not FileKind.FILE:
        return "json"
    if (info.size or 0) > SNIFF_BYTES:
        return None if info.mime_type is None else "text" if info.mime_type.startswith("text/") else "base64"
    try:
        return (await documents.read(path, FileKind.FILE)).format
    except InvalidArgument:
        # A pipe or a device: it is there, and cannot be read.
        return None


class OmittedSpan(TypedDict):
    position: int
    length: int


def omitted(part: Excerpt) -> OmittedSpan | None:
    return None if part.omitted is None else {"position": part.omitted[0], "length": part.omitted[1]}


class UnseenCharacters(TypedDict, total=False):
    unseen_characters: int
    note: str


def unseen(part: Excerpt) -> UnseenCharacters:
    if not part.unseen:
        return {}
    return {
        "unseen_characters": part.unseen,
        "note": "control pictures like ␍ and � stand for characters that cannot be seen; positions count them",
    }


class LineEndsNote(TypedDict, total=False):
    line_ends: str


def line_ends(view: TextDocument) -> LineEndsNote:
    if not view.rewrites_line_ends:
        return {}
    return {"line_ends": r"the file had \r\n when it was opened; the shared document has \n, and Jupyter saves those"}
