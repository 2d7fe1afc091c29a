"""Differences: they lead from one text to the other, are small where that can be seen, and are found within bounded work."""

import difflib
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.notebook import differences
from cellwright.notebook.differences import ReplacedItems, in_all_longest_ascending, replaced, unified
from requirements import requirement

TEXTS = st.text(alphabet="abc \n", max_size=40)
LINES = st.lists(st.sampled_from(["a", "b", "c", "", "d e"]), max_size=25)


def applied(before: str | list[str], after: str | list[str], regions: list[ReplacedItems]) -> list[str]:
    result: list[str] = []
    at = 0
    for region in regions:
        result += [*before[at : region.start], *after[region.new_start : region.new_end]]
        at = region.end
    return [*result, *before[at:]]


@requirement("differences:lead-there")
@given(TEXTS, TEXTS, st.sampled_from([differences.WORK, 30, 0]))
def test_the_regions_lead_from_one_to_the_other_with_any_amount_of_work(before: str, after: str, work: int) -> None:
    regions = replaced(before, after, work)
    assert "".join(applied(before, after, regions)) == after
    assert (regions == []) == (before == after)
    for one, other in pairwise(regions):
        assert one.end < other.start
        assert one.new_end < other.new_start
    # What lies between two regions is the same on both sides.
    assert sum(region.end - region.start for region in regions) <= len(before)


@requirement("differences:small")
@given(st.lists(st.integers(), unique=True, min_size=1, max_size=30), st.data())
def test_of_items_that_stand_once_only_those_that_changed_are_touched(items: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(items) - 1))
    changed = [*items[:place], "new", *items[place + 1 :]]
    assert replaced(items, changed) == [ReplacedItems(place, place + 1, place, place + 1)]
    without = [*items[:place], *items[place + 1 :]]
    assert replaced(items, without) == [ReplacedItems(place, place + 1, place, place)]


@requirement("differences:unified")
@given(LINES, LINES)
def test_the_unified_form_can_be_read_back(before: list[str], after: list[str]) -> None:
    lines = unified(before, after, context=100, names=("a", "b"))
    if before == after:
        assert lines == []
        return
    assert [line[1:] for line in lines[3:] if line[0] in " -"] == before
    assert [line[1:] for line in lines[3:] if line[0] in " +"] == after


@requirement("differences:unified")
def test_the_unified_form_is_the_usual_one() -> None:
    before = [f"line {number}" for number in range(30)]
    after = [*before[:5], "five", *before[6:20], "more", *before[20:]]
    usual = list(difflib.unified_diff(before, after, "a", "b", lineterm="", n=2))
    assert unified(before, after, names=("a", "b")) == usual


HOSTILE = {
    "nothing in common": (["a"] * 5_000, ["b"] * 5_000),
    "two in turn": (["a", "b"] * 5_000, ["b", "a", "a"] * 4_000),
    "reversed": (list(map(str, range(9_000))), list(map(str, range(9_000, 0, -1)))),
    "long lines": ("ab" * 500_000, "ba" * 400_000 + "c"),
}


@requirement("differences:bounded")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_cost_no_more_steps_than_are_allowed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = HOSTILE[name]
    steps = 0
    real = differences._inserts

    def counted(farthest: dict[int, int], diagonal: int, distance: int) -> bool:
        nonlocal steps
        steps += 1
        return real(farthest, diagonal, distance)

    monkeypatch.setattr(differences, "_inserts", counted)
    regions = replaced(before, after)
    assert applied(before, after, regions) == list(after)
    assert steps <= differences.WORK


@requirement("sight:moved")
@given(st.permutations(range(6)))
def test_what_is_in_all_longest_series_did_not_move_however_one_sees_it(numbers: list[int]) -> None:
    series = [
        indexes
        for size in range(len(numbers) + 1)
        for indexes in combinations(range(len(numbers)), size)
        if all(numbers[one] < numbers[next_one] for one, next_one in pairwise(indexes))
    ]
    longest = [indexes for indexes in series if len(indexes) == max(map(len, series))]
    in_all = [index for index in range(len(numbers)) if all(index in indexes for indexes in longest)]
    assert in_all_longest_ascending(numbers) == in_all
