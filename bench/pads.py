"""Pads through the real program beside plain SQLite and the bare SDK, in a store of many pads and in one of few."""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import apsw
from measure import Pair, Plan, Row, row
from programs import HTTP, Program, bare, ours, running, write_answer
from wire import MODERN, Session, result_of

from cellwright.scratch.schema import MIGRATIONS as SCRATCH
from cellwright.storage.cells import MIGRATIONS as CELLS
from cellwright.storage.search import entries
from cellwright.storage.search.words import scope_of
from cellwright.storage.sqlite.database import SqliteDatabase
from cellwright.storage.sqlite.file import connect, execute, prepare
from cellwright.storage.sqlite.search import MIGRATIONS as SEARCH

APPEND_TARGET = 2.0
READ_TARGET = 3.0
LIST_TARGET = 3.0
GROWTH_TARGET = 1.2
START_TARGET = 1.2

TENANT = "key:setting"
"""Who has the token of the environment."""
OWN_PADS = 1_000
"""About as many as one caller may have; all others are other callers'."""
APPENDED_PADS = 200
CELLS_OF_A_PAD = 10
READ_CELLS = 100
MODEL = "all-MiniLM-L6-v2"
OPTIONS = ("--toolsets", "scratch", "--scratch-max-pads", "0", "--scratch-max-cells", "0")

NUMBERS = "WITH RECURSIVE steps (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM steps WHERE n < :pads - 1) "
OWNER = f"CASE WHEN n < {OWN_PADS} THEN '{TENANT}' ELSE 'other-' || (n / 1000) END"
PAD_COLUMNS = "(tenant, id, namespace, title, description, summary, metadata, created, updated, version, cell_count)"
CELL_COLUMNS = "(shelf, owner, notebook, id, position, source, kind, language, filename, failed, validate_on_write, metadata, outputs)"
CODE = "'code', 'py', '', 0, 0, '{}', '[]'"
FILL = (
    NUMBERS
    + f"INSERT INTO pads {PAD_COLUMNS} SELECT {OWNER}, 'p' || n, 'n' || (n % 10), 'Pad ' || n, NULL, NULL, '{{}}', n, n, 1, "
    f"{CELLS_OF_A_PAD} FROM steps",
    "INSERT INTO pad_uses SELECT tenant, id, updated FROM pads",
    "INSERT INTO pad_tags SELECT tenant, 't' || (updated % 7), id, 0 FROM pads",
    "INSERT INTO tenants (tenant, pads) SELECT tenant, count(*) FROM pads GROUP BY tenant",
    "INSERT INTO namespaces SELECT DISTINCT tenant, namespace, 0 FROM pads",
    (
        f"WITH RECURSIVE places (at) AS (SELECT 0 UNION ALL SELECT at + 1 FROM places WHERE at < {CELLS_OF_A_PAD - 1}) "
        f"INSERT INTO notebook_cells {CELL_COLUMNS} SELECT 'scratch', tenant, id, 'c' || at, at, "
        f"'value_' || updated || ' = compute(' || at || ')', {CODE} FROM pads, places"
    ),
    "INSERT INTO cell_tags SELECT owner, 'u' || (position % 5), notebook, id, 0 FROM notebook_cells WHERE position % 2 = 0",
    (
        "INSERT INTO search_entries (tenant, kind, thing, part, namespace, tags, language, title, digest, body) "
        "SELECT c.owner, 'pad', c.notebook, c.id, p.namespace, '[]', 'py', p.title, x'00', c.source "
        "FROM notebook_cells c JOIN pads p ON p.tenant = c.owner AND p.id = c.notebook"
    ),
    (
        "INSERT INTO search_words (rowid, scope, title, body, parts) "
        "SELECT id, scope_of(tenant, namespace), title, body, '' FROM search_entries"
    ),
)
OUR_READ = f"""INSERT INTO notebook_cells {CELL_COLUMNS}
    WITH RECURSIVE places (at) AS (SELECT 0 UNION ALL SELECT at + 1 FROM places WHERE at < {READ_CELLS - 1})
    SELECT 'scratch', '{TENANT}', 'read', 'c' || at, at, 'line ' || at, {CODE} FROM places"""
READ_PAD = f"INSERT INTO pads {PAD_COLUMNS} VALUES ('{TENANT}', 'read', NULL, 'Read', NULL, NULL, '{{}}', 0, 0, 1, {READ_CELLS})"

LEAST_CELLS = (
    "SELECT id, position, language, source, metadata FROM notebook_cells "
    "WHERE shelf = 'scratch' AND owner = ? AND notebook = ? ORDER BY position"
)
LEAST_LIST = (
    "SELECT p.id, title, description, namespace, cell_count FROM pads p JOIN pad_tags t ON t.tenant = p.tenant AND t.pad = p.id "
    "WHERE p.tenant = ? AND namespace = 'n3' AND tag = 't3' ORDER BY updated DESC LIMIT 50"
)
LEAST_APPEND = f"INSERT INTO notebook_cells {CELL_COLUMNS} VALUES ('scratch', ?, ?, ?, ?, 'x = 1', {CODE})"
LEAST_TOUCH = (
    "UPDATE pads SET updated = ?, version = version + 1, cell_count = cell_count + 1 WHERE tenant = ? AND id = ?"
)


