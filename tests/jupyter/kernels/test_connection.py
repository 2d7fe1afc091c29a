"""One connection to a kernel: own output for every request, death and restart noticed, cuts survived."""
# pyright: reportPrivateUsage=false

import asyncio
import os
import secrets
import signal
import statistics
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.core.errors import DeadlineExceeded, Unavailable
from cellwright.jupyter.errors import JupyterDenied
from cellwright.jupyter.kernels.channel import JsonObject, KernelChannel, KernelGone, Message, pack, unpack
from cellwright.jupyter.kernels.connection import KernelConnection
from cellwright.jupyter.kernels.request import KernelDied, ReplyLost
from cellwright.jupyter.remote.kernel_websocket import WebsocketChannel, open_websocket
from jupyter_support import JupyterServer
from kernel_support import KernelOnServer, kernel_on, rest, until
from requirements import requirement

pytestmark = pytest.mark.anyio

JSON = st.dictionaries(st.text(max_size=5), st.text() | st.integers() | st.none(), max_size=4)


@pytest.fixture
async def kernel(jupyter_server: JupyterServer) -> AsyncGenerator[KernelOnServer]:
    async with kernel_on(jupyter_server) as started:
        yield started


def stream_text(messages: list[Message]) -> str:
    return "".join(m.content["text"] for m in messages if m.type == "stream")


async def run(kernel: KernelOnServer, code: str) -> str:
    seen: list[Message] = []
    reply = await asyncio.wait_for(kernel.connection.execute(code, seen.append), 30)
    assert reply.status == "ok", reply
    return stream_text(seen)


async def running(kernel: KernelOnServer, code: str) -> asyncio.Task[object]:
    """Start code and return when its first output is here."""
    seen: list[Message] = []
    task: asyncio.Task[object] = asyncio.create_task(kernel.connection.execute(code, seen.append))
    await until(lambda: bool(stream_text(seen)), "first output")
    return task


@requirement("kernel:messages:framing")
@given(header=JSON, content=JSON, buffers=st.lists(st.binary(max_size=20), max_size=3))
def test_a_message_survives_its_frame(
    header: dict[str, object], content: dict[str, object], buffers: list[bytes]
) -> None:
    message = Message("iopub", header, content, {"msg_id": "p"}, {}, tuple(buffers))
    assert [*unpack(pack(message))] == [message]


@requirement("kernel:messages:framing")
@pytest.mark.parametrize("frame", [b"", b"\x00" * 8, b"\xff" * 64, b"hello"])
def test_a_frame_that_is_no_message_is_refused(frame: bytes) -> None:
    with pytest.raises(ValueError, match="not a kernel message"):
        list(unpack(frame))


@requirement("kernel:requests:own-output")
async def test_thirty_requests_at_once_each_get_their_own_output(kernel: KernelOnServer) -> None:
    texts = await asyncio.gather(*(run(kernel, f"for i in range(20): print('{n}:', i)") for n in range(30)))
    assert texts == ["".join(f"{n}: {i}\n" for i in range(20)) for n in range(30)]
    assert kernel.opened == 1


@requirement("kernel:requests:own-output")
async def test_two_clients_of_one_kernel_do_not_see_each_others_output(kernel: KernelOnServer) -> None:
    async with kernel.person() as other:
        seen: list[Message] = []
        mine, _ = await asyncio.gather(run(kernel, "print('mine')"), other.execute("print('theirs')", seen.append))
        assert (mine, stream_text(seen)) == ("mine\n", "theirs\n")


@requirement("kernel:requests:first-output")
async def test_the_first_output_of_a_fresh_kernel_and_of_a_restarted_one_arrives(kernel: KernelOnServer) -> None:
    assert await run(kernel, "print('first')") == "first\n"
    for _ in range(3):
        await kernel.restart()
        assert await run(kernel, "print('first')") == "first\n"


