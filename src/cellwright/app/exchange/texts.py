"""Books as texts and texts as books, with all that is lost on the way; a long text in pages."""

import re
from collections.abc import Mapping
from dataclasses import replace

from cellwright.core.budget import estimate_tokens
from cellwright.core.errors import InvalidArgument
from cellwright.core.fitting import compact_json
from cellwright.core.formats.formats import FORMATS, format_named
from cellwright.core.formats.model import Book, InvalidFormat
from cellwright.thinking.outputs import Cleaner

ENDINGS: Mapping[str, str] = {
    ".ipynb": "ipynb",
    ".src.md": "srcmd",
    ".srcmd": "srcmd",
    ".md": "md",
    ".markdown": "md",
    ".json": "json",
    ".html": "html",
    ".htm": "html",
}
_OUTPUT = re.compile(r"^ {0,3}(?:`{3,}|~{3,})output[ \t]*$", re.MULTILINE)
_NBFORMAT = re.compile(r'"nbformat"\s*:')
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Only an escape of JSON can say half of a pair."""
SRCMD_MARK = "<!-- srcbook:"
LIKELY_CHARACTERS = 4
PAGE_SHRINKS = 0.8


def read(text: str, format_name: str) -> tuple[Book, list[str]]:
    """The book in a text, and what of the text is not in it."""
    book = format_named(format_name).decode(text)
    if _HALF.search(text):
        _refuse_halves(book)
    blocks = len(_OUTPUT.findall(text)) if format_name == "md" else 0
    return book, [f"{blocks} output blocks of the text are left out: nothing was run here"] if blocks else []


def _refuse_halves(book: Book) -> None:
    """Here, in words: no place could keep it, and each fails in its own way."""
    try:
        FORMATS["json"].encode(book).text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidFormat(
            "a text in this notebook holds half of a surrogate pair, which is no character", hint="remove it"
        ) from None


def format_of(name: str, text: str | None = None) -> str | None:
    """The format of a file by its name, and where that leaves it open, by how its text begins; None if it is none of ours."""
    found = next((form for ending, form in ENDINGS.items() if name.lower().endswith(ending)), None)
    if text is None or found not in ("md", "json"):
        return found
    return format_within(text) if found == "json" or text.lstrip().startswith(SRCMD_MARK) else found


def format_within(text: str) -> str:
    """The format of a text that has no name."""
    begins = text.lstrip()[:40]
    if begins.startswith("{"):
        return "ipynb" if _NBFORMAT.search(text) and '"cellwright"' not in text.lstrip()[:20] else "json"
    return "srcmd" if begins.startswith(SRCMD_MARK) else "html" if begins.lower().startswith("<!doctype") else "md"


def no_format(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name[:80]!a} is no notebook by its name",
        hint=f"a name that ends with {', '.join(ENDINGS)}; import_notebook reads others where `format` is given",
    )


def cleaned(book: Book) -> tuple[Book, list[str]]:
    """The book as a model may read it, and a word if that is not the book itself."""
    cleaner = Cleaner()
    cells = tuple(
        replace(
            cell,
            source=cleaner.text(cell.source),
            language=cleaner.text(cell.language),
            filename=cleaner.text(cell.filename),
            outputs=tuple(cleaner.json(output) for output in cell.outputs),
            metadata=cleaner.json(dict(cell.metadata)),
        )
        for cell in book.cells
    )
    shown = Book(cleaner.text(book.title), cleaner.text(book.language), cells, cleaner.json(dict(book.metadata)))
    changed = sum(1 for old, new in zip(book.cells, cells, strict=True) if old != new)
    if not changed:
        return shown, []
    hidden = f" ({cleaner.hidden} hidden characters)" if cleaner.hidden else ""
    return shown, [
        f"terminal colours, control and invisible characters of {changed} cells are not in this text{hidden}; import_notebook keeps them"
    ]


def page(text: str, offset: int, tokens: int) -> tuple[str, int | None]:
    """As much of the text as fits, from a place on; and where the next page begins, if there is one."""
    if offset > len(text):
        raise InvalidArgument(f"there is no position {offset}: the text has {len(text)} characters")
    size = min(len(text) - offset, tokens * LIKELY_CHARACTERS)
    while size > 1 and estimate_tokens(compact_json(text[offset : offset + size])) > tokens:
        size = int(size * PAGE_SHRINKS)
    end = offset + size
    return text[offset:end], end if end < len(text) else None
