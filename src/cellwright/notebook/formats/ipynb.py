"""`ipynb`: nbformat 4.5. It keeps everything that a notebook has."""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from cellwright.notebook.formats.older import CURRENT, as_current
from cellwright.notebook.model import (
    UNTITLED,
    Cell,
    Encoded,
    InvalidFormat,
    JsonObject,
    Kind,
    Notebook,
    language_named,
)

OLDER = (1, 2, 3)
MIME = "application/x-ipynb+json"
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
OWN = "cellwright"
"""Our own key in the metadata of notebooks and cells, for what nbformat has no field."""
ATTACHED = "attachments"
"""Pictures that belong to a cell's text: nbformat has them beside the metadata, our model under our own key in it."""
KERNELS = {"python": ("python3", "Python 3"), "bash": ("bash", "Bash"), "r": ("ir", "R"), "julia": ("julia", "Julia")}


def encode(notebook: Notebook) -> Encoded:
    return Encoded(json.dumps(to_notebook(notebook), ensure_ascii=False, indent=1) + "\n", MIME)


def to_notebook(notebook: Notebook) -> JsonObject:
    """The notebook as nbformat's JSON."""
    language = language_named(notebook.language)
    metadata = dict(notebook.metadata)
    metadata[OWN] = {**_mapping(metadata.get(OWN)), "title": notebook.title, "language": language}
    for name, entry in _default_kernel(language).items():
        metadata.setdefault(name, entry)
    used_ids: set[str] = set()
    cells = [_to_cell_json(cell, index, language, used_ids) for index, cell in enumerate(notebook.cells)]
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _default_kernel(language: str) -> dict[str, JsonObject]:
    """The metadata about a kernel of which only the language is known."""
    entries: dict[str, JsonObject] = {"language_info": {"name": language}}
    if language in KERNELS:
        name, display_name = KERNELS[language]
        entries["kernelspec"] = {"name": name, "display_name": display_name, "language": language}
    return entries


def _without_default_kernel(metadata: JsonObject, language: str) -> JsonObject:
    """Without what Jupyter and we write about a kernel of which only the language is known: that can be written again any time."""
    defaults = _default_kernel(language)
    return {
        name: entry
        for name, entry in metadata.items()
        if name not in ("kernelspec", "language_info") or not (entry == defaults.get(name) or _is_empty(entry))
    }


def _is_empty(entry: object) -> bool:
    return isinstance(entry, dict) and not any(cast("JsonObject", entry).values())


def _to_cell_json(cell: Cell, index: int, language: str, used_ids: set[str]) -> JsonObject:
    cell_id = cell.id if _ID.fullmatch(cell.id) and cell.id not in used_ids else f"cell-{index}"
    while cell_id in used_ids:
        cell_id += "x"
    used_ids.add(cell_id)
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
    cell_json: JsonObject = {"cell_type": cell.kind.value, "id": cell_id, "metadata": metadata, "source": cell.source}
    if attached and cell.kind is not Kind.CODE:
        cell_json[ATTACHED] = attached
    if cell.kind is Kind.CODE:
        cell_json |= {"execution_count": cell.execution_count, "outputs": list(cell.outputs)}
    return cell_json


def decode(text: str) -> Notebook:
    try:
        notebook_json: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFormat(
            "this is not JSON, so it is not a notebook", hint="name the format it has: md, srcmd, json or html"
        ) from error
    return from_notebook(notebook_json)


def from_notebook(notebook_json: object) -> Notebook:
    """The notebook in nbformat's JSON, of any version."""
    if not isinstance(notebook_json, dict):
        raise InvalidFormat(
            "this is not a notebook: it is not an object", hint="give a file that Jupyter wrote, or another format"
        )
    notebook = cast("JsonObject", notebook_json)
    version = notebook.get("nbformat")
    if version in OLDER:
        notebook = as_current(notebook, version)
    elif version != CURRENT:
        raise InvalidFormat(
            f"this notebook has nbformat {str(version)[:40]!r}, not 1 to 4", hint="save it as version 4"
        )
    cells_json = notebook.get("cells")
    if not isinstance(cells_json, list):
        raise InvalidFormat(
            "the notebook has no list of cells", hint="give it a list named cells; JupyterLab writes it when it saves"
        )
    metadata = _mapping(notebook.get("metadata"))
    own = _mapping(metadata.get(OWN))
    language = own.get("language") or _mapping(metadata.get("language_info")).get("name")
    language = language or _mapping(metadata.get("kernelspec")).get("language") or "python"
    language = language_named(str(language))
    metadata = _without_own(_without_default_kernel(metadata, language), ("title", "language"))
    cells = tuple(_from_cell_json(cell, number) for number, cell in enumerate(cast("list[object]", cells_json)))
    title = own.get("title")
    return Notebook(title if isinstance(title, str) else _first_title(cells), language, cells, metadata)


def notebook_within(notebook_json: object) -> Notebook:
    """As much of a notebook's JSON as can be read, without a title: the search also covers notebooks that cannot be imported."""
    notebook = _mapping(notebook_json)
    metadata = _mapping(notebook.get("metadata"))
    language = _mapping(metadata.get("language_info")).get("name")
    language = language or _mapping(metadata.get("kernelspec")).get("language")
    cells = tuple(_cell_within(_mapping(cell)) for cell in _items(notebook.get("cells")))
    return Notebook("", str(language or "python"), cells)


def _cell_within(cell: JsonObject) -> Cell:
    kind = cell.get("cell_type")
    return Cell(
        Kind(kind) if kind in tuple(Kind) else Kind.RAW,
        joined_lines(cell.get("source")),
        id=str(cell.get("id", "")),
        outputs=tuple(dict(_mapping(output)) for output in _items(cell.get("outputs"))),
    )


def joined_lines(value: object) -> str:
    """A text, or a list of lines. Anything else counts as empty."""
    return value if isinstance(value, str) else "".join(line for line in _items(value) if isinstance(line, str))


def _from_cell_json(cell_json: object, number: int) -> Cell:
    if not isinstance(cell_json, dict):
        raise InvalidFormat(
            f"cell {number} is not an object", hint="a cell is {cell_type, metadata, source}; mend or remove it"
        )
    cell = cast("JsonObject", cell_json)
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
    return Cell(
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


def _first_title(cells: tuple[Cell, ...]) -> str:
    for cell in cells:
        if cell.kind is Kind.MARKDOWN:
            for line in cell.source.splitlines():
                if line.startswith("# "):
                    return line[2:].strip()
    return UNTITLED


def _mapping(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _source(value: object, number: int) -> str:
    """A source is text or a list of lines. Anything else is an error, because it would be lost."""
    lines = cast("list[object]", value) if isinstance(value, list) else ["" if value is None else value]
    if not all(isinstance(line, str) for line in lines):
        raise InvalidFormat(
            f"the source of cell {number} is neither text nor lines of text",
            hint="make the source a text or a list of lines",
        )
    return "".join(cast("list[str]", lines))


def _outputs(value: object, number: int) -> tuple[JsonObject, ...]:
    entries = cast("list[object]", value) if isinstance(value, list) else [value] if value else []
    outputs = [_mapping(entry) for entry in entries]
    if not all(isinstance(output.get("output_type"), str) for output in outputs):
        raise InvalidFormat(
            f"cell {number} has an output without an output_type",
            hint="clear the outputs of that cell, or give each its output_type",
        )
    return tuple(outputs)
