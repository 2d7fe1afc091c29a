"""Where books can be put: a notebook or a file of the workspace, a pad, a new thinking notebook. What is there stays, unless told."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cellwright.app.exchange.address import SHAPES, Where, address_of
from cellwright.app.exchange.texts import format_of, no_format
from cellwright.core.errors import Conflict, InvalidArgument, NotFound
from cellwright.core.formats.ipynb import from_notebook, to_notebook
from cellwright.core.formats.losses import difference, told
from cellwright.core.formats.model import Book
from cellwright.core.formats.writing import written
from cellwright.core.types import Call
from cellwright.jupyter.model import FileKind, JsonObject
from cellwright.jupyter.overwriting import overwrite
from cellwright.jupyter.paths import DocPath, NotebookPath
from cellwright.jupyter.port import Documents
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import author_of
from cellwright.jupyter.tools.documents_common import DocumentFiles
from cellwright.scratch.books import book_of, drafts_of
from cellwright.scratch.model import ID, CellDraft
from cellwright.scratch.service import Pads
from cellwright.thinking.service import Thinking

OVERWRITE_HINT = "give another place, or overwrite: true"


@dataclass(frozen=True, slots=True)
class Put:
    """Where a book is now, in words what that place does not have of it, and what else to know."""

    path: str
    uri: str
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Places:
    files: DocumentFiles
    pads: Pads
    thinking: Thinking

    async def put(self, call: Call, into: str, book: Book, *, over: bool) -> Put:
        """Write the book there. Without `over`, Conflict if there is something already."""
        address = address_of(into)
        match address.where:
            case Where.PAD if not address.part:
                return await put_pad(self.pads, call, address.name or None, book, over=over)
            case Where.THINKING if not address.name:
                return await self._thinking(call, book)
            case Where.FILE:
                return await self._file(call, self.files.path(address.name), book, over=over)
            case _:
                raise InvalidArgument(
                    f"{into[:80]!a} is no place to write to",
                    hint=f"notebook:// makes a new thinking notebook; else {SHAPES.rpartition(',')[0]}, each as a whole",
                )

    async def _thinking(self, call: Call, book: Book) -> Put:
        view, notes = await self.thinking.import_book(call, book)
        kept = await self.thinking.book(call, view.notebook.id)
        lost = await asyncio.to_thread(difference, book, kept, "a thinking notebook")
        return Put(view.notebook.uri, view.notebook.uri, tuple(told((), lost)), tuple(notes))

    async def _file(self, call: Call, path: DocPath, book: Book, *, over: bool) -> Put:
        if path.is_notebook:
            return await put_notebook(self.files.notebooks, call, NotebookPath(path.text), book, over=over)
        format_name = format_of(path.text)
        if format_name is None:
            raise no_format(path.text)
        made = await asyncio.to_thread(written, book, format_name)
        connected = await self.files.notebooks.connected(call)
        if over and await _exists(connected.found.jupyter.documents, path):
            async with connected.rooms.document(path) as document:
                await document.change(lambda view: view.overwrite(made.text, author=author_of(call)))
        else:
            await _created(connected.found.jupyter.documents, path, FileKind.FILE, made.text)
        return Put(path.text, path.text, tuple(made.losses))


async def put_notebook(notebooks: LiveNotebooks, call: Call, path: NotebookPath, book: Book, *, over: bool) -> Put:
    """A notebook of the workspace: a new file, or the document that people may have open."""
    content, lost = await asyncio.to_thread(_as_notebook, book)
    put = Put(path.text, f"jupyter://{path.quoted}", tuple(told((), lost)))
    connected = await notebooks.connected(call)
    documents = connected.found.jupyter.documents
    if not over or not await _exists(documents, path):
        await _created(documents, path, FileKind.NOTEBOOK, content)
        return put
    async with connected.rooms.notebook(path) as document:
        changed, _ = await document.change(lambda view: overwrite(view, content, author=author_of(call)))
    return replace(
        put, notes=(f"{changed} cells went or came; undo_nb_edit takes it back, in two steps",) if changed else ()
    )


def _as_notebook(book: Book) -> tuple[JsonObject, dict[str, str]]:
    content = to_notebook(book)
    return content, difference(book, from_notebook(content), "ipynb")


async def put_pad(pads: Pads, call: Call, pad_id: str | None, book: Book, *, over: bool) -> Put:
    """A pad of the caller, new or reset. Its earlier versions stay."""
    owner = call.principal.id
    metadata, drafts, _ = drafts_of(book)
    create = pads.create if over else pads.create_new
    try:
        made = await create(owner, pad_id, metadata, _with_ids(drafts, book))
    except Conflict as taken:
        raise Conflict(taken.message, hint=OVERWRITE_HINT, details=taken.details) from taken
    view = await pads.read(owner, made.view.pad.id)
    lost = await asyncio.to_thread(difference, book, book_of(view.pad, view.cells), "a pad")
    uri = f"scratchpad://{view.pad.id}"
    gone = [f"the pad {one} went to make room" for one in made.evicted]
    return Put(uri, uri, tuple(told((), lost)), tuple(gone))


def _with_ids(drafts: Sequence[CellDraft], book: Book) -> list[CellDraft]:
    """Each cell under the id it had, where a pad can have it: what refers to it goes on to do so."""
    seen: set[str] = set()
    made: list[CellDraft] = []
    for draft, cell in zip(drafts, book.cells, strict=True):
        good = ID.fullmatch(cell.id) is not None and cell.id not in seen
        seen.add(cell.id)
        made.append(replace(draft, cell_id=cell.id) if good else draft)
    return made


async def _exists(documents: Documents, path: DocPath) -> bool:
    try:
        await documents.stat(path)
    except NotFound:
        return False
    return True


async def _created(documents: Documents, path: DocPath, kind: FileKind, content: JsonObject | str) -> None:
    try:
        await documents.create(path, kind, content)
    except Conflict as taken:
        raise Conflict(taken.message, hint=OVERWRITE_HINT, details=taken.details) from taken
