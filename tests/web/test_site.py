"""The page's side of the wire: who gets in, what each is shown, how changes reach many, how it ends."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

import httpx2
import psutil
import pytest
from pycrdt import Assoc, StickyIndex

from cellwright.app.http.tokens import TokenStore
from cellwright.core.types import Scope
from jupyter_support import JupyterProcess, JupyterServer, person_in, write_notebook
from notebook_agent import Agent, Relay, agent_of, in_front_of
from requirements import requirement
from support import PATIENT_SECONDS, TOKEN, HttpServer, http_client, http_server, until
from web_support import FROM_PAGE, Visitor, visitor

pytestmark = pytest.mark.anyio

VIEWERS = 50
DOOR = ("--toolsets", "all", "--rate", "0", "--embedding-model", "none")


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server without a Jupyter: for who gets in, and for what is kept in the database."""
    with http_server(tmp_path_factory.mktemp("door"), *DOOR) as server:
        yield server


@pytest.fixture(scope="module")
def jupyter(jupyter: JupyterProcess) -> JupyterServer:
    return jupyter.address


@pytest.fixture(scope="module")
def live(jupyter: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server in front of a real Jupyter."""
    with in_front_of(jupyter, tmp_path_factory.mktemp("live"), "--toolsets", "all") as server:
        yield server


@pytest.fixture
async def agent(live: HttpServer) -> AsyncGenerator[Agent]:
    async with agent_of(live) as made:
        yield made


@pytest.fixture
async def person(live: HttpServer) -> AsyncGenerator[Visitor]:
    async with visitor(live.base, live.token) as made:
        yield made


def tokens_of(server: HttpServer) -> TokenStore:
    return TokenStore(server.log.parent / "state")


def other_token(server: HttpServer, *scopes: Scope) -> str:
    """A token of another principal."""
    return (
        tokens_of(server)
        .create(f"other {token_hex(4)}", frozenset(scopes or (Scope.READ, Scope.WRITE, Scope.RUN)))[1]
        .reveal()
    )


# -- the door ----------------------------------------------------------------------------------------------------------------


@requirement("web:open-files")
@pytest.mark.parametrize("path", ["", "static/page.css", "static/page.js", "static/cells.js", "static/states.js"])
async def test_the_pages_own_files_are_open_and_guarded_by_headers(door: HttpServer, path: str) -> None:
    answer = httpx2.get(f"{door.base}/{path}", timeout=PATIENT_SECONDS)
    assert answer.status_code == 200
    assert door.token not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    again = httpx2.get(
        f"{door.base}/{path}", headers={"If-None-Match": answer.headers["etag"]}, timeout=PATIENT_SECONDS
    )
    assert (again.status_code, again.content) == (304, b"")


@requirement("web:no-redirect")
async def test_nothing_in_a_request_decides_where_a_browser_goes(door: HttpServer) -> None:
    for path in ("?next=//evil.example", "?next=https://evil.example", "//evil.example"):
        assert (
            "location" not in httpx2.get(f"{door.base}/{path}", follow_redirects=False, timeout=PATIENT_SECONDS).headers
        )
    for uri in ("//evil.example", "https://evil.example/x.ipynb", "jupyter://https:%2F%2Fevil.example/x.ipynb"):
        answer = httpx2.get(
            f"{door.base}/api/lab",
            params={"uri": uri},
            headers=door.headers,
            follow_redirects=False,
            timeout=PATIENT_SECONDS,
        )
        assert answer.status_code in {400, 404}, uri
        assert "location" not in answer.headers


@requirement("web:cookie:flags")
async def test_a_token_is_exchanged_for_a_cookie_that_scripts_cannot_read(door: HttpServer) -> None:
    entered = httpx2.post(f"{door.base}/api/enter", json={}, headers=door.headers, timeout=PATIENT_SECONDS)
    assert entered.status_code == 204
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith(f"cellwright-{door.port}=")
    flags = {part.strip() for part in cookie.split(";")[1:]}
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= flags
    assert "Secure" not in flags
    assert door.token not in cookie
    behind_tls = {**door.headers, "Origin": f"https://127.0.0.1:{door.port}"}
    assert (
        "; Secure"
        in httpx2.post(f"{door.base}/api/enter", json={}, headers=behind_tls, timeout=PATIENT_SECONDS).headers[
            "set-cookie"
        ]
    )


@requirement("web:cookie:only-here")
async def test_a_cookie_lets_in_to_the_page_and_nowhere_else(door: HttpServer) -> None:
    async with visitor(door.base, door.token) as person:
        assert (await person.get("api/state"))["you"] == "key:setting"
        assert await person.refused("metrics") == 401
        listing: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        for path in ("mcp", "api/enter"):
            answer = await person.http.post(path, json=listing, headers=FROM_PAGE)
            assert answer.status_code == 401, path
    async with httpx2.AsyncClient(base_url=door.base, timeout=PATIENT_SECONDS) as stranger:
        for path in ("/api/state", "/api/things", "/api/events", "/api/document", "/api/frame", "/api/project"):
            assert (await stranger.get(path)).status_code == 401, path
            made_up = {"Cookie": f"cellwright-{door.port}=made-up"}
            assert (await stranger.get(path, headers=made_up)).status_code == 401, path


@requirement("web:cookie:forgery")
async def test_what_comes_with_a_cookie_must_come_from_the_page_itself(door: HttpServer) -> None:
    async with visitor(door.base, door.token) as person:
        own = person.http.headers["Origin"]

        async def status(origin: str, **headers: str) -> int:
            sent = {"Content-Type": "application/json", "Origin": origin, **headers}
            answer = await person.http.post("api/cancel", content=b'{"execution": "x"}', headers=sent)
            return answer.status_code

        assert await status(own, **{"X-Cellwright": "page"}) == 404, "only the execution is missing"
        assert await status(own) == 403
        assert await status("https://evil.example", **{"X-Cellwright": "page"}) == 403
        assert await status("null", **{"X-Cellwright": "page"}) == 403
        assert await status(own, **{"X-Cellwright": "page", "Sec-Fetch-Site": "same-site"}) == 403
        del person.http.headers["Origin"]
        answer = await person.http.post("api/cancel", json={"execution": "x"}, headers=FROM_PAGE)
        assert answer.status_code == 403, "no Origin at all"
        for site in ("cross-site", "same-site"):
            read = await person.http.get("api/state", headers={"Sec-Fetch-Site": site})
            assert read.status_code == 403, site


@requirement("web:cookie:revoked")
async def test_revoking_the_token_ends_its_visits_and_their_streams(door: HttpServer) -> None:
    stored, secret = tokens_of(door).create("guest", frozenset({Scope.READ}))
    async with visitor(door.base, secret.reveal()) as person, person.events() as stream:
        assert (await person.get("api/state"))["you"] == f"key:{stored.id}"
        tokens_of(door).revoke(stored.id)
        assert await person.refused("api/state") == 401
        async with http_client(door) as client:
            # Announced to everybody who looks: the list of files may have changed.
            await client.call_tool("create_nb", {"path": f"{token_hex(4)}/"})
        await stream.until(lambda one: one.ended, "the end of the stream")
        assert stream.named("things") == []


@requirement("web:cookie:leave")
async def test_leaving_ends_the_visit(door: HttpServer) -> None:
    async with visitor(door.base, door.token) as person, visitor(door.base, door.token) as colleague:
        kept = dict(person.http.cookies)
        left = await person.post("api/leave")
        assert left.status_code == 204
        assert "Max-Age=0" in left.headers["set-cookie"]
        answer = await person.http.get("api/state", headers={"Cookie": "; ".join(f"{k}={v}" for k, v in kept.items())})
        assert answer.status_code == 401
        assert await colleague.get("api/state")


@requirement("web:wrong-tokens")
async def test_guessing_tokens_is_slowed_down(door: HttpServer) -> None:
    async with httpx2.AsyncClient(base_url=door.base, timeout=PATIENT_SECONDS) as http:

        async def guess(n: int) -> int:
            return (await http.post("/api/enter", json={}, headers={"Authorization": f"Bearer wrong-{n}"})).status_code

        assert set(await asyncio.gather(*(guess(n) for n in range(80)))) == {401, 429}
        assert (await http.post("/api/enter", json={}, headers=door.headers)).status_code == 204


@requirement("web:off")
async def test_the_page_can_be_switched_off(tmp_path: Path) -> None:
    with http_server(tmp_path, "--no-page") as server:
        for path in ("", "static/page.js", "api/state"):
            assert (
                httpx2.get(f"{server.base}/{path}", headers=server.headers, timeout=PATIENT_SECONDS).status_code == 404
            ), path
        assert httpx2.get(f"{server.base}/health", timeout=PATIENT_SECONDS).status_code == 200


@requirement("web:malformed")
async def test_a_malformed_address_is_refused_in_words(door: HttpServer) -> None:
    wrong = [
        *(
            "",
            "x",
            "://",
            "jupyter://",
            "jupyter:///etc/passwd",
            "file:///etc/passwd",
            "scratchpad://",
            "scratchpad://../x",
        ),
        *("notebook://", "notebook://a/b/c/d", "notebook://../../x", "context://project/overview", "http://127.0.0.1/"),
        *(
            "jupyter://%ff%fe.ipynb",
            "jupyter://..%2f..%2fetc.ipynb",
            "jupyter://\0.ipynb",
            "scratchpad://" + "a" * 3_000,
        ),
        "javascript:alert(1)",
    ]
    async with visitor(door.base, door.token) as person:
        for uri in wrong:
            for path in ("api/document", "api/frame", "api/lab"):
                answer = await person.http.get(path, params={"uri": uri, "cell": "x"})
                assert answer.status_code in {400, 404}, (path, uri, answer.status_code)
                assert set(answer.json()["error"]) == {"code", "message", "hint"}, (path, uri)
        for query in ({"start": "-1"}, {"count": "x"}, {"count": "100000"}, {"start": "9" * 40}):
            assert await person.refused("api/document", uri="scratchpad://x", **query) == 400, query
        answer = await person.http.post("api/cancel", content=b"[1", headers=FROM_PAGE)
        assert answer.status_code == 400


# -- each sees their own -----------------------------------------------------------------------------------------------------


async def make_things(agent: Agent) -> tuple[str, str]:
    """A pad and a thinking notebook; their addresses."""
    cells = [{"language": "md", "content": "# secret plans"}, {"language": "py", "content": "x = 1"}]
    made = await agent("scratch_create", metadata={"title": "secret plans", "tags": ["hush"]}, cells=cells)
    thinking = await agent("notebook_create", title="secret thoughts", language="python")
    (listed,) = [
        resource.uri
        for resource in (await agent.client.list_resources()).resources
        if resource.uri.endswith(str(thinking["notebookId"]))
    ]
    return f"scratchpad://{made['scratchpad']['scratch_id']}", str(listed)


@requirement("web:own", "web:own:stream")
async def test_everybody_sees_only_their_own(door: HttpServer) -> None:
    async with AsyncExitStack() as stack:
        mine = await stack.enter_async_context(visitor(door.base, door.token))
        theirs = await stack.enter_async_context(visitor(door.base, other_token(door)))
        heard_mine = await stack.enter_async_context(mine.events())
        heard_theirs = await stack.enter_async_context(theirs.events())
        agent = await stack.enter_async_context(agent_of(door))
        pad, thinking = await make_things(agent)
        await heard_mine.until(
            lambda one: any(
                e.data["tool"] == "notebook_create" and e.data["outcome"] == "ok" for e in one.named("call")
            ),
            "the calls",
        )
        things = {thing["uri"]: thing for thing in (await mine.get("api/things"))["things"]}
        assert {pad, thinking} <= things.keys()
        assert things[pad]["tags"] == ["hush"]
        assert [cell["source"] for cell in (await mine.document(pad))["cells"]] == ["# secret plans", "x = 1"]
        assert (await mine.document(thinking))["title"] == "secret thoughts"
        for uri, tool, arguments in (
            (
                pad,
                "scratch_append_cell",
                {"scratch_id": pad.rpartition("/")[2], "cell": {"language": "py", "content": "y"}},
            ),
            (
                thinking,
                "notebook_add_cell",
                {"notebookId": thinking.rpartition("/")[2], "cellType": "code", "source": "y"},
            ),
        ):
            before = await mine.document(uri)
            async with mine.events(uri) as looking:
                await agent(tool, **arguments)
                await looking.until(lambda one: len(one.named("changed")) > 1, f"the change by {tool}")
                changed = await mine.document(uri, since=before["revision"])
                assert [cell["source"] for cell in changed["cells"]] == ["y"]
                assert changed["order"][:-1] == [entry["id"] for entry in before["outline"]]

        assert [one for one in (await theirs.get("api/things"))["things"] if one["uri"] in {pad, thinking}] == []
        found = await theirs.get("api/things", q="secret plans")
        assert [one for one in found["things"] if one["uri"] in {pad, thinking}] == []
        for uri, missing in (
            (pad, "scratchpad://none"),
            (thinking, "notebook://s-00000000000000000000/nb-00000000000000000000"),
        ):
            another, none = [await theirs.http.get("api/document", params={"uri": one}) for one in (uri, missing)]
            assert another.status_code == none.status_code == 404
            assert another.json()["error"]["code"] == none.json()["error"]["code"]
            assert (await theirs.http.get("api/events", params={"uri": uri})).status_code == 404
        assert (await theirs.get("api/activity"))["calls"] == []
        assert (await theirs.get("api/activity"))["sessions"] == []
        # What everybody may know ends the wait: what was to come has come by then.
        await agent.client.call_tool("delete_document", {"path": "../nothing"})
        await heard_theirs.until(lambda one: bool(one.named("things")), "what is everybody's")
        assert {one.name for one in heard_theirs.events} <= {"hello", "things"}
        # Their numbers count their own events, and the others' cannot be asked for.
        last = heard_mine.events[-1].id
        async with theirs.events(last=last) as resumed:
            assert {one.name for one in resumed.events} <= {"hello", "reset", "things"}


@requirement("web:activity")
async def test_calls_are_shown_with_their_outcome_time_and_tokens(door: HttpServer) -> None:
    token = other_token(door)
    async with visitor(door.base, token) as person, person.events() as stream:
        async with http_client(door, headers={"Authorization": f"Bearer {token}"}) as client:
            await client.call_tool("workspace_status", {})
            await client.call_tool("scratch_read", {"scratch_id": "nothing"})
        await stream.until(lambda one: len(one.named("call")) >= 4, "both calls, begun and ended")
        begun, ended, _, failed = [one.data for one in stream.named("call")]
        assert (begun["tool"], begun["outcome"], begun["ms"]) == ("workspace_status", "running", None)
        assert (ended["n"], ended["outcome"]) == (begun["n"], "ok")
        assert ended["ms"] > 0
        assert ended["tokens"] > 10
        assert (failed["outcome"], failed["thing"]) == ("NOT_FOUND", "scratchpad://nothing")
        assert "nothing" in failed["error"]
        assert (await person.get("api/activity"))["calls"] == [failed, ended]


@requirement("web:scopes")
async def test_who_may_only_read_cannot_cancel(door: HttpServer) -> None:
    async with visitor(door.base, other_token(door, Scope.READ)) as person:
        assert (await person.get("api/state"))["scopes"] == ["read"]
        assert (await person.post("api/cancel", {"execution": "x"})).status_code == 403


# -- live --------------------------------------------------------------------------------------------------------------------


def notebook(jupyter: JupyterServer, name: str, sources: list[str]) -> str:
    write_notebook(jupyter.root, name, sources)
    return f"jupyter://{name}"


@requirement("web:malformed")
@pytest.mark.parametrize("number", ["²", "٣", "9" * 5_000, "-1", "x"])
async def test_a_revision_that_never_was_is_answered_with_the_whole(agent: Agent, person: Visitor, number: str) -> None:
    made = await agent("scratch_create", cells=[{"language": "md", "content": "whole"}])
    uri = f"scratchpad://{made['scratchpad']['scratch_id']}"
    run = (await person.document(uri))["revision"].partition(".")[0]
    assert (await person.document(uri, since=f"{run}.{number}"))["cells"][0]["source"] == "whole"


@requirement("web:live", "web:changes-only")
async def test_an_edit_is_told_before_it_is_acknowledged_and_fetched_alone(
    jupyter: JupyterServer, agent: Agent, person: Visitor
) -> None:
    uri = notebook(jupyter, "live.ipynb", [f"x{n} = {n}" for n in range(300)])
    first = await person.document(uri)
    assert (first["total"], len(first["cells"]), len(first["outline"])) == (300, 200, 300)
    rest = await person.document(uri, start="200")
    ids = [cell["id"] for cell in [*first["cells"], *rest["cells"]]]
    assert ids == [entry["id"] for entry in first["outline"]]
    async with person.events(uri) as stream:
        await stream.until(lambda one: bool(one.named("changed")), "the revision there is")
        assert stream.named("changed")[0].data == {"uri": uri, "revision": first["revision"]}
        await agent("edit_nb_cell", path="live.ipynb", cell=ids[7], old="= 7", new="= 77")
        await stream.until(
            lambda one: bool(one.named("call")) and one.named("call")[-1].data["outcome"] == "ok", "the call"
        )
        told = [one.name for one in stream.events]
        # Everything is told in the order in which it happened: the change is out before the caller has its answer.
        assert told.index("changed", 2) < len(told) - 1 - told[::-1].index("call")
        changed = await person.document(uri, since=first["revision"])
        assert [(cell["id"], cell["source"]) for cell in changed["cells"]] == [(ids[7], "x7 = 77")]
        assert changed["order"] is None
        assert "outline" not in changed
        await agent("delete_nb_cells", path="live.ipynb", ranges=[{"id": ids[0]}])
        moved = await person.document(uri, since=changed["revision"])
        assert moved["order"] == ids[1:]
        assert moved["cells"] == []
        unknown = await person.document(uri, since="0abc.17")
        assert len(unknown["outline"]) == 299
        assert (await person.document(uri, since=moved["revision"]))["cells"] == []


MADE_UP_CURSORS: tuple[object, ...] = (
    5,
    [5],
    [{"tail": 1}],
    [{"head": {"type": "x"}}],
    [{"head": {"type": {"client": 1, "clock": 1 << 60}}}],
)


@requirement("web:people")
async def test_it_shows_who_is_there_and_what_they_type(jupyter: JupyterServer, agent: Agent, person: Visitor) -> None:
    uri = notebook(jupyter, "people.ipynb", ["a = 1", "b = 2"])
    async with person.events(uri) as stream:
        before = (await person.document(uri))["revision"]
        async with person_in(jupyter, "people.ipynb") as anna:
            anna.announce("Anna")
            text = anna.text_of(0)
            text += "0"
            await anna.settle()
            await stream.until(
                lambda one: any(e.data["revision"] != before for e in one.named("changed")), "what a person typed"
            )
            await stream.until(lambda one: any(e.data["people"] for e in one.named("people")), "who is there")
            for made_up in MADE_UP_CURSORS:
                anna.announce("Anna", made_up)
            # As JupyterLab says it: the name of the text, beside the place in it.
            at_its_start = StickyIndex.new(anna.text_of(1), 0, Assoc.BEFORE)
            name = cast("dict[str, Any]", at_its_start.to_json())["type"]  # pyright: ignore[reportUnknownMemberType]
            anna.announce("Anna", [{"head": {"type": name, "tname": None, "item": None, "assoc": 0}, "primary": True}])
            second = (await person.document(uri))["cells"][1]["id"]
            await stream.until(
                lambda one: any(who["cell"] == second for e in one.named("people") for who in e.data["people"]),
                "where Anna is",
            )
        cells = (await person.document(uri))["cells"]
        assert "a = 10" in cells[0]["source"]
        await agent("edit_nb_cell", path="people.ipynb", cell=cells[1]["id"], old="2", new="20")
        await stream.until(
            lambda one: any(
                who["agent"] and who["cell"] == cells[1]["id"] for e in one.named("people") for who in e.data["people"]
            ),
            "where the agent is",
        )


@requirement("web:many")
@pytest.mark.timeout(120)
async def test_fifty_people_look_at_one_notebook(jupyter: JupyterServer, live: HttpServer, agent: Agent) -> None:
    uri = notebook(jupyter, "many.ipynb", [f"x{n} = {n}" for n in range(100)])
    edits = 10
    async with AsyncExitStack() as stack:
        people = [await stack.enter_async_context(visitor(live.base, live.token)) for _ in range(VIEWERS)]
        streams = [await stack.enter_async_context(one.events(uri)) for one in people]
        revision = (await people[0].document(uri))["revision"]
        process = psutil.Process(live.process.pid)
        spent = sum(process.cpu_times()[:2])
        for n in range(edits):
            await agent("insert_nb_cells", path="many.ipynb", position=-1, cells=[{"content": f"new{n}"}], exec=False)
        final = (await people[0].document(uri))["revision"]
        for stream in streams:
            await stream.until(lambda one: one.named("changed")[-1].data["revision"] == final, "the last revision")
        seen = await asyncio.gather(*(one.document(uri, since=revision) for one in people))
        spent = sum(process.cpu_times()[:2]) - spent
        assert all([cell["source"] for cell in one["cells"]] == [f"new{n}" for n in range(edits)] for one in seen)
        assert len({cell["id"] for one in seen for cell in one["cells"]}) == edits
        told = sum(len(stream.events) for stream in streams)
        # Each event to each viewer, and the fetch that follows, with all that the agent's calls cost besides.
        assert spent < 0.005 * (told + VIEWERS) + 0.1 * edits, (spent, told)


@requirement("web:resume")
async def test_who_comes_back_is_given_what_was_missed(jupyter: JupyterServer, agent: Agent, person: Visitor) -> None:
    uri = notebook(jupyter, "resume.ipynb", ["a = 1"])
    async with person.events(uri) as stream:
        await agent("workspace_status")
        await stream.until(lambda one: len(one.named("call")) >= 2, "a call")
        last = stream.events[-1].id
    await agent("insert_nb_cells", path="resume.ipynb", position=-1, cells=[{"content": "while away"}], exec=False)
    await agent("workspace_status")
    async with person.events(uri, last=last) as stream:
        await stream.until(
            lambda one: [e.data["tool"] for e in one.named("call")].count("workspace_status") == 2, "the missed"
        )
        assert stream.named("reset") == []
        missed = [one.data["tool"] for one in stream.named("call") if one.data["outcome"] == "ok"]
        assert missed == ["insert_nb_cells", "workspace_status"]
        numbers = [int(one.id.rpartition("-")[2]) for one in stream.events]
        assert numbers == sorted(numbers)
    run, _, number = last.rpartition("-")
    for unknown in (f"{run}-{int(number) + 10_000}", f"00000000-{number}", "nonsense"):
        async with person.events(uri, last=unknown) as stream:
            await stream.until(lambda one: bool(one.named("reset")), f"a fresh start after {unknown}")


RICH: list[dict[str, Any]] = [
    {"output_type": "stream", "name": "stdout", "text": "plain \x1b[31mred\x1b[0m " + TOKEN},
    {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/html": "<b onclick=steal()>bold</b><script>steal()</script>", "text/plain": "bold"},
    },
    {
        "output_type": "display_data",
        "metadata": {},
        "data": {"image/svg+xml": "<svg viewBox='0 0 9 9'><image href='https://evil.example/x'/><circle r='3'/></svg>"},
    },
    {
        "output_type": "error",
        "ename": "ValueError",
        "evalue": "<i>no</i>",
        "traceback": ["\x1b[31mValueError\x1b[0m: <i>no</i>"],
    },
    {"output_type": "display_data", "metadata": {}, "data": {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}},
    {"output_type": "display_data", "metadata": {}, "data": {"image/png": '" onerror=steal() x="', "text/plain": "x"}},
]


@requirement("web:frames", "web:secrets")
async def test_html_is_only_ever_given_to_a_frame_that_may_do_nothing(jupyter: JupyterServer, person: Visitor) -> None:
    file = write_notebook(jupyter.root, "rich.ipynb", ["1"])
    book = json.loads(file.read_text(encoding="utf-8"))
    book["cells"][0]["outputs"] = RICH
    file.write_text(json.dumps(book), encoding="utf-8")
    uri = "jupyter://rich.ipynb"
    answer = await person.http.get("api/document", params={"uri": uri})
    (cell,) = answer.json()["cells"]
    stream, html, svg, error, picture, broken = cell["outputs"]
    assert "<script" not in answer.text
    assert stream == {"type": "text", "text": "plain red ***", "stream": "stdout", "truncated": False}
    assert (html["type"], html["text"], svg["type"]) == ("html", "bold", "svg")
    assert (error["name"], error["traceback"]) == ("ValueError", "ValueError: <i>no</i>")
    assert picture == {"type": "image", "src": "data:image/png;base64,iVBORw0KGgo=", "alt": "<Figure>"}
    assert broken["type"] == "text"
    for one, inside in (
        (html, "<b>bold</b>"),
        (svg, '<svg viewBox="0 0 9 9"><image></image><circle r="3"></circle></svg>'),
    ):
        frame = await person.http.get(one["frame"])
        assert frame.status_code == 200
        policy = frame.headers["content-security-policy"]
        assert policy.startswith("sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:")
        assert "allow-" not in policy
        assert frame.headers["x-frame-options"] == "SAMEORIGIN"
        assert frame.headers["x-content-type-options"] == "nosniff"
        assert frame.text.endswith(inside)
    for n in ("0", "3", "99"):
        assert await person.refused("api/frame", uri=uri, cell=cell["id"], output=n) == 404
    assert await person.refused("api/frame", uri=uri, cell="nothing", output="1") == 404


@requirement("web:run:cancel", "web:reading-runs-nothing")
async def test_what_runs_is_shown_and_can_be_cancelled_by_its_owner(
    jupyter: JupyterServer, live: HttpServer, agent: Agent, person: Visitor
) -> None:
    uri = notebook(jupyter, "run.ipynb", ["import time; time.sleep(60)"])
    headers = {"Authorization": f"token {jupyter.token}"}
    async with person.events(uri) as stream, visitor(live.base, other_token(live)) as other:
        (cell,) = (await person.document(uri))["cells"]
        for path in ("api/things", "api/activity", "api/project", "api/state"):
            await person.get(path)
        kernels = httpx2.get(f"{jupyter.url}/api/sessions", headers=headers, timeout=PATIENT_SECONDS).json()
        assert [one for one in kernels if one["path"] == "run.ipynb"] == [], "looking has started nothing"
        await agent("execute_nb_cells", path="run.ipynb", ranges=[{"id": cell["id"]}], timeout=0)
        await stream.until(lambda one: any(e.data["state"] == "running" for e in one.named("run")), "the run")
        run = stream.named("run")[-1].data
        assert (run["uri"], run["cell"]) == (uri, cell["id"])
        assert (await person.get("api/activity"))["running"] == [run]
        assert (await other.get("api/activity"))["running"] == []
        assert (await other.post("api/cancel", {"execution": run["execution"]})).status_code == 404
        assert (await person.document(uri))["cells"][0]["state"] == "running"
        assert (await person.post("api/cancel", {"execution": run["execution"]})).status_code == 204
        await stream.until(lambda one: one.named("run")[-1].data["state"] == "ended", "its end")
        (ended,) = (await person.document(uri))["cells"]
        assert ended["outputs"][-1]["name"] == "KeyboardInterrupt"


@requirement("web:lab")
async def test_jupyterlabs_address_has_a_token_only_for_those_who_may_run(
    live: HttpServer, jupyter: JupyterServer
) -> None:
    uri = notebook(jupyter, "lab.ipynb", ["1"])
    async with visitor(live.base, other_token(live, Scope.READ)) as reader:
        lab = (await reader.document(uri))["lab"]
        answer = await reader.http.get(lab, follow_redirects=False)
        assert answer.status_code == 303
        assert answer.headers["location"] == f"{jupyter.url}/lab/tree/lab.ipynb"


@requirement("web:lost")
@pytest.mark.timeout(120)
async def test_a_lost_connection_to_jupyter_is_made_again_for_those_who_look(
    jupyter: JupyterServer, tmp_path: Path
) -> None:
    uri = notebook(jupyter, "lost.ipynb", ["a = 1"])
    async with Relay(jupyter) as wire:
        with in_front_of(wire.address, tmp_path) as server:
            async with visitor(server.base, server.token) as person, person.events(uri) as stream:
                before = (await person.document(uri))["revision"]
                wire.cut()
                await stream.until(
                    lambda one: one.named("changed")[-1].data["revision"] != before, "it was opened again"
                )
                again = (await person.document(uri))["revision"]
                async with person_in(jupyter, "lost.ipynb") as anna:
                    text = anna.text_of(0)
                    text += "3"
                    await anna.settle()
                    await stream.until(lambda one: one.named("changed")[-1].data["revision"] != again, "what was typed")
                assert "a = 13" in (await person.document(uri))["cells"][0]["source"]


@requirement("web:look:stops-nobody")
@pytest.mark.timeout(120)
async def test_who_looks_keeps_nobody_from_moving_or_deleting(
    jupyter: JupyterServer, live: HttpServer, agent: Agent
) -> None:
    moved, deleted = notebook(jupyter, "looked/at.ipynb", ["a = 1"]), notebook(jupyter, "looked-at.ipynb", ["b = 1"])
    async with (
        visitor(live.base, other_token(live, Scope.READ)) as reader,
        http_client(live, "legacy") as watcher,
        reader.events(moved) as stream,
    ):
        await watcher.subscribe_resource(deleted)  # pyright: ignore[reportDeprecated]
        await reader.document(deleted)
        for path in ("looked/at.ipynb", "looked-at.ipynb"):
            refused = await agent.error("end_nb_session", path=path)
            assert (refused["code"], "looks at" in refused["message"]) == ("CONFLICT", True), refused
        assert (await agent("rename_document", path="looked", newPath="seen"))["new_path"] == "seen"
        assert (await agent("delete_document", path="looked-at.ipynb"))["path"] == "looked-at.ipynb"
        assert await reader.refused("api/document", uri=moved) == 404
        # Another part than before: the same is given again for a second.
        assert await reader.refused("api/document", uri=deleted, start="1") == 404
        assert "a = 1" in (await reader.document("jupyter://seen/at.ipynb"))["cells"][0]["source"]
        assert not stream.ended
    assert not (jupyter.root / "looked-at.ipynb").exists()
    assert not (jupyter.root / "looked").exists()


@requirement("web:drain")
async def test_a_server_that_stops_ends_the_streams(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        async with visitor(server.base, server.token) as person, person.events() as stream:
            server.process.send_signal(signal.SIGTERM)
            await stream.until(lambda one: one.ended, "the end of the stream")
        await until(lambda: server.process.poll() is not None, "the server ended")
        assert server.process.returncode == 0
        assert "Traceback" not in server.log.read_text(encoding="utf-8")
