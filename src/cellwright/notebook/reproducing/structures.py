"""Two JSON values compared by their structure."""

from typing import cast

from cellwright.core.nesting import deeper_than
from cellwright.notebook.reproducing.texts import compare_texts
from cellwright.notebook.reproducing.tokens import values_close
from cellwright.notebook.reproducing.values import SAME, Comparison, Rules, close, different, together, unknown

DEEPEST = 64
LONGEST_VALUE = 60


def compare_json(kept: object, new: object, rules: Rules, place: str = "$") -> Comparison:
    """Objects by their keys, lists by position, numbers with the tolerance, texts as texts."""
    if deeper_than(kept, DEEPEST) or deeper_than(new, DEEPEST):
        return unknown(f"JSON that is nested in more than {DEEPEST} levels")
    return _compare(kept, new, rules, place)


def _compare(kept: object, new: object, rules: Rules, place: str) -> Comparison:
    match kept, new:
        case dict(), dict():
            return _objects(cast("dict[str, object]", kept), cast("dict[str, object]", new), rules, place)
        case list(), list():
            return _lists(cast("list[object]", kept), cast("list[object]", new), rules, place)
        case str(), str():
            return compare_texts(kept, new, rules, place)
        case bool(), _:
            pass
        case _, bool():
            pass
        case int() | float(), int() | float():
            return _numbers(kept, new, rules, place)
        case _:
            pass
    return SAME if kept is new else different(f"{place}: {_brief(kept)} was kept, {_brief(new)} came")


def _numbers(kept: float, new: float, rules: Rules, place: str) -> Comparison:
    if kept == new:
        return SAME
    exact = isinstance(kept, int) and isinstance(new, int) and rules.tolerance is None
    try:
        alike = not exact and values_close(float(kept), float(new), rules)
    except OverflowError:
        alike = False
    return close("numbers") if alike else different(f"{place}: {_brief(kept)} was kept, {_brief(new)} came")


def _objects(kept: dict[str, object], new: dict[str, object], rules: Rules, place: str) -> Comparison:
    missing, extra = [key for key in kept if key not in new], [key for key in new if key not in kept]
    if missing or extra:
        keys = ", ".join(_brief(key) for key in (missing or extra)[:3])
        return different(f"{place}: {'missing' if missing else 'new'} {keys}")
    return together(_compare(kept[key], new[key], rules, f"{place}.{key[:40]}") for key in kept)


def _lists(kept: list[object], new: list[object], rules: Rules, place: str) -> Comparison:
    if len(kept) != len(new):
        return different(f"{place}: a list of {len(kept):,} was kept, of {len(new):,} came")
    return together(
        _compare(before, after, rules, f"{place}[{position}]")
        for position, (before, after) in enumerate(zip(kept, new, strict=True))
    )


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
