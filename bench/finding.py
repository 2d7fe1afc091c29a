"""Finding everything: questions about the standard library, its documentation being pads, notebooks and files, beside plain BM25."""

import asyncio
import importlib
import inspect
import json
import math
import re
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from finding_questions import QUESTIONS
from measure import Plan, Row, row

from cellwright.app.search.service import Result
from cellwright.app.settings import Settings
from cellwright.app.workspace import Workspace, make_workspace
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.scratch.model import PadCellDraft
from cellwright.storage.search.entries import count_waiting
from cellwright.storage.search.port import Mode

MODULES = (
    "argparse", "asyncio", "base64", "binascii", "bisect", "bz2", "calendar", "cmath", "codecs", "collections", "configparser",
    "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "email.utils", "enum", "filecmp", "fileinput",
    "fnmatch", "fractions", "ftplib", "functools", "gc", "getpass", "glob", "graphlib", "gzip", "hashlib", "heapq", "hmac", "html",
    "http.client", "http.cookies", "io", "ipaddress", "itertools", "json", "linecache", "locale", "logging", "lzma", "math",
    "mimetypes", "mmap", "operator", "os", "os.path", "pathlib", "pickle", "platform", "pprint", "queue", "random", "re",
    "secrets", "select", "shelve", "shlex", "shutil", "signal", "smtplib", "socket", "sqlite3", "ssl", "stat", "statistics",
    "string", "struct", "subprocess", "sys", "tarfile", "tempfile", "textwrap", "threading", "time", "timeit", "tokenize",
    "traceback", "tracemalloc", "types", "unicodedata", "unittest.mock", "urllib.parse", "urllib.request", "uuid", "warnings",
    "weakref", "webbrowser", "xml.etree.ElementTree", "xml.sax.saxutils", "zipfile", "zlib",
)  # fmt: skip
SHORTEST, LONGEST = 40, 600
BEST = 10
NO_WORSE = 1.0
FIRST_SECONDS, VECTORS_SECONDS = 60.0, 240.0
WHO = Call(Principal("bench", ALL_SCOPES))


def documents() -> dict[str, str]:
    """The documentation of functions and classes by their names."""
    found: dict[str, str] = {}
    for module in MODULES:
        for name, thing in sorted(vars(importlib.import_module(module)).items()):
            if name.startswith("_") or not callable(thing):
                continue
            text = inspect.getdoc(thing) or ""
            if len(text) >= SHORTEST and (_lives_in(thing, module) or _is_asked_for(f"{module}.{name}")):
                found[f"{module}.{name}"] = text[:LONGEST]
    return found


def _lives_in(thing: object, module: str) -> bool:
    """Not something that the module has only imported."""
    where = str(getattr(thing, "__module__", "")).strip("_").partition(".")[0]
    return where in (module.partition(".")[0], {"os": "posix", "os.path": "posixpath"}.get(module))


def _is_asked_for(name: str) -> bool:
    return any(name in answers for _, answers in QUESTIONS)


