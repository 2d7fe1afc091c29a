"""The shelf of thinking notebooks: each caller's own, and the templates they are made from."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from cellwright.core.errors import CellwrightError, InvalidUri
from cellwright.core.text.clean import clean
from cellwright.core.text.sight import cut_for_people
from cellwright.core.types import Call
from cellwright.notebook.formats.losses import difference, reported_losses
from cellwright.notebook.model import Cell, Kind, Notebook, revision_of
from cellwright.notebook.places import Address, Inventory, Place, PlaceKind, Reading, cell_of
from cellwright.notebook.sheet import LONGEST_TITLE, MOST_SOURCE, HeldRow, StoredSheet, moment
from cellwright.notebook.shelf import Card, JsonObject, Put, Taken
from cellwright.thinking.model import ThinkingNotebook, ThinkingView, no_current
from cellwright.thinking.service import Thinking

MOST_LISTED = 200
PREFIX = "notebook://"
TEMPLATES = "notebook://templates/"
CURRENT = "current"
STATES = frozenset({"running", "queued"})


class ThinkingShelf:
    """The caller's thinking notebooks."""

    scheme = "notebook"
    shape = "notebook://ID"
    example = ""
    shared = False
    exact = False
    kinds: Mapping[PlaceKind, str] = {PlaceKind.THINKING: ""}

    def __init__(self, thinking: Thinking, ttl: float) -> None:
        """`ttl` is how many seconds a notebook stays without being used."""
        self._thinking = thinking
        self._ttl = ttl

    def has(self, address: str) -> bool:
        return address.startswith(PREFIX)

    def takes(self, address: str) -> bool:
        """Only a new notebook can be written."""
        return address == PREFIX

    def keeps(self, address: str) -> bool:
        del address
        return False

    async def resolve(self, call: Call, uri: str) -> str:
        """The notebook may also be named by its id alone, as calls do."""
        return (await self._thinking.read(call, _id_in_uri(uri))).notebook.uri

    def arguments(self, tool: str) -> Sequence[str]:
        del tool
        return ("notebook_id", "notebookId")

    def named(self, name: str) -> Place | None:
        """Calls name a notebook by its id alone; its address is known only after it is looked up."""
        notebook_id = _id_of(name)
        uri = f"{PREFIX}{quote(name.removeprefix(PREFIX))}" if self.has(name) else ""
        return Place(PlaceKind.THINKING, notebook_id, uri=uri) if notebook_id not in ("", CURRENT) else None

    # -- finding -------------------------------------------------------------------------------------------------------------

    def collection(self, call: Call) -> "ThinkingCollection":
        return ThinkingCollection(self._thinking, call, self._ttl)

    async def address(self, reading: Reading) -> Address:
        uri, cell_id = f"{PREFIX}{reading.namespace}/{reading.place.id}", cell_of(reading.part)
        return Address(f"{uri}/cells/{cell_id}" if cell_id else uri, uri, cell_id=cell_id)

    # -- looking -------------------------------------------------------------------------------------------------------------

    async def cards(self, call: Call) -> tuple[Sequence[Card], bool]:
        notebooks = await self._thinking.all_of(call)
        return [_card(notebook) for notebook in notebooks[:MOST_LISTED]], len(notebooks) > MOST_LISTED

    @asynccontextmanager
    async def hold(self, call: Call, uri: str) -> AsyncGenerator[HeldRow]:
        del call, uri
        yield HeldRow()

    @asynccontextmanager
    async def open(self, call: Call, uri: str) -> AsyncGenerator[StoredSheet]:
        yield _sheet(await self._thinking.read(call, _id_in_uri(uri)))

    # -- reading and writing -------------------------------------------------------------------------------------------------

    async def read(self, call: Call, address: str, format_name: str | None = None) -> Taken:
        del format_name
        if address.startswith(TEMPLATES):
            return Taken(self._thinking.pattern(address.removeprefix(TEMPLATES)).notebook, address)
        notebook_id = _id_of(address)
        if notebook_id == CURRENT:
            current = await self._thinking.current(call)
            if current is None:
                raise no_current()
            notebook_id = current.id
        view = await self._thinking.read(call, notebook_id)
        return Taken(view.notebook.with_cells(view.cells), view.notebook.uri)

    async def write(self, call: Call, address: str, notebook: Notebook, *, over: bool = False) -> Put:
        del address, over
        view, notes = await self._thinking.import_notebook(call, notebook)
        stored = await self._thinking.notebook(call, view.notebook.id)
        losses = await asyncio.to_thread(difference, notebook, stored, "a thinking notebook")
        return Put(view.notebook.uri, view.notebook.uri, tuple(reported_losses((), losses)), tuple(notes))


