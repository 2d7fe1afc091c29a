"""JSON from outside as values: long or short, the same, and not by way of a text four times as large."""

import json
import tracemalloc

import pytest

from cellwright.core.foreign_json import LARGE, parsed
from requirements import requirement

PADDING = "x" * LARGE
ODD = [
    '"\\ud800"',
    "NaN",
    "-Infinity",
    "1e999",
    str(10**400),
    '{"a": 1, "a": 2}',
    '"\\ud83d\\ude00 \\u0000"',
    "[" * 250 + "]" * 250,
]
WRONG = ['"\x01"', "{} x", '{"a": }', "\ufeff{}", "9" * 5_000, '"\udcff']


@pytest.mark.parametrize("text", ODD)
def test_what_python_takes_is_taken_however_long(text: str) -> None:
    short, long = f'["", {text}]', f'["{PADDING}", {text}]'
    assert repr(parsed(short.encode())) == repr(json.loads(short))
    assert repr(parsed(long.encode())) == repr(json.loads(long))


@pytest.mark.parametrize("text", WRONG)
def test_what_python_refuses_is_refused_however_long(text: str) -> None:
    for whole in (text, f'["{PADDING}", {text}]'):
        with pytest.raises(ValueError, match=r"."):
            parsed(whole.encode("utf-8", "surrogatepass"))


@requirement("costs:ceiling")
def test_one_wide_letter_does_not_make_two_wide_texts_of_it() -> None:
    data = json.dumps({"text": "\N{GRINNING FACE}" + "x" * 4_000_000}, ensure_ascii=False).encode()
    tracemalloc.start()
    try:
        read = parsed(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(read, dict)
    # Python makes a narrow text of it until it meets the wide letter. By way of a text of all of it, it would be nine times as much.
    assert peak < 6 * len(data)
