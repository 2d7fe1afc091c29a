"""The processes behind validation: bombs end in time, crashes cost one cell, nobody else notices, nothing is left behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cellwright.core.errors import Unavailable
from cellwright.scratch.validation.model import CellToCheck, ValidationTimeout
from cellwright.scratch.validation.validators import Validators
from cellwright.workers.pool import WorkerPool
from requirements import requirement
from support import until

pytestmark = pytest.mark.anyio

MEBIBYTE = 1 << 20
SMALL = CellToCheck("small", "json", "[1]")


def doubling_schema(levels: int = 60) -> dict[str, Any]:
    """Every level asks the next one twice: 2**60 questions about one value."""
    definitions: dict[str, Any] = {
        f"l{level}": {"allOf": [{"not": {"not": {"$ref": f"#/$defs/l{level + 1}"}}}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/l0", "$defs": {**definitions, f"l{levels}": {"type": "integer"}}}


ENDLESS = CellToCheck("endless", "json", "1", doubling_schema())


def laughs(levels: int = 12) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join(lines)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.fixture(scope="module")
async def validators() -> AsyncIterator[Validators]:
    running = Validators(WorkerPool())
    yield running
    await running.pool.close()


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


BOMBS = {
    "yaml laughs": CellToCheck("c", "yaml", laughs(), {"type": "object"}),
    "yaml nesting": CellToCheck("c", "yaml", "[" * 50_000),
    "yaml anchors": CellToCheck("c", "yaml", "".join(f"- &a{n} x\n- *a{n}\n" for n in range(30_000))),
    "json nesting": CellToCheck("c", "json", "[" * 100_000 + "]" * 100_000, {"type": "array"}),
    "json open": CellToCheck("c", "json", '{"a":' * 100_000),
    "json one line": CellToCheck("c", "json", "[" + "1," * (MEBIBYTE // 2) + "1]", {"items": {"type": "string"}}),
    "json digits": CellToCheck("c", "json", "9" * MEBIBYTE, {"type": "string"}),
    "pattern": CellToCheck("c", "json", json.dumps("a" * 50_000 + "!"), {"pattern": "^(a+)+$"}),
    "pattern with look-around": CellToCheck("c", "json", json.dumps("a" * 5_000 + "!"), {"pattern": "^(a+)+(?=b)$"}),
    "pattern that grows": CellToCheck("c", "json", '"x"', {"pattern": "((a{1000}){1000}){1000}"}),
    "schema nesting": CellToCheck("c", "json", "1", nested(10_000)),
    "schema of itself": CellToCheck("c", "json", "1", {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
    "schema of many": CellToCheck(
        "c", "json", "1", {"anyOf": [{"type": "string", "title": str(n)} for n in range(20_000)]}
    ),
    "schema that doubles": ENDLESS,
    "python nesting": CellToCheck("c", "python", "(" * 100_000),
    "python minus": CellToCheck("c", "python", "-" * 100_000 + "1"),
    "python dots": CellToCheck("c", "python", "a" + ".a" * 100_000),
    "python power": CellToCheck("c", "python", "9**9**9**9\n'x' * 10**12\n"),
    "markdown": CellToCheck("c", "md", "{[" * (MEBIBYTE // 4)),
    "toml": CellToCheck("c", "toml", "a = " + "[" * 100_000),
    "javascript": CellToCheck("c", "js", "a," * (MEBIBYTE // 2)),
    "xml": CellToCheck("c", "xml", "<a" * (MEBIBYTE // 4)),
}
IN_TIME = {
    "yaml laughs": "invalid",
    "yaml nesting": "warning",
    "yaml anchors": "valid",
    "json nesting": "undecided",
    "json open": "invalid",
    "json one line": "invalid",
    "json digits": "undecided",
    "pattern": "invalid",
    "pattern with look-around": "invalid",
    "pattern that grows": "undecided",
    "schema nesting": "undecided",
    "schema of itself": "valid",
    "schema of many": "invalid",
    "schema that doubles": "VALIDATION_TIMEOUT",
    "python nesting": "invalid",
    "python minus": "failed",
    "python dots": "failed",
    "python power": "valid",
    "markdown": "valid",
    "toml": "warning",
    "javascript": "invalid",
    "xml": "warning",
}
"""What a bomb comes to where the machine is quick enough."""
TIME = 0.8


@requirement("scratch:validation:bombs")
@pytest.mark.parametrize("name", IN_TIME)
async def test_bombs_end_in_time_and_the_next_cell_is_checked(validators: Validators, name: str) -> None:
    started = asyncio.get_running_loop().time()
    try:
        (found,) = await validators.validate([BOMBS[name]], {}, TIME)
        outcome = found.status
    except ValidationTimeout as timeout:
        outcome = timeout.code
    assert outcome in {IN_TIME[name], "VALIDATION_TIMEOUT"}
    # Killing and reaping costs a moment; it never costs another timeout.
    assert asyncio.get_running_loop().time() - started < TIME + 3.0
    (after,) = await validators.validate([SMALL], {}, 30.0)
    assert after.status == "valid"


@requirement("scratch:validation:timeout")
async def test_after_the_time_there_is_no_partial_result_and_the_process_is_gone() -> None:
    validators = Validators(WorkerPool())
    await validators.validate([SMALL], {}, 30.0)
    (pid,) = validators.pool.pids
    with pytest.raises(ValidationTimeout) as timeout:
        await validators.validate([SMALL, ENDLESS, SMALL], {}, 0.5)
    assert "no partial result" in timeout.value.message
    assert "0.5 s" in timeout.value.message
    assert timeout.value.retryable
    assert gone(pid)
    assert validators.pool.pids == ()
    await validators.pool.close()


@requirement("scratch:validation:timeout")
async def test_a_call_that_is_given_up_leaves_no_process_at_work() -> None:
    validators = Validators(WorkerPool())
    asking = asyncio.create_task(validators.validate([ENDLESS], {}, 60.0))
    await until(lambda: len(validators.pool.pids) > 0, "a worker")
    (pid,) = validators.pool.pids
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert gone(pid)
    assert [one.status for one in await validators.validate([SMALL], {}, 30.0)] == ["valid"]
    await validators.pool.close()


@requirement("scratch:validation:crash")
async def test_a_crash_costs_the_result_of_one_cell() -> None:
    validators = Validators(WorkerPool())
    asking = asyncio.create_task(validators.validate([SMALL, ENDLESS, SMALL], {}, 60.0))
    await until(lambda: len(validators.pool.pids) > 0, "a worker")
    (pid,) = validators.pool.pids
    # The endless cell is under way when the worker burns time.
    await until(lambda: psutil.Process(pid).cpu_times().user > 0.5, "the endless cell")
    os.kill(pid, signal.SIGSEGV)
    before, crashed, after = await asking
    assert (before.status, crashed.status, after.status) == ("valid", "failed", "valid")
    assert "SIGSEGV" in crashed.diagnostics[0].message
    assert crashed.valid is None
    await validators.pool.close()


@requirement("scratch:validation:crash")
async def test_too_much_memory_costs_the_result_of_one_cell() -> None:
    validators = Validators(WorkerPool(memory_bytes=160 << 20))
    large = CellToCheck("large", "json", "[" + "[]," * (2 * MEBIBYTE) + "[]]")
    before, failed, after = await validators.validate([SMALL, large, SMALL], {}, 30.0)
    assert (before.status, failed.status, after.status) == ("valid", "failed", "valid")
    await validators.pool.close()


@requirement("scratch:validation:crash")
async def test_an_idle_worker_that_was_killed_is_replaced_unnoticed() -> None:
    validators = Validators(WorkerPool())
    await validators.validate([SMALL], {}, 30.0)
    (pid,) = validators.pool.pids
    os.kill(pid, signal.SIGKILL)
    await until(lambda: gone(pid), "the end of the worker")
    assert [one.status for one in await validators.validate([SMALL], {}, 30.0)] == ["valid"]
    await validators.pool.close()


@requirement("scratch:validation:fair")
async def test_bombs_of_one_caller_keep_no_other_waiting() -> None:
    validators = Validators(WorkerPool(processes=4))
    floods = [
        asyncio.create_task(validators.validate([ENDLESS], {}, 30.0, caller=caller))
        for caller in ("ann", "ann", "ann", "ann", "ann", "bob", "bob", "bob")
    ]
    await until(lambda: len(validators.pool.pids) == 3, "the floods")
    for _ in range(5):
        found = await validators.validate([SMALL], {}, 20.0, caller="eve")
        assert found[0].status == "valid"
    assert not any(flood.done() for flood in floods)
    assert len(validators.pool.pids) == 4
    for flood in floods:
        flood.cancel()
    await asyncio.gather(*floods, return_exceptions=True)
    await validators.pool.close()


@requirement("scratch:validation:fair")
async def test_many_calls_at_once_are_all_answered_for_whom_they_are() -> None:
    validators = Validators(WorkerPool(processes=2))
    calls = [
        validators.validate(
            [CellToCheck(f"c{number}", "json", f"[{number}]", {"items": {"const": number % 2}})], {}, 60.0
        )
        for number in range(40)
    ]
    answers = await asyncio.gather(*calls)
    assert [(one.cell_id, one.status) for (one,) in answers] == [
        (f"c{number}", "valid" if number < 2 else "invalid") for number in range(40)
    ]
    assert len(validators.pool.pids) <= 2
    await validators.pool.close()


@requirement("scratch:validation:fair")
async def test_the_time_runs_while_a_call_waits_for_its_turn() -> None:
    validators = Validators(WorkerPool(processes=1))
    flood = asyncio.create_task(validators.validate([ENDLESS], {}, 60.0, caller="ann"))
    await until(lambda: len(validators.pool.pids) > 0, "a worker")
    with pytest.raises(ValidationTimeout):
        await validators.validate([SMALL], {}, 0.3, caller="bob")
    flood.cancel()
    await asyncio.gather(flood, return_exceptions=True)
    assert [one.status for one in await validators.validate([SMALL], {}, 30.0, caller="bob")] == ["valid"]
    await validators.pool.close()


@requirement("scratch:validation:lifetime")
async def test_workers_start_on_first_need_end_when_idle_and_start_again() -> None:
    validators = Validators(WorkerPool(idle_seconds=0.2))
    await validators.validate([CellToCheck("a", "txt", "x"), CellToCheck("b", "cobol", "x")], {}, 30.0)
    assert validators.pool.pids == ()
    await validators.validate([SMALL], {}, 30.0)
    (pid,) = validators.pool.pids
    await until(lambda: gone(pid), "the end of the worker")
    assert validators.pool.pids == ()
    assert [one.status for one in await validators.validate([SMALL], {}, 30.0)] == ["valid"]
    await validators.pool.close()


@requirement("scratch:validation:lifetime")
async def test_closing_ends_all_processes_and_what_is_under_way() -> None:
    validators = Validators(WorkerPool())
    await validators.validate([SMALL], {}, 30.0)
    asking = asyncio.create_task(validators.validate([ENDLESS], {}, 60.0, caller="ann"))
    await until(
        lambda: len(validators.pool.pids) == 1 and psutil.Process(validators.pool.pids[0]).cpu_times().user > 0.5,
        "the endless cell",
    )
    pids = validators.pool.pids
    await validators.pool.close()
    assert all(gone(pid) for pid in pids)
    with pytest.raises(Unavailable):
        await asking
    with pytest.raises(Unavailable):
        await validators.validate([SMALL], {}, 30.0)


@requirement("scratch:validation:lifetime", "scratch:validation:bombs")
async def test_a_worker_in_a_bomb_ends_by_itself_when_we_are_killed(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import asyncio, json
            from cellwright.scratch.validation.model import CellToCheck
            from cellwright.scratch.validation.validators import Validators
            from cellwright.workers.pool import WorkerPool

            async def main():
                validators = Validators(WorkerPool())
                cell = CellToCheck("c", "json", "1", json.loads({json.dumps(json.dumps(ENDLESS.schema))}))
                asking = asyncio.create_task(validators.validate([cell], {{}}, 1.0))
                while not validators.pool.pids:
                    await asyncio.sleep(0.01)
                print(validators.pool.pids[0], flush=True)
                await asking

            asyncio.run(main())
            """
        ),
        encoding="utf-8",
    )
    server = await asyncio.create_subprocess_exec(sys.executable, str(program), stdout=subprocess.PIPE)
    assert server.stdout is not None
    pid = int(await server.stdout.readline())
    server.kill()
    await server.wait()
    await until(lambda: gone(pid), "the end of the worker")


