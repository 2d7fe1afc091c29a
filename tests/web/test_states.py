"""The states of cells on the page, and the picture of what they use of each other: over the wire and in a real browser."""

import asyncio
import re
from typing import Any, cast

import pytest
from playwright.async_api import Browser, expect

from cellwright.app.http.tokens import TokenStore
from cellwright.core.types import ALL_SCOPES, Call, Principal, Scope
from cellwright.notebook.shelf import Shelf
from cellwright.web import states
from cellwright.web.mirror import Mirror
from cellwright.web.ports import Facts, ShownStates
from cellwright.web.states import FollowedStates
from jupyter_support import JupyterProcess, write_notebook
from page_support import BODIES, Sight, code_cell, do, looking, text_cell
from requirements import requirement
from support import TOKEN, HttpServer, http_client
from web_support import visitor

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

SOURCES = ("rate = 2", "prices = [1, 2]", "out = [rate * p for p in prices]", "sum(out)")
WHY = "rate comes from cell 1 (c0), which was edited since it ran"
ALIKE = "Whatever the page says, the order counts"


def notebook(jupyter: JupyterProcess, name: str) -> str:
    cells = [text_cell("m0", ALIKE), *[code_cell(f"c{n}", source) for n, source in enumerate(SOURCES)]]
    write_notebook(jupyter.root, name, [], cells=cells)
    return f"jupyter://{name}"


async def run_all(agent: Any, uri: str) -> None:
    await do(agent, "execute_nb_cells", path=uri.removeprefix("jupyter://"), ranges=[{"start": 1, "end": 5}])


async def edit_rate(agent: Any, uri: str, old: str, new: str) -> None:
    await do(agent, "edit_nb_cell", path=uri.removeprefix("jupyter://"), cell="c0", old=old, new=new)


async def marks(sight: Sight, wanted: list[str]) -> None:
    await expect(sight.page.locator(".cell .standing")).to_have_text(wanted)


async def open_picture(sight: Sight) -> None:
    await sight.page.keyboard.press("d")
    await expect(sight.page.locator(".picture .arc").first).to_be_attached()


