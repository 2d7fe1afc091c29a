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
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from measure import Pair, Plan, Row, row

from cellwright.storage.database import Transaction
from cellwright.storage.search import entries
from cellwright.storage.search.embeddings.batches import Vectors
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.embeddings.port import Embedder, EmbeddingChoice
from cellwright.storage.search.port import Entry, Key, Mode, Query
from cellwright.storage.search.vectors import codes_of, cosines
from cellwright.storage.search.words import query_words
from cellwright.storage.sqlite.database import SqliteDatabase
from cellwright.storage.sqlite.file import connect, execute
from cellwright.storage.sqlite.search import MIGRATIONS, CodeVectors, SqliteSearch, scope_query

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


@cache
def all_judged() -> tuple[Judged, ...]:
    """Each question and each answer once, in an order of chance that is always the same."""
    once = list({one.answer: one for one in {one.question: one for one in judged()}.values()}.values())
    random.Random(1).shuffle(once)
    return tuple(once)


class Remembering(Models):
    """The built-in model, which embeds each question once for all the ways it is asked in."""

    def __init__(self) -> None:
        super().__init__(EmbeddingChoice())
        loaded = super().load()
        assert loaded is not None
        self._model = loaded
        self.name = loaded.name
        self._known: dict[str, Vectors] = {}

    def load(self) -> Embedder:
        return self

    def embed(self, texts: Sequence[str]) -> Vectors:
        if len(texts) > 1:
            return self._model.embed(texts)
        (text,) = texts
        if text not in self._known:
            self._known[text] = self._model.embed([text])[0]
        return self._known[text][None]


@dataclass(frozen=True)
class Quality:
    """How well one way to look does: the share of answers among the best ten, and the mean of 1 / rank."""

    recall: float
    rank: float


async def quality(plan: Plan, cases: Sequence[Judged]) -> list[Row]:
    database = SqliteDatabase(plan.work / "judged.db", MIGRATIONS)
    models = Remembering()
    index = SqliteSearch(database, models)
    given = [
        Entry(Key(TENANT, "pad", "p", str(number)), case.answer, language=case.language)
        for number, case in enumerate(cases)
    ]
    # By one without a model, whose thread would take its share of what is timed here.
    await database.write(lambda tx: SqliteSearch(database).put(tx, given))
    began = time.process_time()
    await index.indexer.finish(lambda _done, _total: None)
    took = time.process_time() - began

    async def asked(ask: Callable[[str], Awaitable[list[str]]]) -> Quality:
        ranks = [_reciprocal(await ask(case.question), str(number)) for number, case in enumerate(cases)]
        return Quality(statistics.mean(rank > 0 for rank in ranks), statistics.mean(ranks))

    found = {mode.value: await asked(partial(_hits, index, mode)) for mode in Mode}
    found["BM25"] = await asked(partial(_plain_bm25, database))
    await index.close()
    await database.close()
    return [
        *_told(found, len(cases)),
        row("search: texts embedded in a second of CPU", "/s", [_same(len(cases) / took)]),
    ]


def _told(found: dict[str, Quality], count: int) -> Iterator[Row]:
    """Hybrid must leave out less than each other way, and rank no worse; as ratios, of which less is better."""
    hybrid = found.pop(Mode.HYBRID)
    about = f"{count:,} judged questions"
    for name, other in found.items():
        missed = [(1 - hybrid.recall, max(1 - other.recall, 1e-9))]
        yield row(f"search: answers not among the best ten, hybrid beside {name}, {about}", "", missed, NO_WORSE)
        short = [(1 - hybrid.rank, max(1 - other.rank, 1e-9))]
        yield row(f"search: what is short of a mean reciprocal rank of 1, hybrid beside {name}", "", short, NO_WORSE)
    for name, one in {**found, "hybrid": hybrid}.items():
        yield row(f"search: recall@10 of {name}", "", [_same(one.recall)])
        yield row(f"search: mean reciprocal rank of {name}", "", [_same(one.rank)])


def _same(value: float) -> Pair:
    return value, value


async def _hits(index: SqliteSearch, mode: Mode, question: str) -> list[str]:
    found = await index.search(Query(TENANT, question, limit=BEST, mode=mode))
    return [hit.entry.key.part for hit in found.hits]


async def _plain_bm25(database: SqliteDatabase, question: str) -> list[str]:
    """Any of the words, by FTS5's own measure and nothing else."""
    words = " OR ".join(f'"{word}"' for word in query_words(question))
    rows = await database.read(lambda tx: tx.rows(BM25, f"body : ({words})", BEST))
    return [str(part) for (part,) in rows]


BM25 = (
    "SELECT e.part FROM search_words JOIN search_entries e ON e.id = search_words.rowid "
    "WHERE search_words MATCH ? ORDER BY bm25(search_words) LIMIT ?"
)


def _reciprocal(parts: Sequence[str], answer: str) -> float:
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
        words = " OR ".join(f'"{word}"' for word in query_words(question))
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
    texts = [case.answer[:300] for case in all_judged()[:3_000]]
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
    questions = [case.question for case in all_judged()[300:400]]
    with closing(Floor(plan.work / "large.db", embedder)) as floor:

        async def ours(question: str) -> None:
            found = await index.search(Query(TENANT, question))
            assert found.mode is Mode.HYBRID

        async def least(question: str) -> None:
            floor.search(question)

        pairs = [await _pair(number, ours, least, questions) for number in range(min(25, plan.lives * plan.rounds))]
    memory = index.vectors.nbytes if isinstance(index.vectors, CodeVectors) else 0
    await index.close()
    await database.close()
    return [
        row(
            f"search: hybrid in a tenant of {size:,} cells, beside FTS5 query + code scan, CPU",
            "ms",
            pairs,
            SEARCH_TARGET,
        ),
        row("search: memory of the index, beside the bare codes", "MB", [(memory / 1e6, size * 48 / 1e6)]),
    ]


Ask = Callable[[str], Awaitable[None]]


async def _pair(number: int, ours: Ask, floor: Ask, questions: Sequence[str]) -> Pair:
    """The same questions to both, the first one changing every round. In CPU time of all threads, because neighbours do not count."""
    asked = [questions[(number * 5 + n) % len(questions)] for n in range(5)]
    if number == 0:
        await ours(asked[0])
        await floor(asked[0])
    took: dict[Ask, float] = {}
    for act in (ours, floor) if number % 2 else (floor, ours):
        began = time.process_time()
        for question in asked:
            await act(question)
        took[act] = (time.process_time() - began) * 1000 / len(asked)
    return took[ours], took[floor]


def search(plan: Plan) -> list[Row]:
    quick = plan.lives == 1
    found = asyncio.run(quality(plan, all_judged()[:80] if quick else all_judged()))
    return found + asyncio.run(cost(plan, 2_000 if quick else 100_000))
