"""What several tests need: real servers as processes, real clients, bounded waits."""

import asyncio
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client import ClientExtension
from mcp.client.streamable_http import streamable_http_client

import copies

TOKEN = "test-token-0123456789-abcdefghijklmnopqrstuvwxyz"
WAIT_SECONDS = 20.0
PATIENT_SECONDS = 60.0
"""For an answer that comes at once where the machine has nothing else to do; the client's own five seconds are a busy machine's."""


def clean_environ(**more: str) -> dict[str, str]:
    """This process's environment without settings that a developer may have."""
    return {key: value for key, value in os.environ.items() if not key.startswith("CELLWRIGHT_")} | more


def wait_until(condition: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Return as soon as the condition holds; fail with `what` if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


async def until(condition: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """`wait_until` that leaves the event loop free."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.01)


def free_port() -> int:
    """A port that nobody listens on, and that stays free: the system gives none below 32,768 to outgoing connections, and our
    kernels take theirs from 20,000 on."""
    while True:
        port = random.randrange(10_000, 20_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass(frozen=True)
class HttpServer:
    """A `cellwright serve` process."""

    process: subprocess.Popen[str]
    url: str
    token: str
    log: Path

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@contextmanager
def http_server(
    tmp_path: Path,
    *flags: str,
    environ: Mapping[str, str] | None = None,
    token: str = TOKEN,
    program: Sequence[str] = ("-m", "cellwright", "serve"),
) -> Generator[HttpServer]:
    """A real server process on a free port; its log is kept beside it."""
    log = tmp_path / f"server-{time.monotonic_ns()}.log"
    state = str(tmp_path / "state")
    command = [sys.executable, *program, "--port", "0", "--state-dir", state, *flags]
    if "--root" not in flags:
        (tmp_path / "root").mkdir(exist_ok=True)
        command += ["--root", str(tmp_path / "root")]
    with log.open("w", encoding="utf-8") as errors:
        env = clean_environ(**({"CELLWRIGHT_TOKEN": token} if token else {}), **(environ or {}))
        process = copies.start(copies.CELLWRIGHT, command, env=env, errors=errors)
    try:
        yield HttpServer(process, _address(process, log), token, log)
    finally:
        stop(process)


def _address(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"MCP\s+(http\S+)", line):
            return found[1]
    raise AssertionError(f"the server did not start: {log.read_text(encoding='utf-8')}")


def stop(process: subprocess.Popen[str]) -> int:
    """End a process that a test started, politely first."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
    if process.stdout is not None:
        process.stdout.close()
    return process.wait(15)


@asynccontextmanager
async def http_client(
    server: HttpServer,
    mode: str = "auto",
    headers: Mapping[str, str] | None = None,
    on_message: Callable[[Any], None] = lambda _message: None,
    extensions: Sequence[ClientExtension] = (),
) -> AsyncGenerator[Client]:
    """The official client, over HTTP, in either era of the protocol (`auto` or `legacy`)."""

    async def handle(message: Any) -> None:
        on_message(message)

    timeout = httpx2.Timeout(30, read=120)
    async with httpx2.AsyncClient(headers={**server.headers, **(headers or {})}, timeout=timeout) as http:
        transport = streamable_http_client(server.url, http_client=http)
        async with Client(
            transport,
            mode=mode,  # pyright: ignore[reportArgumentType]
            message_handler=handle,
            extensions=extensions,
            cache=None,
        ) as client:
            yield client


def stdio_command(tmp_path: Path, *flags: str) -> list[str]:
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    return [sys.executable, "-m", "cellwright", "--root", str(root), "--state-dir", str(tmp_path / "state"), *flags]


@asynccontextmanager
async def stdio_client(tmp_path: Path, *flags: str, mode: str = "auto") -> AsyncGenerator[Client]:
    """The official client, over stdio, in either era of the protocol."""
    command, *arguments = copies.stand_in(stdio_command(tmp_path, *flags))
    parameters = StdioServerParameters(command=command, args=arguments, env=clean_environ())
    async with Client(parameters, mode=mode, cache=None) as client:  # pyright: ignore[reportArgumentType]
        yield client
