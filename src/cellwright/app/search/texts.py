"""Notebooks and files as pieces of text for the search index: a piece for each cell, or for some lines."""

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
"""Characters of a cell's outputs that are indexed, from their beginning."""
LONGEST_OUTLINE = 1_000
PIECE = 1_200
"""Characters of a file that are indexed together: about as much as the model reads of a text."""
MOST_PIECES = 50
LONGEST_FILE = 2 * MOST_PIECES * PIECE
MOST_PIECES_OF_DATA = 2
"""Pieces of a table or a log that are indexed: its beginning says what it is."""
DATA = frozenset(
    {"csv", "tsv", "json", "jsonl", "ndjson", "geojson", "log", "svg", "xml", "lock", "map", "sql", "po", "html", "htm"}
)
PROSE = frozenset({"md", "markdown", "rst", "txt", "text", "adoc", "org", "tex"})
_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)


def entries_of(tenant: str, reading: Reading) -> list[Entry]:
    """The entries of a place in the index."""
    match reading.content:
        case None:
            return []
        case str(text):
            return file_entries(tenant, reading.place, text)
        case notebook:
            return notebook_entries(tenant, reading.place, reading.title, notebook, reading.namespace)


# -- notebooks -------------------------------------------------------------------------------------------------------------------


def notebook_entries(tenant: str, place: Place, title: str, notebook: Notebook, namespace: str = "") -> list[Entry]:
    """An entry for the whole notebook, with its headings, and one for each cell, with its outputs."""
    prose = (cell.source for cell in notebook.cells if cell.kind is Kind.MARKDOWN)
    outline = "\n".join(heading for source in prose for heading in _HEADING.findall(source))
    notebook_entry = Entry(Key(tenant, place.kind, place.id), clean(outline[:LONGEST_OUTLINE]).text, title, namespace)
    cells = [
        Entry(
            Key(tenant, place.kind, place.id, part),
            text,
            title,
            namespace,
            language=(cell.language or notebook.language) if cell.kind is Kind.CODE else "md",
        )
        for part, cell in _parts(notebook.cells[:MOST_CELLS])
        if (text := _cell_text(cell))
    ]
    return [notebook_entry, *cells]


def _parts(cells: Sequence[Cell]) -> Iterator[tuple[str, Cell]]:
    """Each cell by its id, if that is valid and unique; else by its number."""
    used_parts: set[str] = set()
    for number, cell in enumerate(cells):
        part = cell.id if _CELL_ID.fullmatch(cell.id) and cell.id not in used_parts else f"#{number}"
        used_parts.add(part)
        yield part, cell


def _cell_text(cell: Cell) -> str:
    output_text = "\n".join(text for output in cell.outputs for text in _output_texts(output))[:LONGEST_OUTPUTS]
    return clean(f"{cell.source[:LONGEST_CELL]}\n{output_text}").text.strip()


def _output_texts(output: Mapping[str, Any]) -> list[str]:
    match output.get("output_type"):
        case "stream":
            return [joined_lines(output.get("text"))]
        case "error":
            return [f"{output.get('ename')}: {output.get('evalue')}"]
        case "display_data" | "execute_result":
            data: object = output.get("data")
            return [
                joined_lines(cast("Mapping[str, Any]", data).get("text/plain") if isinstance(data, Mapping) else None)
            ]
        case _:
            return []


# -- files -----------------------------------------------------------------------------------------------------------------------


def file_entries(tenant: str, place: Place, text: str) -> list[Entry]:
    """An entry for each piece of a file, named by its first line."""
    ending = extension(place.id)
    language = "md" if ending in PROSE or not ending else language_of_file(place.id)
    most = MOST_PIECES_OF_DATA if ending in DATA else MOST_PIECES
    return [
        Entry(Key(tenant, place.kind, place.id, str(line)), piece, place.id, "", (), language)
        for line, piece in pieces(seen(text[:LONGEST_FILE]).text, most)
    ]


def pieces(text: str, most: int) -> list[tuple[int, str]]:
    """At most `most` pieces of whole lines, each with the number of its first line. A blank line may end a piece early."""
    numbered: list[tuple[int, str]] = []
    first_line, size, lines = 1, 0, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        full = size + len(line) > PIECE or (not line.strip() and size > PIECE // 2)
        if full and lines:
            _add_piece(numbered, first_line, lines)
            first_line, size, lines = number, 0, []
            if len(numbered) >= most:
                return numbered
        lines.append(line[:LONGEST_CELL])
        size += len(line) + 1
    _add_piece(numbered, first_line, lines)
    return numbered


def _add_piece(numbered: list[tuple[int, str]], first_line: int, lines: Sequence[str]) -> None:
    piece = "\n".join(lines).strip("\n")
    if piece.strip():
        numbered.append((first_line, piece))
