"""The REST client against real servers: files, kernels, ways to be let in, and refusals that say what is wrong."""

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cellwright.core.errors import ConfigError, Conflict, InvalidArgument, NotFound, Unavailable
from cellwright.core.types import Secret
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.errors import JupyterDenied
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import FileInfo, FileKind, FoundFile, NewCell
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.remote.adapter import RemoteJupyter
from cellwright.jupyter.remote.rest import Rest
from cellwright.jupyter.server.address import JupyterAddress
from jupyter_support import JupyterProcess, JupyterServer, write_notebook
from requirements import requirement
from support import free_port

pytestmark = pytest.mark.anyio

StartJupyter = Callable[..., JupyterProcess]


@requirement("documents:rest:files")
async def test_files_are_made_read_listed_renamed_copied_and_deleted(
    jupyter: Jupyter, jupyter_server: JupyterServer, folder: str
) -> None:
    documents = jupyter.documents
    notebook, text = DocPath(f"{folder}/n.ipynb"), DocPath(f"{folder}/sub/t.md")
    assert (await documents.create(notebook, FileKind.NOTEBOOK)).kind is FileKind.NOTEBOOK
    with pytest.raises(NotFound, match="no folder"):
        await documents.create(text, FileKind.FILE, "é")
    await documents.create(DocPath(f"{folder}/sub"), FileKind.DIRECTORY)
    made = await documents.create(text, FileKind.FILE, "é😀\n")
    assert (made.path, made.size, made.writable) == (text.text, 7, True)
    assert (jupyter_server.root / text.text).read_text(encoding="utf-8") == "é😀\n"
    assert (await documents.read(text, FileKind.FILE)).content == "é😀\n"
    assert [info.path for info in await documents.walk(DocPath(folder))] == [notebook.text, f"{folder}/sub", text.text]
    assert [info.name for info in await documents.folder(DocPath(folder))] == ["n.ipynb", "sub"]
    copied = await documents.copy(notebook, DocPath(f"{folder}/copy.ipynb"))
    assert copied.path == f"{folder}/copy.ipynb"
    renamed = await documents.rename(text, DocPath(f"{folder}/renamed.md"))
    assert renamed.path == f"{folder}/renamed.md"
    assert not (jupyter_server.root / text.text).exists()
    await documents.delete(notebook)
    with pytest.raises(NotFound):
        await documents.stat(notebook)


@requirement("documents:rest:files")
async def test_nothing_that_exists_is_overwritten_unasked(
    jupyter: Jupyter, jupyter_server: JupyterServer, folder: str
) -> None:
    for name in ("a.md", "b.md"):
        (jupyter_server.root / folder / name).write_text(name, encoding="utf-8")
    a, b = DocPath(f"{folder}/a.md"), DocPath(f"{folder}/b.md")
    for attempt in (
        lambda: jupyter.documents.create(a, FileKind.FILE, "x"),
        lambda: jupyter.documents.rename(a, b),
        lambda: jupyter.documents.copy(a, b),
    ):
        with pytest.raises(Conflict, match="exists already"):
            await attempt()
    assert [(jupyter_server.root / folder / name).read_text(encoding="utf-8") for name in ("a.md", "b.md")] == [
        "a.md",
        "b.md",
    ]


def names_in(folder: Path) -> list[str]:
    """What is there apart from the server's own checkpoints."""
    return [file.name for file in folder.iterdir() if not file.name.startswith(".")]


@requirement("documents:rest:odd-names")
@pytest.mark.parametrize(
    "name", ["a b.md", "é😀.md", "a#b?c=d&e.md", "100%.md", "50%25.md", "new\nline.md", "e\u0301.md", "+.md"]
)
async def test_odd_names_work_in_every_operation(
    jupyter: Jupyter, jupyter_server: JupyterServer, folder: str, name: str
) -> None:
    documents, path = jupyter.documents, DocPath(f"{folder}/{name}")
    await documents.create(path, FileKind.FILE, "x")
    assert names_in(jupyter_server.root / folder) == [name]
    assert [info.path for info in await documents.walk(DocPath(folder))] == [path.text]
    assert (await documents.read(path, FileKind.FILE)).content == "x"
    copy = DocPath(f"{folder}/copy of {name}")
    assert (await documents.copy(path, copy)).path == copy.text
    await documents.delete(path)
    assert (await documents.rename(copy, path)).path == path.text
    assert names_in(jupyter_server.root / folder) == [name]


