"""Forks of jupyter-server-ydoc, from the inside of its server: made, joined and ended as its request handlers do.

Over the network this would take a token, and a server whose users have tokens of their own has none for us.
"""

import asyncio
from collections.abc import Mapping, MutableMapping
from importlib import import_module
from secrets import token_hex
from typing import Any, cast

from pycrdt import Doc

from cellwright.core.errors import NotFound
from cellwright.jupyter.documents.room import Saved
from cellwright.jupyter.inside.room_channel import MemoryRoomChannel, RoomClient
from cellwright.jupyter.port import Fork, RoomAccess

STOPPED = 1006
NAME = "cellwright"


class YdocForks:
    """The forks of one running collaboration extension."""

    def __init__(self, extension: object) -> None:
        self._extension: Any = extension
        self._server: Any = self._extension.ywebsocket_server
        self._serving: set[asyncio.Task[None]] = set()

    async def offered(self) -> bool:
        return hasattr(_handlers(), "FORK_ROOMS") and not self._extension.disable_rtc

    async def make(self, room: str, *, title: str, description: str) -> Fork:
        root = self._server.rooms.get(room)
        if root is None:
            raise NotFound(
                f"the room {room} is not open on this Jupyter server", hint="open the notebook again, then propose anew"
            )
        doc: Doc[Any] = Doc()
        doc.apply_update(root.ydoc.get_update())
        name = token_hex(16)
        info: dict[str, object] = {
            "root_roomid": room,
            "synchronize": False,
            "title": title,
            "description": description,
        }
        _forks()[name] = info
        fork_room: Any = import_module("pycrdt.websocket").YRoom(ydoc=doc)
        self._server.rooms[name] = fork_room
        await self._server.start_room(fork_room)
        self._emit(name, info, "create")
        return Fork(name, str(_handlers().SERVER_SESSION))

    async def of(self, room: str) -> Mapping[str, str]:
        return {
            name: str(info.get("description", "")) for name, info in _forks().items() if info["root_roomid"] == room
        }

    async def join(self, fork: str, name: str) -> RoomAccess:
        client = RoomClient(fork)
        serving = asyncio.create_task(self._server.serve(client))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        channel = MemoryRoomChannel(client, _never_saved, lambda: client.hang_up(serving))
        serving.add_done_callback(lambda _: channel.end(STOPPED, "the room was stopped"))
        return RoomAccess(fork, channel, answers_saves=False, name=name)

    async def end(self, fork: str) -> None:
        info = _forks().pop(fork, None)
        if info is not None:
            await self._server.delete_room(name=fork)
            self._emit(fork, info, "delete")

    def _emit(self, fork: str, info: Mapping[str, object], action: str) -> None:
        """Emit the event by which people's JupyterLab learns of forks."""
        data = {"username": NAME, "fork_roomid": fork, "fork_info": dict(info), "action": action}
        schema = _handlers().JUPYTER_COLLABORATION_FORK_EVENTS_URI
        self._extension.serverapp.event_logger.emit(schema_id=schema, data=data)


def _handlers() -> Any:  # noqa: ANN401 - a module that has no types, of a package that may be missing
    return import_module("jupyter_server_ydoc.handlers")


def _forks() -> MutableMapping[str, dict[str, object]]:
    return cast("MutableMapping[str, dict[str, object]]", _handlers().FORK_ROOMS)


async def _never_saved() -> str:
    return Saved.SKIPPED
