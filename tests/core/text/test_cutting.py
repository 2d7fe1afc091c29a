"""However often a text is cut, what is missing is counted exactly, and `truncated` says so."""

import json
import re
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cellwright.app.protocol.results import answer_result, write_result
from cellwright.core.arguments import Signature, signature_of
from cellwright.core.text.budget import MINIMUM_TOKENS, cut
from cellwright.core.text.cutting import (
    cut_for_file,
    cut_text,
    from_file,
    gaps_of,
    joined,
    mapped,
    original_length,
    without_last_newline,
)
from cellwright.core.toolset import DataAsText, Image, Reply
from requirements import requirement

PATIENT = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no finding."""

LINE = "a line of output like many others\n"
LOOKALIKE = "\n… 12 of 34 characters left out …\n… 56 characters (about 7 tokens) left out …\n"
TEXTS = st.lists(
    st.tuples(st.sampled_from([LINE, LOOKALIKE, "word ", "x", "漢字", "e\u0301", "\n", "0 "]), st.integers(1, 120)),
    min_size=1,
    max_size=4,
).map(lambda parts: "".join(text * count for text, count in parts))
CUTS = st.lists(
    st.tuples(st.just("characters"), st.integers(1, 4_000)) | st.tuples(st.just("tokens"), st.integers(64, 1_500)),
    min_size=1,
    max_size=5,
)
COUNT = re.compile(r"(?:…|\[cellwright:) ([\d,]+) (?:of ([\d,]+) )?characters")


def cut_as(text: str, kind: str, limit: int) -> str:
    return cut_text(text, limit) if kind == "characters" else cut(text, limit).text


def assert_true_account(original: str, shown: str, total: int | None = None) -> None:
    """What is shown stands in the original, in order, with exactly as much between as each gap says (`of` the total)."""
    position = place = 0
    for gap in gaps_of(shown):
        piece = shown[place : gap.start]
        assert original[position : position + len(piece)] == piece
        line = COUNT.search(shown[gap.start : gap.end])
        assert line is not None
        assert int(line[1].replace(",", "")) == gap.missing > 0
        assert total is None or line[2] is None or int(line[2].replace(",", "")) == total
        position += len(piece) + gap.missing
        place = gap.end
    assert original[position:] == shown[place:]


@requirement("truth:cut:counts")
@PATIENT
@given(TEXTS, CUTS)
def test_any_number_of_cuts_is_counted_exactly(text: str, cuts: list[tuple[str, int]]) -> None:
    shown = text
    for kind, limit in cuts:
        shown = cut_as(shown, kind, limit)
        assert original_length(shown) == len(text)
        assert_true_account(text, shown, len(text))
        assert (shown == text) == (not gaps_of(shown))


@requirement("truth:cut:counts")
@PATIENT
@given(st.lists(st.tuples(TEXTS, st.integers(1, 3_000)), min_size=2, max_size=4), CUTS)
def test_texts_that_were_cut_one_by_one_are_counted_together(
    pieces: list[tuple[str, int]], cuts: list[tuple[str, int]]
) -> None:
    whole = "\n".join(text for text, _ in pieces)
    shown = joined((cut_text(text, limit) for text, limit in pieces), "\n")
    for kind, limit in cuts:
        shown = cut_as(shown, kind, limit)
        assert_true_account(whole, shown)


@requirement("truth:cut:file")
@PATIENT
@given(TEXTS, st.integers(1, 4_000), CUTS)
def test_a_text_that_was_kept_cut_is_counted_from_what_there_was(
    text: str, limit: int, cuts: list[tuple[str, int]]
) -> None:
    # A file has plain text.
    kept = "".join(cut_for_file(text, limit))
    shown = from_file(kept)
    assert original_length(shown) == len(text)
    assert bool(gaps_of(shown)) == (kept != text)
    assert mapped(shown, lambda piece: piece) == shown
    assert_true_account(text.replace("x", "y"), mapped(shown, lambda piece: piece.replace("x", "y")))
    for kind, size in cuts:
        shown = cut_as(shown, kind, size)
        assert_true_account(text, shown, len(text))


@requirement("truth:cut:counts")
def test_a_newline_at_the_end_is_taken_without_forgetting_the_gaps() -> None:
    shown = without_last_newline(cut_text(LINE * 100, 500))
    assert_true_account((LINE * 100)[:-1], shown)
    assert without_last_newline("plain\n") == without_last_newline("plain") == "plain"


@requirement("truth:cut:counts")
def test_the_numbers_of_a_text_that_is_cut_twice() -> None:
    text = "".join(f"line {number:05}\n" for number in range(5_000))
    once = cut_text(text, 20_000)
    assert "35,000 of 55,000 characters left out" in once
    twice = cut(once, 2_000).text
    (gap,) = gaps_of(twice)
    assert gap.missing == len(text) - (len(twice) - (gap.end - gap.start))
    assert f"{gap.missing:,} characters" in twice


# -- answers -----------------------------------------------------------------------------------------------------------------


async def tool(service: None) -> dict[str, Any]:
    del service
    return {}


SIGNATURE: Signature = signature_of(tool)


def cells_of(texts: list[list[str]], limit: int) -> dict[str, Any]:
    """Cells as reading gives them: each text cut to the limit, with a flag for each."""
    cells: list[dict[str, Any]] = []
    for source, *outputs in texts:
        shown = [cut_text(text, limit) for text in outputs]
        flags = [bool(gaps_of(text)) for text in shown]
        source_shown = cut_text(source, limit)
        cells.append(
            {
                "source": source_shown,
                "outputs": [{"text": text} for text in shown],
                "truncated": {"source": bool(gaps_of(source_shown)), "outputs": flags},
            }
        )
    return {"cells": cells, "truncated": any(c["truncated"]["source"] or any(c["truncated"]["outputs"]) for c in cells)}


def assert_flags_true(cell: dict[str, Any], original: list[str]) -> bool:
    flags = cell["truncated"]
    if isinstance(flags, str):
        return True
    assert flags["source"] == (cell["source"] != original[0])
    if isinstance(cell["outputs"], str):
        return True
    outputs = cell["outputs"]
    assert len(flags["outputs"]) == len(outputs)
    for flag, output in zip(flags["outputs"], outputs, strict=True):
        assert flag == (isinstance(output, str) or output["text"] not in original[1:])
    return flags["source"] or any(flags["outputs"])


@requirement("truth:cut:flags")
@PATIENT
@given(
    st.lists(st.lists(TEXTS, min_size=1, max_size=5), min_size=1, max_size=4),
    st.integers(100, 10_000),
    st.integers(MINIMUM_TOKENS, 6_000),
)
def test_flags_say_what_is_missing_whoever_cut_it(texts: list[list[str]], limit: int, tokens: int) -> None:
    answer = answer_result(write_result(cells_of(texts, limit)), SIGNATURE, tokens)
    assert isinstance(answer.content[0], str)
    shown: Any = json.loads(answer.content[0])
    assume(not isinstance(shown, str))
    listed: Any = shown["cells"]
    assume(not isinstance(listed, str))
    # What is left out of a list stands as a note in it.
    cells: list[dict[str, Any]] = [cell for cell in listed if not isinstance(cell, str)]
    if len(cells) < len(texts):
        assert shown["truncated"] is True
        return
    cut = [assert_flags_true(cell, original) for cell, original in zip(cells, texts, strict=True)]
    assert shown["truncated"] is any(cut)


@requirement("truth:cut:flags")
def test_a_flag_is_set_where_only_the_budget_cuts_and_the_text_beside_pictures_is_whole_json() -> None:
    data = {"results": [{"text": LINE * 3_000, "truncated": False}, {"text": "short", "truncated": False}]}
    reply = Reply(data, (DataAsText(), Image(b"picture", "image/png")))
    answer = answer_result(write_result(reply), SIGNATURE, 1_000)
    text, picture = answer.content
    assert isinstance(text, str)
    assert isinstance(picture, Image)
    shown = json.loads(text)
    assert [result["truncated"] for result in shown["results"]] == [True, False]
    missing = COUNT.search(shown["results"][0]["text"])
    assert missing is not None
    assert data["results"][0]["truncated"] is False
