"""How documents and kernels are reached from inside Jupyter: directly, or at the addresses that the traits name."""

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_server.serverapp import ServerApp

from cellwright.app.extension.app import LOCAL
from cellwright.app.settings import Settings
from cellwright.core.types import Secret
from cellwright.jupyter.address import JupyterAddress
from cellwright.jupyter.connect import Connect, Found
from cellwright.jupyter.local import LocalJupyter
from cellwright.jupyter.port import Documents, Jupyter, Kernels
from cellwright.jupyter.remote import RemoteJupyter


@dataclass(frozen=True)
class Joined:
    """Documents of one server, kernels of another."""

    of_documents: Jupyter
    of_kernels: Jupyter

    @property
    def documents(self) -> Documents:
        return self.of_documents.documents

    @property
    def kernels(self) -> Kernels:
        return self.of_kernels.kernels

    async def about(self) -> Mapping[str, object]:
        return {**await self.of_kernels.about(), **await self.of_documents.about(), "kernels_url": self.kernels.url}

    async def close(self) -> None:
        await self.of_documents.close()
        await self.of_kernels.close()


def reach(server: ServerApp, settings: Settings) -> Connect:
    """The way that the settings name, else `server` itself. An address that is none is a ConfigError, at once."""
    documents = _address(settings.document_url, settings.document_token)
    kernels = _address(settings.runtime_url, settings.runtime_token)

    async def connect() -> Found:
        if documents is None and kernels is None:
            return Found(LocalJupyter(server), LOCAL)
        if documents is not None and kernels is not None:
            return Found(RemoteJupyter(documents, kernels), "named")
        of_documents = LocalJupyter(server) if documents is None else RemoteJupyter(documents)
        of_kernels = LocalJupyter(server) if kernels is None else RemoteJupyter(kernels)
        return Found(Joined(of_documents, of_kernels), "named")

    return connect


def _address(url: str, token: Secret | None) -> JupyterAddress | None:
    return JupyterAddress.parse(url, token=token) if url else None
