"""The page's parts that need no server: visits, the feed, outputs, frames."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from cellwright.core.errors import LimitReached
from cellwright.core.types import ALL_SCOPES, Principal
from cellwright.jupyter.listing import notebooks_below
from cellwright.web import feed, visits
from cellwright.web.feed import PageFeed
from cellwright.web.frames import frame, harmless
from cellwright.web.outputs import MOST_TEXT, page_outputs
from cellwright.web.visits import Visits
from requirements import requirement

ANNA = Principal("anna", ALL_SCOPES)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def cookie_of(header: str) -> str:
    return header.partition(";")[0]


@requirement("web:cookie:bounded")
def test_visits_end_when_unused_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    known = Visits("c", clock=clock)
    used, unused = (cookie_of(known.begin(ANNA, lambda: ANNA, secure=False)) for _ in range(2))
    clock.now += visits.LIFETIME - 1
    assert known.find(f'other={{"strange": 1}}; {used}') is not None
    clock.now += 2
    assert known.find(used) is not None
    assert known.find(unused) is None
    assert known.find(f"{used}; {used}") is None, "two of one name: a reader could take either"
    assert known.find("c=") is None
    monkeypatch.setattr(visits, "MOST_OF_ONE", 3)
    monkeypatch.setattr(visits, "MOST", 5)
    later = [cookie_of(known.begin(ANNA, lambda: ANNA, secure=False)) for _ in range(3)]
    assert known.find(used) is None, "the longest unused of the same token has gone"
    others = [Principal(f"other{n}", ALL_SCOPES) for n in range(4)]
    for one in others:
        known.begin(one, lambda one=one: one, secure=False)
    assert [known.find(one) is not None for one in later] == [False, False, True]


@requirement("web:slow")
@pytest.mark.anyio
async def test_a_viewer_that_does_not_read_is_told_to_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_VIEWERS", 2)
    told = PageFeed("1")
    slow, quick = told.open("anna", "", ""), told.open("anna", "", "")
    with pytest.raises(LimitReached):
        told.open("anna", "", "")
    pieces = quick.pieces()
    read = b""
    for n in range(feed.MOST_PENDING * 3):
        told.publish("call", {"n": n}, owner="anna")
        read += await anext(pieces)
    assert read.count(b"event: call") == feed.MOST_PENDING * 3
    left = await anext(slow.pieces())
    assert left.count(b"event: ") <= feed.MOST_PENDING
    assert b"event: reset" in left
    told.close()
    assert [piece async for piece in pieces] == []
    late = told.open("bert", "", "")
    async with asyncio.timeout(5):
        assert [piece async for piece in late.pieces()] == [], "whoever comes after the end is not kept waiting"


@requirement("web:resume")
@pytest.mark.anyio
async def test_what_was_missed_is_kept_up_to_a_bound() -> None:
    told = PageFeed("1")
    first = told.open("anna", "", "")
    greeting = await anext(first.pieces())
    run = greeting.partition(b"id: ")[2].partition(b"-")[0].decode()
    for n in range(feed.KEPT_EVENTS + 10):
        told.publish("call", {"n": n}, owner="anna")
    missed = await anext(told.open("anna", "", f"{run}-10").pieces())
    assert missed.count(b"event: reset") == 1, "more than a viewer is given at once"
    missed = await anext(told.open("anna", "", f"{run}-{feed.KEPT_EVENTS}").pieces())
    assert missed.count(b"event: call") == 10
    assert b"event: reset" not in missed
    for unknown in (f"{run}-9", f"{run}-²", f"{run}-", "nonsense", "0-0", f"{run}--1"):
        forgotten = await anext(told.open("anna", "", unknown).pieces())
        assert forgotten.count(b"event: ") == 2
        assert b"event: reset" in forgotten


@requirement("web:outputs")
def test_outputs_are_plain_and_bounded() -> None:
    def data(**forms: object) -> dict[str, object]:
        named = {name.replace("__", "+").replace("_", "/"): body for name, body in forms.items()}
        return {"output_type": "display_data", "data": named}

    long = "x" * (MOST_TEXT * 3)
    given = [
        {"output_type": "stream", "name": "stderr", "text": ["a\r", "b\x1b[31m\n"]},
        {"output_type": "stream", "name": "<script>", "text": long},
        data(text_markdown="*hi*", text_plain="hi"),
        data(text_latex="$x$"),
        data(application_json={"a": [1]}),
        data(text_html="<b>", image_png="AAAA"),
        data(image_png="A" * 4_000_000),
        data(**{"application_vnd.plotly.v1__json": "{}"}),
        {"output_type": "<b>", "data": 5},
        {"output_type": "error", "ename": 5, "evalue": None, "traceback": "text"},
        {},
    ]
    made: list[dict[str, Any]] = [{**entry} for entry in page_outputs(given, "jupyter://a.ipynb", "c 1")]
    kinds = ["text", "text", "markdown", "latex", "json", "image", "text", "text", "text", "error", "text"]
    assert [one["type"] for one in made] == kinds
    assert (made[0]["text"], made[0]["stream"]) == ("b\n", "stderr")
    assert made[1]["truncated"]
    assert len(made[1]["text"]) < MOST_TEXT + 100
    assert made[1]["stream"] == "stdout"
    assert made[4]["text"] == '{\n  "a": [\n    1\n  ]\n}'
    assert "too large" in made[6]["text"]
    assert "plotly" in made[7]["text"]
    address = "api/frame?uri=jupyter%3A%2F%2Fa%20b.ipynb&cell=c%261&output=0"
    framed = page_outputs([data(image_svg__xml="<svg/>")], "jupyter://a b.ipynb", "c&1")
    assert framed == [{"type": "svg", "frame": address, "text": ""}]
    assert len(page_outputs([given[0]] * 500, "u", "c")) == 101


HOSTILE = {
    "<b onclick=x()>hi</b><script>alert(1)</script>ok": "<b>hi</b>ok",
    '<img src=http://e/x><img src="data:image/png;base64,AAAA">': '<img><img src="data:image/png;base64,AAAA">',
    "<img/src='x'/onerror=alert(1)>": "<img>",
    '<a href="java&#115;cript:1" ping=//e>t</a>': "<a>t</a>",
    '<meta http-equiv=refresh content="0;url=//e"><base href=//e><link rel=stylesheet href=//e>x': "x",
    "<style>a{color:red}</style><style>@import '//e'</style><p style='background:URL (//e)'>x</p>": (
        "<style>a{color:red}</style><style></style><p>x</p>"
    ),
    "<svg><style>a{fill:&#117;rl(//e)}</style><use href='//e#x'/><use href='#x'/></svg>": (
        '<svg><style></style><use></use><use href="#x"></use></svg>'
    ),
    "<svg viewBox='0 0 1 1'><rect fill='url(#g)'/><animate attributeName=href to=//e /></svg>": (
        '<svg viewBox="0 0 1 1"><rect fill="url(#g)"></rect></svg>'
    ),
    "<p style='b\\61 ckground:x'>x</p>": "<p>x</p>",
    "<iframe srcdoc='<script>1</script>'></iframe><object data=x><b>in</b></object>out": "out",
    "<!--><img src=x onerror=1>-->": "<img>--&gt;",
    "<scr<script>ipt>alert(1)</script>": "&lt;scr",
    "<textarea><img src=x onerror=1></textarea>z": "z",
    "<noscript><p title='</noscript><img src=x onerror=1>'>": "",
    "<form action=//e><input name=x><button>go</button></form>": "go",
    "1 < 2 &amp; 3 &lt; 4": "1 &lt; 2 &amp; 3 &lt; 4",
    "<video src=//e><source src=//e></video><audio src=//e>t": "",
    "</body></html><x-y onfocus=1 autofocus tabindex=1>k": '<x-y tabindex="1">k',
}


@requirement("web:frames:harmless")
@pytest.mark.parametrize("html", HOSTILE)
def test_what_runs_fetches_or_leads_away_is_taken_out(html: str) -> None:
    assert harmless(html) == HOSTILE[html]
    assert harmless(harmless(html)) == harmless(html)


@requirement("web:frames:harmless")
def test_taking_it_out_costs_time_linear_in_the_length() -> None:
    """With the standard library's parser 40 KB of the second took a minute."""
    pieces = [
        "<!--",
        "<a ",
        '<a href="',
        "<",
        "<object>",
        "<template></b>",
        "<a x=1 ",
        "<style><",
        "</a x=",
        "<p title='",
        "&",
    ]
    spent = time.process_time()
    for piece in pieces:
        frame(piece * (100_000 // len(piece)))
    assert time.process_time() - spent < 10
    assert b"too long" in frame("x" * 1_000_001)


@requirement("web:things:odd")
def test_what_nobody_could_open_does_not_spoil_the_list(tmp_path: Path) -> None:
    for name in ("good.ipynb", "back\\slash.ipynb", "dot./x.ipynb", "control\x07.ipynb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bytes\xff.ipynb")).write_text("{}")
    (tmp_path / "nowhere.ipynb").symlink_to(tmp_path / "none")
    (tmp_path / "loop.ipynb").symlink_to("loop.ipynb")
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    things, more = notebooks_below(tmp_path)
    assert [one.path for one in things] == ["good.ipynb"]
    assert not more
