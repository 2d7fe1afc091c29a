"""Gives memory back to the system while there is nothing to do.

What large requests took is free after them, but lies in pieces between what stays, and the allocator keeps it for later.
"""

import asyncio
import time

from cellwright.system import machine

LOOK_SECONDS = 15.0
AT_REST = 0.01
"""The share of a processor below which this process has nothing to do. Watching the loop and the connections takes a part of it."""


async def give_back_at_rest(seconds: float = LOOK_SECONDS) -> None:
    """Look every so many seconds, until this is cancelled."""
    used = time.process_time()
    while True:
        await asyncio.sleep(seconds)
        before, used = used, time.process_time()
        if used - before < seconds * AT_REST:
            machine.give_gaps_back()
