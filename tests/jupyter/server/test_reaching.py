"""A Jupyter server as people reach it: with a password, behind a proxy, with what the environment holds."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import copies
from cellwright.app.servers import named_servers, secrets_of
from cellwright.app.settings_loading import load_settings
from cellwright.core.errors import CellwrightError, ConfigError
from cellwright.core.types import Secret
from cellwright.jupyter.errors import JupyterDenied
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import FileKind
from cellwright.jupyter.remote.adapter import RemoteJupyter
from cellwright.jupyter.server.address import JupyterAddress, parse_headers
from jupyter_support import JupyterProcess, write_notebook
from notebook_agent import agent_of
from requirements import requirement
from support import clean_environ, http_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

PASSWORD = "open sesame 4711"
PASS = "canary-pass-of-the-proxy"
COOKIE = "canary-cookie-of-the-proxy"


class Gatekeeper:
    """A reverse proxy that lets nothing past without its header and its cookie, websockets included."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.passed: list[str] = []
        self.stopped: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            if headers.get("x-pass") == PASS and f"gate={COOKIE}" in headers.get("cookie", ""):
                self.passed.append(first)
                await self._forward(first, lines, is_socket="upgrade" in headers, reader=reader, writer=writer)
            else:
                self.stopped.append(first)
                writer.write(b"HTTP/1.1 403 no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                await writer.drain()
        writer.close()

    async def _forward(
        self,
        first: str,
        lines: list[str],
        *,
        is_socket: bool,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        there, onward = await asyncio.open_connection("127.0.0.1", self._port)
        # One request for each connection, so that each has a head of its own.
        kept = [line for line in lines if is_socket or not line.lower().startswith("connection:")]
        more = [] if is_socket else ["Connection: close"]
        onward.write("\r\n".join([first, *kept, *more, "", ""]).encode("latin-1"))
        await asyncio.gather(pump(reader, onward), pump(there, writer))


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def gatekeeper(port: int) -> AsyncGenerator[Gatekeeper]:
    keeper = Gatekeeper(port)
    listener = await asyncio.start_server(keeper.serve, "127.0.0.1", 0)
    keeper.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield keeper
    finally:
        listener.close()


@pytest.fixture(scope="module")
def with_password(tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterProcess]:
    """A real server that has a password and no token."""
    digest = hashlib.sha1(f"{PASSWORD}ab".encode()).hexdigest()
    options = (f"--PasswordIdentityProvider.hashed_password=sha1:ab:{digest}",)
    home = tmp_path_factory.mktemp("password")
    with JupyterProcess(home, options=options, token_required=False) as process:
        yield process


@requirement("reach:password", "reach:proxy", "reach:secret")
async def test_a_server_with_a_password_behind_a_proxy_is_used_like_any_other(
    with_password: JupyterProcess, tmp_path: Path
) -> None:
    write_notebook(with_password.root, "a.ipynb", ["1 + 1"])
    environ = {
        "CELLWRIGHT_JUPYTER_PASSWORD": PASSWORD,
        "CELLWRIGHT_JUPYTER_HEADERS": f"X-Pass: {PASS}\nCookie: gate={COOKIE}; other=1",
    }
    async with gatekeeper(with_password.port) as keeper:
        with http_server(tmp_path, "--jupyter-url", f"{keeper.url}/lab/tree/a.ipynb", environ=environ) as server:
            async with agent_of(server) as agent:
                ran = await agent("insert_nb_cells", path="a.ipynb", position=-1, cells=[{"content": "print(6 * 7)"}])
                assert "42" in json.dumps(ran)
                stat = await agent("get_nb_stat", path="a.ipynb")
                assert (stat["live"], stat["cell_count"]) == (True, 2)
                shown = await agent(
                    "insert_nb_cells", path="a.ipynb", position=-1, cells=[{"content": f"print('{PASS}')"}]
                )
                assert PASS not in json.dumps(shown["execution_results"])
            log = server.log.read_text(encoding="utf-8")
        assert keeper.stopped == []
        sockets = [first for first in keeper.passed if "/api/collaboration/room" in first or "/channels" in first]
        assert len(sockets) >= 2, "the document and the kernel are reached by websockets"
        report = await asyncio.to_thread(doctor, tmp_path, keeper.url, environ)
        assert "lets us in with the password and the headers X-Pass, Cookie" in report
    for secret in (PASSWORD, PASS, COOKIE):
        assert secret not in log
        assert secret not in report


def doctor(folder: Path, url: str, environ: Mapping[str, str]) -> str:
    folders = ("--root", str(folder), "--state-dir", str(folder / "state"))
    done = copies.run("doctor", "--json", "--jupyter-url", url, *folders, env=clean_environ(**environ), timeout=120)
    assert '"Jupyter at' in done.stdout, done.stderr
    return done.stdout + done.stderr


@requirement("reach:words")
async def test_who_is_not_let_in_is_told_what_was_tried(with_password: JupyterProcess) -> None:
    url = with_password.url
    for address, words in (
        (JupyterAddress.parse(url), "wants a token or a password"),
        (JupyterAddress.parse(url, password=Secret("wrong")), "does not accept the password"),
        (JupyterAddress.parse(f"{url}?token=wrong"), "does not accept the token in the address"),
        (
            JupyterAddress.parse(url, token=Secret("wrong"), known_as="the token of --jupyter-token"),
            "does not accept the token of --jupyter-token",
        ),
        (
            JupyterAddress.parse(url, headers={"X-Pass": Secret("wrong")}),
            "does not accept the header X-Pass",
        ),
    ):
        async with RemoteJupyter(address) as remote:
            with pytest.raises(JupyterDenied, match=words) as denied:
                await remote.documents.folder(None)
        assert "--jupyter-password" in str(denied.value.hint)
        assert "--jupyter-headers" in str(denied.value.hint)
        assert "wrong" not in f"{denied.value} {denied.value.hint}"


@requirement("reach:words")
async def test_a_hub_server_is_told_of_by_its_own_words() -> None:
    address = JupyterAddress.parse("https://hub.example.org/user/ada/lab", token=Secret("x"))
    async with RemoteJupyter(address) as remote:
        denied = remote.documents._rest.denied(403)  # pyright: ignore[reportPrivateUsage] - there is no Hub here to ask
    assert "JupyterHub's own page `Token`" in str(denied.hint)


@requirement("reach:open")
async def test_a_server_that_asks_for_nothing_is_used_with_nothing(tmp_path: Path) -> None:
    process = JupyterProcess(tmp_path, token_required=False, base_path="/base/", collaboration=False)
    await asyncio.to_thread(process.start)
    try:
        async with RemoteJupyter(JupyterAddress.parse(process.url)) as remote:
            await remote.documents.create(DocPath("made.md"), FileKind.FILE, "x")
            await remote.documents.rename(DocPath("made.md"), DocPath("moved.md"))
            assert [info.path for info in await remote.documents.folder(None)] == ["moved.md"]
            await remote.documents.delete(DocPath("moved.md"))
    finally:
        process.stop()


# -- settings, addresses, the environment -----------------------------------------------------------------------------------------


@requirement("reach:environment")
@pytest.mark.parametrize(
    ("flags", "environ", "token", "known_as"),
    [
        ({"jupyter_url": "http://h:1"}, {"JUPYTER_TOKEN": "e"}, "e", "the token of JUPYTER_TOKEN"),
        ({"jupyter_url": "http://h:1/?token=u"}, {"JUPYTER_TOKEN": "e"}, "u", "the token in the address"),
        (
            {"jupyter_url": "http://h:1/?token=u", "jupyter_token": "s"},
            {"JUPYTER_TOKEN": "e"},
            "s",
            "the token of --jupyter-token",
        ),
        (
            {"document_url": "http://h:1", "document_token": "d", "jupyter_token": "s"},
            {},
            "d",
            "the token of --document-token",
        ),
        ({"jupyter_url": "http://h:1"}, {"JUPYTERHUB_API_TOKEN": "h"}, "", "the token"),
        (
            {"jupyter_url": "https://h/user/ada/lab"},
            {"JUPYTERHUB_API_TOKEN": "h", "JUPYTER_TOKEN": "e"},
            "h",
            "the token of JUPYTERHUB_API_TOKEN",
        ),
        ({"jupyter_url": "http://h:1", "jupyter_password": "p"}, {"JUPYTER_TOKEN": "e"}, "", "the token"),
        ({"jupyter_url": "http://h:1", "jupyter_headers": "Authorization: x"}, {"JUPYTER_TOKEN": "e"}, "", "the token"),
    ],
)
def test_the_nearest_token_counts(
    flags: dict[str, str], environ: dict[str, str], token: str, known_as: str, tmp_path: Path
) -> None:
    settings = load_settings({**flags, "root": str(tmp_path)}, environ, None)
    documents, _ = named_servers(settings, environ)
    assert documents is not None
    assert (documents.token.reveal(), documents.known_as) == (token, known_as)


@requirement("reach:secret")
def test_every_secret_of_the_settings_is_known_and_none_is_shown(tmp_path: Path) -> None:
    flags = {
        "root": str(tmp_path),
        "jupyter_url": "http://h:1/lab?token=canary-1",
        "jupyter_headers": '{"X-Pass": "canary-2", "Cookie": "a=canary-3"}',
        "jupyter_password": "canary-4",
        "runtime_headers": "X-Other: canary-5",
        "runtime_url": "http://other:2",
    }
    settings = load_settings(flags, {}, None)
    known = {secret.reveal() for secret in secrets_of(settings, {})}
    assert {"canary-1", "canary-2", "a=canary-3", "canary-4", "canary-5"} <= known
    documents, kernels = named_servers(settings, {})
    for text in (repr(settings), str(settings.effective()), repr(documents), repr(kernels)):
        assert "canary" not in text
    assert kernels is not None
    assert list(kernels.headers) == ["X-Other"]


@requirement("reach:headers")
@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("X-A: 1", {"X-A": "1"}),
        ("X-A: 1\nx-b:  two: 2 \n\n", {"X-A": "1", "x-b": "two: 2"}),
        ('{"X-A": "1", "X-B": "2"}', {"X-A": "1", "X-B": "2"}),
    ],
)
def test_headers_are_taken_as_people_write_them(text: str, headers: dict[str, str]) -> None:
    assert {name: value.reveal() for name, value in parse_headers(Secret(text)).items()} == headers


