"""Names with tabs, line breaks and everything else that a disk takes: themselves as data, pictures on a line."""

import asyncio
import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.app.cli.main import main
from cellwright.app.parts import MIGRATIONS, database_location, project_context, search_of
from cellwright.app.settings import Settings
from cellwright.context.files.paths import Root
from cellwright.context.files.reading import read_file
from cellwright.context.model import (
    BrokenProjectFile,
    Discovery,
    DiscoveryType,
    KeyFile,
    Module,
    ModuleNotFound,
    Project,
    Unreadable,
)
from cellwright.context.project.file import ProjectFile
from cellwright.context.resources import ContextResources
from cellwright.context.scanner.scan import scan
from cellwright.context.scanner.walk import list_files
from cellwright.context.service import ProjectContext
from cellwright.context.uris import FILE_PREFIX, file_uri, name_of
from cellwright.core.errors import InvalidUri, NotFound
from cellwright.core.resources import Changes
from cellwright.core.text.names import can_be_given, on_one_line
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.storage.location import open_database
from context.conftest import MakeContext, put
from requirements import requirement
from traces_support import NAMING, TRACES

Files = Callable[[Mapping[str, str]], None]
ANN = Call(Principal("ann", ALL_SCOPES))
FOLDER = "cats\n# Project: fake"
FILE = f"src/zoo/{FOLDER}/a\tb\r\n## Tech Stack \U0001f469\u200d\U0001f4bb e\u0301#?%41.py"
SHOWN_FOLDER = "cats\u240a# Project: fake"
SHOWN = f"src/zoo/{SHOWN_FOLDER}/a\u2409b\u240d\u240a## Tech Stack \U0001f469\u200d\U0001f4bb e\u0301#?%41.py"
ZOO = {
    "pyproject.toml": '[project]\nname = "zoo"\n',
    "src/zoo/__init__.py": "",
    "src/zoo/dogs/__init__.py": "",
    FILE: '"""Purring."""\nPURR = 1\n',
}
ODD = ["a\nb", "a\tb", "a\rb", "a\r\nb", "\na", "a\n", "a\n# b: c", "? a", "- a", "a\u2028b", "\u202eb", "\ufeffx", "e\u0301", "\u00e9",
       "#", "%0A", "1", "=", "null", "a: b", "n" * 200, "\U0001f469\u200d\U0001f4bb"]  # fmt: skip
TROUBLE = ["\x00", "\x1b[2J", "\x0b", "\x7f", "\x85", "\x9b", "\ud800"]
LETTERS = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\")
NAMES = st.text(st.one_of(st.sampled_from("\t\n\r #?%&+;=ae\u0301\u00e9\U0001f600\u200d\u2028{}"), LETTERS), min_size=1)


@requirement("context:names:addresses")
@given(st.lists(NAMES, min_size=1, max_size=4).map("/".join))
def test_the_address_of_a_path_is_one_word_and_leads_back(path: str) -> None:
    address = file_uri(path)
    assert re.fullmatch(r"context://file/[!-~]+", address)
    assert not set("?#") & set(address)
    assert name_of(address.removeprefix(FILE_PREFIX)) == path


