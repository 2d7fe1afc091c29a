"""Running Jupyter servers of this user, found by the files they leave in Jupyter's runtime folder."""

import asyncio
import json
import os
import ssl
import stat
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2

from cellwright.core.types import Secret
from cellwright.jupyter.files.paths import DEFAULT_PORTS
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.system import machine
from cellwright.system.folders import home_folder, jupyter_runtime_folder
from cellwright.system.listening import listens

PROBE_SECONDS = 3.0
HTTP_OK = 200
MAX_FILE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A Jupyter server on this machine."""

    url: str
    token: Secret
    root: Path
    pid: int

    @property
    def address(self) -> JupyterAddress:
        return JupyterAddress(self.url, self.token, root=self.root)


LetsUsIn = Callable[[LocalServer], Awaitable[bool]]


def runtime_dir(
    environment: Mapping[str, str] = os.environ, home: Path | None = None, platform: str = sys.platform
) -> Path:
    """Jupyter's runtime folder, by its own rules."""
    return jupyter_runtime_folder(environment, home or home_folder(), platform)


def running_servers(folder: Path) -> list[LocalServer]:
    """The servers that have a runtime file and a live process. All else is ignored."""
    servers = (_server(file) for file in sorted(folder.glob("jpserver-*.json")))
    return [server for server in servers if server is not None and machine.is_alive(server.pid)]


async def server_holding(folder: Path, servers: list[LocalServer], lets_us_in: LetsUsIn) -> LocalServer | None:
    """The server whose root contains `folder` and that lets us in with its token; of several, the one with the nearest root."""
    for server in _holding(folder, servers):
        if await lets_us_in(server):
            return server
    return None


def _holding(folder: Path, servers: list[LocalServer]) -> list[LocalServer]:
    resolved = folder.resolve()
    holding = [server for server in servers if resolved.is_relative_to(server.root)]
    return sorted(holding, key=lambda server: len(server.root.parts), reverse=True)


async def accepts_token(server: LocalServer) -> bool:
    """Whether the server accepts its token. The token is sent only if the process that wrote it down listens at that port."""
    if not await asyncio.to_thread(listens, server.pid, _port(server.url)):
        return False
    headers = {"Authorization": f"token {server.token.reveal()}"} if server.token else {}
    try:
        async with local_client(server.url, headers, PROBE_SECONDS) as client:
            answer = await client.get(f"{server.url}/api/contents/", params={"content": 0})
            return answer.status_code == HTTP_OK and _is_folder(answer.content)
    except httpx2.TransportError:
        return False


def local_client(url: str, headers: Mapping[str, str], seconds: float) -> httpx2.AsyncClient:
    """A client for servers on this machine, without a proxy."""
    return httpx2.AsyncClient(headers=dict(headers), trust_env=False, timeout=seconds, verify=certificates(url))


def certificates(url: str) -> ssl.SSLContext:
    """The system's certificates. For plain HTTP they are not loaded, because that takes long."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http:") else ssl.create_default_context()


def root_of(address: JupyterAddress, runtime_dir: Path) -> Path | None:
    """The folder that a server shows, if it runs on this machine and its runtime file says so."""
    if not address.is_loopback:
        return None
    servers = running_servers(runtime_dir)
    return next((server.root for server in servers if _port(server.url) == _port(address.url)), None)


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or DEFAULT_PORTS[parts.scheme]


def _is_folder(body: bytes) -> bool:
    try:
        model = json.loads(body)
    except ValueError:
        return False
    return isinstance(model, dict) and cast("dict[str, Any]", model).get("type") == "directory"


def _server(file: Path) -> LocalServer | None:
    try:
        descriptor = machine.open_plain(str(file))
        with os.fdopen(descriptor, "rb") as opened:
            status = os.fstat(descriptor)
            if not (stat.S_ISREG(status.st_mode) and machine.is_own(status) and status.st_size <= MAX_FILE_BYTES):
                return None
            info = json.loads(opened.read(MAX_FILE_BYTES))
        url, root = str(info["url"]).rstrip("/"), Path(info["root_dir"]).resolve()
        server = LocalServer(url, Secret(str(info.get("token") or "")), root, int(info["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        # Half-written, of another version, or gone between listing and reading.
        return None
    return server if url.startswith(("http://", "https://")) else None
