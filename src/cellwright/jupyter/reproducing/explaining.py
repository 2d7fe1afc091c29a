"""Why a cell put out something else, where the notebook itself tells."""

from collections.abc import Sequence

from cellwright.jupyter.kernels.executions import RunError
from cellwright.jupyter.reproducing.copies import NotebookCopy
from cellwright.jupyter.reproducing.findings import AS_KEPT, Finding, Verdict
from cellwright.notebook.reproducing.hints import missing_name, out_of_order, uses_chance, why_missing
from cellwright.notebook.reproducing.texts import REORDERED

MOST_NAMED = 5


def explained(copy: NotebookCopy, finding: Finding, error: RunError | None, version: str) -> str:
    """A hint for a finding, or an empty text."""
    if finding.verdict in AS_KEPT or finding.verdict is Verdict.NO_OUTPUT_KEPT:
        return ""
    index = finding.cell.index
    above = [cell.source for cell in copy.cells if cell.index < index]
    if error is None:
        return _why_it_differs(copy, finding, above, version)
    name = missing_name(error.name, error.value)
    if name is None:
        return error.hint
    return why_missing(name, above, [(cell.index, cell.source) for cell in copy.cells if cell.index > index])


def _why_it_differs(copy: NotebookCopy, finding: Finding, above: Sequence[str], version: str) -> str:
    hint = ""
    if any(REORDERED in reason for reason in finding.reasons):
        hint = "sort what has no order of its own before it is shown"
    elif uses_chance([*above, finding.cell.source]):
        hint = "random numbers without a seed: set one in the first cells"
    elif any("the date " in reason for reason in finding.reasons):
        hint = "it may depend on the time of the run"
    elif earlier := order_problem(copy):
        hint = f"the kept outputs come from cells that were run in another order: {earlier}"
    elif copy.language_version and version and copy.language_version != version:
        hint = f"the outputs were kept by version {copy.language_version[:20]} of the language, this is {version[:20]}"
    return hint


def order_problem(copy: NotebookCopy) -> str:
    """Which cells were last run before one above them, as far as their execution counts tell."""
    earlier = out_of_order([(cell.index, cell.execution_count) for cell in copy.cells])
    if not earlier:
        return ""
    more = f" and {len(earlier) - MOST_NAMED} more" if len(earlier) > MOST_NAMED else ""
    return f"cell {', '.join(map(str, earlier[:MOST_NAMED]))}{more} before one above"
