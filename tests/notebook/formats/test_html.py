"""The page of a notebook: safe whatever the notebook holds, and set as it is meant."""

import re
import socket
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from browser import browser
from cellwright.notebook.formats.highlight import highlighted
from cellwright.notebook.formats.html import encode
from cellwright.notebook.formats.html_style import STYLE
from cellwright.notebook.formats.markdown_html import to_html
from cellwright.notebook.formats.registry import FORMATS
from cellwright.notebook.model import Cell, InvalidFormat, Kind, Notebook
from requirements import requirement

IN_A_FRAME = 6
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HOSTILE = (
    "<script>hit()</script>", "<img src=x onerror=hit()>", "<svg onload=hit()>", "<svg><script>hit()</script></svg>",
    "[a](javascript:hit())", "[a](JaVaScRiPt:hit())", "[a](data:text/html,<script>hit()</script>)",
    "[a](vbscript:hit())", "![a](javascript:hit())", "![a](http://outside.test/x.png)",
    "![a](data:text/html;base64,PHNjcmlwdD4=)", "<http://outside.test>", '[a](http://x.test/"onmouseover="hit())',
    "[a](http://x.test 'x' onclick=hit())", '!["><script>hit()</script>](attachment:x)', "<javascript:hit()>",
    "`<script>hit()</script>`", "```\n<script>hit()</script>\n```", "| <script>hit()</script> | b |\n|---|---|",
    "# <img src=x onerror=hit()>", "- <iframe src=javascript:hit()>", "> <object data=javascript:hit()>",
    "</section></main><script>hit()</script>", "<style>@import 'http://outside.test/x.css'</style>",
    "<link rel=stylesheet href=http://outside.test/x.css>", "<base href=http://outside.test>",
    "<meta http-equiv=refresh content='0;url=http://outside.test'>",
    "<form action=http://outside.test><input autofocus onfocus=hit()>", "<a href=javascript:hit()>x</a>",
    "<details open ontoggle=hit()>", "<video><source onerror=hit()>", "<body onload=hit()>",
    "<math><mtext><script>hit()", "**<b onclick=hit()>**", "[![x](attachment:y)](javascript:hit())",
    "$<script>hit()</script>$", "&lt;script&gt;hit()&lt;/script&gt;", "&#x3C;script>hit()",
    "<!--<script>hit()</script>-->", "<![CDATA[<script>hit()</script>]]>", "\x00<script\x00>hit()</script>",
    "\ud800<script>hit()</script>", "\u202e<script>",
)  # fmt: skip
TAGS = set(
    """html head meta title style body header main section h1 h2 h3 h4 h5 h6 p pre code span a img iframe figure blockquote
    ul ol li table thead tbody tr th td strong em del hr br div""".split()  # noqa: SIM905 - words read better in a line
)
ATTRIBUTES = set(
    "lang charset http-equiv content name class id data-count href rel src alt start sandbox title style srcdoc".split()  # noqa: SIM905
)
TABLE = (
    "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>\n<tr><td>1</td><td>x | y</td></tr>\n</tbody></table>"
)
WATCH = """window.broken = [];
document.addEventListener("securitypolicyviolation", event => window.broken.push(event.violatedDirective))"""


