"""Two tenants, step by step in between each other: neither sees, evicts or delays the other's pads."""

import asyncio
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from cellwright.core.errors import CellwrightError, LimitReached, NotFound
from cellwright.core.resources import Changes
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.scratch.model import PadCellDraft, PadLimits
from cellwright.scratch.resources import PadResources
from cellwright.scratch.schema import MIGRATIONS
from cellwright.scratch.service import Pads, Policy
from cellwright.scratch.sight.memory import ANY
from cellwright.scratch.validation.validators import Validators
from cellwright.storage.cells import MIGRATIONS as CELLS
from cellwright.storage.database import Database, Transaction
from cellwright.storage.location import open_database
from cellwright.storage.search.opening import open_search
from cellwright.storage.search.port import Mode
from cellwright.storage.search.schema import MIGRATIONS as SEARCH
from cellwright.workers.pool import WorkerPool
from requirements import requirement

pytestmark = pytest.mark.anyio
MakePads = Callable[..., Pads]
T = TypeVar("T")
STEPS = int(os.environ.get("CELLWRIGHT_TEST_TENANT_STEPS", "10000"))
MOST_PADS = 6


class Interleaved:
    """Steps of two tenants who use the same ids. Every text has its owner's word in it, so a leak can be seen anywhere."""

    def __init__(self, pads: Pads) -> None:
        self.pads = pads
        self.resources = PadResources(pads)
        self.left = STEPS
        self.made: dict[str, set[str]] = {"ann": set(), "bob": set()}

    async def work(self, seed: int) -> None:
        chosen = random.Random(seed)
        tenant = ("ann", "bob")[seed % 2]
        while self.left > 0:
            self.left -= 1
            try:
                told = await self.step(chosen, tenant)
            except CellwrightError as error:
                told = error.as_json()
            other = "bob" if tenant == "ann" else "ann"
            assert f"{other}word" not in str(told), (tenant, told)

    async def step(self, chosen: random.Random, tenant: str) -> object:
        word = f"{tenant}word"
        pad = chosen.choice(["s0", "s1", "s2", f"{word}-{chosen.randrange(6)}"])
        act = chosen.choices((self.create, self.change, self.look, self.resource), (2, 5, 11, 2))[0]
        return await act(chosen, tenant, pad)

    async def create(self, chosen: random.Random, tenant: str, pad: str) -> object:
        word = f"{tenant}word"
        self.made[tenant].add(pad)
        about = {"title": word, "namespace": chosen.choice([word, "both"]), "tags": [word, "both"]}
        made = await self.pads.create(tenant, pad, about, [self.cell(chosen, word)], ANY)
        assert set(made.evicted) <= self.made[tenant]
        return made

    @staticmethod
    def cell(chosen: random.Random, word: str) -> PadCellDraft:
        text, name = f"{word} common {chosen.random()}", f"c{chosen.randrange(4)}"
        return PadCellDraft("py", text, name, {"k": word}, (word, "both"))

    async def change(self, chosen: random.Random, tenant: str, pad: str) -> object:
        cell = self.cell(chosen, f"{tenant}word")
        acts: tuple[Callable[[], Any], ...] = (
            lambda: self.pads.insert(tenant, pad, cell),
            lambda: self.pads.insert(tenant, pad, cell, 0),
            lambda: self.pads.replace_cell(tenant, pad, "c1", cell, 0),
            lambda: self.pads.delete(tenant, pad),
            lambda: self.pads.update(tenant, pad, {"summary": f"{tenant}word"}),
        )
        return await chosen.choice(acts)()

    async def look(self, chosen: random.Random, tenant: str, pad: str) -> object:
        spaces, tags = chosen.choice([(), ("both",)]), chosen.choice([(), ("both",)])
        acts: tuple[Callable[[], Any], ...] = (
            lambda: self.pads.search(tenant, "common", (), ("both",), 50, Mode.TEXT),
            lambda: self.pads.search(tenant, "word-1 common", spaces, tags, 50, Mode.TEXT),
            lambda: self.pads.page(tenant, spaces, tags, 50, None),
            lambda: self.pads.tags(tenant, ()),
            lambda: self.counted(tenant),
            lambda: self.pads.history(tenant, pad, 20),
            lambda: self.pads.read(tenant, pad),
        )
        return await chosen.choice(acts)()

    async def counted(self, tenant: str) -> object:
        spaces = await self.pads.namespaces(tenant)
        assert sum(one["scratchpad_count"] for one in spaces) <= MOST_PADS
        return spaces

    async def resource(self, chosen: random.Random, tenant: str, pad: str) -> object:
        who = Call(Principal(tenant, ALL_SCOPES))
        if chosen.randrange(2):
            return await self.resources.list(who)
        return await self.resources.read(who, f"scratchpad://{pad}/{chosen.choice(['json', 'md', 'cells/c1'])}")


