"""Pads as books and books as pads: the way in and out of every notebook format."""

from collections.abc import Sequence

from cellwright.core.formats.model import Book, BookCell, Kind, language_named
from cellwright.scratch.model import Cell, CellDraft, JsonObject, Pad

PROSE = ("markdown", "md")
RAW = ("text", "txt")
OWN = "cellwright"


def book_of(pad: Pad, cells: Sequence[Cell]) -> Book:
    """The pad as a book: prose and code by language; what else is known goes into the metadata."""
    languages = [language_named(cell.language) for cell in cells if _kind(cell.language) is Kind.CODE]
    main = max(dict.fromkeys(languages), key=languages.count, default="text")
    about = pad.about
    known: JsonObject = {
        "description": about.description,
        "summary": about.summary,
        "namespace": about.namespace,
        "tags": list(about.tags),
    }
    metadata = {**about.metadata, **{name: value for name, value in known.items() if value}}
    return Book(about.title or pad.id, main, tuple(_book_cell(cell, main) for cell in cells), metadata)


def not_in_a_book(cells: Sequence[Cell], schemas: int = 0) -> list[str]:
    """What of a pad no notebook format holds, in words. `schemas`: how many it shares."""
    checked = sum(1 for cell in cells if cell.json_schema is not None)
    losses = [f"the json_schema of {checked} cells: notebooks have none"] if checked else []
    return [*losses, f"{schemas} shared schemas: notebooks have none"] if schemas else losses


def _book_cell(cell: Cell, main: str) -> BookCell:
    kind = _kind(cell.language)
    language = language_named(cell.language)
    metadata = {**cell.metadata, **({"tags": list(cell.tags)} if cell.tags else {})}
    if kind is not Kind.CODE:
        return BookCell(kind, cell.content, id=cell.id, metadata=metadata)
    filename = cell.metadata.get("filename")
    return BookCell(
        kind,
        cell.content,
        "" if language == main else language,
        filename if isinstance(filename, str) else "",
        cell.id,
        metadata=metadata,
    )


def _kind(language: str) -> Kind:
    named = language.strip().lower()
    return Kind.MARKDOWN if named in PROSE else Kind.RAW if named in RAW else Kind.CODE


def drafts_of(book: Book) -> tuple[JsonObject, list[CellDraft], list[str]]:
    """What a pad is made from: its metadata, its cells, and in words what a pad cannot hold."""
    losses: list[str] = []
    outputs = sum(1 for cell in book.cells if cell.outputs)
    if outputs:
        losses.append(f"the outputs of {outputs} cells: pads keep sources only")
    metadata: JsonObject = {
        **{name: value for name, value in book.metadata.items() if name != OWN},
        "title": book.title,
    }
    return metadata, [_draft(cell, book.language) for cell in book.cells], losses


def _draft(cell: BookCell, main: str) -> CellDraft:
    language = {Kind.MARKDOWN: "md", Kind.RAW: "txt"}.get(cell.kind, cell.language or main)
    metadata: JsonObject = {name: value for name, value in cell.metadata.items() if name != OWN}
    if cell.filename:
        metadata["filename"] = cell.filename
    return CellDraft(language, cell.source, metadata=metadata or None)
