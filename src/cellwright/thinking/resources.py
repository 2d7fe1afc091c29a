"""`notebook://`: thinking notebooks for reading and watching. Reading changes nothing and runs nothing."""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from pydantic_core import to_json

from cellwright.core.clean import clean
from cellwright.core.errors import CellwrightError, InvalidUri, NotFound
from cellwright.core.formats.formats import FORMATS
from cellwright.core.resources import Content, ResourceInfo, ResourceTemplate
from cellwright.core.running import RunView
from cellwright.core.types import Call
from cellwright.thinking.model import BLANK, Notebook, no_notebook
from cellwright.thinking.outputs import Cleaner
from cellwright.thinking.reading import FORMS, JSON_MIME, Text, cell_meta, cell_source, execution_json, meta_of, moment
from cellwright.thinking.service import Thinking
from cellwright.thinking.store import no_cell

SCHEME = "notebook"
_PART = re.compile(r"[A-Za-z0-9._~-]{1,128}")
_MARKDOWN = "text/markdown"
ALONE = ("list", "current", "templates")
"""What stands where a session would, and never is one."""
MAX_PARTS = 4


class ThinkingResources:
    """The thinking notebooks of one workspace, each caller's own."""

    scheme = SCHEME

    def __init__(self, thinking: Thinking) -> None:
        self._thinking = thinking

    def templates(self) -> Sequence[ResourceTemplate]:
        base = "notebook://{session}/{notebook}"
        return (
            ResourceTemplate(base, "thinking notebook", "The notebook as Srcbook markdown", _MARKDOWN),
            ResourceTemplate(f"{base}/{{format}}", "notebook as a file", f"As {', '.join(FORMATS)}, or its cells"),
            ResourceTemplate(f"{base}/cells/{{cell}}", "cell of a notebook", "The source of one cell"),
            ResourceTemplate(
                f"{base}/executions/{{execution}}", "run of a notebook", "Status, outputs and timing", JSON_MIME
            ),
            ResourceTemplate(
                "notebook://templates/{pattern}", "reasoning template", "The template as markdown", _MARKDOWN
            ),
        )

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        found = await self._thinking.all_of(call)
        listed = [ResourceInfo("notebook://list", "Active Notebooks", f"{len(found)} active notebooks", JSON_MIME)]
        for notebook in found:
            # Neither says the title, which may be anybody's words: it is data, in notebook://list.
            name, cells = f"{notebook.pattern or BLANK} Notebook", f"{notebook.cell_count} cells"
            listed.append(ResourceInfo(notebook.uri, name, f"A notebook to think in, of {cells}", _MARKDOWN))
            listed.append(ResourceInfo(f"{notebook.uri}/cells", f"{name} Cells", cells, JSON_MIME))
        patterns = f"{len(self._thinking.patterns)} reasoning templates"
        return [*listed, ResourceInfo("notebook://templates", "Notebook Templates", patterns, JSON_MIME)]

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        first, *rest = _parts(uri)
        if first in ALONE:
            return [await self._alone(call, first, rest)]
        if not rest:
            raise InvalidUri(f"{uri[:200]!r} names no notebook", hint="notebook://SESSION/NOTEBOOK")
        notebook_id, *rest = rest
        match rest:
            case []:
                return [_content(*await self._thinking.text(call, notebook_id, "srcmd", first))]
            case [form] if form in FORMS:
                return [_content(*await self._thinking.text(call, notebook_id, form, first))]
            case ["cells", cell_id]:
                return [await self._cell(call, first, notebook_id, cell_id)]
            case ["executions", execution_id]:
                return [await self._execution(call, first, notebook_id, execution_id)]
            case _:
                await self._thinking.read(call, notebook_id, first)
                raise NotFound(
                    f"Unknown format: {rest[0]}", hint=f"{', '.join(FORMS)}, cells/CELL, executions/EXECUTION"
                )

    async def _alone(self, call: Call, first: str, rest: Sequence[str]) -> Content:
        match (first, rest):
            case ("list", []):
                return Content(_json([_summary(one) for one in await self._thinking.all_of(call)]), JSON_MIME)
            case ("current", []):
                notebook = await self._thinking.current(call)
                if notebook is None:
                    raise no_notebook()
                return _content(*await self._thinking.text(call, notebook.id, "srcmd"))
            case ("templates", []):
                return Content(_json([self._pattern(name) for name in self._thinking.patterns]), JSON_MIME)
            case ("templates", [name]) if name in self._thinking.patterns:
                made = FORMATS["srcmd"].encode(self._thinking.patterns[name].book)
                return Content(made.text, made.mime_type, {**self._pattern(name)})
            case ("templates", [name]):
                raise NotFound(f"Template not found: {name}", hint="notebook://templates has them")
            case _:
                raise no_notebook()

    def _pattern(self, name: str) -> dict[str, object]:
        found = self._thinking.patterns[name]
        about: dict[str, object] = {"pattern": name, "title": found.title, "description": found.description}
        return {**about, "language": found.book.language, "cellCount": len(found.book.cells)}

    async def _cell(self, call: Call, session: str, notebook_id: str, cell_id: str) -> Content:
        view = await self._thinking.read(call, notebook_id, session)
        for cell in view.cells:
            if cell.id == cell_id:
                text = cell_source(view.notebook, cell)
                meta = {**meta_of(view.notebook), **Cleaner().json(cell_meta(view.notebook, cell))}
                return Content(text.body, text.mime_type, {**meta, **_hidden(text)})
        raise no_cell(cell_id)

    async def _execution(self, call: Call, session: str, notebook_id: str, execution_id: str) -> Content:
        notebook, found = await self._thinking.execution(call, notebook_id, execution_id, session)
        if found is None:
            raise NotFound("Execution not found", hint="a notebook's latest runs are kept")
        body = execution_json(found, lambda cell: list(cell.outputs)) if isinstance(found, RunView) else found
        cleaner = Cleaner()
        text = Text(_json(cleaner.json(body)), JSON_MIME, hidden=cleaner.hidden)
        return _content(notebook, text)

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        if uri == "notebook://current":
            return _nothing_to_hold()
        try:
            await self.read(call, uri)
        except CellwrightError:
            return None
        return _nothing_to_hold()

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        session, notebook_id = _chosen(template)
        mine = [one for one in await self._thinking.all_of(call) if session in (None, one.session)]
        values: Sequence[str] = ()
        match argument:
            case "session":
                values = list(dict.fromkeys(one.session for one in mine))
            case "notebook":
                values = [one.id for one in mine]
            case "format":
                values = FORMS
            case "pattern":
                values = list(self._thinking.patterns)
            case "cell":
                values = await self._cells(call, notebook_id)
            case "execution":
                values = await self._thinking.executions(call, notebook_id)
            case _:
                pass
        return [value for value in values if value.startswith(prefix)]

    async def _cells(self, call: Call, notebook_id: str | None) -> Sequence[str]:
        """The cells of a notebook, or of the current one."""
        if notebook_id is None:
            current = await self._thinking.current(call)
            notebook_id = current.id if current is not None else ""
        try:
            return [cell.id for cell in (await self._thinking.read(call, notebook_id)).cells]
        except NotFound:
            return []


