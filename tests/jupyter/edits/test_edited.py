"""What an edit is said to have changed, in a document of this process."""

from collections.abc import Callable
from typing import Any

import pytest
from pycrdt import Doc

from cellwright.jupyter.edits.edited import compared
from cellwright.jupyter.model import NewCell
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.notebook.addressing import at
from cellwright.notebook.model import Kind
from requirements import requirement


def twins() -> LiveNotebook:
    """The second and the third cell share an id, as some programs leave them."""
    notebook = LiveNotebook(Doc(), "n.ipynb")
    cells: list[dict[str, Any]] = [
        {"id": cell_id, "cell_type": "code", "source": f"text {number}", "metadata": {}, "outputs": []}
        for number, cell_id in enumerate(["a", "x", "x", "b"])
    ]
    notebook.fill({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
    return notebook


EDITS: list[tuple[Callable[[LiveNotebook], Any], str]] = [
    (lambda notebook: notebook.replace([SourceChange(at(2), "new")]), "2 {2}\n@@ -1 +1 @@\n-text 2\n+new"),
    (lambda notebook: notebook.replace([SourceChange(at(1), "new")]), "1 {1}\n@@ -1 +1 @@\n-text 1\n+new"),
    (lambda notebook: notebook.delete([at(2)]), "- 2 x code | text 2"),
    (lambda notebook: notebook.delete([at(1), at(2)]), "- 1 x code | text 1\n- 2 x code | text 2"),
    (lambda notebook: notebook.insert(2, [NewCell("new")]), "+ 2 {2} code | new"),
    (lambda notebook: notebook.move([at(0)], 3), "0 → 2 a code | text 0"),
    (lambda notebook: notebook.replace([SourceChange(at(3), cell_type=Kind.RAW)]), "3 b code → raw"),
]


@requirement("sight:diff")
@pytest.mark.parametrize(
    ("edit", "said"),
    EDITS,
    ids=["second", "first", "delete", "delete-both", "insert", "move", "type"],
)
def test_of_cells_that_share_an_id_the_one_is_named_that_was_changed(
    edit: Callable[[LiveNotebook], Any], said: str
) -> None:
    notebook = twins()
    assert compared(edit)(notebook).diff == said.format(*notebook.ids)
