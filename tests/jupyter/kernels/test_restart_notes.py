"""Who is told that the kernel was restarted: those who did not ask for it, each of them once."""

# pyright: reportPrivateUsage=false

from collections.abc import AsyncGenerator

import pytest

from cellwright.jupyter.kernels.channel import Message
from cellwright.jupyter.lives import WHAT_IS_LOST, Runner
from jupyter_support import JupyterServer
from kernel_support import Bench, bench_on
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

SINCE_YOURS = f"The kernel is new since your last run here (somebody else restarted it): {WHAT_IS_LOST}"
SINCE_THE_LAST = f"The kernel is new since the last run here (somebody else restarted it): {WHAT_IS_LOST}"
DIED = f"The kernel is new since your last run here (it died and was started again): {WHAT_IS_LOST}"


@pytest.fixture
async def bench(jupyter_server: JupyterServer) -> AsyncGenerator[Bench]:
    async with bench_on(jupyter_server) as made:
        yield made


async def notes(bench: Bench, principal: str, code: str = "1") -> list[str]:
    return list((await bench.submit(code, principal=principal).wait(60)).notes)


async def restart_for(bench: Bench, principal: str) -> None:
    seen = bench.kernel.connection.restarts
    await bench.kernel.restart()
    bench.queue.note_restart(seen, Runner(principal, bench.kernel.id))


@requirement("kernel:restart:told")
async def test_others_are_told_of_a_restart_and_whoever_asked_for_it_is_not(bench: Bench) -> None:
    for principal in ("ada", "bob"):
        assert await notes(bench, principal) == []
    await restart_for(bench, "ada")
    assert await notes(bench, "ada") == []
    assert await notes(bench, "bob") == [SINCE_YOURS]
    assert await notes(bench, "bob") == []
    await bench.kernel.restart()
    assert await notes(bench, "ada") == [SINCE_YOURS]
    assert await notes(bench, "bob") == [SINCE_YOURS]
    assert await notes(bench, "cy") == [], "it ran nothing before, and others have since"
    await restart_for(bench, "ada")
    assert await notes(bench, "dan") == [SINCE_THE_LAST]
    assert await notes(bench, "ada") == []


@requirement("kernel:restart:told")
async def test_a_restart_of_ones_own_does_not_hide_that_of_another(bench: Bench) -> None:
    assert await notes(bench, "ada") == []
    await restart_for(bench, "ada")
    await restart_for(bench, "bob")
    assert await notes(bench, "ada") == [], "they had nothing in it since their own restart"
    assert await notes(bench, "bob") == []
    await restart_for(bench, "ada")
    assert await notes(bench, "ada") == []
    await restart_for(bench, "bob")
    assert await notes(bench, "ada") == [SINCE_YOURS]


@requirement("kernel:restart:told")
async def test_a_death_is_told_to_those_who_were_not_there(bench: Bench) -> None:
    for principal in ("ada", "bob"):
        assert await notes(bench, principal) == []
    assert await notes(bench, "ada", "import os; os._exit(1)") == []
    assert await notes(bench, "ada") == []
    assert await notes(bench, "bob") == [DIED]


@requirement("kernel:lost:own")
@pytest.mark.parametrize("ending", ["restart", "death"])
async def test_last_words_of_the_old_process_are_no_second_restart(bench: Bench, ending: str) -> None:
    assert await notes(bench, "ada") == []
    connection = bench.kernel.connection
    old = connection.life.process
    assert old is not None
    if ending == "restart":
        connection.note_restart(connection.restarts)
    else:
        connection._dispatch(message("status", connection.session_id, execution_state="restarting"))
    for late in (message("shutdown_reply", old, restart=True), message("status", old, execution_state="idle")):
        connection._dispatch(late)
    assert (connection.restarts, connection.life.process) == (1, None)
    connection._dispatch(message("status", "the new process", execution_state="starting"))
    assert (connection.restarts, connection.life.process) == (1, "the new process")


def message(kind: str, process: str, **content: object) -> Message:
    return Message("iopub", {"msg_type": kind, "session": process}, content)
