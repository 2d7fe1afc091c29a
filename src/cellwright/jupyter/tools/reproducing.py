"""Toolset `reproducing`: whether a notebook, run from top to bottom in a clean kernel, puts out what it keeps."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.toolset import Toolset, run
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.inside.permitted import require_run
from cellwright.jupyter.kernels.own import OWN_RUNNING
from cellwright.jupyter.model import KernelSpec
from cellwright.jupyter.parsing import spec_named
from cellwright.jupyter.reproducing.copies import NotebookCopy, copy_of, inject
from cellwright.jupyter.reproducing.explaining import order_problem
from cellwright.jupyter.reproducing.findings import AS_KEPT, Finding, Verdict, counted_verdicts, reproduces
from cellwright.jupyter.reproducing.reproduction import KernelFacts, Reproduction, Wishes
from cellwright.jupyter.service import LiveNotebooks, wait_seconds
from cellwright.jupyter.tools.common import DEFAULT_WAIT, Path, Wait, first_of
from cellwright.notebook.model import language_named

CELL_TOKENS = 3_500
"""Of the cells that are shown with their differences."""
DIFF_LINES = 16
MOST_COSTS = 60
MOST_NAMED = 100
MIBI = 1024 * 1024
LONGEST_REASON = 300
COUNTED = AS_KEPT | {Verdict.NOT_RUN, Verdict.NO_OUTPUT_KEPT}
"""What is counted, and not shown cell by cell."""


class KernelUsed(TypedDict):
    name: str
    language: str
    version: str
    interpreter: NotRequired[str]


class CellFound(TypedDict):
    """A cell that is not the same as kept."""

    index: int
    id: str
    status: str
    why: NotRequired[list[str]]
    hint: NotRequired[str]
    diff: NotRequired[str]
    """Lines of the kept output with -, of the new one with +."""
    seconds: NotRequired[float]


class Difference(TypedDict):
    index: int
    id: str
    status: str


class ReproductionReport(TypedDict):
    message: str
    execution_id: str
    status: str
    path: str
    view: str
    reproduces: bool | None
    counts: dict[str, int]
    first_difference: NotRequired[Difference]
    cells: list[CellFound]
    more: NotRequired[list[str]]
    costs: list[str]
    seconds: float
    peak_memory_mb: float | None
    kernel: NotRequired[KernelUsed]
    parameters: NotRequired[str]
    notes: NotRequired[list[str]]
    next: NotRequired[str]


async def reproduce_nb(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    parameters: Annotated[dict[str, Any] | None, Field(description="set after the cell tagged parameters")] = None,
    tolerance: Annotated[float | None, Field(ge=0, le=1, description="relative, for numbers")] = None,
    stop_on_error: bool = True,
    kernel_name: str | None = None,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109 - as the other tools call it
) -> ReproductionReport:
    """Run a copy of the notebook top to bottom in a clean kernel; compare outputs with those kept. The notebook stays untouched."""
    wait_seconds(timeout)
    notebook_path = NotebookPath(path)
    require_run(call, "reproducing a notebook", "read it with read_nb_cells", needed=OWN_RUNNING)
    connected = await notebooks.connected(call)
    specs = await connected.found.jupyter.kernels.specs()
    async with notebooks.open(call, notebook_path, looks=True) as document:
        copy = await copy_of(document, notebook_path)
    if not copy.cells:
        raise InvalidArgument(f"{notebook_path} has no code cells", hint="there is nothing to run in it")
    spec, notes = _chosen_kernel(copy, kernel_name, specs, connected.found.jupyter.kernels.url)
    injection = None
    if parameters:
        copy, injection = inject(copy, parameters, language_named(spec.language) if spec else "python")
    ours = notebooks.ours
    wishes = Wishes(spec.name if spec else None, tolerance, stop_on_error, injection)
    reproduction = notebooks.reproductions.start(call.principal.id, copy, wishes, ours or connected)
    reproduction.notes += notes
    try:
        await reproduction.wait(timeout, call.report)
    except asyncio.CancelledError:
        if not call.may_have_left:
            await asyncio.shield(reproduction.cancel())
        raise
    return reproduction_report(notebooks, call, reproduction)


def _chosen_kernel(
    copy: NotebookCopy, wished: str | None, specs: Sequence[KernelSpec], url: str
) -> tuple[KernelSpec | None, list[str]]:
    """The wished kernel, else the one that the notebook names, else the server's default; and what to say about that."""
    if wished is not None:
        return spec_named(wished, specs, url), []
    named = next((spec for spec in specs if spec.name == copy.kernel_name), None)
    if named is not None:
        return named, []
    default = next((spec for spec in specs if spec.is_default), None)
    if copy.kernel_name is None:
        return default, []
    name = clean(copy.kernel_name).text[:80]
    return default, [f"the notebook names the kernel {name!r}, which is not installed: the server's default was used"]


