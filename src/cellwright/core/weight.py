"""How much memory a value takes, so that caches can be limited in bytes."""

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, cast

_FEW = 4
"""What a number, or the brackets of a list, counts in characters."""


def weight(value: object) -> int:
    """The bytes of a value with everything in it: texts, numbers, lists, mappings and dataclasses of them.

    An object that occurs twice counts twice. One that is also used elsewhere counts too, because it may be dropped there.
    """
    total = 0
    pending: list[object] = [value]
    while pending:
        part = pending.pop()
        total += sys.getsizeof(part)
        if isinstance(part, str | bytes | int | float | None):
            continue
        if isinstance(part, Mapping):
            entries = cast("Mapping[object, object]", part)
            pending.extend(entries.keys())
            pending.extend(entries.values())
        elif isinstance(part, list | tuple | set | frozenset):
            pending.extend(cast("list[object]", part))
        elif is_dataclass(part):
            pending.extend(getattr(part, field.name) for field in fields(cast("Any", part)))
    return total


def characters_in(value: object, most: int) -> int:
    """About how many characters a value and everything in it have. Counting stops after `most`."""
    total = 0
    pending: list[object] = [value]
    while pending and total <= most:
        part = pending.pop()
        if isinstance(part, str | bytes):
            total += len(part)
            continue
        total += _FEW
        if isinstance(part, Mapping):
            entries = cast("Mapping[object, object]", part)
            pending.extend(islice(entries.keys(), most))
            pending.extend(islice(entries.values(), most))
        elif isinstance(part, list | tuple):
            pending.extend(cast("list[object]", part)[:most])
        elif is_dataclass(part):
            pending.extend(getattr(part, field.name) for field in fields(cast("Any", part)))
    return total


def written_size(value: object) -> int:
    """The length of `repr(value)`, counted piece by piece: writing megabytes at once would block everything else."""
    total = 0
    pending: list[object] = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            entries = cast("dict[object, object]", part)
            total += 2 + 2 * max(0, len(entries) - 1) + 2 * len(entries)
            pending.extend(entries.keys())
            pending.extend(entries.values())
        elif isinstance(part, list):
            items = cast("list[object]", part)
            total += 2 + 2 * max(0, len(items) - 1)
            pending.extend(items)
        else:
            total += len(repr(part))
    return total
