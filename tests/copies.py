"""Programs that are loaded once and started often: a process that has imported one, of which every start is a copy.

Most of what a start of cellwright or of Jupyter takes is imports, and the tests start hundreds. A copy is a process as any other: it has
its own arguments, environment, folder, streams, signals and end. What a test says about imports, or of memory from the first byte on,
needs a process that begins from nothing: `subprocess`.

This file is also that process: `python copies.py DESCRIPTOR MODULES ADDRESS PADDING`.
"""

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

CELLWRIGHT = (
    "cellwright.app.cli.entry",
    "cellwright.app.cli.main",
    "cellwright.app.cli.commands",
    "cellwright.app.cli.context",
    "cellwright.app.cli.export",
    "cellwright.app.cli.storage",
    "cellwright.app.http.serving",
    "cellwright.app.workspace",
    "httpx2",
    "websockets.asyncio.client",
    "anyio._backends._asyncio",
    "cellwright.app.page.routes",
    "cellwright.app.clients.catalogue",
    "uvicorn.lifespan.off",
)
# All of `ipykernel.kernelapp` but itself, which reads its environment when it is imported.
KERNEL = (
    "ipykernel.ipkernel",
    "ipykernel.zmqshell",
    "ipykernel.iostream",
    "ipykernel.control",
    "ipykernel.debugger",
    "ipykernel.heartbeat",
    "ipykernel.parentpoller",
    "ipykernel.shellchannel",
    "IPython.core.application",
    "IPython.core.completer",
    "IPython.core.debugger",
    "IPython.core.shellapp",
    "jupyter_client.session",
    "zmq.eventloop.zmqstream",
    "psutil",
)
# Not its extensions for collaboration: when they are imported one finds its folder, and one gives the server the name of its session.
JUPYTER = (
    "jupyter_server.serverapp",
    "jupyter_server.extension.application",
    "jupyter_server_terminals.app",
    "jupyter_ydoc",
    "pycrdt.store",
    "pycrdt.websocket",
    "jupyter_client.ioloop",
    "tornado.platform.asyncio",
    "ipykernel.kernelspec",
    "nbformat.v4",
    "cellwright.app.extension.app",
    *CELLWRIGHT,
    *KERNEL,
)
"""With cellwright inside, as wherever it is installed, and with what kernels need: they are copies of a copy of it."""
LEFT_OUT = "rfc3987_syntax"
"""A grammar of addresses with letters of all languages: jsonschema has it made at each start of Jupyter, which is most of a start, and does
without it where it is not installed."""
LAUNCHER = ["-m", "ipykernel_launcher"]
POSSIBLE = sys.platform == "linux"
PADDING = 6_000
"""Letters of the command line of a copy, which are written over."""
OF_THE_INTERPRETER = ("PYTHON", "LD_")
"""Beginnings of variables that are read before anything is imported."""
LARGEST = 200_000
READY = b"ready"
RUN_SECONDS = 60.0


STAND_IN = """
import json, os, signal, socket, sys
original = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
original.connect("\\0" + sys.argv[1])
told, status = os.pipe()
order = {"command": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd()}
socket.send_fds(original, [json.dumps(order).encode()], [status, 1, 2, 0])
pid = int(original.recv(20))
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _frame: os.kill(pid, number))
for one in (status, 0, 1):
    os.close(one)
ended = int(os.read(told, 20) or -9)
if ended < 0:
    signal.signal(-ended, signal.SIG_DFL) if ended != -9 else None
    os.kill(os.getpid(), -ended)
os._exit(ended)
"""


class Copy(subprocess.Popen[str]):
    """A process that is the child of the one it is a copy of, which tells how it ended."""

    def __init__(self, args: Sequence[str], pid: int, status: int, output: int | None) -> None:
        self.args = args
        self.pid = pid
        self.returncode: Any = None
        self.stdin = self.stderr = None
        self.stdout = None if output is None else open(output, encoding="utf-8")  # noqa: SIM115, PTH123 - as Popen has it
        self._child_created = True
        self._status = status

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        self._look(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self.returncode

    def _internal_poll(self, **_state: object) -> int | None:
        return self._look(0)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and _readable(self._status, timeout):
            told = os.read(self._status, 20)
            os.close(self._status)
            # Nothing is told by who was killed itself.
            self.returncode = int(told) if told else -signal.SIGKILL
        return self.returncode


def _readable(descriptor: int, seconds: float | None) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else seconds * 1_000))


