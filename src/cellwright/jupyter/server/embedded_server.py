"""Starts the embedded Jupyter server. Run as a script, with its settings as a line on standard input.

The token comes that way too, so that it is neither on a command line nor in an environment that kernels inherit. The server ends
gently when that input ends, on every system. It says on standard output, to which nothing else can write by then, where it listens.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

from cellwright.system.pipes import read_line

ANNOUNCEMENT = b"cellwright-embedded: "
"""The beginning of the line that says where the server listens."""

NEWS = "@jupyterlab/apputils-extension:announcements"


class Wires(NamedTuple):
    """The pipes to the guardian, which no other code can reach."""

    orders: int
    announcements: int


def claim_wires() -> Wires:
    """Take over standard input and output. From then on, input is empty and printed text goes to the log."""
    wires = Wires(os.dup(0), os.dup(1))
    null_device = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null_device, 0)
    os.close(null_device)
    os.dup2(2, 1)
    return wires


def at_the_end_of(descriptor: int, stop: Callable[[], None]) -> None:
    """Call `stop`, in a thread, when the pipe has ended."""

    def read() -> None:
        try:
            while os.read(descriptor, 4096):
                pass
        finally:
            stop()

    threading.Thread(target=read, name="end-of-orders", daemon=True).start()


def without_news(_handler: object, page: dict[str, Any]) -> dict[str, Any]:
    """The configuration of JupyterLab's page, with which it does not ask people whether it may fetch news from the network."""
    return {**page, "disabledExtensions": [*page.get("disabledExtensions", ()), NEWS]}


def leave_out_grammar() -> None:
    """Make jsonschema do without a grammar that it builds at each start, which takes a large part of the start.

    The grammar is for addresses with letters of all languages (`"format": "iri"`), of which Jupyter has none. None in `sys.modules`
    stands for a module that is not installed.
    """
    sys.modules["rfc3987_syntax"] = cast("ModuleType", None)


def run(settings: dict[str, Any], wires: Wires) -> None:
    leave_out_grammar()
    # Imported only now, because what these print while they are loaded must not reach the wire.
    from jupyter_core.paths import jupyter_config_dir  # noqa: PLC0415
    from jupyter_server.serverapp import ServerApp  # noqa: PLC0415
    from traitlets.config import Config  # noqa: PLC0415

    from cellwright.jupyter.server.kernel_ports import use_kernel_ports  # noqa: PLC0415

    use_kernel_ports()
    config = Config(settings["config"])
    lab = Path(jupyter_config_dir()) / "lab"
    config.ServerApp.tornado_settings = {"page_config_hook": without_news}
    config.LabApp.user_settings_dir, config.LabApp.workspaces_dir = str(lab / "user-settings"), str(lab / "workspaces")
    if root := settings["environments_of"]:
        from cellwright.jupyter.server.workspace_kernels import WorkspaceKernelSpecs  # noqa: PLC0415 - if it is wanted

        config.ServerApp.kernel_spec_manager_class = WorkspaceKernelSpecs
        config.WorkspaceKernelSpecs.root = root
    # A person's own settings for servers (password, certificate, address) are not for this one.
    os.environ["JUPYTER_NO_CONFIG"] = "1"
    app = ServerApp.instance(config=config)
    app.initialize(argv=[])
    del os.environ["JUPYTER_NO_CONFIG"]
    loop: Any = app.io_loop

    def announce() -> None:
        with os.fdopen(wires.announcements, "wb") as wire:
            wire.write(ANNOUNCEMENT + json.dumps({"port": app.port, "pid": os.getpid()}).encode() + b"\n")

    loop.add_callback(announce)
    at_the_end_of(wires.orders, lambda: loop.add_callback(app.stop))
    app.start()


def main() -> None:
    wires = claim_wires()
    run(json.loads(read_line(wires.orders)), wires)


if __name__ == "__main__":
    sys.exit(main())
