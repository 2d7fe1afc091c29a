"""Proposals through the service, on a real Jupyter server with a person in the same notebook."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from cellwright.core.errors import CellwrightError, Conflict, NotFound
from cellwright.core.types import ALL_SCOPES, Call, Principal, Secret
from cellwright.jupyter.documents.forks import ForksNotOffered, ProposalEnded
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.connect import FoundServer, to_named
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools import editing, notebooks, proposals
from cellwright.notebook.merging import Met, PlainCell, combined_text, three_way
from jupyter_support import JupyterProcess, JupyterServer, PersonIn, sources_on_disk, write_notebook
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ADA = Call(Principal("ada", ALL_SCOPES))
BOB = Call(Principal("bob", ALL_SCOPES))


@asynccontextmanager
async def live(server: JupyterServer) -> AsyncGenerator[LiveNotebooks]:
    address = JupyterAddress.parse(server.url, token=Secret(server.token))
    service = LiveNotebooks(to_named(address), lambda: datetime.now(UTC), agent_name="Robin", instance="here")
    try:
        yield service
    finally:
        await service.close()


async def change(service: LiveNotebooks, path: str, cell: str, old: str, new: str, call: Call = ADA) -> Any:
    reply = await editing.edit_nb_cell(service, call, path, old, new, cell, propose=True)
    return reply.data["proposal"]


@requirement("proposals:unseen")
async def test_nobody_sees_a_proposal_before_the_merge(
    jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    file = write_notebook(jupyter_server.root, path, ["a = 1", "b = 2", "c = 3"])
    async with live(jupyter_server) as service, person(path) as them:
        one = [notebooks.Modification(notebooks.Range(id="c0"), "a = 10")]
        edited = (await notebooks.modify_nb_cells(service, ADA, path, one, propose=True)).data
        assert (edited["live"], edited["saved"], edited["executed"]) == (False, False, False)
        made = edited["proposal"]
        new = [notebooks.Insertion("# new", "markdown")]
        inserted = (await notebooks.insert_nb_cells(service, ADA, path, 1, new, propose=True)).data
        gone = await notebooks.delete_nb_cells(service, ADA, path, [notebooks.Range(id="c1")], propose=True)
        moved = await editing.move_nb_cells(service, ADA, path, [notebooks.Range(id="c2")], 0, propose=True)
        assert {inserted["proposal"], gone["proposal"], moved["proposal"]} == {made}
        await them.settle()
        assert them.sources == ["a = 1", "b = 2", "c = 3"] == sources_on_disk(file)
        merged = await proposals.merge_nb_proposal(service, ADA, made)
        assert merged["cells"] == {"removed": 1, "moved": 1, "changed": 1, "added": 1}
        assert merged["saved"] is True
        await them.settle()
        assert them.sources == ["c = 3", "a = 10", "# new"] == sources_on_disk(file)
        assert str(them.cells[2]["id"]) == inserted["cells"][0]["id"]


@requirement("proposals:show")
async def test_the_comparison_guards_the_merge(jupyter_server: JupyterServer, folder: str, person: PersonIn) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1\nb = 2", "c = 3"])
    async with live(jupyter_server) as service, person(path) as them:
        made = await change(service, path, "c0", "b = 2", "b = 20")
        shown = await proposals.show_nb_proposal(service, ADA, made)
        (entry,) = shown["changes"]
        assert (entry["id"], entry["change"], entry["index"]) == ("c0", ["changed"], 0)
        assert {"-b = 2", "+b = 20"} <= set(entry["diff"].splitlines())
        them.text_of(0).insert(0, "# mine\n")
        await them.settle()
        with pytest.raises(Conflict):
            await proposals.merge_nb_proposal(service, ADA, made, expect=shown["revision"])
        await them.settle()
        assert them.sources[0] == "# mine\na = 1\nb = 2"
        again = await proposals.show_nb_proposal(service, ADA, made)
        assert again["both_changed"] == ["c0"]
        await proposals.merge_nb_proposal(service, ADA, made, expect=again["revision"])
        await them.settle()
        assert them.sources[0] == "# mine\na = 1\nb = 20"


@requirement("proposals:follow")
async def test_what_people_do_meanwhile_is_kept(jupyter_server: JupyterServer, folder: str, person: PersonIn) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["zero", "one", "two", "three"])
    async with live(jupyter_server) as service, person(path) as them:
        made = await change(service, path, "c0", "zero", "ZERO")
        await editing.move_nb_cells(service, ADA, path, [notebooks.Range(id="c1")], -1, propose=True)
        await notebooks.delete_nb_cells(service, ADA, path, [notebooks.Range(id="c2")], propose=True)
        await change(service, path, "c3", "three", "THREE")
        them.text_of(0).insert(4, " more")
        them.text_of(1).insert(0, "their ")
        them.text_of(2).insert(0, "still ")
        del them.cells[3]
        await them.settle()
        merged = await proposals.merge_nb_proposal(service, ADA, made)
        await them.settle()
        assert them.sources == ["ZERO more", "their one", "still two"]
        assert merged["both_changed"] == ["c0"]
        assert merged["not_deleted"] == ["c2"]
        assert merged["deleted_meanwhile"] == [{"id": "c3", "proposed": "THREE"}]


@requirement("proposals:drop")
async def test_a_dropped_proposal_leaves_no_trace(jupyter_server: JupyterServer, folder: str, person: PersonIn) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1"])
    async with live(jupyter_server) as service, person(path) as them:
        made = await change(service, path, "c0", "1", "2")
        await proposals.drop_nb_proposal(service, ADA, made)
        await them.settle()
        assert them.sources == ["a = 1"]
        assert "cellwright" not in list(them.doc.keys())
        assert (await proposals.list_nb_proposals(service, ADA, path))["proposals"] == []
        other = await change(service, path, "c0", "1", "3")
        await proposals.merge_nb_proposal(service, ADA, other)
        for ended in (made, other):
            with pytest.raises(ProposalEnded):
                await proposals.merge_nb_proposal(service, ADA, ended)


@requirement("proposals:owner")
async def test_two_callers_do_not_mix(jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1", "b = 2"])
    async with live(jupyter_server) as service:
        of_ada = await change(service, path, "c0", "1", "10")
        of_bob = await change(service, path, "c1", "2", "20", BOB)
        assert [one["proposal"] for one in (await proposals.list_nb_proposals(service, ADA))["proposals"]] == [of_ada]
        assert (await proposals.show_nb_proposal(service, BOB, of_bob))["cells"] == {"changed": 1}
        uses: list[Callable[..., Any]] = [proposals.show_nb_proposal, proposals.merge_nb_proposal]
        for use in [*uses, proposals.drop_nb_proposal]:
            with pytest.raises(NotFound, match="you have no proposal"):
                await use(service, BOB, of_ada)
        await proposals.merge_nb_proposal(service, ADA, of_ada)
        await proposals.merge_nb_proposal(service, BOB, of_bob)
        read = (await notebooks.read_nb_cells(service, ADA, path)).data["cells"]
        assert [cell["source"] for cell in read] == ["a = 10", "b = 20"]


@requirement("proposals:restart")
async def test_restarts_lose_nothing(start_jupyter: Callable[..., JupyterProcess]) -> None:
    server = start_jupyter()
    file = write_notebook(server.root, "n.ipynb", ["a = 1"])
    async with live(server.address) as service:
        made = await change(service, "n.ipynb", "c0", "1", "2")
        server.kill()
        server.start()
        assert (await proposals.show_nb_proposal(service, ADA, made))["cells"] == {"changed": 1}
    async with live(server.address) as service:
        with pytest.raises(NotFound):
            await proposals.show_nb_proposal(service, ADA, made)
        (found,) = (await proposals.list_nb_proposals(service, ADA, "n.ipynb"))["proposals"]
        assert found["proposal"] == made
        assert (await proposals.list_nb_proposals(service, BOB, "n.ipynb"))["proposals"] == []
        await proposals.merge_nb_proposal(service, ADA, made)
        assert sources_on_disk(file) == ["a = 2"]


@requirement("proposals:undo")
async def test_a_merge_can_be_taken_back(jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1", "b = 2"])
    async with live(jupyter_server) as service:
        made = await change(service, path, "c0", "1", "10")
        await notebooks.delete_nb_cells(service, ADA, path, [notebooks.Range(id="c1")], propose=True)
        await proposals.merge_nb_proposal(service, ADA, made)
        for _ in range(2):
            await editing.undo_nb_edit(service, ADA, path)
        read = (await notebooks.read_nb_cells(service, ADA, path)).data["cells"]
        assert [cell["source"] for cell in read] == ["a = 1", "b = 2"]


@requirement("proposals:refused")
async def test_a_refused_edit_leaves_no_proposal(
    jupyter_server: JupyterServer, folder: str, start_jupyter: Callable[..., JupyterProcess]
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1"])
    async with live(jupyter_server) as service:
        with pytest.raises(CellwrightError):
            await change(service, path, "c0", "not there", "x")
        assert (await proposals.list_nb_proposals(service, ADA, path))["proposals"] == []
    alone = start_jupyter(collaboration=False)
    file = write_notebook(alone.root, "n.ipynb", ["a = 1"])
    async with live(alone.address) as service:
        with pytest.raises(ForksNotOffered, match="no forks"):
            await change(service, "n.ipynb", "c0", "1", "2")
        assert sources_on_disk(file) == ["a = 1"]


def cells(text: str) -> tuple[PlainCell, ...]:
    """`a=x b` is a cell a with text x, and a cell b with its name as text."""
    return tuple(PlainCell(one[0], "code", one[2:] or one[0]) for one in text.split())


@requirement("proposals:three-way")
@pytest.mark.parametrize(
    ("base", "mine", "theirs", "merged", "met"),
    [
        ("a b c", "a b c", "c a", "c a", {}),
        ("a b c", "c a b", "a b c d", "c a b d", {}),
        ("a b", "a x b", "a y b", "a x y b", {}),
        ("a b", "b", "a=1 b", "a=1 b", {"a": Met.KEPT}),
        ("a b", "a=1 b", "b", "b", {"a": Met.GONE}),
        ("a=1 b", "a=12 b", "a=01 b", "a=012 b", {"a": Met.BOTH}),
        ("a b c d", "d a b c", "b a c d", "d b a c", {}),
        ("", "a", "b", "a b", {}),
    ],
)
def test_two_versions_become_one(base: str, mine: str, theirs: str, merged: str, met: dict[str, Met]) -> None:
    made = three_way(cells(base), cells(mine), cells(theirs))
    assert made.cells == cells(merged)
    assert dict(made.met) == met
    assert combined_text("ä b", "ä B", "ö b") == "ö B"
    assert sorted(combined_text("x = 1", "x = 2", "x = 3")) == sorted("x = 23")


@requirement("proposals:unseen")
async def test_it_holds_inside_of_jupyter_too(
    jupyter: Jupyter, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1"])

    async def connect() -> FoundServer:
        return FoundServer(jupyter, "named")

    service = LiveNotebooks(connect, lambda: datetime.now(UTC))
    async with person(path) as them:
        try:
            made = await change(service, path, "c0", "1", "2")
            await them.settle()
            assert them.sources == ["a = 1"]
            await proposals.merge_nb_proposal(service, ADA, made)
            await them.settle()
            assert them.sources == ["a = 2"]
        finally:
            await service.close()
