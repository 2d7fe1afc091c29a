"""A client's connection: uvicorn's HTTP/1.1 on h11, changed where a promise of ours needs it:

- The head and the body of a response are sent together (`http:one-piece`). Sent apart they wake a waiting client twice, which is a
  fifth of the time that /health takes. In the rows `call, wait` and `call, CPU` of `bench/run.py --only http` it is a hundredth, less
  than one run of them can measure.
- Because of that, pending output is sent before the connection of a client that has closed its side is closed (`http:half-closed`).
- A client that is refused while it still sends is read from for a moment longer (`door:heard-out`).
- The head of a request has a time limit (`adversarial:N8`, a head that drips).
- Heads that two readers could read differently are refused with the reason (`door:heads`).
- Silent connections are closed to make room for others. When there is no room left, only routes without a token are answered
  (`door:silent`, `door:address`, `limits:health`).
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
"""How long, and how many bytes, we still read from a client that was refused."""
MAX_HEAD = 64 * 1024


class JoinedTransport:
    """uvicorn's transport with two changes.

    Everything that is written in one turn of the loop is sent together: uvicorn writes head and body apart, and each wakes the client.
    A client that is refused while it still sends is read from for a moment: if we closed at once, it would lose the refusal.
    """

    def __init__(self, transport: asyncio.Transport, still_sends: Callable[[], bool]) -> None:
        self._transport = transport
        self._still_sends = still_sends
        self._written: list[bytes] = []
        self._unread_allowance = LISTEN_ON_BYTES
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

    def discard(self, data: bytes) -> None:
        """Throw away more of a request that was refused; close the connection when it has been too much."""
        self._unread_allowance -= len(data)
        if self._unread_allowance < 0:
            self._transport.close()


class ConnectionProtocol(H11Protocol):
    """uvicorn's HTTP with a time limit for the head of a request, as no token is needed to begin one."""

    all_connections: Connections
    """Set before the first connection. A connection over the limit is answered only on routes that need no token."""
    _head_timer: asyncio.TimerHandle | None = None
    _joined: JoinedTransport

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        self.conn = self._strict = StrictHttp(h11.SERVER, MAX_HEAD)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._joined = JoinedTransport(transport, self._still_sends)
        super().connection_made(cast("asyncio.Transport", self._joined))
        if not self.all_connections.open(self, self.client[0] if self.client else ""):
            self.app_state = {**self.app_state, FULL_KEY: True}
        self._wait_for_head()

    def cut(self) -> None:
        self.connections.discard(self)
        self._joined.abort()

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(self._strict.objection or msg)

    def handle_events(self) -> None:
        super().handle_events()
        cycle = self._cycle
        if cycle is not None and not cycle.more_body and not cycle.response_complete:
            self.all_connections.speaks(self)

    def on_response_complete(self) -> None:
        self.all_connections.falls_silent(self)
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        if self._joined.ending:
            self._joined.discard(data)
            return
        before = self.cycle
        super().data_received(data)
        cycle = self._cycle
        if cycle is not before or (cycle is not None and not cycle.response_complete):
            self._stop_waiting()
        elif self._head_timer is None:
            self._wait_for_head()

    def eof_received(self) -> None:
        # A client that has sent everything may still be reading, and asyncio closes the connection after this.
        self._joined.send()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.all_connections.close(self)
        super().connection_lost(exc)

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        return self.cycle  # uvicorn's type does not say that it is None at first

    def _still_sends(self) -> bool:
        cycle = self._cycle
        return bool(self._strict.objection) or (cycle is not None and cycle.response_complete and cycle.more_body)

    def _wait_for_head(self) -> None:
        self._head_timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