@requirement("documents:rest:checked-write")
async def test_a_file_that_changed_is_not_overwritten(
    jupyter: Jupyter, jupyter_server: JupyterServer, folder: str
) -> None:
    file = jupyter_server.root / folder / "a.md"
    file.write_text("one", encoding="utf-8")
    path = DocPath(f"{folder}/a.md")
    read = await jupyter.documents.read(path, FileKind.FILE)
    assert read.info.hash == hashlib.sha256(b"one").hexdigest()
    written = await jupyter.documents.write(path, FileKind.FILE, "two", expect=read.info)
    file.write_text("by git", encoding="utf-8")
    for outdated in (read.info, written):
        with pytest.raises(Conflict, match="changed on disk"):
            await jupyter.documents.write(path, FileKind.FILE, "three", expect=outdated)
    assert file.read_text(encoding="utf-8") == "by git"


@requirement("documents:rest:wrong-token")
@pytest.mark.parametrize("token", ["", "wrong"])
async def test_a_wrong_token_is_reported_as_that(jupyter_server: JupyterServer, folder: str, token: str) -> None:
    write_notebook(jupyter_server.root, f"{folder}/a.ipynb", ["x"])
    path = NotebookPath(f"{folder}/a.ipynb")
    async with RemoteJupyter(JupyterAddress.parse(jupyter_server.url, token=Secret(token))) as remote:
        rooms = Rooms(remote.documents, Collaborator())
        with pytest.raises(JupyterDenied, match="token") as refusal:
            async with rooms.notebook(path):
                pass
        assert "--jupyter-token" in refusal.value.hint
        assert jupyter_server.token not in str(refusal.value)
        for attempt in (remote.kernels.specs, remote.kernels.sessions, lambda: remote.documents.walk(None)):
            with pytest.raises(JupyterDenied):
                await attempt()
        await rooms.close()


@requirement("documents:rest:unreachable")
async def test_a_server_that_does_not_answer_is_unavailable() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with RemoteJupyter(JupyterAddress.parse(url)) as remote:
        with pytest.raises(Unavailable, match=url) as refusal:
            await remote.documents.stat(DocPath("a.ipynb"))
        assert refusal.value.retryable


