"""Which Jupyter servers the operator names, and what lets us in: from the settings, the addresses themselves and the environment."""

import os
from collections.abc import Mapping
from dataclasses import replace

from cellwright.app.settings import Settings
from cellwright.core.types import Secret
from cellwright.jupyter.server.address import JupyterAddress, parse_headers

DOCUMENTS, KERNELS = "document", "runtime"


def named_servers(
    settings: Settings, environ: Mapping[str, str] = os.environ
) -> tuple[JupyterAddress | None, JupyterAddress | None]:
    """The Jupyter servers that the settings name: for documents, and for kernels if that is another one."""
    document_url = settings.document_url or settings.jupyter_url or settings.runtime_url
    runtime_url = settings.runtime_url or settings.jupyter_url or settings.document_url
    if not document_url:
        return None, None
    return (
        server_at(document_url, DOCUMENTS, settings, environ),
        server_at(runtime_url, KERNELS, settings, environ),
    )


def server_at(url: str, role: str, settings: Settings, environ: Mapping[str, str]) -> JupyterAddress:
    """The server at this address, with the credentials of its role, else with those for both roles."""
    own: Secret | None = getattr(settings, f"{role}_token")
    password: Secret | None = getattr(settings, f"{role}_password") or settings.jupyter_password
    headers: Secret | None = getattr(settings, f"{role}_headers") or settings.jupyter_headers
    address = JupyterAddress.parse(
        url,
        token=own or settings.jupyter_token,
        password=password,
        headers=parse_headers(headers) if headers else None,
        known_as=f"the token of --{role if own else 'jupyter'}-token",
    )
    return _with_token_of(environ, address)


def _with_token_of(environ: Mapping[str, str], address: JupyterAddress) -> JupyterAddress:
    """Where nothing else lets us in: the variable in which Jupyter itself takes its token, or that of somebody's server of a Hub."""
    if address.token or address.password or any(name.lower() == "authorization" for name in address.headers):
        return address
    name = "JUPYTERHUB_API_TOKEN" if address.is_hub_server and environ.get("JUPYTERHUB_API_TOKEN") else "JUPYTER_TOKEN"
    token = environ.get(name)
    return replace(address, token=Secret(token), known_as=f"the token of {name}") if token else address


def secrets_of(settings: Settings, environ: Mapping[str, str] = os.environ) -> list[Secret]:
    """Every secret there is in the settings, also those inside addresses and headers."""
    servers = [server for server in named_servers(settings, environ) if server is not None]
    return [*settings.secrets(), *(secret for server in servers for secret in server.secrets())]
