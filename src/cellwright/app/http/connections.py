"""The connections of a server, which of them are silent, and a strict reader of request heads.

A connection is silent while nobody waits on it for the response to a whole request: before its first request, between two requests, and
while a head or a body is still arriving. Silent connections are closed to make room for others, beginning with the address that has the
most of them. A connection that is not silent has presented a token, and is counted by caller in `turns`.
"""

from collections import Counter
from typing import Protocol

import h11

SHARE = 0.75
"""The share of all connections that one address may have: a proxy needs many, but must not keep others out."""
HEAD_END = b"\r\n\r\n"


class Connection(Protocol):
    """A connection that can be cut off."""

    def cut(self) -> None:
        """Close it at once, even if something is still to be sent or read."""
        ...


class Connections:
    """All connections of a server, by the address that they come from."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._limit_of_address = max(1, int(limit * SHARE))
        self._addresses: dict[Connection, str] = {}
        self._counts: Counter[str] = Counter()
        self._silent: dict[str, dict[Connection, None]] = {}
        """By address; the connection that has been silent for longest comes first."""

    def open(self, connection: Connection, address: str) -> bool:
        """Count a new connection; whether there is room to serve it, if need be by closing a silent one."""
        has_room = True
        if self._counts[address] >= self._limit_of_address:
            has_room = self._cut_longest_silent(address)
        elif len(self._addresses) >= self._limit:
            has_room = self._cut_longest_silent(max(self._silent, key=lambda name: len(self._silent[name]), default=""))
        self._addresses[connection] = address
        self._counts[address] += 1
        self.falls_silent(connection)
        return has_room

    def close(self, connection: Connection) -> None:
        address = self._addresses.pop(connection, None)
        if address is None:
            return
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]
        self._remove_silent(connection, address)

    def speaks(self, connection: Connection) -> None:
        """A whole request has arrived: somebody waits for its response."""
        if connection in self._addresses:
            self._remove_silent(connection, self._addresses[connection])

    def falls_silent(self, connection: Connection) -> None:
        """From now on the connection is silent, unless it was already."""
        if connection in self._addresses:
            self._silent.setdefault(self._addresses[connection], {}).setdefault(connection)

    def _remove_silent(self, connection: Connection, address: str) -> None:
        silent = self._silent.get(address)
        if silent is not None:
            silent.pop(connection, None)
            if not silent:
                del self._silent[address]

    def _cut_longest_silent(self, address: str) -> bool:
        silent = self._silent.get(address)
        if not silent:
            return False
        longest = next(iter(silent))
        self.close(longest)
        longest.cut()
        return True


class StrictHttp(h11.Connection):
    """HTTP whose lines end in CR LF and are not folded, and whose bodies have one unambiguous end.

    h11 also accepts bare LF, folded lines and two ways to end a body; a proxy in front may read such a head differently.
    """

    objection = ""
    """What is wrong with the head of the last request; empty if nothing is."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        if self.their_state is h11.IDLE:
            head, ending, _ = self.trailing_data[0].partition(HEAD_END)
            lines = head + ending
            if lines.count(b"\n") != lines.count(b"\r\n") or b"\n " in lines or b"\n\t" in lines:
                self.objection = "Lines of a request's head end in CR LF, and are not folded."
                raise h11.RemoteProtocolError(self.objection)
            lower = lines.lower()
            if b"\ncontent-length:" in lower and b"\ntransfer-encoding:" in lower:
                self.objection = "A request has a Content-Length or a Transfer-Encoding, not both."
                raise h11.RemoteProtocolError(self.objection)
        return super().next_event()
