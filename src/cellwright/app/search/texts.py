"""Notebooks and files as pieces of text that can be found: a piece for each cell, or for some lines."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from cellwright.core.text.clean import clean
from cellwright.core.text.sight import seen
from cellwright.notebook.formats.ipynb import joined_lines
from cellwright.notebook.model import Cell, Kind, Notebook, language_of_file
from cellwright.notebook.places import Place, Reading, extension
from cellwright.storage.search.port import Entry, Key

MOST_CELLS = 400
LONGEST_CELL = 4_000
LONGEST_OUTPUTS = 1_000
"""Of a cell: what it printed is found by its beginning."""
LONGEST_OUTLINE = 1_000
PIECE = 1_200
"""Characters of a file that are found together: about what the model reads of a text."""
MOST_PIECES = 50
LONGEST_FILE = 2 * MOST_PIECES * PIECE
MOST_PIECES_OF_DATA = 2
"""Of a table or a log the beginning says what it is."""
DATA = frozenset(
    {"csv", "tsv", "json", "jsonl", "ndjson", "geojson", "log", "svg", "xml", "lock", "map", "sql", "po", "html", "htm"}
)
PROSE = frozenset({"md", "markdown", "rst", "txt", "text", "adoc", "org", "tex"})
_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)


def entries_of(tenant: str, reading: Reading) -> list[Entry]:
    """What of a place goes into the index."""
    match reading.content:
        case None:
            return []
        case str(text):
            return file_entries(tenant, reading.place, text)
        case notebook:
            return notebook_entries(tenant, reading.place, reading.title, notebook, reading.namespace)


# -- notebooks -------------------------------------------------------------------------------------------------------------------


def notebook_entries(tenant: str, place: Place, title: str, notebook: Notebook, namespace: str = "") -> list[Entry]:
    """A notebook as a whole, by its headings, and each of its cells with what it printed."""
    outline = "\n".join(heading for cell in notebook.cells for heading in _headings(cell))
    shown = clean(outline[:LONGEST_OUTLINE]).text
    whole = Entry(Key(tenant, place.kind, place.id), shown, title, namespace)
    cells = [
        Entry(Key(tenant, place.kind, place.id, part), text, title, namespace, (), _language(cell, notebook))
        for part, cell in _parts(notebook.cells[:MOST_CELLS])
        if (text := _cell_text(cell))
    ]
    return [whole, *cells]


def _parts(cells: Sequence[Cell]) -> Iterator[tuple[str, Cell]]:
    """Each cell by its id, as far as that names one cell; else by its number."""
    seen: set[str] = set()
    for number, cell in enumerate(cells):
        part = cell.id if _CELL_ID.fullmatch(cell.id) and cell.id not in seen else f"#{number}"
        seen.add(part)
        yield part, cell


def _headings(cell: Cell) -> list[str]:
    return _HEADING.findall(cell.source) if cell.kind is Kind.MARKDOWN else []


def _language(cell: Cell, notebook: Notebook) -> str:
    return cell.language or notebook.language if cell.kind is Kind.CODE else "md"


def _cell_text(cell: Cell) -> str:
    printed = "\n".join(text for output in cell.outputs for text in _output_texts(output))[:LONGEST_OUTPUTS]
    return clean(f"{cell.source[:LONGEST_CELL]}\n{printed}").text.strip()


def _output_texts(output: Mapping[str, Any]) -> list[str]:
    match output.get("output_type"):
        case "stream":
            return [joined_lines(output.get("text"))]
        case "error":
            return [f"{output.get('ename')}: {output.get('evalue')}"]
        case "display_data" | "execute_result":
            return [joined_lines(_mapping(output.get("data")).get("text/plain"))]
        case _:
            return []


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


# -- files -----------------------------------------------------------------------------------------------------------------------


def file_entries(tenant: str, place: Place, text: str) -> list[Entry]:
    """A file in pieces, each by the line it begins with."""
    ending = extension(place.id)
    language = "md" if ending in PROSE or not ending else language_of_file(place.id)
    most = MOST_PIECES_OF_DATA if ending in DATA else MOST_PIECES
    return [
        Entry(Key(tenant, place.kind, place.id, str(line)), piece, place.id, "", (), language)
        for line, piece in pieces(seen(text[:LONGEST_FILE]).text, most)
    ]


def pieces(text: str, most: int) -> list[tuple[int, str]]:
    """The text in pieces of whole lines, at most so many, each with the number of its first line; ended early by a blank line."""
    found: list[tuple[int, str]] = []
    begun, size, lines = 1, 0, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        full = size + len(line) > PIECE or (not line.strip() and size > PIECE // 2)
        if full and lines:
            _add(found, begun, lines)
            begun, size, lines = number, 0, []
            if len(found) >= most:
                return found
        lines.append(line[:LONGEST_CELL])
        size += len(line) + 1
    _add(found, begun, lines)
    return found


def _add(found: list[tuple[int, str]], begun: int, lines: Sequence[str]) -> None:
    piece = "\n".join(lines).strip("\n")
    if piece.strip():
        found.append((begun, piece))
