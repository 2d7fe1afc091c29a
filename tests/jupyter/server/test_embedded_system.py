"""The embedded server where its guardian is killed, where interpreters are noisy, and where Jupyter's own folder cannot be made."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cellwright.jupyter.server.embedded import RUNTIME_NAME, EmbeddedFailed, EmbeddedJupyter
from jupyter_support import JupyterServer
from kernel_support import rest, until
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@requirement("embedded:end:guardian-killed")
@pytest.mark.usefixtures("own_folders")
async def test_without_its_guardian_the_server_ends_with_its_kernels(tmp_path: Path) -> None:
    jupyter = EmbeddedJupyter(tmp_path, tmp_path / "state")
    try:
        server = await jupyter.server()
        plain = JupyterServer(server.url, server.token.reveal(), server.root)
        await asyncio.to_thread(rest, plain, "POST", "/api/kernels", {"name": "python3"})
        process = psutil.Process(server.pid)
        await until(lambda: len(process.children()) > 0, "a kernel")
        family = [process, *process.children(recursive=True)]
        guardian = process.parent()
        assert guardian is not None
        os.kill(guardian.pid, signal.SIGKILL)
        await until(lambda: not any(alive(one) for one in family), f"the end of {family}", 30)
        await until(lambda: jupyter.running is None, "that it is noticed")
    finally:
        await jupyter.stop()


@requirement("embedded:start:noise")
@pytest.mark.usefixtures("own_folders")
async def test_a_noisy_interpreter_does_not_keep_it_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("print('{\"port\": 1, \"pid\": 1}')\nprint('hello')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(site))
    jupyter = EmbeddedJupyter(tmp_path, tmp_path / "state")
    try:
        assert (await jupyter.server()).pid > 1
    finally:
        await jupyter.stop()


@requirement("odd:read-only-home")
async def test_where_jupyter_cannot_keep_its_files_they_are_kept_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", "/sys/jupyter")
    jupyter = EmbeddedJupyter(tmp_path, tmp_path / "state")
    try:
        server = await jupyter.server()
        assert (tmp_path / "state" / RUNTIME_NAME / f"jpserver-{server.pid}.json").is_file()
    finally:
        await jupyter.stop()


@requirement("odd:read-only-home")
async def test_a_process_that_cannot_be_started_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "no such program"))
    with pytest.raises(EmbeddedFailed, match="could not be started"):
        await EmbeddedJupyter(tmp_path, tmp_path / "state").server()
    assert list((tmp_path / "state").iterdir()) == []


@requirement("embedded:start:light")
def test_no_grammar_of_addresses_is_made() -> None:
    program = (
        "import sys; from cellwright.jupyter.server.embedded_server import leave_out_grammar; {}"
        "import jupyter_server.serverapp; print('lark' in sys.modules)"
    )
    for first, made in (("", "True"), ("leave_out_grammar(); ", "False")):
        done = subprocess.run(
            [sys.executable, "-c", program.format(first)], capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout.split() == [made]
