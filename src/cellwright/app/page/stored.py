"""Pads and thinking notebooks for the page: each caller's own, read from the database."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cellwright.core.clean import clean
from cellwright.core.errors import InvalidUri
from cellwright.core.formats.model import Kind, language_named
from cellwright.core.types import Call
from cellwright.jupyter.model import revision_of
from cellwright.scratch.model import Cell as PadCell
from cellwright.scratch.service import Pads
from cellwright.scratch.service import View as PadView
from cellwright.scratch.watched import uri_of
from cellwright.thinking.model import Cell as ThinkingCell
from cellwright.thinking.model import Notebook
from cellwright.thinking.service import Thinking
from cellwright.thinking.service import View as ThinkingView
from cellwright.web.outputs import cut
from cellwright.web.ports import JsonObject, Thing

MOST_LISTED = 200
MOST_TAGS = 20
MOST_SOURCE = 200_000
FIRST_CHARACTERS = 120
LONGEST_TITLE = 200
PAD = "scratchpad://"
THINKING = "notebook://"
STATES = frozenset({"running", "queued"})


@dataclass(frozen=True, slots=True)
class HeldRow:
    """What is stored need not be kept open."""

    is_open: bool = True

    def people(self) -> list[JsonObject]:
        return []


@dataclass(frozen=True, slots=True)
class StoredSheet:
    """A document whose cells are all at hand."""

    about: JsonObject
    cells: Sequence[JsonObject]
    names: Sequence[str] = field(default_factory=list[str])

    def entry(self, index: int) -> JsonObject:
        cell = self.cells[index]
        first = next(iter(str(cell["source"]).strip()[:FIRST_CHARACTERS].splitlines()), "")
        lines = cell["source"].count("\n") + 1 if cell["source"] else 0
        return {"kind": cell["kind"], "lines": lines, "first": first}

    def cell(self, index: int) -> JsonObject:
        return self.cells[index]


class PadSource:
    """The caller's pads."""

    scheme = "scratchpad"
    shared = False
    exact = False

    def __init__(self, pads: Pads) -> None:
        self._pads = pads

    async def things(self, call: Call) -> tuple[Sequence[Thing], bool]:
        owner = call.principal.id
        page = await self._pads.page(owner, (), (), MOST_LISTED, None)
        tags = await self._tags(owner)
        made: list[Thing] = []
        for item, cursor in zip(page.items, page.cursors, strict=True):
            pad = item["scratch_id"]
            # A cursor begins with the time of the last change, by which the list is ordered.
            changed = _moment(int(cursor.partition(".")[0]))
            title = clean(item["title"] or pad).text[:LONGEST_TITLE]
            made.append(
                Thing("pad", uri_of(pad), title, clean(item["namespace"] or "").text, tuple(tags.get(pad, ())), changed)
            )
        return made, page.next is not None

    async def _tags(self, owner: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for tag in (await self._pads.tags(owner, ()))[0][:MOST_TAGS]:
            for item in (await self._pads.page(owner, (), (tag,), MOST_LISTED, None)).items:
                found.setdefault(item["scratch_id"], []).append(clean(tag).text)
        return found

    async def resolve(self, call: Call, uri: str) -> str:
        view = await self._pads.read(call.principal.id, _pad_id(uri), cell_ids=())
        return uri_of(view.pad.id)

    @asynccontextmanager
    async def hold(self, call: Call, uri: str) -> AsyncGenerator[HeldRow]:
        # What nobody watches is not announced.
        async with self._pads.watched.holding(call.principal.id, uri):
            yield HeldRow()

    @asynccontextmanager
    async def open(self, call: Call, uri: str) -> AsyncGenerator[StoredSheet]:
        yield _pad_sheet(await self._pads.read(call.principal.id, _pad_id(uri)))


def _pad_id(uri: str) -> str:
    return uri.removeprefix(PAD).partition("/")[0]


def _pad_sheet(view: PadView) -> StoredSheet:
    about = view.pad.about
    told: JsonObject = {
        "kind": "pad",
        "title": clean(about.title or view.pad.id).text,
        "path": clean(about.namespace or "").text,
        "description": clean(about.description or "").text,
        "tags": [clean(tag).text for tag in about.tags],
        "language": "",
        "lab": None,
        "live": False,
        "saved": _moment(view.pad.updated),
    }
    return StoredSheet(told, [_pad_cell(cell) for cell in view.cells], [cell.id for cell in view.cells])


def _pad_cell(cell: PadCell) -> JsonObject:
    language = language_named(cell.language)
    notes = [f"validation: {cell.status}"] if cell.status else []
    notes += [f"tags: {', '.join(clean(tag).text for tag in cell.tags)}"] if cell.tags else []
    made: JsonObject = {
        "kind": "markdown" if language in {"markdown", "md"} else "code",
        "language": clean(language).text,
        "source": cut(cell.content, MOST_SOURCE)[0],
        "count": None,
        "state": "idle",
        "revision": revision_of(cell.content),
        "outputs": [],
    }
    return {**made, "notes": notes} if notes else made


class ThinkingSource:
    """The caller's thinking notebooks."""

    scheme = "notebook"
    shared = False
    exact = False

    def __init__(self, thinking: Thinking) -> None:
        self._thinking = thinking

    async def things(self, call: Call) -> tuple[Sequence[Thing], bool]:
        found = await self._thinking.all_of(call)
        return [_thinking_thing(one) for one in found[:MOST_LISTED]], len(found) > MOST_LISTED

    async def resolve(self, call: Call, uri: str) -> str:
        """Also by its id alone, which is how calls name it."""
        return (await self._thinking.read(call, _thinking_id(uri))).notebook.uri

    @asynccontextmanager
    async def hold(self, call: Call, uri: str) -> AsyncGenerator[HeldRow]:
        del call, uri
        yield HeldRow()

    @asynccontextmanager
    async def open(self, call: Call, uri: str) -> AsyncGenerator[StoredSheet]:
        yield _thinking_sheet(await self._thinking.read(call, _thinking_id(uri)))


def _thinking_id(uri: str) -> str:
    parts = uri.removeprefix(THINKING).split("/")
    if len(parts) > 2:  # noqa: PLR2004
        raise InvalidUri(f"{uri[:200]!r} names no notebook", hint="notebook://SESSION/NOTEBOOK")
    return parts[-1]


def _thinking_thing(notebook: Notebook) -> Thing:
    tags = (notebook.pattern,) if notebook.pattern else ()
    return Thing(
        "thinking", notebook.uri, clean(notebook.title).text[:LONGEST_TITLE], "", tags, _moment(notebook.modified)
    )


def _thinking_sheet(view: ThinkingView) -> StoredSheet:
    notebook = view.notebook
    told: JsonObject = {
        "kind": "thinking",
        "title": clean(notebook.title).text,
        "path": "",
        "tags": [notebook.pattern] if notebook.pattern else [],
        "language": notebook.language,
        "lab": None,
        "live": False,
        "saved": _moment(notebook.modified),
    }
    cells = [_thinking_cell(cell, notebook) for cell in view.cells]
    return StoredSheet(told, cells, [cell.id for cell in view.cells])


def _thinking_cell(cell: ThinkingCell, notebook: Notebook) -> JsonObject:
    made: JsonObject = {
        "kind": cell.kind.value,
        "language": (cell.language or notebook.language) if cell.kind is Kind.CODE else cell.kind.value,
        "source": cut(cell.source, MOST_SOURCE)[0],
        "count": cell.execution_count,
        "state": cell.status if cell.status in STATES else "idle",
        "revision": revision_of(cell.source),
        "outputs": [dict(output) for output in cell.outputs],
    }
    return {**made, "notes": [clean(cell.filename).text]} if cell.filename else made


def _moment(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="seconds")
