"""The shelf of pads: each caller's own, read from the database."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import quote

from cellwright.core.errors import Conflict
from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.text.sight import cut_for_people
from cellwright.core.types import Call
from cellwright.notebook.formats.losses import difference, reported_losses
from cellwright.notebook.model import Cell, Notebook, language_named, revision_of
from cellwright.notebook.places import Address, Place, PlaceKind, Reading, cell_of
from cellwright.notebook.sheet import LONGEST_TITLE, MOST_SOURCE, HeldRow, StoredSheet, moment
from cellwright.notebook.shelf import OVERWRITE_HINT, Card, JsonObject, Put, Taken
from cellwright.scratch.conversion import drafts_of, notebook_of
from cellwright.scratch.model import ID, PadCellDraft
from cellwright.scratch.service import Pads
from cellwright.scratch.sight.memory import ANY, UNSEEN
from cellwright.scratch.views import PadView
from cellwright.scratch.watched import uri_of

MOST_LISTED = 200
MOST_TAGS = 20
PREFIX = "scratchpad://"


class PadShelf:
    """The caller's pads."""

    scheme = "scratchpad"
    shape = example = "scratchpad://ID"
    shared = False
    exact = False
    kinds: Mapping[PlaceKind, str] = {PlaceKind.PAD: ""}

    def __init__(self, pads: Pads) -> None:
        self._pads = pads

    def has(self, address: str) -> bool:
        return address.startswith(PREFIX)

    def takes(self, address: str) -> bool:
        """Whether it can be written to. An address of a part (`md`, `cells/ID`) reads the whole pad, but nothing is written to a part."""
        return self.has(address) and not _split(address)[1]

    def keeps(self, address: str) -> bool:
        return self.has(address)

    async def resolve(self, call: Call, uri: str) -> str:
        view = await self._pads.read(call.principal.id, _split(uri)[0], cell_ids=())
        return uri_of(view.pad.id)

    def arguments(self, tool: str) -> Sequence[str]:
        del tool
        return ("scratch_id",)

    def named(self, name: str) -> Place | None:
        pad_id, _ = _split(name)
        return Place(PlaceKind.PAD, pad_id, uri=f"{PREFIX}{quote(pad_id, safe='')}") if pad_id else None

    # -- finding -------------------------------------------------------------------------------------------------------------

    def collection(self, call: Call) -> None:
        """Nothing to collect: the transaction that writes a pad also writes its entries in the index."""
        del call

    async def address(self, reading: Reading) -> Address:
        pad, part = f"{PREFIX}{reading.place.id}", reading.part
        return Address(f"{pad}/cells/{part}" if part else pad, f"{pad}/md", cell_id=cell_of(part))

    # -- looking -------------------------------------------------------------------------------------------------------------

    async def cards(self, call: Call) -> tuple[Sequence[Card], bool]:
        owner = call.principal.id
        page = await self._pads.page(owner, (), (), MOST_LISTED, None)
        tags = await self._tags_by_pad(owner)
        cards: list[Card] = []
        for entry, cursor in zip(page.items, page.cursors, strict=True):
            pad_id = entry["scratch_id"]
            # A cursor begins with the time of the last change, by which the list is ordered.
            changed = moment(int(cursor.partition(".")[0]))
            title = clean(entry["title"] or pad_id).text[:LONGEST_TITLE]
            namespace = clean(entry["namespace"] or "").text
            cards.append(Card("pad", uri_of(pad_id), title, namespace, tuple(tags.get(pad_id, ())), changed))
        return cards, page.next is not None

    async def _tags_by_pad(self, owner: str) -> dict[str, list[str]]:
        tags: dict[str, list[str]] = {}
        for tag in (await self._pads.tags(owner, ()))[0][:MOST_TAGS]:
            for entry in (await self._pads.page(owner, (), (tag,), MOST_LISTED, None)).items:
                tags.setdefault(entry["scratch_id"], []).append(clean(tag).text)
        return tags

    @asynccontextmanager
    async def hold(self, call: Call, uri: str) -> AsyncGenerator[HeldRow]:
        # Changes are announced only for pads that are watched.
        async with self._pads.watched.holding(call.principal.id, uri):
            yield HeldRow()

    @asynccontextmanager
    async def open(self, call: Call, uri: str) -> AsyncGenerator[StoredSheet]:
        yield _sheet(await self._pads.read(call.principal.id, _split(uri)[0]))

    # -- reading and writing -------------------------------------------------------------------------------------------------

    async def read(self, call: Call, address: str, format_name: str | None = None) -> Taken:
        del format_name
        pad_id, _ = _split(address)
        view = await self._pads.read(call.principal.id, pad_id)
        _pad, schemas = await self._pads.schemas(call.principal.id, pad_id)
        losses = [f"the pad's {counted(len(schemas), 'shared schema')}"] if schemas else []
        validated_cells = sum(1 for cell in view.cells if cell.check.schema is not None or cell.check.on_write)
        losses += [f"how the pad validates {counted(validated_cells, 'cell')}"] if validated_cells else []
        return Taken(notebook_of(view.pad, view.cells), f"{PREFIX}{view.pad.id}", tuple(losses))

    async def write(self, call: Call, address: str, notebook: Notebook, *, over: bool = False) -> Put:
        """A pad of the caller, new or reset. Its earlier versions stay."""
        owner = call.principal.id
        metadata, drafts, _ = drafts_of(notebook)
        pad_id, basis = address.removeprefix(PREFIX) or None, replace(ANY if over else UNSEEN, session=call.session)
        try:
            created = await self._pads.create(owner, pad_id, metadata, _with_ids(drafts, notebook), basis)
        except Conflict as conflict:
            raise Conflict(conflict.message, hint=OVERWRITE_HINT, details=conflict.details) from conflict
        view = await self._pads.read(owner, created.view.pad.id)
        differences = await asyncio.to_thread(difference, notebook, notebook_of(view.pad, view.cells), "a pad")
        uri = f"{PREFIX}{view.pad.id}"
        evicted = [f"the pad {pad_id} went to make room" for pad_id in created.evicted]
        return Put(uri, uri, tuple(reported_losses((), differences)), tuple(evicted))


