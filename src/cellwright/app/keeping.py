"""The places where a thinking notebook can be kept: a notebook of the Jupyter workspace, or a pad."""

from dataclasses import dataclass

from cellwright.app.exchange.places import put_notebook, put_pad
from cellwright.core.formats.model import Book
from cellwright.core.keeping import Kept
from cellwright.core.types import Call
from cellwright.jupyter.paths import NotebookPath
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.documents_common import DocumentFiles
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
        put = await put_notebook(self.notebooks, call, checked, book, over=False)
        return Kept(put.path, put.uri, put.losses)


@dataclass(frozen=True, slots=True)
class PadKeeper:
    """Keeps a notebook as a pad: its sources, found again by search."""

    pads: Pads
    example: str = "scratchpad://ID"

    def takes(self, path: str) -> bool:
        return path.startswith(PAD)

    async def keep(self, call: Call, path: str, book: Book) -> Kept:
        put = await put_pad(self.pads, call, path.removeprefix(PAD) or None, book, over=False)
        return Kept(put.path, put.uri, put.losses)
