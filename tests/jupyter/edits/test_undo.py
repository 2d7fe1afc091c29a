"""Taking back an edit, and making a lost one again, leaves alone what somebody else did since: or is refused as a whole."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pycrdt import Array, Doc, Map

from cellwright.core.errors import Conflict, InvalidArgument
from cellwright.jupyter.edits.lost import LostEdits, UnsavedEdits
from cellwright.jupyter.edits.overwriting import overwrite
from cellwright.jupyter.edits.reshaping import join, split
from cellwright.jupyter.edits.undo import undo
from cellwright.jupyter.model import NewCell
from cellwright.jupyter.notebooks.cells import to_ycell
from cellwright.jupyter.notebooks.notebook import AGENT, LiveNotebook, SourceChange
from cellwright.notebook.addressing import at, by_id
from cellwright.notebook.model import Kind
from requirements import requirement

OUTPUT = {"output_type": "stream", "name": "stdout", "text": "1\n"}


def code(name: str, source: str, **more: Any) -> dict[str, Any]:
    ran: dict[str, Any] = {"outputs": [OUTPUT], "execution_count": 3, "metadata": {"tags": ["a"]}}
    return {"id": name, "cell_type": "code", "source": source, **ran, **more}


def notebook_of(*cells: dict[str, Any]) -> LiveNotebook:
    notebook = LiveNotebook(Doc(), "test.ipynb")
    notebook.fill({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells)})
    return notebook


def somebody_makes_it_markdown(notebook: LiveNotebook) -> None:
    cells: Array[Any] = notebook.doc.get("cells", type=Array)
    cell: dict[str, Any] = {"id": "a", "cell_type": "markdown", "source": notebook.head(0).source, "metadata": {}}
    with notebook.doc.transaction(origin="somebody"):
        cells[0] = to_ycell(cell)


def somebody_runs_it(notebook: LiveNotebook) -> None:
    with notebook.doc.transaction(origin="somebody"):
        notebook.shared_at(0)["execution_count"] = 9.0


def somebody_tags_it(notebook: LiveNotebook) -> None:
    with notebook.doc.transaction(origin="somebody"):
        notebook.shared_at(0)["metadata"] = Map({"tags": ["theirs"]})


def clear(notebook: LiveNotebook) -> None:
    notebook.clear_outputs([at(0)])


def cut(notebook: LiveNotebook) -> None:
    split(notebook, [at(0)], [2], author=AGENT)


def put_together(notebook: LiveNotebook) -> None:
    join(notebook, [at(0), at(1)], author=AGENT)


def retype(notebook: LiveNotebook) -> None:
    notebook.set_type([at(0)], Kind.RAW)


def write_anew(notebook: LiveNotebook) -> None:
    overwrite(notebook, {"cells": [code("a", "new", metadata={})], "metadata": {}}, author=AGENT)


@requirement("work:undo")
@pytest.mark.parametrize(
    ("edit", "then"),
    [
        (clear, somebody_makes_it_markdown),
        (clear, somebody_runs_it),
        (cut, somebody_makes_it_markdown),
        (put_together, somebody_makes_it_markdown),
        (put_together, somebody_runs_it),
        (retype, somebody_makes_it_markdown),
        (retype, somebody_tags_it),
        (write_anew, somebody_tags_it),
    ],
)
def test_undo_is_refused_as_a_whole_where_it_would_take_somebodys_work(
    edit: Callable[[LiveNotebook], None], then: Callable[[LiveNotebook], None]
) -> None:
    notebook = notebook_of(code("a", "first\nsecond"), code("b", "third"))
    edit(notebook)
    then(notebook)
    now = json.dumps(notebook.as_json())
    with pytest.raises(Conflict, match="nothing was taken back"):
        undo(notebook)
    assert json.dumps(notebook.as_json()) == now


@requirement("work:undo")
@pytest.mark.parametrize("edit", [clear, cut, put_together, retype, write_anew])
def test_undo_brings_back_what_nobody_touched_since(edit: Callable[[LiveNotebook], None]) -> None:
    notebook = notebook_of(code("a", "first\nsecond"), code("b", "third"))
    before = notebook.as_json()["cells"]
    edit(notebook)
    assert notebook.as_json()["cells"] != before
    undo(notebook)
    after = notebook.as_json()["cells"]
    assert [(c["id"], c["cell_type"], c["source"], c.get("outputs")) for c in after] == [
        (c["id"], c["cell_type"], c["source"], c.get("outputs")) for c in before
    ]


def changed_by_somebody(notebook: LiveNotebook, source: str) -> str:
    """Returns the revision that was shown before."""
    seen = notebook.cell(at(0)).head.revision
    notebook.replace([SourceChange(at(0), source)], author="somebody")
    return seen


@requirement("sight:place")
@pytest.mark.parametrize(
    ("shown", "now"),
    [
        ("rate = 1\nother = 2\nthird = 3", "rate = 7\nother = 1\nthird = 3"),
        ("def f():\n    return 1\n\ndef g():\n    return 5", "def f():\n    return 4\n\ndef g():\n    return 1"),
    ],
)
def test_the_same_words_elsewhere_are_not_what_was_meant(shown: str, now: str) -> None:
    notebook = notebook_of(code("a", shown))
    seen = changed_by_somebody(notebook, now)
    with pytest.raises(Conflict, match="nothing was applied"):
        notebook.edit(at(0), "1", "100", seen=seen)
    assert notebook.head(0).source == now


@requirement("sight:place")
def test_words_are_replaced_where_they_were_shown_though_they_are_elsewhere_too_by_now() -> None:
    notebook = notebook_of(code("a", "x = 1\ny = 2"))
    seen = changed_by_somebody(notebook, "x = 1\ny = 2\n# x = 1, they say")
    assert notebook.edit(at(0), "x = 1", "x = 100", seen=seen) == 1
    assert notebook.head(0).source == "x = 100\ny = 2\n# x = 1, they say"
    # Who was shown two of them has to say which, even if somebody has removed one.
    notebook = notebook_of(code("a", "a\na"))
    seen = changed_by_somebody(notebook, "a")
    with pytest.raises(InvalidArgument, match="2 times"):
        notebook.edit(at(0), "a", "b", seen=seen)
    # What was not shown is looked for in the text as it is.
    assert notebook.edit(at(0), "a", "b", seen=None) == 1


def lost_edits(notebook: LiveNotebook) -> tuple[UnsavedEdits, LostEdits]:
    unsaved, lost = UnsavedEdits(), LostEdits()
    unsaved.note(1, notebook)
    lost.suspect("n.ipynb", unsaved)
    return unsaved, lost


@requirement("saving:lost")
@pytest.mark.parametrize("what", ["metadata", "place"])
def test_what_is_made_again_of_a_cell_is_what_its_author_did_to_it(what: str) -> None:
    """The file was written anew by another program, with another text in the cell."""
    before = [code("a", "text"), code("b", "b", metadata={"tags": ["a"], "other": 1})]
    notebook = notebook_of(*before)
    if what == "metadata":
        notebook.replace([SourceChange(by_id("b"), None, metadata={"tags": ["mine"]})])
    else:
        notebook.move([by_id("b")], 0)
    _, lost = lost_edits(notebook)
    theirs = notebook_of(before[0], {**before[1], "source": "theirs", "metadata": {"tags": ["a"], "other": 2}})
    lost.compare("n.ipynb", theirs)
    assert "Lost: 1 cell (b)" in lost.news("n.ipynb", AGENT)
    assert lost.make_again("n.ipynb", theirs, AGENT) == ["b"]
    assert theirs.cell(by_id("b")).source == "theirs"
    assert theirs.cell(by_id("b")).metadata["other"] == 2
    if what == "metadata":
        assert theirs.cell(by_id("b")).metadata["tags"] == ["mine"]
    else:
        assert list(theirs.ids) == ["b", "a"]


@requirement("saving:lost")
def test_of_several_lost_edits_of_a_cell_each_is_made_again() -> None:
    before = [code("a", "a"), code("b", "b")]
    notebook = notebook_of(*before)
    notebook.move([by_id("b")], 0)
    unsaved, lost = UnsavedEdits(), LostEdits()
    unsaved.note(1, notebook)
    notebook.replace([SourceChange(by_id("b"), "b, changed")])
    unsaved.note(2, notebook)
    notebook.replace([SourceChange(by_id("b"), None, metadata={"tags": ["mine"]})])
    unsaved.note(3, notebook)
    lost.suspect("n.ipynb", unsaved)
    anew = notebook_of(*before)
    lost.compare("n.ipynb", anew)
    lost.make_again("n.ipynb", anew, AGENT)
    assert [(head.id, head.source) for head in anew.outline()] == [("b", "b, changed"), ("a", "a")]
    assert anew.cell(at(0)).metadata["tags"] == ["mine"]


@requirement("saving:lost")
def test_a_new_cell_that_is_there_is_not_lost_whatever_somebody_wrote_in_it() -> None:
    notebook = notebook_of(code("a", "a"))
    (new_id,) = notebook.insert(-1, [NewCell("new")])
    _, lost = lost_edits(notebook)
    lost.compare("n.ipynb", notebook_of(code("a", "a"), code(new_id, "somebody's")))
    assert lost.news("n.ipynb", AGENT) == ""
