"""Merges what a caller wants of a part of a pad with what became of the part after they saw it, field by field."""

from collections.abc import Mapping
from typing import Any

from cellwright.notebook.merging import merged_text

Fields = Mapping[str, Any]


def merged_fields(base: Fields, mine: Fields, theirs: Fields) -> dict[str, Any] | None:
    """The fields of `mine`, each with what was changed in it from `base` to `theirs`; None if a change touches another.

    Only texts are merged inside. A field that is missing is None.
    """
    merged: dict[str, Any] = {}
    for name, my_value in mine.items():
        base_value, their_value = base.get(name), theirs.get(name)
        if their_value in (base_value, my_value):
            merged[name] = my_value
        elif my_value == base_value:
            merged[name] = their_value
        elif isinstance(my_value, str) and isinstance(their_value, str):
            text = merged_text(base_value if isinstance(base_value, str) else "", my_value, their_value)
            if text is None:
                return None
            merged[name] = text
        else:
            return None
    return merged
