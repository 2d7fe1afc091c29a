"""Keeps `truncated` in an answer correct when the answer is shortened after it was written.

`truncated` is next to what may be cut: one boolean for all of it, or an object with one for each key that may be cut, or inside such
an object a list with one for each item.
"""

from collections.abc import Sequence
from typing import Self

Json = dict[str, "Json"] | list["Json"] | tuple["Json", ...] | str | int | float | bool | None

FLAG = "truncated"


class ItemsLeftOut(str):
    """The note in a list that replaces the missing items."""

    __slots__ = ()

    def __new__(cls, count: int) -> Self:
        return super().__new__(cls, f"… {count:,} {'item' if count == 1 else 'items'} left out …")


def flag_cuts(before: Json, after: Json) -> bool:
    """Set every `truncated` in `after`, the shortened `before`, that has become true. Returns whether anything was cut."""
    if isinstance(before, dict) and isinstance(after, dict):
        return _flag_in_dict(before, after)
    if isinstance(before, list | tuple) and isinstance(after, list):
        return any(_cut_items(before, after))
    return before != after


def _flag_in_dict(before: dict[str, Json], after: dict[str, Json]) -> bool:
    cut = {key for key, item in before.items() if key != FLAG and (key not in after or flag_cuts(item, after[key]))}
    flags = after.get(FLAG)
    if isinstance(flags, bool):
        after[FLAG] = flags or bool(cut)
    elif isinstance(flags, dict):
        for key in cut & flags.keys():
            flags[key] = _key_flags(before[key], after.get(key), before.get(FLAG), key)
    return bool(cut)


def _key_flags(before: Json, after: Json, flags: Json, key: str) -> Json:
    """The flags of one key: a list for its items if there was one before, with a flag for the note on missing items."""
    earlier = flags.get(key) if isinstance(flags, dict) else None
    if not isinstance(before, list) or not isinstance(after, list) or not isinstance(earlier, list):
        return True
    if len(earlier) != len(before):
        return True
    places = _earlier_places(len(before), after)
    cuts = _cut_items(before, after)
    return [cut or place is None or bool(earlier[place]) for place, cut in zip(places, cuts, strict=True)]


def _cut_items(before: Sequence[Json], after: list[Json]) -> list[bool]:
    """For each item of a list that may have lost its middle, whether it was cut; the note in the middle counts as cut."""
    places = _earlier_places(len(before), after)
    return [place is None or flag_cuts(before[place], item) for place, item in zip(places, after, strict=True)]


def _earlier_places(before: int, after: list[Json]) -> list[int | None]:
    """The indexes of the items before the list was shortened; None for the note on missing items."""
    note = next((place for place, item in enumerate(after) if isinstance(item, ItemsLeftOut)), None)
    if note is None:
        return list(range(before))
    tail = len(after) - note - 1
    return [*range(note), None, *range(before - tail, before)]
