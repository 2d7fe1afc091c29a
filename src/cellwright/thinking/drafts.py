"""Cells as callers give them, checked; books as notebooks to be made."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from cellwright.core.errors import InvalidArgument, LimitReached
from cellwright.core.formats.model import Book, BookCell, Kind, language_named
from cellwright.thinking.model import (
    MAX_TITLE,
    Cell,
    Limits,
    checked_filename,
    checked_language,
    is_cell_id,
    new_cell_id,
)
from cellwright.thinking.outputs import bounded


@dataclass(frozen=True, slots=True)
class CellDraft:
    """What is said of a cell. None: not said."""

    source: str | None = None
    kind: Kind | None = None
    language: str | None = None
    filename: str | None = None


def new_cell(draft: CellDraft, main: str, limits: Limits) -> Cell:
    return changed_cell(Cell(new_cell_id(), draft.kind or Kind.CODE, ""), draft, main, limits)


def changed_cell(cell: Cell, draft: CellDraft, main: str, limits: Limits) -> Cell:
    """The cell with what the draft says; `main` is the notebook's language."""
    kind = draft.kind or cell.kind
    source = cell.source if draft.source is None else draft.source
    _check_source(source, limits)
    language, filename = cell.language, cell.filename
    if draft.language is not None:
        language = checked_language(draft.language)
    if draft.filename is not None:
        filename = checked_filename(draft.filename) if draft.filename else ""
    if kind is not Kind.CODE:
        if draft.language or draft.filename:
            raise InvalidArgument("only code cells have a language and a filename", hint='give cellType "code"')
        return replace(
            cell, kind=kind, source=source, language="", filename="", outputs=(), execution_count=None, status="idle"
        )
    return replace(cell, kind=kind, source=source, language="" if language == main else language, filename=filename)


def _check_source(source: str, limits: Limits) -> None:
    size = len(source.encode("utf-8", "surrogatepass"))
    if size > limits.source_bytes:
        raise LimitReached(
            f"a cell's source has at most {limits.source_bytes:,} bytes, this one has {size:,}", hint="split the cell"
        )


def adopted(book: Book, patterns: Container[str]) -> tuple[Book, str]:
    """Anybody's book as one that a notebook can be made from, and the pattern it says it was made from, if we know it."""
    pattern = book.metadata.get("pattern")
    known = pattern if isinstance(pattern, str) and pattern in patterns else ""
    title = " ".join(book.title.replace("\0", "").split())[:MAX_TITLE] or "Untitled"
    metadata = {name: value for name, value in book.metadata.items() if name != "pattern" or not known}
    return Book(title, checked_language(book.language or "python"), book.cells, metadata), known


def cells_of(book: Book, limits: Limits) -> list[Cell]:
    """The book's cells with ids that are good and stand once."""
    if len(book.cells) > limits.cells:
        raise LimitReached(
            f"a notebook has at most {limits.cells} cells (--thinking-max-cells), this one has {len(book.cells)}",
            hint="import it in parts",
        )
    main = language_named(book.language)
    seen: set[str] = set()
    return [_cell_of(cell, main, seen, limits) for cell in book.cells]


def _cell_of(cell: BookCell, main: str, seen: set[str], limits: Limits) -> Cell:
    _check_source(cell.source, limits)
    cell_id = cell.id if is_cell_id(cell.id) and cell.id not in seen else new_cell_id()
    seen.add(cell_id)
    if cell.kind is not Kind.CODE:
        return Cell(cell_id, cell.kind, cell.source, metadata=cell.metadata)
    language = language_named(cell.language)
    outputs = bounded(cell.outputs, limits.output_bytes)
    status = "failed" if _ends_badly(outputs) else "idle"
    return Cell(
        cell_id,
        cell.kind,
        cell.source,
        "" if language == main else language,
        cell.filename,
        cell.metadata,
        cell.execution_count,
        outputs,
        status,
    )


def _ends_badly(outputs: Sequence[dict[str, object]]) -> bool:
    return any(output.get("output_type") == "error" for output in outputs)
