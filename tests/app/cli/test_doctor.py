"""`doctor` against real Jupyter servers, healthy and not."""

import json
import os
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import copies
from jupyter_support import JupyterProcess
from requirements import requirement
from support import clean_environ, http_client, http_server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterProcess]:
    with JupyterProcess(tmp_path_factory.mktemp("shared")) as process:
        yield process


def doctor(tmp_path: Path, *flags: str, **environ: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    folders = ("--root", str(tmp_path), "--state-dir", str(tmp_path / "state"))
    done = copies.run("doctor", "--json", *folders, *flags, env=clean_environ(**environ))
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    return done.returncode, checks, done.stdout + done.stderr


@requirement("doctor:jupyter")
def test_a_healthy_server_is_found_healthy(shared: JupyterProcess, tmp_path: Path) -> None:
    server = shared.address
    code, checks, text = doctor(tmp_path, "--jupyter-url", server.url, CELLWRIGHT_JUPYTER_TOKEN=server.token)
    assert code == 0, text
    assert checks[f"Jupyter at {server.url}"]["state"] == "ok"
    assert "token accepted" in checks[f"Jupyter at {server.url}"]["detail"]
    assert checks["collaboration"]["state"] == "ok"
    assert checks["kernel"]["state"] == "ok"
    assert server.token not in text


@requirement("doctor:jupyter")
def test_a_wrong_token_is_found_and_not_shown(shared: JupyterProcess, tmp_path: Path) -> None:
    server = shared.address
    code, checks, text = doctor(tmp_path, "--jupyter-url", server.url, CELLWRIGHT_JUPYTER_TOKEN="wrong-canary-token")
    assert code == 1
    assert checks[f"Jupyter at {server.url}"]["state"] == "failed"
    assert checks[f"Jupyter at {server.url}"]["remedy"]
    assert "wrong-canary-token" not in text


@requirement("doctor:jupyter")
def test_a_server_that_is_not_there_is_found_missing(tmp_path: Path) -> None:
    code, checks, _ = doctor(tmp_path, "--jupyter-url", "http://127.0.0.1:9")
    assert code == 1
    assert checks["Jupyter at http://127.0.0.1:9"]["state"] == "failed"


@requirement("doctor:jupyter")
def test_missing_collaboration_is_found_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "jupyter").mkdir()
    process = JupyterProcess(tmp_path / "jupyter", collaboration=False)
    try:
        process.start()
        server = process.address
        code, checks, _ = doctor(tmp_path, "--jupyter-url", server.url, CELLWRIGHT_JUPYTER_TOKEN=server.token)
    finally:
        process.stop()
    assert code == 1
    assert checks["collaboration"]["state"] == "failed"
    assert "jupyter-collaboration" in checks["collaboration"]["remedy"]


@requirement("doctor:local")
def test_without_a_server_the_local_kernel_is_tried(tmp_path: Path) -> None:
    code, checks, text = doctor(tmp_path, JUPYTER_RUNTIME_DIR=str(tmp_path / "runtime"))
    assert code == 0, text
    assert "none is running" in checks["Jupyter servers"]["detail"]
    assert checks["kernel"]["detail"] == "python3 starts and stops"


@requirement("doctor:local")
def test_an_announced_server_that_does_not_answer_is_no_fault(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    announced = {"url": "http://127.0.0.1:9/", "token": "t", "pid": os.getpid(), "root_dir": str(tmp_path)}
    (runtime / f"jpserver-{os.getpid()}.json").write_text(json.dumps(announced), encoding="utf-8")
    code, checks, text = doctor(tmp_path, JUPYTER_RUNTIME_DIR=str(runtime))
    assert code == 0, text
    assert checks["Jupyter at http://127.0.0.1:9"]["state"] == "absent"


@requirement("doctor:tool")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_gets_the_same_report_with_progress(shared: JupyterProcess, tmp_path: Path, mode: str) -> None:
    server = shared.address
    environ = {"CELLWRIGHT_JUPYTER_TOKEN": server.token}
    seen: list[str] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        seen.append(message or "")

    with http_server(tmp_path, "--jupyter-url", server.url, environ=environ) as ours:
        async with http_client(ours, mode) as client:
            result = await client.call_tool("workspace_doctor", {}, progress_callback=told)
    assert not result.is_error
    assert result.structured_content is not None
    assert result.structured_content["ok"] is True
    assert server.token not in str(result)
    assert seen[0] == "versions"
    assert seen[-1] == "done"


@requirement("doctor:jupyter")
def test_a_server_that_takes_connections_and_is_silent_is_not_waited_for(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        about = {"pid": os.getpid(), "url": url, "token": "t", "root_dir": str(tmp_path), "base_url": "/"}
        (runtime / f"jpserver-{os.getpid()}.json").write_text(json.dumps(about), encoding="utf-8")
        code, checks, text = doctor(tmp_path, JUPYTER_RUNTIME_DIR=str(runtime))
    found = checks[f"Jupyter at {url.rstrip('/')}"]
    assert (code, found["state"]) == (0, "absent"), text
    assert "does not answer" in found["detail"]
