"""Project context beside its floors: a bare walk-and-read, plain grep, the bare SDK with the same text, the call that is recorded."""

import asyncio
import dataclasses
import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from measure import Pair, Plan, Row, alternating, cpu_seconds, row
from notebooks import beside, timed
from programs import HTTP, bare, ours, running, write_answer
from wire import META, MODERN, Session, result_of

from cellwright.app.parts import MIGRATIONS
from cellwright.context.files.grep import GrepWanted, compiled, grep
from cellwright.context.files.paths import Root
from cellwright.context.service import ProjectContext
from cellwright.core.resources import Changes
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.storage.location import open_database
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.embeddings.port import EmbeddingChoice
from cellwright.storage.search.opening import open_search

INIT_TARGET = 3.0
GREP_TARGET = 2.0
READ_TARGET = 2.0
RECORD_TARGET = 0.05
FILES = 10_000
IN_A_FOLDER = 50
HEAVY_ROUNDS = 10
WARM_CALLS = 10
BETWEEN_WRITES = 250
"""Calls of one session that go to the database together: half a second of a busy server."""
READ_NUMBER = 2_000_000
"""Beyond the numbers of the session's own requests."""
EXPRESSIONS = {"an expression": ("function_39.*never", "-rnE"), "a word in any case": ("neverthere", "-rniE")}
Work = Callable[[], object]


def context(plan: Plan) -> list[Row]:
    """One tree of files for all rows; what is measured in this process is measured as CPU time, floors as well."""
    folder = plan.work / "tree"
    make_tree(folder, FILES)
    rounds = range(HEAVY_ROUNDS if plan.lives > 1 else plan.rounds)
    rows = [*_initialising(plan, folder, rounds), *_searching(folder, rounds)]
    mine = ours(HTTP)
    program = dataclasses.replace(mine, command=(*mine.command, "--root", str(folder), "--toolsets", "context"))
    with running(program, plan.work) as server, closing(server.connect(MODERN)) as session:
        return [*rows, *_reading(plan, session), *_recording(plan, session, server.pid)]


def make_tree(folder: Path, count: int) -> None:
    """Python packages of fifty files that import each other, each file as long as files usually are."""
    body = "\n".join(
        f"def function_{number}(value: int) -> int:\n    return value + {number}\n"
        for number in range(IN_A_FOLDER - 10)
    )
    for number in range(count):
        package = folder / "src" / "app" / f"part_{number // IN_A_FOLDER:04}"
        package.mkdir(parents=True, exist_ok=True)
        other = f"part_{(number * 7) % max(count // IN_A_FOLDER, 1):04}"
        text = f'"""Part {number}."""\n\nimport os\nfrom app.{other} import module_{number % IN_A_FOLDER}\n\n\n{body}'
        (package / f"module_{number % IN_A_FOLDER}.py").write_text(text, encoding="utf-8")
    (folder / ".gitignore").write_text("*.log\nbuild/\n", encoding="utf-8")


def walk_and_read(folder: Path) -> int:
    total = 0
    for where, _folders, names in os.walk(folder):
        for name in names:
            with open(os.path.join(where, name), "rb") as opened:  # noqa: PTH118, PTH123 - the floor
                total += len(opened.read())
    return total


def _spent(work: Work) -> float:
    """CPU milliseconds of this process, all its threads."""
    before = time.process_time()
    work()
    return (time.process_time() - before) * 1000


def _initialising(plan: Plan, folder: Path, rounds: range) -> list[Row]:
    floor = partial(_spent, partial(walk_and_read, folder))
    first = [alternating(number, partial(_first_init, plan, folder), floor) for number in rounds]
    again = [alternating(number, partial(_init, plan, folder), floor) for number in rounds]
    return [
        row("context: init, CPU, beside walk and read", "ms", first, INIT_TARGET),
        row("context: init again, CPU, beside walk and read", "ms", again, INIT_TARGET),
    ]


def _first_init(plan: Plan, folder: Path) -> float:
    shutil.rmtree(folder / ".cellwright", ignore_errors=True)
    return _init(plan, folder)


