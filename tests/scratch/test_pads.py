"""What pads do, on every engine."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument, LimitReached, NotFound
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.scratch.model import InvalidId, InvalidIndex, PadLimits
from cellwright.scratch.service import Pads, Policy
from cellwright.scratch.tools import plus, scratch
from cellwright.scratch.tools.common import CellInput, PadWritten
from cellwright.storage.search.words import MAX_WORDS
from requirements import requirement

pytestmark = pytest.mark.anyio
MakePads = Callable[..., Pads]
ANN = Call(Principal("ann", ALL_SCOPES))
BOB = Call(Principal("bob", ALL_SCOPES))


def cell(content: str = "x", language: str = "py", **more: Any) -> CellInput:
    return CellInput(language, content, **more)


async def contents(pads: Pads, pad_id: str, call: Call = ANN) -> list[str]:
    view = await pads.read(call.principal.id, pad_id)
    assert [one.index for one in view.cells] == list(range(view.pad.cell_count))
    return [one.source for one in view.cells]


async def ids(pads: Pads, pad_id: str) -> list[str]:
    return [one.id for one in (await pads.read("ann", pad_id)).cells]


async def make(pads: Pads, pad_id: str, texts: Sequence[str] = ("a", "b", "c"), **metadata: Any) -> PadWritten:
    cells = [cell(text) for text in texts]
    return (await scratch.scratch_create(pads, ANN, pad_id, metadata, cells, expect="any")).data


@requirement("scratch:create:reset")
async def test_creating_again_resets(pads: Pads) -> None:
    await make(pads, "p", title="first")
    again = await make(pads, "p", ["z"], title="second")
    assert again["reset"] is True
    assert again["scratchpad"]["title"] == "second"
    assert await contents(pads, "p") == ["z"]


@requirement("scratch:create:reset", "scratch:write:whole")
async def test_a_failed_reset_leaves_the_old_pad(make_pads: MakePads) -> None:
    pads = make_pads(PadLimits(cells=3))
    await make(pads, "p")
    with pytest.raises(LimitReached):
        await make(pads, "p", ["1", "2", "3", "4"])
    with pytest.raises(InvalidId):
        await scratch.scratch_create(pads, ANN, "p", None, [cell(cell_id="same"), cell(cell_id="same")], "any")
    assert await contents(pads, "p") == ["a", "b", "c"]


@requirement("scratch:create:id")
async def test_ids(pads: Pads) -> None:
    made = (await scratch.scratch_create(pads, ANN)).data
    assert len(made["scratchpad"]["scratch_id"]) == 32
    for bad in ("", "a b", "x" * 129, "ä", "a/b", "a\n"):
        with pytest.raises(InvalidId):
            await scratch.scratch_create(pads, ANN, bad)
    await make(pads, "x" * 128)
    with pytest.raises(InvalidId):
        await scratch.scratch_append_cell(pads, ANN, "x" * 128, cell(cell_id="not valid"))


@requirement("scratch:write:no-content")
async def test_replies_to_changes_have_no_content(pads: Pads) -> None:
    secret = "CONTENT-OF-A-CELL"
    replies = [(await scratch.scratch_create(pads, ANN, "p", None, [cell(secret, validate=True)])).data]
    (one,) = await ids(pads, "p")
    replies += [
        await scratch.scratch_append_cell(pads, ANN, "p", cell(secret)),
        await scratch.scratch_replace_cell(pads, ANN, "p", one, cell(secret + "2")),
        await plus.scratch_insert_cell(pads, ANN, "p", 0, cell(secret)),
        await plus.scratch_update(pads, ANN, "p", {"title": "t"}),
        await plus.scratch_delete_cell(pads, ANN, "p", one),
        await plus.scratch_history(pads, ANN, "p", restore=2),
    ]
    for reply in replies:
        assert reply["ok"]
        diff = reply.pop("diff", "")
        assert len(diff.splitlines()) <= 41
        assert secret not in str(reply)
    assert {"cell_id", "index", "language", "type"} <= set(replies[0]["scratchpad"]["cells"][0])


@requirement("scratch:read:filters", "scratch:tags")
async def test_reading_by_id_and_tag(pads: Pads) -> None:
    cells = [cell("a", tags=["x"]), cell("b", metadata={"tags": ["y", "x"], "k": 1}), cell("c")]
    await scratch.scratch_create(pads, ANN, "p", {"tags": ["own"]}, cells)
    first, second, third = await ids(pads, "p")
    read = await scratch.scratch_read(pads, ANN, "p", tags=["y"])
    assert [one["content"] for one in read["scratchpad"]["cells"]] == ["b"]
    assert read["scratchpad"]["cells"][0]["metadata"] == {"k": 1, "tags": ["y", "x"]}
    assert read["scratchpad"]["cell_tags"] == ["x", "y"]
    assert read["scratchpad"]["tags"] == ["own"]
    read = await scratch.scratch_read(
        pads, ANN, "p", cell_ids=[third, first, third], tags=["x"], include_metadata=False
    )
    assert [one["content"] for one in read["scratchpad"]["cells"]] == ["a"]
    assert "metadata" not in read["scratchpad"]
    await scratch.scratch_replace_cell(pads, ANN, "p", second, cell("b", tags=[]))
    tags = await scratch.scratch_list_tags(pads, ANN)
    assert (tags["scratchpad_tags"], tags["cell_tags"]) == (["own"], ["x"])


@requirement("scratch:read:bad-ids", "scratch:write:whole")
async def test_a_cell_id_that_is_not_there(pads: Pads) -> None:
    await make(pads, "p")
    (first, *_) = await ids(pads, "p")
    calls = [
        lambda: scratch.scratch_read(pads, ANN, "p", cell_ids=[first, "nope"]),
        lambda: scratch.scratch_list_cells(pads, ANN, "p", cell_ids=["nope"]),
        lambda: scratch.scratch_validate(pads, ANN, "p", ["nope"]),
        lambda: scratch.scratch_replace_cell(pads, ANN, "p", "nope", cell("z")),
        lambda: plus.scratch_delete_cell(pads, ANN, "p", "nope"),
        lambda: scratch.scratch_append_cell(pads, ANN, "p", cell("z", cell_id=first)),
    ]
    for call in calls:
        with pytest.raises(InvalidId):
            await call()
    assert await contents(pads, "p") == ["a", "b", "c"]


@requirement("scratch:read:namespaces")
async def test_a_pad_elsewhere_and_no_pad_are_the_same(pads: Pads) -> None:
    await make(pads, "there", namespace="n")
    errors: list[CellwrightError] = []
    for pad in ("there", "where"):
        with pytest.raises(Conflict) as refused:
            await scratch.scratch_read(pads, ANN, pad, namespaces=["m"])
        errors.append(refused.value)
    assert str(errors[0].as_json()).replace("there", "where") == str(errors[1].as_json())
    assert (await scratch.scratch_read(pads, ANN, "there", namespaces=["m", "n"]))["ok"]


@requirement("scratch:read:pages")
async def test_a_long_pad_is_read_in_pages(pads: Pads) -> None:
    texts = [f"{number} " + "word " * 400 for number in range(40)]
    await make(pads, "p", texts)
    found: list[str] = []
    offset: int | None = 0
    pages = 0
    while offset is not None:
        page = await scratch.scratch_read(pads, ANN, "p", offset=offset)
        found += [one["content"] for one in page["scratchpad"]["cells"]]
        offset = page.get("next")
        pages += 1
    assert found == texts
    assert pages > 2
    await make(pads, "big", ["long " * 100_000])
    (one,) = (await scratch.scratch_read(pads, ANN, "big"))["scratchpad"]["cells"]
    assert one["content_characters"] == 500_000
    assert one["content_uri"].startswith("scratchpad://big/cells/")


@requirement("scratch:replace")
async def test_replacing_and_moving(pads: Pads) -> None:
    await scratch.scratch_create(pads, ANN, "p", None, [cell("a", tags=["t"], metadata={"k": 1}), cell("b"), cell("c")])
    first, second, third = await ids(pads, "p")
    moved = await scratch.scratch_replace_cell(pads, ANN, "p", first, cell("A", "sql"), 2)
    assert await contents(pads, "p") == ["b", "c", "A"]
    assert moved["scratchpad"]["cells"][2] == {
        "cell_id": first,
        "index": 2,
        "language": "sql",
        "type": "code",
        "tags": ["t"],
        "metadata": {"k": 1},
    }
    await scratch.scratch_replace_cell(pads, ANN, "p", third, cell("C"), 0)
    assert await contents(pads, "p") == ["C", "b", "A"]
    for bad in (-1, 3):
        with pytest.raises(InvalidIndex):
            await scratch.scratch_replace_cell(pads, ANN, "p", second, cell("z"), bad)
    await plus.scratch_insert_cell(pads, ANN, "p", 1, cell("i"))
    await plus.scratch_insert_cell(pads, ANN, "p", -1, cell("e"))
    with pytest.raises(InvalidIndex):
        await plus.scratch_insert_cell(pads, ANN, "p", 9, cell("z"))
    assert await contents(pads, "p") == ["C", "i", "b", "A", "e"]


@requirement("scratch:list")
async def test_lists(make_pads: MakePads) -> None:
    now = iter(range(10_000))
    pads = make_pads(clock=lambda: float(next(now)))
    for number in range(30):
        await make(pads, f"p{number:02}", ["a"], namespace=f"n{number % 3}", tags=["even"] if number % 2 == 0 else [])
    await scratch.scratch_append_cell(pads, ANN, "p01", cell("z", tags=["even"]))
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await scratch.scratch_list(pads, ANN, tags=["even"], namespaces=["n0", "n1"], limit=4, cursor=cursor)
        seen += [pad["scratch_id"] for pad in page["scratchpads"]]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    wanted = [f"p{number:02}" for number in range(29, -1, -1) if number % 3 < 2 and number % 2 == 0]
    assert seen == ["p01", *wanted]
    with pytest.raises(InvalidArgument):
        await scratch.scratch_list(pads, ANN, cursor="x; DROP TABLE pads")
    listed = await scratch.scratch_list_cells(pads, ANN, "p01", limit=1)
    assert (len(listed["cells"]), listed["next"]) == (1, 1)


@requirement("scratch:limits")
async def test_limits(make_pads: MakePads) -> None:
    pads = make_pads(PadLimits(cells=2, cell_bytes=10, metadata_bytes=50, schema_bytes=40))
    await make(pads, "p", ["1", "2"])
    refused: list[Any] = [
        (scratch.scratch_append_cell(pads, ANN, "p", cell("3")), "--scratch-max-cells"),
        (scratch.scratch_create(pads, ANN, "q", None, [cell("é" * 6)]), "--scratch-max-cell-bytes"),
        (scratch.scratch_create(pads, ANN, "q", {"x": "y" * 60}), "--scratch-max-metadata-bytes"),
        (
            scratch.scratch_create(pads, ANN, "q", None, [cell(metadata={"x": "y" * 60})]),
            "--scratch-max-metadata-bytes",
        ),
        (
            scratch.scratch_upsert_schema(pads, ANN, "p", {"name": "s", "schema": {"title": "y" * 60}}),
            "--scratch-max-schema-bytes",
        ),
    ]
    for call, setting in refused:
        with pytest.raises(LimitReached, match=setting):
            await call
    assert (await scratch.scratch_list(pads, ANN))["scratchpads"][0]["cell_count"] == 2
    free = make_pads(PadLimits(pads=0, cells=0, cell_bytes=0, metadata_bytes=0, schema_bytes=0))
    await make(free, "p", ["x" * 3_000_000])


@requirement("scratch:limits:counts", "scratch:write:whole")
async def test_namespaces_and_schemas_are_limited_in_number(make_pads: MakePads) -> None:
    pads = make_pads(PadLimits(namespaces=2, schemas=2))
    schemas: list[dict[str, Any]] = [{"name": name, "schema": {}} for name in ("one", "two", "three")]
    one, two, three = schemas
    await make(pads, "p", ["a"], namespace="n", schemas={"one": {}})
    await scratch.scratch_namespace_create(pads, ANN, "m")
    await scratch.scratch_upsert_schema(pads, ANN, "p", two)
    refused: list[Any] = [
        (scratch.scratch_namespace_create(pads, ANN, "o"), "--scratch-max-namespaces"),
        (make(pads, "q", ["a"], namespace="o"), "--scratch-max-namespaces"),
        (plus.scratch_update(pads, ANN, "p", {"namespace": "o"}), "--scratch-max-namespaces"),
        (scratch.scratch_upsert_schema(pads, ANN, "p", three), "--scratch-max-schemas"),
        (make(pads, "q", ["a"], schemas={"a": {}, "b": {}, "c": {}}), "--scratch-max-schemas"),
    ]
    for call, setting in refused:
        with pytest.raises(LimitReached, match=setting):
            await call
    assert [pad["scratch_id"] for pad in (await scratch.scratch_list(pads, ANN))["scratchpads"]] == ["p"]
    names = [one["namespace"] for one in (await scratch.scratch_namespace_list(pads, ANN))["namespaces"]]
    assert names == ["m", "n"]
    # What is there already may be used, changed and renamed; others have their own count; room that is made can be used.
    await scratch.scratch_upsert_schema(pads, ANN, "p", {**one, "description": "again"})
    await scratch.scratch_namespace_rename(pads, ANN, "n", "o")
    await scratch.scratch_namespace_create(pads, BOB, "n")
    await scratch.scratch_namespace_delete(pads, ANN, "m")
    await plus.scratch_delete_schema(pads, ANN, "p", "two")
    await scratch.scratch_namespace_create(pads, ANN, "n")
    await scratch.scratch_upsert_schema(pads, ANN, "p", three)
    free = make_pads(PadLimits(namespaces=0, schemas=0))
    await scratch.scratch_namespace_create(free, ANN, "fourth")
    await scratch.scratch_upsert_schema(free, ANN, "p", two)


@requirement("scratch:evict:changing", "scratch:evict:discard")
async def test_a_pad_that_was_changed_is_not_the_least_used(make_pads: MakePads) -> None:
    now = iter(range(10_000))
    pads = make_pads(PadLimits(pads=4), clock=lambda: float(next(now)))
    for pad in ("a", "b", "c", "d"):
        await make(pads, pad)
    await scratch.scratch_append_cell(pads, ANN, "a", cell("z"))
    await plus.scratch_update(pads, ANN, "b", {"title": "t"})
    assert (await make(pads, "e"))["evicted_scratchpads"] == ["c"]
    assert (await make(pads, "f"))["evicted_scratchpads"] == ["d"]
    assert (await make(pads, "g"))["evicted_scratchpads"] == ["a"]


@requirement("scratch:evict:changing", "scratch:evict:preempt")
async def test_a_pad_that_was_changed_is_not_idle(make_pads: MakePads) -> None:
    moment = [1000.0]
    pads = make_pads(policy=Policy("preempt", preempt_age=60), clock=lambda: moment[0])
    await make(pads, "a")
    await make(pads, "b")
    moment[0] += 50
    await scratch.scratch_append_cell(pads, ANN, "a", cell("z"))
    moment[0] += 50
    assert await pads.sweep_once() == 1
    assert [pad["scratch_id"] for pad in (await scratch.scratch_list(pads, ANN))["scratchpads"]] == ["a"]


@requirement("scratch:evict:discard", "scratch:evict:reading", "scratch:tenants")
async def test_the_least_recently_used_pad_goes(make_pads: MakePads) -> None:
    now = iter(range(10_000))
    pads = make_pads(PadLimits(pads=3), clock=lambda: float(next(now)))
    await scratch.scratch_create(pads, BOB, "old-of-bob")
    for pad in ("a", "b", "c"):
        await make(pads, pad)
    await scratch.scratch_read(pads, ANN, "a")
    made = await make(pads, "d")
    assert made["evicted_scratchpads"] == ["b"]
    assert "evicted_scratchpads" not in await make(pads, "a", ["again"])
    with pytest.raises(InvalidId):
        await make(pads, "not an id")
    with pytest.raises(InvalidArgument):
        await scratch.scratch_create(pads, ANN, "e", {"tags": "x"})
    assert sorted(pad["scratch_id"] for pad in (await scratch.scratch_list(pads, ANN))["scratchpads"]) == [
        "a",
        "c",
        "d",
    ]
    assert (await scratch.scratch_list(pads, BOB))["scratchpads"][0]["scratch_id"] == "old-of-bob"


@requirement("scratch:evict:fail")
async def test_a_create_at_capacity_is_refused(make_pads: MakePads) -> None:
    pads = make_pads(PadLimits(pads=2), Policy("fail"))
    await make(pads, "a")
    await make(pads, "b")
    with pytest.raises(LimitReached):
        await make(pads, "c")
    await make(pads, "a", ["reset is no new pad"])
    await scratch.scratch_delete(pads, ANN, "b")
    await make(pads, "c")


@requirement("scratch:evict:preempt")
async def test_idle_pads_go_by_and_by(make_pads: MakePads) -> None:
    moment = [1000.0]
    pads = make_pads(PadLimits(pads=2), Policy("preempt", preempt_age=60), clock=lambda: moment[0])
    await make(pads, "a")
    await make(pads, "b")
    with pytest.raises(LimitReached):
        await make(pads, "c")
    moment[0] += 50
    await scratch.scratch_read(pads, ANN, "b")
    moment[0] += 20
    assert await pads.sweep_once() == 1
    assert [pad["scratch_id"] for pad in (await scratch.scratch_list(pads, ANN))["scratchpads"]] == ["b"]


@requirement("scratch:tenants")
async def test_tenants_do_not_meet(pads: Pads) -> None:
    await scratch.scratch_create(pads, ANN, "p", {"namespace": "n", "tags": ["t"]}, [cell("needle of ann", tags=["u"])])
    await scratch.scratch_upsert_schema(pads, ANN, "p", {"name": "s", "schema": {}})
    (one,) = await ids(pads, "p")
    for call in (
        lambda: scratch.scratch_read(pads, BOB, "p"),
        lambda: scratch.scratch_append_cell(pads, BOB, "p", cell()),
        lambda: scratch.scratch_replace_cell(pads, BOB, "p", one, cell()),
        lambda: scratch.scratch_validate(pads, BOB, "p"),
        lambda: scratch.scratch_list_schemas(pads, BOB, "p"),
        lambda: scratch.scratch_get_schema(pads, BOB, "p", "s"),
        lambda: scratch.scratch_upsert_schema(pads, BOB, "p", {"name": "s", "schema": {}}),
        lambda: plus.scratch_history(pads, BOB, "p"),
        lambda: plus.scratch_update(pads, BOB, "p", {"title": "x"}),
        lambda: plus.scratch_export(pads, BOB, "p", "json"),
    ):
        with pytest.raises(NotFound):
            await call()
    assert (await scratch.scratch_delete(pads, BOB, "p"))["deleted"] is False
    assert (await scratch.scratch_list(pads, BOB))["scratchpads"] == []
    assert (await scratch.scratch_list_tags(pads, BOB))["cell_tags"] == []
    assert (await scratch.scratch_namespace_list(pads, BOB))["namespaces"] == []
    assert (await scratch.scratch_search(pads, BOB, "needle"))["hits"] == []
    assert (await scratch.scratch_search(pads, BOB, "needle", namespaces=["n", "a') OR 1=1 --"]))["hits"] == []
    await scratch.scratch_create(pads, BOB, "p", None, [cell("of bob")])
    await scratch.scratch_namespace_delete(pads, BOB, "n", delete_scratchpads=True)
    assert await contents(pads, "p") == ["needle of ann"]


@requirement("scratch:schemas")
async def test_shared_schemas(pads: Pads) -> None:
    await make(pads, "p", schemas={"seeded": {"type": "object"}})
    made = await scratch.scratch_upsert_schema(
        pads, ANN, "p", {"name": "s", "description": "d", "schema": {"type": "string"}}
    )
    again = await scratch.scratch_upsert_schema(pads, ANN, "p", {"name": "s", "schema": {"type": "number"}})
    assert again["schema"]["id"] == made["schema"]["id"]
    renamed = await scratch.scratch_upsert_schema(
        pads, ANN, "p", {"id": made["schema"]["id"], "name": "t", "schema": {}}
    )
    assert renamed["schema"]["name"] == "t"
    names = [one["name"] for one in (await scratch.scratch_list_schemas(pads, ANN, "p"))["schemas"]]
    assert names == ["seeded", "t"]
    assert (await scratch.scratch_get_schema(pads, ANN, "p", made["schema"]["id"]))["schema"]["name"] == "t"
    broken: list[dict[str, Any]] = [
        {"name": "x", "schema": {"type": 5}},
        {"schema": {}},
        {"name": "x", "schema": "no"},
        {"name": "x", "schema": {}, "y": 1},
    ]
    for bad in broken:
        with pytest.raises(InvalidArgument):
            await scratch.scratch_upsert_schema(pads, ANN, "p", bad)
    with pytest.raises(InvalidArgument):
        await make(pads, "q", schemas={"bad": {"type": 5}})
    await plus.scratch_delete_schema(pads, ANN, "p", "t")
    with pytest.raises(NotFound):
        await scratch.scratch_get_schema(pads, ANN, "p", "t")


@requirement("scratch:validation:advisory", "scratch:validation:schema")
async def test_validation_is_advice(make_pads: MakePads) -> None:
    pads = make_pads()
    await make(pads, "p", [])
    await scratch.scratch_upsert_schema(pads, ANN, "p", {"name": "num", "schema": {"type": "number"}})
    reply = await scratch.scratch_append_cell(pads, ANN, "p", cell("def f(:", validate=True))
    assert reply["validation"][0]["valid"] is False
    assert reply["scratchpad"]["cells"][0]["cell_id"] == reply["validation"][0]["cell_id"]
    reply = await scratch.scratch_append_cell(
        pads, ANN, "p", cell('"text"', "json", validate=True, json_schema="scratchpad://schemas/num")
    )
    assert reply["validation"][0]["details"]["schema_applied"] == "num"
    assert reply["validation"][0]["errors"]
    reply = await scratch.scratch_append_cell(
        pads, ANN, "p", cell("1", "json", validate=True, json_schema={"$ref": "scratchpad://schemas/none"})
    )
    assert (reply["validation"][0]["valid"], reply["validation"][0]["status"]) == (None, "undecided")
    assert reply["validation"][0]["warnings"]
    results = (await scratch.scratch_validate(pads, ANN, "p"))["results"]
    assert [one["valid"] for one in results] == [False, False, None]
    listed = await scratch.scratch_list_cells(pads, ANN, "p")
    assert [one.get("validation") for one in listed["cells"]] == ["invalid", "invalid", "undecided"]
    hurried = make_pads(policy=Policy(validation_seconds=0.000_001))
    reply = await scratch.scratch_append_cell(hurried, ANN, "p", cell("x = 1", validate=True))
    assert "not checked" in reply["validation"][0]["warnings"][0]["message"]
    assert (await contents(pads, "p"))[-1] == "x = 1"


@requirement("scratch:namespaces")
async def test_namespaces(pads: Pads) -> None:
    await make(pads, "p", namespace="o'brien")
    await make(pads, "q", namespace="o'brien")
    assert (await scratch.scratch_namespace_create(pads, ANN, " empty "))["created"]
    assert not (await scratch.scratch_namespace_create(pads, ANN, "empty"))["created"]
    assert (await scratch.scratch_namespace_list(pads, ANN))["namespaces"] == [
        {"namespace": "empty", "scratchpad_count": 0},
        {"namespace": "o'brien", "scratchpad_count": 2},
    ]
    with pytest.raises(InvalidArgument):
        await scratch.scratch_namespace_rename(pads, ANN, "o'brien", "empty")
    with pytest.raises(InvalidArgument):
        await scratch.scratch_namespace_rename(pads, ANN, "o'brien", "new", migrate_scratchpads=False)
    with pytest.raises(NotFound):
        await scratch.scratch_namespace_rename(pads, ANN, "none", "new")
    assert (await scratch.scratch_namespace_rename(pads, ANN, "o'brien", "new"))["migrated_count"] == 2
    assert (await scratch.scratch_search(pads, ANN, "a", namespaces=["new"]))["hits"]
    with pytest.raises(InvalidArgument):
        await scratch.scratch_namespace_delete(pads, ANN, "new")
    gone = await scratch.scratch_namespace_delete(pads, ANN, "new", delete_scratchpads=True)
    assert (gone["deleted"], gone["removed_scratchpads"]) == (True, 2)
    assert not (await scratch.scratch_namespace_delete(pads, ANN, "new"))["deleted"]


@requirement("scratch:history")
async def test_every_version_comes_back(pads: Pads) -> None:
    states: dict[int, Any] = {}

    async def note() -> None:
        view = await pads.read("ann", "p")
        _pad, schemas = await pads.schemas("ann", "p")
        cells = [(one.id, one.source, one.tags, one.metadata, one.language) for one in view.cells]
        states[view.pad.version] = (view.pad.about, cells, sorted(one.name for one in schemas))

    await make(pads, "p", title="one")
    await note()
    first, second, _ = await ids(pads, "p")
    for step in (
        lambda: scratch.scratch_append_cell(pads, ANN, "p", cell("d", tags=["t"])),
        lambda: scratch.scratch_replace_cell(pads, ANN, "p", first, cell("A", "sql"), 3),
        lambda: plus.scratch_delete_cell(pads, ANN, "p", second),
        lambda: plus.scratch_insert_cell(pads, ANN, "p", 0, cell("i")),
        lambda: plus.scratch_update(pads, ANN, "p", {"title": "two", "tags": ["x"], "own": 1}),
        lambda: scratch.scratch_upsert_schema(pads, ANN, "p", {"name": "s", "schema": {}}),
        lambda: make(pads, "p", ["reset"]),
        lambda: scratch.scratch_append_cell(pads, ANN, "p", cell("after")),
    ):
        await step()
        await note()
    for version in sorted(states, reverse=True):
        await plus.scratch_history(pads, ANN, "p", restore=version)
        current = (await pads.read("ann", "p")).pad.version
        await note()
        assert states[current] == states[version], version
    listed = await plus.scratch_history(pads, ANN, "p", limit=3)
    assert len(listed["changes"]) == 3
    with pytest.raises(NotFound):
        await plus.scratch_history(pads, ANN, "p", restore=10_000)


@requirement("scratch:search:at-once", "scratch:search:filters")
async def test_search_by_words(pads: Pads) -> None:
    await make(pads, "p", ["def getUserName(): pass", "select * from invoices"], title="billing", namespace="n")
    await scratch.scratch_create(pads, ANN, "q", {"namespace": "m"}, [cell("invoices again", tags=["x"])])

    async def found(query: str, **more: Any) -> list[str]:
        hits = (await scratch.scratch_search(pads, ANN, query, mode="text", **more))["hits"]
        return [hit["snippet"] for hit in hits]

    assert await found("user name") == ["def getUserName(): pass"]
    assert len(await found("invoices")) == 2
    assert await found("invoices", tags=["x"], limit=1) == ["invoices again"]
    assert await found("invoices", namespaces=["n"], limit=1) == ["select * from invoices"]
    for strange in ('"', "a OR", "*", "NEAR(", "", "🙂", "scope : t1", "' OR 1=1"):
        assert isinstance(await found(strange), list)
    first, second = await ids(pads, "p")
    await scratch.scratch_replace_cell(pads, ANN, "p", second, cell("other words"))
    await plus.scratch_delete_cell(pads, ANN, "p", first)
    assert await found("getUserName") == []
    assert await found("other words") == ["other words"]
    await scratch.scratch_delete(pads, ANN, "p")
    assert await found("other words") == []


@requirement("scratch:formats")
@pytest.mark.parametrize("kind", ["ipynb", "srcmd", "json", "md"])
async def test_a_pad_goes_out_and_comes_in(pads: Pads, kind: Any) -> None:
    cells = [cell("# Note\n\ntext", "md"), cell("x = 1"), cell("select 1", "sql")]
    await scratch.scratch_create(pads, ANN, "p", {"title": "T"}, cells)
    out = await plus.scratch_export(pads, ANN, "p", kind)
    made = await plus.scratch_import(pads, ANN, out["content"], kind, "q")
    assert made["scratchpad"]["title"] == "T"
    found = (await pads.read("ann", "q")).cells
    assert [(one.language, one.source) for one in found][1:] == [("python", "x = 1"), ("sql", "select 1")]
    assert found[0].source.endswith("text")
    with pytest.raises(Conflict):
        await plus.scratch_import(pads, ANN, out["content"], kind, "q")


@requirement("scratch:read:bad-ids")
async def test_no_ids_name_no_cells_and_what_is_no_id_is_a_bad_one(pads: Pads) -> None:
    await make(pads, "p")
    assert (await scratch.scratch_read(pads, ANN, "p", cell_ids=[]))["scratchpad"]["cells"] == []
    assert (await scratch.scratch_list_cells(pads, ANN, "p", cell_ids=[]))["cells"] == []
    for bad in ("\x00", "", "half \ud800"):
        for wrong in (
            scratch.scratch_read(pads, ANN, "p", cell_ids=[bad]),
            scratch.scratch_validate(pads, ANN, "p", cell_ids=[bad]),
            scratch.scratch_replace_cell(pads, ANN, "p", bad, cell()),
            plus.scratch_delete_cell(pads, ANN, "p", bad),
        ):
            with pytest.raises(InvalidId):
                await wrong
    assert await contents(pads, "p") == ["a", "b", "c"]


@requirement("scratch:filters:blank")
async def test_a_blank_filter_does_not_show_everything(pads: Pads) -> None:
    await make(pads, "p", tags=["t"])
    for wrong in (
        scratch.scratch_read(pads, ANN, "p", tags=[" "]),
        scratch.scratch_list(pads, ANN, tags=["", " "]),
        scratch.scratch_search(pads, ANN, "a", tags=[" "]),
        scratch.scratch_search(pads, ANN, "a", namespaces=[""]),
        scratch.scratch_list(pads, ANN, namespaces=[" "]),
    ):
        with pytest.raises(InvalidArgument):
            await wrong
    assert len((await scratch.scratch_list(pads, ANN, tags=[" t "]))["scratchpads"]) == 1


@requirement("scratch:update:rest")
async def test_updating_leaves_what_is_not_given(pads: Pads) -> None:
    await make(pads, "p", title="t", own=None, other=1)
    await plus.scratch_update(pads, ANN, "p", {"other": None, "unknown": None, "summary": "s"})
    about = (await pads.read("ann", "p")).pad.about
    assert (about.title, about.summary, about.metadata) == ("t", "s", {"own": None})


@requirement("scratch:schemas:named")
async def test_a_schema_is_the_one_that_is_named(pads: Pads) -> None:
    await make(pads, "p")
    named = {"a-b": "1", "AB": "2", "ab": "3"}
    for schema_id, name in named.items():
        await scratch.scratch_upsert_schema(pads, ANN, "p", {"id": schema_id, "name": name, "schema": {}})
    for schema_id, name in named.items():
        assert (await scratch.scratch_get_schema(pads, ANN, "p", schema_id))["schema"]["name"] == name
    await plus.scratch_delete_schema(pads, ANN, "p", "ab")
    left = (await scratch.scratch_list_schemas(pads, ANN, "p"))["schemas"]
    assert [one["id"] for one in left] == ["a-b", "AB"]


@requirement("scratch:schemas:named")
async def test_a_schema_changed_by_its_id_keeps_its_name(pads: Pads) -> None:
    await make(pads, "p")
    await scratch.scratch_upsert_schema(pads, ANN, "p", {"id": "x", "name": "invoice", "schema": {}})
    # Named as the id of the first one, and not meant by it.
    await scratch.scratch_upsert_schema(pads, ANN, "p", {"name": "x", "schema": {}})
    changed = await scratch.scratch_upsert_schema(pads, ANN, "p", {"id": "x", "schema": {"type": "array"}})
    assert (changed["schema"]["id"], changed["schema"]["name"]) == ("x", "invoice")
    alone = await scratch.scratch_upsert_schema(pads, ANN, "p", {"id": "y", "schema": {}})
    assert alone["schema"]["name"] == "y"
    with pytest.raises(InvalidArgument, match="'y' is no JSON Schema"):
        await scratch.scratch_upsert_schema(pads, ANN, "p", {"id": "y", "schema": {"type": 5}})


@requirement("scratch:schemas:named")
async def test_no_schema_of_a_new_pad_is_lost_to_another(pads: Pads) -> None:
    seeds: list[dict[str, Any]] = [
        {"a": {"id": "x", "schema": {}}, "b": {"id": "x", "schema": {}}},
        {"a": {}, "b": {"name": "a", "schema": {}}},
    ]
    for schemas in seeds:
        with pytest.raises(InvalidArgument, match="two schemas"):
            await make(pads, "p", schemas=schemas)
    with pytest.raises(NotFound):
        await pads.read("ann", "p")


@requirement("scratch:search:snippet")
async def test_a_snippet_shows_the_first_word_that_is_looked_for() -> None:
    assert "a needle" in scratch.snippet("İ" * 600 + " a needle here", ["needle"])
    assert scratch.snippet("x " * 300 + "one two", ["two", "one"]).endswith("one two")
    assert scratch.snippet("x " * 300, ["two"]).startswith("x x")


@requirement("scratch:search:snippet")
async def test_others_do_not_wait_for_snippets_of_long_texts(pads: Pads, monkeypatch: pytest.MonkeyPatch) -> None:
    await make(pads, "p", ["ab " * 50_000] * 3)
    made: list[tuple[int, int]] = []
    snippet = scratch.snippet

    def noted(text: str, words: Sequence[str]) -> str:
        made.append((threading.get_ident(), len(words)))
        return snippet(text, words)

    monkeypatch.setattr(scratch, "snippet", noted)
    found = await scratch.scratch_search(pads, ANN, "ab " + "xy " * 600, mode="text")
    assert len(found["hits"]) == len(made) == 3
    assert threading.get_ident() not in {thread for thread, _ in made}
    assert max(words for _, words in made) <= MAX_WORDS


@requirement("scratch:search:at-once")
async def test_the_last_word_of_the_longest_cell_is_found(pads: Pads) -> None:
    prose = " ".join(f"word{number * number % 9973}" for number in range(110_000))
    await make(pads, "p", [f"{prose[:1_040_000]} heron", "another"])
    found = await scratch.scratch_search(pads, ANN, "heron", mode="text")
    assert [hit["snippet"].endswith("heron") for hit in found["hits"]] == [True]


@requirement("scratch:formats:losses")
async def test_exporting_says_that_schemas_stay_behind(pads: Pads) -> None:
    await scratch.scratch_create(
        pads, ANN, "p", {"schemas": {"s": {}}}, [cell("{}", "json", json_schema="scratchpad://schemas/s"), cell()]
    )
    exported = [await plus.scratch_export(pads, ANN, "p", name) for name in ("ipynb", "srcmd", "md", "json")]
    for one in exported:
        assert [loss for loss in one["losses"] if "schema" in loss] == [
            "the json_schema of 1 cell: notebooks have none",
            "1 shared schema: notebooks have none",
        ]


@requirement("scratch:formats:losses")
async def test_exporting_says_what_the_format_does_not_keep(pads: Pads) -> None:
    about = {"title": "Herons", "namespace": "birds", "tags": ["grey"]}
    await scratch.scratch_create(pads, ANN, "p", about, [cell("x = 1", "py", tags=["first"]), cell("# Herons", "md")])
    assert (await plus.scratch_export(pads, ANN, "p", "json"))["losses"] == []
    told = (await plus.scratch_export(pads, ANN, "p", "md"))["losses"]
    assert "md does not keep the notebook's metadata: namespace, tags" in told
    assert "md does not keep the metadata of 1 cell" in told
