"""Where a caller goes on reading what was found."""

import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from cellwright.app.finding.model import Kind
from cellwright.app.finding.texts import cell_of
from cellwright.jupyter.discovery import accepts_token, running_servers, server_holding
from cellwright.jupyter.paths import DocPath
from cellwright.jupyter.shapes import cell_uri
from cellwright.storage.search import Entry

BELIEVED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Address:
    uri: str
    """Reads the part that was found."""
    whole: str
    """Reads all of it, as text, where there is such a resource; else the same as `uri`."""
    path: str | None = None
    cell_id: str | None = None
    line: int | None = None


def address_of(entry: Entry, folder: str) -> Address:
    """`folder` is where the project's folder lies below the root of the Jupyter server."""
    key = entry.key
    cell = cell_of(key.part)
    match Kind(key.kind):
        case Kind.PAD:
            pad = f"scratchpad://{key.thing}"
            return Address(f"{pad}/cells/{key.part}" if key.part else pad, f"{pad}/md", cell_id=cell)
        case Kind.THINKING:
            notebook = f"notebook://{entry.namespace}/{key.thing}"
            return Address(f"{notebook}/cells/{cell}" if cell else notebook, notebook, cell_id=cell)
        case Kind.NOTEBOOK:
            path = DocPath(f"{folder}/{key.thing}" if folder else key.thing)
            uri = cell_uri(path, cell) if cell else f"jupyter://{path.quoted}"
            return Address(uri, uri, path.text, cell)
        case Kind.FILE:
            # From a line on, because as a whole a long file cannot be read.
            uri = f"context://file/{quote(key.thing)}?start="
            return Address(f"{uri}{key.part}", f"{uri}1", key.thing, line=int(key.part))
        case Kind.DISCOVERY:
            wanted = {"type": entry.title, **({"module": entry.namespace} if entry.namespace else {})}
            uri = f"context://discoveries?{urlencode(wanted)}"
            return Address(uri, uri)


class FolderInJupyter:
    """Where the project's folder lies below the root of the Jupyter server that would be used for it, without starting one."""

    def __init__(self, root: Path, runtime: Path) -> None:
        self._root = root
        self._runtime = runtime
        self._told: tuple[float, str] | None = None

    async def __call__(self) -> str:
        now = time.monotonic()
        if self._told is None or now - self._told[0] > BELIEVED_SECONDS:
            self._told = (now, await self._look())
        return self._told[1]

    async def _look(self) -> str:
        here = self._root.resolve()
        server = await server_holding(here, running_servers(self._runtime), accepts_token)
        folder = here.relative_to(server.root).as_posix() if server else "."
        return "" if folder == "." else folder
