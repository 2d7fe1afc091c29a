"""The session of a notebook with its kernel: found or started, restarted, given another kernel, ended.

Callers hold a lock on the notebook's path: Jupyter does not bear two changes of one kernel at once.
"""

from dataclasses import dataclass

from cellwright.core.errors import Forbidden, Unavailable
from cellwright.jupyter.connected import Connected
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.lives import Runner
from cellwright.jupyter.model import KernelInfo, KernelSpec, SessionInfo
from cellwright.jupyter.parsing import spec_named
from cellwright.jupyter.port import JupyterKernels


@dataclass(frozen=True, slots=True)
class EndedKernel:
    """A kernel that was shut down, and which other documents ran in it."""

    kernel: KernelInfo
    others: tuple[str, ...]


async def find_or_start(connected: Connected, path: NotebookPath, kernel_name: str | None) -> SessionInfo:
    """The notebook's session. If it has none, start one with this kernel, or else with the one that the notebook names."""
    session = await connected.kernels.session_of(path)
    if session is not None:
        return session
    # Jupyter starts a kernel for any path, even if there is no such file.
    await connected.found.jupyter.documents.stat(path)
    name = kernel_name or await _named_kernel(connected, path)
    return await connected.found.jupyter.kernels.start_session(path, kernel_name=name)


async def _named_kernel(connected: Connected, path: NotebookPath) -> str | None:
    """The kernel that the notebook names, if it is installed; None lets the server choose."""
    async with connected.rooms.notebook(path) as document:
        name = document.view.kernel_name
    if not name:
        return None
    return name if any(spec.name == name for spec in await connected.found.jupyter.kernels.specs()) else None


async def restart(connected: Connected, path: NotebookPath, kernel_name: str | None, runner: Runner) -> SessionInfo:
    """Give the notebook a fresh kernel: restarted, or another one, or its first."""
    kernels = connected.found.jupyter.kernels
    session = await kernels.session_of(path)
    if session is None or session.kernel is None:
        return await find_or_start(connected, path, kernel_name)
    if kernel_name is not None and kernel_name != session.kernel.name:
        return await assign(connected, path, kernel_name)
    queue = await connected.kernels.queue(session.kernel.id)
    seen_before = queue.kernel.restarts
    await kernels.restart(session.kernel.id)
    queue.note_restart(seen_before, runner)
    return session


async def assign(connected: Connected, path: NotebookPath, kernel_name: str) -> SessionInfo:
    """Give the notebook another kernel, in its session if it has one, and write the choice into the notebook."""
    kernels = connected.found.jupyter.kernels
    await connected.found.jupyter.documents.stat(path)
    spec = spec_named(kernel_name, await kernels.specs(), kernels.url)
    before = await kernels.session_of(path)
    if before is None:
        session = await kernels.start_session(path, kernel_name=kernel_name)
    else:
        session = await kernels.switch_kernel(before.id, kernel_name=kernel_name)
        if before.kernel is not None and (session.kernel is None or session.kernel.id != before.kernel.id):
            await connected.kernels.note_shutdown(before.kernel.id)
    async with connected.rooms.notebook(path) as document:
        await document.change(lambda view: view.set_metadata("kernelspec", _as_metadata(spec)))
    return session


async def shut_down(connected: Connected, path: NotebookPath) -> EndedKernel | None:
    """End the notebook's kernel; None if it has none."""
    kernels = connected.found.jupyter.kernels
    session = await kernels.session_of(path)
    if session is None or session.kernel is None:
        return None
    kernel = session.kernel
    paths = {other.path for other in await kernels.sessions() if other.kernel and other.kernel.id == kernel.id}
    async with connected.kernels.ending(kernel.id):
        await kernels.end_session(session.id)
    await connected.kernels.note_shutdown(kernel.id)
    return EndedKernel(kernel, tuple(sorted(paths - {path.text})))


async def kernelspec_metadata(kernels: JupyterKernels, name: str | None) -> dict[str, str] | None:
    """The metadata by which a new notebook names its kernel: this one, or the server's default if that is known."""
    try:
        specs = await kernels.specs()
    except (Unavailable, Forbidden):
        if name is not None:
            raise
        return None
    if name is not None:
        return _as_metadata(spec_named(name, specs, kernels.url))
    default = next((spec for spec in specs if spec.is_default), None)
    return None if default is None else _as_metadata(default)


def _as_metadata(spec: KernelSpec) -> dict[str, str]:
    return {"name": spec.name, "display_name": spec.display_name, "language": spec.language}
