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
SAMPLE = {"nashpy": 2, "findiff": 3}
"""Of packages whose notebooks need no more than this project's own Python has: how many take part in each run of the tests."""

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
    "table.describe()",
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
    ("sources", "cell", "new", "changed"),
    [
        (NUMBERS, 2, "factor = 3", {3: ["output", "result"]}),
        (TABLE, 1, "limit = 1", {2: ["table"], 3: []}),
        (SHARED, 2, "first.append(11)", {3: ["output"]}),
        (CLASSES, 1, "counter = Counter(6)", {2: ["~counter"], 3: ["output"]}),
        (CHANCE, 1, "first = random.random() + random.random()", {2: ["output", "second"]}),
        (FILES, 0, "text = 'two'", {3: ["output"]}),
    ],
    ids=["function", "table", "shared", "class", "chance", "files"],
)
def test_small_notebooks(
    runner: Runner, sources: Sequence[str], cell: int, new: str, changed: dict[int, list[str]]
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
    assert found.pop(cell, None) is not None or cell == 2
    print(found)
    figures = truth.figures_of(Truth("small", sources, edits=[Edit(cell, new, failed=False, changed=found)]))
    assert (figures.missed, figures.needless) == ([], [])
