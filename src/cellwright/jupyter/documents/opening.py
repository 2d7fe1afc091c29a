"""Opening documents: by joining their room, or by reading the file where the server shares nothing."""

from contextlib import suppress
from typing import Any

from pycrdt import Doc

from cellwright.core.errors import CellwrightError, InvalidArgument
from cellwright.jupyter.documents.backing import Backing, FileBacking, RoomBacking
from cellwright.jupyter.documents.first_alone import FirstAlone
from cellwright.jupyter.documents.open_document import AnyView
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.room import Room
from cellwright.jupyter.documents.shareable import not_shared
from cellwright.jupyter.documents.text import NotText, TextDocument
from cellwright.jupyter.edits.history import Histories
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.files.unreadable import opened
from cellwright.jupyter.model import FileKind, RoomKind
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.port import Documents
from cellwright.notebook.model import InvalidFormat, joined

FIRST_JOIN_SECONDS = 15.0
"""How long others wait for the first document. Jupyter creates the store of all documents then, and two at once break it."""


class Opener:
    """Opens the documents of one server, in the name of one collaborator."""

    def __init__(self, documents: Documents, collaborator: Collaborator) -> None:
        self._documents = documents
        self._collaborator = collaborator
        self._joining = FirstAlone(FIRST_JOIN_SECONDS)
        self._histories = Histories()

    async def open(self, path: DocPath, kind: RoomKind) -> tuple[AnyView, Backing]:
        text = await self._text_of(path) if kind is RoomKind.TEXT else ""
        opening = self._join(path, kind) if await self._documents.live() else self._read(path, kind)
        view, backing = await (opening if kind is RoomKind.TEXT else opened(self._documents, path, opening))
        if isinstance(view, TextDocument):
            view.rewrites_line_ends = view.adapted(text) != text
        return view, backing

    async def _text_of(self, path: DocPath) -> str:
        """The file's text. It is read before a room is made of it: of a file that is not text, the room would hold the base64."""
        info = await self._documents.stat(path)
        if info.kind is FileKind.DIRECTORY:
            raise InvalidArgument(f"{path} is a folder", hint="list_documents shows what is in it")
        file = await self._documents.read(path, FileKind.FILE)
        if file.format != "text":
            raise NotText(
                f"{path} is not text: {info.size or 0:,} bytes of {info.mime_type or 'unknown kind'}",
                hint="get_document_info describes it, and with include_content shows a picture",
                details={"size": info.size, "mimetype": info.mime_type},
            )
        return joined(file.content)

    async def _join(self, path: DocPath, kind: RoomKind) -> tuple[AnyView, Backing]:
        async with self._joining.turn():
            room = Room(await self._documents.join(path, kind), self._collaborator)
            view = self._view(room.doc, path, kind, shared=True)
            try:
                await room.join()
            finally:
                if not room.is_open:
                    view.close()
        backing = RoomBacking(room, self._documents, path)
        # So that a later look knows whether another program wrote the file meanwhile. Without it, the next save finds that out.
        with suppress(CellwrightError):
            await backing.writes.look()
        return view, backing

    async def _read(self, path: DocPath, kind: RoomKind) -> tuple[AnyView, Backing]:
        file_kind = FileKind.NOTEBOOK if kind is RoomKind.NOTEBOOK else FileKind.FILE
        file = await self._documents.read(path, file_kind)
        if problem := not_shared(file.content):
            raise InvalidFormat(
                f"{path} cannot be opened: it {problem}", hint="mend that in the file with a text editor"
            )
        view = self._view(Doc(), path, kind, shared=False)
        if isinstance(view, LiveNotebook):
            view.fill(file.content)
            return view, FileBacking(self._documents, path, file_kind, file.info, view.as_json)
        view.fill(joined(file.content))
        return view, FileBacking(self._documents, path, file_kind, file.info, lambda: view.text)

    def _view(self, doc: Doc[Any], path: DocPath, kind: RoomKind, *, shared: bool) -> AnyView:
        if kind is RoomKind.TEXT:
            return TextDocument(doc, path.text, shared=shared)
        return LiveNotebook(doc, path.text, self._histories.of(path.text))
