"""What is too long is cut in the middle, within the budget, with exact counts."""

import json
import re
import time
import unicodedata
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.core.text.budget import DEFAULT_TOKENS, MAX_TOKENS, cut, fit
from cellwright.core.text.cutting import MINIMUM_TOKENS, marker
from cellwright.core.text.fitting import DEEPEST, Json, compact_json
from cellwright.core.text.tokens import estimate_tokens
from requirements import requirement

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
"""A busy machine is no finding."""

MARKER = re.compile(r"^… ([\d,]+) characters \(about ([\d,]+) tokens\) left out …$", re.MULTILINE)
ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
LINE = "value = compute(first, second)  # a line of code like many others\n"

ANY_TEXT = st.text(st.characters(exclude_categories=[]), min_size=1, max_size=30)
UNITS = st.sampled_from(
    [LINE, "word ", "漢字", "👩\u200d👩\u200d👧", "e\u0301\u0302", "🇫🇷", ENGLAND, "0", " ", "\r\n", "aA1.", "한", "各"]
)
LONG_TEXT = st.lists(st.tuples(ANY_TEXT | UNITS, st.integers(1, 400)), min_size=1, max_size=6).map(
    lambda parts: "".join(text * count for text, count in parts)
)
BUDGETS = st.integers(MINIMUM_TOKENS, 400) | st.integers(400, 3_000)


def parts(text: str, shown: str) -> tuple[str, str, int]:
    """Head, tail and the number of characters left out; the text's own marker look-alikes do not count."""
    for found in MARKER.finditer(shown):
        missing = int(found[1].replace(",", ""))
        head, tail = shown[: found.start()], shown[found.end() :].removeprefix("\n")
        for start in {head, head.removesuffix("\n")}:
            if text.startswith(start) and text.endswith(tail) and len(start) + missing + len(tail) == len(text):
                return start, tail, missing
    pytest.fail(f"no marker accounts for what is missing: {shown!r}")


@requirement("budget:cut:within")
@settings(PATIENT, max_examples=200)
@given(LONG_TEXT, BUDGETS)
def test_a_cut_text_is_within_its_budget_and_counts_what_is_missing(text: str, tokens: int) -> None:
    result = cut(text, tokens)
    assert (result.original_chars, result.original_tokens) == (len(text), estimate_tokens(text))
    assert result.truncated == (result.original_tokens > tokens)
    assert estimate_tokens(result.text) <= tokens
    if not result.truncated:
        assert result.text is text
        return
    head, _, missing = parts(text, result.text)
    assert missing > 0
    left_out = estimate_tokens(text[len(head) : len(head) + missing])
    # What stands across the two cuts counts in neither part.
    assert any(abs(int(found[2].replace(",", "")) - left_out) <= 12 for found in MARKER.finditer(result.text))


@requirement("budget:cut:within")
@pytest.mark.parametrize("tokens", [MINIMUM_TOKENS, 200, DEFAULT_TOKENS, MAX_TOKENS])
@pytest.mark.parametrize(
    "unit", [LINE, "word ", "漢字の例。", "x", " ", "\n", "0 ", "aA", "👩\u200d👩", "\u0301", "\0", "\ud800"]
)
def test_most_of_the_budget_is_used(unit: str, tokens: int) -> None:
    text = unit * 2_000_000 if unit in {" ", "\n"} else unit * 200_000
    result = cut(text, tokens)
    assert result.truncated
    assert estimate_tokens(result.text) <= tokens
    if unit != "\u0301":
        assert estimate_tokens(result.text) >= 0.7 * tokens - 24
        head, tail, _ = parts(text, result.text)
        assert min(len(head), len(tail)) * 4 >= max(len(head), len(tail))


@requirement("budget:cut:within")
@pytest.mark.parametrize("tokens", [-1, 0, 1, MINIMUM_TOKENS - 1])
def test_a_budget_below_the_least_counts_as_the_least(tokens: int) -> None:
    text = LINE * 100
    assert cut(text, tokens) == cut(text, MINIMUM_TOKENS)
    assert fit(text, tokens) == fit(text, MINIMUM_TOKENS)
    assert not cut("short", tokens).truncated


@requirement("budget:cut:within")
def test_the_least_budget_is_enough_for_any_marker() -> None:
    assert estimate_tokens(compact_json(marker(10**12 - 1, 10**12 - 1))) < MINIMUM_TOKENS


@requirement("budget:cut:lines")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_stay_whole_when_a_line_ends_nearby(newline: str) -> None:
    text = "".join(f"{number}: {LINE.rstrip()}{newline}" for number in range(1_000))
    result = cut(text, 600)
    head, tail, missing = parts(text, result.text)
    assert head.endswith(newline)
    assert "\n…" in result.text
    assert "\n\n" not in result.text
    assert "…\n" in result.text
    assert text[len(head) + missing - 1] == "\n"
    assert re.match(r"\d+: value", tail)


