"""Two changes of one text: both are kept where they do not touch, and neither is lost where they do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.notebook.merging import merged_text
from requirements import requirement

LINES = st.lists(st.sampled_from(["a", "b", "c = 1", "", "\td", "é😀"]), min_size=1, max_size=8)


@requirement("sight:merge")
@pytest.mark.parametrize(
    ("base", "mine", "theirs", "merged"),
    [
        ("a\nb\nc", "A\nb\nc", "a\nb\nC", "A\nb\nC"),
        ("a\nb", "A\nb", "a\nB", "A\nB"),
        ("a", "A", "a\nb", "A\nb"),
        ("a\nb", "a", "a\nb\nc", "a\nc"),
        ("a\nb", "x\na\nb", "a\nb\ny", "x\na\nb\ny"),
        ("a\nb", "a\nx\nb", "a\nB", "a\nx\nB"),
        ("a\nb", "A\nb", "A\nb", "A\nb"),
        ("a\nb\nc", "A\nb\nC", "A\nb\nc", "A\nb\nC"),
        ("a\nb", "a\nb", "B", "B"),
        ("a", "A", "b", None),
        ("a", "a\nmine", "a\ntheirs", None),
        ("a\nb\nc", "a\nc", "a\nB\nc", None),
        ("", "mine", "theirs", None),
    ],
)
def test_both_changes_are_kept_unless_they_touch(base: str, mine: str, theirs: str, merged: str | None) -> None:
    assert merged_text(base, mine, theirs) == merged
    assert merged_text(base, theirs, mine) == merged


@requirement("sight:merge")
@given(LINES, st.data())
def test_changes_of_different_lines_are_always_both_there(lines: list[str], data: st.DataObject) -> None:
    """Each line of a text of unlike lines is left, rewritten or removed by me, by them, or by nobody."""
    base = [f"{number} {line}" for number, line in enumerate(lines)]
    who = [data.draw(st.sampled_from(["mine", "theirs", "nobody"])) for _ in base]
    new = [data.draw(st.sampled_from([[], ["rewritten"], ["two", "lines"]])) for _ in base]

    def version(*writers: str) -> str:
        written = [new[n] if who[n] in writers else [line] for n, line in enumerate(base)]
        return "\n".join(line for part in written for line in part)

    merged = merged_text("\n".join(base), version("mine"), version("theirs"))
    # An empty text has one line, which is empty: there, everything touches.
    if all((version("mine"), version("theirs"), base)):
        assert merged == version("mine", "theirs")


@requirement("sight:merge")
@given(LINES, LINES, LINES)
def test_nothing_that_either_added_is_lost(base: list[str], mine: list[str], theirs: list[str]) -> None:
    merged = merged_text("\n".join(base), "\n".join(mine), "\n".join(theirs))
    if merged is None:
        return
    lines = merged.split("\n")
    for version in (mine, theirs):
        for line in {*version} - {*base}:
            assert lines.count(line) >= min(version.count(line), 1)
    assert merged_text("\n".join(base), "\n".join(theirs), "\n".join(mine)) == merged
