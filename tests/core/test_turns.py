"""Calls that are sent together do not know each other's answers."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cellwright.core import lastshown, turns
from cellwright.core.lastshown import LastShown
from cellwright.core.turns import Turns
from cellwright.core.types import Call, Principal
from requirements import requirement


@pytest.fixture
def begin() -> Callable[[], Call]:
    calls, call = Turns(), Call(Principal("ada", frozenset()), "1")
    return lambda: replace(call, turn=calls.begin(call.session))


def end(call: Call, *, answered: bool = True) -> None:
    assert call.turn is not None
    call.turn.end(answered=answered)


@requirement("sight:together")
def test_what_a_call_shows_counts_once_its_answer_goes_out(begin: Callable[[], Call]) -> None:
    shown = LastShown()
    first = begin()
    shown.note(first, "a")
    assert shown.of(first) == "a"
    second = begin()
    end(first)
    # It had begun before the answer went out.
    assert shown.of(second) is None
    end(second)
    third = begin()
    assert shown.of(third) == shown.surely_of(third) == "a"


@requirement("sight:together")
def test_a_call_in_a_batch_may_know_an_answer_or_not(
    begin: Callable[[], Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = LastShown()
    before = begin()
    shown.note(before, "before")
    end(before)
    first, long = begin(), begin()
    shown.note(first, "within")
    end(first)
    late = begin()
    assert (shown.surely_of(late), shown.of(late)) == ("before", "within")
    # Long after the last one began it is no longer one of them, even if one is still under way.
    monkeypatch.setattr(turns, "TOGETHER_SECONDS", 0.0)
    later = begin()
    assert shown.surely_of(later) == "within"
    for call in (long, late, later):
        end(call)


@requirement("sight:together")
def test_what_a_cancelled_call_would_have_shown_was_not_shown(begin: Callable[[], Call]) -> None:
    shown = LastShown()
    call = begin()
    shown.note(call, "a")
    assert shown.needed == {"a"}
    end(call, answered=False)
    assert shown.of(begin()) is None
    assert shown.needed == set()


@requirement("sight:forgotten", "sight:bounds")
def test_of_more_answers_at_once_than_are_remembered_none_is_guessed(
    begin: Callable[[], Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lastshown, "REMEMBERED_ANSWERS", 3)
    shown, calls = LastShown(), [begin() for _ in range(4)]
    for number, call in enumerate(calls):
        shown.note(call, str(number))
    early = begin()
    for call in calls:
        end(call)
    assert shown.of(early) is None
    assert shown.is_forgotten(early)
