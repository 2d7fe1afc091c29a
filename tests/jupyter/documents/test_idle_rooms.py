"""Documents that are open and that nobody uses: together they have a bound in bytes."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest

from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.model import NewCell
from cellwright.jupyter.port import Jupyter
from jupyter_support import JupyterServer, write_notebook
from requirements import requirement

pytestmark = pytest.mark.anyio

SIZE = 300_000
"""Of each notebook, about. Two of them fit."""


class Clock:
    """Each time that is asked for is later than the one before."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
async def rooms(jupyter: Jupyter) -> AsyncGenerator[Rooms]:
    made = Rooms(jupyter.documents, Collaborator(), idle_bytes=int(SIZE * 2.5), now=Clock())
    yield made
    await made.close()


@pytest.fixture
def paths(jupyter_server: JupyterServer, folder: str) -> list[NotebookPath]:
    found = [NotebookPath(f"{folder}/{name}.ipynb") for name in "abcd"]
    for path in found:
        write_notebook(jupyter_server.root, path.text, ["x" * (SIZE // 3)] * 3)
    return found


def names_of(rooms: Rooms) -> str:
    """Which are open, in the order of their names."""
    return "".join(sorted(room.path[-7] for room in rooms.open_rooms() if room.connected))


async def touch(rooms: Rooms, path: NotebookPath) -> None:
    async with rooms.notebook(path) as document:
        assert document.view.cell_count >= 3


@requirement("memory:rooms")
async def test_those_idle_longest_are_left_when_all_are_too_large_together(
    rooms: Rooms, paths: list[NotebookPath]
) -> None:
    a, b, c, d = paths
    await touch(rooms, a)
    await touch(rooms, b)
    assert names_of(rooms) == "ab"
    await touch(rooms, a)
    await touch(rooms, c)
    assert names_of(rooms) == "ac"
    await touch(rooms, d)
    assert names_of(rooms) == "cd"
    await touch(rooms, b)
    assert names_of(rooms) == "bd"


@requirement("memory:rooms")
async def test_none_is_left_that_somebody_uses(rooms: Rooms, paths: list[NotebookPath]) -> None:
    a, b, c, d = paths
    async with rooms.notebook(a) as used:
        for path in (b, c, d):
            await touch(rooms, path)
        assert names_of(rooms) == "acd"
        await used.change(lambda view: view.insert(-1, [NewCell("still here")]))
    assert names_of(rooms) == "ad"
    async with rooms.notebook(a) as again:
        assert again.view.cell_count == 4


@requirement("memory:rooms")
async def test_none_is_left_whose_changes_have_not_arrived(rooms: Rooms, paths: list[NotebookPath]) -> None:
    a, b, c, _ = paths
    async with rooms.notebook(a) as changed:
        # Made, and not waited for: as when whoever asked for it has gone.
        changed.view.insert(-1, [NewCell("on its way")])
        room = changed.room
    assert room is not None
    assert not room.settled
    entry = rooms._entries[(a.text, next(iter(rooms._entries))[1])]
    assert not entry.may_go
    await touch(rooms, b)
    async with rooms.notebook(a) as document:
        await document.acknowledge()
    assert room.settled
    await touch(rooms, b)
    await touch(rooms, c)
    assert names_of(rooms) == "bc"
    async with rooms.notebook(a) as document:
        assert document.view.cell_count == 4


@requirement("memory:rooms")
async def test_one_that_is_larger_than_the_bound_stays_for_the_next_call(
    rooms: Rooms, paths: list[NotebookPath], jupyter_server: JupyterServer
) -> None:
    a, b, *_ = paths
    write_notebook(jupyter_server.root, b.text, ["x" * SIZE] * 4)
    await touch(rooms, a)
    async with rooms.notebook(b) as document:
        first = document.view
    assert names_of(rooms) == "b"
    async with rooms.notebook(b) as document:
        assert document.view is first


@requirement("memory:rooms")
async def test_many_who_work_at_once_are_never_given_one_that_is_being_left(
    rooms: Rooms, paths: list[NotebookPath]
) -> None:
    async def work(path: NotebookPath, times: int) -> None:
        for _ in range(times):
            async with rooms.notebook(path) as document:
                await document.change(lambda view: view.insert(-1, [NewCell("x")]))

    await asyncio.gather(*(work(path, 5) for path in paths for _ in range(2)))
    for path in paths:
        async with rooms.notebook(path) as document:
            assert document.view.cell_count == 13
