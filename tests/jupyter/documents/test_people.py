"""Who is in a notebook: where they are, who edits unannounced, and what is not known. Over every way to a real Jupyter server."""

from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from pycrdt import Assoc, StickyIndex, Text

from cellwright.core.types import ALL_SCOPES, Call, Principal, Secret
from cellwright.jupyter.documents.people import REMEMBER_SECONDS, Strangers
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.notebooks.notebook import SourceChange
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.connect import FoundServer, to_named
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.looking import NotebookStat, get_nb_stat
from cellwright.jupyter.tools.sessions import query_document_session
from cellwright.notebook.addressing import at
from jupyter_support import JupyterProcess, JupyterServer, PersonIn, eventually, write_notebook
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

CALL = Call(Principal("ada", ALL_SCOPES))
SOURCE = "first = 1\nsecond = 2\nthird = 3"


@pytest.fixture
async def notebooks(jupyter: Jupyter) -> AsyncGenerator[LiveNotebooks]:
    async def connect() -> FoundServer:
        return FoundServer(jupyter, "named")

    made = LiveNotebooks(connect, lambda: datetime.now(UTC))
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
def path(jupyter_server: JupyterServer, folder: str) -> str:
    name = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, name, ["zero", SOURCE, "größe = 'ünï'"])
    return name


def position(text: Text, offset: int | None) -> dict[str, Any]:
    """A place in a text as JupyterLab writes it; None is its end."""
    start = cast("dict[str, Any]", StickyIndex.new(text, 0, Assoc.BEFORE).to_json())  # pyright: ignore[reportUnknownMemberType]
    place = cast("dict[str, Any]", StickyIndex.new(text, offset or 0, Assoc.AFTER).to_json())  # pyright: ignore[reportUnknownMemberType]
    item = None if offset is None else place["item"]
    return {"type": start["type"], "tname": None, "item": item, "assoc": 0}


def cursor(text: Text, anchor: int | None, head: int | None) -> list[dict[str, Any]]:
    return [{"anchor": position(text, anchor), "head": position(text, head), "primary": True}]


@requirement("nb:people")
async def test_it_is_told_who_is_in_which_cell_and_where(notebooks: LiveNotebooks, path: str, person: PersonIn) -> None:
    async def stat() -> Any:
        return (await get_nb_stat(notebooks, CALL, path))["people"]

    await stat()
    async with person(path) as them:
        text = them.text_of(1)
        # What is typed in the middle makes the text of several pieces, in another order than they were written.
        text.insert(5, "XYZ")
        text.insert(2, "ab")
        del text[2:4]
        del text[5:8]
        await them.settle()
        assert str(text) == SOURCE
        for anchor, head, place in (
            (0, 0, "1:1"),
            (12, 12, "2:3"),
            (21, 12, "2:3-3:1"),
            (10, None, "2:1-3:10"),
            (None, None, "3:10"),
        ):
            them.announce("Grace", cursor(text, anchor, head))
            await them.settle()
            assert await stat() == [{"name": "Grace", "cell": "c1", "index": 1, "selection": place}]
        them.announce("Grace", cursor(them.text_of(2), 5, 5))
        await them.settle()
        assert await stat() == [{"name": "Grace", "cell": "c2", "index": 2}], "its place is not known in such a text"
        name = position(text, 0)["type"]
        for made_up in (
            [{"head": {"type": name, "item": {"client": 1, "clock": 1 << 40}, "assoc": 0}}],
            [{"head": {"type": name, "item": {"client": -1, "clock": "x"}}}],
            [{"head": {"type": name}, "anchor": [7]}],
        ):
            them.announce("Grace", made_up)
            await them.settle()
            assert await stat() == [{"name": "Grace", "cell": "c1", "index": 1}]
        them.announce("Grace", [{"head": {"type": {"client": 1, "clock": 1 << 40}, "item": None}}])
        await them.settle()
        assert await stat() == [{"name": "Grace"}]


