"""How much one reply holds. The scratch tools return long lists in pages, so that no list is cut in its middle."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from pydantic_core import to_json

from cellwright.core.text.budget import estimate_tokens

Item = TypeVar("Item", bound=Mapping[str, object])
PAGE_TOKENS = 4_500


def fitting(items: Sequence[Item], tokens: int = PAGE_TOKENS, *, least: int = 1) -> list[Item]:
    """As many of the first items as one reply holds, but at least `least`: the next page begins after them."""
    if cost_of(items) <= tokens:
        return list(items)
    tokens_left = tokens
    for count, item in enumerate(items):
        tokens_left -= cost_of(item)
        if tokens_left < 0:
            return list(items[: max(count, least)])
    return list(items)


def cost_of(items: Mapping[str, object] | Sequence[Mapping[str, object]]) -> int:
    """The tokens of one item or of a list of them, as JSON."""
    return estimate_tokens(to_json(items).decode())