@requirement("scratch:validation:apart")
async def test_workers_have_no_secrets_and_load_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "yaml", "jsonschema_rs", "tree_sitter"):
        (tmp_path / f"{name}.py").write_text("import pathlib\npathlib.Path('loaded').touch()\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CELLWRIGHT_TOKEN", "a-secret-of-ours")
    validators = Validators(WorkerPool())
    cells = [SMALL, CellToCheck("b", "yaml", "a: 1", {}), CellToCheck("c", "go", "package main")]
    assert [one.status for one in await validators.validate(cells, {}, 30.0)] == ["valid"] * 3
    assert not (tmp_path / "loaded").exists()
    (pid,) = validators.pool.pids
    assert "CELLWRIGHT_TOKEN" not in psutil.Process(pid).environ()
    await validators.pool.close()


@requirement("scratch:validation:apart")
async def test_our_own_output_stays_ours(validators: Validators, capfd: pytest.CaptureFixture[str]) -> None:
    """Over stdio our output is the protocol."""
    cells = [CellToCheck(language, language, "print(1) ((") for language in ("python", "js", "bash", "md", "yaml")]
    await validators.validate(cells, {}, 30.0)
    assert capfd.readouterr() == ("", "")


CONFINED = """
import socket, subprocess, sys
from cellwright.workers.confine import Refused, confine
from cellwright.system import machine

def refused(action):
    try:
        action()
    except (Refused, OSError) as error:
        return type(error).__name__
    return "allowed"

confine(1 << 30)
print(refused(socket.socket))
print(refused(lambda: socket.getaddrinfo("localhost", 80)))
print(refused(lambda: subprocess.run(["true"])))
with machine.sealed(30):
    print(refused(lambda: open("/etc/hostname")))
    print(refused(lambda: open("made-by-validation", "w")))
print(refused(lambda: open(sys.executable, "rb").close()))
"""


@requirement("scratch:validation:no-network")
def test_the_worker_can_open_no_connection_start_no_process_and_while_it_checks_no_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONFINED], capture_output=True, text=True, timeout=30, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["Refused", "Refused", "Refused", "OSError", "OSError", "allowed"]
