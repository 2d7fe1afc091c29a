"""Thinking notebooks without running anything: cells, limits, owners, sessions, time."""

import asyncio
import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cellwright.core.errors import CellwrightError, InvalidArgument, LimitReached, NotFound
from cellwright.core.resources import Change, ResourceListChanged, ResourceUpdated
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.notebook.model import Kind
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Engine, Transaction
from cellwright.storage.location import Location, open_database
from cellwright.thinking.drafts import CellDraft
from cellwright.thinking.model import ThinkingLimits, new_notebook_id, new_session_handle
from cellwright.thinking.service import Thinking
from requirements import requirement
from thinking_support import Clock, MakeThinking

pytestmark = pytest.mark.anyio

ANN, BOB = Call(Principal("ann", ALL_SCOPES)), Call(Principal("bob", ALL_SCOPES))


def code(source: str) -> CellDraft:
    return CellDraft(source, Kind.CODE)


async def sources(thinking: Thinking, call: Call, notebook_id: str) -> list[str]:
    return [cell.source for cell in (await thinking.read(call, notebook_id)).cells]


@requirement("thinking:create")
async def test_creating_never_duplicates_cells(thinking: Thinking) -> None:
    first = await thinking.create(ANN, "tree_of_thought", None, "python", None)
    second = await thinking.create(ANN, "tree_of_thought", None, "python", None)
    blank = await thinking.create(ANN, None, "Mine", "python", None)
    template = thinking.patterns["tree_of_thought"].notebook
    for view in (first, second):
        found = await thinking.read(ANN, view.notebook.id)
        assert [cell.source for cell in found.cells] == [cell.source for cell in template.cells]
        assert found.notebook.cell_count == len(template.cells)
    assert first.notebook.session == second.notebook.session == blank.notebook.session
    assert len({one.id for one in await thinking.all_of(ANN)}) == 3
    assert (blank.notebook.title, blank.cells) == ("Mine", [])
    with pytest.raises(InvalidArgument, match="tree_of_thought"):
        await thinking.create(ANN, "tree_of_thougt", None, "python", None)
    with pytest.raises(InvalidArgument, match="written in python"):
        await thinking.create(ANN, "mcts", None, "javascript", None)


@requirement("thinking:cells")
@pytest.mark.parametrize("seed", range(4))
async def test_cells_are_as_in_a_plain_list(thinking: Thinking, seed: int) -> None:
    chance = random.Random(seed)
    notebook_id = (await thinking.create(ANN, None, None, "python", None)).notebook.id
    model: list[tuple[str, str]] = []
    for step in range(60):
        action = chance.choice(["add", "add", "insert", "update", "move", "delete"])
        if action in ("add", "insert") or not model:
            index = None if action == "add" else chance.randrange(len(model) + 1)
            _, cell = await thinking.add_cell(ANN, notebook_id, code(f"s{step}"), index)
            assert cell.index == (len(model) if index is None else index)
            model.insert(cell.index, (cell.id, cell.source))
            continue
        at = chance.randrange(len(model))
        cell_id = model[at][0]
        if action == "delete":
            notebook = await thinking.delete_cell(ANN, notebook_id, cell_id)
            model.pop(at)
            assert notebook.cell_count == len(model)
        elif action == "update":
            await thinking.update_cell(ANN, notebook_id, cell_id, CellDraft(f"u{step}"), None)
            model[at] = (cell_id, f"u{step}")
        else:
            to = chance.randrange(len(model))
            await thinking.update_cell(ANN, notebook_id, cell_id, CellDraft(), to)
            model.insert(to, model.pop(at))
        found = (await thinking.read(ANN, notebook_id)).cells
        assert [(cell.id, cell.source) for cell in found] == model


