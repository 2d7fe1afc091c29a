"""Lists of a server far away: walked once, kept for a while, true about their age."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from cellwright.core.errors import NotFound, Unavailable
from cellwright.jupyter.files import rules as filerules
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import FileInfo, FileKind
from cellwright.jupyter.remote import snapshots
from cellwright.jupyter.remote.snapshots import CONCURRENT_LISTINGS, FRESH_SECONDS, KEEP_SECONDS, QUICK_FILES, Snapshots
from jupyter_support import JupyterProcess, JupyterServer, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(200)]

MANY = 300
FOLDERS = 40


# -- a real server behind a proxy that counts ---------------------------------------------------------------------------------


class Counter:
    """A wire to a real server that notes which folders are asked for, and how many at the same time."""

    def __init__(self, server: JupyterServer) -> None:
        self._there = urlsplit(server.url)
        self.listed: list[str] = []
        self.requests: list[str] = []
        self._now = 0
        self.most = 0
        self._open: set[asyncio.Task[None]] = set()

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._take(reader, writer))
        self._open.add(connection)
        connection.add_done_callback(self._open.discard)

    async def close(self) -> None:
        """Let go of every connection that is still open."""
        left = list(self._open)
        for connection in left:
            connection.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with closing(writer):
            await self._answer(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").strip().split("\r\n")
            self.requests.append(first)
            is_list = "/api/contents" in first and "type=directory" in first
            self.listed += [first] if is_list else []
            self._now += is_list
            self.most = max(self.most, self._now)
            await self._pass_on(first, lines, reader, writer, is_list=is_list)

    async def _pass_on(
        self, first: str, lines: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_list: bool
    ) -> None:
        there, onward = await asyncio.open_connection(self._there.hostname, self._there.port)
        is_socket = any(line.lower().startswith("upgrade:") for line in lines)
        # One request for each connection, so that each is seen.
        kept = [line for line in lines if is_socket or not line.lower().startswith("connection:")]
        request = "\r\n".join([first, *kept, *([] if is_socket else ["Connection: close"]), "", ""])
        async with closing(onward):
            onward.write(request.encode("latin-1"))
            sending = asyncio.create_task(pump(reader, onward))
            try:
                writer.write(await there.read(65_536))
                # It answers: whoever asked may ask for the next one now.
                self._now -= is_list
                await pump(there, writer)
            finally:
                sending.cancel()


@asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncGenerator[None]:
    """Close the connection at the end, and wait until it is."""
    try:
        yield
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def counted(server: JupyterServer) -> AsyncGenerator[tuple[Counter, JupyterServer]]:
    counter = Counter(server)
    listener = await asyncio.start_server(counter.take, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield counter, JupyterServer(f"http://127.0.0.1:{port}", server.token, server.root)
    finally:
        listener.close()
        await counter.close()


@requirement("remote:list:pages", "remote:list:age", "remote:list:own", "remote:list:bounded")
async def test_further_pages_of_a_real_server_ask_it_nothing(tmp_path: Path) -> None:
    with JupyterProcess(tmp_path / "jupyter") as process:
        names = [f"d{number % FOLDERS}/inner/n{number}.ipynb" for number in range(MANY)]
        for name in names:
            write_notebook(process.root, name, ["1"])
        async with counted(process.address) as (counter, address):
            with in_front_of(address, tmp_path, "--toolsets", "default,documents") as server:
                async with agent_of(server) as agent:
                    await _pages(agent, counter, names)


async def _pages(agent: Agent, counter: Counter, names: list[str]) -> None:
    first = await agent("list_nbs")
    assert "age_seconds" not in first, "it is of this moment"
    asked = len(counter.listed)
    assert asked == 1 + 2 * FOLDERS
    assert 1 < counter.most <= CONCURRENT_LISTINGS
    found = _paths(first)
    ages: list[float] = []
    page = first
    counter.requests.clear()
    while page["next_offset"] is not None:
        page = await agent("list_nbs", offset=page["next_offset"])
        found += _paths(page)
        ages.append(page["age_seconds"])
    assert sorted(found) == sorted(names)
    assert len(found) == first["total"]
    assert ages == sorted(ages)
    assert len(counter.listed) == asked, "no folder was asked for again"
    assert counter.requests == [], "nor was anything else"

    await agent("create_document", path="d0/inner/aaa.ipynb")
    now = await agent("list_nbs")
    assert "d0/inner/aaa.ipynb" in _paths(now)
    assert now["total"] == len(names) + 1
    await agent("delete_document", path="d0/inner/aaa.ipynb")
    assert (await agent("list_nbs"))["total"] == len(names)
    searched = await agent("search_nbs", query="nowhere to be found", limit=1)
    assert (searched["searched"], "age_seconds" in searched) == (len(names), True)
    assert len(counter.listed) == asked

    again = await agent("list_nbs", refresh=True)
    assert "age_seconds" not in again
    assert len(counter.listed) == 2 * asked


def _paths(page: Any) -> list[str]:
    return [notebook["path"] for notebook in page["notebooks"]]


# -- what a real server cannot be made to show in time ----------------------------------------------------------------------------


def file(path: str, kind: FileKind = FileKind.NOTEBOOK) -> FileInfo:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return FileInfo(path, kind, moment, moment, size=1, writable=True)


class Server:
    """Folders in memory, a clock that is moved by hand, and a door that can be held shut."""

    def __init__(self, files: int = QUICK_FILES + 1) -> None:
        self.folders: dict[str, list[FileInfo]] = {"": [file(f"n{number:04}.ipynb") for number in range(files)]}
        self.now = 0.0
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()
        self.snapshots = Snapshots(self.list, lambda: self.now)

    async def list(self, folder: DocPath | None) -> list[FileInfo]:
        self.asked += 1
        try:
            found = list(self.folders[folder.text if folder else ""])
        except KeyError:
            raise NotFound(f"no folder {folder}") from None
        await self.open.wait()
        return found

    @property
    def is_walking(self) -> bool:
        return bool(self.snapshots._walks)  # pyright: ignore[reportPrivateUsage]

    async def paths(self, *, refresh: bool = False) -> tuple[int, float | None]:
        listing = await self.snapshots.listing(None, ".ipynb", refresh=refresh)
        return len(listing.files), listing.age_seconds


@requirement("remote:list:age")
async def test_the_age_is_true_and_a_list_grows_old_only_so_far() -> None:
    server = Server()
    assert await server.paths() == (101, None)
    server.folders[""].append(file("z.ipynb"))
    server.now = 7.5
    assert await server.paths() == (101, 7.5)
    assert server.asked == 1
    server.now = FRESH_SECONDS + 1
    assert await server.paths() == (101, FRESH_SECONDS + 1), "still given"
    await until(lambda: not server.is_walking, "walked again behind the caller's back")
    assert server.asked == 2
    server.now += 2
    assert await server.paths() == (102, 2.0)
    server.folders[""].append(file("zz.ipynb"))
    server.now += KEEP_SECONDS + 1
    assert await server.paths() == (103, None), "too old to be given"
    assert server.asked == 3


@requirement("remote:list:age")
async def test_a_walk_behind_the_callers_back_may_fail_and_the_next_caller_hears_of_it() -> None:
    server = Server()
    await server.paths()
    server.now = FRESH_SECONDS + 1

    async def broken(_folder: DocPath | None) -> list[FileInfo]:
        server.asked += 1
        raise Unavailable("gone")

    server.snapshots._list_folder = broken  # pyright: ignore[reportPrivateUsage]
    assert await server.paths() == (101, FRESH_SECONDS + 1)
    await until(lambda: not server.is_walking, "the walk")
    assert server.asked == 2
    server.now += KEEP_SECONDS
    with pytest.raises(Unavailable):
        await server.paths()


@requirement("remote:list:age")
async def test_refresh_asks_after_it_was_asked_for() -> None:
    """A walk that is under way does not count: it may have looked before."""
    server = Server()
    server.open.clear()
    first = asyncio.create_task(server.paths())
    await until(lambda: server.asked == 1, "the first walk")
    joined = asyncio.create_task(server.paths())
    refreshed = asyncio.create_task(server.paths(refresh=True))
    await asyncio.sleep(0)
    server.folders[""].append(file("z.ipynb"))
    server.now = 3
    server.open.set()
    assert await first == (101, None)
    assert (await joined)[1] == 3.0, "who joined a walk is told when it began"
    assert await refreshed == (102, None)
    assert server.asked == 2


@requirement("remote:list:small")
async def test_a_short_list_is_asked_for_each_time() -> None:
    server = Server(QUICK_FILES)
    assert await server.paths() == (100, None)
    server.folders[""].pop()
    assert await server.paths() == (99, None)
    assert server.asked == 2


@requirement("remote:list:small")
async def test_a_short_list_that_took_long_is_kept() -> None:
    server = Server(1)
    server.open.clear()
    waiting = asyncio.create_task(server.paths())
    await until(lambda: server.asked == 1, "the walk")
    server.now = 5
    server.open.set()
    await waiting
    assert await server.paths() == (1, 5.0)
    assert server.asked == 1


@requirement("remote:list:own")
async def test_our_own_changes_are_in_the_list_at_once() -> None:
    server = Server()
    server.folders["d"] = [file("d/in.ipynb")]
    server.folders[""].append(file("d", FileKind.DIRECTORY))
    await server.paths()
    server.snapshots.changed(file("new.ipynb"))
    server.snapshots.changed(file("new.txt", FileKind.FILE))
    server.snapshots.changed(file(".hidden/new.ipynb"))
    assert (await server.paths())[0] == 103
    server.snapshots.moved(DocPath("new.ipynb"), file("newer.ipynb"))
    listing = await server.snapshots.listing(None, ".ipynb")
    paths = [found.path for found in listing.files]
    assert "newer.ipynb" in paths
    assert "new.ipynb" not in paths
    assert paths == sorted(paths)
    server.snapshots.gone(DocPath("d"))
    assert (await server.paths())[0] == 102
    assert server.asked == 2, "the two folders of the first walk"
    server.snapshots.moved(DocPath("d"), file("e", FileKind.DIRECTORY))
    assert (await server.paths())[1] is None, "what came along with a folder is not known: asked again"


@requirement("remote:list:own")
async def test_a_file_that_is_made_while_a_walk_goes_on_is_in_its_list() -> None:
    server = Server()
    server.open.clear()
    walking = asyncio.create_task(server.paths())
    await until(lambda: server.asked == 1, "the walk")
    server.snapshots.changed(file("new.ipynb"))
    server.snapshots.gone(DocPath("n0000.ipynb"))
    server.snapshots.gone(DocPath("n0001.ipynb"))
    server.open.set()
    assert (await walking)[0] == 101 + 1 - 2


@requirement("remote:list:bounded")
async def test_an_endless_tree_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(folder: DocPath | None) -> list[FileInfo]:
        here = f"{folder}/" if folder else ""
        return [file(f"{here}d", FileKind.DIRECTORY), file(f"{here}n.ipynb")]

    listing = await Snapshots(endless).listing(None, ".ipynb")
    assert len(listing.files) == snapshots.MAX_DEPTH + 1
    assert "more than 40 deep" in listing.cut

    async def wide(folder: DocPath | None) -> list[FileInfo]:
        here = f"{folder}/" if folder else ""
        return [file(f"{here}d{number}", FileKind.DIRECTORY) for number in range(10)] + [file(f"{here}n.ipynb")]

    monkeypatch.setattr(snapshots, "MAX_FOLDERS", 200)
    listing = await Snapshots(wide).listing(None, ".ipynb")
    assert len(listing.files) == 1 + 200
    assert "more than 200 folders" in listing.cut
    monkeypatch.setattr(filerules, "MAX_LISTED", 50)
    listing = await Snapshots(wide).listing(None, ".ipynb")
    assert len(listing.files) == 50
    assert "more than 50 files" in listing.cut


@requirement("remote:list:bounded")
async def test_a_walk_whose_time_is_up_between_two_folders_ends_with_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def chain(folder: DocPath | None) -> list[FileInfo]:
        # Each folder has one folder in it: nothing else is being asked for when the time is up.
        here = f"{folder}/" if folder else ""
        if folder is not None:
            await asyncio.sleep(0.2)
        return [file(f"{here}d", FileKind.DIRECTORY), file(f"{here}n.ipynb")]

    monkeypatch.setattr(snapshots, "WALK_SECONDS_ASKING", 0.1)
    listing = await Snapshots(chain).listing(None, ".ipynb")
    assert len(listing.files) == 2
    assert "the server was asked for 0.1 s" in listing.cut


@requirement("remote:list:bounded")
async def test_the_folder_that_was_asked_for_must_be_there() -> None:
    server = Server()
    with pytest.raises(NotFound):
        await server.snapshots.listing(DocPath("nowhere"), ".ipynb")
    server.folders[""].append(file("went", FileKind.DIRECTORY))
    assert (await server.paths())[0] == 101, "one that went during the walk is passed over"
