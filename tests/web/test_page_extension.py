"""The page inside Jupyter: Jupyter's login, Jupyter's rules against forgery, Jupyter's people."""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from extension_support import USERS, ExtensionProcess, agent
from jupyter_support import write_notebook
from requirements import requirement
from web_support import visitor

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(150)]

REENTERED = re.compile(
    r"^--- Logging error ---\nTraceback(?:(?!^Traceback).)*?^RuntimeError: reentrant call.*?^Message: [^\n]*\nArguments: [^\n]*\n",
    re.MULTILINE | re.DOTALL,
)
"""What Python prints when Jupyter's own handler of a signal logs while a line is being written."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtensionProcess]:
    """A server as JupyterHub has them: below `/user/x/`, with people who have tokens of their own."""
    with ExtensionProcess(
        tmp_path_factory.mktemp("hub"),
        "--CellwrightExtension.options={'toolsets': 'all', 'rate': 0}",
        config=USERS,
        base_path="/user/x/",
    ) as process:
        yield process


def page_of(process: ExtensionProcess) -> str:
    return f"{process.url}/cellwright"


@requirement("web:jupyter:login")
async def test_strangers_are_sent_to_jupyters_login_for_the_page_only(hub: ExtensionProcess) -> None:
    page = page_of(hub)
    slash = httpx2.get(page, follow_redirects=False, timeout=30)
    assert (slash.status_code, slash.headers["location"]) == (302, "/user/x/cellwright/")
    answer = httpx2.get(f"{page}/", follow_redirects=False, timeout=30)
    assert answer.status_code == 302
    assert re.match(r"/user/x/login\?next=%2Fuser%2Fx%2Fcellwright%2F$", answer.headers["location"])
    for path in (
        "api/state",
        "api/things",
        "api/events",
        "api/document?uri=x",
        "api/frame",
        "api/enter",
        "static/page.js",
    ):
        refused = httpx2.get(f"{page}/{path}", follow_redirects=False, timeout=30)
        assert refused.status_code == 401, path
        assert refused.headers["content-type"].startswith("application/json")
    async with visitor(page, "token-anna", cookie=False) as anna:
        shown = await anna.http.get("./")
        assert shown.status_code == 200
        assert "frame-ancestors 'none'" in shown.headers["content-security-policy"]
        assert shown.headers["x-frame-options"] == "DENY"
        assert (await anna.http.post("api/enter", json={})).status_code == 404, "one comes in by Jupyter alone"
        assert (await anna.get("api/state"))["enter"] is False


@requirement("web:jupyter:forgery")
async def test_changes_need_jupyters_own_token_against_forgery(hub: ExtensionProcess) -> None:
    """With Jupyter's cookie, as a browser has it after the login."""
    async with httpx2.AsyncClient(base_url=f"{page_of(hub)}/", follow_redirects=True, timeout=30) as browser:
        # A link with the token, as Jupyter prints them, is a login; the token goes no further.
        entered = await browser.get("./", params={"token": "token-anna"})
        assert entered.status_code == 200
        xsrf = next(cookie.value for cookie in browser.cookies.jar if cookie.name == "_xsrf")
        assert xsrf
        assert (await browser.get("api/state")).json()["you"] == "user:anna"
        for site in ("cross-site", "same-site"):
            assert (await browser.get("api/state", headers={"Sec-Fetch-Site": site})).status_code == 403, site

        async def cancel(**headers: str) -> httpx2.Response:
            return await browser.post("api/cancel", json={"execution": "x"}, headers=headers)

        assert (await cancel()).status_code == 403
        assert (await cancel(**{"X-XSRFToken": "made-up"})).status_code == 403
        assert (await cancel(**{"X-XSRFToken": xsrf, "Origin": "https://evil.example"})).status_code == 403
        known = await cancel(**{"X-XSRFToken": xsrf})
        assert (known.status_code, known.json()["error"]["code"]) == (404, "NOT_FOUND"), "only the execution is missing"


@requirement("web:jupyter:own")
async def test_everybody_is_who_jupyter_says(hub: ExtensionProcess) -> None:
    page = page_of(hub)
    async with agent(hub.mcp, "token-anna") as client:
        cells = [{"language": "md", "content": "annas"}]
        made: Any = (await client.call_tool("scratch_create", {"metadata": {}, "cells": cells})).structured_content
    pad = f"scratchpad://{made['scratchpad']['scratch_id']}"
    async with (
        visitor(page, "token-anna", cookie=False) as anna,
        visitor(page, "token-bert", cookie=False) as bert,
        visitor(page, "token-reader", cookie=False) as reader,
    ):
        assert (await anna.get("api/state"))["you"] == "user:anna"
        assert (await anna.document(pad))["cells"][0]["source"] == "annas"
        assert [call["tool"] for call in (await anna.get("api/activity"))["calls"]] == ["scratch_create"]
        assert await bert.refused("api/document", uri=pad) == 404
        assert (await bert.get("api/activity"))["calls"] == []
        assert (await reader.get("api/state"))["scopes"] == ["read"]
        assert (await reader.post("api/cancel", {"execution": "x"})).status_code == 403


@requirement("web:jupyter:live")
async def test_an_edit_reaches_those_who_look_and_the_end_ends_the_stream(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    process = ExtensionProcess(tmp_path_factory.mktemp("live"), "--CellwrightExtension.options={'toolsets': 'all'}")
    process.start()
    try:
        write_notebook(process.root, "a b.ipynb", ["a = 1", "b = 2"])
        uri = "jupyter://a%20b.ipynb"
        async with visitor(page_of(process), process.token, cookie=False) as person:
            (listed,) = (await person.get("api/things"))["things"]
            assert listed["uri"] == uri
            first = await person.document(uri)
            async with person.events(uri) as stream, agent(process.mcp, process.token) as client:
                arguments = {"path": "a b.ipynb", "cell": 0, "old": "1", "new": "11"}
                result = await client.call_tool("edit_nb_cell", arguments)
                assert not result.is_error, result.content
                await stream.until(
                    lambda one: one.named("changed")[-1].data["revision"] != first["revision"], "the edit"
                )
                changed = await person.document(uri, since=first["revision"])
                assert [cell["source"] for cell in changed["cells"]] == ["a = 11"]
                states = await person.get("api/states", uri=uri)
                assert {name: mark["state"] for name, mark in states["cells"].items()} == {
                    "c0": "not run",
                    "c1": "not run",
                }
                lab = await person.http.get(changed["lab"], follow_redirects=False)
                assert lab.headers["location"].endswith("/lab/tree/a%20b.ipynb")
                process.end()
                await stream.until(lambda one: one.ended, "the end of the stream")
        assert "Traceback" not in REENTERED.sub("", process.whole_log())
    finally:
        process.stop()
