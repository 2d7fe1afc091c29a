"""Files that are notebooks: which format a name or a text is of, what of a text is not in its notebook, files that a Srcbook links to."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import cast

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.clean import in_pieces
from cellwright.core.text.counting import counted
from cellwright.notebook.formats import srcmd
from cellwright.notebook.formats.registry import format_named
from cellwright.notebook.model import InvalidFormat, Notebook

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
MOST_LINKED_FILES = 100


def read(text: str, format_name: str) -> tuple[Notebook, list[str]]:
    """The notebook in a text, and what of the text is not in it."""
    notebook = format_named(format_name).decode(text)
    return notebook, not_in_notebook(notebook, text, format_name)


def not_in_notebook(notebook: Notebook, text: str, format_name: str) -> list[str]:
    """What of the text is not in the notebook that was read from it."""
    if _HALF.search(text):
        _refuse_halves(notebook)
    blocks = sum(len(_OUTPUT.findall(piece)) for piece in in_pieces(text)) if format_name == "md" else 0
    return [f"left out of the text: {counted(blocks, 'output block')}, because nothing was run here"] if blocks else []


def _refuse_halves(notebook: Notebook) -> None:
    """Here, in words: no place could keep it, and each fails in its own way."""
    try:
        for text in _texts(notebook):
            text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidFormat(
            "a text in this notebook holds half of a surrogate pair, which is no character", hint="remove it"
        ) from None


def _texts(notebook: Notebook) -> Iterator[str]:
    """Every text in a notebook, one by one: all of them as one JSON would keep others waiting for as long as the notebook is large."""
    about = (notebook.title, notebook.language, notebook.metadata)
    cells = (
        (cell.id, cell.source, cell.language, cell.filename, cell.metadata, cell.outputs) for cell in notebook.cells
    )
    for part in chain((about,), cells):
        left: list[object] = list(part)
        while left:
            value = left.pop()
            if isinstance(value, str):
                yield value
            elif isinstance(value, Mapping):
                inside = cast("Mapping[str, object]", value)
                left += [*inside, *inside.values()]
            elif isinstance(value, Sequence):
                left += cast("Sequence[object]", value)


def linked_files(text: str, format_name: str) -> dict[str, str]:
    """For a Srcbook whose code lies in files beside it: each link in it, and the path from its folder that the link means."""
    if format_name != "srcmd":
        return {}
    found = {link: posixpath.normpath(link) for link in srcmd.links(text)}
    if len(found) > MOST_LINKED_FILES:
        raise InvalidFormat(
            f"this notebook links to {counted(len(found), 'file')}, of which {MOST_LINKED_FILES} at most are read",
            hint="put the code into fenced blocks under the file names",
        )
    for link, path in found.items():
        if path.startswith(("..", "/")) or "\\" in path:
            raise InvalidFormat(
                f"the notebook links to {link[:80]!a}, which is not in its folder",
                hint="put the code into a fenced block under the file name",
            )
    return found


def format_of(name: str, text: str | None = None) -> str | None:
    """The format of a file by its name, and where that leaves it open, by how its text begins; None if it is none of ours."""
    found = next((form for ending, form in ENDINGS.items() if name.lower().endswith(ending)), None)
    if text is None or found not in ("md", "json"):
        return found
    return format_within(text) if found == "json" or text.lstrip().startswith(srcmd.OPENING) else found


def format_within(text: str) -> str:
    """The format of a text that has no name."""
    begins = text.lstrip()[:40]
    if begins.startswith("{"):
        return "ipynb" if _NBFORMAT.search(text) and '"cellwright"' not in text.lstrip()[:20] else "json"
    return "srcmd" if begins.startswith(srcmd.OPENING) else "html" if begins.lower().startswith("<!doctype") else "md"


def no_format(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name[:80]!a} is no notebook by its name",
        hint=f"a name that ends with {', '.join(ENDINGS)}; import_notebook reads others where `format` is given",
    )
