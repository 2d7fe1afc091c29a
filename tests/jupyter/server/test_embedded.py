"""The embedded server: started once, quiet, its token hidden, and nothing of it left when either side ends."""

import asyncio
import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from pathlib import Path

import psutil
import pytest

from cellwright.core.errors import CellwrightError
from cellwright.jupyter.server import embedded, embedded_guardian
from cellwright.jupyter.server.discovery import LocalServer
from cellwright.jupyter.server.embedded import EmbeddedFailed, EmbeddedJupyter, EmbeddedNotInstalled
from jupyter_support import JupyterServer
from kernel_support import KernelOnServer, kernel_on, rest, until
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work space"
    folder.mkdir()
    return folder


@pytest.fixture
async def jupyter(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[EmbeddedJupyter]:
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    made = EmbeddedJupyter(root, tmp_path / "state")
    try:
        yield made
    finally:
        await made.stop()


def plain(server: LocalServer) -> JupyterServer:
    return JupyterServer(server.url, server.token.reveal(), server.root)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def start(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def family(pid: int) -> list[psutil.Process]:
    """A server and all it started, kernels and their helpers included."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


async def gone(processes: list[psutil.Process]) -> None:
    await until(lambda: not any(alive(process) for process in processes), f"the end of {processes}", 30)


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@requirement("embedded:start:once")
async def test_many_first_calls_start_one_server(jupyter: EmbeddedJupyter) -> None:
    assert jupyter.running is None
    servers = await asyncio.gather(*(jupyter.server() for _ in range(8)))
    assert len({server.pid for server in servers}) == 1
    assert jupyter.running == servers[0]
    guardians = [child for child in psutil.Process().children() if "embedded_guardian.py" in " ".join(child.cmdline())]
    assert len(guardians) == 1


@requirement("embedded:start:collaborates", "embedded:start:quiet", "embedded:end:stopped")
async def test_it_shares_documents_runs_kernels_stays_quiet_and_leaves_nothing(
    jupyter: EmbeddedJupyter, root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (root / "a.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', encoding="utf-8")
    server = await jupyter.server()
    listing = await asyncio.to_thread(rest, plain(server), "GET", "/api/contents")
    assert [entry["name"] for entry in listing["content"]] == ["a.ipynb"]
    body = {"format": "json", "type": "notebook"}
    session = await asyncio.to_thread(rest, plain(server), "PUT", "/api/collaboration/session/a.ipynb", body)
    assert session["fileId"]
    model = await asyncio.to_thread(rest, plain(server), "POST", "/api/kernels", {"name": "python3"})
    kernel = KernelOnServer(plain(server), model["id"])
    assert (await asyncio.wait_for(kernel.connection.execute("import os; os.system('echo loud')"), 30)).status == "ok"
    processes = family(server.pid)
    assert len(processes) >= 2, "a kernel runs"
    await kernel.connection.close()
    await jupyter.stop()
    await gone(processes)
    assert names(root) == ["a.ipynb"]
    assert names(tmp_path / "state") == [jupyter.log_file.name]
    assert stat.S_IMODE(jupyter.log_file.stat().st_mode) == 0o600
    assert "ServerApp" in jupyter.log_file.read_text(encoding="utf-8")
    assert capfd.readouterr() == ("", "")


def text_of(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


@requirement("embedded:start:ports")
async def test_a_kernel_has_ports_that_no_connection_is_given(jupyter: EmbeddedJupyter) -> None:
    server = await jupyter.server()
    for _ in range(3):
        await asyncio.to_thread(rest, plain(server), "POST", "/api/kernels", {"name": "python3"})
    files = {word for process in family(server.pid) for word in process.cmdline() if word.endswith(".json")}
    assert len(files) == 3
    kept = [json.loads(text_of(file)) for file in files]
    ports = [port for one in kept for name, port in one.items() if name.endswith("_port")]
    first, last = map(int, text_of("/proc/sys/net/ipv4/ip_local_port_range").split())
    assert len(set(ports)) == 15
    assert not [port for port in ports if first <= port <= last]


@requirement("embedded:start:quiet")
def test_the_log_is_bounded_and_private(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source:
        with os.fdopen(writer, "wb") as sink:
            sink.write(b"line of text\n" * 4000)
        embedded_guardian.copy_log(source, log, 20_000)
    assert names(tmp_path) == ["x.log", "x.log.1"]
    assert all(path.stat().st_size <= 20_000 for path in tmp_path.iterdir())
    assert (tmp_path / "x.log").read_bytes().endswith(b"line of text\n")
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())


@requirement("embedded:start:own-settings")
async def test_a_persons_own_settings_do_not_change_it(jupyter: EmbeddedJupyter, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    settings = {
        "ServerApp": {"base_url": "/mine/", "root_dir": "/", "certfile": "/none.pem"},
        "IdentityProvider": {"token": "x"},
    }
    (config / "jupyter_server_config.json").write_text(json.dumps(settings), encoding="utf-8")
    server = await jupyter.server()
    assert (await asyncio.to_thread(rest, plain(server), "GET", "/api/status"))["kernels"] == 0


@requirement("embedded:start:lab")
async def test_lab_is_served_when_asked_for(root: Path, tmp_path: Path, jupyter: EmbeddedJupyter) -> None:
    lab = EmbeddedJupyter(root, tmp_path / "lab-state", lab=True)
    try:
        found = await asyncio.to_thread(page, plain(await lab.server()))
        assert "JupyterLab" in found
        told = json.loads(found.partition('id="jupyter-config-data"')[2].partition(">")[2].partition("</script>")[0])
        assert "@jupyterlab/apputils-extension:announcements" in told["disabledExtensions"]
        assert lab.serves_lab
        assert not jupyter.serves_lab
    finally:
        await lab.stop()
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        await asyncio.to_thread(page, plain(await jupyter.server()))
    caught.value.close()


def page(server: JupyterServer) -> str:
    request = urllib.request.Request(f"{server.url}/lab", headers={"Authorization": f"token {server.token}"})
    with urllib.request.urlopen(request, timeout=20) as response:
        return response.read().decode()


@requirement("embedded:start:missing")
async def test_without_its_parts_the_error_names_the_remedy(
    jupyter: EmbeddedJupyter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "NEEDED", ("jupyter_server", "a_part_that_is_not_there"))
    with pytest.raises(EmbeddedNotInstalled, match=r"a_part_that_is_not_there not installed") as caught:
        await jupyter.server()
    assert "install" in caught.value.hint
    assert not caught.value.retryable


@requirement("embedded:start:fails")
async def test_a_server_that_does_not_come_up_shows_its_log_and_leaves_no_process(root: Path, tmp_path: Path) -> None:
    broken = EmbeddedJupyter(root / "missing", tmp_path / "state")
    with pytest.raises(EmbeddedFailed) as caught:
        await broken.server()
    assert "root_dir" in str(caught.value) or "No such" in str(caught.value)
    assert isinstance(caught.value, CellwrightError)
    assert str(broken.log_file) in caught.value.hint
    assert [child for child in psutil.Process().children() if "embedded" in " ".join(child.cmdline())] == []


@requirement("embedded:secret:token", "embedded:secret:environment")
async def test_the_token_is_on_no_command_line_and_in_no_environment(
    jupyter: EmbeddedJupyter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLWRIGHT_TOKEN", "our-own-secret")
    monkeypatch.setenv("JUPYTER_TOKEN", "somebody-elses")
    server = await jupyter.server()
    assert server.token.reveal() not in repr(server)
    async with kernel_on(plain(server)) as kernel:
        assert await kernel.pid() > 0
        processes = [*psutil.Process().children(), *family(server.pid)]
        assert len(processes) >= 3, "guardian, server, kernel"
        for process in processes:
            assert server.token.reveal() not in " ".join(process.cmdline())
            values = {**process.environ()}
            assert server.token.reveal() not in values.values()
            assert {"our-own-secret", "somebody-elses"}.isdisjoint(values.values())
        reply = await kernel.connection.execute(
            "", user_expressions={"n": "'JUPYTER_NO_CONFIG' in __import__('os').environ"}
        )
        assert reply.user_expressions["n"]["data"]["text/plain"] == "False"


@requirement("embedded:end:restarted", "embedded:end:server-killed")
async def test_a_killed_server_takes_its_kernels_along_and_is_started_again_at_the_same_address(
    jupyter: EmbeddedJupyter,
) -> None:
    first = await jupyter.server()
    await asyncio.to_thread(rest, plain(first), "POST", "/api/kernels", {"name": "python3"})
    await until(lambda: len(family(first.pid)) > 1, "a kernel")
    processes = family(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    await gone(processes)
    await until(lambda: jupyter.running is None, "the end of the guardian")
    second = await jupyter.server()
    assert (second.url, second.token) == (first.url, first.token)
    assert second.pid != first.pid
    assert (await asyncio.to_thread(rest, plain(second), "GET", "/api/status"))["kernels"] == 0


CHILD = """
import asyncio, sys, json, urllib.request
from pathlib import Path
from cellwright.jupyter.server.embedded import EmbeddedJupyter
async def main():
    jupyter = EmbeddedJupyter(Path(sys.argv[1]), Path(sys.argv[2]))
    server = await jupyter.server()
    headers = {"Authorization": f"token {server.token.reveal()}", "Content-Type": "application/json"}
    request = urllib.request.Request(server.url + "/api/kernels", b'{"name": "python3"}', headers, method="POST")
    urllib.request.urlopen(request, timeout=30).close()
    print(server.pid, flush=True)
    await asyncio.sleep(100)
asyncio.run(main())
"""


@requirement("embedded:end:killed")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_when_our_process_is_killed_nothing_is_left(
    how: signal.Signals, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    command = [sys.executable, "-c", CHILD, str(root), str(tmp_path / "state")]
    ours = start(command)
    try:
        assert ours.stdout is not None
        pid = int(await asyncio.to_thread(ours.stdout.readline))
        await until(lambda: len(family(pid)) > 1, "a kernel")
        guardian = psutil.Process(pid).parent()
        assert guardian is not None
        processes = [guardian, *family(pid)]
        ours.send_signal(how)
        await asyncio.to_thread(ours.wait, 10)
        await gone(processes)
    finally:
        with contextlib.suppress(ProcessLookupError):
            ours.kill()
        ours.wait()
        assert ours.stdout is not None
        ours.stdout.close()
    assert names(root) == []
