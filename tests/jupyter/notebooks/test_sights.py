"""What is remembered of what callers were shown, and for how long."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc

from cellwright.core import lastshown
from cellwright.core.errors import Conflict, InvalidArgument
from cellwright.core.types import Call, Principal
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import NewCell
from cellwright.jupyter.notebooks import sights as module
from cellwright.jupyter.notebooks.meaning import CallersSight
from cellwright.jupyter.notebooks.meanwhile import MOST_PLACES, order_news
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.notebooks.sights import ForgottenView, Sights
from cellwright.jupyter.notebooks.views import NOT_SHOWN, Order, Sight, View
from cellwright.jupyter.tools.documents import shown as texts
from cellwright.jupyter.tools.documents.shown import ShownTexts
from cellwright.notebook.addressing import CellRange, at
from requirements import requirement


def call(name: str = "ada", connection: str | None = None, client: str = "") -> Call:
    return Call(Principal(name, frozenset()), connection, client)


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
    monkeypatch.setattr(lastshown, "REMEMBERED_CONNECTIONS", 3)
    sights = Sights()
    name = sights.remember(call(connection="0"), "n.ipynb", a_sight("a"))
    assert sights.seen(call(connection="new"), "n.ipynb") is None
    for number in range(1, 4):
        sights.remember(call(connection=str(number)), "n.ipynb", a_sight("a", "b"))
    with pytest.raises(ForgottenView):
        sights.seen(call(connection="0"), "n.ipynb")
    assert sights.seen(call(connection="0"), "n.ipynb", name) == a_sight("a")
    assert sights.seen(call(connection="3"), "n.ipynb") == a_sight("a", "b")
    # Who comes anew is none of those whose view is forgotten, and who is shown something again is none of them any more.
    assert sights.seen(call(connection="new"), "n.ipynb") is None
    sights.remember(call(connection="0"), "n.ipynb", a_sight("a"))
    assert sights.seen(call(connection="0"), "n.ipynb") == a_sight("a")


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
    assert first.revision == NOT_SHOWN
    assert second.revision == notebook.head(1).revision


@requirement("sight:two-agents")
def test_what_another_client_was_not_shown_as_a_whole_does_not_count_for_this_one() -> None:
    sights, path = Sights(), NotebookPath("n.ipynb")
    notebook = LiveNotebook(Doc(), "n.ipynb")
    notebook.insert(0, [NewCell("a")])

    def sight(client: str) -> CallersSight:
        return CallersSight(sights, call(client=client), path, None, proposes=False)

    sight("reader").show_all(notebook)
    before = notebook.head(0).revision
    notebook.replace([SourceChange(at(0), "a person's")], author="person")
    # The other client's first contact shows no text, and its outline only a line.
    sight("looker").keep(notebook)
    sight("lister").outline_shown(notebook, 0, 1)
    assert [cell.revision for cell in sight("reader").cells(notebook, [at(0)])] == [before]
    sight("looker").show_all(notebook)
    assert [cell.revision for cell in sight("reader").cells(notebook, [at(0)])] == [notebook.head(0).revision]


@requirement("sight:two-agents")
def test_a_cell_that_was_shown_to_nobody_is_known_to_nobody() -> None:
    sights, path = Sights(), NotebookPath("n.ipynb")
    notebook = LiveNotebook(Doc(), "n.ipynb")
    notebook.insert(0, [NewCell("a")])

    def sight(connection: str) -> CallersSight:
        return CallersSight(sights, call(connection=connection), path, None, proposes=False)

    sight("1").show_all(notebook)
    (later,) = notebook.insert(1, [NewCell("b")], author="person")
    sight("2").keep(notebook)
    by_id = CellRange(id=later)
    assert [cell.revision for cell in sight("1").cells(notebook, [by_id])] == [NOT_SHOWN]
    sight("2").outline_shown(notebook, 0, 2)
    assert [cell.revision for cell in sight("1").cells(notebook, [by_id])] == [notebook.head(1).revision]


@requirement("sight:forgotten")
def test_a_text_that_came_back_to_what_was_seen_is_seen() -> None:
    sights, path = Sights(), NotebookPath("n.ipynb")
    notebook = LiveNotebook(Doc(), "n.ipynb")
    notebook.insert(0, [NewCell("a"), NewCell("b")])

    def sight() -> CallersSight:
        return CallersSight(sights, call(), path, None, proposes=False)

    sight().show_all(notebook)
    notebook.replace([SourceChange(at(0), "changed")], author="person")
    sight().show(notebook, [notebook.id_at(1)])
    with pytest.raises(Conflict):
        sight().check_nothing_changed(notebook, None)
    notebook.replace([SourceChange(at(0), "a")], author="person")
    sight().check_nothing_changed(notebook, None)
    # So is one of which all is gone again that was not shown.
    notebook.insert(1, [NewCell("came")], author="person")
    sight().show(notebook)
    with pytest.raises(Conflict):
        sight().check_nothing_changed(notebook, None)
    notebook.delete([at(1)], author="person")
    sight().check_nothing_changed(notebook, None)
    notebook.delete([at(1)], author="person")
    with pytest.raises(Conflict):
        sight().check_nothing_changed(notebook, None)


@requirement("sight:resources", "sight:bounds")
def test_what_is_polled_is_one_view_while_nothing_changes_and_takes_no_room_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REMEMBERED_OF_A_NOTEBOOK", 3)
    sights, path = Sights(), NotebookPath("n.ipynb")
    notebook = LiveNotebook(Doc(), "n.ipynb")
    notebook.insert(0, [NewCell("a")])

    def sight(view: str | None = None, *, aside: bool = False) -> CallersSight:
        return CallersSight(sights, call(connection="1"), path, view, proposes=False, aside=aside)

    first = sight().show_all(notebook)
    notebook.insert(1, [NewCell("b")], author="person")
    assert sight().show_aside(notebook, ()) == sight().show_aside(notebook, ())
    for number in range(5):
        notebook.insert(1, [NewCell(str(number))], author="person")
        sight(aside=True).show_all(notebook)
    assert len(sights._remembered["ada", "n.ipynb"].views) <= 4
    assert sight(first).each(notebook, [at(0)])[0][0].index == 0
    # The indexes of the one who did not ask for it still mean what they were shown.
    with pytest.raises(InvalidArgument):
        sight().cells(notebook, [at(1)])


@requirement("sight:resources", "sight:bounds")
def test_what_is_polled_of_many_notebooks_takes_no_room_of_what_an_agent_was_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REMEMBERED_VIEWS", 4)
    sights = Sights()
    sights.remember(call(connection="1"), "n.ipynb", a_sight("a"))
    for number in range(20):
        polled = View.of(a_sight("a", str(number)).sight, {}, aside=True)
        sights.remember(call(connection="2"), f"{number % 5}.ipynb", polled)
    assert sights._count == 4
    assert sights.seen(call(connection="1"), "n.ipynb") == a_sight("a")


@requirement("sight:order")
def test_what_others_did_to_the_order_is_said_by_indexes() -> None:
    def order(ids: str) -> Sight:
        return Sight(Order(tuple(ids)), tuple(ids), tuple(None for _ in ids))

    def news(seen: str, before: str, after: str | None = None) -> str:
        return order_news(order(seen), order(before), order(after or before)).get("meanwhile", "")

    end = ". Indexes now count in the new view"
    assert news("abc", "abc") == ""
    assert news("abc", "abc", "xabc") == ""
    assert news("abc", "xyabc") == f"others inserted 0-1{end}"
    # The index is the one after an edit of the caller's own.
    assert news("abc", "xabc", "oxabc") == f"others inserted 1{end}"
    assert news("abcd", "ad") == f"others deleted what was 1-2{end}"
    assert news("abcde", "eabcd") == f"others moved 4 to 0{end}"
    assert news("abc", "xbc") == f"others inserted 0, deleted what was 0{end}"
    many = "".join(chr(0x4E00 + number) for number in range(2 * MOST_PLACES + 20))
    assert "10 places more" in news(many, many[::2])


@requirement("sight:order")
@given(st.permutations("abcdef"), st.sets(st.sampled_from("abcdef")), st.lists(st.sampled_from("uvwxyz"), unique=True))
def test_the_order_can_be_told_from_what_is_said_unless_it_is_said_to_be_the_same(
    moved: list[str], gone: set[str], new: list[str]
) -> None:
    now = [cell for cell in moved if cell not in gone] + new
    seen = Sight(Order(tuple("abcdef")), tuple("abcdef"), (None,) * 6)
    sight = Sight(Order(tuple(now)), tuple(now), tuple(None for _ in now))
    assert bool(order_news(seen, sight, sight)) == (now != list("abcdef"))


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
    assert View.of(before, {}).unseen_in(fewer, ()) == {"x": NOT_SHOWN}


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
