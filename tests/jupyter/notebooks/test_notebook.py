"""A notebook in a shared document: what is named is what changes, and nothing else."""

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc, Text

from cellwright.core.errors import Conflict, InvalidArgument, LimitReached, NotFound
from cellwright.core.text.budget import estimate_tokens
from cellwright.jupyter.documents.room import REMOTE
from cellwright.jupyter.edits.undo import undo
from cellwright.jupyter.model import CellHead, NewCell
from cellwright.jupyter.notebooks.cellindex import CellsChanged
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.notebooks.outline import entry_of, outline_page
from cellwright.notebook.addressing import CellRange, at, by_id
from cellwright.notebook.model import Kind, revision_of
from cellwright.notebook.textdiff import changes, set_text
from requirements import requirement


def cell(index: int, source: str, **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "id": f"c{index}",
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    return {**base, "source": source, **more}


def notebook_of(*sources: str, **more: Any) -> LiveNotebook:
    notebook = LiveNotebook(Doc(), "test.ipynb")
    cells = [cell(index, source) for index, source in enumerate(sources)]
    notebook.fill({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells, **more})
    return notebook


def sources(notebook: LiveNotebook) -> list[str]:
    return [head.source for head in notebook.outline()]


class Replica:
    """Somebody else's copy of the same notebook."""

    def __init__(self, original: LiveNotebook) -> None:
        self._original = original
        self.notebook = LiveNotebook(Doc(), "replica")
        self.take()

    def take(self) -> None:
        with self.notebook.doc.transaction(origin=REMOTE):
            self.notebook.doc.apply_update(self._original.doc.get_update(self.notebook.doc.get_state()))

    def give(self) -> None:
        with self._original.doc.transaction(origin=REMOTE):
            self._original.doc.apply_update(self.notebook.doc.get_update(self._original.doc.get_state()))


@requirement("documents:notebook:ranges")
@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([CellRange(1)], [1]),
        ([CellRange(1, 3)], [1, 2]),
        ([CellRange(2, 2)], []),
        ([CellRange(0, 0)], []),
        ([CellRange(4, 4)], []),
        ([CellRange(id="c3"), CellRange(0, 1)], [0, 3]),
        ([CellRange(0, 4)], [0, 1, 2, 3]),
        ([], []),
    ],
)
def test_ranges_mean_what_the_contract_says(ranges: list[CellRange], expected: list[int]) -> None:
    assert notebook_of("a", "b", "c", "d").resolve(ranges) == expected


@requirement("documents:notebook:ranges")
@pytest.mark.parametrize(
    "ranges",
    [
        [CellRange(4)],
        [CellRange(-1)],
        [CellRange(2, 5)],
        [CellRange(2, 1)],
        [CellRange(0, 2), CellRange(1, 3)],
        [CellRange(0), CellRange(id="c0")],
    ],
)
def test_ranges_out_of_bounds_or_overlapping_change_nothing(ranges: list[CellRange]) -> None:
    notebook = notebook_of("a", "b", "c", "d")
    operations: list[Callable[[], object]] = [
        lambda: notebook.delete(ranges),
        lambda: notebook.replace([SourceChange(one, "x") for one in ranges]),
        lambda: notebook.move(ranges, 0),
        lambda: notebook.cells(ranges),
    ]
    for operation in operations:
        with pytest.raises(InvalidArgument, match=r"the notebook has 4 cells|overlap"):
            operation()
    assert sources(notebook) == ["a", "b", "c", "d"]


@requirement("documents:notebook:ranges")
def test_an_unknown_id_names_the_near_ones_and_the_count() -> None:
    with pytest.raises(NotFound) as error:
        notebook_of("a", "b").cell(by_id("c1x"))
    assert "2 cells" in error.value.message
    assert "c1" in error.value.hint


