"""Serves on stdin and stdout, and ends when the client is gone.

The process ends when stdin closes, when its parent dies (another process may hold stdin open), and when it gets a signal to stop. It
ends within a second, even if the client has stopped reading and the last answer is stuck in the pipe.
"""

import asyncio
import os
import sys
from contextlib import suppress
from typing import NoReturn

from cellwright.app import parent_lives
from cellwright.app.log import log_event
from cellwright.app.loopwatch import LoopWatch
from cellwright.app.protocol.transport import serve_stdio
from cellwright.app.resting import give_back_at_rest
from cellwright.app.stdio.wire import Wire
from cellwright.app.threads import share_threads
from cellwright.app.workspace import Workspace, local_user
from cellwright.system import machine

PARENT_CHECK_SECONDS = 1.0
END_CHECK_SECONDS = 0.05
LAST_WORDS_SECONDS = 0.3
CLOSING_SECONDS = 0.3


async def serve(workspace: Workspace, wire: Wire) -> NoReturn:
    """Serve until the client leaves, its process dies, or a signal stops us; then end the process."""
    LoopWatch().start()
    share_threads()
    server = workspace.server(local_user())
    serving = asyncio.create_task(
        serve_stdio(server, wire.incoming, wire.outgoing, workspace.settings.max_body), name="stdio"
    )
    leaving = asyncio.create_task(_reason_to_leave(wire), name="leaving")
    resting = asyncio.create_task(give_back_at_rest(), name="at rest")
    log_event("serving", transport="stdio", root=workspace.settings.root)
    await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
    # Answers under way get a moment to reach the client.
    await asyncio.wait({serving}, timeout=LAST_WORDS_SECONDS)
    failed = serving.done() and serving.exception() is not None
    resting.cancel()
    log_event("stopping", reason=leaving.result() if leaving.done() else "the client left")
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSING_SECONDS):
            await workspace.close()
    # We do not return, because a thread may be blocked in a pipe that nobody will ever read or close, and exit handlers of
    # libraries are not needed here. An embedded Jupyter server ends by itself when this process is gone.
    sys.stderr.flush()
    os._exit(1 if failed else 0)


async def _reason_to_leave(wire: Wire) -> str:
    stopped = asyncio.Event()
    machine.on_stop(stopped.set, asyncio.get_running_loop())
    waited = 0.0
    while not stopped.is_set():
        if wire.incoming.at_end.is_set():
            return "stdin closed"
        if waited >= PARENT_CHECK_SECONDS:
            waited = 0.0
            if not parent_lives():
                return "the parent died"
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), END_CHECK_SECONDS)
        waited += END_CHECK_SECONDS
    return "signal"