@requirement("kernel:requests:input-refused")
async def test_input_fails_at_once_and_the_next_cell_runs(kernel: KernelOnServer) -> None:
    await kernel.connection.ready()
    started = time.monotonic()
    reply = await asyncio.wait_for(kernel.connection.execute("name = input('who? ')"), 10)
    assert (reply.status, reply.ename) == ("error", "StdinNotImplementedError")
    assert time.monotonic() - started < 5
    assert await run(kernel, "print('usable')") == "usable\n"


@requirement("kernel:requests:language")
async def test_the_kernel_says_its_language_completes_and_explains(kernel: KernelOnServer) -> None:
    assert (await kernel.connection.kernel_info()).language == "python"
    await run(kernel, "a_long_name_of_mine = 'é😀'")
    completed = await kernel.connection.complete("x = '😀'; a_long_na", 18, timeout=40)
    assert (completed.matches, completed.start, completed.end) == (("a_long_name_of_mine",), 9, 18)
    explained = await kernel.connection.inspect("a_long_name_of_mine", 3)
    assert explained is not None
    assert "é😀" in explained["text/plain"]
    assert await kernel.connection.inspect("no_such_name_at_all", 3) is None


@requirement("kernel:requests:busy")
async def test_a_question_to_a_busy_kernel_ends_in_time_and_says_so(kernel: KernelOnServer) -> None:
    task = await running(kernel, "import time; print('on', flush=True); time.sleep(60)")
    with pytest.raises(DeadlineExceeded, match="busy"):
        await kernel.connection.complete("imp", 3, timeout=0.3)
    await kernel.interrupt()
    assert getattr(await task, "ename", "") == "KeyboardInterrupt"


@requirement("kernel:life:exit")
async def test_a_kernel_that_exits_is_an_error_that_names_the_loss(kernel: KernelOnServer) -> None:
    task = await running(kernel, "import os, time; print('on', flush=True); time.sleep(0.3); os._exit(3)")
    with pytest.raises(KernelDied, match=r"died while this ran.*variables are lost"):
        await asyncio.wait_for(task, 20)
    assert await run(kernel, "print('usable')") == "usable\n"


@requirement("kernel:life:killed")
async def test_a_killed_kernel_is_an_error_and_the_next_run_works(kernel: KernelOnServer) -> None:
    pid = await kernel.pid()
    task = await running(kernel, "import time; print('on', flush=True); time.sleep(60)")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(KernelDied):
        await asyncio.wait_for(task, 20)
    assert await run(kernel, "print('x' in dir())") == "False\n"
    assert (kernel.connection.restarts, kernel.opened) == (1, 2)


@requirement("kernel:life:restarted")
async def test_a_restart_by_rest_ends_the_run(kernel: KernelOnServer) -> None:
    task = await running(kernel, "import time; print('on', flush=True); time.sleep(60)")
    await kernel.restart()
    with pytest.raises(KernelDied, match="was restarted"):
        await asyncio.wait_for(task, 20)
    assert await run(kernel, "print('new')") == "new\n"


@requirement("kernel:life:restarted-idle")
async def test_an_idle_restart_is_noticed_once_and_harms_no_later_run(kernel: KernelOnServer) -> None:
    await run(kernel, "x = 1")
    await kernel.restart()
    assert await run(kernel, "print('x' in dir())") == "False\n"
    assert [await run(kernel, f"print({n})") for n in range(5)] == [f"{n}\n" for n in range(5)]
    assert kernel.connection.restarts == 1


@requirement("kernel:life:shut-down")
async def test_a_kernel_that_is_shut_down_is_an_error(kernel: KernelOnServer) -> None:
    task = await running(kernel, "import time; print('on', flush=True); time.sleep(60)")
    await kernel.shut_down()
    with pytest.raises((KernelGone, KernelDied), match="variables are lost"):
        await asyncio.wait_for(task, 20)


