"""What JSON a shared document cannot hold: its library does not refuse that, it panics in the middle of the change."""

from typing import cast

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.clean import clean
from cellwright.jupyter.model import JsonObject

LARGEST_NUMBER = 1 << 63
"""Whole numbers of shared documents have 64 bits."""
SHOWN = 40


def not_shared(value: object) -> str:
    """What stands in this JSON that a shared document cannot hold."""
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


def check_shared(what: str, value: object) -> None:
    """InvalidArgument if something in this JSON, which the caller knows as `what`, cannot be in a shared document."""
    if wrong := not_shared(value):
        raise InvalidArgument(f"{what} {wrong}", hint="Send text as plain UTF-8, and large numbers as text")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def excerpt(value: object) -> str:
    """The beginning of a value, for a message."""
    return "nothing" if value is None else clean(repr(value)[:SHOWN]).text
