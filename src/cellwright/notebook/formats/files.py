"""Files that are notebooks: the format of a name or a text, what a notebook lacks of its text, and the files that a Srcbook links to."""

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
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Only an escape of JSON can name half of a surrogate pair."""
MOST_LINKED_FILES = 100


def read(text: str, format_name: str) -> tuple[Notebook, list[str]]:
    """The notebook in a text, and what of the text is not in it."""
    notebook = format_named(format_name).decode(text)
    return notebook, not_in_notebook(notebook, text, format_name)


def not_in_notebook(notebook: Notebook, text: str, format_name: str) -> list[str]:
    """What of the text is not in the notebook that was read from it."""
    if _SURROGATE.search(text):
        _refuse_lone_surrogates(notebook)
    blocks = sum(len(_OUTPUT.findall(piece)) for piece in in_pieces(text)) if format_name == "md" else 0
    return [f"left out of the text: {counted(blocks, 'output block')}, because nothing was run here"] if blocks else []


def _refuse_lone_surrogates(notebook: Notebook) -> None:
    """Refused here with one message, because no place could keep them and each would fail in its own way."""
    try:
        for text in _texts(notebook):
            text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidFormat(
            "a text in this notebook holds half of a surrogate pair, which is no character", hint="remove it"
        ) from None


def _texts(notebook: Notebook) -> Iterator[str]:
    """Every text in a notebook, one by one: to make one JSON of them would keep others waiting if the notebook is large."""
    about = (notebook.title, notebook.language, notebook.metadata)
    cells = (
        (cell.id, cell.source, cell.language, cell.filename, cell.metadata, cell.outputs) for cell in notebook.cells
    )
    for part in chain((about,), cells):
        pending: list[object] = list(part)
        while pending:
            value = pending.pop()
            if isinstance(value, str):
                yield value
            elif isinstance(value, Mapping):
                mapping = cast("Mapping[str, object]", value)
                pending += [*mapping, *mapping.values()]
            elif isinstance(value, Sequence):
                pending += cast("Sequence[object]", value)


def linked_files(text: str, format_name: str) -> dict[str, str]:
    """The links in a Srcbook whose code is in files beside it, each with its path relative to the folder of the Srcbook."""
    if format_name != "srcmd":
        return {}
    path_of = {link: posixpath.normpath(link) for link in srcmd.links(text)}
    if len(path_of) > MOST_LINKED_FILES:
        raise InvalidFormat(
            f"this notebook links to {counted(len(path_of), 'file')}, of which {MOST_LINKED_FILES} at most are read",
            hint="put the code into fenced blocks under the file names",
        )
    for link, path in path_of.items():
        if path.startswith(("..", "/")) or "\\" in path:
            raise InvalidFormat(
                f"the notebook links to {link[:80]!a}, which is not in its folder",
                hint="put the code into a fenced block under the file name",
            )
    return path_of


def format_of(name: str, text: str | None = None) -> str | None:
    """The format of a file by its name and, where the name leaves it open, by its text; None if we do not know the format."""
    by_name = next((form for ending, form in ENDINGS.items() if name.lower().endswith(ending)), None)
    if text is None or by_name not in ("md", "json"):
        return by_name
    return format_within(text) if by_name == "json" or text.lstrip().startswith(srcmd.OPENING) else by_name


def format_within(text: str) -> str:
    """The format of a text that has no name."""
    beginning = text.lstrip()[:40]
    if beginning.startswith("{"):
        return "ipynb" if _NBFORMAT.search(text) and '"cellwright"' not in text.lstrip()[:20] else "json"
    if beginning.startswith(srcmd.OPENING):
        return "srcmd"
    return "html" if beginning.lower().startswith("<!doctype") else "md"


def no_format(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name[:80]!a} is no notebook by its name",
        hint=f"a name that ends with {', '.join(ENDINGS)}; import_notebook reads others where `format` is given",
    )