@requirement("documents:notebook:ranges")
@pytest.mark.parametrize("arguments", [{}, {"start": 1, "id": "x"}, {"end": 2}, {"id": "x", "end": 2}])
def test_a_range_is_a_start_or_an_id(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        CellRange(**arguments)


@requirement("documents:notebook:one-state")
def test_deleting_two_ranges_removes_exactly_those_cells_in_one_transaction() -> None:
    notebook = notebook_of(*"abcdefg")
    seen: list[CellsChanged] = []
    notebook.on_change(seen.append)
    assert notebook.delete([CellRange(5, 6), CellRange(2, 3)]) == ["c2", "c5"]
    assert sources(notebook) == list("abdeg")
    assert seen == [CellsChanged(frozenset({"c2", "c5"}), order=True, ours=True)]


@requirement("documents:notebook:one-state")
def test_several_changes_are_resolved_before_the_first_is_made() -> None:
    notebook = notebook_of("a", "b", "c")
    with pytest.raises(Conflict):
        notebook.replace([SourceChange(at(0), "x"), SourceChange(at(1), "y", expect="0000000000")])
    with pytest.raises(InvalidArgument):
        notebook.replace([SourceChange(at(0), "x"), SourceChange(at(1), "\ud800")])
    assert sources(notebook) == ["a", "b", "c"]
    assert notebook.replace([SourceChange(CellRange(0, 2), "x"), SourceChange(by_id("c2"), "y")]) == ["c0", "c1", "c2"]
    assert sources(notebook) == ["x", "x", "y"]


@requirement("documents:notebook:shapes")
def test_cells_are_inserted_where_asked() -> None:
    notebook = notebook_of("a", "b")
    first = notebook.insert(0, [NewCell("m", Kind.MARKDOWN), NewCell("c")])
    last = notebook.insert(-1, [NewCell("z")])
    assert sources(notebook) == ["m", "c", "a", "b", "z"]
    assert (notebook.ids[:2], notebook.ids[-1:]) == (tuple(first), tuple(last))
    assert notebook.insert_after("c0", [NewCell("after a")]) == [notebook.ids[3]]
    for position in (-2, 7):
        with pytest.raises(InvalidArgument, match="6 cells"):
            notebook.insert(position, [NewCell("x")])
    made = notebook.as_json()["cells"]
    assert made[0] == {"id": first[0], "cell_type": "markdown", "source": "m", "metadata": {}}
    assert made[1]["outputs"] == []
    assert made[1]["execution_count"] is None


@requirement("documents:notebook:shapes")
def test_cells_are_moved_with_all_they_have() -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "hi\n"}
    notebook = notebook_of(
        cells=[cell(0, "a"), cell(1, "b", outputs=[output], execution_count=7), cell(2, "c"), cell(3, "d")]
    )
    assert notebook.move([at(1), at(2)], 4) == ["c1", "c2"]
    assert notebook.ids == ("c0", "c3", "c1", "c2")
    moved = notebook.cell(by_id("c1"))
    assert moved.outputs == ({"output_type": "stream", "name": "stdout", "text": "hi\n"},)
    assert moved.head.execution_count == 7
    notebook.move([by_id("c2")], 0)
    assert notebook.ids == ("c2", "c0", "c3", "c1")
    seen: list[CellsChanged] = []
    notebook.on_change(seen.append)
    notebook.move([at(1)], 1)
    notebook.move([at(1)], 2)
    assert seen == []


@requirement("documents:notebook:shapes")
def test_a_running_cell_is_neither_moved_nor_retyped() -> None:
    notebook = notebook_of("a", "b")
    notebook.shared_cell("c0")["execution_state"] = "running"
    with pytest.raises(Conflict, match="is running"):
        notebook.move([at(0)], -1)
    with pytest.raises(Conflict, match="is running"):
        notebook.set_type([at(0)], Kind.MARKDOWN)
    with pytest.raises(Conflict, match="is running"):
        notebook.replace([SourceChange(at(0), "x", Kind.RAW)])
    assert [head.cell_type for head in notebook.outline()] == ["code", "code"]


@requirement("documents:notebook:shapes")
def test_a_cell_changes_its_type_and_keeps_its_id() -> None:
    notebook = notebook_of("a", "b")
    assert notebook.set_type([CellRange(0, 2)], Kind.MARKDOWN) == ["c0", "c1"]
    assert notebook.set_type([at(0)], Kind.MARKDOWN) == []
    assert [(h.id, h.cell_type, h.source) for h in notebook.outline()] == [
        ("c0", "markdown", "a"),
        ("c1", "markdown", "b"),
    ]
    assert "outputs" not in notebook.as_json()["cells"][0]
    notebook.replace([SourceChange(at(1), "new", Kind.CODE)])
    assert notebook.as_json()["cells"][1]["outputs"] == []
    assert notebook.head(1).source == "new"


