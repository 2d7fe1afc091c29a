"""Pads as notebooks and notebooks as pads: the way in and out of every notebook format."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from cellwright.core.text.counting import counted
from cellwright.notebook.formats.srcmd import PACKAGE
from cellwright.notebook.model import Cell, Kind, Notebook, language_named
from cellwright.scratch.model import JsonObject, Pad, PadCellDraft, kind_of

OWN = "cellwright"
LANGUAGE = "language"
"""Our own key of a pad that was made of a notebook whose language its cells do not tell."""


def notebook_of(pad: Pad, cells: Sequence[Cell]) -> Notebook:
    """The pad as a notebook: prose and code by language; what else is known goes into the metadata."""
    about = pad.about
    own = _own(about.metadata)
    main = str(own.get(LANGUAGE) or _main([(cell.language, cell.metadata.get("filename")) for cell in cells]))
    kept = {name: value for name, value in own.items() if name != LANGUAGE}
    known: JsonObject = {
        "description": about.description,
        "summary": about.summary,
        "namespace": about.namespace,
        "tags": list(about.tags),
    }
    others = {name: value for name, value in about.metadata.items() if name != OWN} | ({OWN: kept} if kept else {})
    metadata = {**others, **{name: value for name, value in known.items() if value}}
    return Notebook(about.title or pad.id, main, tuple(_plain_cell(cell, main) for cell in cells), metadata)


def _own(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    found: object = metadata.get(OWN)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _main(cells: Sequence[tuple[str, object]]) -> str:
    """The language of most code cells, given each one's language and file name. A Srcbook's package.json says nothing about it."""
    languages = [
        language_named(language) for language, name in cells if kind_of(language) is Kind.CODE and name != PACKAGE
    ]
    fallback = "javascript" if any(name == PACKAGE for _, name in cells) else "text"
    return max(dict.fromkeys(languages), key=languages.count, default=fallback)


def not_in_a_notebook(cells: Sequence[Cell], schemas: int = 0) -> list[str]:
    """What of a pad no notebook format holds, in words. `schemas`: how many it shares."""
    checked = sum(1 for cell in cells if cell.check.schema is not None)
    losses = [f"the json_schema of {counted(checked, 'cell')}: notebooks have none"] if checked else []
    return [*losses, f"{counted(schemas, 'shared schema')}: notebooks have none"] if schemas else losses


def _plain_cell(cell: Cell, main: str) -> Cell:
    kind = kind_of(cell.language)
    language = language_named(cell.language)
    metadata = {**cell.metadata, **({"tags": list(cell.tags)} if cell.tags else {})}
    if kind is not Kind.CODE:
        return Cell(kind, cell.source, id=cell.id, metadata=metadata)
    filename = cell.metadata.get("filename")
    own = filename if isinstance(filename, str) else ""
    if own:
        del metadata["filename"]
    return Cell(kind, cell.source, "" if language == main else language, own, cell.id, metadata=metadata)


def drafts_of(notebook: Notebook) -> tuple[JsonObject, list[PadCellDraft], list[str]]:
    """What a pad is made from: its metadata, its cells, and in words what a pad cannot hold."""
    losses: list[str] = []
    outputs = sum(1 for cell in notebook.cells if cell.outputs)
    if outputs:
        losses.append(f"the outputs of {counted(outputs, 'cell')}: pads keep sources only")
    metadata: JsonObject = {
        **{name: value for name, value in notebook.metadata.items() if name != OWN},
        "title": notebook.title,
    }
    drafts = [_draft(cell, notebook.language) for cell in notebook.cells]
    seen = [(draft.language, cell.filename) for draft, cell in zip(drafts, notebook.cells, strict=True)]
    if (main := language_named(notebook.language)) != _main(seen):
        metadata[OWN] = {LANGUAGE: main}
    return metadata, drafts, losses


def _draft(cell: Cell, main: str) -> PadCellDraft:
    language = {Kind.MARKDOWN: "md", Kind.RAW: "txt"}.get(cell.kind, cell.language or main)
    metadata: JsonObject = {name: value for name, value in cell.metadata.items() if name != OWN}
    if cell.filename:
        metadata["filename"] = cell.filename
    return PadCellDraft(language, cell.source, metadata=metadata or None)
