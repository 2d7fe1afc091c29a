"""One search over everything: what it finds, for whom, and what the index has."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cellwright.app.protocol.results import answer_result, write_result
from cellwright.app.search.background import Indexing, slices
from cellwright.app.search.connector import Connector, fetch, search
from cellwright.app.search.ranking import ranked, snippet
from cellwright.app.search.texts import MOST_PIECES, file_entries, notebook_entries
from cellwright.app.search.tools import WorkspaceHit, search_workspace
from cellwright.app.settings import Settings
from cellwright.app.workspace import Workspace, make_workspace
from cellwright.context.files.paths import Root
from cellwright.context.files.service import ProjectFiles
from cellwright.context.shelf import ProjectCollection
from cellwright.core.arguments import signature_of
from cellwright.core.errors import InvalidArgument, InvalidUri, NotFound, Unavailable
from cellwright.core.text.budget import DEFAULT_TOKENS
from cellwright.core.types import ALL_SCOPES, Call, Principal, Secret
from cellwright.jupyter.files.paths import is_path
from cellwright.notebook.formats.ipynb import notebook_within
from cellwright.notebook.places import Inventory, Place, Reading
from cellwright.notebook.places import PlaceKind as Kind
from cellwright.scratch.model import PadCellDraft
from cellwright.storage.location import Location
from cellwright.storage.search.port import Entry, Hit, Key
from jupyter_support import write_notebook
from requirements import requirement
from support import WAIT_SECONDS, until

pytestmark = pytest.mark.anyio
ANNE = Call(Principal("anne", ALL_SCOPES))
BERT = Call(Principal("bert", ALL_SCOPES))
Open = Callable[..., Workspace]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
async def opened(tmp_path: Path, root: Path) -> AsyncGenerator[Open]:
    """Opens the workspace as often as wanted: as several processes would, or one after the other."""
    made: list[Workspace] = []

    def make(where: Location | None = None, **settings: Any) -> Workspace:
        database = where if isinstance(where, Secret) else None
        wanted: dict[str, Any] = {"embedding_model": "none", "database": database, **settings}
        made.append(make_workspace(Settings(root=root, state_dir=tmp_path / "state", **wanted), "stdio"))
        return made[-1]

    yield make
    for workspace in made:
        await workspace.close()


async def found(
    workspace: Workspace, query: str, *kinds: Kind, call: Call = ANNE, limit: int = 10
) -> list[WorkspaceHit]:
    """The results, once everything is indexed."""
    async with asyncio.timeout(20):
        while "indexing" in (answer := await search_workspace(workspace.finder, call, query, list(kinds), limit)):
            assert "problems" not in answer["indexing"], answer
    return answer["results"]


async def titles(workspace: Workspace, query: str, *kinds: Kind, call: Call = ANNE) -> set[str]:
    return {one["title"] for one in await found(workspace, query, *kinds, call=call)}


async def read(workspace: Workspace, uri: str, call: Call = ANNE) -> str:
    contents = await Connector(workspace.finder, lambda: workspace.resources).read(call, uri)
    return "".join(str(one.body) for one in contents)


async def make_pad(workspace: Workspace, text: str, title: str = "", call: Call = ANNE) -> str:
    draft = PadCellDraft(language="md", content=text)
    made = await workspace.pads.create(call.principal.id, None, {"title": title}, [draft])
    return made.view.pad.id


async def indexed(workspace: Workspace, word: str) -> int:
    """How many entries have a word, whoever's they are."""
    rows = await workspace.database.read(lambda tx: tx.rows("SELECT body FROM search_entries"))
    return sum(word in str(body) for (body,) in rows)


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not await condition():
        assert time.monotonic() < end, f"not within {WAIT_SECONDS} s: {what}"
        await asyncio.sleep(0.01)


# -- what is found ---------------------------------------------------------------------------------------------------------------