@requirement("documents:notebook:shapes")
def test_outputs_are_read_by_type_and_cleared_in_place() -> None:
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stderr", "text": ["a\n", "b"]},
        {
            "output_type": "execute_result",
            "data": {"text/plain": ["1", "2"], "application/json": {"x": [1]}},
            "metadata": {"m": 1},
            "execution_count": 3.0,
        },
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t1", "t2"]},
    ]
    notebook = notebook_of(
        cells=[cell(0, "a", outputs=outputs, execution_count=3.0), cell(1, "m", cell_type="markdown")]
    )
    found = notebook.cell(at(0))
    assert found.outputs == (
        {"output_type": "stream", "name": "stderr", "text": "a\nb"},
        {
            "output_type": "execute_result",
            "data": {"text/plain": "12", "application/json": {"x": [1]}},
            "metadata": {"m": 1},
            "execution_count": 3,
        },
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t1", "t2"]},
    )
    assert (found.head.output_count, found.head.failed, found.head.execution_count) == (3, True, 3)
    shared = notebook.shared_cell("c0")["outputs"]
    assert notebook.clear_outputs() == ["c0"]
    assert len(shared) == 0
    assert notebook.cell(at(0)).outputs == ()
    assert notebook.head(0).execution_count is None
    assert notebook.clear_outputs() == []


@requirement("documents:notebook:ids")
def test_two_hundred_edits_by_id_hit_their_cell_while_everything_moves() -> None:
    notebook = notebook_of(*(f"{i}" for i in range(60)))
    other = Replica(notebook)
    rng = random.Random(7)
    expected = {f"c{i}": str(i) for i in range(60)}
    for turn in range(200):
        them = other.notebook
        moved = ""
        roll = rng.random()
        if roll < 0.4:
            them.insert(rng.randint(0, them.cell_count), [NewCell("inserted by somebody")])
        elif roll < 0.7:
            moved = rng.choice(them.ids)
            them.move([by_id(moved)], rng.randint(0, them.cell_count))
        else:
            strangers = [one for one in them.ids if one not in expected]
            if strangers:
                them.delete([by_id(rng.choice(strangers))])
        # A move in Yjs is a deletion and a new copy: what is typed into the old cell at that moment goes with it, for
        # JupyterLab's own moves too. So the person moves any cell but the one the agent edits at the same moment.
        target = rng.choice([one for one in expected if one != moved])
        if turn % 3:
            other.give()
        notebook.replace([SourceChange(by_id(target), f"turn {turn}")])
        expected[target] = f"turn {turn}"
        other.give()
        other.take()
        assert notebook.ids == other.notebook.ids == tuple(str(c["id"]) for c in notebook.as_json()["cells"])
        if notebook.duplicate_ids:
            pytest.fail(f"doubled: {notebook.duplicate_ids}")
    assert {head.id: head.source for head in notebook.outline() if head.id in expected} == expected


@requirement("documents:notebook:minimal")
@given(st.text(alphabet="ab\né😀\u200d語\r ", max_size=60), st.text(alphabet="ab\né😀\u200d語\r ", max_size=60))
def test_the_text_becomes_exactly_the_new_one(old: str, new: str) -> None:
    doc: Doc[Any] = Doc()
    shared = doc.get("t", type=Text)
    shared.insert(0, old)
    with doc.transaction():
        set_text(shared, new)
    assert str(shared) == new


@requirement("documents:notebook:minimal")
def test_a_person_typing_in_the_same_cell_keeps_every_character_in_its_place() -> None:
    old = "def load(path):\n    é = '😀'\n    return open(path)\n\nprint(load('x'))\n"
    notebook = notebook_of(old)
    other = Replica(notebook)
    them = other.notebook.text_of(0)
    them.insert(old.encode().index(b"print"), "# ein Kommentar ü\n")
    notebook.replace(
        [
            SourceChange(
                at(0), old.replace("open(path)", "open(path, encoding='utf-8')").replace("def load", "def read_all")
            )
        ]
    )
    other.give()
    other.take()
    merged = "def read_all(path):\n    é = '😀'\n    return open(path, encoding='utf-8')\n\n# ein Kommentar ü\nprint(load('x'))\n"
    assert sources(notebook) == sources(other.notebook) == [merged]


