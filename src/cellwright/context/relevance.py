"""How much an item is still worth. Recent and frequent use count; the items worth least make room."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cellwright.context.model import SECONDS_A_DAY

RECENCY_WEIGHT = 0.6
ACCESS_WEIGHT = 0.4
FORGOTTEN_AFTER = 30 * SECONDS_A_DAY
MANY_ACCESSES = 100
FULL = 0.8
"""The share of the model's window above which items are archived."""
ARCHIVED_SHARE = 5
"""One item in so many is archived at a time."""


@dataclass(frozen=True, slots=True)
class Use:
    """How often and when an item was last used."""

    item: str
    accesses: int = 0
    last: float = 0.0
    archived: bool = False


def score(use: Use, now: float) -> float:
    """Between 0 and 1: 0.6 for recency, linear to 0 over 30 days, and 0.4 for use, up to 100 times."""
    age = max(now - use.last, 0.0)
    recency = max(0.0, 1.0 - age / FORGOTTEN_AFTER)
    return RECENCY_WEIGHT * recency + ACCESS_WEIGHT * min(use.accesses / MANY_ACCESSES, 1.0)


def lowest_fifth(uses: Iterable[Use], now: float) -> Sequence[str]:
    """The items to archive, at least one if there is any; ties go by name, so that the answer is always the same."""
    ranked = sorted((use for use in uses if not use.archived), key=lambda use: (score(use, now), use.item))
    return [use.item for use in ranked[: -(-len(ranked) // ARCHIVED_SHARE)]]
