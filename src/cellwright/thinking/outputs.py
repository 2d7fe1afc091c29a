"""Outputs of nbformat: kept within a limit, and cleaned for reading."""

import json
from collections.abc import Sequence
from typing import Any, cast

from cellwright.core.clean import clean, clean_html
from cellwright.core.sight import seen
from cellwright.thinking.model import JsonObject

MAX_DEPTH = 20
MARKUP = frozenset({"text/html", "image/svg+xml"})


def bounded(outputs: Sequence[JsonObject], limit: int) -> tuple[JsonObject, ...]:
    """As many outputs as fit, a long text by its head and tail, always the error; what is missing is said."""
    kept: list[JsonObject] = []
    left, gone = limit, 0
    for output in outputs:
        size = _size(output)
        if size <= left:
            kept.append(output)
            left -= size
        elif output.get("output_type") == "stream" and left > 1024:  # noqa: PLR2004
            kept.append(_cut_stream(output, left))
            left = 0
        elif output.get("output_type") == "error":
            kept.append({**output, "traceback": []})
        else:
            gone += 1
    if gone:
        kept.append(_note(f"{gone} outputs left out, a cell keeps {limit:,} bytes of output"))
    return tuple(kept)


def _cut_stream(output: JsonObject, room: int) -> JsonObject:
    text = str(output.get("text", ""))
    # A character has at most four bytes, and JSON writes a control character with six.
    half = max(room // 12, 100)
    missing = len(text) - 2 * half
    if missing <= 0:
        return output
    return {**output, "text": f"{text[:half]}\n[{missing:,} of {len(text):,} characters left out]\n{text[-half:]}"}


def _note(text: str) -> JsonObject:
    return {"output_type": "stream", "name": "stderr", "text": f"[{text}]\n"}


def _size(output: JsonObject) -> int:
    return len(json.dumps(output, ensure_ascii=False).encode("utf-8", "replace"))


class Cleaner:
    """Cleans text and JSON, and counts the hidden characters that it takes out."""

    def __init__(self) -> None:
        self.hidden = 0

    def text(self, text: str) -> str:
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
