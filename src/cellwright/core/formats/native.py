"""`json`: our own form of a book, whole and without conventions of others."""

import json
from typing import Any, cast

from cellwright.core.formats.model import Book, BookCell, Encoded, InvalidFormat, JsonObject, Kind

MIME = "application/json"
VERSION = 1


def encode(book: Book) -> Encoded:
    return Encoded(json.dumps(to_json(book), ensure_ascii=False, separators=(",", ":")), MIME)


def to_json(book: Book) -> JsonObject:
    return {
        "cellwright": VERSION,
        "title": book.title,
        "language": book.language,
        "metadata": dict(book.metadata),
        "cells": [cell_json(cell) for cell in book.cells],
    }


def cell_json(cell: BookCell) -> JsonObject:
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


def decode(text: str) -> Book:
    try:
        found: Any = json.loads(text)
        if found["cellwright"] != VERSION:
            raise InvalidFormat(f"this file has version {found['cellwright']!r}, not {VERSION}")
        cells = tuple(_cell(cell) for cell in found["cells"])
        return Book(_text(found["title"]), _text(found["language"]), cells, _object(found.get("metadata")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidFormat("this is not a book in our JSON form", hint="export one to see how it looks") from error


def _cell(found: JsonObject) -> BookCell:
    count = found.get("execution_count")
    return BookCell(
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