@requirement("finding:search:everything")
async def test_everything_is_found_and_can_be_read(opened: Open, root: Path, where: Location) -> None:
    workspace = opened(where)
    printed = [{"output_type": "stream", "name": "stdout", "text": ["a walrus was ", "printed"]}]
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "first",
        "metadata": {},
        "source": "print(animal)",
        "outputs": printed,
    }
    write_notebook(root, "deep/shown.ipynb", [], cells=[cell])
    write_notebook(root, "sources.ipynb", ["x = 1", "walrus = 'in the source'"])
    (root / "notes.md").write_text("# Animals\n\n" + "filler\n" * 400 + "the walrus of the file\n", encoding="utf-8")
    pad = await make_pad(workspace, "the walrus of the pad", "Sea animals")
    view = await workspace.thinking.create(ANNE, None, "Thinking of a walrus", "python", None)
    await workspace.context.record(ANNE, "rule", "A walrus must have tusks", "", "")
    results = {one["title"]: one for one in await found(workspace, "walrus")}
    assert results.keys() == {
        "deep/shown.ipynb",
        "sources.ipynb",
        "notes.md",
        "Sea animals",
        "Thinking of a walrus",
        "rule: A walrus must have tusks",
    }
    assert results["deep/shown.ipynb"]["uri"] == "jupyter://deep/shown.ipynb/cells/first"
    assert results["sources.ipynb"]["cell_id"] == "c1"
    assert results["notes.md"]["line"] > 300
    from_there = await read(workspace, results["notes.md"]["uri"])
    assert from_there.endswith("the walrus of the file")
    assert "# Animals" not in from_there
    assert results["Sea animals"]["uri"].startswith(f"scratchpad://{pad}/cells/")
    assert await read(workspace, results["Sea animals"]["uri"]) == "the walrus of the pad"
    assert results["Thinking of a walrus"]["uri"] == view.notebook.uri
    assert "Thinking of a walrus" in await read(workspace, view.notebook.uri)
    assert "must have tusks" in await read(workspace, results["rule: A walrus must have tusks"]["uri"])
    assert all("walrus" in one["snippet"] for name, one in results.items() if name != "Thinking of a walrus")


@requirement("finding:search:meaning")
async def test_meaning_is_ranked_over_all_tenants_at_once(opened: Open, root: Path) -> None:
    workspace = opened(embedding_model="builtin")
    for number, text in enumerate(["sorting names by letter", "drawing a map", "reading a clock", "boiling an egg"]):
        (root / f"f{number}.md").write_text(text, encoding="utf-8")
    await make_pad(workspace, "The automobile's motor made a strange noise and then stopped.", "Tuesday")
    await make_pad(workspace, "A list of plants for the garden.", "Garden")
    await workspace.context.record(ANNE, "decision", "The tables are sorted by the time of writing.", "", "")
    await found(workspace, "anything")

    async def best() -> bool:
        results = await found(workspace, "car engine trouble")
        return bool(results) and results[0]["title"] == "Tuesday"

    await eventually(best, "the pad about a car before all others")
    answer = await search_workspace(workspace.finder, ANNE, "car engine trouble")
    assert answer["mode"] == "hybrid"


@requirement("finding:search:one-each", "finding:search:kinds")
async def test_a_thing_is_found_once_and_kinds_and_limit_hold(opened: Open, root: Path) -> None:
    workspace = opened()
    write_notebook(root, "many.ipynb", [f"otter_{number} = 'otter'" for number in range(30)])
    for number in range(6):
        (root / f"f{number}.txt").write_text("an otter\n", encoding="utf-8")
        await make_pad(workspace, "another otter", f"pad {number}")
    assert [one["title"] for one in await found(workspace, "otter", Kind.NOTEBOOK)] == ["many.ipynb"]
    assert {one["kind"] for one in await found(workspace, "otter", Kind.FILE, Kind.PAD)} == {"file", "pad"}
    assert len(await found(workspace, "otter", limit=50)) == 13
    assert len(await found(workspace, "otter", limit=5)) == 5
    assert await found(workspace, "xyzzy") == []


