"""A person in a real JupyterLab, in a real browser, and an agent in the same notebook."""

import asyncio
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, async_playwright, expect

from browser import FLAGS, chromium
from jupyter_support import JupyterProcess, write_notebook
from requirements import requirement
from support import HttpServer, http_client, http_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

PATIENCE = 60_000
NAME = "Robin the Agent"
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
TYPED = "# a person types this"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterProcess]:
    with JupyterProcess(tmp_path_factory.mktemp("lab"), lab=True) as process:
        yield process


@pytest.fixture(scope="module")
def ours(lab: JupyterProcess, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    environ = {"CELLWRIGHT_JUPYTER_TOKEN": lab.token}
    flags = ("--jupyter-url", lab.url, "--rate", "0", "--agent-name", NAME)
    with http_server(tmp_path_factory.mktemp("ours"), *flags, environ=environ) as server:
        yield server


def cell(page: Page, index: int) -> Locator:
    """A cell of the notebook in front: Lab brings other tabs of an earlier visit back."""
    return page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell").nth(index)


def editor(page: Page, index: int) -> Locator:
    return cell(page, index).locator(".cm-content")


async def text_of(page: Page, index: int) -> str:
    """A cell's text as it is in the editor."""
    return await editor(page, index).evaluate(
        """content => Array.from(content.querySelectorAll('.cm-line')).map(line => {
            const copy = line.cloneNode(true);
            copy.querySelectorAll('.cm-widgetBuffer').forEach(one => one.remove());
            return copy.textContent.replace(/\\u200b/g, '');
        }).join('\\n')"""
    )


@requirement("browser:together")
async def test_a_person_and_an_agent_in_the_same_notebook(
    lab: JupyterProcess, ours: HttpServer, tmp_path: Path
) -> None:
    slow = "import time\nfor n in range(40):\n    print('tick', n, flush=True)\n    time.sleep(0.1)"
    write_notebook(lab.root, "shared.ipynb", ["alpha = 1\nomega = 9", slow], metadata=KERNEL)
    async with async_playwright() as playwright, http_client(ours) as client:

        async def do(tool: str, **arguments: Any) -> Any:
            result = await client.call_tool(tool, {"path": "shared.ipynb", **arguments})
            assert not result.is_error, result.content
            return result.structured_content

        launched = await playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        page = await launched.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(PATIENCE)
        await page.goto(f"{lab.url}/lab/tree/shared.ipynb?token={lab.token}", timeout=PATIENCE)
        await expect(editor(page, 0)).to_contain_text("omega = 9", timeout=PATIENCE)

        # The person types at the end of the first line while the agent changes the second line and runs the other cell.
        await editor(page, 0).locator(".cm-line").first.click()
        await page.keyboard.press("End")
        typing = asyncio.create_task(page.keyboard.type(TYPED, delay=60))
        run = asyncio.create_task(do("execute_nb_cells", ranges=[{"start": 1}], timeout=60))
        for number in range(5):
            old, new = f"omega = {'1' * number}9", f"omega = {'1' * (number + 1)}9"
            await do("edit_nb_cell", cell=0, old=old, new=new)
        await typing
        output = cell(page, 1).locator(".jp-OutputArea-output")
        await expect(output).to_contain_text("tick 3", timeout=PATIENCE)
        assert not run.done(), "the person saw output only after the run had ended"
        wanted = f"alpha = 1{TYPED}\nomega = 111119"
        assert (await do("read_nb_cells", ranges=[{"start": 0}]))["cells"][0]["source"] == wanted
        assert await text_of(page, 0) == wanted
        assert (await run)["status"] == "done"
        await expect(output).to_contain_text("tick 39", timeout=PATIENCE)

        # The agent is somebody: its name is at its cursor.
        await do("edit_nb_cell", cell=0, old="111119", new="2")
        await expect(page.locator(".jp-remote-userFlag-name", has_text=NAME)).to_be_attached(timeout=PATIENCE)
        await expect(editor(page, 0).locator("xpath=..").locator(".jp-remote-cursor")).to_be_attached(timeout=PATIENCE)
        await page.screenshot(path=os.environ.get("CELLWRIGHT_SCREENSHOT") or tmp_path / "together.png")

        # Undo takes back what the person did, and nothing of the agent's.
        await page.keyboard.press("Control+z")
        await expect(editor(page, 0)).not_to_contain_text(TYPED, timeout=PATIENCE)
        assert "omega = 2" in await text_of(page, 0)
        await launched.close()


@requirement("browser:same-variables")
async def test_lab_opened_after_the_agent_started_the_kernel_sees_the_same_variables(
    lab: JupyterProcess, ours: HttpServer
) -> None:
    write_notebook(lab.root, "later.ipynb", ["secret_of_the_agent = 6 * 7", "secret_of_the_agent + 1"], metadata=KERNEL)
    async with async_playwright() as playwright, http_client(ours) as client:
        first = await client.call_tool("execute_nb_cells", {"path": "later.ipynb", "ranges": [{"start": 0}]})
        assert not first.is_error
        launched = await playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        page = await launched.new_page()
        await page.goto(f"{lab.url}/lab/tree/later.ipynb?token={lab.token}", timeout=PATIENCE)
        await expect(editor(page, 1)).to_contain_text("secret_of_the_agent", timeout=PATIENCE)
        await expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=PATIENCE)
        await editor(page, 1).click()
        await page.keyboard.press("Shift+Enter")
        output = cell(page, 1).locator(".jp-OutputArea-output")
        await expect(output).to_contain_text("43", timeout=PATIENCE)
        await launched.close()


