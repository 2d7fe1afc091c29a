"""`.gitignore` against git itself."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.context.scanner.walk import NEVER_ENTERED, list_files
from requirements import requirement

NAMES = ["c", "a.py", "b.log", "x y", "#c", "!d", "[e]", "é"]
PIECES = [
    "a",
    "b",
    "*",
    "?",
    "**",
    "a*",
    "*.py",
    "*.log",
    "[ab]",
    "[!a]*",
    "[a-c]?",
    "\\#c",
    "\\!d",
    "\\[e]",
    "build",
    "x y",
    "é",
    "[[:alpha:]]",
]
PATHS = [f"{one}/{two}" for one in ("ab", "build", "a/b") for two in NAMES if two not in ("ab", "build")] + [
    "b/x/y/a.py",
    "b/a/b/c",
    "ab/build/a",
]


@st.composite
def patterns(draw: st.DrawFn) -> str:
    pieces = draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=3))
    text = "/".join(pieces)
    prefix = draw(st.sampled_from(["", "", "/", "!", "!/", "**/"]))
    return prefix + text + draw(st.sampled_from(["", "", "/", "/*", "/**", "  ", "\\ "]))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True, capture_output=True)
    for path in (*PATHS, *NAMES):
        target = folder / path
        if not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("x", encoding="utf-8")
    return folder


def as_git_sees(folder: Path) -> set[str]:
    done = subprocess.run(
        [
            "git",
            "-c",
            "core.quotepath=off",
            "-c",
            "core.excludesFile=",
            "ls-files",
            "--others",
            "--exclude-standard",
            "-z",
        ],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    return {name for name in done.stdout.decode().split("\0") if name}


@requirement("context:ignore:git")
@given(top=st.lists(patterns(), max_size=6), inner=st.lists(patterns(), max_size=3))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_we_list_what_git_lists(tree: Path, top: list[str], inner: list[str]) -> None:
    (tree / ".gitignore").write_text("\n".join(top) + "\n", encoding="utf-8")
    (tree / "ab" / ".gitignore").write_text("\n".join(inner) + "\n", encoding="utf-8")
    ours = set(list_files(str(tree)).paths())
    assert ours == as_git_sees(tree), (top, inner)


@requirement("context:ignore:git")
def test_hand_picked_rules(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True, capture_output=True)
    for path in (
        "keep.log",
        "a.log",
        "out/x",
        "out/keep",
        "src/out/y",
        "doc/a/b/c.txt",
        "doc/c.txt",
        "t1",
        "t2 ",
        "Foo",
        "foo",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("", encoding="utf-8")
    rules = "# all logs\r\n*.log\n!keep.log\n/out/*\n!/out/keep\ndoc/**/c.txt\nt1\nt2\\ \n[F]oo\n\\\n[z-a]\n[\n"
    (tmp_path / ".gitignore").write_text(rules, encoding="utf-8", newline="")
    (tmp_path / ".git" / "info" / "exclude").write_text("src/out/\n", encoding="utf-8")
    assert set(list_files(str(tmp_path)).paths()) == as_git_sees(tmp_path)
    assert "node_modules" in NEVER_ENTERED
