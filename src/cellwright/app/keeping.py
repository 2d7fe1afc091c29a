"""The places where a thinking notebook can be kept: a notebook of the Jupyter workspace, or a pad."""

from dataclasses import dataclass

from cellwright.core.formats.ipynb import to_notebook
from cellwright.core.formats.model import Book
from cellwright.core.keeping import Kept
from cellwright.core.types import Call
from cellwright.jupyter.model import FileKind
from cellwright.jupyter.paths import NotebookPath
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.documents_common import DocumentFiles
from cellwright.scratch.books import drafts_of
from cellwright.scratch.service import Pads

PAD = "scratchpad://"


@dataclass(frozen=True, slots=True)
class NotebookKeeper:
    """Keeps a notebook as an .ipynb file, where people open it in JupyterLab."""

    notebooks: LiveNotebooks
    allow_hidden: bool = False
    example: str = "folder/name.ipynb"

    def takes(self, path: str) -> bool:
        return path.endswith(".ipynb") and "://" not in path

    async def keep(self, call: Call, path: str, book: Book) -> Kept:
        checked = NotebookPath(DocumentFiles(self.notebooks, self.allow_hidden).path(path).text)
        connected = await self.notebooks.connected(call)
        await connected.found.jupyter.documents.create(checked, FileKind.NOTEBOOK, to_notebook(book))
        return Kept(checked.text, f"jupyter://{checked.quoted}")


@dataclass(frozen=True, slots=True)
class PadKeeper:
    """Keeps a notebook as a pad: its sources, found again by search."""

    pads: Pads
    example: str = "scratchpad://ID"

    def takes(self, path: str) -> bool:
        return path.startswith(PAD)

    async def keep(self, call: Call, path: str, book: Book) -> Kept:
        wanted = path.removeprefix(PAD) or None
        metadata, drafts, losses = drafts_of(book)
        made = await self.pads.create_new(call.principal.id, wanted, metadata, drafts)
        pad = made.view.pad.id
        return Kept(f"{PAD}{pad}", f"{PAD}{pad}", tuple(losses))