def _split(address: str) -> tuple[str, str]:
    """The id of the pad, and the part of it that the address names."""
    pad_id, _, part = address.removeprefix(PREFIX).partition("/")
    return pad_id, part


def _with_ids(drafts: Sequence[PadCellDraft], notebook: Notebook) -> list[PadCellDraft]:
    """The drafts with the ids of the notebook's cells, where a pad can have them, so that references to cells stay valid."""
    cell_ids: set[str] = set()
    with_ids: list[PadCellDraft] = []
    for draft, cell in zip(drafts, notebook.cells, strict=True):
        usable = ID.fullmatch(cell.id) is not None and cell.id not in cell_ids
        cell_ids.add(cell.id)
        with_ids.append(replace(draft, cell_id=cell.id) if usable else draft)
    return with_ids


def _sheet(view: PadView) -> StoredSheet:
    about = view.pad.about
    head: JsonObject = {
        "kind": "pad",
        "title": clean(about.title or view.pad.id).text,
        "path": clean(about.namespace or "").text,
        "description": clean(about.description or "").text,
        "tags": [clean(tag).text for tag in about.tags],
        "language": "",
        "lab": None,
        "live": False,
        "saved": moment(view.pad.updated),
    }
    return StoredSheet(head, [_cell_json(cell) for cell in view.cells], [cell.id for cell in view.cells])


def _cell_json(cell: Cell) -> JsonObject:
    language = language_named(cell.language)
    notes = [f"validation: {cell.check.status}"] if cell.check.status else []
    notes += [f"tags: {', '.join(clean(tag).text for tag in cell.tags)}"] if cell.tags else []
    cell_json: JsonObject = {
        "kind": "markdown" if language in {"markdown", "md"} else "code",
        "language": clean(language).text,
        "source": cut_for_people(cell.source, MOST_SOURCE)[0],
        "count": None,
        "state": "idle",
        "revision": revision_of(cell.source),
        "outputs": [],
    }
    return {**cell_json, "notes": notes} if notes else cell_json
