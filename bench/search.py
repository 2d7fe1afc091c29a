"""Search: what it finds on questions with known answers, and what it costs in a large tenant, beside its least parts."""

import ast
import asyncio
import inspect
import random
import statistics
import sysconfig
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measure import Pair, Plan, Row, row

from cellwright.storage import entries
from cellwright.storage.database import Transaction
from cellwright.storage.embeddings.models import Models
from cellwright.storage.embeddings.port import Embedder, EmbeddingChoice
from cellwright.storage.search import Entry, Key, Mode, Query
from cellwright.storage.sqlite import SqliteDatabase
from cellwright.storage.sqlite_file import connect, execute
from cellwright.storage.sqlite_search import MIGRATIONS, CodeVectors, SqliteSearch, scope_query
from cellwright.storage.vectors import codes_of, cosines
from cellwright.storage.words import words_of

SEARCH_TARGET = 2.0
NO_WORSE = 1.0
TENANT = "bench"
BEST = 10
SHORTEST = 60


@dataclass(frozen=True)
class Judged:
    """A question, and the text that answers it."""

    question: str
    answer: str
    language: str


def judged() -> Iterator[Judged]:
    """Functions and classes of the standard library: the first sentence of the docstring asks for the rest of it, or for the code."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    for file in sorted([*folder.glob("*.py"), *folder.glob("[a-z]*/*.py")]):
        if {"site-packages", "test", "idlelib", "lib2to3"} & set(file.parts):
            continue
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield from _judged_in(node)


def _judged_in(node: ast.FunctionDef | ast.ClassDef) -> Iterator[Judged]:
    text = inspect.cleandoc(ast.get_docstring(node) or "")
    first, _, rest = text.partition("\n\n")
    question = " ".join(first.split())
    if not 20 <= len(question) <= 200:
        return
    if len(rest) >= SHORTEST:
        yield Judged(question, rest, "md")
    elif isinstance(node, ast.FunctionDef) and len(node.body) > 1:
        node.body = node.body[1:]
        code = textwrap.dedent(ast.unparse(node))
        if len(code) >= SHORTEST:
            yield Judged(question, code, "py")


def some_judged(count: int) -> list[Judged]:
    """So many of them, each question and each answer once."""
    once = list({one.answer: one for one in {one.question: one for one in judged()}.values()}.values())
    return random.Random(1).sample(once, min(count, len(once)))


async def quality(plan: Plan, count: int) -> list[Row]:
    database = SqliteDatabase(plan.work / "judged.db", MIGRATIONS)
    index = SqliteSearch(database, Models(EmbeddingChoice()))
    cases = some_judged(count)
    given = [
        Entry(Key(TENANT, "pad", "p", str(number)), case.answer, language=case.language)
        for number, case in enumerate(cases)
    ]
    # By one without a model, whose thread would take its share of what is timed here.
    await database.write(lambda tx: SqliteSearch(database).put(tx, given))
    began = time.perf_counter()
    await index.indexer.finish(lambda _done, _total: None)
    took = time.perf_counter() - began
    found: dict[Mode, list[float]] = {}
    for mode in Mode:
        found[mode] = [await _reciprocal_rank(index, mode, case, str(n)) for n, case in enumerate(cases)]
    await index.close()
    await database.close()
    recall = {mode: statistics.mean(rank > 0 for rank in ranks) for mode, ranks in found.items()}
    rank = {mode: statistics.mean(ranks) for mode, ranks in found.items()}
    about = f"{len(cases)} judged questions"
    rows = [
        _told(
            f"search: answers not among the best ten, hybrid beside {mode}, {about}",
            1 - recall[Mode.HYBRID],
            1 - recall[mode],
        )
        for mode in (Mode.TEXT, Mode.SEMANTIC)
    ]
    for mode in (Mode.SEMANTIC, Mode.HYBRID):
        rows.append(row(f"search: recall@10, {mode} beside BM25", "", [(recall[mode], recall[Mode.TEXT])]))
        rows.append(row(f"search: mean reciprocal rank, {mode} beside BM25", "", [(rank[mode], rank[Mode.TEXT])]))
    return [*rows, row("search: texts embedded a second", "/s", [(len(cases) / took, len(cases) / took)])]


def _told(name: str, ours: float, floor: float) -> Row:
    return row(name, "", [(ours, max(floor, 1e-9))], NO_WORSE)


async def _reciprocal_rank(index: SqliteSearch, mode: Mode, case: Judged, answer: str) -> float:
    found = await index.search(Query(TENANT, case.question, limit=BEST, mode=mode))
    parts = [hit.entry.key.part for hit in found.hits]
    return 1 / (parts.index(answer) + 1) if answer in parts else 0.0


# -- cost ------------------------------------------------------------------------------------------------------------------------


class Floor:
    """One FTS5 query and one scan of codes with the vectors of the likeliest, for the same question: no filters checked, no hits read."""

    def __init__(self, file: Path, embedder: Embedder) -> None:
        self._connection = connect(file)
        self._embedder = embedder
        rows = execute(
            self._connection, "SELECT entry, code, 'pad', '', '[]' FROM search_vectors WHERE tenant = ?", (TENANT,)
        )
        self.codes = codes_of(rows)

    def search(self, question: str) -> None:
        query = Query(TENANT, question)
        vector = self._embedder.embed([question])[0]
        words = " OR ".join(f'"{word}"' for word in words_of(question))
        match = f"scope : ({scope_query(query)}) AND {{title body parts}} : ({words})"
        execute(self._connection, FTS, (match,))
        ids = ", ".join(map(str, self.codes.nearest(vector, query, 200)))
        rows = execute(
            self._connection, f"SELECT vector FROM search_vectors WHERE tenant = ? AND entry IN ({ids})", (TENANT,)
        )
        cosines(vector, [bytes(one) for (one,) in rows if isinstance(one, bytes)])

    def close(self) -> None:
        self._connection.close()


FTS = "SELECT rowid, bm25(search_words, 0.0, 4.0, 1.0, 0.5) FROM search_words WHERE search_words MATCH ? ORDER BY 2 LIMIT 50"


async def filled(file: Path, size: int) -> tuple[SqliteDatabase, SqliteSearch, Models]:
    """A tenant of so many cells, made of pieces of real texts; random vectors, which cost as much as true ones."""
    database = SqliteDatabase(file, MIGRATIONS)
    models = Models(EmbeddingChoice())
    writer = SqliteSearch(database)
    texts = [case.answer[:300] for case in some_judged(3_000)]
    chance = np.random.default_rng(1)
    name = "all-MiniLM-L6-v2"
    await database.write(lambda tx: entries.adopt_model(tx, name))
    for start in range(0, size, 2_000):
        numbers = range(start, min(start + 2_000, size))
        vectors = chance.standard_normal((len(numbers), 384)).astype(np.float32)

        def put(
            tx: Transaction,
            numbers: range = numbers,
            vectors: "np.ndarray[tuple[int, int], np.dtype[np.float32]]" = vectors,
        ) -> None:
            given = [
                Entry(Key(TENANT, "pad", "p", str(n)), f"{texts[n % len(texts)]} {n}", language="py") for n in numbers
            ]
            writer.put(tx, given)
            waiting = entries.take_waiting(tx, name, len(numbers)).waiting
            writer.vectors.write(tx, name, waiting, vectors)
            for one in waiting:
                entries.dequeue(tx, one.id)

        await database.write(put)
    return database, SqliteSearch(database, models), models


async def cost(plan: Plan, size: int) -> list[Row]:
    database, index, models = await filled(plan.work / "large.db", size)
    embedder = models.load()
    assert embedder is not None
    questions = [case.question for case in some_judged(400)][-100:]
    loop = asyncio.get_running_loop()
    with closing(Floor(plan.work / "large.db", embedder)) as floor, ThreadPoolExecutor(1) as thread:

        async def ours(question: str) -> None:
            found = await index.search(Query(TENANT, question))
            assert found.mode is Mode.HYBRID

        # The floor's connection belongs to this thread, so it is asked here; the way to another thread and back is added.
        async def least(question: str) -> None:
            await loop.run_in_executor(thread, lambda: None)
            floor.search(question)

        pairs = [await _pair(number, ours, least, questions) for number in range(plan.lives * plan.rounds)]
    memory = index.vectors.nbytes if isinstance(index.vectors, CodeVectors) else 0
    await index.close()
    await database.close()
    return [
        row(f"search: hybrid in a tenant of {size:,} cells, beside FTS5 query + code scan", "ms", pairs, SEARCH_TARGET),
        row("search: memory of the index, beside the bare codes", "MB", [(memory / 1e6, size * 48 / 1e6)]),
    ]


Ask = Callable[[str], Awaitable[None]]


async def _pair(number: int, ours: Ask, floor: Ask, questions: Sequence[str]) -> Pair:
    """The same questions to both, the first one changing every round."""
    asked = [questions[(number * 5 + n) % len(questions)] for n in range(5)]
    if number == 0:
        await ours(asked[0])
        await floor(asked[0])
    took: dict[Ask, float] = {}
    for act in (ours, floor) if number % 2 else (floor, ours):
        began = time.perf_counter()
        for question in asked:
            await act(question)
        took[act] = (time.perf_counter() - began) * 1000 / len(asked)
    return took[ours], took[floor]


def search(plan: Plan) -> list[Row]:
    quick = plan.lives == 1
    found = asyncio.run(quality(plan, 80 if quick else 2_000))
    return found + asyncio.run(cost(plan, 2_000 if quick else 100_000))
