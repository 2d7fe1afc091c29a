"""Forks of shared documents: copies that a Jupyter server keeps beside a document, for changes that nobody should see yet."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from cellwright.core.errors import NotFound
from cellwright.jupyter.documents.backing import Acknowledged
from cellwright.jupyter.documents.room import Room
from cellwright.jupyter.documents.saving import After
from cellwright.jupyter.port import Fork, RoomAccess, RoomChannel
from cellwright.jupyter.remote.rest import NOT_FOUND, Rest

PLACE = "api/collaboration/fork"


class ForksNotOffered(NotFound):
    """The server shares no documents, or keeps no copies of them."""


class ProposalEnded(NotFound):
    """The proposal was there, and was merged or dropped."""


class RemoteForks:
    """Forks of a server that is reached over HTTP."""

    def __init__(
        self, rest: Rest, offered: Callable[[], Awaitable[bool]], connect: Callable[[str], Awaitable[RoomChannel]]
    ) -> None:
        self._rest = rest
        self._shares = offered
        self._connect = connect

    async def offered(self) -> bool:
        if not await self._shares():
            return False
        # A server with forks answers that this room has none; an older server has no such address.
        answer = await self._rest.probe("GET", f"{PLACE}/json:notebook:none", "forks")
        return answer.is_success

    async def make(self, room: str, *, title: str, description: str) -> Fork:
        # Not synchronized by the server: it would go on synchronizing a fork that was dropped, as long as the room lives.
        body = {"synchronize": False, "title": title, "description": description}
        answer = await self._rest.request("PUT", f"{PLACE}/{quote(room, safe=':')}", f"room {room}", body=body)
        fork = answer.json()
        return Fork(str(fork["fork_roomid"]), str(fork.get("sessionId", "")))

    async def of(self, room: str) -> Mapping[str, str]:
        forks: dict[str, dict[str, Any]] = await self._rest.get(f"{PLACE}/{quote(room, safe=':')}", f"room {room}")
        return {fork_id: str(fork.get("description", "")) for fork_id, fork in forks.items()}

    async def join(self, fork: str, name: str) -> RoomAccess:
        return RoomAccess(fork, await self._connect(fork), answers_saves=False, name=name)

    async def end(self, fork: str) -> None:
        place = f"{PLACE}/{quote(fork, safe='')}"
        answer = await self._rest.probe("DELETE", place, f"fork {fork}", parameters={"merge": "false"})
        if answer.status != NOT_FOUND:
            self._rest.accept(answer, f"fork {fork}")


class ForkBacking:
    """Changes go into a fork, which nobody shares and which is in no file."""

    live = False

    def __init__(self, room: Room) -> None:
        self._room = room

    @property
    def is_open(self) -> bool:
        return self._room.is_open

    @property
    def size(self) -> int:
        return self._room.size

    @property
    def settled(self) -> bool:
        return self._room.settled

    def check_open(self) -> None:
        self._room.check_open()

    async def refresh(self) -> None:
        self.check_open()

    async def catch_up(self) -> None:
        """Nobody else changes a fork."""

    async def acknowledge(self) -> Acknowledged:
        await self._room.flush()
        return Acknowledged(live=False, saved=False)

    async def settle(self, after: After) -> str:  # noqa: ARG002 - there is no file
        return ""

    async def save(self) -> bool:
        return False

    async def close(self) -> None:
        await self._room.leave()
