"""Notebooks and files as pieces of text that can be found: a piece for each cell, or for some lines."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from cellwright.app.finding.model import Kind, Thing
from cellwright.core.clean import clean
from cellwright.core.formats.model import Book, BookCell, language_of_file
from cellwright.core.formats.model import Kind as CellKind
from cellwright.core.sight import seen
from cellwright.storage.search import Entry, Key

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
NOT_TEXT = frozenset(
    {
        "png", "jpg", "jpeg", "gif", "webp", "ico", "bmp", "tif", "tiff", "pdf", "zip", "gz", "bz2", "xz", "zst", "tar", "tgz",
        "whl", "7z", "jar", "so", "dll", "dylib", "exe", "bin", "o", "a", "class", "pyc", "pyd", "npy", "npz", "pkl", "pickle",
        "parquet", "feather", "h5", "hdf5", "db", "sqlite", "sqlite3", "onnx", "pt", "pth", "safetensors", "mp3", "mp4", "wav",
        "avi", "mov", "webm", "woff", "woff2", "ttf", "otf", "eot", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods",
    }
)  # fmt: skip
_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)


def is_findable(path: str) -> bool:
    """Whether a file, by its name, holds text and is meant to be seen."""
    name = path.rpartition("/")[2].lower()
    hidden = path.startswith(".") or "/." in path
    return not hidden and extension(name) not in NOT_TEXT and not name.endswith((".min.js", ".min.css"))


def extension(path: str) -> str:
    return path.rpartition(".")[2].lower() if "." in path.rpartition("/")[2] else ""


# -- notebooks -------------------------------------------------------------------------------------------------------------------


def book_entries(tenant: str, thing: Thing, title: str, book: Book, namespace: str = "") -> list[Entry]:
    """A notebook as a whole, by its headings, and each of its cells with what it printed."""
    outline = "\n".join(heading for cell in book.cells for heading in _headings(cell))
    shown = clean(outline[:LONGEST_OUTLINE]).text
    whole = Entry(Key(tenant, thing.kind, thing.id), shown, title, namespace)
    cells = [
        Entry(Key(tenant, thing.kind, thing.id, part), text, title, namespace, (), _language(cell, book))
        for part, cell in _parts(book.cells[:MOST_CELLS])
        if (text := _cell_text(cell))
    ]
    return [whole, *cells]


def book_of(content: object) -> Book:
    """A notebook's JSON as a book, as far as it can be read: what no importer would take may still be looked for."""
    notebook = _mapping(content)
    about = _mapping(notebook.get("metadata"))
    language = _mapping(about.get("language_info")).get("name") or _mapping(about.get("kernelspec")).get("language")
    return Book(
        "", str(language or "python"), tuple(_book_cell(_mapping(cell)) for cell in _items(notebook.get("cells")))
    )


def _book_cell(cell: Mapping[str, Any]) -> BookCell:
    kind = cell.get("cell_type")
    return BookCell(
        CellKind(kind) if kind in set(CellKind) else CellKind.RAW,
        _joined(cell.get("source")),
        id=str(cell.get("id", "")),
        outputs=tuple(dict(_mapping(output)) for output in _items(cell.get("outputs"))),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def cell_of(part: str) -> str | None:
    """The id of the cell that a part is; None for the whole, and for a cell that has no id."""
    return part if part and not part.startswith("#") else None


def _parts(cells: Sequence[BookCell]) -> Iterator[tuple[str, BookCell]]:
    """Each cell by its id, as far as that names one cell; else by its number."""
    seen: set[str] = set()
    for number, cell in enumerate(cells):
        part = cell.id if _CELL_ID.fullmatch(cell.id) and cell.id not in seen else f"#{number}"
        seen.add(part)
        yield part, cell


def _headings(cell: BookCell) -> list[str]:
    return _HEADING.findall(cell.source) if cell.kind is CellKind.MARKDOWN else []


def _language(cell: BookCell, book: Book) -> str:
    return cell.language or book.language if cell.kind is CellKind.CODE else "md"


def _cell_text(cell: BookCell) -> str:
    printed = "\n".join(text for output in cell.outputs for text in _output_texts(output))[:LONGEST_OUTPUTS]
    return clean(f"{cell.source[:LONGEST_CELL]}\n{printed}").text.strip()


def _output_texts(output: Mapping[str, Any]) -> list[str]:
    match output.get("output_type"):
        case "stream":
            return [_joined(output.get("text"))]
        case "error":
            return [f"{output.get('ename')}: {output.get('evalue')}"]
        case "display_data" | "execute_result":
            return [_joined(_mapping(output.get("data")).get("text/plain"))]
        case _:
            return []


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(part for part in cast("list[object]", value) if isinstance(part, str))
    return value if isinstance(value, str) else ""


# -- files -----------------------------------------------------------------------------------------------------------------------


def file_entries(tenant: str, thing: Thing, text: str) -> list[Entry]:
    """A file in pieces, each by the line it begins with."""
    ending = extension(thing.id)
    language = "md" if ending in PROSE or not ending else language_of_file(thing.id)
    most = MOST_PIECES_OF_DATA if ending in DATA else MOST_PIECES
    return [
        Entry(Key(tenant, Kind.FILE, thing.id, str(line)), piece, thing.id, "", (), language)
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
