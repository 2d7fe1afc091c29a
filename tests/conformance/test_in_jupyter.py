"""The official conformance suite against cellwright inside Jupyter Server, judged by its exit code."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.proxy import adding_token
from conformance.test_conformance import run_suite, suite
from extension_support import ExtensionProcess
from requirements import requirement
from support import free_port

__all__ = ["suite"]  # a fixture


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtensionProcess]:
    with ExtensionProcess(
        tmp_path_factory.mktemp("conformance"),
        "--CellwrightExtension.options={'rate': 0}",
        variant="conformance.in_jupyter",
        collaboration=False,
    ) as process:
        yield process


async def conformance(suite: Path, server: ExtensionProcess, revision: str, results: Path) -> tuple[int, str]:
    port = free_port()
    async with adding_token(server.port, server.token, port):
        return await run_suite(suite, port, revision, results)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@requirement("extension:protocol:conformance")
def test_the_official_suite_passes_inside_jupyter(
    suite: Path,
    server: ExtensionProcess,
    revision: str,
    tmp_path: Path,
) -> None:
    code, output = asyncio.run(conformance(suite, server, revision, tmp_path))
    assert code == 0, output[-6000:]