@requirement("thinking:limits")
async def test_limits(make_thinking: MakeThinking) -> None:
    thinking = make_thinking(ThinkingLimits(notebooks=2, cells=3, source_bytes=10))
    notebook_id = (await thinking.create(ANN, None, None, "python", None)).notebook.id
    await thinking.create(ANN, None, None, "python", None)
    with pytest.raises(LimitReached, match="--thinking-max-notebooks"):
        await thinking.create(ANN, None, None, "python", None)
    await thinking.create(BOB, None, None, "python", None)
    for _ in range(3):
        await thinking.add_cell(ANN, notebook_id, code("x"), None)
    with pytest.raises(LimitReached, match="--thinking-max-cells"):
        await thinking.add_cell(ANN, notebook_id, code("x"), None)
    cell_id = (await thinking.read(ANN, notebook_id)).cells[0].id
    with pytest.raises(LimitReached, match="at most 10 bytes"):
        await thinking.update_cell(ANN, notebook_id, cell_id, CellDraft("é" * 6), None)
    assert await sources(thinking, ANN, notebook_id) == ["x", "x", "x"]
    with pytest.raises(LimitReached, match="--thinking-max-cells"):
        await thinking.import_(BOB, "\n\n".join(f"```python\n{n}\n```" for n in range(4)), "md", None)


@requirement("thinking:limits", "costs:ceiling")
async def test_a_notebook_has_a_limit_in_bytes(make_thinking: MakeThinking) -> None:
    thinking = make_thinking(ThinkingLimits(notebook_bytes=1_000))
    notebook_id = (await thinking.create(ANN, None, None, "python", None)).notebook.id
    added = await thinking.add_cell(ANN, notebook_id, code("é" * 300), None)
    for refused in (
        thinking.add_cell(ANN, notebook_id, code("x" * 500), None),
        thinking.update_cell(ANN, notebook_id, added.cell.id, CellDraft("x" * 1_001), None),
        thinking.import_(ANN, f"```python\n{'x' * 1_001}\n```", "md", None),
    ):
        with pytest.raises(
            LimitReached, match=r"bytes with its outputs, more than the limit of --thinking-max-bytes, 1000"
        ):
            await refused
    assert await sources(thinking, ANN, notebook_id) == ["é" * 300]


@requirement("thinking:limits", "costs:ceiling")
async def test_outputs_for_which_a_notebook_has_no_room_are_left_out_and_say_so(make_thinking: MakeThinking) -> None:
    thinking = make_thinking(ThinkingLimits(notebook_bytes=1_000))
    notebook_id = (await thinking.create(ANN, None, None, "python", None)).notebook.id
    cell = (await thinking.add_cell(ANN, notebook_id, code("print()"), None)).cell
    key, now = NotebookKey(ANN.principal.id, notebook_id), thinking._now()
    for text, kept in (("short", "short"), ("x" * 2_000, "--thinking-max-bytes")):
        ran = replace(cell, outputs=({"output_type": "stream", "name": "stdout", "text": text},), execution_count=1)
        assert await thinking._database.write(lambda tx, ran=ran: thinking._store.note_outcomes(tx, key, [ran], now))
        (found,) = (await thinking.read(ANN, notebook_id)).cells
        assert kept in found.outputs[0]["text"]
        assert found.execution_count == 1


@requirement("thinking:limits")
@pytest.mark.parametrize(
    ("draft", "index"),
    [
        (CellDraft("x", Kind.CODE, language="no such\nlanguage"), None),
        (CellDraft("x", Kind.CODE, filename="../../etc/passwd"), None),
        (CellDraft("x", Kind.MARKDOWN, filename="a.md"), None),
        (CellDraft("nul \0", Kind.CODE), None),
        (CellDraft("x", Kind.CODE), 5),
    ],
)
async def test_what_cannot_be_a_cell_is_refused_whole(
    file_thinking: Thinking, draft: CellDraft, index: int | None
) -> None:
    thinking = file_thinking
    notebook_id = (await thinking.create(ANN, None, None, "python", None)).notebook.id
    with pytest.raises(InvalidArgument):
        await thinking.add_cell(ANN, notebook_id, draft, index)
    assert await sources(thinking, ANN, notebook_id) == []


