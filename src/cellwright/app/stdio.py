"""Serving on stdin and stdout, and leaving when nobody is there any more.

stdout belongs to JSON-RPC alone: the SDK moves descriptor 1 to stderr while it serves, so whatever a library or a child prints goes
there. The process ends when stdin closes, when its parent dies (somebody else may hold stdin open), and on SIGTERM or SIGINT.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress

from cellwright.app.log import log_event
from cellwright.app.server import serve_stdio
from cellwright.app.workspace import Workspace, local_user

PARENT_CHECK_SECONDS = 1.0


async def serve(workspace: Workspace) -> int:
    """Serve until the client leaves, its process dies, or we are told to stop."""
    serving = asyncio.create_task(serve_stdio(workspace.server(local_user())), name="stdio")
    leaving = asyncio.create_task(_reason_to_leave(), name="parent")
    log_event("serving", transport="stdio", root=workspace.settings.root)
    done, _ = await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
    if serving in done:
        leaving.cancel()
        await workspace.close()
        serving.result()
        return 0
    log_event("stopping", reason=leaving.result())
    await workspace.tasks.close()
    await workspace.close()
    # The reader thread is blocked on a stdin that nobody will close: only the process can end it.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _reason_to_leave() -> str:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    with suppress(
        NotImplementedError
    ):  # Windows has no signal handlers on the loop; there the parent's death is enough
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
    parent = os.getppid()
    while os.getppid() == parent:
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), PARENT_CHECK_SECONDS)
            return "signal"
    return "parent died"
