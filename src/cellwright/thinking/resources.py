"""`notebook://`: thinking notebooks for reading and watching. Reading changes nothing and runs nothing."""

import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace

from pydantic_core import to_json

from cellwright.core.errors import CellwrightError, NotFound
from cellwright.core.resources import Content, ResourceInfo, ResourceTemplate
from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.types import Call
from cellwright.notebook.formats.registry import FORMATS
from cellwright.notebook.model import Cell
from cellwright.notebook.run import RunView
from cellwright.thinking.model import BLANK, InvalidNotebookUri, ThinkingNotebook, no_current, no_notebook
from cellwright.thinking.outputs import Cleaner, output_content
from cellwright.thinking.reading import FORMS, JSON_MIME, Text, cell_meta, cell_source, execution_json, meta_of, moment
from cellwright.thinking.service import Thinking
from cellwright.thinking.store import no_cell

SCHEME = "notebook"
_PART = re.compile(r"[A-Za-z0-9._~-]{1,128}")
_NUMBER = re.compile(r"[0-9]{1,6}")
_MARKDOWN = "text/markdown"
ALONE = ("list", "current", "templates")
"""Names in the place of a session that never are one."""
MAX_PARTS = 4
"""Parts of an address; the address of an output has two more."""
WATCHED = "can be watched"
LIST = ResourceInfo("notebook://list", "Active Notebooks", f"Your thinking notebooks; {WATCHED}", JSON_MIME)
CURRENT = ResourceInfo(
    "notebook://current", "Current Notebook", f"The notebook that you used last in this session; {WATCHED}", _MARKDOWN
)
TEMPLATES = ResourceInfo("notebook://templates", "Notebook Templates", "The reasoning templates", JSON_MIME)
FIXED = (LIST, CURRENT, TEMPLATES)
"""The addresses that are always the same."""


