"""Every format by its name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cellwright.core.errors import InvalidArgument
from cellwright.core.formats import ipynb, md, native, srcmd
from cellwright.core.formats.model import Book, Encoded


@dataclass(frozen=True, slots=True)
class Format:
    mime_type: str
    encode: Callable[[Book], Encoded]
    decode: Callable[[str], Book]


def _page(book: Book) -> Encoded:
    from cellwright.core.formats import html  # noqa: PLC0415 - only who wants a page waits for what makes it

    return html.encode(book)


def _no_page(text: str) -> Book:
    from cellwright.core.formats import html  # noqa: PLC0415

    return html.decode(text)


FORMATS: Mapping[str, Format] = {
    "srcmd": Format(srcmd.MIME, srcmd.encode, srcmd.decode),
    "ipynb": Format(ipynb.MIME, ipynb.encode, ipynb.decode),
    "json": Format(native.MIME, native.encode, native.decode),
    "md": Format(md.MIME, md.encode, md.decode),
    "html": Format("text/html", _page, _no_page),
}


def format_named(name: str) -> Format:
    found = FORMATS.get(name)
    if found is None:
        raise InvalidArgument(f"there is no format {name[:40]!r}", hint=f"there are: {', '.join(FORMATS)}")
    return found
