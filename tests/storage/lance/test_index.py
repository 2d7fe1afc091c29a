"""Search with an index in LanceDB: the contract of search, answered by LanceDB, and what becomes of an index that is lost or stale."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cellwright.app.parts import search_of
from cellwright.app.settings import Settings
from cellwright.core.errors import ConfigError
from cellwright.storage.database import Transaction
from cellwright.storage.lance import feed as lance_feed
from cellwright.storage.lance import state as lance_state
from cellwright.storage.lance import table as lance_table
from cellwright.storage.lance.opening import open_lance_search
from cellwright.storage.lance.place import FolderPlace, lance_place
from cellwright.storage.lance.rows import IndexedRow
from cellwright.storage.lance.search import LanceSearch
from cellwright.storage.location import Location, open_database
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.opening import open_search
from cellwright.storage.search.port import Mode, Query
from cellwright.storage.search.schema import MIGRATIONS
from requirements import requirement
from storage.search.test_search import (
    BUILTIN,
    Shelf,
    StubModels,
    cell,
    test_a_question_is_only_words,
    test_a_text_cannot_pretend_to_be_in_a_scope,
    test_another_model_embeds_everything_again_and_search_goes_on,
    test_only_a_changed_text_is_embedded_again,
    test_removed_is_gone_also_for_others_who_have_it_in_memory,
    test_two_at_once_embed_everything_once,
    test_what_is_written_without_spaces_is_found_inside_a_text,
    test_what_the_filter_leaves_is_found_among_hundreds_that_are_nearer,
    test_words_are_found_at_once_in_any_form,
    until,
)

__all__ = [
    "test_a_question_is_only_words",
    "test_a_text_cannot_pretend_to_be_in_a_scope",
    "test_another_model_embeds_everything_again_and_search_goes_on",
    "test_only_a_changed_text_is_embedded_again",
    "test_removed_is_gone_also_for_others_who_have_it_in_memory",
    "test_two_at_once_embed_everything_once",
    "test_what_is_written_without_spaces_is_found_inside_a_text",
    "test_what_the_filter_leaves_is_found_among_hundreds_that_are_nearer",
    "test_words_are_found_at_once_in_any_form",
]
pytestmark = pytest.mark.anyio


class LanceShelf(Shelf):
    """Asks once LanceDB has everything, and sees that it was LanceDB that answered."""

    index: LanceSearch
    has_model = False

    @property
    def answered(self) -> int:
        return self.index.feed.answered

    async def caught_up(self) -> float:
        self.index.feed.wake()

        def current(tx: Any) -> bool:
            if self.index.feed.current(tx, "nobody") is None:
                return False
            return not lance_state.is_behind(tx, lance_state.read_index(tx, self.index.feed.place))

        return await until(lambda: self.database.read(current))

    async def found(self, text: str, mode: Mode = Mode.TEXT, tenant: str = "ann", **more: Any) -> list[str]:
        async with asyncio.timeout(20):
            while True:
                await self.caught_up()
                before = self.answered
                found = await super().found(text, mode, tenant, **more)
                # A vector that was written in between makes the database answer, as it should; then ask again.
                if self.answered > before or not found:
                    return found

    async def at_once(self, text: str) -> list[str]:
        return await super().found(text)

    async def is_answered_by_lance(self, text: str, mode: Mode, count: int) -> bool:
        """Ask now, whoever answers; it must be all of them."""
        before = self.answered
        assert len(await super().found(text, mode)) == count
        return self.answered > before


class CountingModels(StubModels):
    """Counts texts of entries alone."""

    stored = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.stored += sum(text.startswith("text ") for text in texts)
        return super().embed(texts)


OpenLance = Callable[..., LanceShelf]


@pytest.fixture
async def open_shelf(where: Location, tmp_path: Path) -> AsyncGenerator[OpenLance]:
    opened: list[LanceShelf] = []

    def at(models: Models | None = BUILTIN) -> LanceShelf:
        database = open_database(where, MIGRATIONS)
        opened.append(LanceShelf(database, open_lance_search(database, FolderPlace(tmp_path / "lance"), models)))
        opened[-1].has_model = models is not None
        return opened[-1]

    yield at
    for shelf in opened:
        await shelf.index.close()
        await shelf.database.close()


@pytest.fixture
def text_shelf(open_shelf: OpenLance) -> LanceShelf:
    return open_shelf(None)


async def full_shelf(shelf: LanceShelf, count: int = 6) -> LanceShelf:
    await shelf.put(*(cell(str(number), f"text {number}") for number in range(count)))
    if shelf.has_model:
        await shelf.embedded()
    await shelf.caught_up()
    await until(lambda: shelf.database.read(is_free))
    return shelf


def is_free(tx: Transaction) -> bool:
    """Whether nobody writes to the index, nor tidies it."""
    return tx.row("SELECT 1 FROM lance_indexes WHERE holder != ''") is None


def tables(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "lance").glob("*.lance"))


@requirement("lance:at-once", "lance:soon", "lance:contract")
async def test_found_at_once_and_in_lance_within_two_seconds(text_shelf: LanceShelf) -> None:
    await full_shelf(text_shelf)
    # Another one has the lease: what is written now cannot be in the index yet.
    other = lance_state.Lease(text_shelf.index.feed.place, "other")
    assert await text_shelf.database.write(lambda tx: lance_state.take_lease(tx, other, time.time()))
    await text_shelf.put(cell("new", "another"))
    before = text_shelf.answered
    assert await text_shelf.at_once("another") == ["new"]
    assert text_shelf.answered == before
    await text_shelf.database.write(lambda tx: lance_state.give_back(tx, other))
    assert await text_shelf.caught_up() < 2.0
    assert await text_shelf.found("another") == ["new"]
    await text_shelf.remove("p", "new")
    assert await text_shelf.at_once("another") == []
    assert await text_shelf.found("another") == []


@requirement("lance:soon")
async def test_what_a_process_without_lance_writes_is_followed(open_shelf: OpenLance, where: Location) -> None:
    shelf = await full_shelf(open_shelf(None))
    database = open_database(where, MIGRATIONS)
    plain = Shelf(database, open_search(database))
    await plain.put(cell("theirs", "foreign words"))
    await plain.remove("p", "3")
    assert await shelf.caught_up() < 2.0
    assert await shelf.found("foreign") == ["theirs"]
    assert "3" not in await shelf.found("text")
    await database.close()


@requirement("lance:unreadable", "lance:embedded-once")
@pytest.mark.parametrize("damage", ["truncate", "delete", "data"])
async def test_an_unreadable_index_is_made_anew(
    open_shelf: OpenLance, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_feed, "FAILED_SECONDS", 0.3)
    models = CountingModels()
    first = await full_shelf(open_shelf(models))
    before, stored = tables(tmp_path), models.stored
    if damage == "delete":
        # In one step: what looks in between begins a new table in the same folder, which is then not empty.
        shutil.rmtree((tmp_path / "lance").rename(tmp_path / "gone"))
    for file in (tmp_path / "lance").rglob("*.lance" if damage == "data" else "*.manifest"):
        if file.is_file():
            file.write_bytes(b"")
    fresh = open_shelf(models)
    for shelf in (first, fresh):
        assert set(await shelf.at_once("text")) == {str(number) for number in range(6)}

    async def is_new() -> bool:
        # What a process has in memory may answer until it looks.
        for shelf in (first, fresh):
            assert len(await shelf.at_once("text")) == 6
        return len(tables(tmp_path)) == 1 and not set(tables(tmp_path)) & set(before)

    await until(is_new)
    for shelf in (first, fresh):
        for mode in (Mode.SEMANTIC, Mode.TEXT):
            await until(lambda shelf=shelf, mode=mode: shelf.is_answered_by_lance("text", mode, 6))
    assert models.stored == stored


@requirement("lance:stale")
async def test_an_index_of_another_past_is_made_anew(open_shelf: OpenLance, tmp_path: Path) -> None:
    shelf = await full_shelf(open_shelf(None))
    await shelf.index.close()
    shutil.copytree(tmp_path / "lance", tmp_path / "old")
    later = open_shelf(None)
    await later.put(cell("later", "afterwards"))
    assert await later.found("afterwards") == ["later"]
    await later.index.close()
    before = tables(tmp_path)
    shutil.rmtree(tmp_path / "lance")
    (tmp_path / "old").rename(tmp_path / "lance")
    last = open_shelf(None)
    assert await last.found("afterwards") == ["later"]
    assert tables(tmp_path) != before


@requirement("lance:rechecked")
async def test_what_the_rows_do_not_bear_out_is_not_shown(open_shelf: OpenLance) -> None:
    shelf = await full_shelf(open_shelf(None))
    # As if the index were wrong about whose these are, and nobody had noticed.
    table = shelf.index.feed._table
    assert table is not None
    table._table.update(where="id > 0", values={"tenant": "bob"})
    assert len(table.by_words(Query("bob", "text"), ["text"], every=True, limit=10)) == 6
    found = await shelf.index.search(Query("bob", "text", mode=Mode.TEXT))
    assert found.hits == ()


@requirement("lance:lease")
async def test_one_writes_at_a_time_and_a_lease_lapses(open_shelf: OpenLance) -> None:
    shelf = await full_shelf(open_shelf(None))
    place = shelf.index.feed.place
    mine, other = lance_state.Lease(place, "me"), lance_state.Lease(place, "you")

    def take(lease: lance_state.Lease, now: float) -> Any:
        return shelf.database.write(lambda tx: lance_state.take_lease(tx, lease, now))

    await until(lambda: take(mine, 1e12))
    assert not await take(other, 1e12 + lance_state.LEASE_SECONDS - 1)
    assert await take(mine, 1e12 + 1)
    await shelf.put(cell("new", "another"))
    assert await shelf.index.feed.step() == 0
    assert await take(other, 1e12 + lance_state.LEASE_SECONDS + 2)
    begun = await shelf.database.write(lambda tx: lance_state.begin_batch(tx, mine, "any", 1e12))
    assert begun is None
    await shelf.database.write(lambda tx: lance_state.give_back(tx, mine))
    assert not await take(mine, 1e12 + 3)
    await shelf.database.write(lambda tx: lance_state.give_back(tx, other))
    assert await shelf.found("another") == ["new"]


@requirement("lance:dimensions")
async def test_another_length_of_vectors_makes_it_anew(open_shelf: OpenLance, tmp_path: Path) -> None:
    shelf = await full_shelf(open_shelf(StubModels("first")))
    before = tables(tmp_path)
    await shelf.index.close()
    changed = open_shelf(StubModels("second", 128))
    await changed.index.search(Query("ann", "text"))
    await until(lambda: _model_is(changed, "second"))
    await changed.embedded()
    assert len(await changed.found("text", Mode.SEMANTIC)) == 6
    assert tables(tmp_path) != before


async def _model_is(shelf: Shelf, name: str) -> bool:
    row = await shelf.database.read(lambda tx: tx.row("SELECT model FROM search_state"))
    return row == (name,)


@requirement("lance:many-vectors", "lance:tidy")
async def test_many_vectors_are_indexed_and_pieces_joined(
    open_shelf: OpenLance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_table, "FLAT_BELOW", 200)
    monkeypatch.setattr(lance_feed, "UNTIDY", 1)
    # However long one tidying takes: the next is not put off for ten times as long.
    monkeypatch.setattr(lance_feed, "TIDY_SHARE", 0)
    shelf = await full_shelf(open_shelf(StubModels()), 260)
    table = shelf.index.feed._table
    assert table is not None

    async def is_indexed() -> bool:
        return any("vector" in index.columns for index in table._table.list_indices())

    # The feed itself has tidied: nothing else makes this index.
    await until(is_indexed)
    await until(lambda: shelf.database.read(is_free))
    for number in (7, 123, 259):
        assert str(number) in await shelf.found(f"text {number}", Mode.SEMANTIC, limit=25)
    # From here on nobody else writes to the table or tidies it: what both do at once is not joined.
    await shelf.index.feed.close()
    stamp = table.stamp()
    assert stamp is not None
    # How many pieces the feed left depends on how much came at once; what an index covers is not joined with what it does not.
    before = pieces(table)
    for number in range(12):
        table.write([IndexedRow(10_000 + number, cell(str(number), "piece"), "", None)], [], stamp)
    assert pieces(table) == before + 12
    table.tidy()
    assert pieces(table) <= before + 1


def pieces(table: lance_table.LanceTable) -> int:
    return table._table.stats()["fragment_stats"]["num_fragments"]


@requirement("lance:shared")
async def test_two_databases_have_their_indexes_in_one_place(open_shelf: OpenLance, tmp_path: Path) -> None:
    ours = await full_shelf(open_shelf(None))
    database = open_database(tmp_path / "other.db", MIGRATIONS)
    theirs = LanceShelf(database, open_lance_search(database, FolderPlace(tmp_path / "lance")))
    await theirs.put(cell("b", "text of another database"))
    assert await theirs.found("text") == ["b"]
    await theirs.index.reindex()
    assert len(tables(tmp_path)) == 2
    assert len(await ours.found("text")) == 6
    await theirs.index.close()
    await database.close()


@requirement("lance:reindex")
async def test_reindex_makes_it_anew(open_shelf: OpenLance, tmp_path: Path) -> None:
    shelf = await full_shelf(open_shelf(StubModels()))
    before = tables(tmp_path)
    told: list[tuple[int, int]] = []
    assert await shelf.index.reindex(lambda done, total: told.append((done, total))) == 6
    assert told[-1] == (6, 6)
    assert tables(tmp_path) != before
    for mode in Mode:
        assert len(await shelf.found("text", mode)) == 6


@requirement("lance:setting")
def test_the_setting_names_a_folder_and_the_rest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(root=tmp_path, state_dir=tmp_path, search_index="lancedb")
    assert lance_place("", tmp_path) == FolderPlace(tmp_path / "lance")
    assert lance_place(str(tmp_path / "x"), tmp_path) == FolderPlace(tmp_path / "x")
    with pytest.raises(ConfigError, match="kind of place"):
        lance_place("gs://bucket/x", tmp_path)
    database = open_database(tmp_path / "db", MIGRATIONS)
    assert isinstance(search_of(settings, database), LanceSearch)
    # As where it is not installed.
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(ConfigError, match="needs LanceDB"):
        search_of(settings, database)
    assert not isinstance(search_of(replace(settings, search_index="database"), database), LanceSearch)


STARTED = """
import sys
from pathlib import Path
from cellwright.app.settings import Settings
from cellwright.app.workspace import make_workspace
make_workspace(Settings(root=Path(sys.argv[1])), "stdio")
print([name for name in sys.modules if "lance" in name or name == "pyarrow"])
"""


@requirement("lance:lazy")
def test_nothing_of_it_is_imported_where_it_is_not_asked_for(tmp_path: Path) -> None:
    started = subprocess.run(
        [sys.executable, "-c", STARTED, tmp_path], check=True, capture_output=True, text=True, timeout=50
    )
    assert started.stdout == "[]\n"


WRITER = """
import asyncio, sys
from pathlib import Path
from cellwright.core.types import Secret
from cellwright.storage.lance.place import FolderPlace
from cellwright.storage.location import open_database
from cellwright.storage.lance.opening import open_lance_search
from cellwright.storage.search.port import Entry, Key
from cellwright.storage.search.schema import MIGRATIONS