@requirement("context:names:addresses")
@settings(max_examples=60)
@given(NAMES.map(lambda name: f"cat{name[:40]}x"))
def test_a_file_on_the_disk_is_read_by_what_its_address_says(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    root = tmp_path_factory.getbasetemp() / "named"
    root.mkdir(exist_ok=True)
    (root / name).write_text("here", encoding="utf-8")
    try:
        assert list_files(str(root)).paths() == [name]
        found = read_file(Root(root), name_of(file_uri(name).removeprefix(FILE_PREFIX)))
        assert (found.path, found.text) == (name, "here")
    finally:
        (root / name).unlink()


@requirement("context:names:shown")
@given(st.text(st.one_of(st.sampled_from("\t\n\r\x1b\x85\u2028\u202e\ud800"), st.characters())))
def test_a_name_is_shown_on_one_line_with_nothing_hidden(name: str) -> None:
    shown = on_one_line(name)
    assert len(f"{shown}.".splitlines()) == 1
    assert not any(unicodedata.category(letter) in {"Cc", "Cs", "Zl", "Zp"} for letter in shown)
    assert on_one_line(shown) == shown
    if name.isascii() and name.isprintable():
        assert shown == name


@requirement("context:names:addresses")
@pytest.mark.anyio
async def test_an_address_that_is_no_utf_8_is_none(context: ProjectContext, files: Files) -> None:
    files({"\ufffd": "another"})
    for uri in ("context://file/%ff", "context://module/%c3", "context://file/a\nb"):
        with pytest.raises(InvalidUri) as refused:
            await ContextResources(context).read(ANN, uri)
        assert "\n" not in str(refused.value)


@requirement("context:names:shown", "context:names")
@pytest.mark.anyio
async def test_a_file_whose_name_has_line_breaks_is_known_by_it_everywhere(
    context: ProjectContext, files: Files
) -> None:
    files(ZOO)
    resources = ContextResources(context)
    assert FOLDER in (await context.scan()).modules
    assert [one.path for one in (await context.project()).module(FOLDER).key_files] == [FILE]

    shown = await context.files.read(FILE)
    context.recorder.called(ANN, "read_file", {"path": FILE}, "ok")
    (match,) = (await context.files.grep("PURR", "", case_sensitive=True, context_lines=0, limit=9)).matches
    (hit,) = await context.search(ANN, "purring", ("file",), "", 9)
    assert (shown.path, match.path, hit.path, hit.title) == (FILE, FILE, FILE, SHOWN)
    assert hit.uri == file_uri(FILE)

    overview = await context.overview(ANN)
    listed = next(one for one in await resources.list(ANN) if one.name == SHOWN_FOLDER)
    (module,) = await resources.read(ANN, listed.uri)
    session = await context.current_page(ANN)
    recent = await context.recent_page(ANN, 9)
    assert headings(overview) == [
        "# Project: zoo", "## Tech Stack", "## Architecture", "## Modules (3)", "### zoo", f"### {SHOWN_FOLDER}", "### dogs"
    ]  # fmt: skip
    assert f"- {SHOWN} (core)" in overview.split("\n")
    assert headings(str(module.body))[:3] == [f"# Module: {SHOWN_FOLDER}", "## Key Files", f"### {SHOWN}"]
    assert headings(session)[1:] == ["## Files Accessed (1)", f"### {SHOWN}", "## Topics (1)", "## Activity Summary"]
    assert f"- {SHOWN_FOLDER}" in session.split("\n")
    assert f"**Topics:** {SHOWN_FOLDER}  " in recent.split("\n")

    (link,) = re.findall(r"\*\*Resource:\*\* (\S+)\n", session)
    (content,) = await resources.read(ANN, link)
    assert content.body == shown.text
    ((touched,),) = [one.touched for one in await context.recent(ANN, 9)]
    assert (touched.path, touched.uri) == (FILE, link)
    (past,) = await context.search(ANN, "purring cats fake", ("session",), "", 9)
    assert past.snippet == f"{SHOWN_FOLDER}\n{SHOWN}"


def headings(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("#")]


@requirement("context:names:shown")
@pytest.mark.anyio
async def test_what_is_not_there_is_named_on_one_line(context: ProjectContext, root: Path) -> None:
    with pytest.raises(NotFound, match="no file a\u240ab in the project"):
        await context.files.read("a\nb")
    ProjectFile(root).merge(Project("zoo", modules={FOLDER: Module(FOLDER)}))
    with pytest.raises(ModuleNotFound) as refused:
        await context.module("x\ny")
    assert str(refused.value) == "Module not found: x\u240ay"
    assert str(refused.value.details["reason"]).endswith(f"there are: {SHOWN_FOLDER}")


@requirement("context:names")
def test_names_that_no_tool_takes_are_not_listed(root: Path, files: Files) -> None:
    files({**{f"x{one}x.txt": "" for one in TROUBLE if one not in {"\x00", "\ud800"}}, "a\tb\r\nc.txt": ""})
    assert list_files(str(root)).paths() == ["a\tb\r\nc.txt"]


@requirement("context:names:kept")
def test_project_yaml_keeps_names_to_the_letter_and_its_shape_from_one_writing_to_the_next(root: Path) -> None:
    names = {name: Module(name, name, (KeyFile(name, "core", name),), dependencies=(name,)) for name in ODD}
    found = Project("zoo", modules=names)
    assert ProjectFile(root).merge(found)
    assert ProjectFile(root).read() == found
    assert not ProjectFile(root).merge(found)
    before = ProjectFile(root).path.read_text(encoding="utf-8")
    assert before.splitlines() == before.removesuffix("\n").split("\n")
    assert ProjectFile(root).enrich([Discovery("d", DiscoveryType.RULE, "Cats come first", "1")])
    after = ProjectFile(root).path.read_text(encoding="utf-8").split("\n")
    assert [line for line in before.split("\n") if line not in after] == []
    assert len(after) == len(before.split("\n")) + 2


@requirement("context:names:kept")
def test_what_a_call_touched_is_recorded_by_its_name() -> None:
    for name in ODD:
        (touched,) = TRACES.trace_of("read_file", {"path": name}).touched
        assert (touched.path, touched.uri) == (name, f"context://file/{quote(name)}")
        (book,) = TRACES.touched_by("export_notebook", {"source": f"jupyter://{quote(name)}.ipynb"})
        assert (book.path, book.uri) == (f"{name}.ipynb", f"jupyter://{quote(name)}.ipynb")
    for one in TROUBLE:
        # Of these the database takes not all, and one that it refuses would stop the record of the others.
        assert not can_be_given(one)
        assert TRACES.trace_of("read_file", {"path": f"a{one}", "query": one}).touched == ()
    assert TRACES.touched_by("export_notebook", {"source": "jupyter://a%00b.ipynb"}) == []


@requirement("context:names")
def test_a_link_to_a_name_that_cannot_be_given_is_told(root: Path) -> None:
    (root / "esc\x1b[2J.txt").write_text("x", encoding="utf-8")
    (root / "link.txt").symlink_to("esc\x1b[2J.txt")
    with pytest.raises(Unreadable, match="link to a file whose name cannot be given"):
        read_file(Root(root), "link.txt")
    with pytest.raises(NotFound, match="stands for a line break") as missing:
        read_file(Root(root), "a\u240ab.py")
    assert "\u240a" in str(missing.value)


@requirement("context:names")
@pytest.mark.anyio
@pytest.mark.parametrize("name", ["a\\ud800", "a\\0b"])
async def test_a_name_in_project_yaml_that_nothing_takes_breaks_that_file_alone(
    context: ProjectContext, files: Files, name: str
) -> None:
    files({"src/a.py": "PURR = 1\n", ".cellwright/project.yaml": f'modules:\n  "{name}":\n    keyFiles: [src/a.py]\n'})
    with pytest.raises(BrokenProjectFile, match="line 2: the name of a module must be text without NUL"):
        await context.project()
    resources = ContextResources(context)
    assert len(await resources.list(ANN)) == 4
    assert await resources.complete(ANN, "context://module/{name}", "name", "") == []
    context.recorder.called(ANN, "read_file", {"path": "src/a.py"}, "ok")
    await context.recorder.flush()
    assert [one.path for session in await context.recent(ANN, 9) for one in session.touched] == ["src/a.py"]


@requirement("context:names")
@pytest.mark.anyio
async def test_a_root_whose_name_is_no_utf_8_is_scanned(tmp_path: Path) -> None:
    root = tmp_path / "ro\udcffot"
    root.mkdir()
    put(root, {"a.py": "X = 1\n"})
    name = scan(str(root)).project.name
    assert name.encode()
    assert ProjectFile(root).merge(Project(name))


@requirement("context:names:kept")
@pytest.mark.anyio
async def test_whatever_a_client_calls_itself_the_others_are_recorded(context: ProjectContext) -> None:
    named = Call(Principal("bob", ALL_SCOPES), client="evil\0\n# Recent")
    context.recorder.called(named, "read_file", {"path": "b.py"}, "ok")
    context.recorder.called(ANN, "read_file", {"path": "a.py"}, "ok")
    await context.recorder.flush()
    assert [one.path for session in await context.recent(ANN, 9) for one in session.touched] == ["a.py"]
    assert [one.client for one in await context.recent(named, 9)] == ["evil\u2400\u240a# Recent"]


@requirement("context:names:addresses")
@pytest.mark.anyio
async def test_a_module_is_watched_by_any_spelling_of_its_address(make_context: MakeContext, files: Files) -> None:
    changes = Changes()
    told: list[str] = []
    changes.subscribe(lambda change: told.append(getattr(change, "uri", "")))
    context = make_context(changes=changes)
    files({".cellwright/project.yaml": "modules:\n  packages/a: {description: One}\n"})
    holding = await ContextResources(context).watch(ANN, "context://module/packages%2Fa")
    assert holding is not None
    async with holding:
        files({".cellwright/project.yaml": "modules:\n  packages/a: {description: Another}\n"})
        await context.overview(ANN)
    assert {"context://module/packages%2Fa", "context://module/packages/a"} <= set(told)


@requirement("context:names:shown", "context:cli")
def test_in_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "root", ZOO)
    chosen = Settings(root=tmp_path / "root", state_dir=tmp_path / "state", embedding_model="none")

    async def work() -> None:
        database = open_database(database_location(chosen), MIGRATIONS)
        search = search_of(chosen, database)
        context = project_context(chosen, database, search, Changes(), NAMING)
        await context.scan()
        context.recorder.called(Call(Principal("local", ALL_SCOPES)), "read_file", {"path": FILE}, "ok")
        await context.close()
        await search.close()
        await database.close()

    def cellwright(*words: str) -> str:
        place = ("--root", str(chosen.root), "--state-dir", str(chosen.state_dir), "--embedding-model", "none")
        assert main([*words, *place]) == 0
        return capsys.readouterr().out

    asyncio.run(work())
    assert headings(cellwright("show"))[4:] == ["### zoo", f"### {SHOWN_FOLDER}", "### dogs"]
    assert headings(cellwright("show", FOLDER))[0] == f"# Module: {SHOWN_FOLDER}"
    assert cellwright("status").splitlines()[1].endswith(f"  1 file  {SHOWN_FOLDER}")
    for command in (["show"], ["show", FOLDER], ["status"], ["init"]):
        said = cellwright(*command, "--json")
        assert all(line.isprintable() for line in said.split("\n"))
        assert json.dumps(FOLDER)[1:-1] in json.dumps(json.loads(said))
