"""`project.yaml` on a real disk: what a person wrote stays, whoever else writes and whatever dies meanwhile."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cellwright.context.model import BrokenProjectFile, Discovery, DiscoveryType, KeyFile, Module, Project
from cellwright.context.project.file import ProjectFile
from requirements import requirement

WRITTEN = """\
# Our shop. Ask Ann before you change this.
project:
  name: Shop   # not "the shop"
  type: fullstack
tech:
  stack: [Python, React]   # in this order
  runtime: 3.10
  flag: yes
owner: "Ann"
modules:
  auth:
    description: |
      Who may come in.
      And who may not.
    keyFiles:
    - path: src/auth/login.py   # begins here
      role: entry
    patterns:
    - Tokens live an hour
  # the money
  payments:
    businessRules: []
"""


def put(root: Path, text: str) -> ProjectFile:
    (root / ".cellwright").mkdir(exist_ok=True)
    (root / ".cellwright" / "project.yaml").write_text(text, encoding="utf-8")
    return ProjectFile(root)


def pattern(text: str, module: str = "auth") -> Discovery:
    return Discovery(text, DiscoveryType.PATTERN, text, module)


@requirement("context:file:kept")
def test_only_the_added_lines_differ(tmp_path: Path) -> None:
    file = put(tmp_path, WRITTEN)
    issue = Discovery(
        "i", DiscoveryType.ISSUE, "Logout fails: twice", "payments", "Clear the cookie", "s1", 1_700_000_000.0
    )
    assert file.enrich([pattern("Refresh with a lock"), issue])
    after = file.path.read_text(encoding="utf-8").splitlines()
    for line in WRITTEN.splitlines():
        # A list that was empty is no longer written as one; the gap before a comment may change.
        assert line.split("#")[0].rstrip() in {one.split("#")[0].rstrip() for one in after}, line
    for comment in ("# Our shop. Ask Ann", '# not "the shop"', "# in this order", "# begins here", "# the money"):
        assert any(comment in line for line in after)
    project = file.read()
    assert project is not None
    assert project.runtime == "3.10"
    assert project.modules["auth"].patterns == ("Tokens live an hour", "Refresh with a lock")
    assert project.modules["auth"].description == "Who may come in.\nAnd who may not.\n"
    (found,) = project.modules["payments"].common_issues
    assert (found.description, found.solution) == ("Logout fails: twice", "Clear the cookie")
    assert (found.discovered_at, found.session_id) == ("2023-11-14T22:13:20Z", "s1")
    assert list(project.modules) == ["auth", "payments"]
    assert not file.enrich([pattern("refresh WITH a lock")])


@requirement("context:file:kept", "context:scan:merge")
def test_a_scan_fills_gaps_and_overwrites_nothing(tmp_path: Path) -> None:
    file = put(tmp_path, WRITTEN)
    auth = Module("auth", "Found", (KeyFile("other.py", "core"),), dependencies=("payments",))
    file.merge(
        Project("found", "library", ".", ("Go",), "Go 1.22", "uv", modules={"auth": auth, "new": Module("new", "New")})
    )
    project = file.read()
    assert project is not None
    assert (project.name, project.type, project.stack, project.runtime) == (
        "Shop",
        "fullstack",
        ("Python", "React"),
        "3.10",
    )
    assert project.package_manager == "uv"
    assert [one.path for one in project.modules["auth"].key_files] == ["src/auth/login.py"]
    assert project.modules["auth"].dependencies == ("payments",)
    assert project.modules["new"].description == "New"
    before = file.path.read_bytes()
    assert not file.merge(Project("found", modules={"auth": auth}))
    assert file.path.read_bytes() == before


@requirement("context:file:kept")
def test_an_older_place_is_read_and_written_where_it_is(tmp_path: Path) -> None:
    (tmp_path / ".context").mkdir()
    (tmp_path / ".context" / "project.yaml").write_text("project:\n  name: Old\n", encoding="utf-8")
    file = ProjectFile(tmp_path)
    assert file.read() == Project("Old")
    assert file.enrich([pattern("One", "")])
    assert not (tmp_path / ".cellwright").exists()
    assert "One" in (tmp_path / ".context" / "project.yaml").read_text(encoding="utf-8")


@requirement("context:file:broken")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("project:\n  name: [a\n", 3),
        ("project: text\n", 1),
        ("project:\n  name: x\nmodules:\n  auth:\n    patterns: word\n", 5),
        ("modules:\n  auth:\n    keyFiles:\n    - path: a\n    - [1]\n", 5),
        ("modules:\n  auth:\n    commonIssues:\n    - solution: x\n      description: {}\n", 5),
        ("a: 1\na: 2\n", 2),
        ("- a\n- b\n", 1),
        ("x: !!python/object/apply:os.system ['true']\nproject:\n  - 1\n", 2),
        ("project:\n\tname: x\n", 2),
    ],
)
def test_a_broken_file_names_its_line_and_stays(tmp_path: Path, text: str, line: int) -> None:
    file = put(tmp_path, text)
    with pytest.raises(BrokenProjectFile, match=rf"project\.yaml line {line}\b"):
        file.read()
    for change in (lambda: file.merge(Project("x")), lambda: file.enrich([pattern("x")])):
        with pytest.raises(BrokenProjectFile):
            change()
    assert file.path.read_text(encoding="utf-8") == text
    assert [one.name for one in file.path.parent.iterdir()] == ["project.yaml"]


@requirement("context:file:broken")
@pytest.mark.parametrize(
    "data",
    [b"\xff\xfea: 1", b"a: " + b"x" * (3 << 20), b"[" * 50_000, b"[" * 50_000 + b"]" * 50_000, b"[" * 990 + b"]" * 990],
)
def test_what_is_no_yaml_at_all_is_refused(tmp_path: Path, data: bytes) -> None:
    file = put(tmp_path, "")
    file.path.write_bytes(data)
    with pytest.raises(BrokenProjectFile):
        file.enrich([pattern("x")])
    assert file.path.read_bytes() == data


@requirement("secrecy:project-file")
@pytest.mark.parametrize("target", ["../outside.yaml", "/dev/zero", "/dev/tty", "pipe", "missing"])
@pytest.mark.parametrize("link", [".cellwright/project.yaml", ".context/project.yaml", ".cellwright"])
def test_the_file_is_not_opened_through_a_link_or_a_device(tmp_path: Path, link: str, target: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.yaml"
    (root / link).parent.mkdir(parents=True)
    outside.write_text("project:\n  name: outside\n", encoding="utf-8")
    if target == "pipe":
        os.mkfifo(root / link) if link != ".cellwright" else (root / link).symlink_to(tmp_path)
    else:
        (root / link).symlink_to(tmp_path if link == ".cellwright" else outside if ".." in target else target)
    if link == ".cellwright":
        outside.rename(tmp_path / "project.yaml")
    file = ProjectFile(root)
    before = sorted(one.name for one in tmp_path.iterdir())
    for use in (file.read, lambda: file.merge(Project("Shop")), lambda: file.enrich([pattern("x")])):
        with pytest.raises(BrokenProjectFile, match="is a link, a pipe or a device"):
            use()
    assert sorted(one.name for one in tmp_path.iterdir()) == before
    assert [one.name for one in (root / link).parent.iterdir()] == [Path(link).name]


@requirement("context:file:cache")
def test_a_change_is_seen_and_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    file = put(tmp_path, "project:\n  name: one\n")
    first = file.read()
    assert file.read() is first
    file.path.write_text("project:\n  name: three\n", encoding="utf-8")
    assert file.read() == Project("three")
    file.path.unlink()
    assert file.read() is None


@requirement("context:file:together")
def test_a_person_and_two_agents_at_once_lose_nothing(tmp_path: Path) -> None:
    """The person's editor saves as editors do: it reads, adds a line, writes beside and renames."""
    file = put(tmp_path, "# kept\nmodules:\n  auth:\n    patterns: []\n  person:\n    patterns:\n    - first\n")
    rounds = 15
    failures: list[BaseException] = []

    def agent(name: str) -> None:
        own = ProjectFile(tmp_path)
        try:
            for number in range(rounds):
                own.enrich([pattern(f"{name} says {number}")])
        except BaseException as error:  # noqa: BLE001 - told to the test
            failures.append(error)

    def person() -> None:
        for number in range(rounds):
            saved = False
            while not saved:
                text = file.path.read_text(encoding="utf-8")
                draft = file.path.with_name("person.tmp")
                draft.write_text(text + f"    - person {number}\n", encoding="utf-8")
                # An editor that asks before it overwrites a file which changed on disk.
                if file.path.read_text(encoding="utf-8") == text:
                    draft.replace(file.path)
                    saved = True

    threads = [threading.Thread(target=agent, args=(name,)) for name in ("one", "two")] + [
        threading.Thread(target=person)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    agents = {f"{name} says {number}" for name in ("one", "two") for number in range(rounds)}
    # What the person's editor overwrote in its own race is still missing, and so it is added again.
    ProjectFile(tmp_path).enrich([pattern(text) for text in sorted(agents)])
    final = ProjectFile(tmp_path).read()
    assert final is not None
    assert agents <= set(final.modules["auth"].patterns)
    assert {f"person {number}" for number in range(rounds)} <= set(final.modules["person"].patterns)
    assert "# kept" in file.path.read_text(encoding="utf-8")


CHILD = """
import sys
from pathlib import Path
from cellwright.context.model import Discovery, DiscoveryType
from cellwright.context.project.file import ProjectFile
file = ProjectFile(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(100000):
    file.enrich([Discovery("x", DiscoveryType.PATTERN, f"fact {number} " + "x" * 2000, "auth")])
    print(number, flush=True)
"""


@requirement("context:file:crash")
def test_a_kill_in_the_middle_of_writing_leaves_a_whole_file(tmp_path: Path) -> None:
    file = put(tmp_path, "# kept\nmodules:\n  auth: {}\n")
    for turn in range(2):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(3 + turn)]
        os.kill(child.pid, signal.SIGKILL)
        child.wait(10)
        said += child.stdout.readlines()
        child.stdout.close()
        project = ProjectFile(tmp_path).read()
        assert project is not None
        known = len(project.modules["auth"].patterns)
        acknowledged = max(int(line) for line in said if line.strip().isdigit()) + 1
        assert known >= acknowledged
        assert file.path.read_text(encoding="utf-8").startswith("# kept")
    # The dead hold no lock.
    assert file.enrich([pattern("after")])


@requirement("context:file:broken")
@pytest.mark.parametrize(
    "text",
    ['modules:\n  a: {description: "\\UFFFFFFFF"}', "? modules: {}", "modules: {? [[a]] : {}}", "modules: {? [a] : {}}",
     "x: {? {a: {b: c}} : c}", "tech: !!bool x", 'tech: !!int ""', "tech: !!set x", "<<: !!set {a}"],
)  # fmt: skip
def test_whatever_the_library_trips_over_is_a_broken_file(tmp_path: Path, text: str) -> None:
    file = put(tmp_path, text)
    with pytest.raises(BrokenProjectFile):
        file.read()
    with pytest.raises(BrokenProjectFile):
        file.merge(Project("Shop"))
    assert (tmp_path / ".cellwright" / "project.yaml").read_text(encoding="utf-8") == text
