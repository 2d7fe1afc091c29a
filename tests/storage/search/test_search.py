"""Search on both engines, with the real model."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from cellwright.core.types import Secret
from cellwright.storage.database import Database
from cellwright.storage.location import Location, open_database
from cellwright.storage.search import entries, vectors, words
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.embeddings.port import Embedder, EmbeddingChoice
from cellwright.storage.search.indexed import IndexedSearch
from cellwright.storage.search.opening import open_search
from cellwright.storage.search.port import LONGEST_OF_A_HIT, Entry, Key, Mode, Query
from cellwright.storage.search.schema import MIGRATIONS
from requirements import requirement
from storage_support import PostgresServer

pytestmark = pytest.mark.anyio

BUILTIN = Models(EmbeddingChoice())
"""Loaded once for all tests."""
NAME = "all-MiniLM-L6-v2"
CAT = "The kitten slept on the warm rug."
DISK = "A transaction that was committed survives a power cut."
MONEY = "def compound_interest(principal, rate): return principal * (1 + rate)"


class Shelf:
    """A database with its index."""

    def __init__(self, database: Database, index: IndexedSearch) -> None:
        self.database = database
        self.index = index

    async def put(self, *given: Entry) -> None:
        await self.database.write(lambda tx: self.index.put(tx, given))

    async def remove(self, thing: str, part: str | None = None, tenant: str = "ann") -> None:
        await self.database.write(lambda tx: self.index.remove(tx, tenant, "pad", thing, part))

    async def found(self, text: str, mode: Mode = Mode.TEXT, tenant: str = "ann", **more: Any) -> list[str]:
        found = await self.index.search(Query(tenant, text, mode=mode, **more))
        return [hit.entry.key.part for hit in found.hits]

    async def embedded(self) -> None:
        await until(lambda: self.database.read(lambda tx: not entries.is_behind(tx)))


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 120.0) -> float:
    """Wait for a condition; how long that took. What embeds lets everybody else go first, so on a busy machine it takes its time."""
    began = time.monotonic()
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - what is waited for happens in another thread or process
            await asyncio.sleep(0.02)
    return time.monotonic() - began


def cell(part: str, text: str, tenant: str = "ann", thing: str = "p", **more: Any) -> Entry:
    return Entry(Key(tenant, "pad", thing, part), text, **more)


OpenShelf = Callable[..., Shelf]


@pytest.fixture
async def open_shelf(where: Location) -> AsyncGenerator[OpenShelf]:
    """Opens the shelf of one place, as often as wanted: as several processes would."""
    opened: list[Shelf] = []

    def at(models: Models | None = BUILTIN) -> Shelf:
        database = open_database(where, MIGRATIONS)
        opened.append(Shelf(database, open_search(database, models)))
        return opened[-1]

    yield at
    for shelf in opened:
        await shelf.index.close()
        await shelf.database.close()


@pytest.fixture
def shelf(open_shelf: OpenShelf) -> Shelf:
    return open_shelf()


@pytest.fixture
def text_shelf(open_shelf: OpenShelf) -> Shelf:
    return open_shelf(None)


# -- words -----------------------------------------------------------------------------------------------------------------------


@requirement("search:text:at-once", "search:text:words")
async def test_words_are_found_at_once_in_any_form(text_shelf: Shelf) -> None:
    await text_shelf.put(
        cell("a", "Connecting to the café's servers"),
        cell("b", "class HTTPServer:\n    def getUserName(self): return snake_case_name"),
        cell("c", "for item in items: os.path.join(item)"),
        cell("d", "日本 and https://host.example/x?y=1"),
    )
    assert await text_shelf.found("connected") == ["a"]
    assert await text_shelf.found("CAFE") == ["a"]
    assert await text_shelf.found("user") == ["b"]
    assert await text_shelf.found("snake_case") == ["b"]
    assert await text_shelf.found("path join") == ["c"]
    assert await text_shelf.found("for") == ["c"]
    assert await text_shelf.found("日本") == ["d"]
    assert await text_shelf.found("host.example") == ["d"]
    assert (await text_shelf.found("server getUserName"))[0] == "b"
    assert set(await text_shelf.found("servers items")) == {"a", "b", "c"}
    assert await text_shelf.found("absent") == []


@requirement("search:text:hostile")
async def test_a_question_is_only_words(text_shelf: Shelf) -> None:
    await text_shelf.put(cell("a", "alpha beta"), cell("b", "secret", tenant="bob"))
    mine, theirs = words.scope_token("t", "ann"), words.scope_token("t", "bob")
    for question in (
        "alpha OR secret",
        'alpha" OR scope : "x',
        "alpha NEAR(secret)",
        f"alpha {theirs}",
        f"scope:{theirs} alpha",
        "alpha & !beta:*",
        "alpha') OR 1=1 --",
        "alpha " + "x" * 100_000,
        "alpha " + "x_" * 50_000,
        "alpha " * 5_000,
        "alpha \\ ' : * ( ) { } ^ - + < > | % ?",
    ):
        assert await text_shelf.found(question) == ["a"], question
    for nothing in ("", "  ", "''", "*", "🎉", mine, theirs):
        assert await text_shelf.found(nothing) == [], nothing


@requirement("search:text:signs")
async def test_what_is_written_without_spaces_is_found_inside_a_text(text_shelf: Shelf) -> None:
    await text_shelf.put(
        cell("ja", "東京と日本語の文章を検索する"),
        cell("today", "本日は晴天なり"),
        cell("ko", "학교에서 배웠다"),
        cell("kana", "ﾃﾞｰﾀベース"),
        cell("wide", "Ｐｙｔｈｏｎ言語 naïve"),
        cell("en", "alpha " + "y" * 3_000),
    )
    assert await text_shelf.found("日本") == ["ja"]
    assert await text_shelf.found("検") == ["ja"]
    assert (await text_shelf.found("日本語の検索"))[0] == "ja"
    assert set(await text_shelf.found("日本" * 900)) == {"ja", "today"}
    assert await text_shelf.found("学校" * 900) == []
    assert await text_shelf.found("학교") == ["ko"]
    assert await text_shelf.found("データ") == ["kana"]
    assert await text_shelf.found("テー") == []
    assert await text_shelf.found("python言語") == ["wide"]
    assert await text_shelf.found("naive") == ["wide"]
    assert await text_shelf.found("y" * 3_000) == ["en"]
    assert await text_shelf.found("z" * 3_000) == []
    every = await text_shelf.index.search(Query("ann", "日本" * 900, mode=Mode.TEXT))
    assert all(hit.score > 0 for hit in every.hits)


@requirement("search:text:hostile")
async def test_a_text_cannot_pretend_to_be_in_a_scope(text_shelf: Shelf) -> None:
    pretending = " ".join(words.scope_token(kind, value) for kind, value in (("t", "ann"), ("n", "n"), ("g", "g")))
    await text_shelf.put(cell("a", f"alpha {pretending}"), cell("b", f"alpha {pretending}", tenant="bob"))
    assert await text_shelf.found("alpha") == ["a"]
    assert await text_shelf.found("alpha", namespaces=("n",)) == []
    assert await text_shelf.found("alpha", tags=("g",)) == []


@requirement("search:text:at-once")
async def test_a_text_of_a_mebibyte_of_different_words_is_stored_and_found(text_shelf: Shelf) -> None:
    await text_shelf.put(cell("a", " ".join(f"w{number}x" for number in range(130_000))), cell("b", "é" * 500_000))
    assert await text_shelf.found("w77x") == ["a"]


# -- meaning ---------------------------------------------------------------------------------------------------------------------


@requirement("search:meaning:soon", "search:filters")
async def test_meaning_is_found_within_two_seconds_and_filters_hold(shelf: Shelf) -> None:
    await asyncio.to_thread(BUILTIN.load)
    await shelf.put(
        cell("cat", CAT, namespace="home", tags=("pet", "x")),
        cell("disk", DISK, namespace="work"),
        cell("money", MONEY, language="py", tags=("x",)),
    )

    async def sleeping_cat() -> bool:
        return (await shelf.found("a sleepy feline", Mode.SEMANTIC))[:1] == ["cat"]

    assert await until(sleeping_cat) < 2.0
    await shelf.embedded()
    found = await shelf.index.search(Query("ann", "durability of writes"))
    assert (found.mode, found.embedder, found.hits[0].entry.key.part) == (Mode.HYBRID, NAME, "disk")
    for mode in (Mode.SEMANTIC, Mode.HYBRID):
        assert await shelf.found("a sleepy feline", mode, namespaces=("work", "none")) in (["disk"], [])
        assert "cat" not in await shelf.found("a sleepy feline", mode, tags=("y",))
        assert (await shelf.found("money that grows", mode, tags=("x", "q"), limit=1)) == ["money"]
        assert (await shelf.found("money that grows", mode, tags=("pet",), limit=1)) in (["cat"], [])
        assert (await shelf.found("sleepy feline", mode, kinds=("other",))) == []
        assert (await shelf.found("sleepy feline", mode, tenant="bob")) == []


@requirement("search:filters")
async def test_what_the_filter_leaves_is_found_among_hundreds_that_are_nearer(open_shelf: OpenShelf) -> None:
    shelf = open_shelf(StubModels())
    await shelf.put(*(cell(f"n{number}", f"needle {number}", namespace="many") for number in range(250)))
    await shelf.put(cell("one", "other thing", namespace="few", tags=("t",)))
    await shelf.embedded()
    for mode in (Mode.SEMANTIC, Mode.HYBRID):
        assert await shelf.found("needle 7", mode, namespaces=("few",), limit=1) == ["one"]
        assert await shelf.found("needle 7", mode, tags=("t",), limit=1) == ["one"]


class StubModels(Models):
    """A model of few dimensions that is quick and says what it was asked: words count, meaning does not."""

    def __init__(self, name: str = "stub", dimensions: int = 64) -> None:
        super().__init__(EmbeddingChoice("none"))
        self.texts = 0
        self.name = name
        self.dimensions = dimensions

    @property
    def usable(self) -> bool:
        return True

    def load(self) -> Embedder:
        return self

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        rows = np.ones((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.split():
                row[words.scope_number("w", word) % self.dimensions] += 2
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@requirement("search:meaning:changed-only")
async def test_only_a_changed_text_is_embedded_again(open_shelf: OpenShelf) -> None:
    models = StubModels()
    shelf = open_shelf(models)
    await shelf.put(*(cell(f"c{number}", f"text {number}", title="old") for number in range(5)))
    await shelf.embedded()
    before = models.texts
    await shelf.put(
        *(cell(f"c{number}", f"text {number}", title="new", namespace="n", tags=("t",)) for number in range(5))
    )
    await shelf.embedded()
    assert models.texts == before
    # The filter knows the new namespace, also where the codes were in memory.
    assert len(await shelf.found("text", Mode.SEMANTIC, namespaces=("n",), tags=("t",))) == 5
    await shelf.put(cell("c3", "another text", title="new"))
    await shelf.embedded()
    assert models.texts == before + 1 + 1


@requirement("search:removed")
async def test_removed_is_gone_also_for_others_who_have_it_in_memory(open_shelf: OpenShelf) -> None:
    models = StubModels()
    shelf, other = open_shelf(models), open_shelf(models)
    await shelf.put(*(cell(str(number), f"text {number}") for number in range(6)), cell("x", "text", thing="q"))
    await shelf.embedded()
    assert len(await other.found("text 3", Mode.SEMANTIC)) == 7
    await shelf.remove("p", "3")
    await shelf.put(cell("4", ""))
    left = {"0", "1", "2", "5", "x"}
    for mode in Mode:
        assert set(await other.found("text 3", mode)) == left
    await shelf.remove("p")
    # Another tenant's entry may get the same number.
    await shelf.put(cell("b", "text 3", tenant="bob"))
    await shelf.embedded()
    for mode in Mode:
        assert await other.found("text 3", mode) == ["x"]
        assert await other.found("text 3", mode, tenant="bob") == ["b"]


@requirement("search:meaning:restart", "search:model:none")
async def test_what_waits_is_done_by_the_next_process_that_has_a_model(open_shelf: OpenShelf) -> None:
    without = open_shelf(None)
    await without.put(cell("cat", CAT))
    found = await without.index.search(Query("ann", "kitten", mode=Mode.SEMANTIC))
    assert (found.mode, found.embedder, len(found.hits)) == (Mode.TEXT, None, 1)
    await without.index.close()
    shelf = open_shelf()
    await shelf.found("anything", Mode.HYBRID)
    await shelf.embedded()
    assert await shelf.found("a sleepy feline", Mode.SEMANTIC) == ["cat"]


@requirement("search:model:changed")
async def test_another_model_embeds_everything_again_and_search_goes_on(open_shelf: OpenShelf) -> None:
    first, second = StubModels("first"), StubModels("second", 128)
    shelf = open_shelf(first)
    await shelf.put(*(cell(str(number), f"text {number}") for number in range(20)))
    await shelf.embedded()
    changed = open_shelf(second)
    assert "7" in await changed.found("text 7", Mode.HYBRID, limit=3)

    async def all_again() -> bool:
        found = await changed.index.search(Query("ann", "text 7", mode=Mode.SEMANTIC, limit=50))
        return (found.embedder, len(found.hits)) == ("second", 20)

    await until(all_again)
    assert second.texts >= 20
    late = await shelf.index.search(Query("ann", "text 7"))
    assert (late.mode, late.embedder) == (Mode.TEXT, None)
    await shelf.put(cell("new", "text new"))
    assert "new" in await shelf.found("new")
    await changed.found("text", Mode.HYBRID)
    await changed.embedded()
    assert "new" in await changed.found("text new", Mode.SEMANTIC)


@requirement("search:loop")
async def test_the_loop_goes_on_while_texts_are_embedded(shelf: Shelf) -> None:
    await asyncio.to_thread(BUILTIN.load)
    await shelf.put(*(cell(str(number), f"{number} {DISK} " * 10) for number in range(8)))
    turns, longest = 0, 0.0

    async def ticking() -> bool:
        nonlocal turns, longest
        began = time.thread_time()
        await asyncio.sleep(0)
        turns, longest = turns + 1, max(longest, time.thread_time() - began)
        return await shelf.database.read(lambda tx: not entries.is_behind(tx))

    assert await until(ticking) > 0.1
    # By processor time and by count: how long a turn takes on the wall is the machine's matter.
    assert longest < 0.1
    assert turns > 3


@requirement("search:processes")
async def test_two_at_once_embed_everything_once(open_shelf: OpenShelf) -> None:
    shelves = [open_shelf(StubModels()), open_shelf(StubModels())]

    async def write(number: int, shelf: Shelf) -> None:
        for turn in range(15):
            await shelf.put(cell(f"{number}-{turn}", f"text {number} {turn}"))

    await asyncio.gather(*(write(number, shelf) for number, shelf in enumerate(shelves)))
    for shelf in shelves:
        await shelf.embedded()
        found = await shelf.found("text 1", Mode.SEMANTIC, limit=50)
        assert len(found) == len(set(found)) == 30


@requirement("search:reindex")
async def test_what_was_dropped_is_made_again_from_the_entries(open_shelf: OpenShelf) -> None:
    shelf = open_shelf(StubModels())
    await shelf.put(*(cell(str(number), f"text {number}") for number in range(7)), cell("empty", ""))
    await shelf.embedded()
    for table in ("search_vectors", "search_pending"):
        await shelf.database.write(lambda tx, table=table: tx.run(f"DELETE FROM {table}"))
    await shelf.database.write(shelf.index._words.clear)
    assert await shelf.found("text") == []
    # What embeds behind the scenes would take some of the work, and nobody is told of its progress.
    await shelf.index.indexer.close()
    told: list[tuple[int, int]] = []
    assert await shelf.index.reindex(lambda done, total: told.append((done, total))) == 8
    assert told[0] == (8, 8)
    assert told[-1] == (7, 7)
    for mode in (Mode.TEXT, Mode.SEMANTIC):
        assert len(await shelf.found("text", mode)) == 7


@requirement("search:tenants")
async def test_scopes_with_the_same_digest_are_told_apart_by_the_rows(
    open_shelf: OpenShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No two values with the same digest are known; so every value gets the same one here.
    def same(kind: str, _value: str) -> int:
        return "tkngw".index(kind)

    monkeypatch.setattr(words, "scope_number", same)
    monkeypatch.setattr(vectors, "scope_number", same)
    monkeypatch.setattr(vectors, "remembered_number", same)
    shelf = open_shelf(StubModels())
    await shelf.put(*(cell(f"b{number}", "alpha", tenant="bob", namespace="m") for number in range(30)))
    await shelf.put(cell("a", "alpha beta gamma", namespace="n", tags=("t",)), cell("z", "alpha", namespace="m"))
    await shelf.embedded()
    for mode in Mode:
        assert set(await shelf.found("alpha", mode)) == {"a", "z"}
        assert await shelf.found("alpha", mode, namespaces=("n",), limit=1) == ["a"]
        assert await shelf.found("alpha", mode, tags=("t",), limit=1) == ["a"]
        assert await shelf.found("alpha", mode, tags=("u",)) == []


@requirement("search:no-pgvector")
async def test_without_pgvector_search_is_by_words_and_writes_go_on(postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.url().reveal(), autocommit=True) as connection:
        connection.execute("CREATE ROLE poor LOGIN")
        connection.execute("CREATE DATABASE without_vectors")
    inside = postgres_server.url().reveal().replace("/postgres?", "/without_vectors?")
    with psycopg.connect(inside, autocommit=True) as connection:
        connection.execute("GRANT CREATE, USAGE ON SCHEMA public TO poor")
    database = open_database(Secret(inside.replace("//postgres:", "//poor:")), MIGRATIONS)
    shelf = Shelf(database, open_search(database, StubModels()))
    await shelf.put(cell("a", "alpha"))
    thread = shelf.index.indexer._background._thread
    assert thread is not None
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()
    await shelf.put(cell("b", "beta"))
    await shelf.remove("p", "a")
    found = await shelf.index.search(Query("ann", "beta"))
    assert (found.mode, found.embedder, len(found.hits)) == (Mode.TEXT, None, 1)
    await shelf.index.close()
    await database.close()


# -- long texts ------------------------------------------------------------------------------------------------------------------


@requirement("costs:ceiling")
async def test_a_hit_has_the_beginning_of_a_long_text_and_all_of_it_is_told(text_shelf: Shelf) -> None:
    lines = "\N{GRINNING FACE} word\n" * 20_000
    long, short = f"begin\n{lines}needle\n{lines}", "a short word, and a needle"
    await text_shelf.put(cell("long", long), cell("short", short), cell("bob's", long, tenant="bob"))
    found = await text_shelf.index.search(Query("ann", "needle", mode=Mode.TEXT))
    texts = {hit.entry.key.part: hit.entry.text for hit in found.hits}
    assert texts == {"short": short, "long": long[:LONGEST_OF_A_HIT]}
    told = await text_shelf.index.of_each(found.hits, lambda entry: (entry.key.part, entry.text.count("needle")))
    assert dict(told) == {"short": 1, "long": 1}
    assert await text_shelf.index.of_each([hit for hit in found.hits if hit.row is None], lambda one: one.text) == [
        short
    ]
    await text_shelf.remove("p", "long")
    gone = await text_shelf.index.of_each(found.hits, lambda entry: len(entry.text))
    assert sorted(gone) == [len(short), LONGEST_OF_A_HIT]
