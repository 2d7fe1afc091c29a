"""Edits are bounded before they are made: nothing grows past its limit, nothing is changed when it would."""

from collections.abc import Callable

import pytest
from pycrdt import Doc

from cellwright.core.errors import LimitReached, NotFound
from cellwright.jupyter.documents.text import TextDocument
from cellwright.jupyter.edits.overwriting import overwrite
from cellwright.jupyter.edits.recasting import MOST_CELLS, plain
from cellwright.jupyter.edits.reshaping import copied, join, split
from cellwright.jupyter.edits.undo import undo
from cellwright.jupyter.files.creating import new_notebook
from cellwright.jupyter.model import NewCell
from cellwright.jupyter.notebooks.cells import MAX_SOURCE_BYTES
from cellwright.jupyter.notebooks.guards import MOST_CHANGED_CELLS, MOST_NEW_CELLS, MOST_PLACES
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.notebook.addressing import CellRange, at
from cellwright.notebook.model import Kind
from cellwright.notebook.textdiff import MOST_CHANGES
from requirements import requirement


def notebook_with(source: str) -> LiveNotebook:
    notebook = LiveNotebook(Doc(), "test.ipynb")
    notebook.insert(-1, [NewCell(source)])
    return notebook


@requirement("edits:bounded:growth")
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_replacing_everywhere_cannot_make_a_text_too_large(ending: str) -> None:
    source = f"a{ending}" * 1_000
    notebook = notebook_with(source)
    with pytest.raises(LimitReached, match="would have") as refusal:
        notebook.edit(at(0), "a", "x\n" * 50_000, every=True)
    assert "nothing was changed" in refusal.value.message
    assert notebook.head(0).source == source


@requirement("edits:bounded:growth")
def test_a_text_document_cannot_grow_too_large_by_many_small_steps() -> None:
    document = TextDocument(Doc(), "t.txt")
    piece = "x" * (MAX_SOURCE_BYTES // 2)
    document.insert(0, piece)
    document.insert(0, piece)
    with pytest.raises(LimitReached):
        document.insert(0, "y")
    assert len(document.text) == MAX_SOURCE_BYTES
    document.replace(0, 1, "y")


@requirement("edits:bounded:places")
def test_so_many_places_that_each_is_no_longer_a_change_of_its_own() -> None:
    notebook = notebook_with("ab " * (MOST_CHANGES + 500))
    assert notebook.edit(at(0), "ab", "cd", every=True) == MOST_CHANGES + 500
    assert notebook.head(0).source == "cd " * (MOST_CHANGES + 500)
    undo(notebook, "agent")
    assert notebook.head(0).source == "ab " * (MOST_CHANGES + 500)
    notebook.replace([SourceChange(at(0), "a" * (MOST_PLACES + 1))])
    with pytest.raises(LimitReached, match="more than 20,000 times"):
        notebook.edit(at(0), "a", "b", every=True)
    with pytest.raises(NotFound):
        notebook.edit(at(0), "b", "c", every=True)


@requirement("edits:bounded:cells")
def test_new_cells_come_in_portions() -> None:
    notebook = notebook_with("first")
    with pytest.raises(LimitReached, match="nothing was changed"):
        notebook.insert(-1, [NewCell("x")] * (MOST_NEW_CELLS + 1))
    assert notebook.cell_count == 1
    content: dict[str, object] = {"metadata": {}, "cells": [_cell(number) for number in range(MOST_NEW_CELLS + 1)]}
    with pytest.raises(LimitReached, match="import_notebook"):
        overwrite(notebook, content, author="agent")
    assert notebook.cell_count == 1
    notebook.insert(-1, [NewCell("x")] * MOST_NEW_CELLS)
    notebook.delete([CellRange(1, 100), CellRange(150, 151), CellRange(200, MOST_NEW_CELLS + 1)])
    assert notebook.cell_count == 1 + MOST_NEW_CELLS - 99 - 1 - (MOST_NEW_CELLS - 199)


@requirement("edits:bounded:changed")
def test_cells_are_copied_moved_split_joined_changed_and_deleted_in_portions() -> None:
    notebook = LiveNotebook(Doc(), "test.ipynb")
    content: dict[str, object] = {"metadata": {}, "cells": [_cell(number) for number in range(MOST_CHANGED_CELLS + 1)]}
    notebook.fill(content)
    every = [CellRange(0, MOST_CHANGED_CELLS + 1)]
    long = LiveNotebook(Doc(), "long.ipynb")
    long.insert(-1, [NewCell("x\n" * (MOST_NEW_CELLS + 2))])
    edits: list[Callable[[], object]] = [
        lambda: copied(notebook, [CellRange(0, MOST_NEW_CELLS + 1)], outputs=False),
        lambda: notebook.move([CellRange(0, MOST_NEW_CELLS + 1)], -1),
        lambda: split(long, [at(0)], list(range(2, MOST_NEW_CELLS + 3)), author="agent"),
        lambda: join(notebook, every, author="agent"),
        lambda: notebook.delete(every),
        lambda: notebook.set_type(every, Kind.MARKDOWN),
        lambda: notebook.replace([SourceChange(every[0], "y")]),
        lambda: overwrite(notebook, {"metadata": {}, "cells": []}, author="agent"),
    ]
    for edit in edits:
        with pytest.raises(LimitReached, match="nothing was changed"):
            edit()
    assert (notebook.cell_count, long.cell_count) == (MOST_CHANGED_CELLS + 1, 1)
    notebook.delete([CellRange(0, MOST_CHANGED_CELLS)])
    assert notebook.cell_count == 1


@requirement("edits:bounded:changed")
def test_changes_are_proposed_for_notebooks_that_can_be_compared_in_a_moment() -> None:
    notebook = LiveNotebook(Doc(), "test.ipynb")
    notebook.fill({"metadata": {}, "cells": [_cell(number) for number in range(MOST_CELLS + 1)]})
    with pytest.raises(LimitReached, match="nothing was done") as refusal:
        plain(notebook)
    assert "without propose" in refusal.value.hint
    notebook.delete([at(0)])
    assert len(plain(notebook)) == MOST_CELLS


def _cell(number: int) -> dict[str, object]:
    return {"id": f"n{number}", "cell_type": "code", "source": "", "metadata": {}, "outputs": []}


@requirement("edits:bounded:cells")
def test_a_new_notebook_brings_at_most_as_many_cells_as_an_edit() -> None:
    made = new_notebook([NewCell("x")] * MOST_NEW_CELLS, None)
    assert len({cell["id"] for cell in made["cells"]}) == MOST_NEW_CELLS
    with pytest.raises(LimitReached, match="new cells at once") as refusal:
        new_notebook([NewCell("x")] * (MOST_NEW_CELLS + 1), None)
    assert "import_notebook" in refusal.value.hint
