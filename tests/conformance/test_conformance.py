"""The official conformance suite against our server, judged by its exit code.

Pass totals mean nothing: with no server at all the suite reports dozens of passes. Its exit code does; the last test shows that.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.proxy import adding_token
from npm_support import NODE, installed
from requirements import requirement
from support import TOKEN, clean_environ, free_port

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def suite() -> Path:
    """The suite, installed once from the pinned lock file."""
    return installed(HERE, "conformance") / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"


async def run_suite(suite: Path, port: int, revision: str, results: Path) -> tuple[int, str]:
    url = f"http://127.0.0.1:{port}/mcp"
    process = await asyncio.create_subprocess_exec(
        *(NODE, str(suite), "server", "--url", url, "--requirements", revision, "-o", str(results)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=results,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 150)
    except TimeoutError:
        process.kill()
        raise
    assert process.returncode is not None
    return process.returncode, output.decode()


async def conformance(suite: Path, revision: str, results: Path) -> tuple[int, str]:
    """The suite's verdict on our server with the fixture's names, behind our gate."""
    port = free_port()
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, str(HERE / "fixture.py"), TOKEN, str(port)),
        stdout=subprocess.PIPE,
        env=clean_environ(),
    )
    try:
        assert server.stdout is not None
        upstream = int(await asyncio.wait_for(server.stdout.readline(), 30))
        async with adding_token(upstream, TOKEN, port):
            return await run_suite(suite, port, revision, results)
    finally:
        server.terminate()
        await server.wait()


@pytest.mark.timeout(200)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@requirement("protocol:conformance:both-eras")
def test_the_official_suite_passes(suite: Path, revision: str, tmp_path: Path) -> None:
    code, output = asyncio.run(conformance(suite, revision, tmp_path))
    assert code == 0, output[-6000:]


@pytest.mark.timeout(200)
@requirement("protocol:conformance:can-fail")
def test_the_official_suite_fails_when_no_server_answers(suite: Path, tmp_path: Path) -> None:
    code, _ = asyncio.run(run_suite(suite, free_port(), "2026-07-28", tmp_path))
    assert code != 0
