"""Pads as notebooks and notebooks as pads: the way in and out of every notebook format."""

from collections.abc import Sequence

from cellwright.core.text.counting import counted
from cellwright.notebook.formats.srcmd import PACKAGE
from cellwright.notebook.model import Cell, Kind, Notebook, language_named
from cellwright.scratch.model import JsonObject, Pad, PadCellDraft, kind_of
from cellwright.scratch.validation.checked import is_object

OWN = "cellwright"
LANGUAGE = "language"
"""Our own key in a pad that was made from a notebook whose language its cells do not show."""


def notebook_of(pad: Pad, cells: Sequence[Cell]) -> Notebook:
    """The pad as a notebook. A cell's language says whether it is prose or code; the pad's fields go into the metadata."""
    about = pad.about
    own_metadata: object = about.metadata.get(OWN)
    own_fields = own_metadata if is_object(own_metadata) else {}
    main = str(
        own_fields.get(LANGUAGE) or _main_language([(cell.language, cell.metadata.get("filename")) for cell in cells])
    )
    other_own = {name: value for name, value in own_fields.items() if name != LANGUAGE}
    fields: JsonObject = {
        "description": about.description,
        "summary": about.summary,
        "namespace": about.namespace,
        "tags": list(about.tags),
    }
    metadata = {name: value for name, value in about.metadata.items() if name != OWN}
    if other_own:
        metadata[OWN] = other_own
    metadata |= {name: value for name, value in fields.items() if value}
    return Notebook(about.title or pad.id, main, tuple(_plain_cell(cell, main) for cell in cells), metadata)


def _main_language(cells: Sequence[tuple[str, object]]) -> str:
    """The language of most code cells. Each cell is its language and its file name; a Srcbook's package.json does not count."""
    languages = [
        language_named(language) for language, name in cells if kind_of(language) is Kind.CODE and name != PACKAGE
    ]
    fallback = "javascript" if any(name == PACKAGE for _, name in cells) else "text"
    return max(dict.fromkeys(languages), key=languages.count, default=fallback)


def not_in_a_notebook(cells: Sequence[Cell], schemas: int = 0) -> list[str]:
    """The parts of a pad that no notebook format holds, in words. `schemas` is how many schemas the pad shares."""
    with_schema = sum(1 for cell in cells if cell.check.schema is not None)
    losses = [f"the json_schema of {counted(with_schema, 'cell')}: notebooks have none"] if with_schema else []
    return [*losses, f"{counted(schemas, 'shared schema')}: notebooks have none"] if schemas else losses


def _plain_cell(cell: Cell, main: str) -> Cell:
    kind = kind_of(cell.language)
    language = language_named(cell.language)
    metadata = {**cell.metadata, **({"tags": list(cell.tags)} if cell.tags else {})}
    if kind is not Kind.CODE:
        return Cell(kind, cell.source, id=cell.id, metadata=metadata)
    filename = cell.metadata.get("filename")
    if not isinstance(filename, str):
        filename = ""
    if filename:
        del metadata["filename"]
    return Cell(kind, cell.source, "" if language == main else language, filename, cell.id, metadata=metadata)


def drafts_of(notebook: Notebook) -> tuple[JsonObject, list[PadCellDraft], list[str]]:
    """The notebook as a pad's metadata and cells, and in words what a pad cannot hold of it."""
    losses: list[str] = []
    outputs = sum(1 for cell in notebook.cells if cell.outputs)
    if outputs:
        losses.append(f"the outputs of {counted(outputs, 'cell')}: pads keep sources only")
    metadata: JsonObject = {
        **{name: value for name, value in notebook.metadata.items() if name != OWN},
        "title": notebook.title,
    }
    drafts = [_draft(cell, notebook.language) for cell in notebook.cells]
    languages = [(draft.language, cell.filename) for draft, cell in zip(drafts, notebook.cells, strict=True)]
    if (main := language_named(notebook.language)) != _main_language(languages):
        metadata[OWN] = {LANGUAGE: main}
    return metadata, drafts, losses


def _draft(cell: Cell, main: str) -> PadCellDraft:
    language = {Kind.MARKDOWN: "md", Kind.RAW: "txt"}.get(cell.kind, cell.language or main)
    metadata: JsonObject = {name: value for name, value in cell.metadata.items() if name != OWN}
    if cell.filename:
        metadata["filename"] = cell.filename
    return PadCellDraft(language, cell.source, metadata=metadata or None)
