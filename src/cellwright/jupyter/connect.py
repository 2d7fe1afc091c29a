"""Which Jupyter server to use: the one that was named, else one that runs here and serves this folder, else one of our own."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from cellwright.core.types import Secret
from cellwright.jupyter.address import JupyterAddress
from cellwright.jupyter.discovery import accepts_token, is_alive, running_servers, server_holding
from cellwright.jupyter.embedded import EmbeddedJupyter
from cellwright.jupyter.port import Jupyter


@dataclass(frozen=True, slots=True)
class Found:
    """A Jupyter server, how we came to it, and where the workspace lies in it."""

    jupyter: Jupyter
    origin: str
    """`named`, `found` or `embedded`."""
    folder: str = ""
    """The workspace's folder below the server's root; empty if they are the same."""
    token: Secret | None = None
    """What lets a person of this machine in, where we know it to be theirs to have."""
    pid: int | None = None
    """The server's process, if it is on this machine and not ours to start again."""

    @property
    def gone(self) -> bool:
        """Whether the server has ended for good, so that another one is to be looked for."""
        return self.pid is not None and not is_alive(self.pid)


Connect = Callable[[], Awaitable[Found]]


def _remote(documents: JupyterAddress, kernels: JupyterAddress | None = None) -> Jupyter:
    from cellwright.jupyter.remote import RemoteJupyter  # noqa: PLC0415 - a program that only starts does not wait for it

    return RemoteJupyter(documents, kernels)


def to_named(documents: JupyterAddress, kernels: JupyterAddress | None = None) -> Connect:
    """Use the servers that the settings name."""

    async def connect() -> Found:
        return Found(_remote(documents, kernels), "named")

    return connect


def to_found_or_embedded(root: Path, runtime_dir: Path, embedded: EmbeddedJupyter) -> Connect:
    """Use a running server that serves this folder and lets us in; otherwise start one."""
    here = root.resolve()

    async def connect() -> Found:
        server = await server_holding(here, running_servers(runtime_dir), accepts_token)
        if server is None:
            server = await embedded.server()
            return Found(_remote(server.address), "embedded", token=server.token)
        folder = here.relative_to(server.root).as_posix()
        return Found(_remote(server.address), "found", "" if folder == "." else folder, server.token, server.pid)

    return connect