class Original:
    """A process that has imported what is needed and waits to be copied."""

    def __init__(self, channel: socket.socket, address: str = "") -> None:
        self._channel = channel
        self.address = address
        self._lock = threading.Lock()
        self._settings = _settings(os.environ)

    def can_be(self, command: Sequence[str], env: Mapping[str, str]) -> bool:
        """Whether a copy is the same as what is started by this command: the same interpreter, with the same settings."""
        if len("\0".join(command)) >= PADDING or command[0] != sys.executable:
            return False
        folders = [Path(folder) for folder in _python_path(env)]
        own_start = any((folder / "sitecustomize.py").exists() for folder in folders)
        return not own_start and self._settings == _settings(env)

    def start(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None,
        streams: tuple[int | None, int],
        given: int = 0,
        **more: Any,
    ) -> Copy:
        """The streams are standard output, None for a pipe, and standard error; `given` is standard input, with nothing to read if 0."""
        told, status = os.pipe()
        output, errors = streams
        read, written = (None, output) if output is not None else os.pipe()
        message = json.dumps({"command": [*command], "env": dict(env), "cwd": str(cwd or Path.cwd()), **more}).encode()
        assert len(message) < LARGEST
        with self._lock:
            socket.send_fds(self._channel, [message], [status, written, errors, *([given] if given else [])])
            pid = int(self._channel.recv(20))
        os.close(status)
        if read is not None:
            os.close(written)
        return Copy(command, pid, told, read)


def _settings(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in environ.items() if name.startswith(OF_THE_INTERPRETER) and name != "PYTHONPATH"
    }


def _python_path(environ: Mapping[str, str]) -> list[str]:
    return [folder for folder in environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


_originals: dict[tuple[str, ...], Original] = {}


def original_of(modules: tuple[str, ...]) -> Original:
    """The one of this process that has these modules, and waits until this process ends."""
    if modules not in _originals:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = theirs.fileno()
        address = f"cellwright-tests-{secrets.token_hex(16)}"
        command = [sys.executable, __file__, str(number), ",".join(modules), address, " " * PADDING]
        with theirs:
            # The debugger of kernels has something to say when it is imported, which is not for who runs the tests.
            environ = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(number,), env=environ)
        atexit.register(process.wait, 20)
        atexit.register(ours.close)
        # It has imported everything and listens.
        assert ours.recv(20) == READY
        _originals[modules] = Original(ours, address)
    return _originals[modules]


def start(
    modules: tuple[str, ...],
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    errors: IO[Any],
    output: IO[Any] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[str]:
    """A process of this command (`python -m module`, `python -c code` or `python file`), as a copy of one that has the modules loaded.

    Its output goes to `output`, or else to a pipe.
    """
    if POSSIBLE and (original := original_of(modules)).can_be(command, env):
        return original.start(command, env, cwd, (output.fileno() if output else None, errors.fileno()))
    return subprocess.Popen(
        command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output or subprocess.PIPE, stderr=errors, text=True
    )


def run(
    *arguments: str, env: Mapping[str, str], cwd: Path | None = None, timeout: float = RUN_SECONDS
) -> subprocess.CompletedProcess[str]:
    """What `cellwright` with these arguments says, and how it ends."""
    command = [sys.executable, "-m", "cellwright", *arguments]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
    ):
        process = start(CELLWRIGHT, command, env=env, cwd=cwd, output=output, errors=errors)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, status, output.read(), errors.read())


def stand_in(command: Sequence[str]) -> list[str]:
    """A command that starts a copy and is there in its place, for who starts programs by itself: signals and the end are passed on."""
    if not POSSIBLE or not original_of(CELLWRIGHT).can_be(command, os.environ):
        return [*command]
    return [sys.executable, "-I", "-S", "-c", STAND_IN, original_of(CELLWRIGHT).address, *command]


def copy_kernels(original: Callable[[], Original]) -> None:
    """From now on the kernels that Jupyter starts in this process are copies, if they are Python's and of this environment."""
    launcher = importlib.import_module("jupyter_client.launcher")

    def popen(command: list[str], **more: Any) -> subprocess.Popen[Any]:
        streams = [more.get(name) for name in ("stdout", "stderr")]
        plain = all(one is None or (isinstance(one, int) and one == subprocess.DEVNULL) for one in streams)
        ours = POSSIBLE and plain and command[1:3] == LAUNCHER
        if ours and original().can_be(command, more["env"]):
            with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
                output, errors = (number if one is None else nowhere.fileno() for number, one in enumerate(streams, 1))
                made = original().start(command, more["env"], more.get("cwd"), (output, errors), apart=True)
            # It is closed at once by who started it.
            made.stdin = io.StringIO()
            return made
        return subprocess.Popen(command, **more)

    vars(launcher)["Popen"] = popen


# -- in the process that is copied ---------------------------------------------------------------------------------------------


