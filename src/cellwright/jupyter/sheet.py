"""A live notebook for people who look at it: its contents at one moment, and who is in it while it is kept open."""

from collections.abc import Sequence
from typing import cast
from urllib.parse import quote

from cellwright.core.text.clean import clean
from cellwright.core.text.sight import cut_for_people, seen, spelt
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.documents.people import people_in
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.model import JsonObject, LiveCell
from cellwright.jupyter.notebooks.cells import UnreadableCell
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.notebook.sheet import FIRST_CHARACTERS, MOST_SOURCE

SUFFIX = ".ipynb"
PICTURES = ("image/png", "image/jpeg", "image/gif")


class HeldDocument:
    """A notebook that is kept open because somebody looks at it."""

    def __init__(self, document: OpenDocument[LiveNotebook]) -> None:
        self._document = document

    @property
    def is_open(self) -> bool:
        return self._document.is_open

    def people(self) -> list[JsonObject]:
        room = self._document.room
        if room is None:
            return []
        people = people_in(room, self._document.view)
        return [
            {"name": person.name, "colour": person.colour, "cell": person.cell, "agent": person.agent}
            for person in people
        ]


class NotebookSheet:
    """A notebook as it is in the shared document now."""

    def __init__(self, document: OpenDocument[LiveNotebook], path: NotebookPath) -> None:
        self._document = document
        self._view = document.view
        self._path = path
        duplicates = self._view.duplicate_ids
        self._names = [
            cell_id if cell_id and cell_id not in duplicates else f"~{index}"
            for index, cell_id in enumerate(self._view.ids)
        ]

    @property
    def about(self) -> JsonObject:
        title = spelt(self._path.text).rpartition("/")[2].removesuffix(SUFFIX)
        about = {"kind": "notebook", "title": title, "path": spelt(self._path.text), "language": self._language}
        # This address is the same for everybody; the one to which it leads depends on the caller.
        lab = f"api/lab?uri={quote(f'jupyter://{self._path.quoted}', safe='')}"
        return {**about, "lab": lab, "live": self._document.live}

    @property
    def names(self) -> Sequence[str]:
        return self._names

    @property
    def _language(self) -> str:
        metadata = self._view.metadata
        for key, field in (("language_info", "name"), ("kernelspec", "language")):
            info: object = metadata.get(key)
            if isinstance(info, dict) and (name := cast("JsonObject", info).get(field)):
                return clean(str(name)).text[:60]
        return ""

    def entry(self, index: int) -> JsonObject:
        head = self._view.head(index)
        first_line = next(iter(seen(head.source.strip()[:FIRST_CHARACTERS]).text.splitlines()), "")
        line_count = head.source.count("\n") + 1 if head.source else 0
        return {"kind": head.cell_type, "lines": line_count, "first": first_line, "failed": head.failed}

    def cell(self, index: int) -> JsonObject:
        cell = self._view.cell_at(index)
        head = cell.head
        content: JsonObject = {
            "kind": clean(head.cell_type).text,
            "language": self._language if head.cell_type == "code" else head.cell_type,
            "source": cut_for_people(seen(head.source).text, MOST_SOURCE)[0],
            "count": head.execution_count,
            "state": "running" if head.running else "idle",
            "revision": head.revision,
            "outputs": list(cell.outputs),
        }
        if pictures := _attachments(cell):
            content["attachments"] = pictures
        return {**content, "notes": [head.note]} if isinstance(head, UnreadableCell) else content


def _attachments(cell: LiveCell) -> dict[str, str]:
    """The pictures attached to a cell, as data URLs."""
    pictures: dict[str, str] = {}
    for name, forms in cell.attachments.items():
        for mime, body in cast("JsonObject", forms).items() if isinstance(forms, dict) else ():
            if mime in PICTURES and isinstance(body, str):
                pictures[clean(name).text] = f"data:{mime};base64,{''.join(body.split())}"
    return pictures
