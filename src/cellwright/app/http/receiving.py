"""Two ways to receive a request of which something was received already."""

import asyncio

from starlette.types import Message, Receive


class Incoming:
    """`receive` of a request that has to wait for its turn: it can tell meanwhile when the client leaves."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._held: list[Message] = []

    async def left(self) -> None:
        """Return when the client has left. Of a long body no more than the first part is taken meanwhile."""
        while True:
            message = await self._receive()
            self._held.append(message)
            if message["type"] == "http.disconnect":
                return
            if message.get("more_body", False):
                await asyncio.Event().wait()

    async def __call__(self) -> Message:
        return self._held.pop(0) if self._held else await self._receive()


def replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` that begins with this body, which was taken whole."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