@requirement("thinking:ttl", "thinking:resources:read-only")
async def test_time_to_live(thinking: Thinking, clock: Clock, heard: list[Change]) -> None:
    made = (await thinking.create(ANN, None, None, "python", None)).notebook
    used = (await thinking.create(ANN, None, None, "python", None)).notebook
    clock.now += 1_000
    await thinking.add_cell(ANN, used.id, code("x"), None)
    await thinking.read(ANN, made.id)
    await thinking.text(ANN, made.id, "srcmd")
    clock.now += 900
    # Its time is over, though nobody has swept: reading it a moment ago did not count as use.
    with pytest.raises(NotFound, match="Notebook not found"):
        await thinking.read(ANN, made.id)
    with pytest.raises(NotFound, match="Notebook not found"):
        await thinking.add_cell(ANN, made.id, code("x"), None)
    assert [one.id for one in await thinking.all_of(ANN)] == [used.id]
    heard.clear()
    assert await thinking.sweep() == 1
    assert ResourceListChanged("ann") in heard
    assert ResourceUpdated(made.uri, "ann") in heard
    assert await thinking.sweep() == 0
    clock.now += 901
    assert await thinking.sweep() == 1
    assert await thinking.all_of(ANN) == []


@requirement("thinking:sessions")
async def test_sessions(thinking: Thinking, clock: Clock) -> None:
    ann_connected = Call(ANN.principal, connection="abc")
    default = (await thinking.create(ANN, None, None, "python", None)).notebook.session
    connected = (await thinking.create(ann_connected, None, None, "python", None)).notebook.session
    assert default != connected
    assert (await thinking.create(ann_connected, None, None, "python", None)).notebook.session == connected
    assert (await thinking.create(ANN, None, None, "python", connected)).notebook.session == connected
    for handle in (connected, new_session_handle(), "list", "", "x" * 500):
        with pytest.raises(NotFound):
            await thinking.create(BOB, None, None, "python", handle)
    clock.now += 10_000
    await thinking.sweep()
    with pytest.raises(NotFound, match="Session not found"):
        await thinking.create(ANN, None, None, "python", connected)


@requirement("thinking:sessions")
async def test_guessed_handles_find_nothing(file_thinking: Thinking) -> None:
    """A million handles made as ours are against those that exist, then some through the whole service."""
    thinking = file_thinking
    made = [(await thinking.create(ANN, None, None, "python", None)).notebook.id for _ in range(40)]
    assert not set(made) & {new_notebook_id() for _ in range(1_000_000)}
    for _ in range(300):
        with pytest.raises(NotFound):
            await thinking.read(ANN, new_notebook_id())
    for guess in ("", "nb-", made[0].upper(), made[0] + "0", made[0][:-1], "%", "nb-" + "'" * 32, "*"):
        with pytest.raises(NotFound, match="Notebook not found"):
            await thinking.read(ANN, guess)