def _chosen(template: str) -> tuple[str | None, str | None]:
    """The session and the notebook that a template names already."""
    parts = [*template.removeprefix(f"{SCHEME}://").split("/"), "{"]
    session, notebook_id = (None if part.startswith("{") else part for part in parts[:2])
    return session, notebook_id


@asynccontextmanager
async def _nothing_to_hold() -> AsyncGenerator[None]:
    yield


def _parts(uri: str) -> list[str]:
    parts = uri.removeprefix(f"{SCHEME}://").split("/")
    if len(parts) > MAX_PARTS or not all(_PART.fullmatch(part) for part in parts):
        raise InvalidUri(
            f"{uri[:200]!a} is not the address of a notebook", hint="notebook://list, or notebook://SESSION/NOTEBOOK/…"
        )
    return parts


def _summary(notebook: Notebook) -> dict[str, object]:
    return {
        "id": notebook.id,
        "sessionId": notebook.session,
        "cellCount": notebook.cell_count,
        "pattern": notebook.pattern or None,
        "title": clean(notebook.title).text,
        "createdAt": moment(notebook.created),
        "lastModified": moment(notebook.modified),
    }


def _content(notebook: Notebook, text: Text) -> Content:
    losses: dict[str, object] = {"losses": list(text.losses)} if text.losses else {}
    return Content(text.body, text.mime_type, {**meta_of(notebook), **losses, **_hidden(text)})


def _hidden(text: Text) -> dict[str, object]:
    return {"hiddenCharactersRemoved": text.hidden} if text.hidden else {}


def _json(value: object) -> str:
    return to_json(value).decode()
