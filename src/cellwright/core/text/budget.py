"""Every result has a budget: what does not fit is cut in the middle, and a note says how much is missing.

`cut` is for text, `fit` for data that becomes compact JSON. Both return what fits unchanged.
"""

from dataclasses import dataclass

from cellwright.core.text.cutting import MINIMUM_TOKENS, shortened
from cellwright.core.text.fitting import Fitting, Json, compact_json
from cellwright.core.text.tokens import estimate_tokens

DEFAULT_TOKENS = 6_000
MAX_TOKENS = 20_000
"""Hosts refuse results of more than 25,000 tokens; the difference is for errors of the estimate."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A text within its budget: whole, or its head and tail around a line that counts what is missing."""

    text: str
    truncated: bool
    original_chars: int
    original_tokens: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """Data within its budget: whole, or a copy with long strings cut and long lists shortened."""

    value: Json
    truncated: bool
    original_tokens: int


def cut(text: str, tokens: int) -> Cut:
    """The text, or its head and tail within `tokens` (64 at least). Characters are counted exactly, tokens estimated."""
    budget = max(tokens, MINIMUM_TOKENS)
    total = estimate_tokens(text)
    if total <= budget:
        return Cut(text, truncated=False, original_chars=len(text), original_tokens=total)
    return Cut(shortened(text, total, budget), truncated=True, original_chars=len(text), original_tokens=total)


def fit(value: Json, tokens: int) -> Fitted:
    """The value, or a copy whose compact JSON is within `tokens` (64 at least).

    The longest strings are cut first, to an equal share; then lists lose their middle, and dicts inside others their end.
    The keys of a top-level dict stay if they fit by themselves; else the result is the JSON as text, cut.
    """
    budget = max(tokens, MINIMUM_TOKENS)
    whole = compact_json(value)
    total = estimate_tokens(whole)
    if total <= budget:
        return Fitted(value, truncated=False, original_tokens=total)
    return Fitted(Fitting(value, budget).best(whole, total), truncated=True, original_tokens=total)