def _init(plan: Plan, folder: Path) -> float:
    """What `cellwright init` and `context_scan` do, from the look at the files to the file on disk."""

    async def measured() -> float:
        with tempfile.TemporaryDirectory(dir=plan.work) as state:
            made = _project(folder, Path(state))
            before = time.process_time()
            await made.scan()
            spent = time.process_time() - before
            await made.close()
        return spent * 1000

    return asyncio.run(measured())


def _project(folder: Path, state: Path) -> ProjectContext:
    database = open_database(state / "bench.db", MIGRATIONS)
    search = open_search(database, Models(EmbeddingChoice("none", "", None)))
    return ProjectContext(folder, database, search, Changes())


def _searching(folder: Path, rounds: range) -> list[Row]:
    plain = shutil.which("grep")
    if plain is None:
        return []
    rows: list[Row] = []
    for what, (pattern, flags) in EXPRESSIONS.items():
        wanted = GrepWanted(compiled(pattern, case_sensitive="i" not in flags))
        mine = partial(_spent, partial(grep, Root(folder), wanted, 120.0))
        pairs = [alternating(number, mine, partial(_spent_by, plain, flags, pattern, str(folder))) for number in rounds]
        rows.append(row(f"context: grep for {what}, CPU, beside grep", "ms", pairs, GREP_TARGET))
    return rows


def _spent_by(*command: str) -> float:
    """CPU milliseconds of a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def _reading(plan: Plan, session: Session) -> list[Row]:
    """The floor answers a tool call with the same text: to the SDK a resource is no less work."""
    uri = "context://project/overview"
    body = {"jsonrpc": "2.0", "id": READ_NUMBER, "method": "resources/read", "params": {"uri": uri, **META}}
    request = json.dumps(body).encode()
    headers = {"Mcp-Protocol-Version": MODERN, "Mcp-Method": "resources/read", "Mcp-Name": uri}

    def read() -> bytes:
        return session.wire.exchange(request, headers, READ_NUMBER)

    (content,) = result_of(read())["contents"]
    file = plan.work / "overview.json"
    answer = {"content": [{"type": "text", "text": content["text"]}], "structuredContent": content.get("_meta", {})}
    write_answer(file, answer)
    with running(bare(HTTP, file), plan.work) as other, closing(other.connect(MODERN)) as floor:
        echo = partial(floor.call, "echo")
        for action in (echo, read):
            timed(action, WARM_CALLS)
        pairs = beside(range(plan.rounds * 2), plan.calls, read, echo)
    return [
        row(f"context: read the overview ({len(content['text']) // 1000} kB), beside echo", "ms", pairs, READ_TARGET)
    ]


def _recording(plan: Plan, session: Session, pid: int) -> list[Row]:
    arguments = {"path": "src/app/part_0001/module_1.py", "start": 1, "end": 20}
    call = partial(session.call, "read_file", arguments)
    timed(call, WARM_CALLS)

    def calling() -> float:
        before = cpu_seconds(pid)
        timed(call, plan.calls)
        return (cpu_seconds(pid) - before) * 1000 / plan.calls

    pairs: list[Pair] = asyncio.run(_recorded(plan, arguments, calling))
    return [row("context: recording, beside the call that is recorded, CPU", "ms", pairs, RECORD_TARGET)]


async def _recorded(plan: Plan, arguments: Mapping[str, object], calling: Callable[[], float]) -> list[Pair]:
    """Each round: what a recorder spends on as many calls as go to the database together, and what a call costs the server."""
    made = _project(plan.work / "tree", plan.work)
    caller = Call(Principal("bench", ALL_SCOPES))
    pairs: list[Pair] = []
    for _ in range(plan.rounds):
        before = time.process_time()
        for _ in range(BETWEEN_WRITES):
            made.recorder.called(caller, "read_file", arguments, "ok")
        await made.recorder.flush()
        spent = (time.process_time() - before) * 1000 / BETWEEN_WRITES
        pairs.append((spent, await asyncio.to_thread(calling)))
    await made.close()
    return pairs