class ThinkingResources:
    """The thinking notebooks of one workspace, each caller's own."""

    scheme = SCHEME

    def __init__(self, thinking: Thinking) -> None:
        self._thinking = thinking

    def templates(self) -> Sequence[ResourceTemplate]:
        base = "notebook://{session}/{notebook}"
        return (
            ResourceTemplate(
                base, "thinking notebook", f"The notebook as Srcbook markdown; {WATCHED}, as all below it", _MARKDOWN
            ),
            ResourceTemplate(f"{base}/{{format}}", "notebook as a file", f"As {', '.join(FORMATS)}, or its cells"),
            ResourceTemplate(f"{base}/cells/{{cell}}", "cell of a notebook", "The source of one cell"),
            ResourceTemplate(
                f"{base}/cells/{{cell}}/outputs/{{n}}",
                "output of a notebook",
                "One output in full, pictures as bytes; not watched by itself",
                "*/*",
            ),
            ResourceTemplate(
                f"{base}/executions/{{execution}}", "run of a notebook", "Status, outputs and timing", JSON_MIME
            ),
            ResourceTemplate(
                "notebook://templates/{pattern}", "reasoning template", "The template as markdown", _MARKDOWN
            ),
        )

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        notebooks, current = await self._thinking.all_of(call), await self._thinking.current(call)
        resources = [replace(LIST, description=f"{counted(len(notebooks), 'active notebook')}; {WATCHED}")]
        # Only if there is one, so that every listed resource can be read without an error.
        resources += [replace(CURRENT, meta=meta_of(current))] if current is not None else []
        for notebook in notebooks:
            # The title is left out because anybody may have written it; notebook://list has it, as data.
            name, cells, meta = (
                f"{notebook.pattern or BLANK} Notebook",
                counted(notebook.cell_count, "cell"),
                meta_of(notebook),
            )
            about = f"Notebook for session {notebook.session}: {cells}; {WATCHED}"
            resources.append(ResourceInfo(notebook.uri, name, about, _MARKDOWN, meta))
            resources.append(ResourceInfo(f"{notebook.uri}/cells", f"{name} Cells", cells, JSON_MIME, meta))
        patterns = counted(len(self._thinking.patterns), "reasoning template")
        return [*resources, replace(TEMPLATES, description=patterns)]

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        session, *segments = _parts(uri)
        if session in ALONE:
            return [await self._read_alone(call, session, segments)]
        if not segments:
            raise InvalidNotebookUri(f"{uri[:200]!r} names no notebook", hint="notebook://SESSION/NOTEBOOK")
        notebook_id, *segments = segments
        match segments:
            case []:
                return [self._content(call, *await self._thinking.text(call, notebook_id, "srcmd", session))]
            case [form] if form in FORMS:
                return [self._content(call, *await self._thinking.text(call, notebook_id, form, session))]
            case ["cells", cell_id]:
                return [cell_content(*await self._find_cell(call, session, notebook_id, cell_id))]
            case ["cells", cell_id, "outputs", number] if _NUMBER.fullmatch(number):
                return [await self._output(call, session, notebook_id, cell_id, int(number))]
            case ["executions", execution_id]:
                return [await self._execution(call, session, notebook_id, execution_id)]
            case _:
                await self._thinking.read(call, notebook_id, session)
                raise NotFound(
                    f"Unknown format: {segments[0]}",
                    hint=f"{', '.join(FORMS)}, cells/CELL, cells/CELL/outputs/N, executions/EXECUTION",
                )

    async def _read_alone(self, call: Call, first: str, segments: Sequence[str]) -> Content:
        match (first, segments):
            case ("list", []):
                notebooks = await self._thinking.all_of(call)
                return Content(_json([_summary(notebook) for notebook in notebooks]), JSON_MIME)
            case ("current", []):
                notebook = await self._thinking.current(call)
                if notebook is None:
                    raise no_current()
                return self._content(call, *await self._thinking.text(call, notebook.id, "srcmd"))
            case ("templates", []):
                return Content(_json([self._pattern(name) for name in self._thinking.patterns]), JSON_MIME)
            case ("templates", [name]) if name in self._thinking.patterns:
                encoded = FORMATS["srcmd"].encode(self._thinking.patterns[name].notebook)
                return Content(encoded.text, encoded.mime_type, {**self._pattern(name)})
            case ("templates", [name]):
                raise NotFound(f"Template not found: {name}", hint="notebook://templates has them")
            case _:
                raise no_notebook()

    def _pattern(self, name: str) -> dict[str, object]:
        pattern = self._thinking.patterns[name]
        about: dict[str, object] = {"pattern": name, "title": pattern.title, "description": pattern.description}
        return {**about, "language": pattern.notebook.language, "cellCount": len(pattern.notebook.cells)}

    async def _output(self, call: Call, session: str, notebook_id: str, cell_id: str, number: int) -> Content:
        notebook, cell = await self._find_cell(call, session, notebook_id, cell_id)
        if number >= len(cell.outputs):
            raise NotFound(
                f"the cell has {counted(len(cell.outputs), 'output')}, counted from 0",
                hint="read the cell for what there is",
            )
        content = output_content(cell.outputs[number])
        return replace(content, meta={**meta_of(notebook), "cellId": cell.id, **content.meta})

    async def _find_cell(
        self, call: Call, session: str, notebook_id: str, cell_id: str
    ) -> tuple[ThinkingNotebook, Cell]:
        view = await self._thinking.read(call, notebook_id, session)
        for cell in view.cells:
            if cell.id == cell_id:
                return view.notebook, cell
        raise no_cell(cell_id)

    async def _execution(self, call: Call, session: str, notebook_id: str, execution_id: str) -> Content:
        notebook, run = await self._thinking.execution(call, notebook_id, execution_id, session)
        if run is None:
            raise NotFound("Execution not found", hint="a notebook's latest runs are kept")
        body = execution_json(run, lambda cell: list(cell.outputs)) if isinstance(run, RunView) else run
        cleaner = Cleaner()
        text = Text(_json(cleaner.json(body)), JSON_MIME, hidden=cleaner.hidden)
        return self._content(call, notebook, text)

    def _content(self, call: Call, notebook: ThinkingNotebook, text: Text) -> Content:
        return notebook_content(notebook, text, self._thinking.kernel_note(call.principal.id, notebook))

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        if uri == CURRENT.uri:
            return nullcontext()
        if "/outputs/" in uri:
            return None  # changes are announced for the cell
        try:
            await self.read(call, uri)
        except CellwrightError:
            return None
        return nullcontext()

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        session, notebook_id = _session_and_notebook(template)
        notebooks = [notebook for notebook in await self._thinking.all_of(call) if session in (None, notebook.session)]
        values: Sequence[str] = ()
        match argument:
            case "session":
                values = list(dict.fromkeys(notebook.session for notebook in notebooks))
            case "notebook":
                values = [notebook.id for notebook in notebooks]
            case "format":
                values = FORMS
            case "pattern":
                values = list(self._thinking.patterns)
            case "cell":
                values = await self._cell_ids(call, notebook_id)
            case "execution":
                values = await self._thinking.executions(call, notebook_id)
            case _:
                pass
        return [value for value in values if value.startswith(prefix)]

    async def _cell_ids(self, call: Call, notebook_id: str | None) -> Sequence[str]:
        """The cells of this notebook; without an id, of the current one."""
        if notebook_id is None:
            current = await self._thinking.current(call)
            notebook_id = current.id if current is not None else ""
        try:
            return [cell.id for cell in (await self._thinking.read(call, notebook_id)).cells]
        except NotFound:
            return []


