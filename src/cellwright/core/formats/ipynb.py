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
ATTACHED = "attachments"
"""Pictures that belong to a cell's text: nbformat has them beside the metadata, a book among our own."""
KERNELS = {"python": ("python3", "Python 3"), "bash": ("bash", "Bash"), "r": ("ir", "R"), "julia": ("julia", "Julia")}


def encode(book: Book) -> Encoded:
    return Encoded(json.dumps(to_notebook(book), ensure_ascii=False, indent=1) + "\n", MIME)


def to_notebook(book: Book) -> JsonObject:
    """The book as nbformat's JSON."""
    language = language_named(book.language)
    metadata = dict(book.metadata)
    own = {**_mapping(metadata.get(OWN)), "title": book.title, "language": language}
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
    own = {**_mapping(metadata.get(OWN))}
    if cell.filename:
        own["filename"] = cell.filename
    if cell.language and language_named(cell.language) != language:
        own["language"] = cell.language
    if cell_id != cell.id:
        own["id"] = cell.id
    attached: object = own.pop(ATTACHED, None)
    metadata.pop(OWN, None)
    if own:
        metadata[OWN] = own
    made: JsonObject = {"cell_type": cell.kind.value, "id": cell_id, "metadata": metadata, "source": cell.source}
    if attached and cell.kind is not Kind.CODE:
        made[ATTACHED] = attached
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
    if attached := _mapping(cell.get(ATTACHED)):
        metadata = {**metadata, OWN: {**own, ATTACHED: attached}}
    count = cell.get("execution_count")
    return BookCell(
        kind,
        _source(cell.get("source"), number),
        str(own.get("language", "")),
        str(own.get("filename", "")),
        str(own.get("id", cell.get("id", ""))),
        count if isinstance(count, int) else None,
        _outputs(cell.get("outputs"), number) if kind is Kind.CODE else (),
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


def _source(value: object, number: int) -> str:
    """A source is text or a list of lines; anything else would be lost if it were taken for nothing."""
    lines = cast("list[object]", value) if isinstance(value, list) else ["" if value is None else value]
    if not all(isinstance(line, str) for line in lines):
        raise InvalidFormat(f"the source of cell {number} is neither text nor lines of text")
    return "".join(cast("list[str]", lines))


def _outputs(value: object, number: int) -> tuple[JsonObject, ...]:
    found = cast("list[object]", value) if isinstance(value, list) else [value] if value else []
    outputs = [_mapping(output) for output in found]
    if not all(isinstance(output.get("output_type"), str) for output in outputs):
        raise InvalidFormat(f"cell {number} has an output without an output_type")
    return tuple(outputs)
