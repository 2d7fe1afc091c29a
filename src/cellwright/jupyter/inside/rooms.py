"""Rooms of jupyter-server-ydoc, from the inside of its server: opened, joined and cleaned up as its websocket handler does.

We join as one of the room's clients. This keeps the room while we use it, and frees it when the last client leaves.
"""

import asyncio
import contextlib
import inspect
import json
import logging
from collections.abc import MutableMapping
from importlib import import_module
from typing import Any, cast

from tornado.web import HTTPError

from cellwright.core.errors import Unavailable
from cellwright.jupyter.documents.room import JOIN_SECONDS, SAVE_SECONDS, Saved
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.inside.room_channel import MemoryRoomChannel, RoomClient, refused_channel
from cellwright.jupyter.model import RoomKind
from cellwright.jupyter.port import RoomAccess

log = logging.getLogger(__name__)

WAIT_FOR_SERVER_SECONDS = 10.0
CLOSE_CODES = {400: 4400, 404: 4404}
SERVER_FAILED = 4500
NOT_INITIALIZED = 1003
STOPPED = 1006


class YdocRooms:
    """The rooms of one running collaboration extension."""

    def __init__(self, extension: object) -> None:
        self._extension: Any = extension
        self._server: Any = self._extension.ywebsocket_server
        self._own_locks: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def join(self, path: DocPath, kind: RoomKind) -> RoomAccess:
        """Join the document's room. The caller checks first that the file exists."""
        file_ids: Any = self._extension.serverapp.web_app.settings["file_id_manager"]
        room_id = f"{kind.value}:{file_ids.get_id(path.text) or file_ids.index(path.text)}"
        # A task of its own, because a cancelled caller would leave a half-opened room, or one without clients that nobody cleans.
        entering = asyncio.create_task(self._enter(room_id, path))
        try:
            async with asyncio.timeout(JOIN_SECONDS):
                return await asyncio.shield(entering)
        except TimeoutError as error:
            raise Unavailable(f"Jupyter did not open {path} in time", hint="Try again") from error
        finally:
            if not entering.done():
                entering.add_done_callback(self._leave_again)

    def _leave_again(self, entering: asyncio.Task[RoomAccess]) -> None:
        if not entering.cancelled() and entering.exception() is None:
            self._keep(asyncio.create_task(entering.result().channel.close()))

    async def _enter(self, room_id: str, path: DocPath) -> RoomAccess:
        client = RoomClient(room_id)
        try:
            room = await self._open(room_id, client)
        except HTTPError as error:
            code = CLOSE_CODES.get(error.status_code, SERVER_FAILED)
            log.info("room_not_opened room=%s error=%s", room_id, error)
            return RoomAccess(room_id, refused_channel(code, f"Error initializing: {path}."), name=path.text)
        except (OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
            # The extension reads whatever is in the file, and may fail with any of these.
            log.warning("room_not_opened room=%s", room_id, exc_info=error)
            reason = {"reason": "initialization_error", "reloadable": False, "errorReason": str(error)}
            return RoomAccess(room_id, refused_channel(NOT_INITIALIZED, json.dumps(reason)), name=path.text)
        serving = self._keep(asyncio.create_task(self._server.serve(client)))
        channel = MemoryRoomChannel(client, lambda: _save(room), lambda: self._leave(room, client, serving))
        serving.add_done_callback(lambda _: channel.end(STOPPED, "the room was stopped"))
        return RoomAccess(room_id, channel, name=path.text)

    async def _open(self, room_id: str, client: RoomClient) -> Any:  # noqa: ANN401 - the extension's own class
        if not self._server.started.is_set():
            self._keep(asyncio.create_task(self._server.start()))
            async with asyncio.timeout(WAIT_FOR_SERVER_SECONDS):
                await self._server.started.wait()
        async with self._lock(room_id):
            room = self._server.rooms.get(room_id) or self._new_room(room_id)
            # From here on we are a client, so that nobody who leaves meanwhile takes the room for empty.
            room.clients.add(client)
            if room.cleaner is not None:
                room.cleaner.cancel()
            initialized = False
            try:
                await self._server.start_room(room)
                self._server.add_room(room_id, room)
                await room.initialize()
                initialized = True
            finally:
                if not initialized:
                    room.clients.discard(client)
                    await self._discard(room_id, room)
        return room

    def _new_room(self, room_id: str) -> Any:  # noqa: ANN401
        """Make the room as the websocket handler does. `get_document(create=True)` leaves out the settings of the store."""
        extension: Any = self._extension
        room_class: Any = import_module("jupyter_server_ydoc.rooms").DocumentRoom
        file_format, file_type, file_id = room_id.split(":", 2)
        store = self._server.ystore_class(path=f".{file_type}:{file_id}.y", log=extension.log)
        settings = {
            "save_delay": extension.document_save_delay,
            "document_load_progressively": getattr(extension, "document_load_progressively", False),
            "notebook_output_delay_threshold_mb": getattr(extension, "notebook_output_delay_threshold_mb", None),
            "exception_handler": _log_and_go_on,
        }
        parameters = inspect.signature(room_class).parameters
        options = {name: value for name, value in settings.items() if name in parameters}
        file, events = extension.file_loaders[file_id], extension.serverapp.event_logger
        return room_class(room_id, file_format, file_type, file, events, store, extension.log, **options)

    def _lock(self, room_id: str) -> asyncio.Lock:
        """The room's lock, which the websocket handlers use too."""
        return self._locks.setdefault(room_id, asyncio.Lock())

    @property
    def _locks(self) -> MutableMapping[str, asyncio.Lock]:
        return cast("MutableMapping[str, asyncio.Lock]", getattr(self._extension, "_room_locks", self._own_locks))

    async def _leave(self, room: Any, client: RoomClient, serving: asyncio.Task[Any]) -> None:  # noqa: ANN401
        await client.hang_up(serving)
        room.clients.discard(client)
        if not room.clients and (room.cleaner is None or room.cleaner.done()):
            room.cleaner = self._keep(asyncio.create_task(self._clean(client.path, room)))

    async def _clean(self, room_id: str, room: Any) -> None:  # noqa: ANN401
        """Free the room a while after its last client left. A client that comes before that cancels this."""
        delay = self._extension.document_cleanup_delay
        if delay is None:
            return
        await asyncio.sleep(delay)
        async with self._lock(room_id):
            if not room.clients and self._server.rooms.get(room_id) is room:
                await self._discard(room_id, room)
                self._locks.pop(room_id, None)

    async def _discard(self, room_id: str, room: Any) -> None:  # noqa: ANN401
        if room.clients:
            return
        if self._server.rooms.get(room_id) is room:
            del self._server.rooms[room_id]
        await room.stop()
        file_id, loaders = room_id.split(":", 2)[2], self._extension.file_loaders
        if file_id in loaders and loaders[file_id].number_of_subscriptions == 0:
            # If the file was deleted, its watcher failed, and raises that error once more here.
            with contextlib.suppress(RuntimeError):
                await loaders.remove(file_id)

    def _keep(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _log_and_go_on(error: Exception, to: logging.Logger) -> bool:
    """An error in one room must not end the server of all rooms."""
    to.error("error in a shared document", exc_info=error)
    return True


async def _save(room: Any) -> str:  # noqa: ANN401
    """Write the file now, as the websocket handler does for a request to save."""
    saving: asyncio.Task[None] | None = room._save_to_disc()  # noqa: SLF001 - there is no other way
    if saving is None:
        return Saved.SKIPPED
    # Not awaited itself: a newer save cancels this task, and that must not look as if we were cancelled.
    finished, _ = await asyncio.wait([saving], timeout=SAVE_SECONDS)
    if not finished:
        return Saved.FAILED
    return Saved.SKIPPED if saving.cancelled() else Saved.FAILED if saving.exception() else Saved.SUCCESS