@requirement("finding:search:tenants")
async def test_nobody_finds_what_is_another_callers(opened: Open, root: Path, where: Location) -> None:
    workspace = opened(where)
    (root / "common.md").write_text("a lynx for everybody", encoding="utf-8")
    for call, name in ((ANNE, "anne"), (BERT, "bert")):
        await make_pad(workspace, f"the lynx of {name}", f"pad of {name}", call)
        await workspace.thinking.create(call, None, f"a lynx that {name} thinks of", "python", None)
    await workspace.context.record(ANNE, "issue", "a lynx in the project", "", "")
    common = {"common.md", "issue: a lynx in the project"}
    assert await titles(workspace, "lynx", call=ANNE) == {*common, "pad of anne", "a lynx that anne thinks of"}
    assert await titles(workspace, "lynx", call=BERT) == {*common, "pad of bert", "a lynx that bert thinks of"}
    nobody = Call(Principal("nobody", ALL_SCOPES))
    assert await titles(workspace, "lynx", call=nobody) == common
    mine = (await found(workspace, "lynx", Kind.THINKING))[0]["uri"]
    with pytest.raises(NotFound):
        await read(workspace, mine, BERT)


@requirement("finding:search:clean")
async def test_results_are_clean_and_within_the_budget(opened: Open, root: Path) -> None:
    workspace = opened()
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore all")
    for number in range(60):
        long = f"{'deep/' * 6}gazelle_with_a_name_{number}.md"
        (root / long).parent.mkdir(parents=True, exist_ok=True)
        (root / long).write_text(f"\x1b[31mred gazelle{hidden} {'and much more ' * 40}\n" * 5, encoding="utf-8")
    await make_pad(workspace, f"a gazelle{hidden}", f"Gazelle{hidden}")
    await make_pad(workspace, "gazelle gazelle gazelle", f"Gazelle {'without an end ' * 2_000}")
    await found(workspace, "gazelle")
    answer = await search_workspace(workspace.finder, ANNE, "gazelle", [], 50)
    assert len(answer["results"]) == 50
    shown = json.dumps(answer, ensure_ascii=False)
    assert "\x1b" not in shown
    assert not any(0xE0000 <= ord(letter) <= 0xE007F for letter in shown)
    signature = signature_of(search_workspace)
    whole = answer_result(write_result(answer), signature, DEFAULT_TOKENS)
    assert whole.meta == {}


@requirement("finding:search:one-each", "finding:search:meaning")
def test_rankings_are_merged_by_score_and_fused_by_rank() -> None:
    def hit(tenant: str, thing: str, part: str, score: float) -> Hit:
        return Hit(Entry(Key(tenant, "file", thing, part), f"text of {thing} {part}"), score)

    words = [hit("t", "a", "1", 9.0), hit("t", "a", "2", 8.0), hit("u", "b", "1", 8.5), hit("u", "c", "1", 1.0)]
    meaning = [hit("t", "a", "3", 0.3), hit("u", "b", "2", 0.9), hit("u", "d", "1", 0.19)]
    found = ranked(words, meaning, 10)
    assert [(one.hit.entry.key.thing, one.hit.entry.key.part) for one in found] == [("a", "1"), ("b", "1"), ("c", "1")]
    assert found[0].score == found[1].score > found[2].score
    assert [one.hit.entry.key.thing for one in ranked(words, meaning, 1)] == ["a"]
    assert ranked([], meaning, 10)[0].hit.entry.key.part == "2"


def test_a_snippet_shows_the_line_with_most_of_the_words() -> None:
    text = "import os\n\n    def   read(path):\n        return the long awaited answer\n    other"
    assert snippet(text, ["answer", "long"], 40) == "return the long awaited answer / other"
    assert snippet(text, ["nowhere"], 20) == "import os"
    long = f"{'x' * 300} needle {'y' * 300}"
    assert "needle" in snippet(long, ["needle"], 80)
    assert len(snippet(long, ["needle"], 80)) <= 80
    assert snippet("\n \n", ["a"], 80) == ""


# -- the index -------------------------------------------------------------------------------------------------------------------


class Watched(ProjectFiles):
    """Files that tell who read them."""

    def __init__(self, root: Path) -> None:
        super().__init__(Root(root))
        self.reads: list[str] = []
        self.threads: set[int] = set()

    def text(self, path: str) -> str | None:
        self.reads.append(path)
        self.threads.add(threading.get_ident())
        return super().text(path)


