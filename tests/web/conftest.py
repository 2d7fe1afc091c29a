"""What tests of the page share, once for each module: a Jupyter server, cellwright in front of it, a browser."""

from collections.abc import AsyncGenerator, Generator

import pytest
from playwright.async_api import Browser, async_playwright

from browser import FLAGS, chromium
from jupyter_support import JupyterProcess
from page_support import Serving
from support import HttpServer


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterProcess]:
    with JupyterProcess(tmp_path_factory.mktemp("jupyter")) as process:
        yield process


@pytest.fixture(scope="module")
def serving(jupyter: JupyterProcess, tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    started = Serving(jupyter, tmp_path_factory.mktemp("ours"))
    yield started
    started.stop()


@pytest.fixture
def ours(serving: Serving) -> HttpServer:
    return serving.server


@pytest.fixture(scope="module")
async def chrome() -> AsyncGenerator[Browser]:
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield launched
        await launched.close()