def _session_and_notebook(template: str) -> tuple[str | None, str | None]:
    """The session and the notebook that are filled into a template already; None for each that is not."""
    parts = [*template.removeprefix(f"{SCHEME}://").split("/"), "{"]
    session, notebook_id = (None if part.startswith("{") else part for part in parts[:2])
    return session, notebook_id


def _parts(uri: str) -> list[str]:
    parts = uri.removeprefix(f"{SCHEME}://").split("/")
    names_output = len(parts) == MAX_PARTS + 2 and (parts[2], parts[4]) == ("cells", "outputs")
    if not (len(parts) <= MAX_PARTS or names_output) or not all(_PART.fullmatch(part) for part in parts):
        raise InvalidNotebookUri(
            f"{uri[:200]!a} is not the address of a notebook", hint="notebook://list, or notebook://SESSION/NOTEBOOK/…"
        )
    return parts


def _summary(notebook: ThinkingNotebook) -> dict[str, object]:
    return {
        "id": notebook.id,
        "sessionId": notebook.session,
        "cellCount": notebook.cell_count,
        "pattern": notebook.pattern or None,
        "title": clean(notebook.title).text,
        "createdAt": moment(notebook.created),
        "lastModified": moment(notebook.modified),
    }


def cell_content(notebook: ThinkingNotebook, cell: Cell) -> Content:
    """The source of a cell."""
    text = cell_source(notebook, cell)
    meta = {**meta_of(notebook), **Cleaner().json(cell_meta(notebook, cell))}
    return Content(text.body, text.mime_type, {**meta, **_hidden(text)})


def notebook_content(notebook: ThinkingNotebook, text: Text, kernel_note: str = "") -> Content:
    losses: dict[str, object] = {"losses": list(text.losses)} if text.losses else {}
    note = {"kernelNote": kernel_note} if kernel_note else {}
    return Content(text.body, text.mime_type, {**meta_of(notebook), **note, **losses, **_hidden(text)})


def _hidden(text: Text) -> dict[str, object]:
    return {"hiddenCharactersRemoved": text.hidden} if text.hidden else {}


def _json(value: object) -> str:
    return to_json(value).decode()
