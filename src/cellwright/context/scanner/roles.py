"""Chooses the key files of a module: entry points, configuration, the files that others import most, and tests."""

import re
from collections.abc import Iterable, Mapping, Sequence

from cellwright.context.model import KeyFile, Role
from cellwright.context.scanner.languages import language_of

ENTRY_NAMES = frozenset(
    {
        "__main__.py", "main.py", "app.py", "cli.py", "manage.py", "wsgi.py", "asgi.py", "server.py", "index.ts", "index.tsx", "index.js",
        "index.mjs", "main.ts", "main.tsx", "main.js", "server.ts", "server.js", "app.ts", "app.tsx", "app.js", "main.rs", "lib.rs",
        "main.go", "program.cs", "startup.cs", "main.java", "app.java", "main.kt", "mod.rs",
    }
)  # fmt: skip
CONFIG_STEMS = frozenset({"settings", "config", "configuration", "conf", "constants", "options", "env"})
CONFIG_NAMES = frozenset({"setup.py", "noxfile.py", "conftest.py", "fabfile.py", "gulpfile.js", "gruntfile.js"})
MOST_ENTRIES, MOST_CONFIGS, MOST_CORE, MOST_TESTS = 2, 2, 3, 2
LONGEST_DESCRIPTION = 160


def key_files(
    files: Sequence[str],
    tests: Sequence[str],
    named_entries: Iterable[str],
    importers: Mapping[str, int],
    heads: Mapping[str, str],
) -> tuple[KeyFile, ...]:
    """At most nine files, each with its role. `importers` counts the importers of each file, `heads` has the first text of each."""
    by_depth = sorted(files, key=lambda path: (path.count("/"), path))
    entry_paths = set(named_entries)
    entries = [
        path for path in by_depth if path in entry_paths or any(path.endswith(f"/{entry}") for entry in entry_paths)
    ]
    entries += [path for path in by_depth if is_entry(path) and path not in entries]
    entries = entries[:MOST_ENTRIES]
    configs = [path for path in by_depth if is_config(path) and path not in entries][:MOST_CONFIGS]
    used = {*entries, *configs}
    ranked = sorted((path for path in files if path not in used), key=lambda path: (-importers.get(path, 0), path))
    core = [path for path in ranked if importers.get(path, 0) > 0][:MOST_CORE]
    if not (entries or core):
        core = [path for path in by_depth if path not in used][:MOST_CORE]
    files_with_roles = (
        *((path, Role.ENTRY) for path in entries),
        *((path, Role.CONFIG) for path in configs),
        *((path, Role.CORE) for path in core),
        *((path, Role.TEST) for path in tests[:MOST_TESTS]),
    )
    return tuple(KeyFile(path, role.value, described(path, heads.get(path, ""))) for path, role in files_with_roles)


def is_entry(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.lower() in ENTRY_NAMES or name.endswith("Application.java")


def is_config(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return name in CONFIG_NAMES or name.partition(".")[0] in CONFIG_STEMS or ".config." in name or ".setup." in name


# The first comment or docstring of a file, up to a blank line or its end.
_PYTHON_DOC = re.compile(r"\A(?:\s++|#[^\n]*+\n)*+[rR]?(\"\"\"|''')\s*((?:(?!\1|\n[ \t]*\n).){1,400})", re.DOTALL)
_BLOCK = re.compile(
    r"\A(?:\s++|#![^\n]*+\n|['\"]use \w+['\"];?)*+(/)\*\*?[\s*!]*((?:(?!\*/|\n[ \t*]*\n).){1,400})", re.DOTALL
)
_LINES = re.compile(r"\A\s*(/)/[/!]?[ \t]*([^\n]+(?:\n[ \t]*//[/!]?[ \t]*[^\s/!][^\n]*){0,4})")
_MARKS = re.compile(r"\n[ \t]*(?://[/!]?|\*)?[ \t]*")
_NOISE = re.compile(r"copyright|licen[cs]e|eslint|@ts-|spdx|generated|pylint|noqa|prettier|istanbul", re.IGNORECASE)


def described(path: str, head: str) -> str:
    """The first sentence that a file says about itself; empty if it says nothing, or only a licence."""
    patterns = (_PYTHON_DOC,) if language_of(path) == "Python" else (_BLOCK, _LINES)
    for pattern in patterns:
        if (match := pattern.match(head)) and not _NOISE.search(match[2]):
            text = _MARKS.sub(" ", match[2]).strip()
            return _shortened(re.split(r"(?<=[.!?])\s", text)[0])
    return ""


def _shortened(sentence: str) -> str:
    if len(sentence) <= LONGEST_DESCRIPTION:
        return sentence
    return sentence[:LONGEST_DESCRIPTION].rpartition(" ")[0].rstrip(",;:") + " …"


ANY_NAMES = frozenset({"__init__", "index", "main", "mod", "utils", "src", "lib", "app", "core", "test"})
"""Names that say nothing about what a test is for."""


def tests_for(name: str, tests: Iterable[str], stems: Iterable[str]) -> list[str]:
    """The tests that are about a module or one of its files, judged by their names; the closest first."""
    subjects = {name.lower(), *(stem.lower() for stem in stems)}
    ranked: list[tuple[int, str]] = []
    for path in tests:
        *folders, last = path.lower().split("/")
        subject = re.sub(r"^test_|_test$|_spec$|tests?$|\.(?:test|spec)$", "", last.partition(".")[0])
        if subject == name.lower():
            ranked.append((0, path))
        elif name.lower() in folders and name.lower() not in ANY_NAMES and subject != last.partition(".")[0]:
            ranked.append((1, path))
        elif subject in subjects and subject not in ANY_NAMES:
            ranked.append((2, path))
    return [path for _, path in sorted(ranked)]
