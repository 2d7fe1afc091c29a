"""The project's files and discoveries as they are found: listed and read, and written by nobody here, so this is half a shelf.

Files are walked through once. Where notebooks are files of the same folder, that one walk lists them too, by the rules for files: nothing
that git ignores, that is hidden or that holds secrets. What their addresses are is for the shelf of notebooks to say.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """The files of the project's folder; its notebooks too, if that is where notebooks are."""

    tenant: str
    files: ProjectFiles
    opens_notebook: Callable[[str], bool] | None = None
    """Whether a notebook can be opened by a path; None where notebooks are elsewhere."""
    keep_seconds: float | None = None

    @property
    def kinds(self) -> tuple[PlaceKind, ...]:
        return (PlaceKind.FILE,) if self.opens_notebook is None else (PlaceKind.NOTEBOOK, PlaceKind.FILE)

    async def inventory(self) -> Inventory:
        walk = self.files.readable(LARGEST_FILE if self.opens_notebook is None else LARGEST_NOTEBOOK)
        found: list[tuple[int, Place]] = []
        listed = 0
        while some := await asyncio.to_thread(_taken, walk):
            listed += len(some)
            found += [(file.modified, place) for file in some if (place := self._place(file)) is not None]
            if listed >= MOST_LISTED:
                return newest(found, left_out=1)
        return newest(found)

    def _place(self, file: ReadableFile) -> Place | None:
        if is_notebook := file.path.endswith(NOTEBOOK):
            wanted = self.opens_notebook is not None and self.opens_notebook(file.path)
        else:
            wanted = file.size <= LARGEST_FILE
        if not wanted or not is_findable(file.path):
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
            # Half-written, or no notebook at all: the next change is looked at again.
            return None


def _taken(walk: Iterator[ReadableFile]) -> list[ReadableFile]:
    return list(islice(walk, LISTED_AT_ONCE))


class ProjectShelf:
    """What is known of the project, the same to everybody who may read."""

    def __init__(self, context: ProjectContext, root: Path, opens_notebook: Callable[[str], bool] | None) -> None:
        tenant = files_tenant(root)
        self.kinds: Mapping[PlaceKind, str] = {PlaceKind.FILE: tenant, PlaceKind.DISCOVERY: context.search_tenant}
        self._collection = ProjectCollection(tenant, context.files, opens_notebook)

    def collection(self, call: Call) -> ProjectCollection:
        """Of the files alone: discoveries are in the index by themselves."""
        del call
        return self._collection

    async def address(self, found: Reading) -> Address:
        if found.place.kind is PlaceKind.FILE:
            # From a line on, because as a whole a long file cannot be read.
            uri = f"{file_uri(found.place.id)}?start="
            return Address(f"{uri}{found.part}", f"{uri}1", found.place.id, line=int(found.part))
        wanted = {"type": found.title, **({"module": found.namespace} if found.namespace else {})}
        uri = f"{DISCOVERIES_URI}?{urlencode(wanted)}"
        said = " ".join(clean(str(found.content)).text.split())[:LONGEST_TITLE]
        return Address(uri, uri, title=f"{found.title}: {said}")