class _Waiting:
    """Is copied whenever that is asked for: by who has the other end of the channel, and by stand-ins."""

    def __init__(self, channel: socket.socket, listener: socket.socket | None = None) -> None:
        self._channel = channel
        self._listener = listener
        self._statuses: dict[int, int] = {}
        self._read, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def command(self) -> list[str]:
        """Wait until nobody can ask any more. Returns in a copy, with its command."""
        sockets = [one for one in (self._channel, self._listener) if one is not None]
        while True:
            ready = select.select([self._read, *sockets], [], [])[0]
            if self._read in ready:
                os.read(self._read, 1_000)
                self._tell()
            for one in sockets:
                if one in ready and (order := self._asked(one)):
                    return _become(order)

    def _tell(self) -> None:
        """Of every copy that ended, how."""
        while self._statuses:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with os.fdopen(self._statuses.pop(pid), "w") as telling:
                telling.write(str(os.waitstatus_to_exitcode(status)))

    def _asked(self, by: socket.socket) -> dict[str, Any] | None:
        if by is self._channel:
            return self._copied(by)
        with by.accept()[0] as stand_in:
            return self._copied(stand_in)

    def _copied(self, by: socket.socket) -> dict[str, Any] | None:
        """The order in the copy, None in this process."""
        message, descriptors, _flags, _from = socket.recv_fds(by, LARGEST, 4)
        if not message:
            if by is self._channel:
                os._exit(0)
            return None
        order = json.loads(message)
        pid = os.fork()
        if pid == 0:
            self._leave(by, order, descriptors)
            return order
        self._statuses[pid], *streams = descriptors
        for one in streams:
            os.close(one)
        return None

    def _leave(self, by: socket.socket, order: dict[str, Any], descriptors: list[int]) -> None:
        """Have nothing any more of what belongs to the original."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, self._interrupted)
        if order.get("apart"):
            os.setsid()
        # Not before: who starts a kernel asks at once for its group, to interrupt that.
        by.send(str(os.getpid()).encode())
        self._channel.close()
        if self._listener is not None:
            self._listener.close()
        for number, one in zip((1, 2, 0), descriptors[1:], strict=False):
            os.dup2(one, number)
        for one in (*descriptors, self._read, self._wake, *self._statuses.values()):
            os.close(one)


def _become(order: dict[str, Any]) -> list[str]:
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.path[1:1] = [folder for folder in _python_path(os.environ) if folder not in sys.path[1:]]
    _be_called(order["command"])
    if app := sys.modules.get("cellwright.app"):
        # It was imported by another process, whose parent is not ours.
        vars(app)["parent_lives"] = sys.modules["cellwright.system"].machine.parent_watch()
    # The interpreter made its own for what these were when it began, a file perhaps and not a pipe.
    sys.stdin = sys.__stdin__ = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False)  # noqa: SIM115 - it stays
    sys.stdout = sys.__stdout__ = _stream(1, sys.stdout)
    sys.stderr = sys.__stderr__ = _stream(2, sys.stderr)
    return order["command"]


def _stream(number: int, like: Any) -> Any:
    made = open(number, "w", encoding=like.encoding, errors=like.errors, closefd=False)  # noqa: SIM115 - it stays
    made.reconfigure(line_buffering=like.line_buffering, write_through=like.write_through)
    return made


def _be_called(command: list[str]) -> None:
    """What `ps` and whoever looks for processes see: the command, in place of that of this file."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    words = "\0".join(command).encode()
    assert len(words) < end - begin
    ctypes.memmove(begin, words.ljust(end - begin, b"\0"), end - begin)


def _run(command: list[str]) -> None:
    _python, how, *arguments = command
    sys.orig_argv = command
    if how == "-m":
        sys.path[0] = str(Path.cwd())
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif how == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *arguments[1:]]
        exec(compile(arguments[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = str(Path(how).parent)
        sys.argv = [how, *arguments]
        runpy.run_path(how, run_name="__main__")


def _main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    cast("dict[str, Any]", sys.modules)[LEFT_OUT] = None
    for module in sys.argv[2].split(","):
        importlib.import_module(module)
    del sys.modules[LEFT_OUT]
    threads = len([*Path("/proc/self/task").iterdir()])
    assert threads == 1, "what has threads cannot be copied"
    gc.freeze()
    gc.enable()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0{sys.argv[3]}")
    listener.listen(100)
    channel.send(READY)
    command = _Waiting(channel, listener).command()
    if "jupyter_server.serverapp" in sys.argv[2]:
        command = _with_kernels(command)
    _run(command)
    if command[1:3] == LAUNCHER:
        # A kernel has done all it does at its end; taking apart what it shares with others would be most of that.
        atexit._run_exitfuncs()
        os._exit(0)


def _with_kernels(command: list[str]) -> list[str]:
    """Begin with a child of which kernels are copies. They end with this process, as if they were its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        # Who looks for what is left of a Jupyter finds kernels, not this, which ends a moment later.
        _be_called([sys.executable, "-m", "kernels_to_be"])
        return _Waiting(theirs).command()
    theirs.close()
    original = Original(ours)
    copy_kernels(lambda: original)
    return command


if __name__ == "__main__":
    _main()
