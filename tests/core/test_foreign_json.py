"""JSON from outside is measured before it is parsed."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.core.foreign_json import JsonBounds
from requirements import requirement

BOUNDS = JsonBounds(size=1_000_000, items=1_000, depth=50)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\[]{},:\n\ud800é', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(alphabet='a"\\,[{', max_size=3), inner, max_size=5)
    ),
    max_leaves=30,
)


def inner_of(value: Any) -> list[Any] | None:
    """What a container holds; None for what is no container."""
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else None


def depth_of(value: Any) -> int:
    inner = inner_of(value)
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


def items_of(value: Any) -> int:
    """Containers, and commas between what they hold."""
    inner = inner_of(value)
    return 0 if inner is None else 1 + max(0, len(inner) - 1) + sum(map(items_of, inner))


@requirement("foreign-json:bounds")
@given(VALUES, st.booleans())
def test_the_measure_is_exact_whatever_the_texts_hold(value: Any, ascii_only: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    items, depth = items_of(value), depth_of(value)
    assert JsonBounds(len(data), max(items, 1000), depth).excess(data) == ""
    if depth:
        assert "nesting" in JsonBounds(len(data), 1000, depth - 1).excess(data)
    assert "bytes" in JsonBounds(len(data) - 1, 1000, depth).excess(data)


@requirement("foreign-json:bounds")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[" + b"[]," * 999 + b"[]]", "1,000 values"),
        (b"{" + b'"":0,' * 1_000 + b'"":0}', "1,000 values"),
        (b"[" + b'"",' * 3_000 + b'""]', "1,000 values"),
        (b"[" * 51 + b"]" * 51, "50 levels"),
        (b"[" * 51, "50 levels"),
        (b'{"a":' * 51 + b"1" + b"}" * 51, "50 levels"),
        (b" " * 1_000_001, "1,000,001 bytes"),
    ],
)
def test_too_much_is_named(data: bytes, words: str) -> None:
    assert words in BOUNDS.excess(data)


@requirement("foreign-json:bounds")
@pytest.mark.parametrize("data", [b"", b"[", b"]]]]", b'"\\', b'"' * 3, b'"' + b',[{\\"' * 100_000 + b'"', b"\xff\xfe"])
def test_what_a_parser_refuses_or_what_is_one_text_passes(data: bytes) -> None:
    assert BOUNDS.excess(data) == ""
