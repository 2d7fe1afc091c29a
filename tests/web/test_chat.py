"""The notebook view in a chat: the official client before a real server, and a host that shows the view in a real browser."""

import base64
import re
import socket
import struct
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client import ClientExtension, advertise
from playwright.async_api import Browser, Frame, Page, Route, expect

from cellwright.core.resources import NOTEBOOK_VIEW, VIEW_MIME
from cellwright.web.chat import notebook_view
from jupyter_support import JupyterProcess, write_notebook
from page_support import PATIENCE, RECORD, code_cell, display, do, text_cell
from requirements import requirement
from support import HttpServer, http_client
from xss_payloads import CANARY, PAYLOADS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

ERAS = ["auto", "legacy"]
HOST, VIEW = "http://host.test/", "http://view.test/"
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "media-src 'self' data:; connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'self'"
)
"""What the specification has hosts enforce for a view that names no domains."""
HOST_PAGE = """<!doctype html><meta charset="utf-8"><style>body { margin: 0 } iframe { border: 0; width: 100% }</style>
<iframe sandbox="allow-scripts"></iframe>
<script>
const frame = document.querySelector("iframe");
window.heard = [];
window.send = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
const ANSWERS = {
    "ui/initialize": ({ protocolVersion }) => ({ protocolVersion, hostInfo: { name: "host", version: "1" }, ...window.about }),
    "ui/open-link": () => ({}),
    "ui/request-display-mode": ({ mode }) => ({ mode }),
    "tools/call": async (params) => {
        const result = await callTool(params);
        send({ method: "ui/notifications/tool-result", params: result });  // the specification lets hosts announce these too
        return result;
    },
};
addEventListener("message", async ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    heard.push(data);
    if (data.method === "ui/notifications/size-changed") frame.style.height = data.params.height + "px";
    if (data.method && data.id !== undefined) send({ id: data.id, result: await ANSWERS[data.method](data.params) });
});
</script>"""


def views_of(mime_types: object) -> ClientExtension:
    return advertise("io.modelcontextprotocol/ui", {"mimeTypes": mime_types})


SHOWS_VIEWS = views_of([VIEW_MIME])


@dataclass
class Chat:
    """A host with one view in it, and a connection to the server behind it."""

    page: Page
    client: Client
    requests: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])

    @property
    def view(self) -> Frame:
        return self.page.frames[1]

    async def heard(self, method: str) -> list[dict[str, Any]]:
        """What the view has said to its host so far."""
        return [one for one in await self.page.evaluate("() => heard") if one.get("method") == method]

    async def tell(self, method: str, **params: Any) -> None:
        await self.page.evaluate("message => send(message)", {"method": f"ui/notifications/{method}", "params": params})

    async def ask(self, method: str, number: int) -> dict[str, Any]:
        """The view's answer to a request of the host."""
        await self.page.evaluate("message => send(message)", {"id": number, "method": method, "params": {}})
        waited = await self.page.wait_for_function("id => heard.find(one => one.id === id && !one.method)", arg=number)
        return await waited.json_value()

    async def use(self, tool: str, **arguments: Any) -> None:
        """What an agent's call looks like to the view."""
        await self.tell("tool-input", arguments=arguments)
        await self.tell("tool-result", **await self.call({"name": tool, "arguments": arguments}))

    async def call(self, params: dict[str, Any]) -> dict[str, Any]:
        result = await self.client.call_tool(params["name"], params["arguments"])
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def violations(self) -> list[str]:
        return await self.view.evaluate("() => window.violations")


@asynccontextmanager
async def chat(chrome: Browser, server: HttpServer, *, tools: bool = True, **context: Any) -> AsyncGenerator[Chat]:
    """A host that has shown the view it read from the server. `tools`: it calls tools for views."""
    names = ("openLinks", "serverTools") if tools else ("openLinks",)
    about: dict[str, dict[str, Any]] = {"hostCapabilities": {name: {} for name in names}, "hostContext": context}
    browsing = await chrome.new_context(viewport={"width": 760, "height": 1000})
    try:
        async with http_client(server, extensions=[SHOWS_VIEWS]) as client:
            page = await browsing.new_page()
            page.set_default_timeout(PATIENCE)
            shown = Chat(page, client)
            html = (await client.read_resource(NOTEBOOK_VIEW)).contents[0].model_dump()["text"]

            async def serve(route: Route) -> None:
                body, policy = (html, POLICY) if route.request.url == VIEW else (HOST_PAGE, "")
                await route.fulfill(body=body, content_type="text/html", headers={"Content-Security-Policy": policy})

            for address in (HOST, VIEW):
                await page.route(address, serve)
            page.on("request", lambda request: shown.requests.append(request.url))
            page.on("pageerror", lambda error: shown.complaints.append(str(error)))
            page.on("console", lambda said: shown.complaints.append(said.text) if said.type == "error" else None)
            page.on("dialog", lambda dialog: shown.complaints.append(f"dialog {dialog.message}"))
            page.on("popup", lambda popup: shown.complaints.append(f"window {popup.url}"))
            await page.expose_function("callTool", shown.call)  # pyright: ignore[reportUnknownMemberType] - its type names no result
            await page.add_init_script(RECORD)
            await page.goto(HOST)
            await page.evaluate(f"about => {{ window.about = about; frame.src = '{VIEW}'; }}", about)
            await page.wait_for_function("() => heard.some(one => one.method === 'ui/notifications/initialized')")
            yield shown
    finally:
        await browsing.close()


