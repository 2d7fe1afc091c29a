"""The Jupyter servers that the operator names, with credentials from the settings, the addresses themselves and the environment."""

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
    """The Jupyter servers that the settings name: the one for documents, and the one for kernels, which may be the same."""
    document_url = settings.document_url or settings.jupyter_url or settings.runtime_url
    runtime_url = settings.runtime_url or settings.jupyter_url or settings.document_url
    if not document_url:
        return None, None
    return (
        server_at(document_url, DOCUMENTS, settings, environ),
        server_at(runtime_url, KERNELS, settings, environ),
    )


def server_at(url: str, role: str, settings: Settings, environ: Mapping[str, str]) -> JupyterAddress:
    """The server at this address, with the credentials of its role, or else with those for both roles."""
    role_token: Secret | None = getattr(settings, f"{role}_token")
    password: Secret | None = getattr(settings, f"{role}_password") or settings.jupyter_password
    headers: Secret | None = getattr(settings, f"{role}_headers") or settings.jupyter_headers
    address = JupyterAddress.parse(
        url,
        token=role_token or settings.jupyter_token,
        password=password,
        headers=parse_headers(headers) if headers else None,
        known_as=f"the token of --{role if role_token else 'jupyter'}-token",
    )
    return _with_token_from(environ, address)


def _with_token_from(environ: Mapping[str, str], address: JupyterAddress) -> JupyterAddress:
    """If there are no other credentials: with the token of Jupyter's own environment variable, or of a JupyterHub user's server."""
    if address.token or address.password or any(name.lower() == "authorization" for name in address.headers):
        return address
    name = "JUPYTERHUB_API_TOKEN" if address.is_hub_server and environ.get("JUPYTERHUB_API_TOKEN") else "JUPYTER_TOKEN"
    token = environ.get(name)
    return replace(address, token=Secret(token), known_as=f"the token of {name}") if token else address


def secrets_of(settings: Settings, environ: Mapping[str, str] = os.environ) -> list[Secret]:
    """Every secret in the settings, including those inside addresses and headers."""
    servers = [server for server in named_servers(settings, environ) if server is not None]
    return [*settings.secrets(), *(secret for server in servers for secret in server.secrets())]
