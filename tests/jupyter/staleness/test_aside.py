"""A look aside, as the page's: agents are told what they would have been told without it."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest

from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.server.connect import FoundServer
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.editing import edit_nb_cell
from cellwright.jupyter.tools.reading import read_nb_cells
from cellwright.jupyter.tools.running import execute_nb_cells
from jupyter_support import JupyterServer, PersonIn, write_notebook
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
CALL = Call(Principal("ada", ALL_SCOPES))


@pytest.fixture
async def notebooks(jupyter: Jupyter) -> AsyncGenerator[LiveNotebooks]:
    async def connect() -> FoundServer:
        return FoundServer(jupyter, "named")

    service = LiveNotebooks(connect, lambda: datetime.now(UTC))
    try:
        yield service
    finally:
        await service.close()


@requirement("page:states:aside")
async def test_what_the_page_has_seen_is_still_told_to_agents(
    notebooks: LiveNotebooks, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["rate = 2", "rate * 2", "1 + 1"])
    await execute_nb_cells(notebooks, CALL, path, cells="all")
    await read_nb_cells(notebooks, CALL, path)
    async with person(path) as them, notebooks.open(CALL, NotebookPath(path), looks=True) as document:
        them.cells[0]["source"] += " + 1"
        await them.settle()
        states = await notebooks.states.look(CALL, await notebooks.connected(CALL), document, aside=True)
        seen = {key: state.state.value for key, state in states.judged.items()}
        assert seen == {"c0": "edited", "c1": "stale", "c2": "fresh"}
    edited = (await edit_nb_cell(notebooks, CALL, path, "1 + 1", "1 + 2", 2)).data
    assert edited["stale"] == "1 cell is stale now: 1"