@requirement("kernel:life:missing")
async def test_connecting_to_a_missing_kernel_says_so(jupyter_server: JupyterServer) -> None:
    missing = KernelOnServer(jupyter_server, "00000000-0000-0000-0000-000000000000")
    with pytest.raises(KernelGone, match="no kernel"):
        await missing.connection.execute("1")


def cut(kernel: KernelConnection) -> None:
    """End the TCP connection as a network would."""
    channel = kernel._channel
    assert isinstance(channel, WebsocketChannel)
    channel._connection.transport.abort()


@requirement("kernel:connection:cut")
async def test_after_a_cut_the_run_ends_well_and_is_marked_incomplete(kernel: KernelOnServer) -> None:
    seen: list[Message] = []
    code = "import time\nfor i in range(8): print(i, flush=True); time.sleep(0.2)"
    task = asyncio.create_task(kernel.connection.execute(code, seen.append))
    await until(lambda: "1" in stream_text(seen), "some output")
    cut(kernel.connection)
    reply = await asyncio.wait_for(task, 30)
    assert (reply.status, reply.incomplete, kernel.opened) == ("ok", True, 2)
    # Nobody else was connected, so the server kept what we missed.
    assert stream_text(seen) == "".join(f"{i}\n" for i in range(8))
    assert await run(kernel, "print('after')") == "after\n"


@requirement("kernel:connection:cut")
async def test_a_cut_while_nothing_runs_is_mended_by_the_next_run(kernel: KernelOnServer) -> None:
    await run(kernel, "x = 7")
    cut(kernel.connection)
    await until(lambda: not kernel.connection.connected, "the cut")
    assert await run(kernel, "print(x)") == "7\n"
    assert kernel.connection.restarts == 0


@requirement("kernel:connection:reply-lost")
async def test_a_reply_lost_in_a_cut_is_reported(kernel: KernelOnServer) -> None:
    # Somebody else is connected too, so the server keeps nothing for us while we are away.
    async with kernel.person() as person:
        blocked = asyncio.Event()
        opens = kernel.connection._open_channel

        async def open_later() -> KernelChannel:
            await asyncio.wait_for(blocked.wait(), 20)
            return await opens()

        task = await running(kernel, "import time; print('on', flush=True); time.sleep(0.5); x = 5")
        kernel.connection._open_channel = open_later
        cut(kernel.connection)
        # The person's own question is answered after the run: then its reply has gone nowhere.
        await asyncio.wait_for(person.execute("x"), 20)
        blocked.set()
        with pytest.raises(ReplyLost, match="cut"):
            await asyncio.wait_for(task, 30)
        assert await run(kernel, "print(x)") == "5\n"


@requirement("kernel:connection:closed")
async def test_closing_ends_requests_at_once_and_the_kernel_goes_on(kernel: KernelOnServer) -> None:
    async with kernel.person() as person:
        task = await running(kernel, "import time; print('on', flush=True); time.sleep(0.3); x = 5")
        await kernel.connection.close()
        with pytest.raises(Unavailable, match="closed"):
            await asyncio.wait_for(task, 5)
        reply = await asyncio.wait_for(person.execute("", user_expressions={"x": "x"}), 20)
        assert reply.user_expressions["x"]["data"]["text/plain"] == "5"


@requirement("kernel:connection:denied")
async def test_a_wrong_token_is_reported_without_showing_it(kernel: KernelOnServer) -> None:
    url = f"ws{kernel.server.url[4:]}/api/kernels/{kernel.id}/channels?session_id=x&token=wrong-token"
    with pytest.raises(JupyterDenied) as caught:
        await open_websocket(url, {"Authorization": "token wrong-token"})
    assert "wrong-token" not in str(caught.value)
    assert "Check the token or password" in str(caught.value)


