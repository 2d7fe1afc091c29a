"""Running Jupyter servers of this user, found by the files they leave in Jupyter's runtime folder."""

import json
import os
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx2

from cellwright.core.types import Secret
from cellwright.jupyter.address import JupyterAddress

PROBE_SECONDS = 3.0
HTTP_OK = 200
MAX_FILE_BYTES = 64 * 1024
TRUE_WORDS = ("1", "true", "yes", "on", "y")


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


def runtime_dir(environment: Mapping[str, str], home: Path, platform: str = sys.platform) -> Path:
    """Jupyter's runtime folder, by its own rules."""
    if given := environment.get("JUPYTER_RUNTIME_DIR"):
        return Path(given)
    return _data_dir(environment, home, platform) / "runtime"


def _data_dir(environment: Mapping[str, str], home: Path, platform: str) -> Path:
    if given := environment.get("JUPYTER_DATA_DIR"):
        return Path(given)
    platform_dirs = environment.get("JUPYTER_PLATFORM_DIRS", "").lower() in TRUE_WORDS
    if platform == "darwin":
        return home / "Library" / ("Application Support/Jupyter" if platform_dirs else "Jupyter")
    if platform == "win32":
        if platform_dirs:
            return Path(environment.get("LOCALAPPDATA", home / "AppData" / "Local")) / "Jupyter"
        return Path(environment.get("APPDATA", home / "AppData" / "Roaming")) / "jupyter"
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "jupyter"


def running_servers(folder: Path) -> list[LocalServer]:
    """The servers whose runtime files are there and whose processes live; anything else is passed over."""
    found = (_server(file) for file in sorted(folder.glob("jpserver-*.json")))
    return [server for server in found if server is not None and is_alive(server.pid)]


async def server_holding(folder: Path, servers: list[LocalServer], lets_us_in: LetsUsIn) -> LocalServer | None:
    """The server whose root holds `folder`, the nearest root first, if it lets us in with its token."""
    for server in _holding(folder, servers):
        if await lets_us_in(server):
            return server
    return None


def _holding(folder: Path, servers: list[LocalServer]) -> list[LocalServer]:
    inside = folder.resolve()
    holding = [server for server in servers if inside.is_relative_to(server.root)]
    return sorted(holding, key=lambda server: len(server.root.parts), reverse=True)


async def accepts_token(server: LocalServer) -> bool:
    """Whether the server answers to its token: a stale file, or another program on its port, does not."""
    headers = {"Authorization": f"token {server.token.reveal()}"} if server.token else {}
    try:
        async with local_client(server.url, headers, PROBE_SECONDS) as client:
            answer = await client.get(f"{server.url}/api/contents/", params={"content": 0})
            return answer.status_code == HTTP_OK and _is_folder(answer.content)
    except httpx2.TransportError:
        return False


def local_client(url: str, headers: Mapping[str, str], seconds: float) -> httpx2.AsyncClient:
    """A client for this machine's own servers: no proxy, and no certificates where none are needed (they load slowly)."""
    plain = url.startswith("http:")
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else ssl.create_default_context()
    return httpx2.AsyncClient(headers=dict(headers), trust_env=False, timeout=seconds, verify=verify)


def _is_folder(body: bytes) -> bool:
    try:
        model = json.loads(body)
    except ValueError:
        return False
    return isinstance(model, dict) and cast("dict[str, Any]", model).get("type") == "directory"


def _server(file: Path) -> LocalServer | None:
    try:
        if not _is_own(file) or file.stat().st_size > MAX_FILE_BYTES:
            return None
        about = json.loads(file.read_text(encoding="utf-8"))
        url, root = str(about["url"]).rstrip("/"), Path(about["root_dir"]).resolve()
        server = LocalServer(url, Secret(str(about.get("token") or "")), root, int(about["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        # Half-written, of another version, or gone between listing and reading.
        return None
    return server if url.startswith(("http://", "https://")) else None


def _is_own(file: Path) -> bool:
    return sys.platform == "win32" or file.stat().st_uid == os.getuid()


def is_alive(pid: int) -> bool:
    """Whether there is such a process."""
    if pid <= 0:
        return False
    if sys.platform == "win32":
        # There, signal 0 would end the process. The token check decides.
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
