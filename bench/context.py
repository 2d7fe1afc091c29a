"""Project context against its floor: a bare walk-and-read for the scan, plain grep for the search, the call itself for recording.

python bench/context.py [FILES]
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cellwright.app.context_traces import trace_of
from cellwright.context.grep import Wanted, compiled, grep
from cellwright.context.paths import Root
from cellwright.context.scanner.scan import scan

DEFAULT_FILES = 10_000
ROUNDS = 3


def make_tree(folder: Path, count: int) -> None:
    """Python packages of fifty files that import each other, each file as long as files usually are."""
    body = "\n".join(
        f"def function_{number}(value: int) -> int:\n    return value + {number}\n" for number in range(40)
    )
    for number in range(count):
        package = folder / "src" / "app" / f"part_{number // 50:04}"
        package.mkdir(parents=True, exist_ok=True)
        other = f"part_{(number * 7) % max(count // 50, 1):04}"
        text = f'"""Part {number}."""\n\nimport os\nfrom app.{other} import module_{number % 50}\n\n\n{body}'
        (package / f"module_{number % 50}.py").write_text(text, encoding="utf-8")
    (folder / ".gitignore").write_text("*.log\nbuild/\n", encoding="utf-8")


def walk_and_read(folder: Path) -> int:
    total = 0
    for where, _folders, names in os.walk(folder):
        for name in names:
            with open(os.path.join(where, name), "rb") as opened:  # noqa: PTH118, PTH123 - the floor
                total += len(opened.read())
    return total


def best(work: Callable[[], object]) -> float:
    found: list[float] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


def report(what: str, ours: float, floor: float) -> None:
    print(f"{what:24} {ours * 1000:9.1f} ms   floor {floor * 1000:9.1f} ms   {ours / floor:5.2f} times")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_tree(folder, count)
        report(f"scan of {count:,} files", best(lambda: scan(name)), best(lambda: walk_and_read(folder)))
        wanted = Wanted(compiled("function_39.*never", case_sensitive=True))
        plain = shutil.which("grep")
        if plain:
            command = [plain, "-rnE", "function_39.*never", name]
            floor = best(lambda: subprocess.run(command, capture_output=True, check=False))
            report("grep without a match", best(lambda: grep(Root(folder), wanted, 120)), floor)
    rounds = 20_000
    arguments = {"path": "src/app/part_0001/module_1.py", "query": "where tokens are refreshed"}
    spent = best(lambda: [trace_of("read_file", arguments) for _ in range(rounds)])
    print(f"{'trace of a call':24} {spent / rounds * 1e6:9.1f} µs")


if __name__ == "__main__":
    main()