@asynccontextmanager
async def a_server_that_says(response: str) -> AsyncGenerator[tuple[str, list[str]]]:
    """A few bytes of HTTP that Jupyter cannot be made to send. Gives its address and the requests it got."""
    got: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(response.encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", got


@requirement("documents:rest:redirect")
async def test_the_token_is_not_sent_where_a_server_redirects() -> None:
    async with a_server_that_says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (elsewhere, got_elsewhere):
        redirect = f"HTTP/1.1 302 Found\r\nLocation: {elsewhere}/api/contents/?token=x\r\nContent-Length: 0\r\n\r\n"
        async with a_server_that_says(redirect) as (url, got):
            async with RemoteJupyter(JupyterAddress.parse(url, token=Secret("very-secret"))) as remote:
                with pytest.raises(Unavailable, match=elsewhere) as refusal:
                    await remote.documents.stat(DocPath("a.ipynb"))
            assert "very-secret" in got[0]
            assert got_elsewhere == []
            assert "token=x" not in str(refusal.value)


@requirement("documents:rest:redirect")
async def test_a_redirect_to_the_login_page_means_the_token_is_wrong() -> None:
    redirect = "HTTP/1.1 302 Found\r\nLocation: /login?next=%2Fapi\r\nContent-Length: 0\r\n\r\n"
    async with (
        a_server_that_says(redirect) as (url, _),
        RemoteJupyter(JupyterAddress.parse(url, token=Secret("old"))) as remote,
    ):
        with pytest.raises(JupyterDenied, match="does not accept the token"):
            await remote.documents.stat(DocPath("a.ipynb"))


@requirement("documents:rest:unreachable")
async def test_what_is_not_jupyter_is_not_taken_for_it() -> None:
    for body in ('{"hello": true}', "[1, 2]", "<html>"):
        async with (
            a_server_that_says(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}") as (url, _),
            RemoteJupyter(JupyterAddress.parse(url)) as remote,
        ):
            with pytest.raises(Unavailable, match="not what a Jupyter server answers"):
                await remote.documents.stat(DocPath("a.ipynb"))
    async with (
        a_server_that_says("HTTP/1.1 500 no\r\nContent-Length: 6\r\n\r\n<html>") as (url, _),
        RemoteJupyter(JupyterAddress.parse(url)) as remote,
    ):
        with pytest.raises(Unavailable, match="500"):
            await remote.documents.stat(DocPath("a.ipynb"))


ODD_ANSWERS = (
    "[1, 2]",
    "[null]",
    '[{"id": "k", "last_activity": "never", "connections": "many", "kernel": {"id": "k", "connections": "many"}}]',
    '{"hello": true}',
    '{"default": {}, "kernelspecs": {"a": null}}',
    '{"kernelspecs": {"a": {"spec": [1]}}}',
    '{"kernelspecs": {"a": {"resources": 5}}}',
    '{"kernelspecs": [1]}',
    "5",
    "null",
)


ODD_SESSIONS = ('[{"id": null, "kernel": 5}]', '[{"id": "s", "kernel": {"name": "x"}}]')


@requirement("documents:rest:unreachable")
@pytest.mark.parametrize("body", [*ODD_ANSWERS, *ODD_SESSIONS])
async def test_odd_answers_about_kernels_are_no_failures_of_ours(body: str) -> None:
    for ask in ("sessions",) if body in ODD_SESSIONS else ("specs", "kernels", "sessions", "restart"):
        async with (
            a_server_that_says(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}") as (url, _),
            RemoteJupyter(JupyterAddress.parse(url)) as remote,
        ):
            with pytest.raises(Unavailable, match="not what a Jupyter server answers"):
                await getattr(remote.kernels, ask)(*(["k"] if ask == "restart" else []))


@requirement("memory:answers")
@pytest.mark.parametrize("ask", ["specs", "kernels", "sessions"])
async def test_more_kernels_than_any_server_has_are_not_taken_in(ask: str) -> None:
    """Each would be looked at and told while others wait."""
    kernel = {"id": "k", "name": "python3", "last_activity": "2026-01-01T00:00:00Z", "connections": 0}
    many = [{**kernel, "execution_state": "idle"}] * 2_001
    told: object = many
    if ask == "specs":
        specs: dict[str, object] = {f"k{n}": {"name": f"k{n}", "spec": {"argv": []}} for n in range(2_001)}
        told = {"default": "k0", "kernelspecs": specs}
    if ask == "sessions":
        told = [{"id": "s", "path": "a", "type": "notebook", "kernel": one} for one in many]
    body = json.dumps(told)
    async with (
        a_server_that_says(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}") as (url, _),
        RemoteJupyter(JupyterAddress.parse(url)) as remote,
    ):
        with pytest.raises(Unavailable, match="more than 2,000 kernels, sessions or kinds"):
            await getattr(remote.kernels, ask)()


async def _edit_and_check(remote: RemoteJupyter, process: JupyterProcess) -> None:
    file = write_notebook(process.root, "a b.ipynb", ["x"])
    rooms = Rooms(remote.documents, Collaborator())
    try:
        async with rooms.notebook(NotebookPath("a b.ipynb")) as opened:
            assert opened.live
            _, known = await opened.change(lambda n: n.insert(-1, [NewCell("y")]), save=True)
            assert known.saved
    finally:
        await rooms.close()
    assert b'"y"' in file.read_bytes()
    await remote.documents.create(DocPath("made.md"), FileKind.FILE, "x")
    await remote.documents.delete(DocPath("made.md"))


@requirement("documents:rest:password", "documents:rest:prefix")
async def test_a_password_is_enough_also_under_a_base_url(start_jupyter: StartJupyter) -> None:
    # The hash of "open sesame", as `jupyter server password` writes it.
    digest = hashlib.sha1(b"open sesame" + b"ab").hexdigest()
    options = (f"--PasswordIdentityProvider.hashed_password=sha1:ab:{digest}",)
    process = await asyncio.to_thread(start_jupyter, base_path="/user/ada/", options=options, token_required=False)
    address = JupyterAddress.parse(process.url, password=Secret("open sesame"))
    async with RemoteJupyter(address) as remote:
        await _edit_and_check(remote, process)
    async with RemoteJupyter(JupyterAddress.parse(process.url, password=Secret("wrong"))) as remote:
        with pytest.raises(JupyterDenied, match="does not accept the password"):
            await remote.documents.stat(DocPath("a b.ipynb"))


@requirement("documents:rest:prefix", "documents:rest:headers")
async def test_a_base_url_and_a_header_that_carries_the_token(start_jupyter: StartJupyter) -> None:
    process = await asyncio.to_thread(start_jupyter, base_path="/user/ada/")
    headers = {"Authorization": Secret(f"Bearer {process.token}"), "X-Trace": Secret("1")}
    async with RemoteJupyter(JupyterAddress.parse(f"{process.url}/lab?reset", headers=headers)) as remote:
        assert remote.documents.url == process.url
        await _edit_and_check(remote, process)
        rest = Rest(JupyterAddress.parse(process.url, headers=headers))
        assert (await rest.websocket_headers())["x-trace"] == "1"
        await rest.close()


@requirement("documents:rest:prefix")
@pytest.mark.parametrize(
    ("given", "url", "token"),
    [
        ("http://localhost:8888", "http://localhost:8888", ""),
        ("http://localhost:8888/?token=abc", "http://localhost:8888", "abc"),
        ("http://localhost:8888/lab?token=abc", "http://localhost:8888", "abc"),
        ("https://hub.example/user/ada/lab/tree/a.ipynb", "https://hub.example/user/ada", ""),
        ("https://hub.example/user/ada%40x/", "https://hub.example/user/ada%40x", ""),
    ],
)
def test_an_address_is_taken_as_people_have_it(given: str, url: str, token: str) -> None:
    address = JupyterAddress.parse(given)
    assert (address.url, address.token.reveal()) == (url, token)


@requirement("documents:rest:prefix")
@pytest.mark.parametrize(
    "given", ["localhost:8888", "ftp://x", "http://", "http://u:p@x", "http://x:99999", "", "http://x:0"]
)
def test_what_is_no_address_is_refused_without_showing_its_token(given: str) -> None:
    with pytest.raises(ConfigError):
        JupyterAddress.parse(f"{given}?token=abc") if given else JupyterAddress.parse(given)


def _what_matters(info: FileInfo) -> tuple[object, ...]:
    return (
        info.path,
        info.kind,
        info.last_modified,
        info.writable,
        info.size if info.kind is not FileKind.DIRECTORY else None,
    )


@requirement("documents:rest:many")
async def test_a_thousand_notebooks_are_listed_the_same_from_disk_and_from_the_server(
    jupyter_server: JupyterServer, folder: str
) -> None:
    top = jupyter_server.root / folder
    for index in range(1_000):
        file = top / f"d{index % 10}" / f"n{index} é.ipynb"
        file.parent.mkdir(exist_ok=True)
        file.write_text("{}", encoding="utf-8")
    (top / ".hidden").mkdir()
    (top / ".hidden" / "x.ipynb").write_text("{}", encoding="utf-8")
    token = Secret(jupyter_server.token)
    async with (
        RemoteJupyter(JupyterAddress.parse(jupyter_server.url, token=token)) as over_http,
        RemoteJupyter(JupyterAddress.parse(jupyter_server.url, token=token, root=jupyter_server.root)) as from_disk,
        RemoteJupyter(JupyterAddress.parse(jupyter_server.url, token=token, root=top)) as misled,
    ):
        expected = [_what_matters(info) for info in await over_http.documents.walk(DocPath(folder))]
        assert len(expected) == 1_010
        found: Sequence[FoundFile] = []
        for other in (from_disk, misled):
            assert [_what_matters(info) for info in await other.documents.walk(DocPath(folder))] == expected
            found = await other.documents.find(DocPath(folder), ".ipynb")
            assert [one.path for one in found] == [entry[0] for entry in expected if entry[1] is FileKind.NOTEBOOK]
        gone = [FoundFile(f"{folder}/gone.ipynb", FileKind.NOTEBOOK), *found[:1]]
        assert [info.path for info in await from_disk.documents.describe(gone)] == [found[0].path]
        with pytest.raises(NotFound):
            await from_disk.documents.walk(DocPath(f"{folder}/not there"))


@requirement("documents:rest:many")
async def test_a_link_out_of_the_root_is_left_to_the_server(
    jupyter_server: JupyterServer, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside.ipynb").write_text("{}", encoding="utf-8")
    top = jupyter_server.root / folder
    (top / "inside.ipynb").write_text("{}", encoding="utf-8")
    (top / "link").symlink_to(tmp_path)
    (top / "loop").symlink_to(top)
    address = JupyterAddress.parse(jupyter_server.url, token=Secret(jupyter_server.token), root=jupyter_server.root)
    looked_at: list[str] = []
    scandir = os.scandir

    def noted(place: int | str) -> Any:
        # By descriptor, so that nobody can swap the folder for a link in between.
        looked_at.append(str(Path(f"/proc/self/fd/{place}").readlink()) if isinstance(place, int) else place)
        return scandir(place)

    monkeypatch.setattr(os, "scandir", noted)
    async with RemoteJupyter(address) as remote:
        found = await remote.documents.find(DocPath(folder), ".ipynb")
        assert [one.path for one in found] == [f"{folder}/inside.ipynb"]
        assert looked_at == [str(top)]
        await remote.documents.find(DocPath(f"{folder}/link"), ".ipynb")
        assert looked_at == [str(top)]


@requirement("documents:port:kernels")
async def test_kernels_and_sessions_through_the_port(
    jupyter: Jupyter, jupyter_server: JupyterServer, folder: str
) -> None:
    write_notebook(jupyter_server.root, f"{folder}/k.ipynb", ["x"])
    path, kernels = NotebookPath(f"{folder}/k.ipynb"), jupyter.kernels
    specs = await kernels.specs()
    assert [(spec.name, spec.language, spec.is_default) for spec in specs if spec.name == "python3"] == [
        ("python3", "python", True)
    ]
    assert await kernels.session_of(path) is None
    with pytest.raises(InvalidArgument, match="no kernel named 'cobol'"):
        await kernels.start_session(path, kernel_name="cobol")
    session = await kernels.start_session(path, kernel_name="python3")
    assert session.kernel is not None
    assert (session.path, session.kernel.name) == (path.text, "python3")
    again = await kernels.session_of(path)
    assert again is not None
    assert again.kernel is not None
    assert (again.id, again.kernel.id) == (session.id, session.kernel.id)
    other = await kernels.start_kernel("python3")
    switched = await kernels.switch_kernel(session.id, kernel_id=other.id)
    assert switched.kernel is not None
    assert switched.kernel.id == other.id
    await kernels.interrupt(other.id)
    assert (await kernels.restart(other.id)).id == other.id
    assert other.id in [kernel.id for kernel in await kernels.kernels()]
    channel = await kernels.open_channel(other.id, "test-session")
    await channel.close()
    await kernels.end_session(session.id)
    assert await kernels.session_of(path) is None
    for kernel in await kernels.kernels():
        if kernel.id in (other.id, session.kernel.id):
            await kernels.shut_down(kernel.id)
    with pytest.raises(NotFound, match=f"no kernel {other.id}"):
        await kernels.kernel(other.id)


@requirement("documents:port:two-servers")
async def test_documents_and_kernels_on_two_servers(
    jupyter_server: JupyterServer, start_jupyter: StartJupyter, folder: str
) -> None:
    kernels = await asyncio.to_thread(start_jupyter, collaboration=False)
    write_notebook(jupyter_server.root, f"{folder}/a.ipynb", ["x"])
    path = NotebookPath(f"{folder}/a.ipynb")
    async with RemoteJupyter(
        JupyterAddress.parse(jupyter_server.url, token=Secret(jupyter_server.token)),
        JupyterAddress.parse(kernels.url, token=Secret(kernels.token)),
    ) as remote:
        kernel = await remote.kernels.start_kernel()
        assert (await remote.kernels.kernel(kernel.id)).id == kernel.id
        about = await remote.about()
        assert (about["documents_url"], about["kernels_url"], about["kernels"]) == (jupyter_server.url, kernels.url, 1)
        rooms = Rooms(remote.documents, Collaborator())
        async with rooms.notebook(path) as opened:
            assert opened.live
        await rooms.close()
        await remote.kernels.shut_down(kernel.id)