def reproduction_report(notebooks: LiveNotebooks, call: Call, reproduction: Reproduction) -> ReproductionReport:
    """What came of a reproduction, or what is known so far. Raises if nothing could be run."""
    if reproduction.failure is not None:
        raise reproduction.failure
    findings = tuple(reproduction.findings)
    shown = [finding for finding in findings if finding.verdict not in COUNTED]
    told = [finding for finding in findings if finding.verdict is Verdict.CLOSE]
    cells = first_of((_cell_found(finding) for finding in (*shown, *told)), CELL_TOKENS)
    report: ReproductionReport = {
        "message": _message(reproduction, findings),
        "execution_id": reproduction.id,
        "status": "running" if not reproduction.ended else "cancelled" if reproduction.cancelled else "done",
        "path": reproduction.copy.path.text,
        "view": _view(notebooks, call, reproduction),
        "reproduces": reproduces(findings, complete=reproduction.complete),
        "counts": {verdict.value: count for verdict, count in counted_verdicts(findings).items()},
        "cells": cells,
        "costs": _costs(findings),
        "seconds": round(reproduction.seconds, 3),
        "peak_memory_mb": _megabytes(reproduction.peak_memory),
    }
    different = next((finding for finding in shown if finding.verdict in (Verdict.DIFFERENT, Verdict.ERROR)), None)
    if different is not None:
        cell = different.cell
        report["first_difference"] = {"index": cell.index, "id": cell.id, "status": different.verdict.value}
    left_out = [f"{finding.cell.index} {finding.verdict.value}" for finding in (*shown, *told)[len(cells) :]]
    if left_out:
        report["more"] = left_out[:MOST_NAMED]
    if reproduction.kernel is not None:
        report["kernel"] = _kernel_used(reproduction.kernel)
    if reproduction.wishes.injection is not None:
        report["parameters"] = f"set {reproduction.wishes.injection.note}"
    if notes := _notes(reproduction, findings):
        report["notes"] = notes
    if not reproduction.ended:
        report["next"] = (
            f"still running: get_execution('{reproduction.id}', timeout=50) waits for its end, cancel_execution stops it"
        )
    return report


def _view(notebooks: LiveNotebooks, call: Call, reproduction: Reproduction) -> str:
    """The view in which the indexes count: that of the copy."""
    copy = reproduction.copy
    sight = notebooks.sight(call, copy.path)
    document = notebooks.open_now(copy.path)
    if document is not None and document.view.sight().has_order_of(copy.sight):
        return sight.keep(document.view)
    # Cells came, went or were moved since: only a call that names the view means the cells of then.
    return sight.show_aside(copy.sight, ())


def _message(reproduction: Reproduction, findings: Sequence[Finding]) -> str:
    if not reproduction.ended:
        return f"{len(findings)} of {counted(reproduction.total, 'code cell')} compared so far"
    counts = ", ".join(
        f"{count} {verdict.value.replace('_', ' ')}" for verdict, count in counted_verdicts(findings).items()
    )
    outcome = {
        True: "The notebook reproduces",
        False: "The notebook does not reproduce",
        None: "Whether the notebook reproduces is not known",
    }[reproduces(findings, complete=reproduction.complete)]
    return f"{outcome}: of {counted(len(findings), 'code cell')} {counts}"


def _cell_found(finding: Finding) -> CellFound:
    cell = finding.cell
    entry: CellFound = {"index": cell.index, "id": cell.id, "status": finding.verdict.value}
    if finding.reasons:
        entry["why"] = [clean(reason).text[:LONGEST_REASON] for reason in finding.reasons]
    if finding.hint:
        entry["hint"] = clean(finding.hint).text
    if finding.diff:
        lines = finding.diff.split("\n")
        left_out = [f"… {counted(len(lines) - DIFF_LINES, 'more line')}"] if len(lines) > DIFF_LINES else []
        entry["diff"] = "\n".join([*lines[:DIFF_LINES], *left_out])
    if finding.verdict is not Verdict.CLOSE and finding.cost.seconds is not None:
        entry["seconds"] = round(finding.cost.seconds, 3)
    return entry


def _costs(findings: Sequence[Finding]) -> list[str]:
    """What each cell took; of very many only the costliest, in their order."""
    ran = [finding for finding in findings if finding.cost.seconds is not None]
    if len(ran) > MOST_COSTS:
        costliest = sorted(ran, key=_costliness, reverse=True)[:MOST_COSTS]
        ran = sorted(costliest, key=lambda finding: finding.cell.index)
    return [f"{finding.cell.index}: {_cost(finding)}" for finding in ran]


def _costliness(finding: Finding) -> tuple[float, int]:
    return finding.cost.seconds or 0.0, finding.cost.growth or 0


def _cost(finding: Finding) -> str:
    seconds, growth = finding.cost.seconds or 0.0, finding.cost.growth
    return f"{seconds:.2f} s" if growth is None else f"{seconds:.2f} s, {growth / MIBI:+.1f} MB"


def _megabytes(size: int | None) -> float | None:
    return None if size is None else round(size / MIBI, 1)


def _kernel_used(facts: KernelFacts) -> KernelUsed:
    kernel: KernelUsed = {
        "name": clean(facts.name).text,
        "language": clean(facts.language).text,
        "version": clean(facts.version).text,
    }
    if facts.interpreter:
        kernel["interpreter"] = facts.interpreter
    return kernel


def _notes(reproduction: Reproduction, findings: Sequence[Finding]) -> list[str]:
    copy = reproduction.copy
    notes = [clean(note).text for note in reproduction.notes]
    if earlier := order_problem(copy):
        notes.append(f"the kept outputs come from cells that were run in another order: {earlier}")
    version = reproduction.kernel.version if reproduction.kernel is not None else ""
    if copy.language_version and version and copy.language_version != version:
        kept_version = clean(copy.language_version).text[:20]
        notes.append(f"the notebook was kept by version {kept_version} of its language, this run is of {version[:20]}")
    if reproduction.wishes.injection is not None and any(finding.verdict is Verdict.DIFFERENT for finding in findings):
        notes.append("parameters were set: outputs that depend on them differ from those kept with other values")
    return notes


def reproducing_toolset(notebooks: LiveNotebooks) -> Toolset:
    return Toolset(
        "reproducing",
        "whether a notebook, run in a clean kernel, puts out what it keeps",
        (run(reproduce_nb),),
        notebooks,
    )
