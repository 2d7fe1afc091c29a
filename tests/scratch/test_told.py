"""Who is told of what: watchers of pads, of their cells and of the list, on every engine."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from cellwright.core.resources import Change, Changes, ResourceUpdated
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.scratch.model import PadCellDraft, PadLimits
from cellwright.scratch.resources import PadResources
from cellwright.scratch.service import Pads
from cellwright.scratch.sight.memory import ANY
from requirements import requirement

pytestmark = pytest.mark.anyio
MakePads = Callable[..., Pads]
ANN, BOB = (Call(Principal(name, ALL_SCOPES)) for name in ("ann", "bob"))
CELLS = [PadCellDraft("py", "one", "c1"), PadCellDraft("py", "two", "c2")]
PAD = {"scratchpad://p", "scratchpad://p/md", "scratchpad://list"}
CELL_URIS = {"scratchpad://p/cells/c1", "scratchpad://p/cells/c2"}


class Heard:
    """What was announced since the last look."""

    def __init__(self, changes: Changes) -> None:
        self._found: list[Change] = []
        changes.subscribe(self._found.append)

    def look(self, whose: str = "ann") -> set[str]:
        """The resources that changed; `LIST` if there are others than before."""
        found, self._found[:] = tuple(self._found), ()
        names = {change.uri if isinstance(change, ResourceUpdated) else "LIST" for change in found}
        assert {change.principal_id for change in found} <= {whose}
        return names


@asynccontextmanager
async def watching(pads: Pads, uris: Collection[str], call: Call = ANN) -> AsyncGenerator[None]:
    async with AsyncExitStack() as stack:
        for uri in uris:
            held = await PadResources(pads).watch(call, uri)
            assert held is not None, uri
            await stack.enter_async_context(held)
        yield


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def heard(changes: Changes) -> Heard:
    return Heard(changes)


@pytest.fixture
def told(make_pads: MakePads, changes: Changes) -> Pads:
    """Pads whose announcements are heard; at most two of each caller."""
    return make_pads(PadLimits(pads=2), changes=changes)


@requirement("scratch:told:cells")
async def test_watchers_of_single_cells_are_told(told: Pads, heard: Heard) -> None:
    acts: list[tuple[Callable[[], Awaitable[Any]], set[str]]] = [
        (lambda: told.insert("ann", "p", PadCellDraft("py", "three", "c3")), PAD),
        (lambda: told.replace_cell("ann", "p", "c1", PadCellDraft("py", "ONE")), PAD | {"scratchpad://p/cells/c1"}),
        (lambda: told.delete_cell("ann", "p", "c2"), PAD | {"scratchpad://p/cells/c2"}),
        (lambda: told.update("ann", "p", {"title": "t"}), PAD | {"LIST"}),
        (lambda: told.restore("ann", "p", 1), PAD | CELL_URIS | {"LIST"}),
        (lambda: told.create("ann", "p", {}, CELLS, ANY), PAD | CELL_URIS | {"LIST"}),
        (lambda: told.create("bob", "p", {}, CELLS), {"LIST"}),
        (lambda: told.delete("ann", "p"), PAD | CELL_URIS | {"LIST"}),
        (lambda: told.delete("ann", "p"), set()),
    ]
    await told.create("ann", "p", {}, CELLS)
    heard.look()
    async with watching(told, PAD | CELL_URIS):
        for number, (act, wanted) in enumerate(acts):
            await act()
            assert heard.look("bob" if wanted == {"LIST"} else "ann") == wanted, number
    await told.create("ann", "p", {}, CELLS)
    assert heard.look() == {"LIST"}


@requirement("scratch:told:gone")
async def test_watchers_of_pads_that_go_by_themselves_are_told(told: Pads, heard: Heard) -> None:
    await told.create("ann", "p", {"namespace": "n"}, CELLS)
    async with watching(told, PAD | CELL_URIS):
        for pad in ("q", "r"):
            heard.look()
            await told.create("ann", pad, {}, [])
        assert heard.look() == PAD | CELL_URIS | {"LIST"}
        await told.create("ann", "p", {"namespace": "n"}, CELLS)
        heard.look()
        await told.delete_namespace("ann", "n", with_pads=True)
        assert heard.look() == PAD | CELL_URIS | {"LIST"}


@requirement("scratch:told:namespace")
async def test_renaming_a_namespace_is_told_for_its_pads(told: Pads, heard: Heard) -> None:
    await told.create("ann", "p", {"namespace": "old"}, CELLS)
    await told.create("ann", "q", {"namespace": "other"}, CELLS)
    async with watching(told, PAD | CELL_URIS | {"scratchpad://q"}):
        heard.look()
        await told.rename_namespace("ann", "old", "new", migrate=True)
        assert heard.look() == PAD | {"LIST"}


@requirement("scratch:told:own")
async def test_nobody_is_told_of_the_pads_of_others(told: Pads, heard: Heard) -> None:
    for tenant in ("ann", "bob"):
        await told.create(tenant, "p", {}, CELLS)
        heard.look(tenant)
    async with watching(told, ["scratchpad://p"]), watching(told, ["scratchpad://p", "scratchpad://list"], BOB):
        await told.insert("bob", "p", PadCellDraft("py", "x"))
        assert heard.look("bob") == {"scratchpad://p", "scratchpad://list"}


@requirement("scratch:resources:list")
async def test_a_pad_named_list_is_a_resource_too(told: Pads, heard: Heard) -> None:
    await told.create("ann", "list", {}, CELLS)
    resources = PadResources(told)
    listed = {info.uri for info in await resources.list(ANN)}
    assert {"scratchpad://list", "scratchpad://list/"} <= listed
    (pad,), (pads,) = [await resources.read(ANN, uri) for uri in ("scratchpad://list/", "scratchpad://list")]
    assert '"cell_id":"c1"' in str(pad.body)
    assert '"scratch_id":"list"' in str(pads.body)
    assert "cell_id" not in str(pads.body)
    (cell,) = await resources.read(ANN, "scratchpad://list/cells/c2")
    assert cell.body == "two"
    async with watching(told, ["scratchpad://list/"]):
        heard.look()
        await told.insert("ann", "list", PadCellDraft("py", "x"))
        assert heard.look() == {"scratchpad://list/"}
