"""`json`: our own form of a notebook. It keeps everything and follows no foreign convention."""

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
    """A cell without its empty fields."""
    fields: JsonObject = {"id": cell.id, "kind": cell.kind.value, "source": cell.source}
    optional: JsonObject = {
        "language": cell.language,
        "filename": cell.filename,
        "outputs": list(cell.outputs),
        "metadata": dict(cell.metadata),
    }
    fields |= {name: value for name, value in optional.items() if value}
    if cell.execution_count is not None:
        fields["execution_count"] = cell.execution_count
    return fields


def packed(notebook: Notebook) -> bytes:
    """The notebook as it is passed between processes. It is encoded into bytes directly, because a string would be one copy more."""
    notebook_json = to_json(notebook)
    try:
        return to_json_bytes(notebook_json)
    except ValueError:
        # It contains half a surrogate pair, which only the standard library encodes.
        return json.dumps(notebook_json, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def unpacked(data: bytes) -> Notebook:
    return _notebook(parsed(data))


def decode(text: str) -> Notebook:
    try:
        notebook_json: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_ours() from error
    return _notebook(notebook_json)


def _notebook(notebook_json: Any) -> Notebook:  # noqa: ANN401 - anybody's JSON
    try:
        if notebook_json["cellwright"] != VERSION:
            raise InvalidFormat(
                f"this file has version {notebook_json['cellwright']!r}, not {VERSION}",
                hint="export it anew with this version of cellwright",
            )
        title, language = _text(notebook_json["title"]), _text(notebook_json["language"])
        cells = tuple(_cell(cell) for cell in notebook_json["cells"])
        return Notebook(title, language, cells, _object(notebook_json.get("metadata")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _not_ours() from error


def _not_ours() -> InvalidFormat:
    return InvalidFormat("this is not a notebook in our JSON form", hint="export one to see how it looks")


def _cell(fields: JsonObject) -> Cell:
    count = fields.get("execution_count")
    return Cell(
        Kind(fields["kind"]),
        _text(fields["source"]),
        _text(fields.get("language", "")),
        _text(fields.get("filename", "")),
        _text(fields.get("id", "")),
        count if count is None else int(count),
        tuple(_output(output) for output in fields.get("outputs", ())),
        _object(fields.get("metadata")),
    )


def _output(value: object) -> JsonObject:
    output = _object(value)
    _text(output["output_type"])
    return output


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