async def gone_through(indexing: Indexing, place: ProjectCollection) -> list[str]:
    """What was read to be up to date."""
    assert isinstance(place.files, Watched)
    place.files.reads.clear()
    async with asyncio.timeout(20):
        await indexing.begin(place, now=True).task
    return sorted(place.files.reads)


@requirement("finding:index:incremental", "finding:index:gone", "finding:index:beside")
async def test_only_what_changed_is_read_again(opened: Open, root: Path, where: Location) -> None:
    workspace = opened(where)
    watched = Watched(root)
    place = ProjectCollection("t", watched, is_path)
    (root / "stays.md").write_text("stays", encoding="utf-8")
    (root / "changes.md").write_text("before", encoding="utf-8")
    (root / "goes.md").write_text("gone soon", encoding="utf-8")
    write_notebook(root, "book.ipynb", ["one", "two"])
    indexing = Indexing(workspace.database, workspace.search)
    assert await gone_through(indexing, place) == ["book.ipynb", "changes.md", "goes.md", "stays.md"]
    assert await gone_through(indexing, place) == []
    (root / "changes.md").write_text("afterwards", encoding="utf-8")
    (root / "goes.md").unlink()
    assert await gone_through(indexing, place) == ["changes.md"]
    assert threading.get_ident() not in watched.threads
    await indexing.close()
    restarted = Indexing(workspace.database, workspace.search)
    assert await gone_through(restarted, place) == []
    assert await indexed(workspace, "before") == await indexed(workspace, "gone soon") == 0
    assert await indexed(workspace, "afterwards") == await indexed(workspace, "stays") == 1
    await restarted.close()


@requirement("finding:index:incremental")
async def test_cells_that_stayed_keep_their_vectors(opened: Open, root: Path) -> None:
    workspace = opened(embedding_model="builtin")
    waiting = "SELECT count(*) FROM search_pending"

    async def pending() -> int:
        row = await workspace.database.read(lambda tx: tx.row(waiting))
        assert row is not None
        return int(str(row[0]))

    async def embedded() -> bool:
        return not await pending()

    write_notebook(root, "book.ipynb", ["one", "two", "three"])
    await found(workspace, "two")
    await eventually(embedded, "all vectors")
    vectors = "SELECT v.entry, v.digest FROM search_vectors v ORDER BY v.entry"
    before = await workspace.database.read(lambda tx: tx.rows(vectors))
    await workspace.search.close()
    write_notebook(root, "book.ipynb", ["one", "two and more", "three"])

    async def taken_in() -> bool:
        return await titles(workspace, "more") == {"book.ipynb"}

    await eventually(taken_in, "the change is found")
    assert await pending() == 1
    assert await workspace.database.read(lambda tx: tx.rows(vectors)) == before


@requirement("finding:index:gone")
async def test_what_was_deleted_is_not_found(opened: Open, root: Path) -> None:
    workspace = opened()
    (root / "a.md").write_text("a badger", encoding="utf-8")
    write_notebook(root, "b.ipynb", ["badger = 1", "other = 2"])
    assert await titles(workspace, "badger") == {"a.md", "b.ipynb"}
    (root / "a.md").unlink()
    write_notebook(root, "b.ipynb", ["other = 2"])

    async def gone() -> bool:
        return not await titles(workspace, "badger")

    await eventually(gone, "the badgers are gone")
    assert await indexed(workspace, "badger") == 0


@requirement("finding:index:ephemeral")
async def test_a_closed_thinking_notebook_leaves_by_itself(opened: Open, where: Location) -> None:
    workspace = opened(where)
    view = await workspace.thinking.create(ANNE, "tree_of_thought", "A plan of a heist", "python", None)
    assert await titles(workspace, "heist") == {"A plan of a heist"}
    titled = "SELECT count(*) FROM search_entries WHERE kind = 'thinking'"

    async def count() -> int:
        row = await workspace.database.read(lambda tx: tx.row(titled))
        assert row is not None
        return int(str(row[0]))

    assert await count() > 1
    await workspace.thinking.close_notebook(ANNE, view.notebook.id)

    async def gone() -> bool:
        return not await count()

    await eventually(gone, "the notebook has left the index")


