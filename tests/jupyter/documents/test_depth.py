"""A server that makes a document too much little by little: each update alone is harmless, all of them together are not."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from pycrdt import (
    Array,
    Doc,
    Map,
    Text,
    create_update_message,
    handle_sync_message,  # pyright: ignore[reportUnknownVariableType] - its Doc has no parameter
)

from cellwright.jupyter.documents import room as rooms
from cellwright.jupyter.documents.depth import MAX_ROOTS
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.room import Room
from cellwright.jupyter.documents.updates import HARMLESS_BYTES, MAX_DEPTH, MAX_WAITING_TYPES
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.port import RoomAccess
from requirements import requirement
from support import until

pytestmark = pytest.mark.anyio

LEVELS = 60
"""That one update adds."""


class Served:
    """The server's side of a room: it answers as it should, and says whatever else it is told to."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        self._doc: Doc[Any] = Doc()
        cell: dict[str, Any] = {
            "id": "c0",
            "cell_type": "code",
            "source": Text("x = 1"),
            "metadata": Map(),
            "outputs": Array(),
        }
        self._doc.get("cells", type=Array).append(Map(cell))

    async def send(self, message: bytes) -> None:
        answer = handle_sync_message(message[1:], self._doc) if message[0] == 0 else None
        if answer is not None:
            self._said.put_nowait(answer)

    async def receive(self) -> bytes:
        return await self._said.get()

    async def close(self) -> None:
        pass

    def say(self, updates: Sequence[bytes]) -> None:
        for update in updates:
            assert len(update) < HARMLESS_BYTES
            self._said.put_nowait(create_update_message(update))

    @property
    def heard(self) -> bool:
        return self._said.empty()


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
async def joined(served: Served) -> AsyncGenerator[Room]:
    room = Room(RoomAccess("json:notebook:1", served), Collaborator())
    view = LiveNotebook(room.doc, "n.ipynb")
    await room.join()
    yield room
    await room.leave()
    view.close()


def deeper_and_deeper(root: str, levels: int, first: str = "in") -> list[bytes]:
    """Updates that each put some more levels into the deepest one there is, below an entry called `first`."""
    document: Doc[Any] = Doc()
    made: list[bytes] = []
    subscription = document.observe(lambda event: made.append(event.update))
    inside: Any = document.get(root, type=Map)
    name = first
    for _ in range(levels // LEVELS):
        with document.transaction():
            for _ in range(LEVELS):
                inside[name] = Map()
                inside, name = inside[name], "in"
    document.unobserve(subscription)
    return made


@requirement("memory:updates:little-by-little")
@pytest.mark.parametrize("root", ["cells", "meta", "state", "of nobody here"])
async def test_a_document_that_becomes_deeper_with_each_update_is_left(served: Served, joined: Room, root: str) -> None:
    served.say(deeper_and_deeper(root, MAX_DEPTH))
    await until(lambda: served.heard, "all of it was taken")
    assert joined.is_open
    served.say(deeper_and_deeper(root, 10 * MAX_DEPTH, "beside it"))
    await until(lambda: not joined.is_open, "it was left")
    with pytest.raises(Exception, match="levels of nesting"):
        joined.check_open()


@requirement("memory:updates:little-by-little")
async def test_what_waits_for_an_update_that_is_held_back_is_bounded(served: Served, joined: Room) -> None:
    first, *others = deeper_and_deeper("of nobody here", 2 * MAX_WAITING_TYPES)
    served.say(others)
    await until(lambda: not joined.is_open, "it was left")
    with pytest.raises(Exception, match="build on what is missing"):
        joined.check_open()
    del first


@requirement("memory:updates:little-by-little")
async def test_a_few_updates_in_another_order_are_taken(served: Served, joined: Room) -> None:
    first, *others = deeper_and_deeper("of nobody here", 3 * LEVELS)
    served.say([*others, first])
    await until(lambda: served.heard, "all of it was taken")
    await joined.flush()
    depth, inside = 0, joined.doc.get("of nobody here", type=Map)
    while "in" in inside:
        depth, inside = depth + 1, inside["in"]
    assert depth == 3 * LEVELS


@requirement("memory:updates:little-by-little")
async def test_very_many_parts_at_the_top_are_refused(served: Served, joined: Room) -> None:
    document: Doc[Any] = Doc()
    for number in range(MAX_ROOTS + 1):
        document.get(f"root {number}", type=Map)["a"] = 1
    served.say([document.get_update()])
    await until(lambda: not joined.is_open, "it was left")


@requirement("memory:updates:little-by-little")
async def test_after_very_much_a_document_is_opened_anew(
    served: Served, joined: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "MAX_TAKEN_BYTES", 100_000)
    document: Doc[Any] = Doc()
    made: list[bytes] = []
    subscription = document.observe(lambda event: made.append(event.update))
    for _ in range(20):
        document.get("meta", type=Map)["a"] = "x" * 7_000
    document.unobserve(subscription)
    served.say(made)
    await until(lambda: not joined.is_open, "it was left")
    with pytest.raises(Exception, match="opened anew"):
        joined.check_open()
