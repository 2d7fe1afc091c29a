"""The judged set of the benchmark: its questions have answers, and what it is compared with is a real BM25."""

import importlib
import sys
from typing import Any

import pytest

from locations import BENCH
from requirements import requirement


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    return importlib.import_module("finding")


@requirement("finding:bench")
def test_every_question_is_asked_once_and_has_an_answer(bench: Any) -> None:
    texts = bench.documents()
    questions = [question for question, _ in bench.QUESTIONS]
    assert len(set(questions)) == len(questions) >= 60
    for question, answers in bench.QUESTIONS:
        assert any(name in texts for name in answers), question


@requirement("finding:bench")
def test_the_floor_ranks_rare_words_and_short_texts_first(bench: Any) -> None:
    texts = {
        "long": "a cat and a dog " * 20,
        "short": "a cat and a dog",
        "rare": "an ibex and a dog",
        "none": "nothing of the kind",
    }
    floor = bench.Bm25(texts)
    assert floor.best("the ibex or a dog")[0] == "rare"
    assert floor.best("cat dog")[:2] == ["long", "short"]
    assert floor.best("walrus") == []
    assert bench.reciprocal_rank(["a", "b", "c"], ("c", "b")) == 0.5
    assert bench.reciprocal_rank(["a"], ("c",)) == 0.0
