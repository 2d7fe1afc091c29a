"""`html`: a notebook as one page for people. It has no script, loads nothing, follows light and dark, and prints well.

The content of the notebook cannot act: text is escaped, pictures are data: addresses in <img>, and HTML outputs are in frames that may
run nothing and have no origin. The page's own policy forbids the same once more, and the frames inherit it.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, cast

from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.notebook.formats.highlight import highlighted
from cellwright.notebook.formats.html_style import FRAME_STYLE, STYLE
from cellwright.notebook.formats.markdown_html import to_html
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
from cellwright.notebook.outputs import PICTURES

MIME = "text/html"
ONE_WAY = "a page is for reading: it shows no ids and no metadata, and cannot be imported again"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
OWN = "cellwright"
SVG = "image/svg+xml"
HTML = "text/html"
SHOWN = (*PICTURES, SVG, HTML, "text/markdown", "text/latex", "application/json", "text/plain")
ROW_REMS, LEAST_REMS, MOST_REMS = 1.9, 1.5, 32.0
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_ROW = re.compile(r"<(?:tr|p|li|br|h[1-6]|div)\b", re.IGNORECASE)
_SCRIPT = re.compile(r"<script\b", re.IGNORECASE)


def encode(notebook: Notebook) -> Encoded:
    losses: list[str] = []
    cells = "\n".join(_Cell(notebook, cell, number, losses).html() for number, cell in enumerate(notebook.cells))
    title = escape(_cleaned(notebook.title) or UNTITLED)
    count = counted(len(notebook.cells), "cell")
    about = " · ".join(part for part in (escape(_cleaned(notebook.language)), count) if part)
    page = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n'
        f"<header><h1>{title}</h1><p>{about}</p></header>\n<main>\n{cells}\n</main>\n</body>\n</html>\n"
    )
    return Encoded(page, MIME, (ONE_WAY, *losses))


def decode(_text: str) -> Notebook:
    raise InvalidFormat(
        "a page cannot be read as a notebook", hint="export as json or ipynb what is to be imported again"
    )


def _cleaned(text: str) -> str:
    return clean(text).text


def _joined(value: object) -> str:
    """Text of nbformat, which is one string or a list of lines; anything else as JSON."""
    if isinstance(value, list):
        return "".join(str(part) for part in cast("list[object]", value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


class _Cell:
    """Writes one cell as HTML, and adds to `losses` what cannot be shown."""

    def __init__(self, notebook: Notebook, cell: Cell, number: int, losses: list[str]) -> None:
        self._notebook = notebook
        self._cell = cell
        self._number = number
        self._losses = losses

    def html(self) -> str:
        cell = self._cell
        body = _cleaned(cell.source)
        if cell.kind is Kind.MARKDOWN:
            inside = to_html(self._without_title(body), self._attached(), _fenced)
            return f'<section class="prose" id="cell-{self._number}">\n{inside}\n</section>' if inside else ""
        if cell.kind is Kind.RAW:
            return f'<section class="raw" id="cell-{self._number}"><pre>{escape(body)}</pre></section>'
        language = language_named(cell.language or self._notebook.language)
        count = "" if cell.execution_count is None else str(cell.execution_count)
        label = " · ".join(
            part
            for part in (
                _cleaned(cell.filename),
                language if cell.language and language != self._notebook.language else "",
            )
            if part
        )
        name = f'<p class="name">{escape(label)}</p>' if label else ""
        outputs = "".join(self._outputs())
        return (
            f'<section class="code" id="cell-{self._number}" data-count="{escape(count)}">{name}'
            f"<pre><code>{highlighted(body, language)}</code></pre>{outputs}</section>"
        )

    def _without_title(self, text: str) -> str:
        """The first cell often begins with the title, which the page shows already."""
        first, _, rest = text.lstrip("\n").partition("\n")
        return rest if self._number == 0 and first.strip() == f"# {_cleaned(self._notebook.title)}" else text

    def _attached(self) -> dict[str, str]:
        """The pictures that are attached to the cell, as addresses by their names."""
        attachments: object = cast("Any", self._cell.metadata.get(OWN) or {}).get("attachments", {})
        bundles = cast("dict[str, JsonObject]", attachments) if isinstance(attachments, dict) else {}
        pictures = {name: _first_picture(bundle) for name, bundle in bundles.items()}
        return {name: address for name, address in pictures.items() if address}

    def _outputs(self) -> Iterator[str]:
        for output in self._cell.outputs:
            match output.get("output_type"):
                case "stream":
                    kind = "err" if output.get("name") == "stderr" else "out"
                    yield self._text(_joined(output.get("text", "")), kind)
                case "error":
                    traceback: object = output.get("traceback") or []
                    lines = cast("list[object]", traceback) if isinstance(traceback, list) else [traceback]
                    short = f"{output.get('ename', '')}: {output.get('evalue', '')}"
                    yield self._text("\n".join(map(str, lines)) or short, "error")
                case _:
                    yield self._data(output.get("data"))

    def _text(self, text: str, kind: str) -> str:
        if "\x1b[" in text:
            self._lose("terminal colours are not shown")
        cleaned = _cleaned(text).rstrip("\n")
        return f'<pre class="{kind}">{escape(cleaned)}</pre>' if cleaned.strip() else ""

    def _lose(self, loss: str) -> None:
        self._losses.append(f"cell {self._number}: {loss}")

    def _data(self, data: object) -> str:
        """An output in the best of its types that a page can show."""
        bundle = cast("JsonObject", data) if isinstance(data, dict) else {}
        mime = next((kind for kind in SHOWN if kind in bundle), None)
        if mime is None or (mime == "text/plain" and len(bundle) > 1):
            self._lose(
                f"an output of {', '.join(kind for kind in bundle if kind != mime)[:200] or 'no known form'} is not shown"
            )
        if mime is None:
            return ""
        value = bundle[mime]
        if mime in (*PICTURES, SVG):
            address = _picture(mime, value)
            alt = escape(_cleaned(_joined(bundle.get("text/plain", "picture")))[:200])
            return (
                f'<figure><img src="{address}" alt="{alt}"></figure>'
                if address
                else self._text("[a damaged picture]", "err")
            )
        writers: dict[str, Callable[[str], str]] = {
            HTML: self._frame,
            "text/markdown": lambda text: f'<div class="prose">{to_html(_cleaned(text), {}, _fenced)}</div>',
        }
        return writers.get(mime, lambda text: self._text(text, "out"))(_joined(value))

    def _frame(self, markup: str) -> str:
        """Foreign HTML, in a frame where it can only be looked at."""
        if _SCRIPT.search(markup):
            self._lose("an HTML output has scripts, which do not run")
        rems = min(LEAST_REMS + ROW_REMS * len(_ROW.findall(markup)), MOST_REMS)
        encodable = markup.encode("utf-8", "replace").decode()
        inside = escape(f"<!doctype html><meta charset=utf-8><style>{FRAME_STYLE}</style>{encodable}")
        return f'<iframe sandbox="" title="output" style="height:{rems:.1f}rem" srcdoc="{inside}"></iframe>'


def _fenced(source: str, language: str) -> str:
    return highlighted(source, language_named(language))


def _first_picture(bundle: object) -> str | None:
    value_of = cast("JsonObject", bundle) if isinstance(bundle, dict) else {}
    addresses = (_picture(mime, value_of.get(mime)) for mime in (*PICTURES, SVG))
    return next(filter(None, addresses), None)


def _picture(mime: str, value: object) -> str | None:
    """The picture as a data: address; None if the value is no picture."""
    if mime == SVG:
        text = _joined(value) if value else ""
        return f"data:{SVG};base64,{base64.b64encode(text.encode('utf-8', 'replace')).decode()}" if text else None
    encoded = "".join(_joined(value).split()) if value else ""
    return f"data:{mime};base64,{encoded}" if encoded and _BASE64.fullmatch(encoded) else None
