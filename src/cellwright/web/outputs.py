"""Outputs as the page shows them: plain text, pictures, and for HTML and SVG the address of their own frame."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, cast
from urllib.parse import quote

from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.text.sight import cut_for_people
from cellwright.notebook.model import joined
from cellwright.notebook.outputs import PICTURES

MOST_TEXT = 20_000
MOST_PICTURE = 3_000_000
MOST_OUTPUTS = 100
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")


class PageText(TypedDict):
    type: Literal["text"]
    text: str
    stream: str
    truncated: bool


class PageError(TypedDict):
    type: Literal["error"]
    name: str
    value: str
    traceback: str


class PagePicture(TypedDict):
    type: Literal["image"]
    src: str
    alt: str


class PageFrame(TypedDict):
    """HTML or SVG, by the address of its frame."""

    type: Literal["html", "svg"]
    frame: str
    text: str


class PageMarkup(TypedDict):
    type: Literal["markdown", "latex", "json"]
    text: str


PageOutput = PageText | PageError | PagePicture | PageFrame | PageMarkup
FRAMED: Mapping[str, Literal["html", "svg"]] = {"image/svg+xml": "svg", "text/html": "html"}
MARKUP: Mapping[str, Literal["markdown", "latex"]] = {"text/markdown": "markdown", "text/latex": "latex"}


def page_outputs(outputs: Sequence[Mapping[str, Any]], uri: str, cell: str) -> list[PageOutput]:
    """The outputs of a cell, which are in nbformat, as the page takes them."""
    frames = f"api/frame?uri={quote(uri, safe='')}&cell={quote(cell, safe='')}"
    entries = [_page_output(output, f"{frames}&output={n}") for n, output in enumerate(outputs[:MOST_OUTPUTS])]
    if len(outputs) > MOST_OUTPUTS:
        entries.append(_text(f"… and {counted(len(outputs) - MOST_OUTPUTS, 'more output')}", "result"))
    return entries


def framed(output: Mapping[str, Any]) -> str | None:
    """The HTML or SVG of an output, if it has one."""
    data = _mapping(output.get("data"))
    markup = next((data[mime] for mime in FRAMED if mime in data), None)
    return joined(markup) if markup is not None else None


def _page_output(output: Mapping[str, Any], frame: str) -> PageOutput:
    match output.get("output_type"):
        case "stream":
            return _text(joined(output.get("text")), "stderr" if output.get("name") == "stderr" else "stdout")
        case "error":
            lines = output.get("traceback")
            text = "\n".join(joined(line) for line in cast("list[object]", lines)) if isinstance(lines, list) else ""
            name, value = (clean(joined(output.get(key))).text[:1_000] for key in ("ename", "evalue"))
            return {"type": "error", "name": name, "value": value, "traceback": cut_for_people(text, MOST_TEXT)[0]}
        case "display_data" | "execute_result":
            return _data(_mapping(output.get("data")), frame)
        case kind:
            return _text(f"an output of the kind {clean(str(kind)).text[:80]!r}", "result")


def _data(data: Mapping[str, Any], frame: str) -> PageOutput:
    plain = cut_for_people(joined(data.get("text/plain")), MOST_TEXT)[0]
    for mime in PICTURES:
        if mime in data:
            return _picture(joined(data[mime]), mime, plain)
    for mime, kind in FRAMED.items():
        if mime in data:
            return {"type": kind, "frame": frame, "text": plain}
    for mime, kind in MARKUP.items():
        if mime in data:
            return {"type": kind, "text": cut_for_people(joined(data[mime]), MOST_TEXT)[0]}
    if "application/json" in data:
        indented = json.dumps(data["application/json"], indent=2, ensure_ascii=False)
        return {"type": "json", "text": cut_for_people(indented, MOST_TEXT)[0]}
    if "text/plain" in data or not data:
        return _text(joined(data.get("text/plain")), "result")
    kinds = ", ".join(clean(str(mime)).text[:80] for mime in list(data)[:5])
    return _text(f"an output that only JupyterLab can show: {kinds}", "result")


def _picture(encoded: str, mime: str, plain: str) -> PagePicture | PageText:
    body = "".join(encoded.split())
    if len(body) > MOST_PICTURE:
        return _text(f"a picture of {len(body) * 3 // 4:,} bytes, too large to be shown here", "result")
    if not body or not _BASE64.issuperset(body):
        return _text("a picture that cannot be read", "result")
    return {"type": "image", "src": f"data:{mime};base64,{body}", "alt": plain[:300] or "a picture"}


def _text(text: str, stream: str) -> PageText:
    shown_text, truncated = cut_for_people(text, MOST_TEXT)
    return {"type": "text", "text": shown_text, "stream": stream, "truncated": truncated}


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