@requirement("reach:headers")
@pytest.mark.parametrize(
    "text",
    [
        "canary",
        '{"X-A": canary',
        '{"X-A": 1}',
        '["canary"]',
        "X A: canary",
        "Host: canary",
        "X-A: c\x00anary",
        "X-A: canarü",
    ],
)
def test_headers_that_cannot_be_sent_are_refused_without_showing_them(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_headers(Secret(text))
    assert "canar" not in f"{refused.value} {refused.value.hint}"


@requirement("reach:words")
@pytest.mark.parametrize(
    ("url", "more", "hint"),
    [
        ("http://ada:canary@h:1/", {}, "--jupyter-headers 'Authorization: Basic"),
        ("https://h/hub/home", {}, "https://host/user/name"),
        (
            "http://h:1",
            {"token": Secret("canary"), "headers": {"Authorization": Secret("canary")}},
            "log in to Jupyter with --jupyter-password",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_what_does(url: str, more: dict[str, object], hint: str) -> None:
    with pytest.raises(CellwrightError) as refused:
        JupyterAddress.parse(url, **more)  # pyright: ignore[reportArgumentType]
    assert hint in str(refused.value.hint)
    assert "canary" not in f"{refused.value} {refused.value.hint}"


@requirement("reach:words")
@pytest.mark.parametrize(
    ("copied", "url"),
    [
        ("http://h:1/lab/tree/x.ipynb?token=t", "http://h:1"),
        ("http://h:1/base/notebooks/x.ipynb", "http://h:1/base"),
        ("http://h:1/doc/tree/x.ipynb", "http://h:1"),
        ("http://h:1/edit/x.py", "http://h:1"),
        ("https://h/user/lab/lab/tree/tree/x.ipynb", "https://h/user/lab"),
        ("https://h/jupyter/user/ada/named/lab", "https://h/jupyter/user/ada/named"),
    ],
)
def test_an_address_that_was_copied_from_the_browser_is_that_of_the_server(copied: str, url: str) -> None:
    assert JupyterAddress.parse(copied).url == url