@requirement("documents:notebook:minimal")
def test_a_small_change_of_a_large_source_sends_a_small_update_and_large_ones_stay_quick() -> None:
    text = "".join(f"line {i} = {i * 7}\n" for i in range(8_000))
    notebook = notebook_of(text)
    sizes: list[int] = []
    subscription = notebook.doc.observe(lambda event: sizes.append(len(event.update)))
    started = time.perf_counter()
    notebook.replace([SourceChange(at(0), text.replace("line 4000 =", "line four thousand ="))])
    assert sum(sizes) < 200
    rng = random.Random(1)
    notebook.replace([SourceChange(at(0), "".join(rng.choice("abc \n") for _ in range(len(text))))])
    assert time.perf_counter() - started < 2.0
    notebook.doc.unobserve(subscription)
    assert len(changes("a" * 100_000, "b" * 100_000)) == 1


@requirement("documents:notebook:expect")
def test_an_edit_with_an_outdated_revision_changes_nothing_and_shows_the_change() -> None:
    notebook = notebook_of("one\ntwo\nthree\n")
    seen = notebook.head(0).revision
    other = Replica(notebook)
    other.notebook.edit(at(0), "two", "TWO")
    other.give()
    operations: list[Callable[[], object]] = [
        lambda: notebook.replace([SourceChange(at(0), "mine", expect=seen)]),
        lambda: notebook.edit(at(0), "three", "x", expect=seen),
        lambda: notebook.delete([at(0)], expect={"c0": seen}),
    ]
    for operation in operations:
        with pytest.raises(Conflict) as error:
            operation()
        assert error.value.details["revision"] == revision_of("one\nTWO\nthree\n")
        assert "-two" in str(error.value.details["diff"])
        assert "+TWO" in str(error.value.details["diff"])
    assert sources(notebook) == ["one\nTWO\nthree\n"]
    notebook.edit(at(0), "three", "x", expect=notebook.head(0).revision)
    assert sources(notebook) == ["one\nTWO\nx\n"]


@requirement("documents:notebook:expect")
def test_expect_is_for_one_cell_and_unknown_revisions_show_the_whole_text() -> None:
    notebook = notebook_of("a", "b")
    with pytest.raises(InvalidArgument):
        notebook.replace([SourceChange(CellRange(0, 2), "x", expect="abc")])
    with pytest.raises(InvalidArgument):
        notebook.delete([at(0)], expect={"c1": notebook.head(1).revision})
    with pytest.raises(Conflict) as error:
        notebook.replace([SourceChange(at(0), "x", expect="never-seen")])
    assert error.value.details["diff"] == "a"


@requirement("documents:notebook:edit")
def test_find_and_replace_needs_exactly_one_match() -> None:
    notebook = notebook_of("x = 1\ny = x\nprint(x)\n")
    assert notebook.edit(at(0), "x = 1", "x = é😀") == 1
    with pytest.raises(InvalidArgument, match=r"3 times in cell c0 \(lines 1, 2, 3\)"):
        notebook.edit(at(0), "x", "z")
    with pytest.raises(NotFound) as error:
        notebook.edit(at(0), "print(y)", "z")
    assert "print(x)" in error.value.hint
    with pytest.raises(InvalidArgument, match="empty"):
        notebook.edit(at(0), "", "z")
    assert notebook.edit(at(0), "x", "zz", every=True) == 3
    assert sources(notebook) == ["zz = é😀\ny = zz\nprint(zz)\n"]


@requirement("documents:notebook:undo")
def test_every_kind_of_edit_can_be_taken_back_in_order() -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "hi\n"}
    notebook = notebook_of(
        cells=[cell(0, "a\nb\nc\n", outputs=[output], execution_count=4), cell(1, "b"), cell(2, "c"), cell(3, "d")]
    )
    states = [notebook.as_json()]
    steps: list[Callable[[], object]] = [
        lambda: notebook.insert(1, [NewCell("new 1"), NewCell("new 2", Kind.MARKDOWN)]),
        lambda: notebook.replace([SourceChange(at(0), "a\nB é\nc\nd\n"), SourceChange(at(3), "😀")]),
        lambda: notebook.edit(at(0), "c", "C", every=True),
        notebook.clear_outputs,
        lambda: notebook.move([at(0), at(2)], -1),
        lambda: notebook.set_type([at(1), at(2)], Kind.RAW),
        lambda: notebook.replace([SourceChange(at(0), "typed", Kind.MARKDOWN)]),
        lambda: notebook.delete([CellRange(0, 2), at(4)]),
    ]
    for step in steps:
        step()
        states.append(notebook.as_json())
    for before in reversed(states[:-1]):
        undo(notebook)
        assert notebook.as_json() == before
    with pytest.raises(NotFound, match="no edit of yours"):
        undo(notebook)