class Seen(HTMLParser):
    """Every tag and attribute, as a browser would find them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def check_safe(page: str) -> None:
    seen = Seen()
    seen.feed(page)
    seen.close()
    for tag, attributes in seen.found:
        assert tag in TAGS, tag
        assert attributes.keys() <= ATTRIBUTES, attributes
        if tag == "a":
            assert re.match(r"(?:https?://|mailto:)", str(attributes["href"]), re.IGNORECASE), attributes
        if tag == "img":
            assert re.match(r"data:image/[a-z+]+;base64,[A-Za-z0-9+/=]*$", str(attributes["src"])), attributes
        if tag == "iframe":
            assert attributes["sandbox"] == ""
        if "style" in attributes:
            assert re.fullmatch(r"height:[0-9.]+rem", str(attributes["style"])), attributes
    assert sum(tag == "style" for tag, _ in seen.found) == 1
    assert sum(tag == "meta" for tag, _ in seen.found) == 5


def outputs_of(text: str) -> tuple[dict[str, Any], ...]:
    forms = (
        "text/html",
        "text/markdown",
        "text/latex",
        "application/json",
        "text/plain",
        "image/svg+xml",
        "image/png",
        "x/y",
    )
    return (
        {"output_type": "stream", "name": text, "text": [text, text]},
        {"output_type": "error", "ename": text, "evalue": text, "traceback": [text]},
        {"output_type": text, "data": {"text/plain": text}},
        *({"output_type": "display_data", "data": {form: text}, "metadata": {}} for form in forms),
        {"output_type": "display_data", "data": 5},
    )


def notebook_of(text: str) -> Notebook:
    attached = {"cellwright": {"attachments": {"x": {"image/png": text}, "y": {"image/svg+xml": text}}}}
    cells = [
        Cell(Kind.MARKDOWN, text, metadata=attached),
        Cell(Kind.RAW, text),
        Cell(Kind.CODE, text, text, text, text, 1, outputs_of(text)),
        *(Cell(Kind.CODE, text, language) for language in ("python", "javascript", "sql", "bash")),
    ]
    return Notebook(text, text, tuple(cells))


@requirement("html:safe")
@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_acts_nowhere(text: str) -> None:
    check_safe(encode(notebook_of(text)).text)


@requirement("html:safe")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.sampled_from([*HOSTILE, "**", "_", "`", "[", "](", ")", "\n", "\n\n", "- ", "> ", "<", "\\", "|", "x"]),
        max_size=12,
    )
)
def test_nor_do_several_together(pieces: list[str]) -> None:
    check_safe(encode(notebook_of("".join(pieces))).text)


@requirement("html:safe")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=80))
def test_nor_does_any_other(text: str) -> None:
    check_safe(encode(notebook_of(text)).text)


def _hostile_notebook(texts: list[str]) -> Notebook:
    """All of them everywhere, several to a frame: each frame is a process of its own to the browser."""
    cells = [cell for text in texts for cell in notebook_of(text).cells]
    bare = [replace(c, outputs=tuple(o for o in c.outputs if "text/html" not in str(o.get("data")))) for c in cells]
    frames = [
        {
            "output_type": "display_data",
            "data": {"text/html": "\n".join(texts[start : start + IN_A_FRAME])},
            "metadata": {},
        }
        for start in range(0, len(texts), IN_A_FRAME)
    ]
    return Notebook("Hostile", "python", (*bare, Cell(Kind.CODE, "frames", outputs=tuple(frames))))


@requirement("html:browser")
def test_a_browser_runs_nothing_and_asks_for_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside, browser() as chromium:
        outside.settimeout(0.01)
        here = f"127.0.0.1:{outside.getsockname()[1]}"
        texts = [text.replace("\ud800", "").replace("outside.test", here) for text in HOSTILE]
        file = tmp_path / "page.html"
        file.write_text(encode(_hostile_notebook(texts)).text, encoding="utf-8")
        page = chromium.new_page()
        ran: list[str] = []
        page.expose_function("hit", lambda: ran.append("hit"))  # pyright: ignore[reportUnknownMemberType]
        page.add_init_script(WATCH)
        page.goto(file.as_uri(), wait_until="load")
        assert page.locator("section").count() > 200
        assert page.locator("iframe").count() == len(range(0, len(HOSTILE), IN_A_FRAME))
        assert page.evaluate("window.broken") == []
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        page.set_viewport_size({"width": 360, "height": 700})
        narrow = page.evaluate("document.documentElement.scrollWidth")
        with pytest.raises(TimeoutError):
            outside.accept()
    assert ran == []
    assert widths[0] <= widths[1]
    assert narrow <= 360


@requirement("html:markdown")
@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a *b* **c** ~~d~~ `e`", "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>"),
        ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
        ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"),
        ("## Two ##\n\ntext", "<h2>Two</h2>\n<p>text</p>"),
        ("one\ntwo  \nthree", "<p>one\ntwo<br>\nthree</p>"),
        ("- a\n- b\n  1. c\n\n     d", "<ul>\n<li>a</li>\n<li>b\n<ol>\n<li><p>c</p>\n<p>d</p></li>\n</ol></li>\n</ul>"),
        ("3. x\n4. y", '<ol start="3">\n<li>x</li>\n<li>y</li>\n</ol>'),
        ("- a\n\n1. b", "<ul>\n<li>a</li>\n</ul>\n<ol>\n<li>b</li>\n</ol>"),
        ("> a\n> - b", "<blockquote>\n<p>a</p>\n<ul>\n<li>b</li>\n</ul>\n</blockquote>"),
        ("| a | b |\n|---|:-:|\n| 1 | x \\| y |", TABLE),
        ("```py\nx < 1\n- not a list\n```", "<pre><code>x &lt; 1\n- not a list</code></pre>"),
        ("- a\n\n  ```\n  code\n  ```\n- b", "<ul>\n<li>a\n<pre><code>code</code></pre></li>\n<li>b</li>\n</ul>"),
        ("a\n\n---\n\nb", "<p>a</p>\n<hr>\n<p>b</p>"),
        ("[t](https://a.test/b_(c)?d=1&e=2)", '<p><a href="https://a.test/b_(c)?d=1&amp;e=2" rel="noopener noreferrer">t</a></p>'),
        ("see https://a.test/x.", '<p>see <a href="https://a.test/x" rel="noopener noreferrer">https://a.test/x</a>.</p>'),
        ("[t](../other.ipynb)", '<p>t <span class="elsewhere">(../other.ipynb)</span></p>'),
        (f"![p](data:image/png;base64,{PNG})", f'<p><img src="data:image/png;base64,{PNG}" alt="p"></p>'),
        ("![p](attachment:p%20q.png)", '<p><img src="data:image/png;base64,AA" alt="p"></p>'),
        ("$a_b$ and $$c$$", '<p><span class="math">$a_b$</span> and <span class="math">$$c$$</span></p>'),
        ("$$\nx_1\n$$", '<pre class="math">$$\nx_1\n$$</pre>'),
        ("<b>bold</b> &amp;", "<p>&lt;b&gt;bold&lt;/b&gt; &amp;amp;</p>"),
        ("\\*a\\* \\<b", "<p>*a* &lt;b</p>"),
        ("- [x] done\n- [ ] open", "<ul>\n<li>☑ done</li>\n<li>☐ open</li>\n</ul>"),
        ("    code\n    more", "<pre><code>code\nmore</code></pre>"),
    ],
)  # fmt: skip
def test_markdown_is_set_as_what_it_means(text: str, made: str) -> None:
    assert to_html(text, {"p q.png": "data:image/png;base64,AA"}) == made


@requirement("html:time")
@pytest.mark.parametrize(
    "piece",
    [
        "*",
        "**a ",
        "_a",
        "[",
        "[a](",
        "![",
        "`",
        "`a``",
        "> ",
        "- ",
        "|",
        "<http://",
        "$",
        "~~",
        "\\",
        "https://",
        "(",
        "1. ",
        "#",
        "a|b\n-|-\n",
    ],
)
def test_hostile_markdown_costs_no_more_than_long_markdown(piece: str) -> None:
    text = piece * (30_000 // len(piece))
    begun = time.process_time()
    to_html(text)
    highlighted(text, "python")
    assert time.process_time() - begun < 2.0


@requirement("html:outputs")
def test_outputs_are_shown_in_the_best_form_a_page_has() -> None:
    def shown(data: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        output = {"output_type": "display_data", "data": data, "metadata": {}}
        made = encode(Notebook("T", "python", (Cell(Kind.CODE, "x", outputs=(output,)),)))
        return made.text.partition("</code></pre>")[2].partition("</section>")[0], made.losses[1:]

    assert shown({"image/png": PNG + "\n", "text/plain": "<fig>"}) == (
        f'<figure><img src="data:image/png;base64,{PNG}" alt="&lt;fig&gt;"></figure>',
        (),
    )
    assert shown({"image/png": "not base64!"})[0] == '<pre class="err">[a damaged picture]</pre>'
    assert 'src="data:image/svg+xml;base64,' in shown({"image/svg+xml": ["<svg>", "</svg>"]})[0]
    frame, lost = shown({"text/html": "<table><tr><td>1</td></tr></table><script>x()</script>", "text/plain": "1"})
    assert frame.startswith('<iframe sandbox="" ')
    assert "&lt;script&gt;" in frame
    assert lost == ("cell 0: an HTML output has scripts, which do not run",)
    assert shown({"text/markdown": "*a*", "text/plain": "a"}) == ('<div class="prose"><p><em>a</em></p></div>', ())
    assert shown({"text/latex": "$x$", "text/plain": "x"})[0] == '<pre class="out">$x$</pre>'
    assert shown({"application/json": {"a": 1}})[0] == '<pre class="out">{\n  &quot;a&quot;: 1\n}</pre>'
    assert shown({"application/x-y": "1"}) == ("", ("cell 0: an output of application/x-y is not shown",))
    assert shown({"application/x-y": "1", "text/plain": "p"})[1] == (
        "cell 0: an output of application/x-y is not shown",
    )


@requirement("html:outputs")
def test_a_cell_has_its_count_name_and_text() -> None:
    stream = {"output_type": "stream", "name": "stderr", "text": "\x1b[31mred\x1b[0m\r\n"}
    error: dict[str, Any] = {"output_type": "error", "ename": "E", "evalue": "<v>", "traceback": []}
    cells = (
        Cell(Kind.MARKDOWN, "# T\n\nHello"),
        Cell(Kind.CODE, "def f(): return 1 # <x>", "", "a.py", "", 7, (stream, error)),
    )
    made = encode(Notebook("T", "python", cells))
    assert made.text.count("<h1>T</h1>") == 1
    assert 'data-count="7"><p class="name">a.py</p>' in made.text
    assert (
        '<span class="k">def</span> f(): <span class="k">return</span> <span class="n">1</span> <span class="c"># &lt;x&gt;</span>'
        in made.text
    )
    assert '<pre class="err">red</pre><pre class="error">E: &lt;v&gt;</pre>' in made.text
    assert made.losses[1:] == ("cell 1: terminal colours are not shown",)
    with pytest.raises(InvalidFormat, match="json or ipynb"):
        FORMATS["html"].decode(made.text)


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@requirement("html:outputs")
def test_every_colour_can_be_read_in_light_and_in_dark() -> None:
    themes = re.findall(r":root\{([^}]*--paper[^}]*)\}", STYLE)
    colours = [dict(re.findall(r"--(\w+):(#[0-9a-f]{6})\b", theme.replace("\n", ""))) for theme in themes[:2]]
    assert len(colours) == 2
    for theme in colours:
        for name in ("ink", "soft", "accent", "bad", "c", "s", "k", "n"):
            assert contrast(theme[name], theme["paper"]) >= 4.5, name
            assert contrast(theme[name], theme["block"]) >= 4.5, name
