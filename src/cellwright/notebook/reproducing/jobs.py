"""Comparing as a job of a worker process: outputs may be large, and are anybody's."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from cellwright.notebook.reproducing.bundles import compare_outputs
from cellwright.notebook.reproducing.pictures import load_decoder
from cellwright.notebook.reproducing.values import Comparison, Likeness, Rules
from cellwright.notebook.shortdiff import changed_lines, short_diff


def compare(
    kept: list[dict[str, Any]], new: list[dict[str, Any]], tolerance: float | None, began: str, now: str
) -> Callable[[], dict[str, Any]]:
    """The comparison of a cell's outputs, as JSON, with the lines that differ."""
    load_decoder()
    rules = Rules(tolerance, datetime.fromisoformat(began), datetime.fromisoformat(now))

    def answer() -> dict[str, Any]:
        compared = compare_outputs(kept, new, rules)
        lines = [line for line in changed_lines(compared.kept, compared.new) if line.startswith(("-", "+"))]
        return {"likeness": compared.likeness.value, "reasons": list(compared.reasons), "diff": short_diff(lines)}

    return answer


def comparison_of(answer: dict[str, Any]) -> tuple[Comparison, str]:
    """The comparison in a job's answer, and its diff."""
    return Comparison(Likeness(answer["likeness"]), tuple(answer["reasons"])), answer["diff"]
