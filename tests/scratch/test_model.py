"""Pads against a model: a dictionary of lists. Whatever the sequence of calls, both agree."""

import asyncio
from collections.abc import Collection
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from cellwright.core.errors import CellwrightError
from cellwright.core.resources import Changes
from cellwright.scratch.model import PadCellDraft, PadLimits
from cellwright.scratch.schema import MIGRATIONS
from cellwright.scratch.service import Pads, Policy
from cellwright.scratch.sight.memory import ANY
from cellwright.scratch.validation.validators import Validators
from cellwright.storage.cells import MIGRATIONS as CELLS
from cellwright.storage.location import open_database
from cellwright.storage.search.port import Mode
from cellwright.storage.sqlite.search import MIGRATIONS as SEARCH
from cellwright.storage.sqlite.search import SqliteSearch
from cellwright.workers.pool import WorkerPool
from quick_disk import quick_folder
from requirements import requirement

TENANTS = st.sampled_from(["ann", "bob"])
PADS = st.sampled_from(["p", "q", "r"])
TEXTS = st.sampled_from(["alpha", "beta gamma", "", "o'brien", "日本 🎉", "x = 1\n"])
TAGS = st.lists(st.sampled_from(["t", "u", "ü'"]), max_size=2, unique=True).map(tuple)
MAX_CELLS = 5
STEPS, EXAMPLES = 100, 100
"""Ten thousand steps in all."""
STEPS_BETWEEN_RESTARTS = 12
STEPS_BETWEEN_FULL_LOOKS = 5