async def main(where, folder):
    database = open_database(Secret(where) if "://" in where else Path(where), MIGRATIONS)
    index = open_lance_search(database, FolderPlace(Path(folder)))
    for number in range(100_000):
        entry = Entry(Key("ann", "pad", "p", str(number % 20)), f"text {number}")
        await database.write(lambda tx: index.put(tx, [entry]))
        if number % 7 == 0:
            await database.write(lambda tx: index.remove(tx, "ann", "pad", "p", str(number % 20)))
        print(number, flush=True)
        await asyncio.sleep(0.002)

asyncio.run(main(*sys.argv[1:]))
"""


@requirement("lance:killed")
async def test_a_killed_writer_leaves_what_the_next_puts_right(
    open_shelf: OpenLance, where: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_state, "LEASE_SECONDS", 0.5)
    shelf = await full_shelf(open_shelf(None))
    await shelf.index.feed.close()
    address = str(where) if isinstance(where, Path) else where.reveal()
    arguments = ("-c", WRITER, address, str(tmp_path / "lance"))
    child = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    before = await shelf.database.read(lambda tx: lance_state.read_index(tx, shelf.index.feed.place).stamp)

    async def has_written() -> bool:
        stamp = await shelf.database.read(lambda tx: lance_state.read_index(tx, shelf.index.feed.place).stamp)
        return stamp != before

    await until(has_written)
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()
    await shelf.database.write(lambda tx: tx.run("UPDATE lance_indexes SET held_until = 0"))
    after = open_shelf(None)
    await after.caught_up()
    rows = await after.database.read(lambda tx: tx.rows("SELECT part, body FROM search_entries"))
    for part, body in rows:
        assert str(part) in await after.found(str(body), limit=3)
    table = after.index.feed._table
    assert table is not None
    assert table._table.count_rows() == len(rows) + 1