@requirement("stale:people")
async def test_what_a_person_edits_and_runs_in_lab_changes_the_states(lab: JupyterProcess, ours: HttpServer) -> None:
    write_notebook(lab.root, "states.ipynb", ["rate = 2", "total = rate * 10\ntotal", "'apart'"], metadata=KERNEL)
    async with async_playwright() as playwright, http_client(ours) as client:

        async def cells() -> list[dict[str, Any]]:
            result = await client.call_tool("read_nb_cells", {"path": "states.ipynb"})
            assert result.structured_content is not None, result.content
            return result.structured_content["cells"]

        async def comes(key: str, value: object) -> None:
            """Wait until a cell of the shared document has this, which the person sees already."""
            async with asyncio.timeout(PATIENCE / 1_000):
                while value not in [cell[key] for cell in await cells()]:  # noqa: ASYNC110 - it comes from the browser
                    await asyncio.sleep(0.05)

        async def states() -> list[str]:
            return [cell["state"] for cell in await cells()]

        assert not (await client.call_tool("execute_nb_cells", {"path": "states.ipynb", "cells": "all"})).is_error
        assert await states() == ["fresh", "fresh", "fresh"]
        launched = await playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        page = await launched.new_page()
        await page.goto(f"{lab.url}/lab/tree/states.ipynb?token={lab.token}", timeout=PATIENCE)
        await expect(editor(page, 1)).to_contain_text("total", timeout=PATIENCE)
        await expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=PATIENCE)
        await editor(page, 0).click()
        await page.keyboard.press("End")
        await page.keyboard.type("5")
        await expect(editor(page, 0)).to_contain_text("rate = 25")
        await comes("source", "rate = 25")
        assert await states() == ["edited", "stale", "fresh"]
        await page.keyboard.press("Control+Enter")
        await expect(cell(page, 0).locator(".jp-InputArea-prompt")).to_have_text("[4]:", timeout=PATIENCE)
        await comes("execution_count", 4)
        assert await states() == ["fresh", "stale", "fresh"]
        assert (await cells())[1]["because"] == "rate comes from cell 0 (c0), which ran again since"
        await editor(page, 1).click()
        await page.keyboard.press("Control+Enter")
        await expect(cell(page, 1).locator(".jp-OutputArea-output")).to_contain_text("250", timeout=PATIENCE)
        await comes("execution_count", 5)
        assert await states() == ["fresh", "fresh", "fresh"]
        await launched.close()