@dataclass(frozen=True, slots=True)
class ThinkingCollection:
    """A caller's thinking notebooks. They are indexed only when somebody searches, because most are gone before that."""

    thinking: Thinking
    call: Call
    keep_seconds: float | None
    kinds: tuple[PlaceKind, ...] = (PlaceKind.THINKING,)

    @property
    def tenant(self) -> str:
        return self.call.principal.id

    async def inventory(self) -> Inventory:
        notebooks = await self.thinking.all_of(self.call)
        return Inventory(
            [
                Place(PlaceKind.THINKING, notebook.id, f"{notebook.session}:{notebook.version}", uri=notebook.uri)
                for notebook in notebooks
            ]
        )

    async def read(self, places: Sequence[Place]) -> list[Reading]:
        return [await self._reading(place) for place in places]

    async def _reading(self, place: Place) -> Reading:
        try:
            view = await self.thinking.read(self.call, place.id)
        except CellwrightError:
            return Reading(place, None, "")
        notebook = view.notebook
        return Reading(place, notebook.with_cells(view.cells), clean(notebook.title).text, notebook.session)


def _id_of(address: str) -> str:
    """The notebook's id in an address, which may name its session before it, as resources do."""
    first, _, notebook_part = address.removeprefix(PREFIX).partition("/")
    return notebook_part.partition("/")[0] or first


def _id_in_uri(uri: str) -> str:
    parts = uri.removeprefix(PREFIX).split("/")
    if len(parts) > 2:  # noqa: PLR2004
        raise InvalidUri(f"{uri[:200]!r} names no notebook", hint="notebook://SESSION/NOTEBOOK")
    return parts[-1]


def _card(notebook: ThinkingNotebook) -> Card:
    tags = (notebook.pattern,) if notebook.pattern else ()
    title = clean(notebook.title).text[:LONGEST_TITLE]
    return Card("thinking", notebook.uri, title, "", tags, moment(notebook.modified))


def _sheet(view: ThinkingView) -> StoredSheet:
    notebook = view.notebook
    about: JsonObject = {
        "kind": "thinking",
        "title": clean(notebook.title).text,
        "path": "",
        "tags": [notebook.pattern] if notebook.pattern else [],
        "language": notebook.language,
        "lab": None,
        "live": False,
        "saved": moment(notebook.modified),
    }
    cells = [_cell_row(cell, notebook) for cell in view.cells]
    return StoredSheet(about, cells, [cell.id for cell in view.cells])


def _cell_row(cell: Cell, notebook: ThinkingNotebook) -> JsonObject:
    row: JsonObject = {
        "kind": cell.kind.value,
        "language": (cell.language or notebook.language) if cell.kind is Kind.CODE else cell.kind.value,
        "source": cut_for_people(cell.source, MOST_SOURCE)[0],
        "count": cell.execution_count,
        "state": cell.status if cell.status in STATES else "idle",
        "revision": revision_of(cell.source),
        "outputs": [dict(output) for output in cell.outputs],
    }
    return {**row, "notes": [clean(cell.filename).text]} if cell.filename else row
