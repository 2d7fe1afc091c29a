"""Converts notebooks to text and back. Large ones are converted in a worker process, because a text can be made to take very long."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from cellwright.core.errors import LimitReached
from cellwright.core.text.counting import counted
from cellwright.core.weight import weight
from cellwright.notebook.formats import jobs, native
from cellwright.notebook.formats.registry import format_named
from cellwright.notebook.formats.writing import WrittenNotebook, written
from cellwright.notebook.model import Notebook
from cellwright.workers.pool import SMALL, WorkerPool

MOST_CELLS = 20_000
CELL = 50
"""What a cell counts in addition to its content: a notebook of thousands of empty cells is not small."""
MOST_BYTES = 16 * 1024 * 1024
"""The largest notebook that is converted to text: the worker needs a multiple of it."""


class Conversions:
    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool

    async def write(
        self, notebook: Notebook, format_name: str, caller: str, *, measured: bool = True
    ) -> WrittenNotebook:
        """The notebook as text. Its losses are what the text cannot give back; without `measured`, only those that the format reports."""
        size = size_of(notebook)
        if size < SMALL:
            if measured:
                return written(notebook, format_name)
            encoded = format_named(format_name).encode(notebook)
            return WrittenNotebook(encoded.text, encoded.mime_type, list(encoded.losses))
        memory = await asyncio.to_thread(weight, notebook)
        if memory > MOST_BYTES:
            raise LimitReached(
                f"this notebook takes {memory:,} bytes of memory; at most {MOST_BYTES:,} are converted",
                hint="clear its outputs first, or convert a part of it",
            )
        packed = await asyncio.to_thread(native.packed, notebook)
        answer = await self._pool.run(
            jobs.write, size=size, caller=caller, notebook=packed, format_name=format_name, measured=measured
        )
        return WrittenNotebook(answer["text"], answer["mime_type"], answer["losses"])

    async def read(self, text: str, format_name: str, caller: str) -> Notebook:
        """The notebook in a text. InvalidFormat if the text is no notebook; LimitReached if it has too many cells."""
        if len(text) < SMALL:
            notebook = format_named(format_name).decode(text)
        else:
            packed = await self._pool.run(jobs.read, size=len(text), caller=caller, text=text, format_name=format_name)
            notebook = await asyncio.to_thread(native.unpacked, packed)
        if len(notebook.cells) > MOST_CELLS:
            raise LimitReached(
                f"this notebook has {counted(len(notebook.cells), 'cell')}; at most {MOST_CELLS:,} are read",
                hint="split the file into several notebooks",
            )
        return notebook


def size_of(notebook: Notebook) -> int:
    """About how many characters the notebook has. Counting stops once it is known that the notebook is not small."""
    size = 0
    pending: list[object] = []
    for cell in notebook.cells:
        size += CELL + len(cell.source)
        pending += [cell.metadata, *cell.outputs]
        while pending and size < SMALL:
            size += _own_size(pending.pop(), pending)
        if size >= SMALL:
            break
    return size


def _own_size(value: object, pending: list[object]) -> int:
    """The size of a value without the values inside it, which are added to `pending`."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        inside = cast("Mapping[str, object]", value)
        pending += inside.values()
        return sum(map(len, inside))
    if isinstance(value, Sequence):
        pending += cast("Sequence[object]", value)
    return 8
