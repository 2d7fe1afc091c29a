"""What cells define and use, read once for each source."""

import ast
import asyncio
import warnings
from collections import OrderedDict
from collections.abc import Collection, Mapping

from cellwright.core.errors import CellwrightError
from cellwright.notebook.dependencies.model import CellNames
from cellwright.workers.pool import SMALL, WorkerPool

MOST_CHARACTERS = 16_000_000
"""Of sources whose names are remembered."""
CELL_CHARACTERS = 200
"""What a cell counts beside its text."""
AT_ONCE_CHARACTERS = 1_200
AT_ONCE_LINES = 25
AT_ONCE_FINALS = 3
"""Of a cell that is read here, if it is Python without what only IPython knows; others are read in a worker process. What a text costs may
grow faster than its length."""
SLICE = 20
BATCH_CHARACTERS = 50_000
BATCH_CELLS = 200
BATCH_SECONDS = 20.0

Source = tuple[str, str]
"""A language, and a text in it."""


class NamesOfCells:
    """Reads the names of cells: short ones at once, others in worker processes, because they are anybody's texts."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._known: OrderedDict[Source, CellNames] = OrderedDict()
        self._characters = 0

    def known(self, language: str, source: str) -> CellNames | None:
        """The names of a cell, if they are known or found out in no time."""
        names = self._known.get((language, source))
        if names is not None:
            self._known.move_to_end((language, source))
            return names
        from cellwright.notebook.dependencies.reading import PYTHON, names_of  # noqa: PLC0415 - no start waits for it

        if language not in PYTHON or not is_small(source) or not is_plain_python(source):
            return None
        names = names_of(source, language)
        self._keep(language, source, names)
        return names

    async def read(self, language: str, sources: Collection[str], caller: str) -> Mapping[str, CellNames]:
        """The names of all these cells."""
        names: dict[str, CellNames] = {}
        unread: list[str] = []
        for number, source in enumerate(dict.fromkeys(sources)):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            known = self.known(language, source)
            if known is None:
                unread.append(source)
            else:
                names[source] = known
        for batch in _batches(unread):
            for source, read in zip(batch, await self._read_batch(language, batch, caller), strict=True):
                self._keep(language, source, read)
                names[source] = read
        return names

    async def _read_batch(self, language: str, batch: list[str], caller: str) -> list[CellNames]:
        from cellwright.notebook.dependencies import jobs  # noqa: PLC0415 - as above

        size = max(SMALL, sum(map(len, batch)))
        try:
            answer = await self._pool.run(
                jobs.read_cells, size=size, seconds=BATCH_SECONDS, caller=caller, sources=batch, language=language
            )
        except CellwrightError as error:
            if len(batch) == 1:
                return [CellNames(unknown=error.message)]
            # One of them is to blame: each by itself.
            return [names for source in batch for names in await self._read_batch(language, [source], caller)]
        return jobs.names_from(answer)

    def _keep(self, language: str, source: str, names: CellNames) -> None:
        self._known[language, source] = names
        self._characters += len(source) + CELL_CHARACTERS
        while self._characters > MOST_CHARACTERS:
            (_, oldest), _ = self._known.popitem(last=False)
            self._characters -= len(oldest) + CELL_CHARACTERS


def is_small(source: str) -> bool:
    """Whether a cell is read in no time, whatever it is."""
    finals = source.count("finally")
    return (
        len(source) <= AT_ONCE_CHARACTERS
        and source.count("\n") + source.count(";") < AT_ONCE_LINES
        and finals < AT_ONCE_FINALS
    )


def is_plain_python(source: str) -> bool:
    """Whether a cell is Python as it stands. Loading what knows of magics takes too long to be done here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _batches(sources: list[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    size = BATCH_CHARACTERS
    for source in sources:
        if size + len(source) > BATCH_CHARACTERS or len(batches[-1]) >= BATCH_CELLS:
            batches.append([])
            size = 0
        batches[-1].append(source)
        size += len(source)
    return batches
