"""Family L: the life of a stdio server among noisy libraries, careless clients and dead parents."""

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

import copies
from adversarial_support import LEGACY, MODERN, PROBE, modern_headers, ran, raw_request, rpc
from requirements import requirement
from support import HttpServer, clean_environ, http_client, http_server, stdio_client, stdio_command, until, wait_until

pytestmark = pytest.mark.anyio

STDIN_CLOSED_SECONDS = 1.0
PARENT_DEAD_SECONDS = 5.0
RECONNECTS = 48 if os.environ.get("CELLWRIGHT_TEST_COSTS") == "all" else 12
"""What each leaves is seen after one; for what depends on the moment there is `make proofs`."""
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def probe_command(folder: Path, *flags: str) -> list[str]:
    (folder / "root").mkdir(exist_ok=True)
    given = ["--root", str(folder / "root"), "--state-dir", str(folder / "state"), "--toolsets", "all", *flags]
    return [sys.executable, str(PROBE), *given]


def opening() -> dict[str, Any]:
    info = {"name": "client", "version": "0"}
    return rpc("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}, "start", LEGACY)


class Server:
    """A stdio server, by hand."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[bytes] = []

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, identity: object) -> dict[str, Any]:
        """Read up to the answer of this id; every line on the way must be JSON-RPC."""
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            self.lines.append(line)
            message = json.loads(line)
            if message.get("id") == identity:
                return message
        raise AssertionError(f"no answer; stdout was {self.lines}")

    def handshake(self) -> None:
        self.send(opening())
        self.answer("start")
        self.send(INITIALIZED)

    def call(self, tool: str, identity: object) -> dict[str, Any]:
        self.send(rpc("tools/call", {"name": tool, "arguments": {}}, identity, LEGACY))
        return self.answer(identity)

    def rest(self) -> bytes:
        """Close stdin and read what still comes."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        return self.process.stdout.read()


@contextmanager
def started(command: list[str], errors: Path, **environ: str) -> Generator[Server]:
    with errors.open("wb") as written:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=written, env=clean_environ(**environ)
        )
    try:
        yield Server(process)
    finally:
        process.kill()
        process.wait(10)
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()


def json_rpc_only(output: bytes) -> None:
    for line in output.splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0", line


# -- L1 stdout ---------------------------------------------------------------------------------------------------------------

# What a careless dependency does when it is imported, and when the program ends.
NOISY_DEPENDENCY = """
import atexit, faulthandler, os, subprocess, sys, threading, warnings
print("noise: import")
sys.stdout.flush()
os.write(1, b"noise: import, descriptor 1\\n")
warnings.warn("noise: import warning", stacklevel=1)
subprocess.run(["sh", "-c", "echo noise: import child"])
faulthandler.enable(file=sys.stderr)
atexit.register(os.write, 1, b"noise: atexit, descriptor 1\\n")
atexit.register(print, "noise: atexit")
threading.Thread(target=lambda: [print("noise: thread", flush=True) for _ in range(200)], daemon=True).start()
"""

# Loads the dependency as soon as cellwright has loaded a dependency of its own: at the earliest moment our code can know of.
NOISY_SITE = """
import sys
class Noisy:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp":
            sys.meta_path.remove(self)
            import noisy_dependency
        return None
sys.meta_path.insert(0, Noisy())
"""


@pytest.fixture
def noisy_site(tmp_path: Path) -> str:
    site = tmp_path / "site"
    site.mkdir()
    (site / "noisy_dependency.py").write_text(NOISY_DEPENDENCY, encoding="utf-8")
    (site / "sitecustomize.py").write_text(NOISY_SITE, encoding="utf-8")
    return os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


