"""Who is connected, who of them is silent, and heads of requests that two readers could read differently.

A connection is silent while nobody waits on it for the answer to a whole request: before its first request, between two, and while a head
or a body still comes. Silent ones make room for others, those first that are of the address with the most of them. What is not silent has
come in with a token, and is counted by caller in `turns`.
"""

from collections import Counter
from typing import Protocol

import h11

SHARE = 0.75
"""The part of all connections that one address may have: a proxy needs many, and others must not be kept out by one."""
HEAD_END = b"\r\n\r\n"


class Connection(Protocol):
    """What can be cut off."""

    def cut(self) -> None:
        """End it at once, whatever is still to be sent or read."""
        ...


class Connections:
    """All connections of a server, by the address that they come from."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_one = max(1, int(most * SHARE))
        self._addresses: dict[Connection, str] = {}
        self._counts: Counter[str] = Counter()
        self._silent: dict[str, dict[Connection, None]] = {}
        """By address, in each the one first that has been silent for longest."""

    def open(self, connection: Connection, address: str) -> bool:
        """Take it in; whether it is served. If not, there is no silent one that could make room."""
        room = True
        if self._counts[address] >= self._of_one:
            room = self._cut_one(address)
        elif len(self._addresses) >= self._most:
            room = self._cut_one(max(self._silent, key=lambda name: len(self._silent[name]), default=""))
        self._addresses[connection] = address
        self._counts[address] += 1
        self.falls_silent(connection)
        return room

    def close(self, connection: Connection) -> None:
        address = self._addresses.pop(connection, None)
        if address is None:
            return
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]
        self._unsilence(connection, address)

    def speaks(self, connection: Connection) -> None:
        """A whole request has come: somebody waits for its answer."""
        if connection in self._addresses:
            self._unsilence(connection, self._addresses[connection])

    def falls_silent(self, connection: Connection) -> None:
        """From now on, unless it was already."""
        if connection in self._addresses:
            self._silent.setdefault(self._addresses[connection], {}).setdefault(connection)

    def _unsilence(self, connection: Connection, address: str) -> None:
        others = self._silent.get(address)
        if others is not None:
            others.pop(connection, None)
            if not others:
                del self._silent[address]

    def _cut_one(self, address: str) -> bool:
        others = self._silent.get(address)
        if not others:
            return False
        longest = next(iter(others))
        self.close(longest)
        longest.cut()
        return True


class StrictHttp(h11.Connection):
    """HTTP whose lines end in CR LF and are not folded, and whose bodies end in one place.

    h11 takes bare LF, folds and two ways to end a body as well; a proxy in front may read such a head as another one.
    """

    objection = ""
    """What was wrong with the head of the last request."""

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
