"""A connection of a client: uvicorn's HTTP/1.1 on h11, with habits of our own. Each is here because something needs it:

- Head and body of an answer leave together: `http:one-piece`. Apart they wake a waiting client twice, a fifth of what /health takes. In
  the rows `call, wait` and `call, CPU` of `bench/run.py --only http` that is a hundredth, less than a run of them can tell.
- What was written is sent before a client that has said all is let go: `http:half-closed`, as a consequence of the former.
- Who is refused while they still send is listened to for a moment: `door:heard-out`.
- The head of a request is not waited for without end: `adversarial:N8`, a head that drips.
- Heads that can be read in two ways are refused, and told why: `door:heads`.
- Silent connections make room for others, and where there is none left only what needs no token is answered: `door:silent`,
  `door:address`, `limits:health`.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from cellwright.app.http.connections import Connections, StrictHttp
from cellwright.app.http.middleware.callers import FULL_KEY

HEAD_SECONDS = 10.0
"""How long the head of a request may take."""
LISTEN_ON_SECONDS = 2.0
LISTEN_ON_BYTES = 16 * 1024 * 1024
"""How long, and to how much, who was refused is listened to."""
MAX_HEAD = 64 * 1024


class JoinedTransport:
    """uvicorn's transport, with two habits of our own.

    What is written in one turn of the loop leaves at once: uvicorn writes head and body apart, and each of them wakes the client.
    Who is refused while they still send is listened to for a moment: a connection that is closed before that loses the refusal.
    """

    def __init__(self, transport: asyncio.Transport, still_sends: Callable[[], bool]) -> None:
        self._transport = transport
        self._still_sends = still_sends
        self._written: list[bytes] = []
        self._left = LISTEN_ON_BYTES
        self.ending = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the transport has
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if data and not self._written:
            asyncio.get_running_loop().call_soon(self.send)
        if data:
            self._written.append(data)

    def send(self) -> None:
        if self._written and not self._transport.is_closing():
            self._transport.write(b"".join(self._written))
        self._written.clear()

    def is_closing(self) -> bool:
        return self.ending or self._transport.is_closing()

    def close(self) -> None:
        self.send()
        if self.is_closing() or not self._still_sends():
            self._transport.close()
            return
        self.ending = True
        self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(LISTEN_ON_SECONDS, self._transport.close)

    def heard(self, data: bytes) -> None:
        """More of what was refused."""
        self._left -= len(data)
        if self._left < 0:
            self._transport.close()


class ConnectionProtocol(H11Protocol):
    """uvicorn's HTTP that does not wait for ever for the head of a request: nobody needs a token to begin one."""

    everybody: Connections
    """Set before the first connection. Of one that is too many only what needs no token is answered."""
    _head_timer: asyncio.TimerHandle | None = None
    _ours: JoinedTransport

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        self.conn = self._strict = StrictHttp(h11.SERVER, MAX_HEAD)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._ours = JoinedTransport(transport, self._still_sends)
        super().connection_made(cast("asyncio.Transport", self._ours))
        if not self.everybody.open(self, self.client[0] if self.client else ""):
            self.app_state = {**self.app_state, FULL_KEY: True}
        self._wait_for_head()

    def cut(self) -> None:
        self.connections.discard(self)
        self._ours.abort()

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(self._strict.objection or msg)

    def handle_events(self) -> None:
        super().handle_events()
        cycle = self._cycle
        if cycle is not None and not cycle.more_body and not cycle.response_complete:
            self.everybody.speaks(self)

    def on_response_complete(self) -> None:
        self.everybody.falls_silent(self)
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        if self._ours.ending:
            self._ours.heard(data)
            return
        before = self.cycle
        super().data_received(data)
        cycle = self._cycle
        if cycle is not before or (cycle is not None and not cycle.response_complete):
            self._stop_waiting()
        elif self._head_timer is None:
            self._wait_for_head()

    def eof_received(self) -> None:
        # Who has said all may still listen, and asyncio closes the connection after this.
        self._ours.send()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.everybody.close(self)
        super().connection_lost(exc)

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        return self.cycle  # uvicorn's own type forgets that there is none at first

    def _still_sends(self) -> bool:
        cycle = self._cycle
        return bool(self._strict.objection) or (cycle is not None and cycle.response_complete and cycle.more_body)

    def _wait_for_head(self) -> None:
        self._head_timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
