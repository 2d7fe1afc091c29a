"""Conversions of large notebooks: the same result as of small ones, made in another process, bounded in cells."""

from collections.abc import AsyncIterator

import pytest

from cellwright.core.errors import LimitReached
from cellwright.notebook.formats.registry import FORMATS, format_named
from cellwright.notebook.formats.writing import written
from cellwright.notebook.model import Cell, InvalidFormat, Kind, Notebook
from cellwright.workers import conversions
from cellwright.workers.conversions import MOST_CELLS, Conversions, size_of
from cellwright.workers.pool import SMALL, WorkerPool
from requirements import requirement

pytestmark = pytest.mark.anyio

STREAM = {"output_type": "stream", "name": "stdout", "text": "ü\ud83d\n" * 5_000}
LARGE = Notebook(
    "Title",
    "python",
    (
        Cell(Kind.MARKDOWN, "# One\n\n" + "text " * 10_000, id="a"),
        Cell(Kind.CODE, "x = 1\n" * 2_000, "", "", "b", 3, (STREAM,), {"tags": ["t"]}),
    ),
    {"kernel": {"name": "python3"}},
)


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[WorkerPool]:
    running = WorkerPool(processes=1)
    yield running
    await running.close()


@requirement("costs:stored")
async def test_a_notebook_of_many_empty_cells_is_not_small() -> None:
    assert size_of(Notebook("t", "python", (Cell(Kind.CODE, ""),) * 20)) < SMALL
    assert size_of(Notebook("t", "python", (Cell(Kind.CODE, ""),) * 1_000)) >= SMALL


@requirement("conversions:same")
@pytest.mark.parametrize("name", FORMATS)
async def test_a_large_notebook_is_written_and_read_as_a_small_one(pool: WorkerPool, name: str) -> None:
    converting = Conversions(pool)
    made = await converting.write(LARGE, name, "ann")
    assert made == written(LARGE, name)
    assert len(pool.pids) == 1
    own = await converting.write(LARGE, name, "ann", measured=False)
    assert (own.text, own.losses) == (made.text, list(format_named(name).encode(LARGE).losses))
    if name != "html":
        assert await converting.read(made.text, name, "ann") == format_named(name).decode(made.text)


@requirement("conversions:same")
async def test_what_is_no_notebook_is_refused_in_the_same_words(pool: WorkerPool) -> None:
    text = "{" + '"a": 1,' * 10_000
    with pytest.raises(InvalidFormat) as here:
        format_named("ipynb").decode(text)
    with pytest.raises(InvalidFormat) as there:
        await Conversions(pool).read(text, "ipynb", "ann")
    assert there.value.as_json() == here.value.as_json()


@requirement("conversions:bounded")
async def test_a_text_of_very_many_cells_is_refused(pool: WorkerPool) -> None:
    text = "```python\n1\n```\n\n" * (MOST_CELLS + 1)
    with pytest.raises(LimitReached, match=f"{MOST_CELLS:,}"):
        await Conversions(pool).read(text, "md", "ann")


@requirement("conversions:bounded")
async def test_a_notebook_that_takes_too_much_memory_is_not_converted(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversions, "MOST_BYTES", 10_000)
    with pytest.raises(LimitReached, match="at most 10,000 are converted") as refusal:
        await Conversions(pool).write(LARGE, "md", "ann")
    assert "clear its outputs" in refusal.value.hint
