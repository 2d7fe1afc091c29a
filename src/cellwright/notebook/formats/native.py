"""`json`: our own form of a notebook, whole and without conventions of others."""

import json
from typing import Any, cast

from pydantic_core import to_json as to_json_bytes

from cellwright.core.foreign_json import parsed
from cellwright.notebook.model import Cell, Encoded, InvalidFormat, JsonObject, Kind, Notebook

MIME = "application/json"
VERSION = 1


def encode(notebook: Notebook) -> Encoded:
    return Encoded(json.dumps(to_json(notebook), ensure_ascii=False, separators=(",", ":")), MIME)


def to_json(notebook: Notebook) -> JsonObject:
    return {
        "cellwright": VERSION,
        "title": notebook.title,
        "language": notebook.language,
        "metadata": dict(notebook.metadata),
        "cells": [cell_json(cell) for cell in notebook.cells],
    }


def cell_json(cell: Cell) -> JsonObject:
    """A cell; what is empty is left out."""
    made: JsonObject = {"id": cell.id, "kind": cell.kind.value, "source": cell.source}
    optional: JsonObject = {
        "language": cell.language,
        "filename": cell.filename,
        "outputs": list(cell.outputs),
        "metadata": dict(cell.metadata),
    }
    made |= {name: value for name, value in optional.items() if value}
    if cell.execution_count is not None:
        made["execution_count"] = cell.execution_count
    return made


def packed(notebook: Notebook) -> bytes:
    """The notebook as it travels between processes. Straight into bytes: a text of all of it would be one copy more."""
    made = to_json(notebook)
    try:
        return to_json_bytes(made)
    except ValueError:
        # Half a surrogate pair, which only Python takes.
        return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def unpacked(data: bytes) -> Notebook:
    return _notebook(parsed(data))


def decode(text: str) -> Notebook:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_ours() from error
    return _notebook(found)


def _notebook(found: Any) -> Notebook:  # noqa: ANN401 - anybody's JSON
    try:
        if found["cellwright"] != VERSION:
            raise InvalidFormat(
                f"this file has version {found['cellwright']!r}, not {VERSION}",
                hint="export it anew with this version of cellwright",
            )
        cells = tuple(_cell(cell) for cell in found["cells"])
        return Notebook(_text(found["title"]), _text(found["language"]), cells, _object(found.get("metadata")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _not_ours() from error


def _not_ours() -> InvalidFormat:
    return InvalidFormat("this is not a notebook in our JSON form", hint="export one to see how it looks")


def _cell(found: JsonObject) -> Cell:
    count = found.get("execution_count")
    return Cell(
        Kind(found["kind"]),
        _text(found["source"]),
        _text(found.get("language", "")),
        _text(found.get("filename", "")),
        _text(found.get("id", "")),
        count if count is None else int(count),
        tuple(_output(output) for output in found.get("outputs", ())),
        _object(found.get("metadata")),
    )


def _output(value: object) -> JsonObject:
    made = _object(value)
    _text(made["output_type"])
    return made


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _object(value: object) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError(value)
    return cast("JsonObject", value)