@requirement("scratch:proof:no-leak", "scratch:tenants")
@pytest.mark.timeout(120 + STEPS // 100)
async def test_interleaved_tenants_never_see_each_other(in_memory: Path) -> None:
    database = open_database(in_memory / "state" / "db", (*SEARCH, *CELLS, *MIGRATIONS))
    pool = WorkerPool()
    pads = Pads(
        database,
        open_search(database),
        Validators(pool),
        Changes(),
        limits=PadLimits(pads=MOST_PADS, cells=5),
        policy=Policy(),
    )
    steps = Interleaved(pads)
    async with anyio.create_task_group() as group:
        for seed in range(64):
            group.start_soon(steps.work, seed)
    for tenant in ("ann", "bob"):
        listed = await pads.page(tenant, (), (), 200, None)
        counted = await database.read(lambda tx, of=tenant: tx.row("SELECT pads FROM tenants WHERE tenant = ?", of))
        assert counted == (len(listed.items),)
        assert {item["scratch_id"] for item in listed.items} <= steps.made[tenant]
    await pads.close()
    await pool.close()
    await database.close()


class Watched:
    """A real transaction that also notes its statements."""

    def __init__(self, tx: Transaction, seen: list[str]) -> None:
        self._tx, self._seen = tx, seen

    def run(self, sql: str, *values: Any) -> int:
        self._seen.append(sql)
        return self._tx.run(sql, *values)

    def rows(self, sql: str, *values: Any) -> Any:
        self._seen.append(sql)
        return self._tx.rows(sql, *values)

    def row(self, sql: str, *values: Any) -> Any:
        self._seen.append(sql)
        return self._tx.row(sql, *values)


class WatchedDatabase:
    """A real database whose statements are noted."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.engine = database.engine
        self.seen: list[str] = []

    async def read(self, work: Callable[[Transaction], T]) -> T:
        return await self._database.read(lambda tx: work(Watched(tx, self.seen)))

    async def write(self, work: Callable[[Transaction], T]) -> T:
        return await self._database.write(lambda tx: work(Watched(tx, self.seen)))

    async def write_soon(self, work: Callable[[Transaction], T]) -> T:
        return await self._database.write_soon(lambda tx: work(Watched(tx, self.seen)))

    async def change_mark(self) -> str:
        return await self._database.change_mark()

    async def close(self) -> None:
        await self._database.close()


@requirement("scratch:proof:same-work", "scratch:tenants")
async def test_a_pad_of_another_costs_what_no_pad_costs(tmp_path: Path) -> None:
    database = WatchedDatabase(open_database(tmp_path / "state" / "db", (*SEARCH, *CELLS, *MIGRATIONS)))
    index = open_search(database)
    pool = WorkerPool()
    pads = Pads(database, index, Validators(pool), Changes(), limits=PadLimits(pads=2), policy=Policy())
    for pad in ("another", "evicted", "deleted", "mine"):
        await pads.create("ann" if pad == "another" else "bob", pad, {"namespace": "n"}, [PadCellDraft("py", "x", "c")])
        if pad == "deleted":
            await pads.delete("bob", pad)
    await pads.create("bob", "more", {}, [])
    acts: list[Callable[[str], Any]] = [
        lambda pad: pads.read("bob", pad),
        lambda pad: pads.read("bob", pad, namespaces=["elsewhere"]),
        lambda pad: pads.insert("bob", pad, PadCellDraft("py", "x")),
        lambda pad: pads.replace_cell("bob", pad, "c", PadCellDraft("py", "x")),
        lambda pad: pads.delete_cell("bob", pad, "c"),
        lambda pad: pads.update("bob", pad, {"title": "t"}),
        lambda pad: pads.history("bob", pad, 5),
        lambda pad: pads.restore("bob", pad, 1),
        lambda pad: pads.validate("bob", pad, None),
        lambda pad: pads.schemas("bob", pad),
    ]
    for act in acts:
        outcomes: set[str] = set()
        for pad in ("another", "evicted", "deleted", "nothing"):
            database.seen.clear()
            with pytest.raises(CellwrightError) as refusal:
                await act(pad)
            outcomes.add(json.dumps([database.seen, refusal.value.as_json()]).replace(pad, "PAD"))
        assert len(outcomes) == 1, outcomes
    await pads.close()
    await pool.close()
    await database.close()


@requirement("scratch:proof:uses")
async def test_a_refused_create_forgets_no_use(make_pads: MakePads) -> None:
    now = [0.0]
    pads = make_pads(PadLimits(pads=1), Policy(eviction="preempt", preempt_age=100), lambda: now[0])
    await pads.create("ann", "p", {}, [])
    now[0] = 90.0
    await pads.read("ann", "p")
    with pytest.raises(LimitReached):
        await pads.create("ann", "q", {}, [])
    now[0] = 150.0
    assert await pads.sweep_once() == 0
    now[0] = 500.0
    assert await pads.sweep_once() == 1
    with pytest.raises(NotFound):
        await pads.read("ann", "p")


@requirement("scratch:proof:evict-at-once", "scratch:proof:import-once")
async def test_creates_and_imports_at_once(make_pads: MakePads) -> None:
    first, second = make_pads(PadLimits(pads=5)), make_pads(PadLimits(pads=5))
    made = await asyncio.gather(*((first, second)[n % 2].create("ann", f"p{n}", {}, []) for n in range(30)))
    evicted = [pad for one in made for pad in one.evicted]
    kept = [item["scratch_id"] for item in (await first.page("ann", (), (), 50, None)).items]
    assert len(kept) == 5
    assert sorted([*evicted, *kept]) == sorted(f"p{n}" for n in range(30))
    imports = ((first, second)[n % 2].create("ann", "new", {}, [PadCellDraft("py", str(n), str(n))]) for n in range(10))
    outcomes = await asyncio.gather(*imports, return_exceptions=True)
    (winner,) = [one for one in outcomes if not isinstance(one, BaseException)]
    assert {one.code for one in outcomes if isinstance(one, CellwrightError)} == {"CONFLICT"}
    assert (await first.read("ann", "new")).cells == winner.view.cells
