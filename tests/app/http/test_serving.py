"""HTTP: health, metrics, and an orderly end."""

import asyncio
import signal
import socket
from pathlib import Path

import httpx2
import pytest

from cellwright.app.http.serving import listen
from cellwright.app.settings import Settings
from locations import PROBE
from requirements import requirement
from support import PATIENT_SECONDS, http_client, http_server, until


@requirement("http:health")
def test_health_is_open_and_metrics_are_not(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        assert httpx2.get(f"{server.base}/health", timeout=PATIENT_SECONDS).json() == {"status": "ok"}
        assert httpx2.get(f"{server.base}/metrics", timeout=PATIENT_SECONDS).status_code == 401
        text = httpx2.get(f"{server.base}/metrics", headers=server.headers, timeout=PATIENT_SECONDS).text
        assert 'cellwright_http_responses_total{status="401"} 1' in text
        assert "cellwright_info" in text


@pytest.mark.anyio
async def test_metrics_count_calls_by_outcome(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        async with http_client(server) as client:
            await client.call_tool("workspace_status", {})
            await client.call_tool("workspace_status", {"x": 1})
        text = httpx2.get(f"{server.base}/metrics", headers=server.headers, timeout=PATIENT_SECONDS).text
        assert 'cellwright_tool_calls_total{tool="workspace_status",outcome="ok"} 1' in text
        assert 'cellwright_tool_calls_total{tool="workspace_status",outcome="INVALID_ARGUMENT"} 1' in text
        assert 'cellwright_tool_seconds_count{tool="workspace_status"} 2' in text


@requirement("http:half-closed")
def test_who_has_said_all_still_gets_the_answer(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        for path, head in (("/health", "200"), ("/", "200"), ("/metrics", "401")):
            with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
                connection.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: connection.recv(65_536), b""))
            assert answer.startswith(f"HTTP/1.1 {head} ".encode())
            assert answer.partition(b"\r\n\r\n")[2]


@requirement("http:one-piece")
def test_head_and_body_of_an_answer_leave_together(tmp_path: Path) -> None:
    with (
        http_server(tmp_path) as server,
        socket.create_connection(("127.0.0.1", server.port), 10) as connection,
    ):
        for _ in range(20):
            connection.sendall(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
            assert connection.recv(65_536).endswith(b'\r\n\r\n{"status":"ok"}')


@requirement("http:no-delay")
def test_answers_are_not_held_back(tmp_path: Path) -> None:
    """Connections inherit the protocol of the listening socket; without it asyncio leaves Nagle's algorithm on."""
    bound = listen(Settings(root=tmp_path, port=0))
    try:
        assert bound.proto == socket.IPPROTO_TCP
    finally:
        bound.close()


@requirement("http:drain")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_sigterm_lets_a_call_finish(tmp_path: Path, mode: str) -> None:
    with http_server(tmp_path, "--toolsets", "all", program=(str(PROBE),)) as server:
        async with http_client(server, mode) as client:
            await client.list_tools()  # the client checks results against what it has listed; afterwards nobody answers
            begun = asyncio.Event()

            async def told(progress: float, total: float | None, message: str | None) -> None:
                del progress, total, message
                begun.set()

            arguments = {"tag": "finished", "steps": 20, "delay": 0.05}
            call = asyncio.create_task(client.call_tool("probe_slow", arguments, progress_callback=told))
            await asyncio.wait_for(begun.wait(), 20)
            server.process.send_signal(signal.SIGTERM)
            result = await asyncio.wait_for(call, 20)
            assert result.structured_content == {"text": "finished", "numbers": []}
        await until(lambda: server.process.poll() is not None, "the server ended")
        assert server.process.returncode == 0


@requirement("http:drain")
@pytest.mark.anyio
async def test_sigterm_ends_listening_clients_in_order(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        async with (
            http_client(server) as client,
            client.listen(resource_subscriptions=["cellwright://status"]) as heard,
        ):
            server.process.send_signal(signal.SIGTERM)
            with pytest.raises(StopAsyncIteration):
                await asyncio.wait_for(anext(heard), 10)
        await until(lambda: server.process.poll() is not None, "the server ended")
        assert server.process.returncode == 0
