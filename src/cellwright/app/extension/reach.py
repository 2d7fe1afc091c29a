"""How documents and kernels are reached from inside Jupyter: directly, or at the addresses in the traits."""

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_server.serverapp import ServerApp

from cellwright.app.extension.app import LOCAL
from cellwright.app.servers import DOCUMENTS, KERNELS, server_at
from cellwright.app.settings import Settings
from cellwright.jupyter.inside.adapter import LocalJupyter
from cellwright.jupyter.port import Documents, Jupyter, JupyterKernels
from cellwright.jupyter.remote.adapter import RemoteJupyter
from cellwright.jupyter.server.connect import Connect, FoundServer


@dataclass(frozen=True)
class Joined:
    """Documents of one server, kernels of another."""

    of_documents: Jupyter
    of_kernels: Jupyter

    @property
    def documents(self) -> Documents:
        return self.of_documents.documents

    @property
    def kernels(self) -> JupyterKernels:
        return self.of_kernels.kernels

    async def about(self) -> Mapping[str, object]:
        return {**await self.of_kernels.about(), **await self.of_documents.about(), "kernels_url": self.kernels.url}

    async def close(self) -> None:
        await self.of_documents.close()
        await self.of_kernels.close()


def reach(server: ServerApp, settings: Settings) -> Connect:
    """The way to the servers that the settings name, or else to `server` itself. An invalid address is a ConfigError at once."""
    # The environment is not used, because its JUPYTER_TOKEN belongs to this very server.
    documents = server_at(settings.document_url, DOCUMENTS, settings, {}) if settings.document_url else None
    kernels = server_at(settings.runtime_url, KERNELS, settings, {}) if settings.runtime_url else None

    async def connect() -> FoundServer:
        if documents is None and kernels is None:
            local = LocalJupyter(server)
            return FoundServer(local, LOCAL, root=local.documents.root)
        if documents is not None and kernels is not None:
            return FoundServer(RemoteJupyter(documents, kernels), "named")
        local = LocalJupyter(server)
        of_documents = local if documents is None else RemoteJupyter(documents)
        root = local.documents.root if documents is None else None
        of_kernels = local if kernels is None else RemoteJupyter(kernels)
        return FoundServer(Joined(of_documents, of_kernels), "named", root=root)

    return connect
