"""How alike two outputs are, and by which rules that is judged."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

DEFAULT_TOLERANCE = 1e-6
MOST_REASONS = 6
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Likeness(StrEnum):
    """From the best to the worst; several together are as bad as the worst of them."""

    SAME = "same"
    CLOSE = "close"
    """The same but for what differs in every run, or for numbers within the tolerance."""
    UNKNOWN = "unknown"
    """They cannot be compared in any form that both have."""
    DIFFERENT = "different"


_BADNESS = {likeness: position for position, likeness in enumerate(Likeness)}


@dataclass(frozen=True, slots=True)
class Rules:
    """How outputs are compared."""

    tolerance: float | None = None
    """The largest relative difference of numbers that are close. None: a small one, and whole numbers must be equal."""
    began: datetime = LONG_AGO
    now: datetime = LONG_AGO
    """When the new outputs were made, from `began` to `now`: a date or time of then is that of the run."""

    @property
    def relative(self) -> float:
        return DEFAULT_TOLERANCE if self.tolerance is None else self.tolerance


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of comparing two values."""

    likeness: Likeness
    reasons: tuple[str, ...] = ()
    """In words, why it is not the same; of a difference the first."""
    kept: str = ""
    new: str = ""
    """The texts to show for a difference."""

    @property
    def is_same(self) -> bool:
        return self.likeness is Likeness.SAME


SAME = Comparison(Likeness.SAME)


def close(*reasons: str) -> Comparison:
    return Comparison(Likeness.CLOSE, reasons)


def unknown(reason: str) -> Comparison:
    return Comparison(Likeness.UNKNOWN, (reason,))


def different(reason: str, kept: str = "", new: str = "") -> Comparison:
    return Comparison(Likeness.DIFFERENT, (reason,), kept, new)


def together(comparisons: Iterable[Comparison]) -> Comparison:
    """Several comparisons as one: the worst, with all reasons of that likeness, and the texts of the first that has any."""
    compared = list(comparisons)
    worst = max((comparison.likeness for comparison in compared), key=_BADNESS.__getitem__, default=Likeness.SAME)
    deciding = [comparison for comparison in compared if comparison.likeness is worst]
    reasons = dict.fromkeys(reason for comparison in deciding for reason in comparison.reasons)
    shown = next((comparison for comparison in deciding if comparison.kept or comparison.new), SAME)
    return Comparison(worst, tuple(reasons)[:MOST_REASONS], shown.kept, shown.new)
