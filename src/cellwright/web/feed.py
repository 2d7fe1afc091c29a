"""Server-sent events about what happens. Each caller has a channel of their own, so nobody hears what another does.

A channel keeps its last events. A viewer that comes back with the id of the last event it saw is sent the rest, or told to begin again.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from pydantic_core import to_json

from cellwright.core.errors import LimitReached

KEPT_EVENTS = 1_000
MOST_PENDING = 500
MOST_VIEWERS = 100
MOST_CHANNELS = 200
BEAT_SECONDS = 15.0
BEAT = b": still here\n\n"


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    data: bytes
    uri: str = ""
    """Only viewers of this document are sent the event; empty means every viewer of the channel."""


class Viewer:
    """One open stream. What it has not read yet is kept for it, up to a limit; over that it is told to begin again."""

    def __init__(self, uri: str, run: str) -> None:
        self.uri = uri
        self._run = run
        self._pending: deque[bytes] = deque()
        self._awake = asyncio.Event()
        self.ended = False

    def offer(self, number: int, event: Event) -> None:
        if event.uri not in {"", self.uri}:
            return
        if len(self._pending) >= MOST_PENDING:
            self._pending.clear()
            event = Event("reset", b"{}")
        self._pending.append(
            b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._run.encode(), number, event.name.encode(), event.data)
        )
        self._awake.set()

    def end(self) -> None:
        self.ended = True
        self._awake.set()

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The bytes to send, as they come, until the viewer is ended."""
        while not self.ended:
            if self._pending:
                piece = b"".join(self._pending)
                self._pending.clear()
                yield piece
                continue
            self._awake.clear()
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._awake.wait()
            except TimeoutError:
                yield BEAT


class _Channel:
    def __init__(self) -> None:
        self.last = 0
        self.events: deque[tuple[int, Event]] = deque(maxlen=KEPT_EVENTS)
        self.viewers: set[Viewer] = set()

    def put(self, event: Event) -> None:
        self.last += 1
        self.events.append((self.last, event))
        for viewer in self.viewers:
            viewer.offer(self.last, event)


class PageFeed:
    """The channels of everybody who has looked. Publishing never waits."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._run = secrets.token_hex(4)
        self._channels: dict[str, _Channel] = {}
        self._closed = False

    def listeners(self) -> list[str]:
        """The callers who have a stream open at this moment."""
        return [owner for owner, channel in self._channels.items() if channel.viewers]

    def knows(self, owner: str) -> bool:
        """Whether events are kept and sent for this caller. They are from the first time the caller looks."""
        return owner in self._channels

    def publish(self, name: str, data: object, *, owner: str | None = None, uri: str = "") -> None:
        """Tell one caller, or everybody. The data is encoded once, however many listen."""
        channels = (
            list(self._channels.values())
            if owner is None
            else [self._channels[owner]]
            if owner in self._channels
            else []
        )
        if not channels:
            return
        event = Event(name, to_json(data), uri)
        for channel in channels:
            channel.put(event)

    def open(self, owner: str, uri: str, last_seen: str) -> Viewer:
        """A new stream, beginning with what was missed since `last_seen`."""
        channel = self._channel_of(owner)
        if len(channel.viewers) >= MOST_VIEWERS:
            raise LimitReached(f"{MOST_VIEWERS} pages are open already", hint="close some of them")
        viewer = Viewer(uri, self._run)
        hello = Event("hello", to_json({"version": self._version, "epoch": self._run}))
        missed = self._missed(channel, last_seen) if last_seen else []
        if missed is None:
            viewer.offer(channel.last, hello)
            viewer.offer(channel.last, Event("reset", b"{}"))
        else:
            # The greeting has the number before the first missed event: who is cut off after it misses nothing.
            viewer.offer(missed[0][0] - 1 if missed else channel.last, hello)
            for number, event in missed:
                viewer.offer(number, event)
        channel.viewers.add(viewer)
        if self._closed:
            viewer.end()
        return viewer

    def tell(self, viewer: Viewer, name: str, data: object, owner: str) -> None:
        """Tell one viewer something that the channel does not keep."""
        viewer.offer(self._channels[owner].last, Event(name, to_json(data)))

    def leave(self, owner: str, viewer: Viewer) -> None:
        viewer.end()
        if owner in self._channels:
            self._channels[owner].viewers.discard(viewer)

    def close(self) -> None:
        """End every stream. Streams that are opened later end at once."""
        self._closed = True
        for channel in self._channels.values():
            for viewer in channel.viewers:
                viewer.end()

    def _channel_of(self, owner: str) -> _Channel:
        channel = self._channels.pop(owner, None) or _Channel()
        self._channels[owner] = channel
        if len(self._channels) > MOST_CHANNELS:
            unused = next((name for name, other in self._channels.items() if not other.viewers and name != owner), None)
            if unused is not None:
                del self._channels[unused]
        return channel

    def _missed(self, channel: _Channel, last_seen: str) -> list[tuple[int, Event]] | None:
        """The events after the last one that was seen; None if they are not kept any more."""
        run, _, number = last_seen.rpartition("-")
        if run != self._run or not (number.isascii() and number.isdigit() and len(number) <= 15):  # noqa: PLR2004
            return None
        last_number = int(number)
        first_number = channel.events[0][0] if channel.events else channel.last + 1
        if last_number > channel.last or last_number < first_number - 1:
            return None
        return [(n, event) for n, event in channel.events if n > last_number]
