"""The page in a real browser, beside a real agent: what a person sees, and what a hostile notebook cannot do to them."""

import json
import re
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from jupyter_support import JupyterProcess, write_notebook
from locations import ROOT
from page_support import BODIES, Serving, code_cell, display, do, looking, text_cell
from requirements import requirement
from support import TOKEN, HttpServer, http_client
from xss_payloads import CANARY, PAYLOADS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

ASSETS = ROOT / "src" / "cellwright" / "web" / "assets"
MARKUP_OF_TEXT = re.compile(
    r"innerHTML|outerHTML|AdjacentHTML|setHTML|document\.write|Fragment|DOMParser|srcdoc|\beval\b|new Function|cssText"
)


# -- without a browser -------------------------------------------------------------------------------------------------------


@requirement("web:page:small")
def test_the_page_is_small_and_cannot_make_markup_of_text() -> None:
    texts = {
        name: (ASSETS / name).read_text(encoding="utf-8")
        for name in ("index.html", "page.css", "page.js", "cells.js", "states.js", "variables.js")
    }
    assert sum(len(text.encode()) for text in texts.values()) <= 105_000
    assert [name for name, text in texts.items() if name.endswith(".js") and MARKUP_OF_TEXT.search(text)] == []
    elsewhere = re.compile(r"(?:src|href|url|import|fetch|EventSource)\W{1,3}(?:https?:)?//")
    assert [name for name, text in texts.items() if elsewhere.search(text)] == []
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", texts["index.html"]), (
        "the policy allows none of it"
    )


def _luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@requirement("web:page:contrast")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_enough_contrast(scheme: str) -> None:
    css = (ASSETS / "page.css").read_text(encoding="utf-8")
    tokens = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", css)
    colours = {name: light if scheme == "light" else dark for name, light, dark in tokens}
    inks = {"ink", "soft", "accent", "error", "comment", "string", "keyword", "number"}
    grounds = {"paper", "shade", "wash"}
    assert inks | grounds <= colours.keys()
    weak = {(ink, ground): contrast(colours[ink], colours[ground]) for ink in inks for ground in grounds}
    assert {pair: ratio for pair, ratio in weak.items() if ratio < 4.5} == {}
    outside = re.sub(r":root \{.*?\}", "", css, flags=re.DOTALL)
    assert re.findall(r"#[0-9a-f]{3,8}\b(?=[;, )])", outside.replace("#000 80%", "")) == [], (
        "a colour that is not computed here"
    )


# -- with one ----------------------------------------------------------------------------------------------------------------


@requirement("web:page:token")
async def test_the_token_is_exchanged_once_and_kept_nowhere(chrome: Browser, ours: HttpServer) -> None:
    async with looking(chrome, ours) as sight:
        page = sight.page
        assert page.url == f"{ours.base}/"
        kept = await page.evaluate(
            "() => JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, history.length])"
        )
        assert json.loads(kept) == ["", {}, {}, 2]  # about:blank and the page: the link with the token is no entry
        assert [url for url in sight.requests if TOKEN in url] == []
        (cookie,) = await page.context.cookies()
        assert cookie.get("httpOnly") is True
        assert cookie.get("sameSite") == "Strict"
        await page.get_by_role("button", name="Keyboard help").click()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Come in")).to_be_visible()
        await page.get_by_label("Token").fill("wrong-token-0123456789-0123456789")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("not known here")
        await page.get_by_label("Token").fill(TOKEN)
        await page.keyboard.press("Enter")
        await expect(page.locator("#live-text")).to_have_text("live")
        await expect(page.get_by_role("heading", name="Come in")).to_be_hidden()


# In the page's own clock, which is this machine's: when each wanted text first stood in the document.
WATCH = """(names) => {
    window.seen = {};
    new MutationObserver(() => {
        const text = document.getElementById("cells").textContent;
        for (const name of names) if (!(name in seen) && text.includes(name)) seen[name] = Date.now() / 1000;
    }).observe(document.getElementById("cells"), { childList: true, characterData: true, subtree: true });
}"""


