"""Cells split, joined, copied, retyped and marked, in a document of this process; and each of it taken back."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument, LimitReached
from cellwright.jupyter.edits.overwriting import overwrite
from cellwright.jupyter.edits.reshaping import copied, join, paste, split
from cellwright.jupyter.edits.undo import undo
from cellwright.jupyter.notebooks.notebook import AGENT, LiveNotebook, SourceChange
from cellwright.jupyter.notebooks.notebookjson import notebook_json, with_ids
from cellwright.notebook.addressing import CellRange, at, by_id
from cellwright.notebook.lineends import ShownText
from cellwright.notebook.merging import PlainCell, combined_metadata, three_way
from cellwright.notebook.model import Kind
from cellwright.notebook.textdiff import changed_text
from requirements import requirement

OUTPUT = {"output_type": "stream", "name": "stdout", "text": "said\n"}
PICTURE = {"p.png": {"image/png": "aGk="}}


def code(name: str, source: str, **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"outputs": [OUTPUT], "execution_count": 3, "metadata": {"trusted": True, "tags": ["a"]}}
    return {"id": name, "cell_type": "code", "source": source, **base, **more}


def text(name: str, source: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "cell_type": "markdown", "source": source, "metadata": {}, **more}


def notebook_of(*cells: dict[str, Any]) -> LiveNotebook:
    notebook = LiveNotebook(Doc(), "test.ipynb")
    notebook.fill({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells)})
    return notebook


def sources(notebook: LiveNotebook) -> list[str]:
    return [head.source for head in notebook.outline()]


def whole(notebook: LiveNotebook) -> str:
    return json.dumps(notebook.as_json(), sort_keys=True)


@requirement("work:split", "work:join", "work:undo")
@given(st.lists(st.sampled_from(["x = 1", "", "é😀", "  y"]), min_size=1, max_size=8), st.data())
def test_split_and_join_are_the_reverse_of_each_other(lines: list[str], data: st.DataObject) -> None:
    source = "\n".join(lines)
    notebook = notebook_of(code("a", "before"), code("b", source), code("c", "after"))
    before = whole(notebook)
    if len(lines) == 1:
        with pytest.raises(InvalidArgument, match="has 1 line;"):
            split(notebook, [by_id("b")], [2], author=AGENT)
        assert whole(notebook) == before
        return
    wanted = data.draw(st.sets(st.integers(2, len(lines)), min_size=1))
    ids = split(notebook, [by_id("b")], sorted(wanted), author=AGENT)
    assert len(ids) == len(set(ids)) == len(wanted) + 1
    assert ids[0] == "b"
    parts = [notebook.cell(by_id(cell_id)) for cell_id in ids]
    assert "\n".join(part.source for part in parts) == source
    assert [len(part.outputs) for part in parts] == [0] * len(wanted) + [1]
    assert [part.head.execution_count for part in parts] == [None] * len(wanted) + [3]
    assert all(part.metadata["tags"] == ["a"] for part in parts)
    kept, gone = join(notebook, [by_id(cell_id) for cell_id in ids], author=AGENT)
    assert (kept, gone) == ("b", ids[1:])
    assert sources(notebook) == ["before", source, "after"]
    assert undo(notebook).what.startswith("join")
    assert [notebook.cell(by_id(cell_id)).source for cell_id in ids] == [part.source for part in parts]
    undo(notebook)
    assert whole(notebook) == before


@requirement("work:split")
def test_lines_that_are_not_there_are_refused() -> None:
    notebook = notebook_of(code("a", "1\n2\n3"), text("b", "x"))
    before = whole(notebook)
    for lines in ([0], [1], [4], [2, 9], [-1]):
        with pytest.raises(InvalidArgument, match="has 3 lines"):
            split(notebook, [at(0)], lines, author=AGENT)
    with pytest.raises(InvalidArgument, match="one cell"):
        split(notebook, [CellRange(0, 2)], [2], author=AGENT)
    assert whole(notebook) == before


@requirement("work:join")
def test_what_cannot_be_joined_is_refused() -> None:
    notebook = notebook_of(code("a", "1"), code("b", "2"), text("c", "x"), code("d", "3"))
    notebook.shared_at(3)["execution_state"] = "running"
    for ranges, word in (
        ([at(0)], "two cells"),
        ([at(0), at(3)], "neighbouring"),
        ([CellRange(1, 3)], "different types"),
    ):
        with pytest.raises(InvalidArgument, match=word):
            join(notebook, ranges, author=AGENT)
    notebook.delete([by_id("c")])
    with pytest.raises(Conflict, match="running"):
        join(notebook, [by_id("b"), by_id("d")], author=AGENT)
    assert sources(notebook) == ["1", "2", "3"]


@requirement("work:join", "work:undo")
def test_attachments_come_along_unless_their_names_meet() -> None:
    other = {"p.png": {"image/png": "Ymx1ZQ=="}}
    notebook = notebook_of(text("a", "A"), text("b", "B", attachments=PICTURE), text("c", "C", attachments=other))
    before = whole(notebook)
    with pytest.raises(InvalidArgument, match=r"p\.png"):
        join(notebook, [CellRange(1, 3)], author=AGENT)
    join(notebook, [CellRange(0, 2)], author=AGENT)
    assert (notebook.cell(at(0)).source, notebook.cell(at(0)).attachments) == ("A\nB", PICTURE)
    undo(notebook)
    assert whole(notebook) == before


@requirement("work:copy", "work:undo")
def test_copies_have_ids_of_their_own_and_outputs_only_if_asked() -> None:
    notebook = notebook_of(code("a", "x", metadata={"execution": {"t": 1}}), text("b", "y", attachments=PICTURE))
    before = whole(notebook)
    bare = paste(notebook, -1, copied(notebook, [CellRange(0, 2)], outputs=False), author=AGENT)
    full = paste(notebook, 0, copied(notebook, [by_id("a")], outputs=True), author=AGENT)
    assert len({*bare, *full, "a", "b"}) == 5
    assert sources(notebook) == ["x", "x", "y", "x", "y"]
    first, last = notebook.cell(by_id(full[0])), notebook.cell(by_id(bare[0]))
    assert (len(first.outputs), first.head.execution_count) == (1, 3)
    assert (len(last.outputs), last.head.execution_count, dict(last.metadata)) == (0, None, {"trusted": True})
    assert notebook.cell(by_id(bare[1])).attachments == PICTURE
    undo(notebook)
    undo(notebook)
    assert whole(notebook) == before


@requirement("work:type", "work:undo")
def test_a_type_takes_along_what_the_new_one_can_have() -> None:
    notebook = notebook_of(code("a", "# T"), text("b", "![p](attachment:p.png)", attachments=PICTURE))
    before = whole(notebook)
    notebook.replace([SourceChange(at(0), cell_type=Kind.MARKDOWN), SourceChange(at(1), cell_type=Kind.RAW)])
    first, second = notebook.as_json()["cells"]
    assert first == {"id": "a", "cell_type": "markdown", "source": "# T", "metadata": {"tags": ["a"]}}
    assert (second["cell_type"], second["attachments"], second["id"]) == ("raw", PICTURE, "b")
    notebook.replace([SourceChange(at(1), "x = 1", Kind.CODE, metadata={"tags": ["b"]})])
    again = notebook.as_json()["cells"][1]
    assert again == {
        "id": "b",
        "cell_type": "code",
        "source": "x = 1",
        "outputs": [],
        "execution_count": None,
        "metadata": {"trusted": True, "tags": ["b"]},
    }
    undo(notebook)
    undo(notebook)
    assert whole(notebook) == before


@requirement("work:metadata", "work:undo")
def test_entries_are_set_and_removed_and_the_text_stays_the_same_text() -> None:
    notebook = notebook_of(code("a", "x", metadata={"tags": ["a"], "own": {"deep": [1]}}))
    before, shared = whole(notebook), notebook.text_of(0)
    notebook.replace([SourceChange(at(0), metadata={"tags": ["b", "c"], "own": None, "new": 1})])
    assert dict(notebook.cell(at(0)).metadata) == {"tags": ["b", "c"], "new": 1}
    shared.insert(0, "typed ")
    assert sources(notebook) == ["typed x"], "a person in the cell goes on in the same text"
    del shared[0:6]
    notebook.shared_at(0)["metadata"]["new"] = 2.0
    with pytest.raises(Conflict, match="'new'"):
        undo(notebook)
    notebook.shared_at(0)["metadata"]["new"] = 1.0
    undo(notebook)
    assert whole(notebook) == before


@requirement("work:metadata", "work:metadata:trust")
@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ({"trusted": True}, InvalidArgument),
        ({"trusted": None}, InvalidArgument),
        ({"x": "é" * 60_000}, LimitReached),
        ({"x": "\ud800"}, InvalidArgument),
        ({"x": json.loads("[" * 30 + "]" * 30)}, InvalidArgument),
    ],
)
def test_metadata_has_bounds(entries: dict[str, Any], error: type[CellwrightError]) -> None:
    notebook = notebook_of(code("a", "x"), code("b", "y"))
    before = whole(notebook)
    with pytest.raises(error):
        notebook.replace([SourceChange(at(0), "z"), SourceChange(at(1), metadata=entries)])
    assert whole(notebook) == before


@requirement("work:expect")
def test_a_stale_revision_changes_nothing() -> None:
    notebook = notebook_of(code("a", "1\n2"), code("b", "3"))
    before = whole(notebook)
    stale = {"a": "0000000000"}
    attempts: list[Callable[[], object]] = [
        lambda: copied(notebook, [at(0)], outputs=True, expect=stale),
        lambda: split(notebook, [at(0)], [2], expect=stale, author=AGENT),
        lambda: join(notebook, [CellRange(0, 2)], expect=stale, author=AGENT),
        lambda: notebook.clear_outputs([at(0)], expect=stale),
        lambda: notebook.replace([SourceChange(at(0), cell_type=Kind.RAW, expect=stale["a"])]),
    ]
    for attempt in attempts:
        with pytest.raises(Conflict, match="has changed since"):
            attempt()
    assert whole(notebook) == before


LINES = st.lists(st.tuples(st.sampled_from(["a", "b", "", "é"]), st.sampled_from(["\n", "\r\n"])), max_size=8)


@requirement("work:line-ends")
@given(LINES, LINES)
def test_every_line_that_stays_keeps_its_end(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> None:
    source = "".join(line + end for line, end in before)
    wanted = "".join(f"{line}\n" for line, _ in after)
    shown = ShownText(source)
    made = changed_text(source, shown.changes_to(wanted))
    assert made.replace("\r\n", "\n") == wanted
    assert changed_text(source, shown.changes_to(shown.shown)) == source
    if before and all(end == "\r\n" for _, end in before):
        assert made.count("\n") == made.count("\r\n")


@requirement("work:line-ends", "work:undo")
def test_a_text_as_it_is_shown_is_found_where_lines_end_with_crlf() -> None:
    source = "def f():\r\n    return 1\r\n\nprint(f())\r\n"
    notebook = notebook_of(code("a", source))
    assert notebook.edit(at(0), "f():\n    return 1\n", "f():\n    return 2\n    # two\n") == 1
    assert sources(notebook) == ["def f():\r\n    return 2\r\n    # two\r\n\nprint(f())\r\n"]
    undo(notebook)
    assert sources(notebook) == [source]
    assert notebook.edit(at(0), "return 1", "return (\n1)") == 1
    assert "return (\r\n1)\r\n" in sources(notebook)[0]
    undo(notebook)
    notebook.replace([SourceChange(at(0), source.replace("\r\n", "\n").replace("1", "3"))])
    assert sources(notebook) == [source.replace("1", "3")]
    notebook.replace([SourceChange(at(0), "own\r\nends\n")])
    assert sources(notebook) == ["own\r\nends\n"]


@requirement("work:overwrite", "work:undo", "work:metadata:trust")
def test_overwriting_touches_what_differs_and_is_one_step_back() -> None:
    notebook = notebook_of(*(code(name, f"{name} = 1") for name in "abcde"))
    before, kept, edited = whole(notebook), notebook.text_of(0), notebook.text_of(1)
    cells = json.loads(before)["cells"]
    cells[1]["source"] = "b = 2"
    cells[2]["outputs"] = []
    del cells[3]
    cells.insert(0, code("new", "n", metadata={"trusted": True}))
    cells.append(cells.pop(1))
    content = notebook_json(json.dumps({"cells": cells, "metadata": {"k": 1}}))
    assert overwrite(notebook, with_ids(content, notebook.outline()), author=AGENT) == 6
    assert sources(notebook) == ["n", "b = 2", "c = 1", "e = 1", "a = 1"]
    assert len(notebook.cell(at(2)).outputs) == 0
    assert "trusted" not in notebook.cell(at(0)).metadata
    edited.insert(0, "#")
    assert sources(notebook)[1] == "#b = 2", "the text that people are in stays the same text"
    del edited[0:1]
    assert str(kept) == ""
    undo(notebook)
    assert json.loads(whole(notebook))["cells"] == json.loads(before)["cells"]


@requirement("work:overwrite")
def test_cells_without_ids_are_known_by_their_text() -> None:
    notebook = notebook_of(code("a", "1"), text("b", "T"), code("c", "1"))
    cells = [{key: value for key, value in cell.items() if key != "id"} for cell in notebook.as_json()["cells"]]
    cells[1]["source"] = ["T\n", "more"]
    content = notebook_json(json.dumps({"cells": cells, "nbformat_minor": 4}))
    assert overwrite(notebook, with_ids(content, notebook.outline()), author=AGENT) == 2
    assert (notebook.ids[0], notebook.ids[2], sources(notebook)) == ("a", "c", ["1", "T\nmore", "1"])
    assert notebook.ids[1] not in ("a", "b", "c")


@requirement("work:propose")
def test_metadata_of_two_versions_is_put_together_entry_by_entry() -> None:
    base, mine, theirs = ({"a": 1, "b": 1}, {"a": 2, "c": 3}, {"a": 1, "b": 1, "d": 4})
    texts = [json.dumps(one, sort_keys=True) for one in (base, mine, theirs)]
    assert json.loads(combined_metadata(*texts)) == {"a": 2, "c": 3, "d": 4}

    def book(metadata: str) -> tuple[PlainCell, ...]:
        return (PlainCell("x", "code", "1", metadata),)

    merged = three_way(book(texts[0]), (), book(texts[2]))
    assert merged.cells == (), "that somebody folded a cell keeps nobody from deleting it"
