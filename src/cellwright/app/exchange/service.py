"""Reads notebooks from one shelf and writes them to another."""

from collections.abc import Sequence
from dataclasses import dataclass

from cellwright.core.errors import InvalidArgument
from cellwright.core.types import Call
from cellwright.notebook.model import Notebook
from cellwright.notebook.places import Place
from cellwright.notebook.shelf import Put, Shelf, Taken
from cellwright.workers.conversions import Conversions

ADDRESSES = {"export_notebook": ("source",), "import_notebook": ("source", "into")}
"""The arguments of our tools that are addresses."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """All shelves of a workspace. The shelf that has an address decides what it means."""

    shelves: Sequence[Shelf]
    conversions: Conversions

    async def read(self, call: Call, source: str, format_name: str | None = None) -> Taken:
        """The notebook that a caller names. `format_name` is for a file whose name does not tell its format."""
        return await self._shelf(source).read(call, source, format_name)

    async def write(self, call: Call, into: str, notebook: Notebook, *, over: bool) -> Put:
        """Write the notebook to an address. Without `over`, Conflict if there is something already."""
        shelf = self._shelf(into)
        if not shelf.takes(into):
            shapes = ", ".join(writable_shelf.shape for writable_shelf in self.shelves if writable_shelf.example)
            raise InvalidArgument(
                f"{into[:80]!a} is no place to write to",
                hint=f"notebook:// makes a new thinking notebook; else {shapes}, each as a whole",
            )
        return await shelf.write(call, into, notebook, over=over)

    def arguments(self, tool: str) -> Sequence[str]:
        return ADDRESSES.get(tool, ())

    def named(self, name: str) -> Place | None:
        return next((shelf.named(name) for shelf in self.shelves if shelf.has(name)), None)

    def _shelf(self, address: str) -> Shelf:
        for shelf in self.shelves:
            if shelf.has(address):
                return shelf
        shapes = ", ".join(shelf.shape for shelf in self.shelves)
        raise InvalidArgument(f"{address[:80]!a} names no notebook", hint=f"there are: {shapes}")