def png(width: int, height: int, colour: tuple[int, int, int]) -> str:
    """A picture of one colour, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(colour) * width) * height)
    made = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return base64.b64encode(made).decode()


# -- without a browser -------------------------------------------------------------------------------------------------------


@requirement("chat:offered")
@pytest.mark.parametrize("mode", ERAS)
async def test_clients_that_show_views_are_told_of_the_notebook_view(ours: HttpServer, mode: str) -> None:
    async with http_client(ours, mode, extensions=[SHOWS_VIEWS]) as client:
        views = {tool.name: tool.meta for tool in (await client.list_tools()).tools if tool.meta}
        told = {"ui": {"resourceUri": NOTEBOOK_VIEW}}
        assert views == {"read_nb_cells": told, "execute_nb_cells": told}
        (content,) = (await client.read_resource(NOTEBOOK_VIEW)).contents
        dumped = content.model_dump(mode="json", by_alias=True)
        assert (dumped["uri"], dumped["mimeType"]) == (NOTEBOOK_VIEW, "text/html;profile=mcp-app")
        assert dumped["_meta"] == {"ui": {"prefersBorder": True}}
        assert dumped["text"] == notebook_view()
        with pytest.raises(MCPError) as refused:
            await client.read_resource("ui://cellwright/another")
        assert refused.value.error.data["code"] == "NOT_FOUND"


@requirement("chat:fallback")
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("declared", [[], [views_of(["text/html"])], [views_of(5)]], ids=["none", "other", "nonsense"])
async def test_other_clients_see_nothing_of_views_and_get_the_same_results(
    ours: HttpServer, jupyter: JupyterProcess, tmp_path: Path, mode: str, declared: list[ClientExtension]
) -> None:
    drawn = display(image__png=png(4, 4, (9, 9, 9)), text__plain="a picture")
    path = f"{tmp_path.name}.ipynb"
    write_notebook(jupyter.root, path, [], cells=[text_cell("m0", "# Same"), code_cell("c0", "x", drawn)])
    async with (
        http_client(ours, mode, extensions=[SHOWS_VIEWS]) as shows,
        http_client(ours, mode, extensions=declared) as plain,
    ):
        assert [tool.name for tool in (await plain.list_tools()).tools if tool.meta] == []
        one, other = [await client.call_tool("read_nb_cells", {"path": path}) for client in (shows, plain)]
        assert one.model_dump() == other.model_dump()
        assert "# Same" in other.content[0].model_dump()["text"]
        assert other.content[1].model_dump()["type"] == "image"


@requirement("chat:alone")
def test_the_view_is_one_small_document_that_needs_nothing_else() -> None:
    html = notebook_view()
    assert len(html.encode()) <= 64_000
    assert html.lower().count("</script") == html.lower().count("</style") == 1
    assert re.findall(r"^\s*(?:import|export)\b.*", html, re.MULTILINE) == []
    assert (
        re.findall(r"<link|<base|<[^>]+\ssrc=|@import|url\(|\bfetch\(|XMLHttp|WebSocket|EventSource|import\(", html)
        == []
    )
    made_of_text = r"innerHTML|outerHTML|AdjacentHTML|setHTML|document\.write|Fragment|DOMParser|srcdoc|\beval\b|new Function|cssText"
    assert re.findall(made_of_text, html) == []


# -- with one ----------------------------------------------------------------------------------------------------------------

PICTURE = f"""from IPython.display import Image, display
import base64
display(Image(base64.b64decode("{png(240, 90, (12, 107, 102))}")))"""


@requirement("chat:run")
@requirement("chat:refresh")
@requirement("chat:no-tools")
async def test_a_run_is_shown_in_its_notebook_and_followed_to_its_end(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    waits = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go-on'):\n    time.sleep(0.05)\nprint('gone on')"
    code = [waits, PICTURE, "{'rows': 3}", "1 / 0", "never = 1"]
    cells = [
        text_cell("m0", "# Sales" + "\n\nBy *month*." * 30),
        *(code_cell(f"c{n}", one) for n, one in enumerate(code)),
    ]
    write_notebook(jupyter.root, "chat/run.ipynb", [], cells=cells)
    async with chat(chrome, ours, theme="light") as shown, http_client(ours) as agent:
        view = shown.view
        await shown.use("execute_nb_cells", path="chat/run.ipynb", ranges=[{"start": 1, "end": 6}], timeout=0.5)
        await expect(view.get_by_role("heading", name="Sales")).to_be_visible()
        await expect(view.get_by_role("heading", name="chat/run.ipynb")).to_be_visible()
        await expect(view.locator("[data-cell=c0].running.marked .outputs")).to_contain_text("begun")
        await expect(view.locator(".marked")).to_have_count(5)
        await expect(view.locator("[data-cell=c0]")).to_be_in_viewport()
        assert await view.evaluate("() => scrollY") > 0

        (jupyter.root / "chat" / "go-on").touch()
        await expect(view.locator("[data-cell=c0]:not(.running) .outputs")).to_contain_text("gone on")
        drawn = view.locator("[data-cell=c1] img")
        await expect(drawn).to_be_visible()
        assert await drawn.evaluate("image => image.decode().then(() => image.naturalWidth)") == 240
        await expect(view.locator("[data-cell=c2] .outputs")).to_have_text("{'rows': 3}")
        failure = view.locator("[data-cell=c3] .failure")
        await expect(failure).to_contain_text("ZeroDivisionError: division by zero")
        await failure.locator("summary").click()
        await expect(failure.locator("pre")).to_contain_text("1 / 0")
        await expect(view.locator("[data-cell=c3] .count")).to_have_text("4")

        # It ends with the run, and what is announced of the view's own reading is not read again.
        refresh = view.get_by_role("button", name="Refresh")
        await expect(view.get_by_role("status")).to_have_text("Stopped at an error.")
        await expect(refresh).to_be_enabled()
        asked = len(await shown.heard("tools/call"))
        await do(agent, "edit_nb_cell", path="chat/run.ipynb", cell="c4", old="never = 1", new="edited = 2")
        await refresh.click()
        await expect(view.locator("[data-cell=c4] .source")).to_have_text("edited = 2")
        await expect(failure.locator("pre")).to_be_visible()
        assert len(await shown.heard("tools/call")) == asked + 1
        assert (await shown.violations(), shown.complaints) == ([], [])

    async with chat(chrome, ours, tools=False) as shown:
        await shown.use("execute_nb_cells", path="chat/run.ipynb", ranges=[{"start": 3}])
        await expect(shown.view.locator("[data-cell=c2] .outputs")).to_have_text("{'rows': 3}")
        await expect(shown.view.get_by_role("status")).to_have_text("Ran 1 cell.")
        await expect(shown.view.locator(".cell")).to_have_count(1)
        assert await shown.heard("tools/call") == []


@requirement("chat:whole")
async def test_a_notebook_of_many_pages_and_pictures_is_shown_whole(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    drawn = [code_cell(f"p{n}", "draw()", display(image__png=png(40 + n, 8, (200, 80, 20)))) for n in range(12)]
    lines = "\n".join(f"value_{n} = {n}  # {'x' * 40}" for n in range(60))
    long = [code_cell(f"k{n}", lines) for n in range(12)]
    write_notebook(jupyter.root, "chat/whole.ipynb", [], cells=[*drawn, *long])
    async with chat(chrome, ours) as shown:
        await shown.use("read_nb_cells", path="chat/whole.ipynb", ranges=[{"start": 3}])
        view = shown.view
        await expect(view.locator(".cell")).to_have_count(24)
        widths = await view.locator("img").evaluate_all(
            "all => Promise.all(all.map(async one => (await one.decode(), one.naturalWidth)))"
        )
        assert widths == [40 + n for n in range(12)]
        assert await view.locator("[data-cell=k11] .source").inner_text() == lines
        sizes = [one["params"]["height"] for one in await shown.heard("ui/notifications/size-changed")]
        assert sizes[-1] <= 800 < await view.evaluate("() => document.documentElement.scrollHeight")


@requirement("chat:host")
async def test_the_view_and_its_host_get_on_with_each_other(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    cells = [
        text_cell("m0", "See [the notes](https://example.org/notes)."),
        code_cell("c0", "x = 'unbroken" + "n" * 900 + "'"),
    ]
    write_notebook(jupyter.root, "chat/host.ipynb", [], cells=cells)
    modes = ["inline", "fullscreen"]
    async with chat(chrome, ours, theme="dark", displayMode="inline", availableDisplayModes=modes) as shown:
        view = shown.view
        ground = "() => getComputedStyle(document.body).backgroundColor"
        assert await view.evaluate(ground) == "rgb(23, 22, 20)"
        await shown.tell(
            "host-context-changed", theme="light", safeAreaInsets={"top": 0, "right": 0, "bottom": 44, "left": 0}
        )
        await view.wait_for_function(f"() => ({ground})() === 'rgb(253, 252, 250)'")
        assert await view.evaluate("() => getComputedStyle(document.body).paddingBottom") == "56px"

        await shown.use("read_nb_cells", path="chat/host.ipynb")
        await expect(view.locator(".cell")).to_have_count(2)
        whole = await view.evaluate("() => Math.ceil(document.documentElement.getBoundingClientRect().height)")
        await shown.page.wait_for_function("whole => frame.getBoundingClientRect().height === whole", arg=whole)
        assert await view.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0

        await view.get_by_role("link", name="the notes").click()
        await view.get_by_role("button", name="Larger").click()
        await expect(view.get_by_role("button", name="Smaller")).to_be_visible()
        said = {method: await shown.heard(method) for method in ("ui/open-link", "ui/request-display-mode")}
        assert [one["params"] for one in said["ui/open-link"]] == [{"url": "https://example.org/notes"}]
        assert [one["params"] for one in said["ui/request-display-mode"]] == [{"mode": "fullscreen"}]

        assert (await shown.ask("ping", 900))["result"] == {}
        assert (await shown.ask("ui/unheard-of", 901))["error"]["code"] == -32601
        assert (await shown.ask("ui/resource-teardown", 902))["result"] == {}
        assert (shown.requests, shown.complaints) == ([HOST, VIEW], [])


@requirement("chat:no-tools")
async def test_without_tools_the_view_shows_what_the_result_holds(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    drawn = display(image__png=png(60, 20, (90, 74, 156)), text__plain="a picture")
    write_notebook(
        jupyter.root, "chat/alone.ipynb", [], cells=[text_cell("m0", "# Alone"), code_cell("c0", "6 * 7", drawn)]
    )
    async with chat(chrome, ours, tools=False) as shown:
        view = shown.view
        await shown.use("read_nb_cells", path="chat/alone.ipynb")
        await expect(view.get_by_role("heading", name="Alone", exact=True)).to_be_visible()
        await expect(view.locator("[data-cell=c0] .source")).to_have_text("6 * 7")
        await expect(view.locator("[data-cell=c0] img")).to_be_visible()
        await expect(view.get_by_role("button")).to_have_count(0)
        assert await shown.heard("tools/call") == []


@requirement("chat:failure")
async def test_what_failed_is_said(chrome: Browser, ours: HttpServer) -> None:
    async with chat(chrome, ours) as shown:
        status = shown.view.get_by_role("status")
        await shown.tell("tool-cancelled", reason="user")
        await expect(status).to_have_text("The call was cancelled.")
        await shown.use("read_nb_cells", path="chat/missing.ipynb")
        await expect(status).to_contain_text("missing.ipynb")
        assert await shown.heard("tools/call") == []


def hostile_cells(canary: str) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = []
    for number, payload in enumerate(PAYLOADS[::2]):
        text = payload.replace(CANARY, canary).replace("canary.invalid", canary.removeprefix("http://"))
        raised = {"output_type": "error", "ename": text, "evalue": text, "traceback": [text]}
        forms = (
            {"text__html": text},
            {"text__markdown": text},
            {"image__png": text},
            {"application__json": {text: text}},
        )
        printed = {"output_type": "stream", "name": "stderr", "text": text}
        cells += (
            text_cell(f"m{number}", text),
            code_cell(f"c{number}", text, printed, raised, *(display(**one) for one in forms)),
        )
    return cells


@requirement("chat:hostile")
async def test_a_hostile_notebook_runs_nothing_and_reaches_nobody(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        cells = hostile_cells(f"http://127.0.0.1:{listening.getsockname()[1]}")
        name = "<img src=x onerror=top.pwned=1>.ipynb"
        write_notebook(jupyter.root, name, [], cells=cells)
        async with chat(chrome, ours) as shown:
            await shown.use("read_nb_cells", path=name)
            view = shown.view
            await expect(view.locator(".cell")).to_have_count(len(cells))
            await expect(view.get_by_role("heading", name=name)).to_be_visible()
            links = await view.locator("a[href]").evaluate_all("all => all.map(one => one.protocol)")
            assert set(links) <= {"http:", "https:", "mailto:"}
            assert await view.locator("iframe, object, embed, script:not([type=module]), link").count() == 0
            for place in (shown.page.main_frame, view):
                assert await place.evaluate("() => typeof window.pwned") == "undefined"
            assert [url for url in shown.requests if not url.startswith((HOST, VIEW, "data:"))] == []
            assert (await shown.violations(), shown.complaints) == ([], [])
            with pytest.raises(BlockingIOError):
                listening.accept()