async def bare_round_trip(channel: WebsocketChannel, number: int) -> float:
    header = {"msg_id": f"bare-{number}", "msg_type": "execute_request", "session": "bare", "version": "5.3"}
    content: JsonObject = {
        "code": "1+1",
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
    }
    started = time.perf_counter()
    await channel.send(Message("shell", {**header, "username": "", "date": "2026-01-01T00:00:00Z"}, content))
    reply = idle = False
    while not (reply and idle):
        message = await asyncio.wait_for(channel.receive(), 20)
        if message.parent_id == header["msg_id"]:
            reply = reply or message.channel == "shell"
            idle = idle or message.content.get("execution_state") == "idle"
    return time.perf_counter() - started


@requirement("kernel:connection:quick")
async def test_a_small_run_costs_at_most_twice_the_bare_exchange(kernel: KernelOnServer) -> None:
    await kernel.connection.ready()
    url = f"ws{kernel.server.url[4:]}/api/kernels/{kernel.id}/channels?session_id=bare"
    channel = await open_websocket(url, {"Authorization": f"token {kernel.server.token}"})
    bare: list[float] = []
    ours: list[float] = []
    # Taken in turns: both see the same machine.
    for number in range(60):
        bare.append(await bare_round_trip(channel, number))
        started = time.perf_counter()
        await kernel.connection.execute("1+1")
        ours.append(time.perf_counter() - started)
    await channel.close()
    assert statistics.median(ours) < 2 * statistics.median(bare), (statistics.median(ours), statistics.median(bare))
    # Without quick acknowledgements every run would take 40 ms and more.
    assert min(ours) < 0.04


class Lossy:
    """A real channel that loses what it is told to: what a server under load does, and no real part can be made to do."""

    def __init__(self, channel: KernelChannel, loses: Callable[[Message], bool]) -> None:
        self._channel, self._loses = channel, loses

    async def send(self, message: Message) -> None:
        if not self._loses(message):
            await self._channel.send(message)

    async def receive(self) -> Message:
        while True:
            message = await self._channel.receive()
            if not self._loses(message):
                return message

    async def close(self) -> None:
        await self._channel.close()


@asynccontextmanager
async def losing(kernel: KernelOnServer, loses: Callable[[Message], bool]) -> AsyncGenerator[KernelConnection]:
    """Another connection to the kernel, over a channel that loses messages."""
    session = f"lossy-{secrets.token_hex(4)}"
    real = kernel.connect(session)

    async def open_channel() -> KernelChannel:
        return Lossy(await real._open_channel(), loses)

    async def busy() -> bool:
        model = await asyncio.to_thread(rest, kernel.server, "GET", f"/api/kernels/{kernel.id}")
        return model["execution_state"] == "busy"

    connection = KernelConnection(kernel.id, open_channel, session, exists=kernel.exists, busy=busy)
    try:
        yield connection
    finally:
        await connection.close()


def about_code(message: Message) -> bool:
    return "execute_request" in (message.type, message.parent.get("msg_type"))


@pytest.fixture
def quick_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cellwright.jupyter.kernels.connection.GUARD_EVERY", 0.3)


@requirement("kernel:connection:end-lost")
@pytest.mark.usefixtures("quick_guard")
async def test_a_run_whose_end_of_output_was_lost_still_ends(kernel: KernelOnServer) -> None:
    def loses(message: Message) -> bool:
        return about_code(message) and message.content.get("execution_state") == "idle"

    texts: list[str] = []
    async with losing(kernel, loses) as connection:
        run = connection.execute("print('whole'); 1/0", lambda message: texts.append(message.content.get("text", "")))
        reply = await asyncio.wait_for(run, 20)
    assert (reply.status, reply.ename, reply.incomplete) == ("error", "ZeroDivisionError", True)
    assert "whole\n" in texts


@requirement("kernel:connection:end-lost")
@pytest.mark.usefixtures("quick_guard")
async def test_the_first_run_of_a_restarted_kernel_ends_though_its_output_was_lost(kernel: KernelOnServer) -> None:
    restarted = asyncio.Event()

    def loses(message: Message) -> bool:
        ours = message.parent.get("session") == connection.session_id and not about_code(message)
        return restarted.is_set() and message.channel == "iopub" and not ours

    async with losing(kernel, loses) as connection:
        await connection.execute("1")
        restarted.set()
        await kernel.restart()
        try:
            reply = await asyncio.wait_for(connection.execute("print('lost')"), 20)
        except (KernelDied, ReplyLost):
            # It went down with the old process.
            return
        assert (reply.status, reply.incomplete) == ("ok", True)


