"""Starts the embedded Jupyter server. Run as a script of its own, with its settings on standard input.

The token comes that way too: it stands neither on a command line, nor in an environment that kernels inherit.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_dir
from jupyter_server.serverapp import ServerApp
from traitlets.config import Config


def read_settings() -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return settings


def main() -> None:
    settings = read_settings()
    config = Config(settings["config"])
    lab = Path(jupyter_config_dir()) / "lab"
    config.LabApp.user_settings_dir, config.LabApp.workspaces_dir = str(lab / "user-settings"), str(lab / "workspaces")
    # A person's own server settings (password, certificate, address) are for their own servers.
    os.environ["JUPYTER_NO_CONFIG"] = "1"
    app = ServerApp.instance(config=config)
    app.initialize(argv=[])
    del os.environ["JUPYTER_NO_CONFIG"]

    def announce() -> None:
        with os.fdopen(settings["announce_to"], "w", encoding="utf-8") as wire:
            wire.write(json.dumps({"port": app.port, "pid": os.getpid()}) + "\n")

    app.io_loop.add_callback(announce)  # pyright: ignore[reportUnknownMemberType]
    app.start()


if __name__ == "__main__":
    main()
