"""What came of each cell of a reproduction, and of the notebook as a whole."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cellwright.jupyter.reproducing.copies import CopiedCell
from cellwright.notebook.reproducing.values import Comparison, Likeness


class Verdict(StrEnum):
    SAME = "same"
    CLOSE = "close"
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """The outputs cannot be compared."""
    ERROR = "error"
    """It raised, or its kernel died, where no error is kept."""
    NOT_RUN = "not_run"
    NO_OUTPUT_KEPT = "no_output_kept"
    """It was never run, as far as the notebook tells: there is nothing to compare with."""


AS_KEPT = frozenset({Verdict.SAME, Verdict.CLOSE})
UNDECIDED = frozenset({Verdict.UNKNOWN, Verdict.NO_OUTPUT_KEPT})
_OF_LIKENESS = {
    Likeness.SAME: Verdict.SAME,
    Likeness.CLOSE: Verdict.CLOSE,
    Likeness.UNKNOWN: Verdict.UNKNOWN,
    Likeness.DIFFERENT: Verdict.DIFFERENT,
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What the run of a cell took. Memory is that of the kernel's process in bytes, None if it does not say."""

    seconds: float | None = None
    memory: int | None = None
    """After the cell."""
    growth: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One cell: how its new outputs compare with those that are kept."""

    cell: CopiedCell
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    diff: str = ""
    hint: str = ""
    cost: Cost = Cost()


def judged(cell: CopiedCell, compared: Comparison, *, raised: bool, kept_error: bool) -> Verdict:
    """The verdict on a cell that ran."""
    if not cell.has_run:
        return Verdict.ERROR if raised else Verdict.NO_OUTPUT_KEPT
    if raised and not kept_error:
        return Verdict.ERROR
    return _OF_LIKENESS[compared.likeness]


def counted_verdicts(findings: Sequence[Finding]) -> dict[Verdict, int]:
    """How many cells came to each verdict, in the order of the verdicts."""
    counts = Counter(finding.verdict for finding in findings)
    return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}


def reproduces(findings: Sequence[Finding], *, complete: bool) -> bool | None:
    """Whether the notebook puts out what it keeps: None if that is not known."""
    if any(_contradicts(finding) for finding in findings):
        return False
    if complete and all(finding.verdict in AS_KEPT for finding in findings):
        return True
    return None


def _contradicts(finding: Finding) -> bool:
    if finding.verdict is Verdict.NOT_RUN:
        # A cell that was not reached is no news if it was never run before either.
        return finding.cell.has_run and not finding.reasons
    return finding.verdict not in AS_KEPT | UNDECIDED
