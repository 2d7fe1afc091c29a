"""Two callers change one pad in any order: whatever goes was shown to who overwrote it, and nothing is refused without a reason."""

import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from cellwright.core.errors import Conflict
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.scratch.model import InvalidId
from cellwright.scratch.service import Pads
from cellwright.scratch.sight.memory import Expect
from cellwright.scratch.tools import plus, scratch
from cellwright.scratch.tools.common import CellInput
from requirements import requirement

pytestmark = pytest.mark.anyio
MakePads = Callable[..., Pads]
SEEDS = range(4)
STEPS = 150
ABOUT = "about"
WHOLE = "whole"
MARK = re.compile(r"m\d+m")
"""Whatever is written has a mark of its own, so that it is known where it went."""


@dataclass
class Caller:
    """An agent: what it believes is in the pad, all marks that it was ever shown, and what changed since it was shown."""

    pads: Pads
    call: Call
    believes: dict[str, str] = field(default_factory=dict[str, str])
    shown: set[str] = field(default_factory=set[str])
    restored: set[str] = field(default_factory=set[str])
    """The marks that it brought back with an earlier version, unseen."""
    stale: set[str] = field(default_factory=set[str])
    """The parts that the other one changed since."""

    def see(self, answer: object) -> None:
        self.shown |= marks(str(answer))


def marks(text: str) -> set[str]:
    return set(MARK.findall(text))


