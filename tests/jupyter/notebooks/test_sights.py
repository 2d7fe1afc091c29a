"""What is remembered of what callers were shown, and for how long."""

from typing import Any

import pytest
from pycrdt import Doc

from cellwright.core.types import Call, Principal
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import NewCell
from cellwright.jupyter.notebooks import sights as module
from cellwright.jupyter.notebooks.meaning import CallersSight
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.notebooks.sights import ForgottenView, Order, Sight, Sights, View
from cellwright.jupyter.tools.documents import shown as texts
from cellwright.jupyter.tools.documents.shown import ShownTexts
from cellwright.notebook.addressing import at
from requirements import requirement


def call(name: str = "ada", connection: str | None = None) -> Call:
    return Call(Principal(name, frozenset()), connection)


def a_sight(*ids: str) -> View:
    return View.of(Sight(Order(ids), tuple("r" for _ in ids), tuple(None for _ in ids)), {})


@requirement("sight:forgotten", "sight:two-agents")
def test_each_connection_has_its_last_sight_and_names_are_its_principals() -> None:
    sights = Sights()
    first, second = a_sight("a"), a_sight("b")
    name = sights.remember(call(connection="1"), "n.ipynb", first)
    sights.remember(call(connection="2"), "n.ipynb", second)
    assert sights.seen(call(connection="1"), "n.ipynb") is first
    assert sights.remember(call(connection="1"), "n.ipynb", View.of(first.sight, {})) == name
    assert sights.seen(call(connection="2"), "n.ipynb") is second
    assert sights.seen(call(connection="2"), "n.ipynb", name) is first
    assert sights.seen(call(connection="3"), "n.ipynb") is None
    assert sights.seen(call(connection="1"), "other.ipynb") is None
    with pytest.raises(ForgottenView):
        sights.seen(call("bob"), "n.ipynb", name)


@requirement("sight:bounds", "sight:forgotten")
def test_what_is_remembered_is_bounded_and_what_is_forgotten_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_VIEWS", 10)
    monkeypatch.setattr(module, "REMEMBERED_NOTEBOOKS", 12)
    sights = Sights()
    for number in range(11):
        sights.remember(call(), f"{number}.ipynb", a_sight("a", "b"))
    assert sights._count == 10
    assert sights._cells == 20
    with pytest.raises(ForgottenView):
        sights.seen(call(), "0.ipynb")
    assert sights.seen(call(), "1.ipynb") is not None
    for number in range(100):
        sights.remember(call(), f"{number % 40}.ipynb", a_sight(*(str(index) for index in range(number))))
    assert sights._count <= 10
    assert len(sights._remembered) <= 12
    assert sights._cells == sum(
        len(view.sight.ids) for remembered in sights._remembered.values() for view in remembered.views.values()
    )
    monkeypatch.setattr(module, "REMEMBERED_CELLS", 50)
    sights.remember(call(), "large.ipynb", a_sight(*(str(index) for index in range(49))))
    assert sights._cells <= 50


@requirement("sight:bounds")
def test_so_many_sights_of_one_notebook_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_OF_A_NOTEBOOK", 3)
    sights = Sights()
    first = sights.remember(call(connection="1"), "n.ipynb", a_sight("a"))
    last = a_sight("a", "b")
    sights.remember(call(connection="1"), "n.ipynb", last)
    for number in range(5):
        sights.remember(call(connection="2"), "n.ipynb", a_sight("a", str(number)))
    with pytest.raises(ForgottenView):
        sights.seen(call(connection="1"), "n.ipynb", first)
    # The last one of a connection is remembered, whatever others are shown.
    assert sights.seen(call(connection="1"), "n.ipynb") is last


@requirement("sight:forgotten")
def test_where_too_many_connections_are_a_forgotten_one_is_not_taken_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REMEMBERED_CONNECTIONS", 3)
    sights = Sights()
    name = sights.remember(call(connection="0"), "n.ipynb", a_sight("a"))
    assert sights.seen(call(connection="new"), "n.ipynb") is None
    for number in range(1, 4):
        sights.remember(call(connection=str(number)), "n.ipynb", a_sight("a", "b"))
    with pytest.raises(ForgottenView):
        sights.seen(call(connection="0"), "n.ipynb")
    assert sights.seen(call(connection="0"), "n.ipynb", name) == a_sight("a")
    assert sights.seen(call(connection="3"), "n.ipynb") == a_sight("a", "b")