@requirement("web:page:live")
async def test_what_an_agent_does_appears_while_it_does_it(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    slow = "import time\nfor n in range(300):\n    print('tick', n, flush=True)\n    time.sleep(0.1)"
    write_notebook(jupyter.root, "live.ipynb", ["edited = 0", slow])
    async with looking(chrome, ours) as sight, http_client(ours) as client:
        page = sight.page
        # A person who follows is led to what the agent touches.
        await page.get_by_role("button", name="Follow").click()
        await do(client, "read_nb_cells", path="live.ipynb", ranges=[{"start": 0}])
        await expect(page.locator(BODIES)).to_have_count(2)
        assert page.url.endswith("#uri=jupyter%3A%2F%2Flive.ipynb")
        names = [f"edited = {n}00{n}" for n in range(1, 12)]
        await page.evaluate(WATCH, names)
        took: dict[str, float] = {}
        before = "edited = 0"
        for name in names:
            await do(client, "edit_nb_cell", path="live.ipynb", cell="c0", old=before, new=name)
            took[name], before = time.time(), name
            await expect(page.locator("[data-cell=c0] .source")).to_have_text(name)
        seen = await page.evaluate("() => window.seen")
        late = sorted(seen[name] - at for name, at in took.items())
        assert late[len(late) // 2] <= 0.2, late

        # What was done is in the list, with its time and what it cost.
        newest = page.locator("#calls > li").first
        await expect(newest).to_contain_text("edit_nb_cell")
        await expect(newest).to_contain_text(re.compile(r"\d+ m?s"))
        await expect(newest).to_contain_text(re.compile(r"\d+ tokens"))

        # A new cell takes its place between the others, without the page being loaded again.
        await do(
            client,
            "insert_nb_cells",
            path="live.ipynb",
            position=1,
            cells=[{"type": "markdown", "content": "## Between"}],
        )
        await expect(page.locator(".cell").nth(1).get_by_role("heading", name="Between")).to_be_visible()

        # Output appears while it runs, and a person can stop it.
        await do(client, "execute_nb_cells", path="live.ipynb", ranges=[{"start": 2}], timeout=1)
        await expect(page.locator("[data-cell=c1].running .outputs")).to_contain_text("tick 1")
        await page.get_by_role("button", name="Cancel what runs in live.ipynb").click()
        await expect(page.locator("#running")).to_be_hidden()
        await expect(page.locator("[data-cell=c1]:not(.running) .outputs")).to_contain_text("KeyboardInterrupt")
        assert (await sight.violations(), sight.complaints) == ([], [])


@contextmanager
def canary() -> Generator[tuple[str, socket.socket]]:
    """An address on this machine that nobody has a reason to connect to."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        listening.setblocking(False)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", listening


def hostile_notebook(root: Path, name: str, canary_url: str) -> int:
    """Every attack in every place there is. How many cells that makes."""
    cells: list[dict[str, Any]] = []
    before = ""
    for number, payload in enumerate(PAYLOADS):
        text = payload.replace(CANARY, canary_url).replace("canary.invalid", canary_url.removeprefix("http://"))
        cells.append(text_cell(f"m{number}", text))
        cells.append(
            code_cell(
                f"c{number}",
                text,
                display(text__html=text, text__plain=text),
                {"output_type": "stream", "name": "stderr", "text": text},
                {"output_type": "error", "ename": text, "evalue": text, "traceback": [text]},
                display(text__markdown=text),
                display(text__latex=text),
                display(application__json={text: text}),
                display(image__png=text),
            )
        )
        if "<svg" in payload:
            svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">{text}</svg>'
            cells.append(code_cell(f"s{number}", "", display(**{"image__svg+xml": svg})))
        # Ids, names and first lines stand in the marks and in the picture of what cells use of each other.
        read, before = f"open({before!r}).read()", text
        cells.append(code_cell(f"{text}-{number}", f"open({text!r}, 'w').write({read})"))
    write_notebook(root, name, [], cells=cells, metadata={"title": PAYLOADS[0]})
    return len(cells)


@requirement("web:page:hostile")
async def test_a_hostile_notebook_runs_nothing_and_reaches_nobody(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    assert len(set(PAYLOADS)) >= 40
    with canary() as (address, listening):
        cells = hostile_notebook(jupyter.root, "<img src=x onerror=top.pwned=1>.ipynb", address)
        uri = "jupyter://%3Cimg%20src%3Dx%20onerror%3Dtop.pwned%3D1%3E.ipynb"
        async with looking(chrome, ours, uri) as sight, http_client(ours) as client:
            page = sight.page
            await expect(page.locator(BODIES)).to_have_count(cells)
            frames = page.locator("iframe")
            count = await frames.count()
            assert count >= len(PAYLOADS)
            assert set(await frames.evaluate_all("all => all.map(one => one.getAttribute('sandbox'))")) == {""}
            # Frames are lazy: every one is made to load, and has loaded.
            await frames.evaluate_all(
                "all => Promise.all(all.map(one => new Promise(done => { one.onload = done; one.loading = 'eager'; one.src = one.src; })))"
            )
            assert len(page.frames) == count + 1
            await expect(page.locator(".standing")).not_to_have_count(0)
            await page.get_by_role("button", name="Dependencies", exact=True).click()
            await expect(page.locator(".picture .arc").nth(len(PAYLOADS) - 2)).to_be_attached()
            await page.get_by_text("As a list").click()
            told = await page.locator("#graph-body").evaluate("all => all.textContent")
            assert "the file '<img src=x onerror=" in told
            assert await page.locator("#graph-body :is(img, script, iframe, a, object)").count() == 0
            await page.keyboard.press("Escape")
            refused = await client.call_tool("read_nb_cells", {"path": PAYLOADS[0]})
            assert refused.is_error
            await expect(page.locator("#calls > li.bad")).to_have_count(1)
            links = await page.locator("#document a[href]").evaluate_all(
                "all => all.map(one => [one.protocol, one.rel, one.target])"
            )
            assert {protocol for protocol, _, _ in links} <= {"http:", "https:", "mailto:"}
            assert {(rel, target) for _, rel, target in links} <= {("noopener noreferrer", "_blank"), ("", "")}

            assert await page.evaluate("() => typeof window.pwned") == "undefined"
            assert [url for url in sight.requests if not url.startswith((ours.base, "data:"))] == []
            assert await sight.violations() == []
            assert sorted(set(sight.complaints)) == []
            with pytest.raises(BlockingIOError):
                listening.accept()
            # And it can still be used.
            await page.keyboard.press("/")
            await page.keyboard.type("onerror")
            await expect(page.locator("#things-list a")).to_have_count(1)


@requirement("web:page:keys")
async def test_everything_is_within_reach_of_the_keyboard(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    write_notebook(jupyter.root, "keys/walk.ipynb", ["one = 1", "two = 2", "three = 3"])
    permissions = ("clipboard-read", "clipboard-write")
    async with looking(chrome, ours, permissions=permissions) as sight:
        page = sight.page
        press = page.keyboard.press
        focused = "() => document.activeElement.dataset.cell ?? document.activeElement.id"
        await press("/")
        assert await page.evaluate(focused) == "search"
        await page.keyboard.type("walk")
        # One, and this one: before the search there may be one as well, of another test.
        await expect(page.locator("#things-list a")).to_have_text([re.compile("walk")])
        await press("ArrowDown")
        await press("Enter")
        await expect(page.locator(".cell")).to_have_count(3)
        assert page.url.endswith("#uri=jupyter%3A%2F%2Fkeys%2Fwalk.ipynb")

        await page.get_by_role("main").focus()
        walked: list[str] = []
        for key in ("j", "j", "j", "j", "k"):
            await press(key)
            walked.append(await page.evaluate(focused))
        assert walked == ["c0", "c1", "c2", "c2", "c1"]
        await press("c")
        await expect(page.locator("#said")).to_have_text("Cell id copied")
        assert await page.evaluate("() => navigator.clipboard.readText()") == "c1"
        await press("Enter")
        assert page.url.endswith("&cell=c1")
        await press("Tab")
        outline = "() => getComputedStyle(document.activeElement).outlineStyle"
        assert await page.evaluate(outline) == "solid"

        await press("?")
        await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
        await press("Escape")
        await expect(page.get_by_role("dialog")).to_be_hidden()
        for landmark in ("banner", "main", "complementary", "search"):
            await expect(page.get_by_role(landmark)).to_have_count(1)  # pyright: ignore[reportArgumentType]
        nameless = "all => all.filter(one => !one.textContent.trim() && !one.ariaLabel).length"
        assert await page.locator("button, a[href]").evaluate_all(nameless) == 0


@requirement("web:page:narrow")
@pytest.mark.parametrize("size", [(360, 700), (640, 400)], ids=["phone", "zoomed"])
async def test_nothing_scrolls_sideways_in_little_room(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess, size: tuple[int, int]
) -> None:
    word = "unbreakable" * 40
    table = "|" + "a column|" * 20 + "\n|" + "---|" * 20 + "\n|" + f"{word}|" * 20
    cells = [
        text_cell("m0", f"# {word}\n\n{word} `{word}` [{word}](https://example.org/{word})\n\n{table}\n\n    {word}"),
        code_cell("c0", f"x = '{word}'", {"output_type": "stream", "name": "stdout", "text": word}),
        code_cell("c1", "1 / 0", {"output_type": "error", "ename": "E", "evalue": word, "traceback": [word]}),
        code_cell("c2", "html", display(text__html=f"<table><tr><td>{word}</td></tr></table>", text__plain=word)),
    ]
    write_notebook(jupyter.root, f"narrow/{'long-name-' * 12}.ipynb", [], cells=cells)
    async with looking(
        chrome,
        ours,
        f"jupyter://narrow/{'long-name-' * 12}.ipynb",
        size=size,
        still=True,
    ) as sight:
        page = sight.page
        await expect(page.locator(BODIES)).to_have_count(4)
        sideways = "() => document.documentElement.scrollWidth - innerWidth"
        for column, inside in (("Browse", "#things"), ("Activity", "#activity"), ("Notebook", "#reader")):
            await page.get_by_role("button", name=column, exact=True).click()
            await expect(page.locator(inside)).to_be_visible()
            assert await page.evaluate(sideways) <= 0, column
        for top in range(0, 1200, 300):
            await page.evaluate("top => scrollTo(0, top)", top)
            assert await page.evaluate(sideways) <= 0
        moving = "() => document.getAnimations().length"
        await page.locator("[data-cell=c0]").evaluate("cell => cell.classList.add('running', 'fresh')")
        assert await page.evaluate(moving) == 0


@requirement("web:page:large")
async def test_a_thousand_cells_open_at_a_cell_and_scroll_smoothly(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    line = "value = compute({n}, 'text {n}')  # step {n}"
    cells = [
        text_cell(f"k{n}", f"## Part {n}\n\nSome *prose* about `part {n}`.")
        if n % 5 == 0
        else code_cell(
            f"k{n}", "\n".join(line.format(n=n) for _ in range(n % 15 + 1)), display(text__plain="out\n" * (n % 9))
        )
        for n in range(1000)
    ]
    write_notebook(jupyter.root, "large.ipynb", [], cells=cells)
    async with looking(chrome, ours, "jupyter://large.ipynb", "k777") as sight:
        page = sight.page
        wanted = page.locator("[data-cell=k777]")
        await expect(wanted).to_be_in_viewport()
        await expect(wanted).to_be_focused()
        await expect(page.locator(BODIES)).to_have_count(1000)
        await expect(wanted).to_be_in_viewport()
        await page.evaluate("() => scrollTo(0, 0)")
        frames: list[float] = []
        before = await sight.processor_seconds()
        for _ in range(40):
            await page.evaluate(
                "() => new Promise(done => { scrollBy(0, 700); requestAnimationFrame(() => requestAnimationFrame(done)); })"
            )
            after = await sight.processor_seconds()
            frames.append(after - before)
            before = after
        assert max(frames) < 0.1, frames
        assert await page.evaluate("() => document.querySelectorAll('*').length") < 25_000


@requirement("web:page:again")
async def test_after_a_restart_the_page_goes_on_with_what_changed(
    chrome: Browser, serving: Serving, jupyter: JupyterProcess
) -> None:
    write_notebook(jupyter.root, "again.ipynb", ["before = 1"])
    async with looking(chrome, serving.server, "jupyter://again.ipynb") as sight:
        page = sight.page
        source = page.locator("[data-cell=c0] .source")
        await expect(source).to_have_text("before = 1")
        await page.evaluate("() => { window.loadedOnce = true; }")
        serving.stop()
        await expect(page.locator("#live-text")).to_have_text("reconnecting")
        serving.start_again()
        async with http_client(serving.server) as client:
            await do(client, "edit_nb_cell", path="again.ipynb", cell="c0", old="before = 1", new="after = 2")
            await expect(page.get_by_role("heading", name="Come in")).to_be_visible()
            await page.get_by_label("Token").fill(TOKEN)
            await page.keyboard.press("Enter")
            await expect(source).to_have_text("after = 2")
            await do(client, "edit_nb_cell", path="again.ipynb", cell="c0", old="after = 2", new="later = 3")
            await expect(source).to_have_text("later = 3")
        assert await page.evaluate("() => window.loadedOnce") is True


PROSE = """# Title *stressed* ##

## C#

broken by spaces\x20\x20
and by a stroke\\
into three

A line with **strong**, ~~struck~~, `code_here`, snake_case_name and \\*no stress\\*. See [the notes](https://example.org/a_(b)).

- one
- two
  - inner
- [x] done

| a | b |
|---|---|
| 1 | 2 |

```python
def f(): return "text"  # note
```
"""
SLOW = (
    *(mark * 19_000 for mark in ("[", "*", "`", "$", "<", "#", "\\", "|")),
    *(piece * 4_500 for piece in ("**a ", "[a](", "> ", "- ", "_a ", "~~a", "[[", "https://", "1. ", "***")),
    "|" * 9_000 + "\n|-|\n" + "|" * 9_000,
    "![a](data:image/png;base64," + "A" * 19_000,
    "\n".join(" " * n + "- x" for n in range(300)),
    f"# a{' ' * 4_000}b",
    f"a{' ' * 120_000}b",
    f"a|b\n-{' ' * 60_000}x",
    f"[]({' ' * 19_000}x",
)


@requirement("web:page:prose")
async def test_prose_is_shown_as_meant_and_cannot_be_made_slow(
    chrome: Browser, ours: HttpServer, jupyter: JupyterProcess
) -> None:
    hostile = [text_cell(f"s{n}", text) for n, text in enumerate(SLOW)]
    write_notebook(jupyter.root, "prose.ipynb", [], cells=[text_cell("m0", PROSE), *hostile])
    async with looking(chrome, ours) as sight:
        page = sight.page
        before = await sight.processor_seconds()
        await page.evaluate("() => { location.hash = 'uri=jupyter%3A%2F%2Fprose.ipynb'; }")
        await expect(page.locator(".cell .prose")).to_have_count(len(SLOW) + 1)
        assert await sight.processor_seconds() - before < 3

        shown = page.locator("[data-cell=m0] .prose")
        texts = "all => all.map(one => one.textContent)"
        for selector, wanted in {
            "h1": ["Title stressed"],
            "h1 em": ["stressed"],
            "h2": ["C#"],
            "p:has(br)": ["broken by spacesand by a strokeinto three"],
            "strong": ["strong"],
            "del": ["struck"],
            "p code": ["code_here"],
            "p > a": ["the notes"],
            "ul ul li": ["inner"],
            "li.task": ["☑ done"],
            "th": ["a", "b"],
            "td": ["1", "2"],
            "pre": ['def f(): return "text"  # note'],
            "pre .k": ["def", "return"],
        }.items():
            assert await shown.locator(selector).evaluate_all(texts) == wanted, selector
        assert await shown.locator("a").get_attribute("href") == "https://example.org/a_(b)"
        await expect(shown).to_contain_text("snake_case_name and *no stress*")
