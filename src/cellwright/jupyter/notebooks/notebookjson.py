"""Checks a notebook that was given as the text of its file, before it is used."""

import json
import re
from collections.abc import Sequence
from typing import cast

from cellwright.core.errors import InvalidArgument
from cellwright.jupyter.documents.shareable import check_shared
from cellwright.jupyter.model import CellHead, JsonObject
from cellwright.jupyter.notebooks.cellmetadata import TRUSTED
from cellwright.jupyter.notebooks.cells import new_id
from cellwright.notebook.model import Kind, joined

FORMAT = 4
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def notebook_json(content: str) -> JsonObject:
    """A notebook as its file has it."""
    wrong = InvalidArgument(
        "content is not the JSON of a notebook",
        hint='Leave it out and use insert_nb_cells; or give {"cells": [...], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
    )
    try:
        parsed: object = json.loads(content)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(parsed, dict):
        raise wrong
    notebook: JsonObject = {"metadata": {}, "nbformat": 4, "nbformat_minor": 5, **cast("JsonObject", parsed)}
    cells: object = notebook.get("cells")
    sound = isinstance(cells, list) and all(map(_complete_cell, cast("list[object]", cells)))
    if not sound or not isinstance(notebook["metadata"], dict) or not isinstance(notebook["nbformat_minor"], int):
        raise wrong
    if notebook["nbformat"] != FORMAT:
        raise InvalidArgument(
            f"content is a notebook of format {notebook['nbformat']!r:.20}, not {FORMAT}",
            hint="import_notebook reads older formats; or save it as version 4",
        )
    check_shared("content", notebook)
    return notebook


def _complete_cell(candidate: object) -> bool:
    """Whether Jupyter can write the cell, after adding the keys that Jupyter requires. What it only warns of is accepted."""
    if not isinstance(candidate, dict):
        return False
    cell = cast("JsonObject", candidate)
    source: object = cell.get("source")
    lines = cast("list[object]", source) if isinstance(source, list) else [source]
    kinds = [kind.value for kind in Kind]  # not a set: the candidate's type may be a list, which has no hash
    return (
        cell.get("cell_type") in kinds
        and all(isinstance(line, str) for line in lines)
        and isinstance(metadata := cell.setdefault("metadata", {}), dict)
        # Whoever writes a notebook's text cannot say that its outputs are to be trusted.
        and (cast("JsonObject", metadata).pop(TRUSTED, None) or True)
        and (cell["cell_type"] != Kind.CODE or isinstance(cell.setdefault("outputs", []), list))
    )


def with_ids(notebook: JsonObject, heads: Sequence[CellHead]) -> JsonObject:
    """The notebook with each source as one text, and an id of its own for each cell.

    A cell without an id gets the id of the one in `heads` that has the same text, if there is one: it is the same cell then.
    """
    cells: list[JsonObject] = [{**cell, "source": joined(cell["source"])} for cell in notebook["cells"]]
    taken_ids: set[str] = set()
    for cell in cells:
        if not _ID.fullmatch(str(cell.get("id") or "")) or cell["id"] in taken_ids:
            cell["id"] = None
        taken_ids.add(str(cell["id"]))
    free: dict[tuple[str, str], list[str]] = {}
    for head in reversed(heads):
        if head.id and head.id not in taken_ids:
            free.setdefault((head.cell_type, head.source), []).append(head.id)
    taken_ids.update(head.id for head in heads)
    for cell in cells:
        if cell["id"] is None:
            same_text_ids = free.get((cell["cell_type"], cell["source"]))
            cell["id"] = same_text_ids.pop() if same_text_ids else new_id(taken_ids)
            taken_ids.add(cell["id"])
    return {**notebook, "cells": cells}