@requirement("budget:cut:lines")
def test_the_marker_stands_on_a_line_of_its_own() -> None:
    assert re.fullmatch(r"x+\n… .* left out …\nx+", cut("x" * 10_000, 200).text)
    assert cut("\u0301" * 10_000, 200).text.startswith("… 10,000 characters")


@requirement("budget:cut:lines")
def test_a_long_line_is_cut_inside_rather_than_dropped() -> None:
    text = "first line\n" + "x" * 100_000 + "\nlast line"
    result = cut(text, 600)
    head, tail, _ = parts(text, result.text)
    assert len(head) > 500
    assert len(tail) > 500
    assert tail.endswith("last line")


SEQUENCES = [
    "e\u0301\u0302\u0303",
    "👩🏽\u200d💻",
    "🏳\ufe0f\u200d🌈",
    "🇫🇷",
    ENGLAND,
    "1\ufe0f\u20e3",
    "क्\u200dष",
    "각",
    "\r\n",
    "\ud83d\ude00",
]


@requirement("budget:cut:sequences")
@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("tokens", [*range(64, 90), 400])
def test_no_sequence_is_torn(sequence: str, tokens: int) -> None:
    text = sequence * 2_000
    head, tail, missing = parts(text, cut(text, tokens).text)
    assert len(head) % len(sequence) == 0
    assert len(tail) % len(sequence) == 0
    assert missing % len(sequence) == 0


@requirement("budget:cut:sequences")
@PATIENT
@given(LONG_TEXT, BUDGETS)
def test_no_part_begins_with_something_that_belongs_to_the_character_before(text: str, tokens: int) -> None:
    result = cut(text, tokens)
    if not result.truncated:
        return
    head, tail, missing = parts(text, result.text)
    for rest in (text[len(head) :], tail):
        assert not rest or not text.removesuffix(rest) or unicodedata.category(rest[0])[0] != "M"
        assert rest[:1] not in {"\u200d", "\ufe0f"} or not text.removesuffix(rest)
    assert not head.endswith("\u200d")
    assert not text[: len(head) + missing].endswith("\u200d") or not tail


SHORT = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT
MANY = st.tuples(SHORT, st.integers(1, 300)).map(lambda pair: [pair[0]] * pair[1])
JSON = st.recursive(
    SHORT | LONG_TEXT | MANY,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(ANY_TEXT, inner, max_size=6),
    max_leaves=12,
)


def cost(value: Json) -> int:
    return estimate_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


@requirement("budget:fit:within")
@settings(PATIENT, max_examples=150)
@given(JSON, BUDGETS)
def test_fitted_data_is_within_its_budget(value: Json, tokens: int) -> None:
    before = json.dumps(value)
    result = fit(value, tokens)
    assert json.dumps(value) == before
    assert result.original_tokens == cost(value)
    assert result.truncated == (result.original_tokens > tokens)
    assert cost(result.value) <= tokens
    if not result.truncated:
        assert result.value is value


@requirement("budget:fit:keys")
@settings(PATIENT, max_examples=100)
@given(st.dictionaries(st.text("abcdef_é", max_size=12), JSON, max_size=8), BUDGETS)
def test_top_level_keys_stay(value: dict[str, Json], tokens: int) -> None:
    result = fit(value, tokens).value
    if isinstance(result, dict):
        assert list(result) == list(value)
    else:
        assert cost(dict.fromkeys(value, "…")) > tokens


@requirement("budget:fit:strings-first")
def test_the_longest_strings_are_cut_to_an_equal_share_and_the_rest_stays() -> None:
    value: Json = {
        "a": LINE * 900,
        "b": LINE * 400,
        "short": LINE * 3,
        "list": [1, 2, 3],
        "ok": True,
        "none": None,
        "pi": 3.14,
    }
    result = cast("dict[str, Json]", fit(value, 2_000).value)
    assert {key: result[key] for key in value if key not in "ab"} == {
        key: value[key] for key in value if key not in "ab"
    }
    first, second = str(result["a"]), str(result["b"])
    assert MARKER.search(first)
    assert MARKER.search(second)
    assert 0.8 < estimate_tokens(first) / estimate_tokens(second) < 1.25
    assert cost(result) > 1_700


@requirement("budget:fit:strings-first")
def test_only_the_strings_that_are_too_long_are_cut() -> None:
    value: Json = {"large": LINE * 400, "middle": LINE * 20}
    result = cast("dict[str, Json]", fit(value, 2_000).value)
    assert result["middle"] == value["middle"]
    _, _, missing = parts(LINE * 400, str(result["large"]))
    assert missing > 10_000


