"""A person at the page: a browser context that came in by the link and writes down everything suspicious."""

from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

from mcp import Client
from playwright.async_api import Browser, Page, expect

from jupyter_support import JupyterProcess
from support import TOKEN, HttpServer, free_port, http_server

PATIENCE = 60_000
BODIES = ".source-box > *"
"""What stands in for each cell once it is filled."""
RECORD = """
window.violations = [];
document.addEventListener("securitypolicyviolation", event => violations.push(event.violatedDirective + " " + event.blockedURI));
"""

expect.set_options(timeout=PATIENCE)


class Serving:
    """`cellwright serve` beside a Jupyter server, at the same address however often it is started."""

    def __init__(self, jupyter: JupyterProcess, folder: Path) -> None:
        self._jupyter = jupyter
        self._folder = folder
        self._port = str(free_port())
        self._stack = ExitStack()
        self.server = self._start()

    def _start(self) -> HttpServer:
        flags = (
            "--jupyter-url",
            self._jupyter.url,
            "--port",
            self._port,
            "--rate",
            "0",
            "--toolsets",
            "default,scratch",
        )
        token = {"CELLWRIGHT_JUPYTER_TOKEN": self._jupyter.token}
        return self._stack.enter_context(http_server(self._folder, *flags, environ=token))

    def stop(self) -> None:
        self._stack.close()

    def start_again(self) -> None:
        self.server = self._start()


@dataclass
class Sight:
    """A page, and everything suspicious that it did."""

    page: Page
    requests: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])
    _measuring: Any = None

    async def violations(self) -> list[str]:
        return await self.page.evaluate("() => window.violations")

    async def processor_seconds(self) -> float:
        """What the page's own thread has worked: how busy the machine is with others does not count."""
        if self._measuring is None:
            self._measuring = await self.page.context.new_cdp_session(self.page)
            await self._measuring.send("Performance.enable", {"timeDomain": "threadTicks"})
        metrics = cast("list[dict[str, Any]]", (await self._measuring.send("Performance.getMetrics"))["metrics"])
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


@asynccontextmanager
async def looking(
    chrome: Browser,
    server: HttpServer,
    uri: str = "",
    cell: str = "",
    *,
    size: tuple[int, int] = (1300, 900),
    still: bool = False,
    permissions: tuple[str, ...] = (),
) -> AsyncGenerator[Sight]:
    """A person who came in by the link, at a document if one is named. `still`: they want no motion."""
    context = await chrome.new_context(
        viewport={"width": size[0], "height": size[1]},
        reduced_motion="reduce" if still else "no-preference",
        permissions=permissions,
    )
    try:
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        sight = Sight(page)
        await page.add_init_script(RECORD)
        page.on("request", lambda request: sight.requests.append(request.url))
        page.on("pageerror", lambda error: sight.complaints.append(str(error)))
        page.on("console", lambda message: sight.complaints.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: sight.complaints.append(f"dialog {dialog.message}"))
        page.on("popup", lambda popup: sight.complaints.append(f"window {popup.url}"))
        place = {name: value for name, value in (("uri", uri), ("cell", cell)) if value}
        await page.goto(f"{server.base}/#{urlencode({'token': TOKEN, **place})}")
        await expect(page.locator("#live-text")).to_have_text("live")
        yield sight
    finally:
        await context.close()


async def do(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


def text_cell(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def code_cell(name: str, source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": "code", "id": name, "metadata": {}, "source": source}
    return {**cell, "outputs": list(outputs), "execution_count": None}


def display(**data: Any) -> dict[str, Any]:
    """An output by its forms, with `__` for the slash of their names."""
    forms = {name.replace("__", "/"): value for name, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": forms}
