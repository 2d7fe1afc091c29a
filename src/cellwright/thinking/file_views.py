"""`file:///notebooks/…`: thinking notebooks and their cells as files, in a folder for each session. These are not files on the disk.

The protocol allows addresses of this scheme for resources that only behave like files. They are read, never written; changes are announced
under `notebook://`.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from cellwright.core.resources import Content, ResourceInfo, ResourceTemplate
from cellwright.core.types import Call
from cellwright.notebook.model import Cell, Kind, extension_of
from cellwright.thinking.model import InvalidNotebookUri, ThinkingNotebook, ThinkingView, no_notebook
from cellwright.thinking.resources import cell_content, notebook_content
from cellwright.thinking.service import Thinking
from cellwright.thinking.store import no_cell

SCHEME = "file"
FOLDER = "file:///notebooks/{session}"
LATEST = "notebook"
"""The name of the notebook that was used last in its session. Every other notebook is named by its id."""
ENDINGS: Mapping[str, str] = {
    ".src.md": "srcmd",
    ".ipynb": "ipynb",
    ".json": "json",
    ".md": "md",
    ".html": "html",
}
"""The formats by the endings of file names; the first ending that matches counts."""
_ADDRESS = re.compile(
    r"file:///notebooks/(?P<session>[A-Za-z0-9-]{1,64})/(?P<cells>cells/)?(?P<file>[A-Za-z0-9._-]{1,200})"
)


class NotebookFiles:
    """The thinking notebooks of one workspace as files, each caller's own."""

    scheme = SCHEME

    def __init__(self, thinking: Thinking) -> None:
        self._thinking = thinking

    def templates(self) -> Sequence[ResourceTemplate]:
        endings = ", ".join(ENDINGS)
        return (
            ResourceTemplate(
                f"{FOLDER}/notebook.src.md",
                "latest notebook as a file",
                "The thinking notebook that was used last in a session",
                "text/markdown",
            ),
            ResourceTemplate(
                f"{FOLDER}/{{file}}", "thinking notebook as a file", f"A notebook's id, or notebook, with {endings}"
            ),
            ResourceTemplate(
                f"{FOLDER}/cells/{{file}}",
                "cell as a file",
                "A cell by its file name, or by its id and its language's ending",
            ),
        )

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        """Nothing: the same notebooks are listed under `notebook://`."""
        del call
        return ()

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        address = _ADDRESS.fullmatch(uri)
        if address is None:
            raise InvalidNotebookUri(
                f"Unknown resource: {uri[:200]!a}",
                hint="file:///notebooks/SESSION/notebook.src.md, or …/SESSION/cells/FILE; other files are context://file/PATH",
            )
        if address["cells"]:
            return [_cell_file(await self._views(call, address["session"]), address["file"])]
        return [await self._notebook_file(call, address["session"], address["file"])]

    async def _notebook_file(self, call: Call, session: str, file: str) -> Content:
        ending = next((ending for ending in ENDINGS if file.endswith(ending)), None)
        if ending is None:
            raise no_notebook()
        name = file.removesuffix(ending)
        if name == LATEST:
            name = next((notebook.id for notebook in await self._notebooks(call, session)), "")
        return notebook_content(*await self._thinking.text(call, name, ENDINGS[ending], session))

    async def _notebooks(self, call: Call, session: str) -> Sequence[ThinkingNotebook]:
        """The notebooks of a session, last used first."""
        return [notebook for notebook in await self._thinking.all_of(call) if notebook.session == session]

    async def _views(self, call: Call, session: str) -> Sequence[ThinkingView]:
        return [await self._thinking.read(call, notebook.id) for notebook in await self._notebooks(call, session)]

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        del call, uri
        return None

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        session, _, file_part = template.removeprefix("file:///notebooks/").partition("/")
        values: Sequence[str] = ()
        if argument == "session":
            values = list(dict.fromkeys(notebook.session for notebook in await self._thinking.all_of(call)))
        elif argument == "file" and file_part.startswith("cells/"):
            values = [
                cell.filename or _default_filename(view.notebook, cell)
                for view in await self._views(call, session)
                for cell in view.cells
            ]
        elif argument == "file":
            names = [LATEST, *(notebook.id for notebook in await self._notebooks(call, session))]
            values = [f"{name}{ending}" for name in names for ending in ENDINGS] if len(names) > 1 else []
        return [value for value in values if value.startswith(prefix)]


def _cell_file(views: Sequence[ThinkingView], file: str) -> Content:
    for view in views:
        for cell in view.cells:
            if file in (cell.filename, _default_filename(view.notebook, cell)):
                return cell_content(view.notebook, cell)
    raise no_cell(file)


def _default_filename(notebook: ThinkingNotebook, cell: Cell) -> str:
    if cell.kind is Kind.CODE:
        return f"{cell.id}.{extension_of(cell.language or notebook.language)}"
    return f"{cell.id}.{'md' if cell.kind is Kind.MARKDOWN else 'txt'}"
