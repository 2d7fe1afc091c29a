"""Outputs of nbformat: kept within a limit, cleaned for reading, and one of them as a resource."""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from cellwright.core.resources import Content
from cellwright.core.text.clean import clean, clean_html
from cellwright.core.text.counting import counted
from cellwright.core.text.cutting import cut_for_file, mapped
from cellwright.core.text.sight import seen
from cellwright.notebook.outputs import PICTURES, best_mime
from cellwright.thinking.model import JsonObject

MAX_DEPTH = 20
MARKUP = frozenset({"text/html", "image/svg+xml"})


def bounded(outputs: Sequence[JsonObject], limit: int) -> tuple[JsonObject, ...]:
    """As many outputs as fit, a long text by its head and tail, always the error; what is missing is said."""
    kept = [output for _, output in _kept(outputs, limit)]
    if gone := len(outputs) - len(kept):
        kept.append(_note(f"{counted(gone, 'output')} left out, a cell keeps {limit:,} bytes of output"))
    return tuple(kept)


def places(outputs: Sequence[JsonObject], limit: int) -> dict[int, int]:
    """From the number of each output that is kept to its number among those that are."""
    return {number: place for place, (number, _) in enumerate(_kept(outputs, limit))}


def _kept(outputs: Sequence[JsonObject], limit: int) -> Iterator[tuple[int, JsonObject]]:
    left = limit
    sizes = [_size(output) for output in outputs]
    following = sum(sizes)
    for number, (output, size) in enumerate(zip(outputs, sizes, strict=True)):
        following -= size
        if size <= left:
            yield number, output
            left -= size
        elif output.get("output_type") == "stream" and left > 1024:  # noqa: PLR2004
            # What follows, the end of a long output and what was said about it, is worth more than the middle of this.
            reserved = min(following, left // 4)
            yield number, _cut_stream(output, left - reserved)
            left = reserved
        elif output.get("output_type") == "error":
            yield number, {**output, "traceback": []}


def _cut_stream(output: JsonObject, room: int) -> JsonObject:
    text = str(output.get("text", ""))
    # A character has at most four bytes, and JSON writes a control character with six.
    return {**output, "text": cut_for_file(text, max(room // 6, 200))}


def _note(text: str) -> JsonObject:
    return {"output_type": "stream", "name": "stderr", "text": f"[{text}]\n"}


def _size(output: JsonObject) -> int:
    return len(json.dumps(output, ensure_ascii=False).encode("utf-8", "replace"))


class Cleaner:
    """Cleans text and JSON, and counts the hidden characters that it takes out."""

    def __init__(self) -> None:
        self.hidden = 0

    def text(self, text: str) -> str:
        return mapped(text, self._text)

    def _text(self, text: str) -> str:
        cleaned = clean(text)
        self.hidden += cleaned.hidden
        return cleaned.text

    def source(self, text: str) -> str:
        """What is run: nothing in it may write over anything else."""
        cleaned = seen(text)
        self.hidden += cleaned.hidden
        return cleaned.text

    def markup(self, text: str) -> str:
        cleaned = clean_html(text)
        self.hidden += cleaned.hidden
        return cleaned.text

    def json(self, value: object, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
        """Somebody's JSON, not deeper than anybody reads."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict | list | tuple) and depth >= MAX_DEPTH:
            return "…"
        if isinstance(value, dict):
            found = cast("dict[str, object]", value)
            return {self.text(key): self._named(key, item, depth) for key, item in found.items()}
        if isinstance(value, list | tuple):
            return [self.json(item, depth + 1) for item in cast("list[object]", value)]
        return value

    def _named(self, key: str, item: object, depth: int) -> Any:  # noqa: ANN401
        if key in MARKUP and isinstance(item, str):
            return self.markup(item)
        return self.json(item, depth + 1)


def output_content(output: Mapping[str, Any]) -> Content:
    """One output in full: a picture as bytes, everything else as cleaned text."""
    cleaner = Cleaner()
    match output.get("output_type"):
        case "stream":
            return _text_content(cleaner.text(str(output.get("text", ""))), "text/plain", cleaner)
        case "error":
            lines = "\n".join(str(line) for line in output.get("traceback", ()))
            text = lines or f"{output.get('ename')}: {output.get('evalue')}"
            return _text_content(cleaner.text(text), "text/plain", cleaner)
        case _:
            data = cast("Mapping[str, object]", output.get("data") or {})
    mime = best_mime(data)
    value = data.get(mime, "")
    if mime in PICTURES and isinstance(value, str):
        try:
            return Content(base64.b64decode(value), mime)
        except binascii.Error:
            return Content("this picture is not valid base64; run the cell again", "text/plain")
    if not isinstance(value, str):
        return _text_content(json.dumps(cleaner.json(value), ensure_ascii=False), "application/json", cleaner)
    text = cleaner.markup(value) if mime in MARKUP else cleaner.text(value)
    return _text_content(text, cleaner.text(mime), cleaner)


def _text_content(text: str, mime: str, cleaner: Cleaner) -> Content:
    return Content(text, mime, {"hiddenCharactersRemoved": cleaner.hidden} if cleaner.hidden else {})
