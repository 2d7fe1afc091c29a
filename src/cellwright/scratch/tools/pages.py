"""How much one reply holds. The scratch tools give long lists in pages of their own: nothing is cut out of the middle of one."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from pydantic_core import to_json

from cellwright.core.text.budget import estimate_tokens

Item = TypeVar("Item", bound=Mapping[str, object])
PAGE_TOKENS = 4_500


def fitting(items: Sequence[Item], tokens: int = PAGE_TOKENS, *, least: int = 1) -> list[Item]:
    """The first of these, as many as one reply holds, at least so many: what is left out must come on the next page."""
    if cost_of(items) <= tokens:
        return list(items)
    left = tokens
    for count, item in enumerate(items):
        left -= cost_of(item)
        if left < 0:
            return list(items[: max(count, least)])
    return list(items)


def cost_of(shown: Mapping[str, object] | Sequence[Mapping[str, object]]) -> int:
    return estimate_tokens(to_json(shown).decode())
