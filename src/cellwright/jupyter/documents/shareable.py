"""Checks for JSON that a shared document cannot hold: the library does not refuse it, but panics in the middle of the change."""

from typing import cast

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.clean import clean
from cellwright.jupyter.model import JsonObject

LARGEST_NUMBER = 1 << 63
"""Whole numbers of shared documents have 64 bits."""
SHOWN = 40


def not_shared(value: object) -> str:
    """What in this JSON a shared document cannot hold; empty if there is nothing."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            pending += [item for pair in cast("JsonObject", node).items() for item in pair]
        elif isinstance(node, list):
            pending += cast("list[object]", node)
        elif isinstance(node, str) and not _is_text(node):
            return "has half of a character pair in a text: a \\ud… that stands alone"
        elif isinstance(node, int) and not -LARGEST_NUMBER <= node < LARGEST_NUMBER:
            return f"has a whole number that is too large: {excerpt(node)}"
    return ""


def check_shared(name: str, value: object) -> None:
    """Raise InvalidArgument if a shared document cannot hold this JSON. `name` is what the caller calls it."""
    if problem := not_shared(value):
        raise InvalidArgument(f"{name} {problem}", hint="Send text as plain UTF-8, and large numbers as text")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def excerpt(value: object) -> str:
    """The beginning of a value, for a message."""
    return "nothing" if value is None else clean(repr(value)[:SHOWN]).text
