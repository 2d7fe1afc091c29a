"""No cell whose value changes by an edit is called fresh: held against runs of real notebooks, before the edit and after it."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from notebook.dependencies import truth
from notebook.dependencies.truth import Edit, Notebook, Runner, Truth
from requirements import requirement

MOST_NEEDLESS = 0.1
FEWEST = 300
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="notebooks are run in forks")


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with Runner(Path(sys.executable), tmp_path_factory.mktemp("truth")) as one:
        yield one


NUMBERS = [
    "import numpy as np\nrates = np.array([1.0, 2.0, 3.0])",
    "def scaled(values):\n    return values * factor",
    "factor = 2",
    "result = scaled(rates)\nresult",
    "other = [1, 2, 3]\nsum(other)",
]
TABLE = [
    "import pandas as pd\ntable = pd.DataFrame({'a': [1, 2, 3], 'b': [4, 5, 6]})",
    "limit = 2",
    "table['c'] = table['a'] > limit",
    "table",
    "print(table['b'].sum())",
]
SHARED = [
    "rows = [[1], [2]]",
    "first = rows[0]",
    "first.append(10)",
    "rows",
    "unrelated = 3\nunrelated + 1",
]
CLASSES = [
    "class Counter:\n    def __init__(self, start):\n        self.count = start\n\n    def add(self, more):\n        self.count += more",
    "counter = Counter(5)",
    "counter.add(2)",
    "counter.count",
    "words = 'a b c'.split()\nlen(words)",
]
CHANCE = [
    "import random\nrandom.seed(4)",
    "first = random.random()",
    "second = random.random()\nsecond",
    "'nothing of chance'",
]
FILES = [
    "text = 'one'",
    "%%writefile other.txt\nfixed",
    "with open('note.txt', 'w') as file:\n    file.write(text)",
    "open('note.txt').read()",
    "open('other.txt').read()",
]


@requirement("stale:truth")
@pytest.mark.parametrize(
    ("sources", "cell", "new", "changed", "needless"),
    [
        (NUMBERS, 2, "factor = 3", {3: ["output", "result"]}, []),
        # A table is one value: which of its columns a cell reads is not asked.
        (TABLE, 1, "limit = 1", {2: ["~table"], 3: ["output"]}, [4]),
        (SHARED, 2, "first.append(11)", {3: ["output"]}, []),
        (CLASSES, 1, "counter = Counter(6)", {2: ["~counter"], 3: ["output"]}, []),
        (CHANCE, 1, "first = random.random() + random.random()", {2: ["output", "second"]}, []),
        # Whether a file comes to hold something else is not looked up.
        (FILES, 0, "text = 'two'", {3: ["output"]}, [2]),
    ],
    ids=["function", "table", "shared", "class", "chance", "files"],
)
def test_small_notebooks(
    runner: Runner, sources: Sequence[str], cell: int, new: str, changed: dict[int, list[str]], needless: list[int]
) -> None:
    """What is known beforehand is what the runs show, and what the program says."""
    notebook = Notebook("small", sources)
    after = [*sources]
    after[cell] = new
    clean, edited, again = (runner.run(notebook, one, 30) for one in (sources, after, sources))
    assert not isinstance(clean, str)
    assert not isinstance(edited, str)
    assert not isinstance(again, str)
    assert truth.differences(clean, again) == {}
    found = truth.differences(clean, edited)
    found.pop(cell)
    assert found == changed
    assert sorted(truth.called_stale(sources, after, cell)) == sorted([*changed, *needless])


@requirement("stale:truth")
@pytest.mark.long(12)
def test_sample_of_notebooks(tmp_path: Path) -> None:
    """A few real notebooks, run now."""
    notebooks, paths = truth.sample()
    with Runner(Path(sys.executable), tmp_path, truth.imports_of(notebooks), paths) as runner:
        truths = [truth.truth_of(one, runner) for one in notebooks]
    assert [one.refused for one in truths] == [""] * len(notebooks)
    assert not truth.added(map(truth.figures_of, truths)).missed


@requirement("stale:truth")
def test_what_is_missed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that calls all cells fresh, or all of them stale, does not pass."""
    found = Truth(
        "small", NUMBERS, edits=[Edit(2, "factor = 3", failed=False, itself=["factor"], changed={3: ["output"]})]
    )
    said: dict[int, str] = {}

    def say(_before: Sequence[str], _after: Sequence[str], _edited: int) -> dict[int, str]:
        return said

    monkeypatch.setattr(truth, "called_stale", say)
    assert len(truth.figures_of(found).missed) == 1
    said |= dict.fromkeys(range(5), "")
    figures = truth.figures_of(found)
    assert (len(figures.missed), len(figures.needless), figures.compared) == (0, 3, 4)


@pytest.mark.proof
@pytest.mark.timeout(4 * 3600)
@pytest.mark.skipif(os.environ.get("CELLWRIGHT_TEST_NOTEBOOKS") != "all", reason="takes an hour and the network")
@requirement("stale:truth")
def test_all_notebooks(capsys: pytest.CaptureFixture[str]) -> None:
    """All notebooks that are known to run. What their runs showed is kept in the cache: judging them anew takes seconds."""
    truths = list(truth.all_truths())
    known = [one for one in truths if not one.refused]
    figures = truth.added(map(truth.figures_of, known))
    with capsys.disabled():
        sys.stdout.write(f"\n{truth.report(truths, figures)}\n")
    assert len(known) >= FEWEST
    assert not figures.missed
    assert len(figures.needless) <= MOST_NEEDLESS * figures.compared