class Interleaving:
    """One pad, two callers, and what is in the pad by the harness's own reading of the database."""

    def __init__(self, first: Pads, second: Pads, seed: int) -> None:
        self.chance = random.Random(seed)
        principal = Principal("ann", ALL_SCOPES)
        self.callers = [Caller(pads, Call(principal, connection=str(pads))) for pads in (first, second)]
        self.reader = first
        self.written = 0
        self.merges = self.refusals = 0

    def new_line(self) -> str:
        self.written += 1
        return f"line m{self.written}m"

    async def parts(self) -> dict[str, str]:
        view = await self.reader.read("ann", "p")
        return {ABOUT: view.pad.about.description or "", **{cell.id: cell.source for cell in view.cells}}

    async def version(self) -> int:
        return (await self.reader.read("ann", "p", cell_ids=())).pad.version

    def edited(self, text: str) -> str:
        lines = text.split("\n")
        at = self.chance.randrange(len(lines))
        match self.chance.randrange(5):
            case 0:
                lines[at] = self.new_line()
            case 1:
                lines.insert(at, self.new_line())
            case 2:
                lines.append(self.new_line())
            case 3:
                del lines[at]
            case _:
                return "\n".join(self.new_line() for _ in range(self.chance.randrange(1, 12)))
        return "\n".join(lines) or self.new_line()

    async def step(self) -> None:
        me, other = self.chance.sample(self.callers, 2)
        acts: Mapping[Callable[[Caller, Caller], Awaitable[None]], int] = {
            self.read: 4,
            self.look: 2,
            self.append: 3,
            self.replace: 14,
            self.delete: 2,
            self.describe: 4,
            self.restore: 1,
            self.delete_pad: 1,
        }
        await self.chance.choices([*acts], [*acts.values()])[0](me, other)

    # -- what callers do

    async def read(self, me: Caller, other: Caller, *, whole: bool = False) -> None:
        del other
        cell_ids = [part for part in await self.parts() if part != ABOUT]
        chosen = None if whole else self.chance.choice([None, *cell_ids])
        answer = await scratch.scratch_read(
            me.pads, me.call, "p", [chosen] if chosen else None, include_metadata=chosen is None
        )
        me.see(answer)
        for cell in answer["scratchpad"]["cells"]:
            me.believes[cell["cell_id"]] = cell["content"]
            me.stale.discard(cell["cell_id"])
        if chosen is None:
            me.believes[ABOUT] = answer["scratchpad"].get("description") or ""
            me.stale.clear()

    async def look(self, me: Caller, other: Caller) -> None:
        del other
        answer = await scratch.scratch_list_cells(me.pads, me.call, "p")
        me.see(answer)
        for cell in answer["cells"]:
            if cell["characters"] == len(cell["preview"]):
                me.believes[cell["cell_id"]] = cell["preview"]
                me.stale.discard(cell["cell_id"])

    async def append(self, me: Caller, other: Caller) -> None:
        text = "\n".join(self.new_line() for _ in range(self.chance.randrange(1, 12)))
        before = await self.parts()
        answer = await scratch.scratch_append_cell(me.pads, me.call, "p", CellInput("md", text))
        (added,) = set(await self.parts()) - set(before)
        me.see(text)
        me.see(answer)
        me.believes[added] = text
        other.stale.add(WHOLE)

    async def replace(self, me: Caller, other: Caller) -> None:
        known = [part for part in me.believes if part != ABOUT]
        if known:
            part = self.chance.choice(known)
            text = self.edited(me.believes[part])

            def change(expect: Expect | None) -> Awaitable[Any]:
                return scratch.scratch_replace_cell(me.pads, me.call, "p", part, CellInput("md", text), expect=expect)

            await self.changed(me, other, part, change, text)

    async def describe(self, me: Caller, other: Caller) -> None:
        if ABOUT in me.believes:
            text = self.edited(me.believes[ABOUT]).strip()

            def change(expect: Expect | None) -> Awaitable[Any]:
                return plus.scratch_update(me.pads, me.call, "p", {"description": text}, expect)

            await self.changed(me, other, ABOUT, change, text)

    async def delete(self, me: Caller, other: Caller) -> None:
        known = [part for part in me.believes if part != ABOUT]
        if known:
            part = self.chance.choice(known)
            await self.changed(
                me, other, part, lambda expect: plus.scratch_delete_cell(me.pads, me.call, "p", part, expect)
            )

    async def restore(self, me: Caller, other: Caller) -> None:
        version = max(1, await self.version() - 1)
        await self.changed(
            me,
            other,
            WHOLE,
            lambda expect: plus.scratch_history(me.pads, me.call, "p", restore=version, expect=expect),
        )

    async def delete_pad(self, me: Caller, other: Caller) -> None:
        await self.changed(me, other, WHOLE, lambda expect: scratch.scratch_delete(me.pads, me.call, "p", expect))
        if not (await self.reader.page("ann", (), (), 1, None)).items:
            await scratch.scratch_create(me.pads, me.call, "p", {"description": self.new_line()})
            me.believes, me.stale = {ABOUT: f"line m{self.written}m"}, set()
            me.shown.add(f"m{self.written}m")

    # -- what holds

    async def changed(
        self,
        me: Caller,
        other: Caller,
        part: str,
        change: Callable[[Expect | None], Awaitable[Any]],
        text: str | None = None,
    ) -> None:
        before, version = await self.parts(), await self.version()
        choices: list[Expect | None] = [None, version, version - 1, "any"]
        expect = self.chance.choices(choices, [12, 3, 1, 1])[0]
        for wanted in (expect, version):
            try:
                answer = await change(wanted)
            except Conflict as refusal:
                self.refusals += 1
                me.see(refusal.details)
                assert wanted == version - 1 or part in me.stale, "refused, and nothing had changed"
                assert await self.parts() == before, "a refusal changes nothing"
                if self.chance.random() < 0.5 and wanted != version:
                    continue
                return
            except InvalidId:
                assert part not in before
                me.believes.pop(part)
                return
            break
        else:
            return
        await self.check(me, other, part, before, answer, text, overwrites=wanted == "any")

    async def check(
        self,
        me: Caller,
        other: Caller,
        part: str,
        before: dict[str, str],
        answer: Any,
        text: str | None,
        *,
        overwrites: bool,
    ) -> None:
        self.merges += "merged_with" in answer
        after = await self.parts() if (await self.reader.page("ann", (), (), 1, None)).items else {}
        lost = marks(str(before)) - marks(str(after))
        known = me.shown | me.restored if part == WHOLE else me.shown
        assert overwrites or lost <= known, "what went was shown to who overwrote it"
        if text is None:
            me.believes = {known: text for known, text in me.believes.items() if known in after}
        else:
            assert marks(text) - marks(me.believes[part]) <= marks(after[part]), "what was written is there"
            me.believes[part] = text
            me.see(text)
        me.see(answer)
        self.note(me, other, part, before, after)

    def note(self, me: Caller, other: Caller, part: str, before: dict[str, str], after: dict[str, str]) -> None:
        """Note which parts the other one has not seen as they are now, and what I have."""
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        other.stale |= changed | {WHOLE}
        me.stale.discard(part)
        if part == WHOLE:
            # What is brought back may be what they never saw.
            me.stale |= changed | {WHOLE}
            me.restored |= marks(str(after))


@requirement("scratch:sight:nothing-lost")
@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_goes_unseen(make_pads: MakePads, seed: int) -> None:
    interleaving = Interleaving(make_pads(), make_pads(), seed)
    (first, second) = interleaving.callers
    made = (await scratch.scratch_create(first.pads, first.call, "p", {"description": "a\nb\nc"})).data
    assert made["scratchpad"]["version"] == 1
    for _ in range(3):
        await interleaving.append(first, second)
    await interleaving.read(first, second, whole=True)
    await interleaving.read(second, first, whole=True)
    for _ in range(STEPS):
        await interleaving.step()
    assert interleaving.merges > 0
    assert interleaving.refusals > 10