@requirement("finding:index:ephemeral")
async def test_what_its_owner_never_looks_at_again_is_forgotten(opened: Open) -> None:
    workspace = opened(notebook_ttl=10)
    await workspace.thinking.create(ANNE, None, "left behind", "python", None)
    assert await titles(workspace, "behind") == {"left behind"}
    await workspace.database.write(lambda tx: tx.run("UPDATE finding_things SET seen = seen - 601"))
    await found(workspace, "anything", call=BERT)
    assert await workspace.database.read(lambda tx: tx.rows("SELECT * FROM finding_things")) == []
    assert await workspace.database.read(lambda tx: tx.rows("SELECT * FROM search_entries")) == []

    async def back() -> bool:
        return await titles(workspace, "behind") == {"left behind"}

    await eventually(back, "found again by its owner")


@requirement("finding:index:private")
async def test_hidden_ignored_and_secret_files_are_never_read(opened: Open, root: Path) -> None:
    workspace = opened()
    names = [".hidden.md", ".folder/file.md", "ignored.md", "out/made.md", ".env", "prod.env", "id_rsa", "server.key"]
    names += ["secrets.yaml", ".ipynb_checkpoints/x.md", "node_modules/m.md", "picture.png"]
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("the hedgehog", encoding="utf-8")
    write_notebook(root, ".hidden.ipynb", ["hedgehog"])
    write_notebook(root, "out/made.ipynb", ["hedgehog"])
    (root / ".gitignore").write_text("ignored.md\nout/\n", encoding="utf-8")
    (root / "seen.md").write_text("the hedgehog", encoding="utf-8")
    (root / "link.md").symlink_to(root / "server.key")
    watched = Watched(root)
    indexing = Indexing(workspace.database, workspace.search)
    assert await gone_through(indexing, ProjectCollection("t", watched, is_path)) == ["seen.md"]
    await indexing.close()
    assert await titles(workspace, "hedgehog") == {"seen.md"}


class Slow:
    """A collection that gives its places one slice at a time, when it is told to."""

    tenant = "slow"
    kinds = (Kind.FILE,)
    keep_seconds = None

    def __init__(self, problem: str = "") -> None:
        self.go = asyncio.Semaphore(0)
        self.problem = problem

    async def inventory(self) -> Inventory:
        if self.problem:
            raise Unavailable(self.problem)
        return Inventory([Place(Kind.FILE, f"f{number}", "1", 60_000) for number in range(5)], left_out=3)

    async def read(self, places: Sequence[Place]) -> list[Reading]:
        await self.go.acquire()
        return [Reading(one, "text", one.id) for one in places]


@requirement("finding:index:bounded")
async def test_a_search_waits_a_bounded_moment_and_says_how_far_the_index_is(opened: Open) -> None:
    workspace = opened()
    place, indexing = Slow(), Indexing(workspace.database, workspace.search)
    place.go.release()
    place.go.release()
    begun = indexing.begin(place)
    await until(lambda: begun.done == 2, "two slices")
    async with asyncio.timeout(5):
        progress = await indexing.caught_up([place], 0.02, 0.02)
    assert (progress.done, progress.total, progress.left_out, progress.running) == (2, 5, 3, True)
    assert not progress.complete
    for _ in range(3):
        place.go.release()
    progress = await indexing.caught_up([place], 10, 10)
    assert (progress.done, progress.running) == (5, False)
    await indexing.close()
    with pytest.raises(Unavailable, match="stopping"):
        indexing.begin(place)


@requirement("finding:index:bounded")
async def test_what_could_not_be_looked_at_is_told_and_the_rest_is_found(opened: Open, root: Path) -> None:
    workspace = opened(jupyter_url="http://127.0.0.1:9", jupyter_token=Secret("x"))
    (root / "a.md").write_text("a weasel", encoding="utf-8")
    async with asyncio.timeout(20):
        while True:
            answer = await search_workspace(workspace.finder, ANNE, "weasel")
            if "problems" in answer["indexing"]:
                break
    assert [one["title"] for one in answer["results"]] == ["a.md"]
    assert answer["indexing"]["problems"][0].startswith("notebook: ")


