"""Chooses the Jupyter server: the one in the settings, or else one that runs here and serves this folder, or else one of our own."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from cellwright.core.types import Secret
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.discovery import LocalServer, accepts_token, root_of, running_servers, server_holding
from cellwright.jupyter.server.embedded import EmbeddedJupyter
from cellwright.jupyter.server.sharing import ServerUse, runtime_file, share
from cellwright.system import machine


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A Jupyter server, how it was chosen, and where the workspace lies in it."""

    jupyter: Jupyter
    origin: str
    """`named`, `found` or `embedded`."""
    folder: str = ""
    """The workspace's folder below the server's root; empty if they are the same."""
    token: Secret | None = None
    """The token for people on this machine, if we know that it is meant for them."""
    pid: int | None = None
    """The server's process, if it is on this machine and we do not start it ourselves."""
    root: Path | None = None
    """The folder that the server shows, if it is on this machine."""
    share: ServerUse | None = None
    """Our part in a server that another program has started for itself: it stays for us."""

    @property
    def may_end_with_us(self) -> bool:
        return self.origin in ("embedded", "local") or self.share is not None

    @property
    def has_ended(self) -> bool:
        """Whether the server has ended for good, so that we need another one."""
        return self.pid is not None and not machine.is_alive(self.pid)


Connect = Callable[[], Awaitable[FoundServer]]


def _remote(documents: JupyterAddress, kernels: JupyterAddress | None = None) -> Jupyter:
    from cellwright.jupyter.remote.adapter import RemoteJupyter  # noqa: PLC0415 - a program that only starts does not wait for it

    return RemoteJupyter(documents, kernels)


def to_named(
    documents: JupyterAddress, kernels: JupyterAddress | None = None, runtime_dir: Path | None = None
) -> Connect:
    """Use the servers in the settings. `runtime_dir` is where a server on this machine has noted which folder it shows."""

    async def connect() -> FoundServer:
        root = await asyncio.to_thread(root_of, documents, runtime_dir) if runtime_dir is not None else None
        return FoundServer(_remote(documents, kernels), "named", root=root)

    return connect


def to_found_or_embedded(root: Path, runtime_dir: Path, embedded: EmbeddedJupyter) -> Connect:
    """Use a running server that serves this folder and lets us in; otherwise start one."""
    workspace = root.resolve()

    async def find() -> tuple[LocalServer | None, ServerUse | None]:
        while True:
            server = await server_holding(workspace, running_servers(runtime_dir), accepts_token)
            ours = share(runtime_dir, server.pid) if server is not None else None
            if server is None or ours is None or runtime_file(runtime_dir, server.pid).exists():
                return server, ours
            # It was withdrawn meanwhile, and is about to end.
            ours.close()

    async def connect() -> FoundServer:
        server, ours = await find()
        if server is None:
            server = await embedded.server()
            return FoundServer(_remote(server.address), "embedded", token=server.token, root=server.root)
        relative = workspace.relative_to(server.root).as_posix()
        folder = "" if relative == "." else relative
        return FoundServer(_remote(server.address), "found", folder, server.token, server.pid, server.root, ours)

    return connect
