"""Processes, pipes and signals of the system that this is: real processes, really killed."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from cellwright.system import machine
from cellwright.system.pipes import EndOfPipe, read_line
from cellwright.system.trees import end_tree
from cellwright.system.windows import WindowsMachine
from requirements import requirement
from support import WAIT_SECONDS, wait_until
from windows_fake import FakeWindows

FAMILY = """
import subprocess, sys, time
young = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
print(young.pid, flush=True)
time.sleep(100)
"""
KEEPER = """
import subprocess, sys
from cellwright.system import machine
from cellwright.system.trees import Descendants
held = sys.argv[1] == "held" and machine.hold_descendants()
below = Descendants(held=held)
middle = subprocess.Popen([sys.executable, "-c", sys.argv[2]], stdout=subprocess.PIPE)
print(middle.stdout.readline().decode().strip(), flush=True)
below.look()
middle.kill()
middle.wait()
sys.stdin.readline()
print(below.end(20.0), flush=True)
"""


FILES = """
import resource, sys
from cellwright.system import machine
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
print(machine.room_for_files(500), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@requirement("system:files")
@pytest.mark.parametrize(
    ("soft", "hard", "told"), [(100, 1000, "500 500"), (100, 300, "300 300"), (600, 1000, "500 600")]
)
def test_the_files_that_are_wanted_are_asked_for(soft: int, hard: int, told: str) -> None:
    command = [sys.executable, "-c", FILES, str(soft), str(hard)]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip() == told


@requirement("system:files")
def test_on_windows_there_is_room_for_all() -> None:
    assert WindowsMachine(FakeWindows()).room_for_files(500) == 500


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def started(code: str, *arguments: str) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            end_tree(process.pid, WAIT_SECONDS)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdin is not None
    process.stdin.write(words)
    process.stdin.flush()


@requirement("system:tree")
@pytest.mark.parametrize("way", ["held", "seen"])
def test_orphans_with_a_session_of_their_own_are_ended(way: str) -> None:
    """Held by the system, as on Linux and Windows, or seen in time, as on macOS."""
    with started(KEEPER, way, FAMILY) as keeper:
        orphan = int(line_of(keeper))
        try:
            assert lives(orphan), "it has a session of its own, and outlives its parent"
            tell(keeper, "end\n")
            assert line_of(keeper) == "True"
            wait_until(lambda: not lives(orphan), "the end of the orphan")
        finally:
            end_tree(orphan, WAIT_SECONDS)


@requirement("system:tree")
def test_a_tree_is_ended_from_outside() -> None:
    with started(FAMILY) as process:
        young = int(line_of(process))
        end_tree(process.pid, WAIT_SECONDS)
        wait_until(lambda: not lives(young) and process.poll() is not None, "the end of both")
    end_tree(process.pid, 1.0)


@requirement("system:tree")
def test_the_living_are_told_from_the_dead() -> None:
    with started("input()") as process:
        assert machine.is_alive(process.pid)
        tell(process, "\n")
        process.wait(WAIT_SECONDS)
    assert not machine.is_alive(process.pid)
    assert machine.is_alive(1)
    assert [machine.is_alive(pid) for pid in (0, -1, 1 << 40)] == [False, False, False]


CHILD_OF_A_SHORT_LIFE = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], stdin=sys.stdin)
sys.stdout.close()
child.wait()
"""
WATCHER = """
import sys
from pathlib import Path
from cellwright.system import choose
lives = choose(sys.argv[1]).parent_watch()
print(lives(), flush=True)
sys.stdin.readline()
print(lives(), flush=True)
"""


@requirement("system:parent")
@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_the_death_of_the_parent_is_noticed(platform: str) -> None:
    with started(CHILD_OF_A_SHORT_LIFE, WATCHER, platform) as parent:
        assert line_of(parent) == "True"
        (child,) = psutil.Process(parent.pid).children()
        try:
            parent.kill()
            parent.wait(WAIT_SECONDS)
            tell(parent, "look\n")
            assert line_of(parent) == "False"
        finally:
            end_tree(child.pid, WAIT_SECONDS)


STOPPED = """
import asyncio, sys, threading
from cellwright.system import choose
machine = choose(sys.argv[1])
if sys.argv[2] == "loop":
    async def main():
        stopped = asyncio.Event()
        machine.on_stop(stopped.set, asyncio.get_running_loop())
        print("ready", flush=True)
        await stopped.wait()
    asyncio.run(main())
else:
    stopped = threading.Event()
    machine.on_stop(stopped.set)
    print("ready", flush=True)
    while not stopped.wait(0.1):
        pass
print("stopped in order", flush=True)
"""


@requirement("system:stop")
@pytest.mark.parametrize("how", ["loop", "no loop"])
@pytest.mark.parametrize(
    ("platform", "number"),
    [
        ("linux", signal.SIGTERM),
        ("linux", signal.SIGINT),
        ("linux", signal.SIGHUP),
        ("win32", signal.SIGTERM),
        ("win32", signal.SIGINT),
    ],
)
def test_a_program_stops_in_order(platform: str, number: signal.Signals, how: str) -> None:
    # Whoever runs the tests may do so with nohup.
    heeding = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n{STOPPED}"
    with started(heeding, platform, how) as process:
        assert line_of(process) == "ready"
        process.send_signal(number)
        assert line_of(process) == "stopped in order"
        assert process.wait(WAIT_SECONDS) == 0


@requirement("system:stop")
def test_with_nohup_it_outlives_its_terminal() -> None:
    before = signal.getsignal(signal.SIGHUP)
    ignoring = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n{STOPPED}"
    with started(ignoring, "linux", "loop") as process:
        assert line_of(process) == "ready"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert line_of(process) == "stopped in order"
    assert signal.getsignal(signal.SIGHUP) == before


@requirement("system:pipe")
@pytest.mark.parametrize(("words", "silent"), [(b"stop\n", False), (b"", True)])
def test_the_end_of_a_pipe_is_noticed(words: bytes, silent: bool) -> None:
    reader, writer = os.pipe()
    noticed = threading.Event()
    try:
        os.write(writer, b"first\n")
        assert read_line(reader) == b"first\n", "no more than a line"
        pipe = EndOfPipe(reader, noticed)
        assert not noticed.is_set()
        os.write(writer, words)
        os.close(writer)
        assert noticed.wait(WAIT_SECONDS)
        assert pipe.is_silent_end is silent
    finally:
        os.close(reader)
        with suppress(OSError):
            os.close(writer)


@requirement("system:pipe")
def test_a_line_without_an_end_is_what_there_was(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"half")
    descriptor = os.open(tmp_path / "x", os.O_RDONLY)
    try:
        assert read_line(descriptor) == b"half"
    finally:
        os.close(descriptor)
