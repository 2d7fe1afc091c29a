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


FORMATS: Mapping[str, Format] = {
    "srcmd": Format(srcmd.MIME, srcmd.encode, srcmd.decode),
    "ipynb": Format(ipynb.MIME, ipynb.encode, ipynb.decode),
    "json": Format(native.MIME, native.encode, native.decode),
    "md": Format(md.MIME, md.encode, md.decode),
}


def format_named(name: str) -> Format:
    found = FORMATS.get(name)
    if found is None:
        raise InvalidArgument(f"there is no format {name[:40]!r}", hint=f"there are: {', '.join(FORMATS)}")
    return found