@requirement("documents:notebook:undo")
def test_undo_leaves_what_others_did_and_takes_back_only_ones_own() -> None:
    notebook = notebook_of("first\nsecond\nthird\n", "other")
    them = Replica(notebook)
    notebook.replace([SourceChange(at(0), "first\nSECOND\nthird\n")], author="agent-1")
    notebook.replace([SourceChange(at(1), "by agent 2")], author="agent-2")
    them.take()
    them.notebook.insert(0, [NewCell("person's cell")])
    them.notebook.text_of(1).insert(0, "person's line\n")
    them.give()
    undo(notebook, "agent-1")
    assert sources(notebook) == ["person's cell", "person's line\nfirst\nsecond\nthird\n", "by agent 2"]
    with pytest.raises(NotFound):
        undo(notebook, "agent-1")
    undo(notebook, "agent-2")
    assert sources(notebook)[2] == "other"


@requirement("documents:notebook:undo")
def test_undo_that_would_touch_somebodys_later_work_does_nothing() -> None:
    notebook = notebook_of("a word here", "b")
    them = Replica(notebook)
    notebook.replace([SourceChange(at(0), "a WORD here"), SourceChange(at(1), "B")])
    them.take()
    them.notebook.edit(at(0), "WORD", "sWORDs")
    them.notebook.edit(at(0), "sWORDs", "nothing")
    them.give()
    with pytest.raises(Conflict):
        undo(notebook)
    assert sources(notebook) == ["a nothing here", "B"]
    notebook.insert(-1, [NewCell("mine")])
    them.take()
    them.notebook.edit(at(2), "mine", "theirs")
    them.give()
    with pytest.raises(Conflict, match="nothing was taken back"):
        undo(notebook)
    assert sources(notebook)[2] == "theirs"


@requirement("documents:notebook:size")
def test_reading_and_editing_one_cell_does_not_grow_with_the_notebook() -> None:
    def costs(count: int) -> float:
        original = notebook_of(*(f"x = {i}" for i in range(count)))
        notebook = Replica(original).notebook
        target = by_id(f"c{count // 2}")
        best = 1.0
        for turn in range(30):
            started = time.perf_counter()
            notebook.cell(target)
            notebook.replace([SourceChange(target, f"y = {turn}")])
            best = min(best, time.perf_counter() - started)
        return best

    small, large = costs(20), costs(2_000)
    assert large < 4 * small + 0.001


@requirement("documents:notebook:odd-content")
def test_odd_notebooks_are_flagged_and_do_not_crash() -> None:
    notebook = LiveNotebook(Doc(), "odd.ipynb")
    odd: list[dict[str, Any]] = [
        cell(0, "a"),
        cell(0, "a twin"),
        {"cell_type": "code", "source": ["li", "st"]},
        {"cell_type": "video", "source": 7, "id": "v"},
        {"cell_type": "code", "id": "n", "source": None, "outputs": [{"output_type": "new-kind", "x": 1}]},
    ]
    notebook.fill({"nbformat": 4, "nbformat_minor": 5, "cells": odd})
    assert notebook.duplicate_ids == {"c0"}
    assert [head.source for head in notebook.outline()] == ["a", "a twin", "list", "7", ""]
    assert len(notebook.cells()) == 5
    with pytest.raises(InvalidArgument, match="several cells have the id c0"):
        notebook.delete([by_id("c0")])
    notebook.replace([SourceChange(at(1), "changed twin")])
    assert sources(notebook)[:2] == ["a", "changed twin"]
    # Undo must find the cell that was edited, so it has an id of its own now.
    assert notebook.duplicate_ids == frozenset()
    undo(notebook)
    assert sources(notebook)[:2] == ["a", "a twin"]
    notebook.delete([at(1)])
    notebook.delete([by_id("c0")])
    assert notebook.cell_count == 3


@requirement("documents:notebook:expect")
def test_expect_is_taken_by_every_kind_of_edit() -> None:
    notebook = notebook_of("a", "b")
    before = notebook.as_json()
    stale = {"c0": revision_of("what was there once")}
    attempts: list[Callable[[], object]] = [
        lambda: notebook.move([at(0)], -1, expect=stale),
        lambda: notebook.delete([at(0)], expect=stale),
        lambda: notebook.set_type([at(0)], Kind.MARKDOWN, expect=stale),
        lambda: notebook.clear_outputs([at(0)], expect=stale),
    ]
    for attempt in attempts:
        with pytest.raises(Conflict, match="has changed since revision"):
            attempt()
    assert notebook.as_json() == before
    fresh = {"c0": revision_of("a")}
    notebook.clear_outputs([at(0)], expect=fresh)
    notebook.set_type([at(0)], Kind.MARKDOWN, expect=fresh)
    notebook.move([at(0)], -1, expect=fresh)
    notebook.delete([by_id("c0")], expect=fresh)
    assert sources(notebook) == ["b"]


