"""Metadata of a cell: tags and the entries of other programs. It is changed entry by entry, so that no other entries are lost."""

import json
from collections.abc import Mapping
from typing import cast

from pycrdt import Map

from cellwright.core.errors import InvalidArgument, LimitReached
from cellwright.core.nesting import deeper_than
from cellwright.jupyter.documents.shareable import check_shared
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.cells import YCell, to_plain

MAX_BYTES = 100_000
MAX_DEPTH = 20
TRUSTED = "trusted"
PASSING = frozenset({TRUSTED, "execution"})
"""JupyterLab's own entries: whether outputs may run scripts, and when the cell ran."""


def checked_entries(entries: Mapping[str, object]) -> JsonObject:
    """The entries, if they are small and flat enough, if a shared document can hold them, and if they do not set trust."""
    if TRUSTED in entries:
        raise InvalidArgument(
            "whether a cell's outputs are trusted is for people to say",
            hint="Leave 'trusted' out; JupyterLab asks them",
        )
    if deeper_than(dict(entries), MAX_DEPTH):
        raise InvalidArgument(f"metadata is nested deeper than {MAX_DEPTH} levels", hint="Make it flatter")
    check_shared("metadata", dict(entries))
    size = len(json.dumps(dict(entries), ensure_ascii=False).encode("utf-8"))
    if size > MAX_BYTES:
        raise LimitReached(f"metadata of {size} bytes; at most {MAX_BYTES} are accepted", hint="Keep data in a file")
    return dict(entries)


def metadata_of(shared: object) -> JsonObject:
    """All metadata of a cell, as JSON."""
    plain = to_plain(cast("YCell", shared).get("metadata")) if isinstance(shared, Map) else None
    return cast("JsonObject", plain) if isinstance(plain, dict) else {}


def with_entries(metadata: Mapping[str, object], entries: Mapping[str, object]) -> JsonObject:
    """The metadata with these entries; null removes one."""
    return {key: value for key, value in {**metadata, **entries}.items() if value is not None}


def put_entries(cell: YCell, entries: Mapping[str, object]) -> JsonObject:
    """Set entries of a cell's metadata; null removes one. Returns their earlier values. Call inside a transaction."""
    metadata = cell.get("metadata")
    shared = cast("YCell", metadata) if isinstance(metadata, Map) else None
    # Only these entries are looked up: somebody may have put a hundred thousand others beside them.
    keys = () if shared is None else [key for key in entries if key in shared]
    before = metadata_of(cell) if shared is None else {key: to_plain(shared.get(key)) for key in keys}
    changed = {key: value for key, value in entries.items() if before.get(key) != value}
    if shared is None:
        if changed:
            cell["metadata"] = Map(with_entries(before, changed))
        return {key: before.get(key) for key in changed}
    for key, value in changed.items():
        if value is None:
            del shared[key]
        else:
            shared[key] = value
    return {key: before.get(key) for key in changed}
