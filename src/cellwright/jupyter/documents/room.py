"""A shared document: our replica of it, joined over a channel, kept equal to everybody else's."""

import asyncio
import itertools
import json
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, cast

from pycrdt import (
    Assoc,
    Awareness,
    Decoder,
    Doc,
    Encoder,
    StickyIndex,
    Text,
    TransactionEvent,
    YMessageType,
    YSyncMessageType,
    create_awareness_message,
    create_sync_message,  # pyright: ignore[reportUnknownVariableType] - its Doc has no parameter
    create_update_message,
    handle_sync_message,  # pyright: ignore[reportUnknownVariableType]
    read_message,
)

from cellwright.core.errors import CellwrightError, InvalidArgument, NotFound, Unavailable
from cellwright.core.text.clean import clean
from cellwright.jupyter.documents.depth import Roots
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.updates import (
    HARMLESS_BYTES,
    MAX_TAKEN_BYTES,
    IncomingUpdate,
    RefusedUpdate,
    WaitingTypes,
)
from cellwright.jupyter.errors import JupyterDenied, RoomLost, UnknownOutcome
from cellwright.jupyter.port import RoomAccess, RoomClosed

log = logging.getLogger(__name__)

JOIN_SECONDS = 60.0
FLUSH_SECONDS = 20.0
SAVE_SECONDS = 20.0
LEAVE_SECONDS = 3.0
ECHO_SECONDS = 2.0
NOTHING_NEW = b"\0\0"
"""The update of a transaction that changed nothing, as when our own change comes back."""
RAW = 2
"""Jupyter's own message type, beside those of the Y protocol."""
REMOTE = "remote"
"""The origin of transactions that came from others: they are not sent back."""
NAME_CHARACTERS = 60
MAX_NAMES = 50
MAX_SMALL_MESSAGE = 1024 * 1024
"""Of a message that is no update of the document: who is there, what was saved."""


def came_from_others(transaction: object) -> bool:
    """Whether others made the transaction of a Y event. Events of a document have the hash of the origin, other events the origin."""
    origin: object = cast("Any", transaction).origin
    return (origin() if callable(origin) else origin) in (REMOTE, hash(REMOTE))


class Saved(StrEnum):
    """The server's answer to a request to save. It says success even where writing the file failed."""

    SUCCESS = "success"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNANSWERED = "unanswered"


