"""What is remembered of ended work has a bound in bytes: all of it counts, also what nobody put out."""

import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cellwright.jupyter.kernels import live as live_kernels
from cellwright.jupyter.kernels.executions import KEPT_BYTES, CellJob, Execution, Executions, RunError
from cellwright.jupyter.kernels.live import LiveKernels
from cellwright.jupyter.kernels.outputs import Displays, OutputWriter
from requirements import requirement

pytestmark = pytest.mark.anyio


def execution_of(cells: int, error: RunError | None = None) -> Execution:
    displays = Displays()
    jobs = [CellJob(lambda: "", f"{number}", OutputWriter(lambda: None, displays)) for number in range(cells)]
    execution = Execution("ada", "k", jobs, displays, created=datetime.now(UTC))
    execution.cells[-1].error = error
    execution.finish()
    return execution


@requirement("memory:kept")
async def test_what_a_kernel_said_about_a_failure_counts_among_the_results_that_are_kept() -> None:
    executions = Executions(lambda: datetime.now(UTC), keep=200, keep_for=timedelta(days=1))
    for number in range(100):
        # As a program makes it that raises with its data in the message.
        said = f"{number}" + "x" * 1_000_000
        executions.add(execution_of(1, RunError("ValueError", said, (f"ValueError: {said}",))))
    kept = executions.of("ada")
    taken = sum(len(error.value) + len(error.traceback[0]) for one in kept if (error := one.cells[0].error))
    assert 10_000_000 < taken < KEPT_BYTES + 4_000_000


@requirement("memory:kept")
async def test_runs_of_many_cells_without_output_are_kept_up_to_a_bound_in_bytes() -> None:
    executions = Executions(lambda: datetime.now(UTC), keep=200, keep_for=timedelta(days=1))
    tracemalloc.start()
    try:
        for _ in range(30):
            executions.add(execution_of(1_000))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(executions.of("ada")) > 5
    assert taken < KEPT_BYTES


@requirement("memory:kept")
async def test_kernels_that_went_are_known_up_to_a_number_and_to_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_kernels, "AWAY_SECONDS", -1.0, raising=False)
    nowhere: Any = None
    kernels = LiveKernels(nowhere, Executions(lambda: datetime.now(UTC)), lambda: datetime.now(UTC))
    for number in range(100):
        await kernels.queue(f"k{number}")
    assert len(kernels._entries) <= 33
    for number in range(10):
        queue = await kernels.queue(f"heavy{number}")
        said = f"{number}" + "x" * 1_000_000
        queue._keep_listening(execution_of(1, RunError("ValueError", said)))
    assert sum(entry.queue.weight for entry in kernels._entries.values()) <= 9_100_000
    assert "heavy9" in kernels._entries
    await kernels.close()
    assert kernels._entries == {}
