"""Every format by its name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cellwright.core.errors import InvalidArgument
from cellwright.notebook.formats import ipynb, md, native, srcmd
from cellwright.notebook.model import Encoded, Notebook


@dataclass(frozen=True, slots=True)
class Format:
    mime_type: str
    encode: Callable[[Notebook], Encoded]
    decode: Callable[[str], Notebook]


def _encode_html(notebook: Notebook) -> Encoded:
    from cellwright.notebook.formats import html  # noqa: PLC0415 - loaded only when a page is made

    return html.encode(notebook)


def _decode_html(text: str) -> Notebook:
    from cellwright.notebook.formats import html  # noqa: PLC0415

    return html.decode(text)


FORMATS: Mapping[str, Format] = {
    "srcmd": Format(srcmd.MIME, srcmd.encode, srcmd.decode),
    "ipynb": Format(ipynb.MIME, ipynb.encode, ipynb.decode),
    "json": Format(native.MIME, native.encode, native.decode),
    "md": Format(md.MIME, md.encode, md.decode),
    "html": Format("text/html", _encode_html, _decode_html),
}


def format_named(name: str) -> Format:
    notebook_format = FORMATS.get(name)
    if notebook_format is None:
        raise InvalidArgument(f"there is no format {name[:40]!r}", hint=f"there are: {', '.join(FORMATS)}")
    return notebook_format