class Room:
    """One replica of one document.

    Once its connection is lost a replica is of no more use and is never joined again: pushing its contents into a document
    that was loaded anew would double the cells. Whoever needs the document makes a new room.
    """

    def __init__(self, access: RoomAccess, collaborator: Collaborator) -> None:
        self.id = access.id
        self._name = access.name or f"room {access.id}"
        # 32 bits as in Yjs: servers with an older pycrdt cut longer ids, and our own edits come back doubled. 0 is the
        # id under which servers load files.
        self.doc: Doc[Any] = Doc(client_id=1 + secrets.randbelow(2**32 - 1))
        self.awareness = Awareness(self.doc)
        self._access = access
        self._collaborator = collaborator
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._barriers: deque[tuple[asyncio.Future[None], int]] = deque()
        self._saves: dict[int, asyncio.Future[str]] = {}
        self._save_ids = itertools.count(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._lost: CellwrightError | None = None
        self._on_lost: list[Callable[[], None]] = []
        self._closed = False
        self._leaving = False
        self._changes = 0
        self._acknowledged = 0
        self._echoed = True
        self._silent_since: float | None = None
        self._roots = Roots(self.doc)
        self._waiting = WaitingTypes()
        self._received_bytes = 0
        self.incoming_authors: frozenset[int] | None = None
        """While an update of others is taken in: the clients who wrote what it has, as far as it says."""
        self._made = time.monotonic()
        self.arrivals = 0
        """How many changes of others have come; also those that the server makes itself."""
        self.size = 0
        """The bytes of all updates of the document: about as much as it takes in memory."""

    async def join(self) -> None:
        """Get the document. Raises the reason if the server does not let us in."""
        self._document_subscription = self.doc.observe(self._send_own_update)
        self._awareness_subscription = self.awareness.observe(self._send_awareness)
        loops = (self._receive(), self._send(), self.awareness.start())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        self.awareness.set_local_state({"user": self._collaborator.as_json(), "autosave": True})
        joined = False
        try:
            await self._barrier(JOIN_SECONDS)
            joined = True
        except UnknownOutcome as error:
            if isinstance(self._lost, RefusedUpdate):
                raise self._lost from error
            raise Unavailable(f"Jupyter did not send {self._name}", hint="Try again") from error
        finally:
            if not joined:
                await self._close()

    @property
    def is_open(self) -> bool:
        return self._lost is None and not self._leaving

    @property
    def reaches_others(self) -> bool:
        """False when the server takes our changes but has stopped passing them on (they still reach the file)."""
        silent = self._silent_since is not None and time.monotonic() - self._silent_since > ECHO_SECONDS
        return not (self._access.echoes and silent)

    @property
    def seconds_here(self) -> float:
        """For how long we listen. Newcomers are told who is there when those next move, or say again that they are there."""
        return time.monotonic() - self._made

    @property
    def settled(self) -> bool:
        """Whether the server has acknowledged all our changes."""
        return self._acknowledged == self._changes and not self._barriers and not self._saves

    @property
    def changes(self) -> int:
        """How many changes we made."""
        return self._changes

    @property
    def acknowledged(self) -> int:
        """How many of our changes the server has for certain."""
        return self._acknowledged

    @property
    def answers_saves(self) -> bool:
        """Whether the server answers a request to save."""
        return self._access.answers_saves

    def check_open(self) -> None:
        """Raise if the document can no longer be changed through this room."""
        if self._lost is not None:
            raise self._lost
        if self._leaving:
            raise RoomLost(f"{self._name} was left", hint="Try again")

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the connection is gone, for whatever reason."""
        self._on_lost.append(callback)

    async def flush(self, timeout: float = FLUSH_SECONDS) -> None:  # noqa: ASYNC109 - the bound is the point
        """Wait until the server has applied all our changes so far. Raises UnknownOutcome if that cannot be known."""
        await self._barrier(timeout)

    async def save(self, timeout: float = SAVE_SECONDS) -> Saved:  # noqa: ASYNC109
        """Ask the server to write the file now."""
        if self._acknowledged < self._changes:
            # A save is handled at once, changes go through a queue: without the barrier the file would lack our last change.
            await self._barrier(timeout)
        self.check_open()
        if not self._access.answers_saves:
            return Saved.UNANSWERED
        number = next(self._save_ids)
        answer = self._saves[number] = asyncio.get_running_loop().create_future()
        message = Encoder()
        message.write_var_uint(RAW)
        message.write_var_string("save")
        message.write_var_uint(number)
        self._outgoing.put_nowait(message.to_bytes())
        try:
            return Saved(await asyncio.wait_for(answer, timeout))
        except TimeoutError:
            return Saved.UNANSWERED
        finally:
            self._saves.pop(number, None)

    def point_at(self, text: Text, start: int, end: int | None = None) -> None:
        """Show our cursor at these byte offsets of a shared text."""
        length = len(text)
        if length == 0:
            return
        head = end if end is not None else start
        cursor = {"anchor": _sticky(text, min(start, length)), "head": _sticky(text, min(head, length))}
        self.awareness.set_local_state_field("cursors", [{**cursor, "primary": True, "empty": head == start}])

    def others(self) -> list[str]:
        """The names of the others in the room, as far as they have said who they are."""
        names = [display_name(user) for client, _, user in self.users() if client != self.awareness.client_id]
        return names[:MAX_NAMES]

    def users(self) -> Iterator[tuple[int, dict[str, object], dict[str, object]]]:
        """Everybody who has said who they are, ourselves too: their client id, their state, and the user in that state."""
        for client, state in tuple(self.awareness.states.items()):
            # A server may take part itself, without being anybody; and a peer may send anything as its state.
            peer: object = state
            user = cast("dict[str, object]", peer).get("user") if isinstance(peer, dict) else None  # pyright: ignore[reportUnnecessaryIsInstance]
            if isinstance(user, dict) and user:
                yield client, cast("dict[str, object]", peer), cast("dict[str, object]", user)

    async def leave(self) -> None:
        """Say goodbye and close. Changes that are not yet flushed are sent first."""
        if self._leaving:
            return
        if self._lost is None:
            self.awareness.set_local_state(None)
            try:
                await self._barrier(LEAVE_SECONDS)
            except CellwrightError as error:
                log.info("room_left_without_an_answer room=%s error=%s", self.id, error)
        await self._close()

    async def _close(self) -> None:
        # This can happen twice: the connection may be lost, and the room closed for that, while `leave` waits.
        if self._closed:
            return
        self._closed = self._leaving = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._access.channel.close()
        self._roots.close()
        self.doc.unobserve(self._document_subscription)
        self.awareness.unobserve(self._awareness_subscription)
        # They and this room refer to each other. Without that cycle the document is freed at once, not by the next garbage collection.
        self._tasks.clear()
        self._on_lost.clear()

    async def _barrier(self, timeout: float) -> None:  # noqa: ASYNC109
        if self._lost is not None and self._changes > self._acknowledged:
            raise self._loss()
        self.check_open()
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._barriers.append((answered, self._changes))
        saves = tuple(self._saves.values())
        # The server answers in order: when it answers this, it has applied everything that was sent before.
        self._outgoing.put_nowait(create_sync_message(self.doc))
        if saves:
            # While it saves because we asked, it reads nothing that we send: only then does our time begin.
            await asyncio.wait(saves)
        try:
            await asyncio.wait_for(answered, timeout)
        except TimeoutError as error:
            raise UnknownOutcome(
                f"Jupyter did not acknowledge within {timeout:g} s what was changed in {self._name}",
                hint="Read the document again to see whether the change arrived",
            ) from error

    def _send_own_update(self, event: TransactionEvent) -> None:
        if not came_from_others(cast("Any", event).transaction):
            self._changes += 1
            self.size += len(event.update)
            self._echoed = False
            self._outgoing.put_nowait(create_update_message(event.update))
        elif len(event.update) > len(NOTHING_NEW):
            self.arrivals += 1

    def _send_awareness(self, topic: str, changes: tuple[dict[str, Any], Any]) -> None:
        change, origin = changes
        if topic == "update" and origin == "local":
            clients = [client for group in change.values() for client in group]
        elif (
            topic == "change" and origin == REMOTE and change["added"] and self.awareness.get_local_state() is not None
        ):
            # The server does not tell newcomers who was here before: say it again.
            clients = [self.awareness.client_id]
        else:
            return
        self._outgoing.put_nowait(create_awareness_message(self.awareness.encode_awareness_update(clients)))

    async def _send(self) -> None:
        while True:
            await self._access.channel.send(await self._outgoing.get())

    async def _receive(self) -> None:
        while True:
            # No variable holds the message while we wait for the next: the first one is the whole document.
            await self._take(await self._access.channel.receive())

    async def _take(self, message: bytes) -> None:
        match message[0] if message else None:
            case YMessageType.SYNC:
                if message[1] == YSyncMessageType.SYNC_STEP1:
                    self._answer(message)
                else:
                    await self._take_update(message)
            case _ if len(message) > MAX_SMALL_MESSAGE:
                raise RefusedUpdate(
                    f"Jupyter sent {len(message):,} bytes about who is in {self._name}; they were not taken in",
                    hint="try again; if it stays, restart Jupyter",
                )
            case YMessageType.AWARENESS:
                self.awareness.apply_awareness_update(read_message(message[1:]), REMOTE)
            case 2:  # RAW
                self._take_raw(message)
            case _:
                log.info("unknown_message_in_room room=%s type=%s", self.id, message[:1].hex())

    def _answer(self, question: bytes) -> None:
        """Send the server what it does not have."""
        reply = handle_sync_message(question[1:], self.doc)
        if reply is not None:
            self._outgoing.put_nowait(reply)

    async def _take_update(self, message: bytes) -> None:
        update = IncomingUpdate(read_message(message[2:]))
        for _ in update.check():
            if len(message) > HARMLESS_BYTES:
                # Other tasks run between the steps: the state of a large notebook takes a moment. What people type is there at once.
                await asyncio.sleep(0)
        state = self.doc.get_state()
        self.incoming_authors = update.authors
        if self._received_bytes:
            # The first update is the whole document, whatever the server itself lacks of it.
            self._waiting.add(update, state)
        for number, piece in enumerate(update.pieces(state)):
            if number:
                await asyncio.sleep(0)
            with self.doc.transaction(origin=REMOTE):
                self.doc.apply_update(piece)
            self._roots.follow()
        self.incoming_authors = None
        self.size += len(message)
        self._received_bytes += len(message)
        self._note_arrival(message)
        if self._received_bytes > MAX_TAKEN_BYTES:
            raise RoomClosed(None, f"more than {MAX_TAKEN_BYTES >> 20} MiB of changes came since it was opened")

    def _note_arrival(self, message: bytes) -> None:
        """Note what an update says of our own changes: that they were acknowledged, or that others got them."""
        if message[1] == YSyncMessageType.SYNC_UPDATE:
            self._echoed = True
            self._silent_since = None
        elif message[1] == YSyncMessageType.SYNC_STEP2 and self._barriers:
            answered, self._acknowledged = self._barriers.popleft()
            if not answered.done():
                answered.set_result(None)
            if not self._echoed and self._silent_since is None:
                # The server has our change, so its echo should be on its way: from now on silence counts.
                self._silent_since = time.monotonic()

    def _take_raw(self, message: bytes) -> None:
        decoder = Decoder(message)
        decoder.read_var_uint()
        content = json.loads(decoder.read_var_string())
        if content.get("type") == "conflict":
            raise RoomClosed(None, "Jupyter could not apply our change: the document was loaded anew")
        answer = self._saves.get(content.get("responseTo", -1))
        if content.get("type") == "save" and answer is not None and not answer.done():
            answer.set_result(str(content.get("status", "")))

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task ended by itself: whatever the reason, this replica is no longer equal to the others."""
        if self._lost is not None or self._leaving or task.cancelled():
            return
        error = _cause(task.exception())
        if not isinstance(error, RoomClosed | RefusedUpdate):
            log.warning("room_failed room=%s", self.id, exc_info=error)
        self._lost = _as_lost(self._name, error)
        waiting = [*(answered for answered, _ in self._barriers), *self._saves.values()]
        self._barriers.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(self._loss())
        for callback in self._on_lost:
            callback()

    def _loss(self) -> CellwrightError:
        """The error for those who wait for an acknowledgement that will not come."""
        assert self._lost is not None
        if not isinstance(self._lost, RoomLost | RefusedUpdate):
            return self._lost
        return UnknownOutcome(
            f"the connection to Jupyter was lost before the change was acknowledged: {self._lost.message}",
            hint="Read the document again to see whether the change arrived, before you repeat it",
        )


def display_name(user: Mapping[str, object]) -> str:
    """A user's name. A peer may call itself anything, so it is cleaned and cut."""
    name = user.get("display_name") or user.get("name")
    return clean(name).text[:NAME_CHARACTERS] if isinstance(name, str) else "somebody"


def _sticky(text: Text, offset: int) -> dict[str, Any]:
    """A position as JupyterLab writes it, with the name of the text."""
    # The position before everything in a text has no neighbour, so it names the text itself.
    start = cast("dict[str, Any]", StickyIndex.new(text, 0, Assoc.BEFORE).to_json())  # pyright: ignore[reportUnknownMemberType]
    whole = {"type": start.get("type"), "tname": start.get("tname"), "item": None, "assoc": 0}
    if offset == len(text):
        return whole
    position = cast("dict[str, Any]", StickyIndex.new(text, offset, Assoc.AFTER).to_json())  # pyright: ignore[reportUnknownMemberType]
    return {**whole, **position}


def _cause(error: BaseException | None) -> BaseException | None:
    """The error itself: an error that is raised while a document announces its changes comes in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _as_lost(name: str, error: BaseException | None) -> CellwrightError:
    if isinstance(error, RefusedUpdate):
        return error
    code = error.code if isinstance(error, RoomClosed) else None
    reason = str(error) if error is not None else "it ended"
    match code:
        case 4404:
            return NotFound(f"Jupyter finds no file for {name}", hint="It was deleted or renamed; list the files")
        case 4400:
            return InvalidArgument(
                f"Jupyter cannot read the file of {name}: {reason}",
                hint="It may be no notebook inside, a pipe or a device",
            )
        case 4401 | 4403:
            return JupyterDenied(
                f"Jupyter does not let us into {name}: {reason}",
                hint="check --jupyter-token, and who may open the file",
            )
        case _:
            return RoomLost(f"the shared document's connection ended ({reason})", hint="Try again: it is opened anew")
