"""A large tree: its scan ends, says how far it is, and takes memory that does not grow with what is in the files."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cellwright.context.scanner.imports import Imports
from cellwright.context.scanner.layout import Layout
from requirements import requirement

FILES = int(os.environ.get("CELLWRIGHT_TEST_TREE", "1000"))
"""100,000 for the whole proof: a minute, and half a gigabyte of disk."""
IN_A_FOLDER = 100
FILE_BYTES = 4_000
MOST_MEGABYTES = 30 + 150 * FILES // 100_000
SECONDS = 30 + 120 * FILES // 100_000

CHILD = """
import json, resource, sys
from cellwright.context.scanner.scan import scan

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)

told = []
before = peak()
found = scan(sys.argv[1], lambda done, total: told.append((done, total)))
print(json.dumps({"files": len(found.files), "modules": len(found.project.modules), "told": told, "grown": peak() - before}))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("large")
    body = "x = 'some text of a program....'\n" * (FILE_BYTES // 34)
    for number in range(FILES):
        folder = root / f"part{number // IN_A_FOLDER // 20}" / f"piece{number // IN_A_FOLDER % 20}"
        if number % IN_A_FOLDER == 0:
            folder.mkdir(parents=True)
        (folder / f"file{number % IN_A_FOLDER}.py").write_text(f"import part0.piece0.file{number % 9}\n{body}", "utf-8")
    return root


@requirement("context:scan:large")
@pytest.mark.timeout(SECONDS * 2)
def test_a_large_tree_is_scanned_with_progress_in_bounded_memory(tree: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    said = json.loads(done.stdout)
    assert said["files"] == FILES
    assert said["modules"] > 0
    listed = [count for count, total in said["told"] if not total]
    read = [count for count, total in said["told"] if total]
    assert listed == sorted(listed)
    assert len(listed) >= FILES // 1_000
    assert read == sorted(read)
    assert len(read) >= FILES // 1_000
    assert said["told"][-1] == [FILES, FILES]
    assert said["grown"] < MOST_MEGABYTES


@requirement("context:imports:linear")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.go", "import (\n" * 120_000),
        ("a.java", ("import " + "a" * 300 + " x\n") * 5_000),
        ("a.cs", ("using " + " " * 2_000 + "\n") * 1_000),
        ("a.rs", "use crate" + "::a" * 200_000),
        ("a.js", "import " * 200_000),
        ("a.py", "import a;" * 150_000),
        ("a.py", "import " + "a," * 500_000 + "a"),
    ],
    ids=["go", "java", "csharp", "rust", "script", "python", "long statement"],
)
def test_what_a_hostile_program_imports_is_found_in_a_time_that_is_its_size(name: str, text: str) -> None:
    imports = Imports(Layout(frozenset()))
    # Compiled once for all.
    imports.of(name, "import a")
    began = time.process_time()
    imports.of(name, text)
    assert time.process_time() - began < 1.0


@requirement("context:scan:imports")
def test_names_in_every_alphabet_are_found() -> None:
    files = frozenset({"lib/größe.go", "src/länge.rs", "Maß.java", "Maß.cs"})
    layout = Layout(
        files,
        java={"de.Maß": "Maß.java"},
        go={"lib": "lib/größe.go"},
        packages={"example.org/größe": "lib"},
        namespaces={"De.Maß": ("Maß.cs",)},
    )
    imports = Imports(layout)
    assert imports.of("a.go", 'import (\n\tx "example.org/größe"\n)\n') == ["lib/größe.go"]
    assert imports.of("src/main.rs", "mod länge;\n") == ["src/länge.rs"]
    assert imports.of("a.java", "import de.Maß;\n") == imports.of("b.java", "import de.Maß.*;\n") == ["Maß.java"]
    assert imports.of("a.cs", "using De.Maß;\n") == ["Maß.cs"]
