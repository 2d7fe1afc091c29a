"""Checks cells that callers write, and prepares a foreign notebook for import."""

from collections.abc import Container
from dataclasses import dataclass, replace

from cellwright.core.errors import InvalidArgument, LimitReached
from cellwright.notebook.model import UNTITLED, Cell, Kind, Notebook, language_named
from cellwright.notebook.outputs import has_error
from cellwright.thinking.model import (
    MAX_TITLE,
    ThinkingLimits,
    checked_filename,
    checked_language,
    is_cell_id,
    new_cell_id,
)
from cellwright.thinking.outputs import bounded


@dataclass(frozen=True, slots=True)
class CellDraft:
    """What a caller says about a cell. None means that the caller did not say it."""

    source: str | None = None
    kind: Kind | None = None
    language: str | None = None
    filename: str | None = None


def new_cell(draft: CellDraft, notebook_language: str, limits: ThinkingLimits) -> Cell:
    return changed_cell(Cell(draft.kind or Kind.CODE, "", id=new_cell_id()), draft, notebook_language, limits)


def changed_cell(cell: Cell, draft: CellDraft, notebook_language: str, limits: ThinkingLimits) -> Cell:
    """The cell with the changes that the draft asks for."""
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
    language = "" if language == notebook_language else language
    return replace(cell, kind=kind, source=source, language=language, filename=filename)


def _check_source(source: str, limits: ThinkingLimits) -> None:
    size = len(source.encode("utf-8", "surrogatepass"))
    if size > limits.source_bytes:
        raise LimitReached(
            f"a cell's source has at most {limits.source_bytes:,} bytes, this one has {size:,}", hint="split the cell"
        )


def adopted(notebook: Notebook, patterns: Container[str]) -> tuple[Notebook, str]:
    """A foreign notebook made fit for import, and the name of the pattern it was made from, if we know that pattern."""
    pattern = notebook.metadata.get("pattern")
    known_pattern = pattern if isinstance(pattern, str) and pattern in patterns else ""
    title = " ".join(notebook.title.replace("\0", "").split())[:MAX_TITLE] or UNTITLED
    metadata = {name: value for name, value in notebook.metadata.items() if name != "pattern" or not known_pattern}
    return Notebook(title, checked_language(notebook.language or "python"), notebook.cells, metadata), known_pattern


def cells_of(notebook: Notebook, limits: ThinkingLimits) -> list[Cell]:
    """The notebook's cells, each with a valid and unique id."""
    if len(notebook.cells) > limits.cells:
        raise LimitReached(
            f"a notebook has at most {limits.cells} cells (--thinking-max-cells), this one has {len(notebook.cells)}",
            hint="import it in parts",
        )
    notebook_language = language_named(notebook.language)
    used_ids: set[str] = set()
    return [
        replace(_imported_cell(cell, notebook_language, used_ids, limits), index=index)
        for index, cell in enumerate(notebook.cells)
    ]


def _imported_cell(cell: Cell, notebook_language: str, used_ids: set[str], limits: ThinkingLimits) -> Cell:
    _check_source(cell.source, limits)
    cell_id = cell.id if is_cell_id(cell.id) and cell.id not in used_ids else new_cell_id()
    used_ids.add(cell_id)
    if cell.kind is not Kind.CODE:
        return Cell(cell.kind, cell.source, id=cell_id, metadata=cell.metadata)
    language = language_named(cell.language)
    outputs = bounded(cell.outputs, limits.output_bytes)
    status = "failed" if has_error(outputs) else "idle"
    language = "" if language == notebook_language else language
    return replace(cell, id=cell_id, language=language, outputs=outputs, status=status)