@requirement("sight:forgotten")
def test_whose_last_view_is_forgotten_can_read_and_has_seen_only_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_VIEWS", 1)
    sights, path = Sights(), NotebookPath("n.ipynb")
    notebook = LiveNotebook(Doc(), "n.ipynb")
    notebook.insert(0, [NewCell("a"), NewCell("b")])

    def sight(view: str | None = None) -> CallersSight:
        return CallersSight(sights, call(), path, view, proposes=False)

    sight().show_all(notebook)
    CallersSight(sights, call(), NotebookPath("other.ipynb"), None, proposes=False).show_all(notebook)
    with pytest.raises(ForgottenView):
        sight().cells(notebook, [at(0)])
    assert sight().indexes_to_read(notebook, [at(1)]) == [1]
    # Neither an outline nor a look at the kernel shows texts.
    sight().keep(notebook)
    with pytest.raises(ForgottenView):
        sight().cells(notebook, [at(0)])
    sight().show(notebook, [notebook.id_at(1)])
    first, second = sight().cells(notebook, [at(0), at(1)])
    assert first.revision == module.NOT_SHOWN
    assert second.revision == notebook.head(1).revision


@requirement("sight:two-agents")
def test_a_notebook_that_is_opened_again_is_the_same_sight() -> None:
    content: dict[str, Any] = {
        "cells": [{"id": "a", "cell_type": "code", "source": "x", "metadata": {}, "outputs": []}]
    }
    one, again = LiveNotebook(Doc(), "n.ipynb"), LiveNotebook(Doc(), "n.ipynb")
    for notebook in (one, again):
        notebook.fill(content)
    assert one.sight() == again.sight()
    assert one.sight().name == again.sight().name
    assert not one.sight().still_has(0, again.sight(), 0)


@requirement("sight:two-agents")
def test_parallel_calls_of_one_connection_know_of_each_other() -> None:
    sights, path = Sights(), NotebookPath("n.ipynb")
    notebook = LiveNotebook(Doc(), "n.ipynb")
    notebook.insert(0, [NewCell("a"), NewCell("b")])

    def sight() -> CallersSight:
        return CallersSight(sights, call(connection="1"), path, None, proposes=False)

    sight().show_all(notebook)
    one, other = sight(), sight()
    notebook.replace([SourceChange(at(0), "A")])
    one.show(notebook, [notebook.id_at(0)])
    notebook.replace([SourceChange(at(1), "B")])
    other.show(notebook, [notebook.id_at(1)])
    assert [cell.revision for cell in sight().cells(notebook, [at(0), at(1)])] == list(notebook.sight().revisions)


@requirement("sight:merge:cells")
def test_cells_that_share_an_id_are_told_apart_by_their_order() -> None:
    before = Sight(Order(("a", "x", "x", "")), ("1", "2", "3", "4"), (None,) * 4)
    assert len(set(before.keys)) == 4
    assert before.keys[0] == "a"
    assert before.position_of("x") is None
    now = Sight(Order(("x", "x", "a", "")), ("2", "changed", "1", "4"), (None,) * 4)
    assert View.of(before, {}).unseen_in(now, ()) == {before.keys[2]: "3"}
    # With one more or less of them it is not known which is which: those whose text is known are known.
    fewer = Sight(Order(("a", "x", "")), ("1", "changed", "4"), (None,) * 3)
    assert View.of(before, {}).unseen_in(fewer, ()) == {"x": module.NOT_SHOWN}


@requirement("sight:bounds")
def test_texts_are_remembered_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "REMEMBERED_CHARACTERS", 100)
    monkeypatch.setattr(texts, "LONGEST_REMEMBERED", 60)
    shown = ShownTexts()
    for number in range(30):
        shown.remember(call(), DocPath(f"{number}.txt"), "x" * 30, "r")
        assert shown._characters <= 100
    forgotten = shown.seen(call(), DocPath("0.txt"), None)
    assert forgotten is not None
    assert forgotten.text is None
    kept = shown.seen(call(), DocPath("29.txt"), None)
    assert kept is not None
    assert kept.text == "x" * 30
    shown.remember(call(), DocPath("long.txt"), "x" * 61, "r")
    long = shown.seen(call(), DocPath("long.txt"), "r")
    assert long is not None
    assert long.text is None
