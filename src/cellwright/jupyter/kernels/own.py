"""Kernels without a notebook's file, for parts that run code of their own, with the same queues and outputs as live notebooks."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from cellwright.core.errors import CellwrightError, NotFound
from cellwright.core.types import Call, ReportProgress
from cellwright.jupyter.inside.permitted import READ_KERNELS, READ_KINDS, USE_KERNELS, WRITE_KERNELS, require_run
from cellwright.jupyter.kernels.executions import CellJob, CellRunView, Execution
from cellwright.jupyter.model import KernelSpec
from cellwright.jupyter.notebooks.shapes import shape_outputs
from cellwright.jupyter.service import Connected, LiveNotebooks
from cellwright.notebook.model import language_named
from cellwright.notebook.outputs import read_output
from cellwright.notebook.run import (
    CellOutcome,
    CodeToRun,
    JsonObject,
    NoKernel,
    Run,
    RunProblem,
    RunView,
    ShownOutputs,
)

RELATED = {"javascript": "typescript", "typescript": "javascript"}
"""Pairs of languages of which the kernel of each also runs the other."""
HOW_TO_GET = {
    "python": "pip install ipykernel",
    "javascript": "install Deno, then: deno jupyter --install",
    "typescript": "install Deno, then: deno jupyter --install",
    "bash": "pip install bash_kernel, then: python -m bash_kernel.install",
    "r": "in R: install.packages('IRkernel'); IRkernel::installspec()",
    "julia": 'in Julia: using Pkg; Pkg.add("IJulia")',
    "rust": "cargo install evcxr_jupyter, then: evcxr_jupyter --install",
    "go": "install gonb, then: gonb --install",
}
OWN_RUNNING = (READ_KERNELS, WRITE_KERNELS, USE_KERNELS, READ_KINDS)
"""What running code without a notebook's file needs."""
ELSEWHERE = "https://github.com/jupyter/jupyter/wiki/Jupyter-kernels lists kernels"


class OwnKernels:
    """Implements `notebook.run.Kernels` with the Jupyter server of live notebooks."""

    def __init__(self, notebooks: LiveNotebooks) -> None:
        self._notebooks = notebooks
        # Without the permissions of a caller: we end the kernels that we started, whatever the caller may do by then.
        self._servers: dict[str, Connected | None] = {}

    async def start(self, call: Call, language: str) -> str:
        require_run(call, needed=OWN_RUNNING)
        kernels = (await self._notebooks.connected(call)).found.jupyter.kernels
        kernel = await kernels.start_kernel(spec_for(language, await kernels.specs()).name)
        self._servers[kernel.id] = self._notebooks.ours
        return kernel.id

    async def alive(self, call: Call, kernel_id: str) -> bool:
        connected = await self._notebooks.connected(call)
        try:
            await connected.found.jupyter.kernels.kernel(kernel_id)
        except NotFound:
            self._servers.pop(kernel_id, None)
            return False
        self._servers[kernel_id] = self._notebooks.ours
        return True

    async def submit(self, call: Call, kernel_id: str, cells: Sequence[CodeToRun]) -> Run:
        require_run(call, needed=OWN_RUNNING)
        queue = await (await self._notebooks.connected(call)).kernels.queue(kernel_id)
        jobs = [CellJob(lambda code=cell.code: code, cell.cell_id) for cell in cells]
        return _Run(queue.submit(call.principal.id, jobs))

    async def shut_down(self, kernel_id: str) -> None:
        connected = self._servers.pop(kernel_id, None)
        if connected is not None:
            with suppress(CellwrightError):
                await connected.found.jupyter.kernels.shut_down(kernel_id)
            await connected.kernels.leave(kernel_id)

    async def show(
        self,
        call: Call,
        outputs: Sequence[Mapping[str, Any]],
        characters: int,
        pictures: int,
        links: Sequence[str] = (),
    ) -> ShownOutputs:
        values = [read_output(output) for output in outputs]
        fitted = await self._notebooks.pictures.in_outputs(values, pictures, call.principal.id)
        shaped = shape_outputs(values, characters, None, "", fitted, pictures, links)
        return ShownOutputs(shaped.outputs, shaped.pictures, any(shaped.truncated), shaped.hidden)


def spec_for(language: str, specs: Sequence[KernelSpec]) -> KernelSpec:
    """The kernel that runs this language. The language itself comes before a related one, then the server's default before others."""
    language = language_named(language)
    ordered = sorted(specs, key=lambda spec: not spec.is_default)
    for name in (language, RELATED.get(language)):
        for spec in ordered:
            if name is not None and name in (language_named(spec.language), spec.name):
                return spec
    installed = sorted({language_named(spec.language) for spec in specs})
    raise NoKernel(
        f"no kernel for {language!r} is installed on the Jupyter server; it has: {', '.join(installed) or 'none'}",
        hint=f"{HOW_TO_GET.get(language, ELSEWHERE)} (in the Jupyter server's environment), then run again",
        details={"language": language, "installed": installed},
    )


class _Run:
    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    @property
    def id(self) -> str:
        return self._execution.id

    @property
    def ended(self) -> bool:
        return self._execution.ended

    @property
    def mark(self) -> object:
        cells = self._execution.cells
        return [(cell.state, cell.memory.size, cell.memory.last_line) for cell in cells]

    def view(self) -> RunView:
        view = self._execution.view()
        return RunView(
            view.id,
            view.state,
            tuple(_outcome(cell) for cell in view.cells),
            view.created,
            view.started,
            view.ended,
            view.notes,
        )

    async def wait(self, seconds: float, report: ReportProgress | None = None) -> RunView:
        await self._execution.wait(seconds, report)
        return self.view()

    async def cancel(self) -> RunView:
        await self._execution.cancel()
        return self.view()


def _outcome(cell: CellRunView) -> CellOutcome:
    error = cell.error
    return CellOutcome(
        cell.cell_id,
        cell.state,
        cast("tuple[JsonObject, ...]", cell.outputs),
        cell.execution_count,
        None if error is None else RunProblem(error.name, error.value, error.hint),
        cell.started,
        cell.ended,
        cell.notes,
    )