class PadsAgreeWithTheModel(RuleBasedStateMachine):
    """The model: tenant and pad to title, tags and cells, each with its id, text and tags."""

    def __init__(self) -> None:
        super().__init__()
        self.held = ExitStack()
        self.folder = self.held.enter_context(quick_folder())
        self.runner = self.held.enter_context(asyncio.Runner())
        self.model: dict[tuple[str, str], dict[str, Any]] = {}
        self.touched: tuple[str, ...] = ()
        self.open()

    def open(self) -> None:
        self.steps = 0
        self.database = open_database(self.folder / "s" / "db", (*SEARCH, *CELLS, *MIGRATIONS))
        index = SqliteSearch(self.database)
        limits = PadLimits(pads=0, cells=MAX_CELLS)
        self.pool = WorkerPool()
        self.pads = Pads(self.database, index, Validators(self.pool), Changes(), limits=limits, policy=Policy())

    def shut(self) -> None:
        self.runner.run(self.pads.close())
        self.runner.run(self.pool.close())
        self.runner.run(self.database.close())

    def teardown(self) -> None:
        self.runner.run(self.look(self.model))
        self.shut()
        self.held.close()

    def done(self, work: Any, *touched: str) -> Any:
        """What the call gives, or the code of its refusal. `touched` is the pad that it may change."""
        self.touched = touched
        try:
            return self.runner.run(work)
        except CellwrightError as error:
            return error.code

    @rule(tenant=TENANTS, pad=PADS, title=TEXTS, tags=TAGS, texts=st.lists(TEXTS, max_size=MAX_CELLS + 1))
    def create(self, tenant: str, pad: str, title: str, tags: tuple[str, ...], texts: list[str]) -> None:
        given = {"title": title, "tags": list(tags)}
        made = self.done(
            self.pads.create(tenant, pad, given, [PadCellDraft("py", text) for text in texts], ANY), tenant, pad
        )
        if len(texts) > MAX_CELLS:
            assert made == "CAPACITY_LIMIT_REACHED"
            return
        assert made.reset == ((tenant, pad) in self.model)
        cells = [[cell.id, text, ()] for cell, text in zip(made.view.cells, texts, strict=True)]
        self.model[tenant, pad] = {"title": title.strip() or None, "tags": tags, "cells": cells}

    @rule(tenant=TENANTS, pad=PADS, text=TEXTS, tags=TAGS, index=st.none() | st.integers(-2, MAX_CELLS + 1))
    def insert(self, tenant: str, pad: str, text: str, tags: tuple[str, ...], index: int | None) -> None:
        made = self.done(self.pads.insert(tenant, pad, PadCellDraft("py", text, tags=tags), index), tenant, pad)
        known = self.model.get((tenant, pad))
        if known is None:
            assert made == "NOT_FOUND"
        elif index is not None and not 0 <= index <= len(known["cells"]):
            assert made == "INVALID_INDEX"
        elif len(known["cells"]) == MAX_CELLS:
            assert made == "CAPACITY_LIMIT_REACHED"
        else:
            at = len(known["cells"]) if index is None else index
            known["cells"].insert(at, [made.view.cells[at].id, text, tags])

    @rule(
        tenant=TENANTS, pad=PADS, which=st.integers(0, MAX_CELLS), text=TEXTS, to=st.none() | st.integers(-1, MAX_CELLS)
    )
    def replace(self, tenant: str, pad: str, which: int, text: str, to: int | None) -> None:
        known = self.model.get((tenant, pad), {"cells": []})["cells"]
        there = which < len(known)
        cell_id = known[which][0] if there else "nope"
        made = self.done(self.pads.replace_cell(tenant, pad, cell_id, PadCellDraft("py", text), to), tenant, pad)
        if (tenant, pad) not in self.model:
            assert made == "NOT_FOUND"
        elif not there:
            assert made == "INVALID_ID"
        elif to is not None and not 0 <= to < len(known):
            assert made == "INVALID_INDEX"
        else:
            cell_id, _, tags = known.pop(which)
            known.insert(which if to is None else to, [cell_id, text, tags])

    @rule(tenant=TENANTS, pad=PADS, which=st.integers(0, MAX_CELLS))
    def delete_cell(self, tenant: str, pad: str, which: int) -> None:
        known = self.model.get((tenant, pad), {"cells": []})["cells"]
        there = which < len(known)
        made = self.done(self.pads.delete_cell(tenant, pad, known[which][0] if there else "nope"), tenant, pad)
        if (tenant, pad) not in self.model:
            assert made == "NOT_FOUND"
        elif not there:
            assert made == "INVALID_ID"
        else:
            known.pop(which)

    @rule(tenant=TENANTS, pad=PADS)
    def delete(self, tenant: str, pad: str) -> None:
        assert self.done(self.pads.delete(tenant, pad), tenant, pad)[0] == ((tenant, pad) in self.model)
        self.model.pop((tenant, pad), None)

    @rule(tenant=TENANTS, pad=PADS, title=TEXTS, tags=TAGS)
    def update(self, tenant: str, pad: str, title: str, tags: tuple[str, ...]) -> None:
        made = self.done(self.pads.update(tenant, pad, {"title": title, "tags": list(tags)}), tenant, pad)
        if (tenant, pad) not in self.model:
            assert made == "NOT_FOUND"
        else:
            self.model[tenant, pad] |= {"title": title.strip() or None, "tags": tags}

    @rule(tenant=TENANTS, word=st.sampled_from(["alpha", "gamma", "brien"]))
    def search(self, tenant: str, word: str) -> None:
        found = self.done(self.pads.search(tenant, word, (), (), 50, Mode.TEXT))
        wanted = {
            (pad, cell[0])
            for (owner, pad), known in self.model.items()
            for cell in known["cells"]
            if owner == tenant and word in cell[1]
        }
        # The title of a pad helps its cells to be found.
        titled = {
            (pad, cell[0])
            for (owner, pad), known in self.model.items()
            for cell in [["", ""], *known["cells"]]
            if owner == tenant and word in (known["title"] or "")
        }
        hits = {(hit.entry.key.thing, hit.entry.key.part) for hit in found.hits}
        assert wanted <= hits <= wanted | titled

    @precondition(lambda self: self.steps >= STEPS_BETWEEN_RESTARTS)
    @rule()
    def restart(self) -> None:
        self.shut()
        self.open()

    @invariant()
    def agrees(self) -> None:
        """After each step the pad that it was about, and both lists; after some, and at the end, all pads."""
        self.steps += 1
        all_of_them = self.steps % STEPS_BETWEEN_FULL_LOOKS == 0
        self.runner.run(self.look(self.model if all_of_them else self.model.keys() & {self.touched}))

    async def look(self, at: Collection[tuple[str, str]]) -> None:
        for tenant in ("ann", "bob"):
            page = await self.pads.page(tenant, (), (), 50, None)
            found = {pad["scratch_id"]: pad["cell_count"] for pad in page.items}
            assert found == {pad: len(known["cells"]) for (owner, pad), known in self.model.items() if owner == tenant}
        for tenant, pad in at:
            known = self.model[tenant, pad]
            view = await self.pads.read(tenant, pad)
            assert [[cell.id, cell.source, cell.tags] for cell in view.cells] == [
                [cell_id, text, tuple(tags)] for cell_id, text, tags in known["cells"]
            ]
            assert [cell.index for cell in view.cells] == list(range(len(known["cells"])))
            assert (view.pad.about.title, view.pad.about.tags) == (known["title"], known["tags"])
            assert view.cell_tags == sorted({tag for _, _, tags in known["cells"] for tag in tags})


@requirement("scratch:model")
@pytest.mark.timeout(400)
def test_pads_agree_with_a_dictionary_of_lists() -> None:
    run_state_machine_as_test(
        PadsAgreeWithTheModel,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
