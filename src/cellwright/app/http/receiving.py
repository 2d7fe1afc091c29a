"""Two versions of `receive` for requests of which a part was received already."""

import asyncio

from starlette.types import Message, Receive


class Incoming:
    """`receive` for a request that waits for its turn: meanwhile it notices when the client leaves."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._received: list[Message] = []

    async def left(self) -> None:
        """Return when the client has left. Of a long body, only the first part is received meanwhile."""
        while True:
            message = await self._receive()
            self._received.append(message)
            if message["type"] == "http.disconnect":
                return
            if message.get("more_body", False):
                await asyncio.Event().wait()

    async def __call__(self) -> Message:
        return self._received.pop(0) if self._received else await self._receive()


def replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` that first returns this body, which was received whole."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
