"""Two callers change one pad: nothing that one wrote goes unseen by the other. On every engine, in one process and in two."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cellwright.core.errors import Conflict, InvalidArgument, LimitReached
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.scratch.model import InvalidId, Pad, PadDraft, PadLimits
from cellwright.scratch.resources import PadResources
from cellwright.scratch.service import Pads
from cellwright.scratch.sight.memory import PadSight, PadSights
from cellwright.scratch.tools import plus, scratch
from cellwright.scratch.tools.common import CellInput
from cellwright.storage.cells import NotebookKey
from requirements import requirement

pytestmark = pytest.mark.anyio
MakePads = Callable[..., Pads]
ANN = Call(Principal("ann", ALL_SCOPES), connection="first")
OTHER = replace(ANN, connection="other")
"""Another agent of the same user."""
STRANGER = replace(ANN, connection="stranger")
"""One to whom nothing was ever shown."""
TEXT = "one\ntwo\nthree\nfour\nfive\n"


def cell(content: str, **more: Any) -> CellInput:
    return CellInput("md", content, **more)


async def made(pads: Pads, content: str = TEXT) -> None:
    """A pad with a cell `c`, which both have read."""
    await scratch.scratch_create(pads, ANN, "p", {"title": "t"}, [cell(content, cell_id="c"), cell("x", cell_id="d")])
    await scratch.scratch_read(pads, OTHER, "p")


async def text(pads: Pads, cell_id: str = "c") -> str:
    return (await pads.read("ann", "p", cell_ids=[cell_id])).cells[0].source


async def version(pads: Pads) -> int:
    return (await pads.read("ann", "p")).pad.version


@requirement("scratch:sight:merged")
async def test_changes_that_do_not_touch_are_merged(make_pads: MakePads) -> None:
    pads, elsewhere = make_pads(), make_pads()
    await made(pads)
    await scratch.scratch_read(elsewhere, OTHER, "p")
    await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell(TEXT.replace("one", "ONE"), tags=["a"]))
    merged = await scratch.scratch_replace_cell(elsewhere, OTHER, "p", "c", cell(TEXT.replace("four", "FOUR")))
    assert await text(pads) == "ONE\ntwo\nthree\nFOUR\nfive\n"
    assert "-one\n+ONE" in merged["merged_with"]
    assert '+tags: ["a"]' in merged["merged_with"]
    assert "-four\n+FOUR" in merged["diff"]
    assert "ONE" not in merged["diff"].replace(" ONE", ""), "what others did is no part of this change"
    (kept, _) = (await pads.read("ann", "p")).cells
    assert kept.tags == ("a",)


@requirement("scratch:sight:merged")
async def test_changes_at_the_same_moment_are_merged(make_pads: MakePads) -> None:
    """Both see the same version, and each transaction may begin before the other has ended."""
    pads, elsewhere = make_pads(), make_pads()
    await made(pads)
    for number in range(10):
        for process, caller in ((pads, ANN), (elsewhere, OTHER)):
            await scratch.scratch_read(process, caller, "p")
        seen = await text(pads)
        first, *middle, last = seen.removesuffix("\n").split("\n")
        mine, theirs = f"{first} {number}", f"{last} {number}"
        await asyncio.gather(
            scratch.scratch_replace_cell(pads, ANN, "p", "c", cell("\n".join([mine, *middle, last, ""]))),
            scratch.scratch_replace_cell(elsewhere, OTHER, "p", "c", cell("\n".join([first, *middle, theirs, ""]))),
        )
        assert await text(pads) == "\n".join([mine, *middle, theirs, ""])


@requirement("scratch:sight:refused")
async def test_changes_that_touch_are_refused_with_a_diff(make_pads: MakePads) -> None:
    pads, elsewhere = make_pads(), make_pads()
    await made(pads)
    await scratch.scratch_read(elsewhere, OTHER, "p")
    await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell(TEXT.replace("two", "TWO")))
    tries: list[Callable[[], Any]] = [
        lambda: scratch.scratch_replace_cell(elsewhere, OTHER, "p", "c", cell(TEXT.replace("two", "2"))),
        lambda: plus.scratch_delete_cell(elsewhere, OTHER, "p", "c"),
        lambda: scratch.scratch_delete(elsewhere, OTHER, "p"),
        lambda: plus.scratch_history(elsewhere, OTHER, "p", restore=1),
        lambda: scratch.scratch_create(elsewhere, OTHER, "p"),
    ]
    for tried in tries[:-1]:
        for _ in range(2):
            with pytest.raises(
                Conflict, match="was changed after it was last shown to you; nothing was done"
            ) as refused:
                await tried()
            assert "-two\n+TWO" in str(refused.value.details["diff"])
            assert refused.value.details["version"] == 2
            assert "repeat it with expect: 2" in refused.value.hint
    with pytest.raises(Conflict, match="there is a pad 'p' already, at version 2"):
        await tries[-1]()
    assert "TWO" in await text(pads)
    # Who was told may go on, and says by the version that they were.
    await scratch.scratch_replace_cell(elsewhere, OTHER, "p", "c", cell("mine"), expect=2)
    assert await text(pads) == "mine"


@requirement("scratch:sight:refused")
async def test_reading_again_is_enough(pads: Pads) -> None:
    await made(pads)
    await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell("ann's"))
    await scratch.scratch_read(pads, OTHER, "p", cell_ids=["c"])
    await scratch.scratch_replace_cell(pads, OTHER, "p", "c", cell("other's"))
    with pytest.raises(Conflict):
        await plus.scratch_delete_cell(pads, ANN, "p", "c")
    await PadResources(pads).read(ANN, "scratchpad://p/cells/c")
    await plus.scratch_delete_cell(pads, ANN, "p", "c")
    with pytest.raises(InvalidId):
        await text(pads)


@requirement("scratch:sight:refused")
async def test_watching_a_pad_and_seeing_a_part_of_a_cell_is_not_seeing_it(pads: Pads) -> None:
    long = "word " * 100
    await made(pads, long)
    await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell(long + "more"))
    assert await PadResources(pads).watch(OTHER, "scratchpad://p") is not None
    assert (await scratch.scratch_list_cells(pads, OTHER, "p"))["version"] == 2
    with pytest.raises(Conflict):
        await plus.scratch_delete_cell(pads, OTHER, "p", "c")


@requirement("scratch:sight:refused")
async def test_a_version_from_an_answer_that_did_not_show_it_overwrites_nothing(pads: Pads) -> None:
    await made(pads)
    await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell(TEXT + "six"))
    appended = await scratch.scratch_append_cell(pads, OTHER, "p", cell("z"))
    expect = appended["scratchpad"]["version"]
    with pytest.raises(Conflict, match="after it was last shown") as refused:
        await scratch.scratch_replace_cell(pads, OTHER, "p", "c", cell("mine"), expect=expect)
    assert "+six" in str(refused.value.details["diff"])
    with pytest.raises(Conflict):
        await scratch.scratch_delete(pads, OTHER, "p", expect=expect)
    await scratch.scratch_replace_cell(pads, OTHER, "p", "c", cell("mine"), expect=expect)


@requirement("scratch:sight:expect")
async def test_an_outdated_version_is_refused_by_every_change(pads: Pads) -> None:
    await made(pads)
    await scratch.scratch_upsert_schema(pads, ANN, "p", {"name": "s", "schema": {}})
    tries: list[Callable[[Any], Any]] = [
        lambda expect: scratch.scratch_append_cell(pads, ANN, "p", cell("z"), expect),
        lambda expect: plus.scratch_insert_cell(pads, ANN, "p", 0, cell("z"), expect),
        lambda expect: scratch.scratch_replace_cell(pads, ANN, "p", "c", cell("z"), None, expect),
        lambda expect: plus.scratch_delete_cell(pads, ANN, "p", "c", expect),
        lambda expect: plus.scratch_update(pads, ANN, "p", {"title": "z"}, expect),
        lambda expect: scratch.scratch_upsert_schema(pads, ANN, "p", {"name": "s", "schema": {"type": "null"}}, expect),
        lambda expect: plus.scratch_delete_schema(pads, ANN, "p", "s", expect),
        lambda expect: plus.scratch_history(pads, ANN, "p", restore=1, expect=expect),
        lambda expect: plus.scratch_import(pads, ANN, "# T\n\nz", "md", "p", expect),
        lambda expect: scratch.scratch_create(pads, ANN, "p", None, [cell("z", cell_id="c")], expect),
        lambda expect: scratch.scratch_delete(pads, ANN, "p", expect),
    ]
    for tried in tries:
        now = await version(pads)
        for outdated in (now - 1, now + 1):
            with pytest.raises(Conflict, match=f"is at version {now}, not {outdated}; nothing was done") as refused:
                await tried(outdated)
            assert ("diff" in refused.value.details) == (outdated < now)
        assert await version(pads) == now
        done: Any = await tried(now)
        assert getattr(done, "data", done)["diff"], "what it did"
    await made(pads)
    await scratch.scratch_create(pads, OTHER, "p", None, [cell("other's", cell_id="c")], "any")
    for tried in (tries[2], tries[3], tries[4], tries[9], tries[10]):
        await tried("any")
    with pytest.raises(InvalidArgument, match="expect is for restore"):
        await plus.scratch_history(pads, ANN, "p", expect=1)


@requirement("scratch:sight:expect")
async def test_a_pad_that_exists_is_reset_and_imported_over_only_with_expect(pads: Pads) -> None:
    await made(pads)
    for tried in (
        lambda: scratch.scratch_create(pads, ANN, "p", None, [cell("new")]),
        lambda: scratch.scratch_create(pads, STRANGER, "p"),
        lambda: plus.scratch_import(pads, ANN, "# T\n\nnew", "md", "p"),
    ):
        with pytest.raises(Conflict, match="there is a pad 'p' already, at version 1; it stays as it is") as refused:
            await tried()
        assert "expect: 1 resets that pad" in refused.value.hint
    assert await text(pads) == TEXT
    reset = (await scratch.scratch_create(pads, ANN, "p", None, [cell("new", cell_id="n")], 1)).data
    assert (reset["reset"], reset["scratchpad"]["version"]) == (True, 2)
    assert reset["diff"].splitlines()[-3:] == ["- [0] c: one …", "- [1] d: x", "+ [0] n: new"]
    imported = await plus.scratch_import(pads, ANN, "# T\n\nnew", "md", "p", 2)
    assert "- [0] n: new" in imported["diff"]


@requirement("scratch:sight:unseen")
async def test_who_was_shown_nothing_changes_the_pad_as_it_is(pads: Pads) -> None:
    await made(pads)
    await scratch.scratch_replace_cell(pads, OTHER, "p", "c", cell("other's"))
    await scratch.scratch_replace_cell(pads, STRANGER, "p", "c", cell("stranger's"))
    assert await text(pads) == "stranger's"
    await scratch.scratch_delete(pads, replace(STRANGER, connection="another"), "p")


@requirement("scratch:sight:unseen")
async def test_what_is_remembered_is_bounded() -> None:
    sights, key, pad = PadSights(most=3), NotebookKey("ann", "p"), Pad("p", PadDraft(), 1, 1, 1, 0)
    for number in range(5):
        sights.note("s", key, str(number), PadSight(1, "n"))
        sights.note_refusal("s", key, str(number), replace(pad, version=number))
    assert [sights.of("s", key, str(number)) is None for number in range(5)] == [True, True, False, False, False]
    assert [sights.saw_refusal("s", key, str(number), pad, number) for number in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    sights.note("", key, "nobody", PadSight(1, "n"))
    assert sights.of("", key, "nobody") is None


@requirement("scratch:sight:merged")
async def test_words_about_a_pad_are_merged_by_field_and_line(pads: Pads) -> None:
    await made(pads)
    await plus.scratch_update(pads, ANN, "p", {"description": TEXT, "own": 1})
    await scratch.scratch_read(pads, OTHER, "p")
    await plus.scratch_update(pads, ANN, "p", {"description": TEXT.replace("one", "ONE"), "own": 2})
    merged = await plus.scratch_update(
        pads, OTHER, "p", {"title": "new", "description": TEXT.replace("five", "FIVE"), "own": 1}
    )
    about = (await pads.read("ann", "p")).pad.about
    assert (about.title, about.description, about.metadata) == ("new", "ONE\ntwo\nthree\nfour\nFIVE", {"own": 2})
    assert "-own: 1\n+own: 2" in merged["merged_with"]
    await plus.scratch_update(pads, OTHER, "p", {"own": 3})
    with pytest.raises(Conflict, match="what is said about pad 'p'"):
        await plus.scratch_update(pads, ANN, "p", {"own": None})


@requirement("scratch:sight:refused")
async def test_a_schema_that_somebody_changed_is_neither_replaced_nor_deleted(pads: Pads) -> None:
    await made(pads)
    await scratch.scratch_upsert_schema(pads, ANN, "p", {"name": "s", "schema": {}})
    await scratch.scratch_get_schema(pads, OTHER, "p", "s")
    changed = await scratch.scratch_upsert_schema(pads, ANN, "p", {"name": "s", "schema": {"type": "null"}})
    assert (changed["version"], '+  "type": "null"' in changed["diff"]) == (3, True)
    for tried in (
        lambda: scratch.scratch_upsert_schema(pads, OTHER, "p", {"name": "s", "schema": {"type": "array"}}),
        lambda: plus.scratch_delete_schema(pads, OTHER, "p", "s"),
    ):
        with pytest.raises(Conflict, match="schema 's' of pad 'p'") as refused:
            await tried()
        assert '"type": "null"' in str(refused.value.details["diff"])
    await scratch.scratch_list_schemas(pads, OTHER, "p")
    gone = await plus.scratch_delete_schema(pads, OTHER, "p", "s")
    assert (gone["version"], gone["diff"].startswith("schema s\n")) == (4, True)


@requirement("scratch:sight:refused")
async def test_without_its_history_a_changed_cell_is_not_merged(pads: Pads) -> None:
    await made(pads)
    await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell(TEXT.replace("one", "ONE")))
    for number in range(101):
        await scratch.scratch_replace_cell(pads, ANN, "p", "d", cell(str(number)))
    with pytest.raises(Conflict) as refused:
        await scratch.scratch_replace_cell(pads, OTHER, "p", "c", cell(TEXT.replace("five", "FIVE")))
    assert ("diff" in refused.value.details, refused.value.hint.startswith("read it again")) == (False, True)


@requirement("scratch:sight:refused")
async def test_a_pad_that_was_deleted_and_made_again_is_another(pads: Pads) -> None:
    await made(pads)
    await scratch.scratch_delete(pads, ANN, "p")
    await scratch.scratch_create(pads, ANN, "p", None, [cell("anew", cell_id="c")])
    with pytest.raises(Conflict):
        await scratch.scratch_delete(pads, OTHER, "p")
    with pytest.raises(Conflict):
        await scratch.scratch_replace_cell(pads, OTHER, "p", "c", cell(TEXT + "six"))
    assert await text(pads) == "anew"


@requirement("scratch:sight:merged", "scratch:limits")
async def test_what_is_merged_keeps_to_the_limits(make_pads: MakePads) -> None:
    pads = make_pads(PadLimits(cell_bytes=100))
    await made(pads)
    await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell("a" * 70 + TEXT))
    with pytest.raises(LimitReached, match="the cell's content"):
        await scratch.scratch_replace_cell(pads, OTHER, "p", "c", cell(TEXT + "b" * 70))
    assert await text(pads) == "a" * 70 + TEXT


@requirement("scratch:sight:diff")
async def test_every_change_says_what_it_did(pads: Pads) -> None:
    await made(pads)
    appended = await scratch.scratch_append_cell(pads, ANN, "p", cell("# New\nand more", cell_id="n"))
    assert appended["diff"] == "+ [2] n: # New …"
    moved = await scratch.scratch_replace_cell(pads, ANN, "p", "n", cell("# New\nand more"), 0)
    assert moved["diff"] == "cell n, moved from index 2 to 0"
    blank = await scratch.scratch_replace_cell(pads, ANN, "p", "n", cell("# New\nand more\n"))
    assert blank["diff"].startswith("cell n, index 0\n@@")
    deleted = await plus.scratch_delete_cell(pads, ANN, "p", "n")
    assert deleted["diff"] == "- [0] n: # New …"
    hidden = await scratch.scratch_replace_cell(pads, ANN, "p", "d", cell("y\x1b[31m\u202e" + "w" * 500))
    assert "\x1b" not in hidden["diff"]
    assert "\u202e" not in hidden["diff"]
    assert max(map(len, hidden["diff"].splitlines())) <= 161
    long = await scratch.scratch_replace_cell(pads, ANN, "p", "d", cell("\n".join(map(str, range(100)))))
    assert long["diff"].splitlines()[-1] == "… 63 more lines"
    restored = await plus.scratch_history(pads, ANN, "p", restore=1)
    assert restored["diff"].startswith("cell d, index 1\n")
    gone = await scratch.scratch_delete(pads, ANN, "p")
    assert gone["diff"] == "- [0] c: one …\n- [1] d: x"


@requirement("scratch:sight:diff", "scratch:history:diff")
async def test_the_list_of_changes_has_their_diffs(pads: Pads) -> None:
    await made(pads)
    await scratch.scratch_append_cell(pads, ANN, "p", cell("n", cell_id="n"))
    await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell("\n".join(map(str, range(30)))))
    await plus.scratch_update(pads, ANN, "p", {"title": "u"})
    await plus.scratch_delete_cell(pads, ANN, "p", "n")
    changes = (await plus.scratch_history(pads, ANN, "p"))["changes"]
    first_lines = [change["diff"].split("\n")[0] for change in changes]
    assert first_lines == ["- [2] n: n", "about the pad", "cell c, index 0", "+ [2] n: n"]
    assert len(changes[2]["diff"].split("\n")) == 7
    for number in range(100):
        await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell(f"{number} {'wide ' * 30}\n" * 5))
    changes = (await plus.scratch_history(pads, ANN, "p", limit=100))["changes"]
    assert ("diff" in changes[0], "diff" in changes[-1], len(changes)) == (True, False, 100)


@requirement("scratch:sight:refused")
async def test_what_was_told_of_a_pad_says_nothing_of_the_next_of_its_id(pads: Pads) -> None:
    await made(pads)
    await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell("hers"))
    with pytest.raises(Conflict, match="after it was last shown"):
        await scratch.scratch_delete(pads, OTHER, "p", expect=2)
    await scratch.scratch_delete(pads, ANN, "p")
    await made(pads)
    await scratch.scratch_replace_cell(pads, ANN, "p", "c", cell("hers again"))
    with pytest.raises(Conflict, match="after it was last shown"):
        await scratch.scratch_delete(pads, OTHER, "p", expect=2)
    assert await text(pads) == "hers again"
