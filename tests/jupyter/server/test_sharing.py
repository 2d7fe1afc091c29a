"""Two programs and one embedded server: it stays as long as one of them is there."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.jupyter.server.connect import to_found_or_embedded
from cellwright.jupyter.server.embedded import EmbeddedJupyter
from cellwright.jupyter.server.sharing import is_used, open_for_others, share, users_folder
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.running import execute_nb_cells
from jupyter_support import write_notebook
from kernel_support import until
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

CALL = Call(Principal("ada", ALL_SCOPES))
OWNER = """
import asyncio, sys
from pathlib import Path
from cellwright.jupyter.server.embedded import EmbeddedJupyter
async def main():
    jupyter = EmbeddedJupyter(Path(sys.argv[1]), Path(sys.argv[2]))
    print((await jupyter.server()).pid, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await jupyter.stop()
asyncio.run(main())
"""


@asynccontextmanager
async def program(root: Path, runtime: Path, state: Path) -> AsyncGenerator[LiveNotebooks]:
    embedded = EmbeddedJupyter(root, state)
    notebooks = LiveNotebooks(
        to_found_or_embedded(root, runtime, embedded), lambda: datetime.now(UTC), embedded=embedded
    )
    try:
        yield notebooks
    finally:
        await notebooks.close()


async def printed(notebooks: LiveNotebooks, cell: int) -> str:
    report: Any = (await execute_nb_cells(notebooks, CALL, "n.ipynb", cells="all")).data
    assert "notes" not in report
    return "".join(output["text"] for output in report["execution_results"][cell]["outputs"])


def start(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@requirement("embedded:shared")
@pytest.mark.parametrize("ending", ["stop", "kill"])
async def test_the_server_stays_for_the_other_program(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    root, runtime = tmp_path / "root", tmp_path / "runtime"
    write_notebook(root, "n.ipynb", ["x = globals().get('x', 40) + 1", "print(x)"])
    command = [sys.executable, "-c", OWNER, str(root), str(tmp_path / "state")]
    owner = start(command)
    assert owner.stdout is not None
    assert owner.stdin is not None
    try:
        server = psutil.Process(int(await asyncio.to_thread(owner.stdout.readline)))
        guardian = server.parent()
        assert guardian is not None
        async with program(root, runtime, tmp_path / "state of the other") as notebooks:
            assert (await notebooks.connected(CALL)).found.pid == server.pid
            assert await printed(notebooks, 1) == "41\n"
            began = time.monotonic()
            if ending == "stop":
                owner.stdin.write(b"\n")
                owner.stdin.flush()
            else:
                owner.send_signal(signal.SIGKILL)
            await asyncio.to_thread(owner.wait, 20)
            assert time.monotonic() - began < 10, "it does not wait for the other program"
            # A look of the guardian, in which it notices that its owner has gone.
            await until(lambda: guardian.ppid() != owner.pid, "the guardian being alone")
            assert await printed(notebooks, 1) == "42\n"
            async with program(root, runtime, tmp_path / "a third") as third:
                assert (await third.connected(CALL)).found.pid == server.pid
                assert await printed(third, 1) == "43\n"
            assert await printed(notebooks, 1) == "44\n"
            processes = [guardian, server, *server.children(recursive=True)]
        await until(lambda: not any(map(alive, processes)), "the end of the server and its kernels", 30)
        assert [entry.name for entry in runtime.iterdir() if entry.name.startswith(("cellwright", "jpserver"))] == []
    finally:
        with contextlib.suppress(ProcessLookupError):
            owner.kill()
        owner.wait()
        for pipe in (owner.stdin, owner.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@requirement("embedded:shared")
def test_a_lock_says_who_is_there(tmp_path: Path) -> None:
    assert share(tmp_path, 7) is None, "no embedded server"
    folder = open_for_others(tmp_path, 7)
    assert folder == users_folder(tmp_path, 7)
    assert not is_used(folder)
    one, two = share(tmp_path, 7), share(tmp_path, 7)
    assert one is not None
    assert two is not None
    one.close()
    assert is_used(folder)
    two.close()
    assert not is_used(folder)
    (folder / "of one that was killed").mkdir()
    assert not is_used(folder)
