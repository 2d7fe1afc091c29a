"""A real Jupyter server in the test's own event loop, for what runs inside of Jupyter."""

import asyncio
import gc
import secrets
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from jupyter_client.connect import LocalPortCache
from jupyter_server.serverapp import ServerApp
from traitlets.config import Config

import copies
from cellwright.jupyter.server.kernel_ports import KernelPorts
from jupyter_support import JupyterServer, eventually
from support import free_port

FORGOTTEN_SECONDS = 0.3
"""How long a room is kept when its last client has left: short, so that a room we hold without being its client is lost."""
Settings = dict[str, dict[str, Any]]


class ServerInLoop(ServerApp):
    """`jupyter server`, except that signals remain the test runner's."""

    def init_signal(self) -> None:
        """Leave them alone."""


def _make(*folders: str) -> None:
    for folder in folders:
        Path(folder).mkdir(parents=True)


@asynccontextmanager
async def server_in_loop(
    home: Path, *, collaboration: bool = True, settings: Settings | None = None
) -> AsyncGenerator[ServerApp]:
    """A server with folders of its own; `settings` are more of its configuration, by class."""
    folders = {name: str(home / name) for name in ("config_dir", "data_dir", "runtime_dir", "root")}
    _make(*folders.values())
    root = folders.pop("root")
    extensions = {"jupyter_server_fileid": True, "jupyter_server_ydoc": collaboration}
    own = {"jpserver_extensions": extensions, "root_dir": root, "ip": "127.0.0.1", "port": free_port()}
    config = Config(
        {
            "ServerApp": {**own, "port_retries": 0, "open_browser": False, "allow_root": True, "log_level": "CRITICAL"},
            "IdentityProvider": {"token": secrets.token_hex(16)},
            "BaseFileIdManager": {"db_path": str(home / "file_ids.db")},
            "SQLiteYStore": {"db_path": str(home / "ystore.db")},
            "YDocExtension": {"document_cleanup_delay": FORGOTTEN_SECONDS},
        }
    )
    config.merge(Config(settings or {}))
    if not isinstance(LocalPortCache.instance(), KernelPorts):
        # Somebody started a kernel in this process before, as `doctor` does.
        LocalPortCache.clear_instance()
    KernelPorts.instance()
    copies.copy_kernels(lambda: copies.original_of(copies.KERNEL))
    with pytest.MonkeyPatch.context() as patch:
        # Kernels are started with our environment; they must not write into the home of whoever runs the tests.
        patch.setenv("IPYTHONDIR", str(home / "ipython"))
        server = ServerInLoop(config=config, **folders)
        inside: Any = cast("Any", server)
        inside.initialize(argv=[], find_extensions=False)
        try:
            await inside._post_start()
            await eventually(lambda: bool(inside.http_server._sockets), "the server listening")
            yield server
        finally:
            await _stop(inside)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unclosed <MemoryObjectSendStream", ResourceWarning)
        gc.collect()


async def _stop(server: Any) -> None:
    """Stop it after the rooms were left: the extension fails to watch over files that are gone, and to stop what never ran."""
    started: list[asyncio.Task[None]] = []
    for extension in server.extension_manager.extension_apps.get("jupyter_server_ydoc", ()):
        rooms = extension.ywebsocket_server
        if not rooms.started.is_set():
            started.append(asyncio.create_task(rooms.start()))
            await asyncio.wait_for(rooms.started.wait(), 5)
        await eventually(lambda rooms=rooms: not rooms.rooms, "all rooms being left", seconds=5)
    await server._cleanup()
    await asyncio.gather(*started)


def address_of(server: ServerApp) -> JupyterServer:
    """Where people reach the server."""
    inside: Any = cast("Any", server)
    return JupyterServer(inside.connection_url.rstrip("/"), inside.identity_provider.token, Path(inside.root_dir))