class Bm25:
    """The plain thing: words in lower case, k1 = 1.2, b = 0.75."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._words = {name: Counter(_words(f"{name} {text}")) for name, text in texts.items()}
        self._lengths = {name: words.total() for name, words in self._words.items()}
        self._mean = statistics.mean(self._lengths.values())
        self._holding = Counter(word for words in self._words.values() for word in words)

    def best(self, question: str) -> list[str]:
        wanted = set(_words(question))
        scores = {name: sum(self._score(name, word) for word in wanted) for name in self._words}
        return sorted((name for name in scores if scores[name]), key=lambda name: -scores[name])[:BEST]

    def _score(self, name: str, word: str) -> float:
        count, holding = self._words[name][word], self._holding[word]
        if not count:
            return 0.0
        rarity = math.log(1 + (len(self._words) - holding + 0.5) / (holding + 0.5))
        return rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * self._lengths[name] / self._mean))


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


async def fill(workspace: Workspace, root: Path, texts: dict[str, str]) -> None:
    """A third of the documents are pads, a third notebooks, a third files."""
    for number, (name, text) in enumerate(texts.items()):
        if number % 3 == 0:
            draft = PadCellDraft(language="md", content=text)
            await workspace.pads.create(WHO.principal.id, None, {"title": name}, [draft])
        elif number % 3 == 1:
            cell: dict[str, Any] = {"cell_type": "markdown", "id": "doc", "metadata": {}, "source": text}
            notebook: dict[str, Any] = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
            (root / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
        else:
            (root / f"{name}.md").write_text(text, encoding="utf-8")


async def index(workspace: Workspace) -> float:
    """Make everything findable by words and by meaning. How many seconds a thing took to be indexed by words."""
    began = time.perf_counter()
    while not (progress := (await workspace.finder.search(WHO, "anything", (), 1)).indexing).complete:
        assert time.perf_counter() - began < FIRST_SECONDS, progress
    took = (time.perf_counter() - began) / max(progress.total, 1)
    while await workspace.database.read(count_waiting):
        assert time.perf_counter() - began < VECTORS_SECONDS, "texts still wait for their vectors"
        await asyncio.sleep(0.1)
    return took


def name_of(result: Result) -> str:
    return result.title.removesuffix(".ipynb").removesuffix(".md")


def reciprocal_rank(names: Sequence[str], answers: Sequence[str]) -> float:
    return next((1 / rank for rank, name in enumerate(names, 1) if name in answers), 0.0)


async def judged(plan: Plan, texts: dict[str, str]) -> list[Row]:
    root = plan.work / "finding"
    root.mkdir()
    settings = Settings(root=root, state_dir=plan.work / "finding-state", scratch_max_pads=0)
    workspace = make_workspace(settings, "stdio")
    try:
        await fill(workspace, root, texts)
        took = await index(workspace)
        asked = [(question, answers) for question, answers in QUESTIONS if any(name in texts for name in answers)]
        plain = Bm25(texts)
        ours: list[float] = []
        floor: list[float] = []
        cost: list[tuple[float, float]] = []
        for question, answers in asked:
            began = time.perf_counter()
            found = (await workspace.finder.search(WHO, question, (), BEST)).results
            between = time.perf_counter()
            # Not word for word the same: that would not be embedded again.
            await workspace.pads.search(WHO.principal.id, f"{question}?", (), (), BEST, Mode.HYBRID)
            cost.append(((between - began) * 1000, (time.perf_counter() - between) * 1000))
            ours.append(reciprocal_rank([name_of(one) for one in found], answers))
            floor.append(reciprocal_rank(plain.best(question), answers))
    finally:
        await workspace.close()
    return _rows(f"{len(asked)} questions, {len(texts)} documents", ours, floor, cost, took)


def _rows(
    about: str, ours: Sequence[float], floor: Sequence[float], cost: Sequence[tuple[float, float]], took: float
) -> list[Row]:
    recall = statistics.mean(rank > 0 for rank in ours), statistics.mean(rank > 0 for rank in floor)
    rank = statistics.mean(ours), statistics.mean(floor)
    missed = [(1 - recall[0], max(1 - recall[1], 1e-9))]
    short = [(1 - rank[0], max(1 - rank[1], 1e-9))]
    return [
        row(f"finding: answers not among the best ten beside BM25, {about}", "", missed, NO_WORSE),
        row("finding: what the mean reciprocal rank lacks beside BM25", "", short, NO_WORSE),
        row("finding: recall@10 beside BM25", "", [recall]),
        row("finding: mean reciprocal rank beside BM25", "", [rank]),
        row("finding: search over everything beside pads alone", "ms", list(cost)),
        row("finding: indexing of one thing by words", "ms", [(took * 1000, took * 1000)]),
    ]


def finding(plan: Plan) -> list[Row]:
    """What is asked for, among some of the rest: embedding all of it would take minutes."""
    texts = documents()
    asked = {name for name in texts if _is_asked_for(name)}
    others = list(texts)[:: 20 if plan.lives == 1 else 3]
    return asyncio.run(judged(plan, {name: texts[name] for name in sorted({*asked, *others})}))
