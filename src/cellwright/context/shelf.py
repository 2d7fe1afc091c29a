"""The project's files and discoveries for search. They can be listed and read but not written, so this is half a shelf.

The files are walked through once. If notebooks are files of the same folder, that walk lists them too, by the rules for files: nothing
that git ignores, that is hidden or that holds secrets. The shelf of notebooks decides what their addresses are.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import urlencode

from cellwright.context.files.service import ProjectFiles, ReadableFile
from cellwright.context.service import ProjectContext
from cellwright.context.uris import DISCOVERIES_URI, file_uri
from cellwright.core.text.clean import clean
from cellwright.core.types import Call
from cellwright.notebook.formats.ipynb import notebook_within
from cellwright.notebook.model import Notebook
from cellwright.notebook.places import Address, Inventory, Place, PlaceKind, Reading, files_tenant, is_findable, newest

NOTEBOOK = ".ipynb"
MOST_LISTED = 100_000
LISTED_AT_ONCE = 1_000
LARGEST_FILE = 1_000_000
LARGEST_NOTEBOOK = 10_000_000
LONGEST_TITLE = 80


@dataclass(frozen=True, slots=True)
class ProjectCollection:
    """The files of the project's folder; its notebooks too, if the folder is where notebooks are."""

    tenant: str
    files: ProjectFiles
    opens_notebook: Callable[[str], bool] | None = None
    """Whether a notebook can be opened by a path; None if notebooks are elsewhere."""
    keep_seconds: float | None = None

    @property
    def kinds(self) -> tuple[PlaceKind, ...]:
        return (PlaceKind.FILE,) if self.opens_notebook is None else (PlaceKind.NOTEBOOK, PlaceKind.FILE)

    async def inventory(self) -> Inventory:
        walk = self.files.readable(LARGEST_FILE if self.opens_notebook is None else LARGEST_NOTEBOOK)
        places: list[tuple[int, Place]] = []
        file_count = 0
        while files := await asyncio.to_thread(lambda: list(islice(walk, LISTED_AT_ONCE))):
            file_count += len(files)
            places += [(file.modified, place) for file in files if (place := self._place(file)) is not None]
            if file_count >= MOST_LISTED:
                return newest(places, left_out=1)
        return newest(places)

    def _place(self, file: ReadableFile) -> Place | None:
        """None for a file that is not to be found."""
        if is_notebook := file.path.endswith(NOTEBOOK):
            readable = self.opens_notebook is not None and self.opens_notebook(file.path)
        else:
            readable = file.size <= LARGEST_FILE
        if not readable or not is_findable(file.path):
            return None
        kind = PlaceKind.NOTEBOOK if is_notebook else PlaceKind.FILE
        return Place(kind, file.path, f"{file.modified}:{file.size}", file.size)

    async def read(self, places: Sequence[Place]) -> list[Reading]:
        return await asyncio.to_thread(lambda: [Reading(place, self._content(place), place.id) for place in places])

    def _content(self, place: Place) -> Notebook | str | None:
        text = self.files.text(place.id)
        if text is None or place.kind is PlaceKind.FILE:
            return text
        try:
            return notebook_within(json.loads(text))
        except (ValueError, RecursionError):
            # Half-written, or no notebook at all. The file is read again when it changes.
            return None


class ProjectShelf:
    """The project's files and discoveries, which are the same for everybody who may read."""

    def __init__(self, context: ProjectContext, root: Path, opens_notebook: Callable[[str], bool] | None) -> None:
        tenant = files_tenant(root)
        self.kinds: Mapping[PlaceKind, str] = {PlaceKind.FILE: tenant, PlaceKind.DISCOVERY: context.search_tenant}
        self._collection = ProjectCollection(tenant, context.files, opens_notebook)

    def collection(self, call: Call) -> ProjectCollection:
        """The files alone: discoveries are indexed when they are recorded."""
        del call
        return self._collection

    async def address(self, reading: Reading) -> Address:
        if reading.place.kind is PlaceKind.FILE:
            # With a first line, because a long file cannot be read as a whole.
            uri = f"{file_uri(reading.place.id)}?start="
            return Address(f"{uri}{reading.part}", f"{uri}1", reading.place.id, line=int(reading.part))
        filters = {"type": reading.title, **({"module": reading.namespace} if reading.namespace else {})}
        uri = f"{DISCOVERIES_URI}?{urlencode(filters)}"
        content = " ".join(clean(str(reading.content)).text.split())[:LONGEST_TITLE]
        return Address(uri, uri, title=f"{reading.title}: {content}")