def test_slices_are_small() -> None:
    things = [
        Place(Kind.FILE, str(number), "", size) for number, size in enumerate([0] * 45 + [60_000] * 3 + [9_000_000])
    ]
    assert [len(few) for few in slices(things)] == [20, 20, 6, 1, 1, 1]
    assert slices([]) == []


# -- texts -----------------------------------------------------------------------------------------------------------------------


def test_a_file_is_cut_at_lines_and_only_so_far() -> None:
    text = "".join(f"line {number} {'x' * 50}\n" for number in range(1, 4_000))
    entries = file_entries("t", Place(Kind.FILE, "a.py", ""), text)
    assert len(entries) == MOST_PIECES
    lines = text.splitlines()
    assert all(lines[int(entry.key.part) - 1] == entry.text.splitlines()[0] for entry in entries)
    assert {entry.language for entry in entries} == {"python"}
    assert file_entries("t", Place(Kind.FILE, "empty.md", ""), "\n \n") == []
    assert len(file_entries("t", Place(Kind.FILE, "big.csv", ""), text)) == 2


def test_odd_notebooks_are_taken_as_they_are() -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": "# Title\n## Part"},
        {"cell_type": "code", "id": "same", "metadata": {}, "source": "one", "outputs": [{"output_type": "odd"}]},
        {"cell_type": "code", "id": "same", "metadata": {}, "source": "two\ud800\x00", "outputs": [{}]},
        {"cell_type": "code", "id": "e", "metadata": {}, "source": "", "outputs": []},
        {
            "cell_type": "code",
            "id": "bad id/" * 20,
            "metadata": {},
            "source": "1/0",
            "outputs": [
                {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": []}
            ],
        },
    ]

    def parts(content: object) -> dict[str, str]:
        thing = Place(Kind.NOTEBOOK, "n", "")
        return {entry.key.part: entry.text for entry in notebook_entries("t", thing, "n", notebook_within(content))}

    entries = parts({"nbformat": 4, "metadata": {}, "cells": cells})
    assert entries.keys() == {"", "#0", "same", "#2", "#4"}
    assert entries[""] == "Title\nPart"
    assert "\ud800" not in entries["#2"]
    assert "\x00" not in entries["#2"]
    assert entries["#4"] == "1/0\nZeroDivisionError: division by zero"
    odd: list[object] = [None, [], {"cells": {}}, {"cells": [None, {"source": 7, "outputs": [None]}], "metadata": []}]
    assert [parts(one) for one in odd] == [{"": ""}] * 4
    of_no_type: dict[str, Any] = {"cell_type": [], "source": "kept"}
    assert parts({"cells": [of_no_type]}) == {"": "", "#0": "kept"}


# -- connector -------------------------------------------------------------------------------------------------------------------


@requirement("finding:connector")
async def test_what_the_connector_finds_can_be_fetched(opened: Open, root: Path) -> None:
    workspace = opened()
    connector = Connector(workspace.finder, lambda: workspace.resources)
    (root / "a b.md").write_text("a mongoose in a file", encoding="utf-8")
    await make_pad(workspace, "a mongoose in a pad", "Pad")
    await workspace.thinking.create(ANNE, None, "A mongoose", "python", None)
    await workspace.context.record(ANNE, "pattern", "mongoose everywhere", "", "")
    await found(workspace, "mongoose")
    results = (await search(connector, ANNE, "mongoose"))["results"]
    assert len(results) == 4
    for one in results:
        assert one.keys() == {"id", "title", "url"}
        document = await fetch(connector, ANNE, one["id"])
        assert document.keys() == {"id", "title", "text", "url", "metadata"}
        assert "mongoose" in document["text"]
    pad = next(one["id"] for one in results if one["id"].startswith("scratchpad://"))
    with pytest.raises(NotFound):
        await fetch(connector, BERT, pad)
    with pytest.raises(NotFound, match="no resource"):
        await fetch(connector, ANNE, "https://example.com/")
    for start in ("0", "x", "-1", ""):
        with pytest.raises(InvalidArgument, match="Invalid start"):
            await fetch(connector, ANNE, f"context://file/a%20b.md?start={start}")
    with pytest.raises(InvalidUri, match="not an id"):
        await fetch(connector, ANNE, "etc/passwd")
