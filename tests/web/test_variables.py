"""The variables of a kernel on the page, in a real browser."""

from typing import Any

import httpx2
import pytest
from playwright.async_api import Browser, expect

from cellwright.app.http.tokens import TokenStore
from cellwright.core.types import Scope
from jupyter_support import JupyterProcess, write_notebook
from page_support import code_cell, do, looking
from requirements import requirement
from support import PATIENT_SECONDS, HttpServer, http_client

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
SOURCE = """
import pandas as pd
import matplotlib; matplotlib.use('agg')
from matplotlib.figure import Figure
df = pd.DataFrame({'city': ['Oslo', 'Rome', None], 'people': [717710, 2748109, 5], '<b>bold</b>': [1.5, None, 2.0]})
config = {'db': {'ports': [5432, 5433]}, 'debug': False}
markup = '<img src=x onerror=alert(1)>'
figure = Figure(figsize=(4, 3)); figure.subplots().plot([1, 3, 2])
"""


def notebook(jupyter: JupyterProcess, name: str) -> str:
    write_notebook(
        jupyter.root, name, [], cells=[code_cell("a", SOURCE), code_cell("b", "import time; time.sleep(600)")]
    )
    return f"jupyter://{name}"


async def answer(server: HttpServer, uri: str, token: str | None = None) -> httpx2.Response:
    headers = {"authorization": f"Bearer {token}"} if token else server.headers
    async with httpx2.AsyncClient(timeout=PATIENT_SECONDS) as client:
        return await client.get(f"{server.base}/api/variables", params={"uri": uri}, headers=headers)


@requirement("variables:page")
@pytest.mark.parametrize("size", [(1300, 900), (360, 700)], ids=["desk", "phone"])
async def test_variables_are_asked_for_when_they_are_opened(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess, size: tuple[int, int]
) -> None:
    uri = notebook(jupyter, f"variables-{size[0]}.ipynb")
    async with http_client(ours) as agent:
        await do(agent, "execute_nb_cells", path=uri.removeprefix("jupyter://"), ranges=[{"start": 0}])
    async with looking(chrome, ours, uri, size=size) as sight:
        page = sight.page
        await expect(page.locator("#cells .cell").first).to_be_visible()
        assert not [url for url in sight.requests if "api/variables" in url]
        await page.get_by_text("Variables", exact=True).click()
        table = page.get_by_role("group", name="Variables")
        await expect(table.get_by_role("row").filter(has_text="df")).to_contain_text("(3, 3)")
        await expect(table).to_contain_text("<img src=x onerror=alert(1)>")
        await table.get_by_role("button", name="df", exact=True).click()
        columns = page.get_by_role("group", name="Columns")
        await expect(columns).to_contain_text("<b>bold</b>")
        await expect(columns.get_by_role("row").filter(has_text="people")).to_contain_text("5 to 2748109")
        await expect(page.get_by_role("group", name="First rows")).to_contain_text("'Oslo'")
        await table.get_by_role("button", name="config").click()
        await expect(page.locator(".variables .parts").first).to_contain_text("5432")
        await table.get_by_role("button", name="figure", exact=True).click()
        picture = page.locator(".variables img")
        await expect(picture).to_be_visible()
        assert await picture.evaluate("async (image) => { await image.decode(); return image.naturalWidth }") == 400
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert (await sight.violations(), sight.complaints) == ([], [])


@requirement("variables:page:scope")
async def test_the_page_starts_no_kernel_and_waits_for_none(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    uri = notebook(jupyter, "quiet.ipynb")
    path = uri.removeprefix("jupyter://")
    async with looking(chrome, ours, uri) as sight, http_client(ours) as agent:
        summary = sight.page.get_by_text("Variables", exact=True)
        await summary.click()
        await expect(sight.page.locator("#variables-body")).to_contain_text("no running kernel")
        stat: Any = await do(agent, "get_nb_stat", path=path)
        assert stat["kernel"] is None
        begun = await do(agent, "execute_nb_cells", path=path, ranges=[{"start": 1}], timeout=0)
        await summary.click()
        await summary.click()
        await expect(sight.page.locator("#variables-body")).to_contain_text("busy")
        await do(agent, "cancel_execution", execution_id=begun["execution_id"])


@requirement("variables:page:scope")
async def test_variables_need_the_scope_to_run(ours: HttpServer, jupyter: JupyterProcess) -> None:
    uri = notebook(jupyter, "scoped.ipynb")
    assert (await answer(ours, uri)).status_code == 404
    tokens = TokenStore(ours.log.parent / "state")
    token = tokens.create("no runner", frozenset({Scope.READ, Scope.WRITE}))[1].reveal()
    assert (await answer(ours, uri, token)).status_code == 403
    assert (await answer(ours, "scratch://x")).status_code == 400