@requirement("kernel:connection:request-lost")
@pytest.mark.usefixtures("quick_guard")
async def test_a_run_that_never_reached_the_kernel_is_reported(kernel: KernelOnServer) -> None:
    async with losing(kernel, lambda message: message.type == "execute_request") as connection:
        with pytest.raises(ReplyLost, match="never said that this began"):
            await asyncio.wait_for(connection.execute("1"), 20)


@requirement("kernel:connection:request-lost")
@pytest.mark.usefixtures("quick_guard")
async def test_a_run_that_waits_for_a_persons_code_is_not_taken_for_lost(kernel: KernelOnServer) -> None:
    begun = asyncio.Event()
    async with kernel.person() as person:
        theirs = asyncio.create_task(person.execute("import time; time.sleep(2); y = 1", lambda _: begun.set()))
        await asyncio.wait_for(begun.wait(), 20)
        ours = await asyncio.wait_for(kernel.connection.execute("y"), 20)
        assert (ours.status, ours.incomplete, (await theirs).status) == ("ok", False, "ok")


@requirement("kernel:life:restart-unheard")
@pytest.mark.usefixtures("quick_guard")
async def test_a_restart_whose_first_messages_were_lost_is_noticed(kernel: KernelOnServer) -> None:
    deaf = asyncio.Event()
    begun = asyncio.Event()
    async with losing(kernel, lambda _: deaf.is_set()) as connection:
        run = asyncio.create_task(connection.execute("import time; time.sleep(60)", lambda _: begun.set()))
        await asyncio.wait_for(begun.wait(), 20)
        deaf.set()
        await kernel.restart()
        # Another's question: its answer is the last of what the new process says by itself.
        await kernel.connection.kernel_info()
        deaf.clear()
        with pytest.raises(KernelDied, match="restarted"):
            await asyncio.wait_for(run, 20)
        assert (await asyncio.wait_for(connection.execute("1"), 20)).status == "ok"
        assert connection.restarts == 1


@requirement("kernel:life:restart-told")
async def test_a_confirmed_restart_ends_the_run_before_the_new_process_is_heard(kernel: KernelOnServer) -> None:
    deaf = asyncio.Event()
    begun = asyncio.Event()
    async with losing(kernel, lambda _: deaf.is_set()) as connection:
        run = asyncio.create_task(connection.execute("import time; time.sleep(60)", lambda _: begun.set()))
        await asyncio.wait_for(begun.wait(), 20)
        deaf.set()
        seen = connection.restarts
        await kernel.restart()
        connection.note_restart(seen)
        with pytest.raises(KernelDied, match="restarted"):
            await asyncio.wait_for(run, 1)
        deaf.clear()
        assert (await asyncio.wait_for(connection.execute("1"), 20)).status == "ok"
        assert connection.restarts == seen + 1


@requirement("kernel:connection:end-lost")
@pytest.mark.usefixtures("quick_guard")
async def test_others_never_see_a_long_silent_run_as_idle(kernel: KernelOnServer) -> None:
    states: list[str] = []

    def listens(message: Message) -> bool:
        if message.type == "status":
            states.append(message.content["execution_state"])
        return False

    async with losing(kernel, lambda _: False) as ours, losing(kernel, listens) as person:
        await person.ready()
        await ours.execute("1")
        await until(lambda: states[-1] == "idle", "rest")
        states.clear()
        assert not (await asyncio.wait_for(ours.execute("import time; time.sleep(1.5)"), 20)).incomplete
        await until(lambda: "idle" in states, "the end")
        assert states == ["busy", "idle"]
