"""Notebooks written out are remembered up to a bound in bytes."""

import pytest

from cellwright.core.weight import weight
from cellwright.storage.cells import NotebookKey
from cellwright.thinking.reading import CACHED_BYTES, Text, Texts
from requirements import requirement


@requirement("memory:kept")
@pytest.mark.parametrize("letter", ["x", "\N{GRINNING FACE}"], ids=["plain", "wide"])
def test_texts_are_remembered_up_to_a_bound_in_bytes(letter: str) -> None:
    texts = Texts()
    keys = [NotebookKey("ann", f"nb-{number}") for number in range(20)]
    for number, key in enumerate(keys):
        texts.put(key, "md", 1, Text(letter * 1_000_000 + str(number), "text/markdown"))
        assert weight(texts._texts) < CACHED_BYTES + 100_000
    last = texts.get(keys[-1], "md", 1)
    assert last is not None
    assert last.body.endswith("19")
    assert texts.get(keys[-1], "md", 2) is None
    assert texts.get(keys[0], "md", 1) is None


@requirement("memory:kept")
def test_a_text_over_the_bound_is_not_remembered() -> None:
    texts = Texts()
    texts.put(NotebookKey("ann", "nb-1"), "md", 1, Text("x" * (CACHED_BYTES + 1), "text/markdown"))
    assert texts.get(NotebookKey("ann", "nb-1"), "md", 1) is None
    assert weight(texts._texts) < 100_000