@requirement("page:states:marks", "page:states:follow")
async def test_marks_follow_what_an_agent_edits_and_runs(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    uri = notebook(jupyter, "marks.ipynb")
    async with looking(chrome, ours, uri) as sight, http_client(ours) as agent:
        page = sight.page
        verdict = page.locator("#verdict")
        await marks(sight, ["○ not run"] * 4)
        await run_all(agent, uri)
        await marks(sight, [])
        await expect(verdict).to_have_text("A run from top to bottom would give what is shown")
        await edit_rate(agent, uri, "rate = 2", "rate = 3")
        await marks(sight, ["△ edited", "◐ stale", "◐ stale"])
        await expect(verdict).to_have_text("A run from top to bottom would give something else: 1 edited, 2 stale")
        stale = page.locator("[data-cell=c2]")
        await expect(stale).to_have_attribute("aria-label", f"Code cell 4 of 5, run 3, stale: {WHY}")
        await expect(stale.get_by_role("button", name=f"stale: {WHY}")).to_have_attribute("title", f"stale: {WHY}")
        await expect(page.locator("[data-cell=c1]")).to_have_attribute("aria-label", "Code cell 3 of 5, run 2")
        path = uri.removeprefix("jupyter://")
        await do(agent, "execute_nb_cells", path=path, cells="stale")
        await marks(sight, [])
        await expect(stale).to_have_attribute("aria-label", re.compile(r"Code cell 4 of 5, run \d"))
        # Nothing of the document changes when its kernel goes.
        await do(agent, "shutdown_nb_kernel", path=path)
        await marks(sight, ["◌ lost"] * 4)
        await expect(verdict).to_contain_text("is unknown: 4 lost (it has no kernel now")
        assert (await sight.violations(), sight.complaints) == ([], [])


@requirement("page:states:graph")
async def test_the_picture_leads_to_every_cell_and_is_a_list_too(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    uri = notebook(jupyter, "picture.ipynb")
    async with looking(chrome, ours, uri) as sight, http_client(ours) as agent:
        page = sight.page
        await run_all(agent, uri)
        await marks(sight, [])
        await page.get_by_role("button", name="Dependencies", exact=True).click()
        dialog = page.get_by_role("dialog", name="Dependencies")
        nodes = dialog.locator("[data-node]")
        await expect(nodes).to_have_text(
            [re.compile(f"cell {n + 1}{re.escape(source)}.*fresh") for n, source in enumerate(SOURCES)]
        )
        await expect(dialog.locator(".arc")).to_have_count(3)
        names = await dialog.locator(".arc text").evaluate_all("all => all.map(one => one.textContent)")
        assert sorted(names) == ["out", "prices", "rate"]
        # It follows what happens, and keeps its place for those who are in it.
        await page.keyboard.press("Tab")
        await page.keyboard.press("ArrowDown")
        await edit_rate(agent, uri, "rate = 2", "rate = 3")
        await expect(nodes.nth(2)).to_contain_text("◐ stale")
        await expect(nodes.nth(1)).to_be_focused()
        await dialog.get_by_text("As a list").click()
        await expect(dialog.locator("li").filter(has_text="cell 3 uses")).to_have_text(
            f"cell 3 uses rate from cell 1, prices from cell 2; stale: {WHY}"
        )
        assert await page.evaluate("() => document.querySelectorAll('.arc.lit').length") == 1
        await nodes.nth(1).focus()
        for key in ("End", "k", "ArrowUp", "j"):
            await page.keyboard.press(key)
        await expect(nodes.nth(2)).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(dialog).to_be_hidden()
        await expect(page.locator("[data-cell=c2]")).to_be_focused()
        # From a mark it opens at the cell, and Escape leads back.
        await page.locator("[data-cell=c3] .standing").click()
        await expect(nodes.nth(3)).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.locator("[data-cell=c3] .standing")).to_be_focused()
        assert (await sight.violations(), sight.complaints) == ([], [])


@requirement("page:states:many")
async def test_of_very_many_cells_those_that_have_to_do_with_one_are_drawn(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    cells = [code_cell(f"c{n}", f"a{n} = {f'a{n - 50}' if n >= 50 else n}") for n in range(300)]
    write_notebook(jupyter.root, "many.ipynb", [], cells=cells)
    async with looking(chrome, ours, "jupyter://many.ipynb", "c110") as sight:
        page = sight.page
        await expect(page.locator("[data-cell=c110] .standing")).to_be_visible()
        await expect(page.locator("[data-cell=c110]")).to_be_focused()
        await open_picture(sight)
        shown = await page.locator("[data-node]").evaluate_all("all => all.map(one => one.dataset.node)")
        assert shown == ["c10", "c60", "c110", "c160", "c210", "c260"]
        await expect(page.locator("#graph-told")).to_contain_text("300 code cells, too many for one picture")
        await expect(page.locator("#graph-told")).to_contain_text("that have to do with cell 110")
    async with visitor(ours.base, TOKEN) as person:
        linked = [code_cell(f"c{n}", "x = 1" if n == 0 else f"y{n} = x") for n in range(300)]
        write_notebook(jupyter.root, "star.ipynb", [], cells=linked)
        graph = await person.get("api/graph", uri="jupyter://star.ipynb", cell="c0")
        assert (len(graph["cells"]), graph["total"], graph["around"]) == (200, 300, "c0")


@requirement("page:states:narrow")
async def test_marks_and_picture_have_room_on_a_phone(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    word = "unbreakable" * 20
    sources = [f"{word} = 1", f"print({word})", *(f"b{n} = {word}" for n in range(30))]
    write_notebook(jupyter.root, "phone.ipynb", sources)
    async with looking(chrome, ours, "jupyter://phone.ipynb", size=(360, 700)) as sight:
        page = sight.page
        await expect(page.locator(BODIES)).to_have_count(32)
        await expect(page.locator(".standing").first).to_be_in_viewport()
        sideways = "() => document.documentElement.scrollWidth - innerWidth"
        assert await page.evaluate(sideways) <= 0
        await open_picture(sight)
        await expect(page.locator(".picture .arc path").first).to_be_in_viewport()
        assert await page.evaluate(sideways) <= 0
        within = "() => { const box = document.getElementById('graph'); return box.scrollWidth - box.clientWidth; }"
        assert await page.evaluate(within) <= 0


@requirement("page:states:reader")
async def test_a_reader_sees_the_states_and_no_kernel_is_started(ours: HttpServer, jupyter: JupyterProcess) -> None:
    uri = notebook(jupyter, "reader.ipynb")
    path = uri.removeprefix("jupyter://")
    reader = TokenStore(ours.log.parent / "state").create("reader", frozenset({Scope.READ}))[1].reveal()
    async with visitor(ours.base, reader) as person, http_client(ours) as agent:
        first = await person.get("api/states", uri=uri)
        assert {name: mark["state"] for name, mark in first["cells"].items()} == {f"c{n}": "not run" for n in range(4)}
        graph = await person.get("api/graph", uri=uri)
        assert [(link["source"], link["target"], link["names"]) for link in graph["links"]] == [
            ("c0", "c2", ["rate"]),
            ("c1", "c2", ["prices"]),
            ("c2", "c3", ["out"]),
        ]
        assert (await do(agent, "get_nb_stat", path=path))["kernel"] is None
        await run_all(agent, uri)
        async with person.events(uri) as stream:
            fresh = await person.get("api/states", uri=uri)
            assert (fresh["cells"], fresh["whole"]) == ({}, True)
            await edit_rate(agent, uri, "rate = 2", "rate = 3")
            await stream.until(
                lambda one: any(heard.data["revision"] != fresh["revision"] for heard in one.named("states")), "states"
            )
            news = await person.get("api/states", uri=uri, since=fresh["revision"])
            assert (sorted(news["cells"]), news["whole"]) == (["c0", "c2", "c3"], False), "c1 did not change"
        for stranger in ("scratchpad://x", "jupyter://nowhere.ipynb"):
            assert await person.refused("api/graph", uri=stranger) in {400, 404}


@requirement("page:states:bounded")
async def test_a_storm_of_changes_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "SOON_SECONDS", 0.02)
    told: list[str] = []
    looks: list[float] = []
    seen: list[str] = []

    class Slow:
        """What a look at very many cells is like."""

        async def states(self, call: Call, uri: str) -> ShownStates:
            del call, uri
            looks.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.1)
            # The third look, and each third one after it, sees something else than the one before.
            seen.append(str(len(looks) // 3))
            return ShownStates({"a": {"state": "stale", "because": seen[-1]}}, {})

    anna = Call(Principal("anna", ALL_SCOPES))
    mirror = Mirror("jupyter://a.ipynb", cast("Shelf", None), anna, bytes, lambda _: None, viewers=1)
    followed = FollowedStates(cast("Facts", Slow()), lambda _, revision: told.append(revision))
    end = asyncio.get_running_loop().time() + 2
    while asyncio.get_running_loop().time() < end:
        followed.follow(mirror)
        await asyncio.sleep(0.001)
    await followed.close()
    assert 2 <= len(looks) <= 5, "it rests four times as long as it looks"
    assert len(told) == len(set(told)) == len(set(seen)), "told only if it is something else"


@requirement("page:states:masked")
async def test_secrets_of_ours_are_not_told(ours: HttpServer, jupyter: JupyterProcess) -> None:
    sources = [f"open('{TOKEN}', 'w').write('x')", f"open('{TOKEN}').read()  # {TOKEN}", f"'{TOKEN}'"]
    write_notebook(jupyter.root, "masked.ipynb", sources)
    async with visitor(ours.base, TOKEN) as person:
        for path in ("api/graph", "api/states"):
            answer = await person.http.get(path, params={"uri": "jupyter://masked.ipynb"})
            assert answer.status_code == 200
            assert TOKEN not in answer.text