@requirement("thinking:isolation:words")
async def test_anothers_notebook_takes_no_other_time(file_thinking: Thinking) -> None:
    thinking = file_thinking
    notebook_id = (await thinking.create(ANN, "mcts", None, "python", None)).notebook.id
    refusals: list[str] = []

    async def refused(wanted: str) -> float:
        began = time.perf_counter()
        with pytest.raises(NotFound) as error:
            await thinking.read(BOB, wanted)
        refusals.append(str(error.value.as_json()))
        return time.perf_counter() - began

    pairs = [(await refused(notebook_id), await refused(new_notebook_id())) for _ in range(200)]
    theirs, nobodys = (sorted(times)[len(pairs) // 2] for times in zip(*pairs, strict=True))
    assert len(set(refusals)) == 1
    assert theirs < 1.5 * nobodys
    assert nobodys < 1.5 * theirs


@requirement("thinking:isolation")
async def test_two_principals_in_10000_interleaved_steps(make_thinking: MakeThinking, where: Location) -> None:
    """On PostgreSQL a tenth of them: the statements are the same, and each crosses a socket."""
    steps = 10_000 if isinstance(where, Path) else 1_000
    thinking = make_thinking(ThinkingLimits(notebooks=6, cells=12))
    chance = random.Random(7)
    owned: dict[str, dict[str, list[str]]] = {"ann": {}, "bob": {}}
    calls = {"ann": ANN, "bob": BOB}
    for step in range(steps):
        name = chance.choice(["ann", "bob"])
        call, mine = calls[name], owned[name]
        others = owned["bob" if name == "ann" else "ann"]
        if step % 4 and others:
            with pytest.raises(NotFound, match="Notebook not found"):
                await _anything(thinking, call, chance, chance.choice(list(others)))
            continue
        if not mine or (chance.random() < 0.05 and len(mine) < 6):
            mine[(await thinking.create(call, None, None, "python", None)).notebook.id] = []
            continue
        notebook_id = chance.choice(list(mine))
        if len(mine[notebook_id]) < 12:
            source = f"{name} {step}"
            await thinking.add_cell(call, notebook_id, code(source), None)
            mine[notebook_id].append(source)
        else:
            await thinking.close_notebook(call, notebook_id)
            del mine[notebook_id]
    for name, call in calls.items():
        assert {one.id for one in await thinking.all_of(call)} == set(owned[name])
        for notebook_id, expected in owned[name].items():
            assert await sources(thinking, call, notebook_id) == expected


async def _anything(thinking: Thinking, call: Call, chance: random.Random, notebook_id: str) -> None:
    match chance.randrange(6):
        case 0:
            await thinking.read(call, notebook_id)
        case 1:
            await thinking.text(call, notebook_id, "json")
        case 2:
            await thinking.add_cell(call, notebook_id, code("not mine"), None)
        case 3:
            await thinking.delete_cell(call, notebook_id, "0")
        case 4:
            await thinking.close_notebook(call, notebook_id)
        case _:
            await thinking.run(call, notebook_id, None, 0)


@requirement("thinking:restart")
async def test_another_process_finds_everything(make_thinking: MakeThinking) -> None:
    first, second = make_thinking(), make_thinking()
    notebook = (await first.create(ANN, "beam_search", "T", "python", None)).notebook
    await first.add_cell(ANN, notebook.id, code("x = 1"), 0)
    view = await second.read(ANN, notebook.id, notebook.session)
    assert [cell.source for cell in view.cells] == await sources(first, ANN, notebook.id)
    assert view.notebook.pattern == "beam_search"


@requirement("thinking:durable")
async def test_a_change_does_not_wait_for_the_disk_and_the_next_that_does_takes_it_along(where: Location) -> None:
    database = open_database(where)
    asked = "PRAGMA synchronous" if database.engine is Engine.SQLITE else "SHOW synchronous_commit"

    def setting(tx: Transaction) -> object:
        return (tx.row(asked) or ("",))[0]

    found = [await one(setting) for one in (database.write_soon, database.write, database.write_soon, database.write)]
    unforced, forced = (1, 2) if database.engine is Engine.SQLITE else ("off", "on")
    assert found == [unforced, forced] * 2
    await database.close()


@requirement("thinking:book")
async def test_notebooks_as_books_and_from_books(thinking: Thinking) -> None:
    notebook = (await thinking.create(ANN, "ooda_loop", "Mine", "python", None)).notebook
    whole = await thinking.notebook(ANN, notebook.id)
    assert (whole.title, whole.language, whole.metadata["pattern"]) == ("Mine", "python", "ooda_loop")
    copied, notes = await thinking.import_notebook(ANN, whole)
    assert notes == []
    assert await thinking.notebook(ANN, copied.notebook.id) == whole
    with pytest.raises(NotFound, match="Notebook not found"):
        await thinking.notebook(BOB, notebook.id)


@requirement("thinking:views")
async def test_only_notebooks_that_changed_are_read_again(thinking: Thinking) -> None:
    first = (await thinking.create(ANN, None, "First", "python", None)).notebook
    second = (await thinking.create(ANN, None, "Second", "python", None)).notebook
    await thinking.create(BOB, None, "Bob's", "python", None)
    await thinking.add_cell(ANN, first.id, code("one"), None)
    found = {view.notebook.id: view for view in await thinking.views(ANN, {})}
    assert {key: [cell.source for cell in view.cells] for key, view in found.items()} == {
        first.id: ["one"],
        second.id: [],
    }
    known = {key: view.notebook.version for key, view in found.items()}
    assert await thinking.views(ANN, known) == []
    await thinking.touch(ANN, first.id)
    await thinking.add_cell(ANN, second.id, code("two"), None)
    assert [view.cells[0].source for view in await thinking.views(ANN, known)] == ["two"]


@requirement("thinking:formats")
@pytest.mark.parametrize("form", ["json", "ipynb", "srcmd", "md"])
async def test_export_and_import(file_thinking: Thinking, form: str) -> None:
    thinking = file_thinking
    notebook = (await thinking.create(ANN, "ooda_loop", "Round trip", "python", None)).notebook
    _, text = await thinking.text(ANN, notebook.id, form)
    view, _ = await thinking.import_(ANN, text.body, form, None)
    before = (await thinking.read(ANN, notebook.id)).cells
    assert view.notebook.title == "Round trip"
    assert [cell.source for cell in view.cells if cell.kind is Kind.CODE] == [
        cell.source for cell in before if cell.kind is Kind.CODE
    ]
    if form in ("json", "ipynb"):
        assert view.cells == before
        assert view.notebook.pattern == "ooda_loop"


CELL: dict[str, Any] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": "x"}
PRINTED = {"output_type": "stream", "name": "stdout"}


def ipynb(*cells: dict[str, Any], **metadata: Any) -> str:
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": [{**CELL, **cell} for cell in cells]}
    return json.dumps(whole)


@requirement("thinking:hostile")
@pytest.mark.parametrize(
    "content",
    [
        ipynb({"source": "half \ud800"}),
        ipynb({"metadata": {"mood": "\ud800"}}),
        ipynb({"outputs": [{**PRINTED, "text": "\ud800"}]}),
        ipynb(CELL, cellwright={"title": "\ud800"}),
        ipynb({"source": "nul \0"}),
    ],
)
async def test_what_is_no_text_is_refused_whole(thinking: Thinking, content: str) -> None:
    with pytest.raises(InvalidArgument):
        await thinking.import_(ANN, content, "ipynb", None)
    assert await thinking.all_of(ANN) == []


@requirement("thinking:hostile")
async def test_hostile_files_are_mended_and_read_as_text(thinking: Thinking) -> None:
    """Ids twice or not at all, lines for a source, errors that say nothing, hidden characters wherever there is room."""
    hidden = "\u202ea\u200bb\x1b[2J\0"
    nothing: dict[str, Any] = {"output_type": "error", "ename": "", "evalue": "", "traceback": []}
    content = ipynb(
        {"id": "twice"},
        {"id": "twice", "source": ["one\n", "two"]},
        {"id": "' OR 1=1 --", "outputs": [nothing]},
        {"outputs": [{**PRINTED, "text": hidden}], "metadata": {hidden: hidden}},
        cellwright={"title": f"T {hidden}", "language": "python"},
    )
    view, _ = await thinking.import_(ANN, content, "ipynb", None)
    assert len({cell.id for cell in view.cells}) == 4
    assert [cell.source for cell in view.cells] == ["x", "one\ntwo", "x", "x"]
    assert [cell.status for cell in view.cells] == ["idle", "idle", "failed", "idle"]
    assert view.notebook.has_errors
    for form in ("srcmd", "json", "ipynb", "md", "cells"):
        _, text = await thinking.text(ANN, view.notebook.id, form)
        assert not set("\u202e\u200b\x1b\0") & set(text.body)
        assert "\\u0000" not in text.body
        text.body.encode()


@requirement("thinking:limits")
async def test_a_file_of_far_too_many_cells_holds_nobody_up(file_thinking: Thinking) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    content = ipynb(*[CELL] * 19_000)
    waiting = asyncio.create_task(others())
    with pytest.raises(LimitReached, match="--thinking-max-cells"):
        await file_thinking.import_(ANN, content, "ipynb", None)
    waiting.cancel()
    assert turns >= 5


@requirement("thinking:formats")
@pytest.mark.parametrize("content", ["", "{", "[]", '{"nbformat": 4}', "x" * 100, "null", "[" * 5_000])
@pytest.mark.parametrize("form", ["json", "ipynb", "srcmd"])
async def test_what_is_no_notebook_is_refused(file_thinking: Thinking, content: str, form: str) -> None:
    thinking = file_thinking
    with pytest.raises(CellwrightError):
        await thinking.import_(ANN, content, form, None)
    assert await thinking.all_of(ANN) == []