@requirement("nb:people")
async def test_another_agent_is_called_one_and_seen_where_it_works(
    notebooks: LiveNotebooks, path: str, jupyter: Jupyter
) -> None:
    await get_nb_stat(notebooks, CALL, path)
    other = Rooms(jupyter.documents, Collaborator("Other Agent"))
    try:
        async with other.notebook(NotebookPath(path)) as opened:
            await opened.change(lambda view: view.replace([SourceChange(at(2), "größe = 2")]))
            seen: list[Any] = []

            async def look() -> bool:
                seen[:] = (await get_nb_stat(notebooks, CALL, path))["people"] or []
                return any("cell" in person for person in seen)

            while not await look():
                await opened.acknowledge()
            assert seen == [{"name": "Other Agent", "cell": "c2", "index": 2, "selection": "1:10", "agent": True}]
    finally:
        await other.close()


@requirement("nb:people:strangers", "nb:people:unknown")
async def test_somebody_who_edits_without_announcing_themselves_is_told(
    notebooks: LiveNotebooks, path: str, person: PersonIn
) -> None:
    async def stat() -> NotebookStat:
        return await get_nb_stat(notebooks, CALL, path)

    alone = await stat()
    assert (alone["people"], alone.get("people_note", "")[:32]) == ([], "nobody has announced themselves;")
    async with person(path) as them, notebooks.open(CALL, NotebookPath(path)) as document:
        text = them.text_of(1)
        text += "!"
        await eventually(lambda: document.view.head(1).source.endswith("!"), "what they typed")
        note = (await stat()).get("people_note", "")
        assert note.startswith("somebody edits who has not announced themselves: last 0 seconds ago in c1")
        them.announce("Grace")
        await them.settle()
        announced = await stat()
        assert announced["people"] == [{"name": "Grace"}]
        assert "people_note" not in announced, "it was they"
        text += "!"
        await eventually(lambda: document.view.head(1).source.endswith("!!"), "what they typed then")
        assert "people_note" not in await stat()
        async with person(path) as stranger:
            first = stranger.text_of(0)
            first += "?"
            await eventually(lambda: document.view.head(0).source.endswith("?"), "what somebody else typed")
            assert (await stat()).get("people_note", "").endswith("ago in c0")


@requirement("nb:people:strangers")
async def test_it_is_forgotten_after_some_minutes(notebooks: LiveNotebooks, path: str, person: PersonIn) -> None:
    now = [0.0]
    notebooks.strangers = Strangers(lambda: now[0])
    async with person(path) as them, notebooks.open(CALL, NotebookPath(path)) as document:
        del them.text_of(0)[0:1]
        await eventually(lambda: document.view.head(0).source == "ero", "what they deleted")
        now[0] = 70.0
        note = (await get_nb_stat(notebooks, CALL, path)).get("people_note", "")
        assert "last 70 seconds ago" in note, "who only deletes is somebody too"
        now[0] = REMEMBER_SECONDS + 1
        assert "somebody" not in (await get_nb_stat(notebooks, CALL, path)).get("people_note", "")


@requirement("nb:people:unknown")
async def test_where_no_documents_are_shared_nobody_knows(start_jupyter: Callable[..., JupyterProcess]) -> None:
    process = start_jupyter(collaboration=False)
    write_notebook(process.root, "n.ipynb", ["1"])
    address = JupyterAddress.parse(process.url, token=Secret(process.token))
    notebooks = LiveNotebooks(to_named(address), lambda: datetime.now(UTC))
    try:
        stat = await get_nb_stat(notebooks, CALL, "n.ipynb")
        assert (stat["live"], stat["people"]) == (False, None)
        assert stat.get("people_note") == "unknown: this Jupyter shares no documents"
        assert (await query_document_session(notebooks, CALL, "n.ipynb"))["people"] is None
    finally:
        await notebooks.close()
