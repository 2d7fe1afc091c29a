"""`ipynb`: nbformat 4.5, with everything that a notebook has."""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from cellwright.core.formats.model import Book, BookCell, Encoded, InvalidFormat, JsonObject, Kind, language_named

MIME = "application/x-ipynb+json"
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
OWN = "cellwright"
"""Our own key in the metadata of notebooks and cells: what nbformat has no place for."""
KERNELS = {"python": ("python3", "Python 3"), "bash": ("bash", "Bash"), "r": ("ir", "R"), "julia": ("julia", "Julia")}


def encode(book: Book) -> Encoded:
    return Encoded(json.dumps(to_notebook(book), ensure_ascii=False, indent=1) + "\n", MIME)


def to_notebook(book: Book) -> JsonObject:
    """The book as nbformat's JSON."""
    language = language_named(book.language)
    metadata = dict(book.metadata)
    own = {**metadata.get(OWN, {}), "title": book.title, "language": language}
    metadata[OWN] = own
    metadata.setdefault("language_info", {"name": language})
    if language in KERNELS:
        name, shown = KERNELS[language]
        metadata.setdefault("kernelspec", {"name": name, "display_name": shown, "language": language})
    seen: set[str] = set()
    cells = [_cell(cell, index, language, seen) for index, cell in enumerate(book.cells)]
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _cell(cell: BookCell, index: int, language: str, seen: set[str]) -> JsonObject:
    cell_id = cell.id if _ID.fullmatch(cell.id) and cell.id not in seen else f"cell-{index}"
    while cell_id in seen:
        cell_id += "x"
    seen.add(cell_id)
    metadata = dict(cell.metadata)
    own = {**metadata.get(OWN, {})}
    if cell.filename:
        own["filename"] = cell.filename
    if cell.language and language_named(cell.language) != language:
        own["language"] = cell.language
    if cell_id != cell.id:
        own["id"] = cell.id
    if own:
        metadata[OWN] = own
    made: JsonObject = {"cell_type": cell.kind.value, "id": cell_id, "metadata": metadata, "source": cell.source}
    if cell.kind is Kind.CODE:
        made |= {"execution_count": cell.execution_count, "outputs": list(cell.outputs)}
    return made


def decode(text: str) -> Book:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFormat("this is not JSON, so it is not a notebook") from error
    return from_notebook(found)


def from_notebook(found: object) -> Book:
    """The book in nbformat's JSON, of version 4; a version 3 notebook has its cells in worksheets."""
    if not isinstance(found, dict):
        raise InvalidFormat("this is not a notebook: it is not an object")
    notebook = cast("JsonObject", found)
    version = notebook.get("nbformat")
    if version != 4:  # noqa: PLR2004
        raise InvalidFormat(
            f"this notebook has nbformat {version!r}, not 4", hint="JupyterLab writes version 4 when it saves it"
        )
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        raise InvalidFormat("the notebook has no list of cells")
    metadata = _mapping(notebook.get("metadata"))
    own = _mapping(metadata.get(OWN))
    language = own.get("language") or _mapping(metadata.get("language_info")).get("name")
    language = language or _mapping(metadata.get("kernelspec")).get("language") or "python"
    kept = _without_own(metadata, ("title", "language"))
    made = tuple(_book_cell(cell, number) for number, cell in enumerate(cast("list[object]", cells)))
    title = own.get("title")
    return Book(title if isinstance(title, str) else _first_title(made), language_named(str(language)), made, kept)


def _book_cell(found: object, number: int) -> BookCell:
    if not isinstance(found, dict):
        raise InvalidFormat(f"cell {number} is not an object")
    cell = cast("JsonObject", found)
    kinds = {kind.value: kind for kind in Kind}
    kind = kinds.get(str(cell.get("cell_type")))
    if kind is None:
        raise InvalidFormat(
            f"cell {number} has the type {str(cell.get('cell_type'))[:40]!r}", hint="code, markdown or raw"
        )
    metadata = _mapping(cell.get("metadata"))
    own = _mapping(metadata.get(OWN))
    outputs = cell.get("outputs") if kind is Kind.CODE else None
    count = cell.get("execution_count")
    return BookCell(
        kind,
        _joined(cell.get("source")),
        str(own.get("language", "")),
        str(own.get("filename", "")),
        str(own.get("id", cell.get("id", ""))),
        count if isinstance(count, int) else None,
        tuple(cast("list[JsonObject]", outputs)) if isinstance(outputs, list) else (),
        _without_own(metadata, ("filename", "language", "id")),
    )


def _without_own(metadata: Mapping[str, Any], keys: tuple[str, ...]) -> JsonObject:
    """The metadata as it was before we added to it."""
    own = {key: value for key, value in _mapping(metadata.get(OWN)).items() if key not in keys}
    rest = {key: value for key, value in metadata.items() if key != OWN}
    return {**rest, OWN: own} if own else rest


def _first_title(cells: tuple[BookCell, ...]) -> str:
    for cell in cells:
        if cell.kind is Kind.MARKDOWN:
            for line in cell.source.splitlines():
                if line.startswith("# "):
                    return line[2:].strip()
    return "Untitled"


def _mapping(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(str(part) for part in cast("list[object]", value))
    return value if isinstance(value, str) else ""
