"""A book as text, with all that is lost on the way: what the format says itself, and what does not come back."""

from dataclasses import dataclass

from cellwright.core.formats.formats import FORMATS, format_named
from cellwright.core.formats.losses import difference, told
from cellwright.core.formats.model import Book, InvalidFormat


@dataclass(frozen=True, slots=True)
class Written:
    """A book as text, and in words everything that is not in it."""

    text: str
    mime_type: str
    losses: list[str]


def written(book: Book, format_name: str) -> Written:
    made = format_named(format_name).encode(book)
    return Written(made.text, made.mime_type, told(made.losses, _measured(book, made.text, format_name)))


def _measured(book: Book, text: str, format_name: str) -> dict[str, str]:
    if format_name == "html":
        return {}
    try:
        return difference(book, FORMATS[format_name].decode(text), format_name)
    except InvalidFormat as wrong:
        # A fault of ours in the format: better a text that says so than none.
        return {"all": f"this text cannot be read back as {format_name}: {wrong.message}"}
