"""Outputs of nbformat: cut to a limit, cleaned for reading, and one output as a resource."""

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
    """As many outputs as fit, and every error. A long text is cut to its head and tail; a note counts the outputs left out."""
    fitting = [output for _, output in _fitting(outputs, limit)]
    if dropped := len(outputs) - len(fitting):
        note = f"[{counted(dropped, 'output')} left out, a cell keeps {limit:,} bytes of output]\n"
        fitting.append({"output_type": "stream", "name": "stderr", "text": note})
    return tuple(fitting)


def stored_numbers(outputs: Sequence[JsonObject], limit: int) -> dict[int, int]:
    """The number under which each output that fits is stored, by its number among all outputs."""
    return {number: stored for stored, (number, _) in enumerate(_fitting(outputs, limit))}


def _fitting(outputs: Sequence[JsonObject], limit: int) -> Iterator[tuple[int, JsonObject]]:
    """The outputs that fit, each with its number, long texts cut."""
    room = limit
    sizes = [len(json.dumps(output, ensure_ascii=False).encode("utf-8", "replace")) for output in outputs]
    following = sum(sizes)
    for number, (output, size) in enumerate(zip(outputs, sizes, strict=True)):
        following -= size
        if size <= room:
            yield number, output
            room -= size
        elif output.get("output_type") == "stream" and room > 1024:  # noqa: PLR2004
            # The outputs that follow, such as the end of a long text or an error, are worth more than the middle of this one.
            reserved = min(following, room // 4)
            # A character has at most four bytes, and JSON writes a control character with six.
            text = cut_for_file(str(output.get("text", "")), max((room - reserved) // 6, 200))
            yield number, {**output, "text": text}
            room = reserved
        elif output.get("output_type") == "error":
            yield number, {**output, "traceback": []}


class Cleaner:
    """Cleans text and JSON, and counts the hidden characters that it removes."""

    def __init__(self) -> None:
        self.hidden = 0

    def text(self, text: str) -> str:
        return mapped(text, self._clean)

    def _clean(self, text: str) -> str:
        cleaned = clean(text)
        self.hidden += cleaned.hidden
        return cleaned.text

    def source(self, text: str) -> str:
        """Code, in which no character may hide or overwrite another when it is shown."""
        cleaned = seen(text)
        self.hidden += cleaned.hidden
        return cleaned.text

    def markup(self, text: str) -> str:
        cleaned = clean_html(text)
        self.hidden += cleaned.hidden
        return cleaned.text

    def json(self, value: object, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
        """Foreign JSON, cut at a depth that nobody reads."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict | list | tuple) and depth >= MAX_DEPTH:
            return "…"
        if isinstance(value, dict):
            return {
                self.text(key): self.markup(item)
                if key in MARKUP and isinstance(item, str)
                else self.json(item, depth + 1)
                for key, item in cast("dict[str, object]", value).items()
            }
        if isinstance(value, list | tuple):
            return [self.json(item, depth + 1) for item in cast("list[object]", value)]
        return value


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
            data: Mapping[str, object] = output.get("data") or {}
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