@requirement("documents:notebook:outline")
def test_the_outline_follows_every_change_and_looks_at_one_page_only() -> None:
    notebook = notebook_of(*(f"line {number}" for number in range(5_000)))
    first = notebook.outline_page(0)
    assert first.next_offset == len(first.lines) < 1_000
    notebook.replace([SourceChange(at(1), "changed")])
    notebook.delete([at(0)])
    notebook.insert(0, [NewCell("# new", Kind.MARKDOWN)])
    notebook.move([at(4_999)], 2)
    lines = notebook.outline_page(0).lines
    assert [line.partition(" | ")[2] for line in lines[:4]] == ["# new", "changed", "line 4999", "line 2"]
    assert notebook.whole_outline()[-1] == "4999 c4998 code 1L | line 4998"
    with pytest.raises(InvalidArgument, match="the notebook has 5,000 cells"):
        notebook.outline_page(5_000)
    began = time.perf_counter()
    for _ in range(20):
        notebook.outline_page(0)
    assert (time.perf_counter() - began) / 20 < 0.02


@requirement("documents:notebook:outline")
@given(st.lists(st.text(max_size=200), max_size=60))
def test_pages_of_an_outline_cost_what_they_may_and_leave_nothing_out(texts: list[str]) -> None:
    entries = [entry_of(CellHead("id", "code", text, "r")) for text in texts] * 5
    offset: int | None = 0
    indexes: list[int] = []
    while offset is not None:
        page = outline_page(entries.__getitem__, offset, len(entries))
        assert estimate_tokens(json.dumps(page.lines, ensure_ascii=False, separators=(",", ":"))) <= 5_000
        assert all(len(line.splitlines()) == 1 for line in page.lines)
        indexes += [int(line.split()[0]) for line in page.lines]
        offset = page.next_offset
    assert indexes == list(range(len(entries)))


@requirement("documents:notebook:odd-content")
def test_what_is_no_cell_in_a_file_becomes_a_raw_one() -> None:
    notebook = notebook_of(cells=["text", 5, None, cell(0, "x"), {"cell_type": "code", "outputs": "no", "metadata": 3}])
    assert sources(notebook) == ["text", "5", "null", "x", ""]
    assert [head.cell_type for head in notebook.outline()] == ["raw", "raw", "raw", "code", "code"]
    assert len(set(notebook.ids)) == 5


@requirement("documents:notebook:odd-content")
def test_cells_that_share_an_id_get_one_each_when_asked() -> None:
    notebook = notebook_of(cells=[cell(0, "a"), cell(0, "twin"), cell(1, "c")])
    assert not notebook.have_own_ids([1])
    (made,) = notebook.own_ids([1])
    assert notebook.ids == ("c0", made, "c1")
    assert notebook.own_ids([0, 1, 2]) == ["c0", made, "c1"]
    assert notebook.cell(by_id(made)).source == "twin"


@requirement("documents:notebook:odd-content")
def test_text_that_cannot_be_kept_is_refused() -> None:
    notebook = notebook_of("a")
    for attempt in (
        lambda: notebook.insert(0, [NewCell("\udfff")]),
        lambda: notebook.edit(at(0), "a", "\ud83d"),
    ):
        with pytest.raises(InvalidArgument, match="surrogate"):
            attempt()
    with pytest.raises(LimitReached):
        notebook.insert(0, [NewCell("x" * 10_000_001)])
    notebook.insert(0, [NewCell("nul \0 and \u202e stay")])
    assert sources(notebook) == ["nul \0 and \u202e stay", "a"]


@requirement("documents:format:old")
def test_older_formats_are_kept_as_they_are_until_asked() -> None:
    notebook = notebook_of("a", nbformat_minor=2)
    assert (notebook.format, notebook.ids_are_stable) == ((4, 2), False)
    assert "id" not in notebook.as_json()["cells"][0]
    assert notebook.keep_ids() is True
    assert notebook.keep_ids() is False
    assert notebook.as_json()["nbformat_minor"] == 5
    assert notebook.as_json()["cells"][0]["id"] == "c0"