@requirement("budget:fit:lists")
def test_a_long_list_keeps_its_ends_and_says_how_many_items_are_missing() -> None:
    cells: list[Json] = [{"id": f"cell-{number}", "source": f"x = {number}", "outputs": []} for number in range(5_000)]
    result = cast("dict[str, Json]", fit({"cells": cells, "total": 5_000}, DEFAULT_TOKENS).value)
    shown = cast("list[Json]", result["cells"])
    gap = next(index for index, item in enumerate(shown) if isinstance(item, str))
    missing = re.fullmatch(r"… ([\d,]+) items left out …", str(shown[gap]))
    assert missing
    assert int(missing[1].replace(",", "")) == len(cells) - len(shown) + 1
    assert shown[:gap] == cells[:gap]
    assert shown[gap + 1 :] == cells[len(cells) - (len(shown) - gap - 1) :]
    assert abs(2 * gap - len(shown)) <= 2
    assert cost(result) > 0.85 * DEFAULT_TOKENS


@requirement("budget:fit:lists")
def test_strings_inside_a_shortened_list_take_the_room_that_is_left() -> None:
    value: Json = [{"source": LINE * 200, "kind": "code"} for _ in range(90)]
    result = cast("list[Json]", fit(value, DEFAULT_TOKENS).value)
    assert len(result) > 20
    assert cost(result) > 0.85 * DEFAULT_TOKENS
    assert all(isinstance(item, str) or set(cast("dict[str, Json]", item)) == {"source", "kind"} for item in result)


@requirement("budget:fit:lists")
def test_an_inner_dict_with_too_many_keys_says_how_many_are_missing() -> None:
    inner: dict[str, Json] = {f"key{number}": number for number in range(50_000)}
    result = cast("dict[str, dict[str, Json]]", fit({"variables": inner, "ok": True}, 1_000).value)
    shown = result["variables"]
    assert shown.pop("…") == f"{50_000 - len(shown):,} keys left out"
    assert len(shown) > 32
    assert shown.items() <= inner.items()
    assert result["ok"] is True


def nested(depth: int) -> Json:
    value: Json = "deepest"
    for _ in range(depth // 2):
        value = {"list": [value, LINE]}
    return value


def depth_of(value: Json) -> int:
    if not isinstance(value, dict | list | tuple):
        return 0
    return 1 + max((depth_of(item) for item in (value.values() if isinstance(value, dict) else value)), default=0)


@requirement("budget:fit:lists")
def test_what_is_nested_too_deep_is_only_counted() -> None:
    value = nested(400)
    result = fit(value, cost(value) - 1)
    assert result.truncated
    assert depth_of(result.value) == DEEPEST + 1
    assert "1 key left out" in compact_json(result.value)


AWKWARD: dict[str, Json] = {
    "long text": LINE * 5_000,
    "text full of escapes": '"\\\n\0' * 5_000,
    "surrogates": "\ud800" * 5_000,
    "long number": 10**4_000,
    "long number in a dict": {"n": 10**4_000, "ok": True},
    "many keys": {f"key{number}": number for number in range(20_000)},
    "long key": {"k" * 20_000: 1},
    "long inner key": {"outer": {"k" * 20_000: 1}},
    "many texts": {f"key{number}": LINE * 10 for number in range(40)},
    "deep": nested(300),
    "lists of lists": [[[1 for _ in range(300)] for _ in range(300)] for _ in range(10)],
    "tuple": tuple(LINE for _ in range(3_000)),
    "own placeholders": {"…": {"…": [LINE for _ in range(1_000)]}},
    "empty dicts": [{} for _ in range(10_000)],
    "empty texts": ["" for _ in range(10_000)],
}


@requirement("budget:fit:within")
@pytest.mark.parametrize("value", AWKWARD.values(), ids=AWKWARD.keys())
@pytest.mark.parametrize("tokens", [MINIMUM_TOKENS, 300, DEFAULT_TOKENS])
def test_awkward_data_is_within_its_budget_too(value: Json, tokens: int) -> None:
    result = fit(value, tokens)
    assert cost(result.value) <= tokens
    assert result.truncated == (cost(value) > tokens)


@requirement("budget:fit:keys")
def test_when_the_keys_alone_are_too_many_the_answer_is_the_cut_json() -> None:
    value: Json = {f"key{number}": number for number in range(20_000)}
    result = fit(value, DEFAULT_TOKENS)
    head, tail, _ = parts(compact_json(value), str(result.value))
    assert head.startswith('{"key0":0,')
    assert tail.endswith('"key19999":19999}')


@requirement("budget:speed")
def test_small_results_cost_microseconds_and_large_ones_little() -> None:
    cells: list[Json] = [{"id": "a", "source": "x = 1"}] * 10
    small: Json = {"ok": True, "cells": cells}
    start = time.process_time()
    for _ in range(1_000):
        fit(small, DEFAULT_TOKENS)
        cut(LINE, DEFAULT_TOKENS)
    assert time.process_time() - start < 1
    start = time.process_time()
    cut(LINE * 80_000, DEFAULT_TOKENS)
    fit({"text": LINE * 80_000, "items": [{"n": number, "text": LINE * 5} for number in range(2_000)]}, DEFAULT_TOKENS)
    assert time.process_time() - start < 5
