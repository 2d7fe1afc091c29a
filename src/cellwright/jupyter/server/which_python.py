"""Says in one line which Python runs the cells, as far as that is known without starting a server or running anything."""

import asyncio
from collections.abc import Sequence

from cellwright.core.errors import CellwrightError, Forbidden
from cellwright.core.text.clean import clean
from cellwright.jupyter.model import KernelSpec
from cellwright.jupyter.server.connect import FoundServer
from cellwright.jupyter.server.embedded import EmbeddedJupyter
from cellwright.jupyter.server.environments import OWN_ORIGIN, Choice, Interpreter

ANSWER_SECONDS = 3.0
SHOWN_KERNELS = 10


async def which_python(server: FoundServer | None, embedded: EmbeddedJupyter | None, server_name: str) -> str:
    """`server` is the server in use, `embedded` the one that we may start, `server_name` the name of the one in the settings."""
    if server is not None:
        return await _of_server(server)
    if embedded is not None:
        return _of_files(await asyncio.to_thread(embedded.environments))
    return f"{server_name} decides; which kernels it has is known after the first notebook call"


async def _of_server(server: FoundServer) -> str:
    kernels = server.jupyter.kernels
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            specs = await kernels.specs()
    except Forbidden as denied:
        return f"not shown: {denied.message}"
    except (CellwrightError, TimeoutError):
        return f"unknown: the Jupyter server at {kernels.url} does not answer"
    default = next((spec for spec in specs if spec.is_default), None)
    if server.origin == "embedded" and default is not None and default.interpreter:
        return _line(default.interpreter, default.version, default.origin or "an installed kernel", default.name)
    return f"the Jupyter server at {kernels.url} decides; its kernels are {_kernels(specs)}"


def _kernels(specs: Sequence[KernelSpec]) -> str:
    named = [
        f"{spec.name}{' (default)' if spec.is_default else ''}{f' in {spec.interpreter}' if spec.interpreter else ''}"
        for spec in sorted(specs, key=lambda spec: not spec.is_default)[:SHOWN_KERNELS]
    ]
    more = len(specs) - len(named)
    return clean(", ".join(named)).text + (f" and {more} more" if more > 0 else "") if named else "none"


def _of_files(choice: Choice) -> str:
    own, default = Interpreter.own(), choice.default
    if default is None:
        line = _line(str(own.executable), own.version, OWN_ORIGIN, "python3")
    else:
        line = _line(str(default.python), default.version, default.origin, "python3")
    return f"{line}; unless a Jupyter server is found running for this folder"


def _line(interpreter: str, version: str, origin: str, kernel: str) -> str:
    return clean(f"{interpreter} (Python {version or 'of unknown version'}), kernel {kernel}: {origin}").text