def filled(file: Path, pads: int) -> Path:
    """A store of so many pads of ten cells, as using it would have left it, but for the vectors."""
    asyncio.run(_with_tables(file))
    with closing(connect(file)) as connection:

        def scope(*given: Any) -> str:  # noqa: ANN401 - apsw's values
            return scope_of(given[0], "pad", given[1], ())

        connection.create_scalar_function("scope_of", scope, 2, deterministic=True)  # pyright: ignore[reportUnknownMemberType]
        execute(connection, "BEGIN")
        for statement in FILL:
            execute(connection, statement.replace(":pads", str(pads)))
        execute(connection, READ_PAD)
        execute(connection, OUR_READ)
        execute(connection, "COMMIT")
        execute(connection, "ANALYZE")
        execute(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    return file


async def _with_tables(file: Path) -> None:
    database = SqliteDatabase(file, (*SEARCH, *CELLS, *SCRATCH))
    # Entries from before the model would be embedded while we measure.
    await database.write(lambda tx: entries.adopt_model(tx, MODEL))
    await database.close()


def program(file: Path) -> Program:
    plain = ours(HTTP)
    return Program(plain.name, HTTP, (*plain.command, *OPTIONS, "--database", str(file)), "scratch_list")


@dataclass(frozen=True)
class Case:
    """One tool: the call that is made, and the least that SQLite must do for it."""

    name: str
    tool: str
    arguments: Callable[[int], dict[str, Any]]
    least: Callable[[apsw.Connection, int], object]
    target: float


def _append(number: int) -> dict[str, Any]:
    return {"scratch_id": f"p{number % APPENDED_PADS}", "cell": {"language": "py", "content": f"x = {number}"}}


def _least_append(connection: apsw.Connection, number: int) -> None:
    pad = f"p{number % APPENDED_PADS}"
    execute(connection, "BEGIN IMMEDIATE")
    execute(connection, LEAST_APPEND, (TENANT, pad, f"new{number}", number))
    execute(connection, LEAST_TOUCH, (number, TENANT, pad))
    execute(connection, "COMMIT")


CASES = (
    Case("append a cell", "scratch_append_cell", _append, _least_append, APPEND_TARGET),
    Case(
        f"read a pad of {READ_CELLS} cells",
        "scratch_read",
        lambda _: {"scratch_id": "read"},
        lambda connection, _: execute(connection, LEAST_CELLS, (TENANT, "read")),
        READ_TARGET,
    ),
    Case(
        "list by namespace and tag",
        "scratch_list",
        lambda _: {"namespaces": ["n3"], "tags": ["t3"]},
        lambda connection, _: execute(connection, LEAST_LIST, (TENANT,)),
        LIST_TARGET,
    ),
)


@dataclass
class Parties:
    """Ours on many pads and on few, the bare server with our answer, and plain SQLite on a store as large as the large one."""

    large: Session
    small: Session
    echo: Session
    plain: apsw.Connection


@contextmanager
def parties(plan: Plan, case: Case, large: Path, small: Path, plain: Path) -> Generator[Parties]:
    answer = plan.work / f"answer-{case.tool}.json"
    answer.write_text('{"content": []}', encoding="utf-8")
    with ExitStack() as stack:

        def session(what: Program) -> Session:
            return stack.enter_context(closing(stack.enter_context(running(what, plan.work)).connect(MODERN)))

        many, few = session(program(large)), session(program(small))
        write_answer(answer, result_of(many.call(case.tool, case.arguments(0))))
        yield Parties(many, few, session(bare(HTTP, answer)), stack.enter_context(closing(connect(plain))))


def milliseconds(act: Callable[[], object], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        act()
    return (time.perf_counter() - began) * 1000 / calls


def measured(plan: Plan, case: Case, pads: int, files: tuple[Path, Path, Path]) -> list[Row]:
    """Rounds of all four, the order changing every round."""
    beside: list[Pair] = []
    growth: list[Pair] = []
    number = count(1)
    for _ in range(plan.lives):
        with parties(plan, case, *files) as found:
            acts: dict[str, Callable[[], object]] = {
                "large": lambda: found.large.call(case.tool, case.arguments(next(number))),
                "small": lambda: found.small.call(case.tool, case.arguments(next(number))),
                "echo": lambda: found.echo.call("echo"),
                "plain": lambda: case.least(found.plain, next(number)),
            }
            for act in acts.values():
                milliseconds(act, plan.calls)
            for turn in range(plan.rounds):
                order = list(acts) if turn % 2 else list(reversed(acts))
                took = {name: milliseconds(acts[name], plan.calls) for name in order}
                beside.append((took["large"], took["echo"] + took["plain"]))
                growth.append((took["large"], took["small"]))
            result_of(found.large.call(case.tool, case.arguments(next(number))))
    return [
        row(f"pads: {case.name} among {pads:,} pads, beside plain SQLite + echo", "ms", beside, case.target),
        row(f"pads: {case.name}, {pads:,} pads beside {OWN_PADS:,}", "ms", growth, GROWTH_TARGET),
    ]


def first_list(plan: Plan, file: Path) -> float:
    """From starting the process to the first page of pads."""
    began = time.perf_counter()
    with running(program(file), plan.work) as server, closing(server.connect(MODERN)) as session:
        result_of(session.call("scratch_list", {"limit": 1}))
        return (time.perf_counter() - began) * 1000


def pads(plan: Plan) -> list[Row]:
    many = 2_000 if plan.lives == 1 else 100_000
    large, plain = filled(plan.work / "large.db", many), plan.work / "plain.db"
    prepare(plain)
    with closing(connect(large)) as source:
        execute(source, "VACUUM INTO ?", (str(plan.work / "copy.db"),))
    (plan.work / "copy.db").replace(plain)
    small, empty = filled(plan.work / "small.db", OWN_PADS), plan.work / "empty.db"
    rows = [one for case in CASES for one in measured(plan, case, many, (large, small, plain))]
    starts = [(first_list(plan, large), first_list(plan, empty)) for _ in range(plan.lives * 2 + 1)]
    return [*rows, row(f"pads: start to the first list, {many:,} pads beside none", "ms", starts[1:], START_TARGET)]
