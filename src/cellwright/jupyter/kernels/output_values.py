"""The values of outputs: made of whole characters that every encoder accepts, and small enough to be kept."""

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any, cast

from cellwright.core.text.cutting import cut_for_file, from_file, gaps_of
from cellwright.jupyter.kernels.channel import JsonObject
from cellwright.notebook.outputs import Error

BYTES_OF_A_JSON_CHARACTER = 24


def whole_text(value: object) -> str:
    """Text that every encoder accepts. Half characters, which a kernel may send, become a replacement mark."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def whole_value(value: object) -> object:
    """JSON of which all texts are whole, and all numbers can be shown."""
    match value:
        case str():
            return whole_text(value)
        case dict():
            return {whole_text(key): whole_value(item) for key, item in cast("dict[object, object]", value).items()}
        case list():
            return [whole_value(item) for item in cast("list[object]", value)]
        case int() if not isinstance(value, bool) and abs(value) > 2**53:
            # JavaScript would read it as a big integer, which JupyterLab cannot show.
            return float(value) if abs(value) <= sys.float_info.max else str(value)
        case _:
            return value


def fitting(data: Mapping[str, Any], room: int) -> JsonObject:
    """The data without its largest representations, if it is larger than `room`. A note names those left out. Nothing is cut."""
    bundle = {mime: whole_value(value) for mime, value in data.items()}
    notes: list[str] = []
    while bundle and bundle_size(bundle) > room:
        largest = max(bundle, key=lambda mime: json_size(bundle[mime]))
        size = json_size(bundle.pop(largest))
        notes.append(f"[cellwright: {largest} of {size:,} characters left out, it is too large]")
    if notes:
        plain = bundle.get("text/plain")
        bundle["text/plain"] = "\n".join([*([plain] if isinstance(plain, str) else []), *notes])
    return bundle


def bounded_error(content: JsonObject, limit: int) -> tuple[Error, int]:
    """The error with at most `limit` characters of traceback and of message, and how many characters of both are missing."""
    lines = [whole_text(line) for line in cast("Iterable[object]", content.get("traceback") or ())]
    traceback, message = "\n".join(lines), whole_text(content.get("evalue"))
    cut_traceback, cut_message = cut_for_file(traceback, limit), cut_for_file(message, limit)
    if cut_traceback != traceback:
        lines = cut_traceback.split("\n")
    missing = sum(gap.missing for text in (cut_traceback, cut_message) for gap in gaps_of(from_file(text)))
    ename = whole_text(content.get("ename"))
    return {"output_type": "error", "ename": ename, "evalue": cut_message, "traceback": lines}, missing


def json_size(value: object) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value))


def bundle_size(data: Mapping[str, Any]) -> int:
    return sum(json_size(value) for value in data.values())


def memory_bytes(value: object) -> int:
    """The most bytes that the value can take in memory: of all JSON, `[[],[],…]` takes the most for each character."""
    return sys.getsizeof(value) if isinstance(value, str) else BYTES_OF_A_JSON_CHARACTER * json_size(value)