@requirement("adversarial:L1")
def test_noise_while_serving_leaves_stdout_to_json_rpc(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with started(probe_command(tmp_path), errors) as server:
        server.handshake()
        for identity in range(3):
            assert server.call("probe_noise", identity)["result"]["structuredContent"]["tool"] == "probe_noise"
        assert server.call("probe_read", "after")["result"]["isError"] is False
        json_rpc_only(server.rest())
        assert server.process.wait(10) == 0
    log = errors.read_text(encoding="utf-8")
    kinds = ["print", "sys.stdout", "sys.__stdout__", "descriptor 1", "warning", "logging", "child", "child error"]
    assert [kind for kind in kinds if f"noise: {kind}" not in log] == []


@requirement("adversarial:L1")
def test_a_crash_in_a_tool_leaves_stdout_to_json_rpc(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with started(probe_command(tmp_path, "--log-level", "debug"), errors) as server:
        server.handshake()
        assert server.call("probe_crash", 1)["result"]["isError"] is True
        json_rpc_only(server.rest())
    assert "RuntimeError" in errors.read_text(encoding="utf-8")
    assert all(b"RuntimeError" not in line for line in server.lines)


@requirement("adversarial:L1")
def test_noise_of_imports_before_serving_leaves_stdout_to_json_rpc(tmp_path: Path, noisy_site: str) -> None:
    errors = tmp_path / "errors"
    with started(stdio_command(tmp_path), errors, PYTHONPATH=noisy_site) as server:
        server.handshake()
        wait_until(lambda: "noise: thread" in errors.read_text(encoding="utf-8"), "the noise", 10)
        json_rpc_only(b"".join(server.lines))
    assert "noise: import, descriptor 1" in errors.read_text(encoding="utf-8")


@requirement("adversarial:L1")
def test_noise_at_the_end_leaves_stdout_to_json_rpc(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    ending = 'import atexit, os\natexit.register(os.write, 1, b"noise: atexit, descriptor 1\\n")\natexit.register(print, "noise: atexit")\n'
    (site / "sitecustomize.py").write_text(ending, encoding="utf-8")
    with started(stdio_command(tmp_path), tmp_path / "errors", PYTHONPATH=str(site)) as server:
        server.handshake()
        json_rpc_only(server.rest())
        assert server.process.wait(10) == 0


@requirement("adversarial:L1")
def test_a_wrong_setting_says_so_on_stderr_and_nothing_on_stdout(tmp_path: Path) -> None:
    command = [*stdio_command(tmp_path), "--result-tokens", "minus one"]
    ended = subprocess.run(command, capture_output=True, env=clean_environ(), timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"result_tokens" in ended.stderr


# -- L2 the end --------------------------------------------------------------------------------------------------------------


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def ends_within(process: subprocess.Popen[bytes], seconds: float) -> float:
    begun = time.monotonic()
    process.wait(10)
    spent = time.monotonic() - begun
    assert spent <= seconds
    return spent


@requirement("adversarial:L2")
def test_the_server_is_gone_a_second_after_stdin_closes(tmp_path: Path) -> None:
    with started(stdio_command(tmp_path), tmp_path / "errors") as server:
        server.handshake()
        assert server.process.stdin is not None
        server.process.stdin.close()
        ends_within(server.process, STDIN_CLOSED_SECONDS)
        assert server.process.returncode == 0


@requirement("adversarial:L2")
def test_a_call_under_way_does_not_keep_the_server(tmp_path: Path) -> None:
    with started(probe_command(tmp_path), tmp_path / "errors") as server:
        server.handshake()
        server.send(rpc("tools/call", {"name": "probe_sleep", "arguments": {}}, 1, LEGACY))
        wait_until(lambda: ran(tmp_path) == ["probe_sleep"], "the call to begin")
        assert server.process.stdin is not None
        server.process.stdin.close()
        ends_within(server.process, STDIN_CLOSED_SECONDS)


@requirement("adversarial:L2")
def test_a_listening_client_that_leaves_does_not_keep_the_server(tmp_path: Path) -> None:
    with started(stdio_command(tmp_path), tmp_path / "errors") as server:
        wanted = {"notifications": {"resourceSubscriptions": ["cellwright://status"]}}
        server.send(rpc("subscriptions/listen", wanted, 1, MODERN))
        assert server.process.stdout is not None
        assert b"acknowledged" in server.process.stdout.readline()
        assert server.process.stdin is not None
        server.process.stdin.close()
        ends_within(server.process, STDIN_CLOSED_SECONDS)


@requirement("adversarial:L2")
def test_a_client_that_never_said_a_word_and_left_is_not_waited_for(tmp_path: Path) -> None:
    with started(stdio_command(tmp_path), tmp_path / "errors") as server:
        wait_until(lambda: "event=serving" in (tmp_path / "errors").read_text(encoding="utf-8"), "the start")
        assert server.process.stdin is not None
        server.process.stdin.close()
        ends_within(server.process, STDIN_CLOSED_SECONDS)


@requirement("adversarial:L2")
@pytest.mark.parametrize("closes_stdout", [True, False])
def test_a_client_that_leaves_without_reading_is_not_waited_for(tmp_path: Path, closes_stdout: bool) -> None:
    with started(stdio_command(tmp_path), tmp_path / "errors") as server:
        server.handshake()
        assert server.process.stdin is not None
        assert server.process.stdout is not None
        # The answer is larger than the pipe and nobody takes it out: the writer is stuck in the middle of it.
        size = fcntl.fcntl(server.process.stdout, F_SETPIPE_SZ, 4096)
        server.send(rpc("tools/list", version=LEGACY))
        wait_until(lambda: waiting_in(server.process.stdout) >= size, "the pipe to be full")
        server.process.stdin.close()
        if closes_stdout:
            server.process.stdout.close()
        ends_within(server.process, STDIN_CLOSED_SECONDS)


F_SETPIPE_SZ = 1031  # Linux; `fcntl` names it from Python 3.10 on, but not on every platform


def waiting_in(pipe: IO[bytes] | None) -> int:
    """How many bytes are in the pipe, unread."""
    assert pipe is not None
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


@requirement("adversarial:L2")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("busy", [False, True])
def test_a_signal_ends_the_server_while_stdin_stays_open(tmp_path: Path, number: signal.Signals, busy: bool) -> None:
    with started(probe_command(tmp_path), tmp_path / "errors") as server:
        server.handshake()
        if busy:
            server.send(rpc("tools/call", {"name": "probe_sleep", "arguments": {}}, 1, LEGACY))
            wait_until(lambda: ran(tmp_path) == ["probe_sleep"], "the call to begin")
        server.process.send_signal(number)
        ends_within(server.process, PARENT_DEAD_SECONDS)
        assert server.process.returncode == 0


# The client: starts the server, gives the other end of its stdin to a stranger that outlives it, then waits to be killed.
PARENT = """
import json, os, subprocess, sys, time
command = json.loads(sys.argv[1])
readable, writable = os.pipe()
os.write(writable, sys.argv[4].encode() + b"\\n")
none = subprocess.DEVNULL
stranger = subprocess.Popen(["sleep", "120"], pass_fds=[writable], stdin=none, stdout=none, start_new_session=True)
server = subprocess.Popen(command, stdin=readable, stdout=open(sys.argv[2], "wb"), stderr=open(sys.argv[3], "wb"))
print(json.dumps([server.pid, stranger.pid]), flush=True)
time.sleep(120)
"""


@contextmanager
def orphan_to_be(tmp_path: Path, command: list[str]) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """A server whose stdin a stranger holds open, and the parent that the test may kill."""
    files = [str(tmp_path / "output"), str(tmp_path / "errors")]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, json.dumps(command), *files, json.dumps(opening())],
        stdout=subprocess.PIPE,
        env=clean_environ(),
    )
    assert parent.stdout is not None
    server, stranger = json.loads(parent.stdout.readline())
    try:
        yield parent, server
    finally:
        parent.kill()
        parent.wait(10)
        parent.stdout.close()
        for pid in (server, stranger):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@requirement("adversarial:L2")
def test_the_server_follows_its_parent_though_a_stranger_holds_stdin(tmp_path: Path) -> None:
    with orphan_to_be(tmp_path, stdio_command(tmp_path)) as (parent, server):
        wait_until(lambda: b'"id":"start"' in (tmp_path / "output").read_bytes(), "the first answer")
        parent.kill()
        parent.wait(10)
        wait_until(lambda: gone(server), "the orphan's end", PARENT_DEAD_SECONDS)
    assert "parent died" in (tmp_path / "errors").read_text(encoding="utf-8")


@requirement("adversarial:L2")
def test_a_parent_that_dies_while_the_server_still_starts_is_noticed(tmp_path: Path) -> None:
    with orphan_to_be(tmp_path, stdio_command(tmp_path)) as (parent, server):
        maps = Path(f"/proc/{server}/maps")
        wait_until(lambda: "pydantic_core" in maps.read_text(encoding="utf-8"), "the start to be under way")
        assert "event=serving" not in (tmp_path / "errors").read_text(encoding="utf-8")
        parent.kill()
        parent.wait(10)
        # However long the start takes on a busy machine: from then on it ends in time.
        errors = tmp_path / "errors"
        wait_until(
            lambda: gone(server) or "event=serving" in errors.read_text(encoding="utf-8"), "the end of the start"
        )
        wait_until(lambda: gone(server), "the orphan's end", PARENT_DEAD_SECONDS)


@requirement("adversarial:L2")
def test_children_of_an_orphan_that_was_serving_are_not_left_to_hold_its_wire(tmp_path: Path) -> None:
    """The pipe to the client must see its end when the server is gone, whatever the server's tools started."""
    with started(probe_command(tmp_path), tmp_path / "errors") as server:
        server.handshake()
        server.call("probe_noise", 1)
        server.process.kill()
        assert server.process.stdout is not None
        json_rpc_only(server.process.stdout.read())


@requirement("adversarial:L2")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_with_the_greeting_is_not_lost(tmp_path: Path, number: signal.Signals) -> None:
    with http_server(tmp_path) as server:
        server.process.send_signal(number)
        # As a process manager sees it: it asked once, politely, the moment the server said it was there.
        assert server.process.wait(15) == 0


@requirement("adversarial:L2")
@pytest.mark.more
@pytest.mark.timeout(60 + 10 * RECONNECTS)  # each a start of the program, which a busy machine takes its time for
async def test_reconnects_on_stdio_leave_no_process_and_no_file(tmp_path: Path) -> None:
    ours = psutil.Process()
    command = copies.stand_in(stdio_command(tmp_path))
    before = {child.pid for child in ours.children(recursive=True)}
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    for mode in ("auto", "legacy"):
        async with stdio_client(tmp_path, mode=mode) as client:
            await client.list_tools()
    for batch in range(RECONNECTS // 4):
        with ExitStack() as stack:
            servers = [
                stack.enter_context(started(command, tmp_path / f"errors-{batch}-{number}", TMPDIR=str(temporary)))
                for number in range(4)
            ]
            for number, server in enumerate(servers):
                server.send(opening())
                if number % 2:
                    server.answer("start")
                assert server.process.stdin is not None
                server.process.stdin.close()
            assert [server.process.wait(30) for server in servers] == [0] * 4
    wait_until(lambda: {child.pid for child in ours.children(recursive=True)} <= before, "the servers' end", 5)
    assert list(temporary.iterdir()) == []


@requirement("adversarial:L2")
async def test_fifty_reconnects_over_http_leave_no_process_no_socket_and_no_thread(tmp_path: Path) -> None:
    with http_server(tmp_path, "--rate", "0") as server:
        process = psutil.Process(server.process.pid)

        def held() -> tuple[int, int, int]:
            return len(process.children(recursive=True)), process.num_fds(), process.num_threads()

        for mode in ("auto", "legacy"):
            async with http_client(server, mode) as client:
                await client.list_tools()
        await until(lambda: not process.net_connections(kind="tcp")[1:], "the first clients' end")
        start = held()
        for number in range(50):
            if number % 5 == 4:
                vanished(server)
            else:
                async with http_client(server, "legacy" if number % 2 else "auto") as client:
                    await client.list_tools()
        await until(lambda: all(now <= then for now, then in zip(held(), start, strict=True)), f"no more than {start}")


def vanished(server: HttpServer) -> None:
    """A client whose process died: a stream it held open just ends, nobody says goodbye."""
    wanted = {"notifications": {"resourceSubscriptions": ["cellwright://status"]}}
    body = json.dumps(rpc("subscriptions/listen", wanted)).encode()
    with socket.create_connection(("127.0.0.1", server.port), 15) as connection:
        connection.sendall(raw_request(server.port, headers=modern_headers("subscriptions/listen"), body=body))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
