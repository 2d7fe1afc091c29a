"""Family S: secrets. Every place a secret can come in, and every place it must not come out."""

import json
import os
import stat
import subprocess
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

import copies
from adversarial_support import (
    ACCEPT,
    JSON_BODY,
    Answer,
    Session,
    bearer,
    call_tool,
    create_token,
    exchange,
    made_token,
    modern_headers,
    post,
    probe_server,
    raw_request,
    rpc,
    sources,
)
from requirements import requirement
from support import TOKEN, HttpServer, clean_environ, http_server

# Each is a word that occurs nowhere else, in the shape of what it stands for.
CANARIES = {
    "CELLWRIGHT_TOKEN": "canary-env-token-7f3a",
    "CELLWRIGHT_JUPYTER_TOKEN": "canary-env-jupyter-51cd",
    "CELLWRIGHT_RUNTIME_TOKEN": "canary-env-runtime-0b6e",
    "AWS_SECRET_ACCESS_KEY": "canary-env-foreign-9d20",
}
JUPYTER_URL = "http://127.0.0.1:1/lab?token=canary-query-88ab&x=1"
WITH_PASSWORD = "http://canary-user:canary-password-4e1f@127.0.0.1:1/"
DOCUMENT_TOKEN = "canary-flag-document-c3d4"
REQUEST = {
    "bearer": "canary-bearer-a1b2",
    "known bearer": CANARIES["CELLWRIGHT_TOKEN"],
    "basic": "canary-basic-d4e5",
    "cookie": "canary-cookie-f6a7",
    "query": "canary-query-string-b8c9",
    "referer": "canary-referer-e0f1",
    "header": "canary-x-api-key-2a3b",
    "path": "canary-path-4c5d",
    "exception": "canary-exception-6e7f",
    "uri": "canary-uri-8a9b",
}
WORD = "canary"


def canaries_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if WORD in line]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    flags = ("--log-level", "debug", "--jupyter-url", JUPYTER_URL, "--document-token", DOCUMENT_TOKEN)
    with probe_server(folder, *flags, environ=CANARIES, token="") as running:
        yield running


def carrying(path: str) -> list[tuple[str, str]]:
    """Headers with a canary in each that may carry one."""
    return [
        ("Cookie", f"session={REQUEST['cookie']}; token={REQUEST['cookie']}"),
        ("Referer", f"https://x.example{path}?token={REQUEST['referer']}"),
        ("X-Api-Key", REQUEST["header"]),
        ("Proxy-Authorization", f"Basic {REQUEST['basic']}"),
        ("User-Agent", f"agent/{REQUEST['header']}"),
        ("X-Mcp-Toolsets", REQUEST["header"]),
    ]


def error_paths(server: HttpServer) -> Iterator[Answer]:
    """Every way we know to make the server complain, with canaries all over the request."""
    good, wrong = bearer(CANARIES["CELLWRIGHT_TOKEN"]), bearer(REQUEST["bearer"])
    query = f"?token={REQUEST['query']}&access_token={REQUEST['query']}"
    stranger = sources()
    credentials = [[], [wrong], [("Authorization", f"Basic {REQUEST['basic']}")], [good]]
    places = [[], [("Host", f"{REQUEST['header']}.example")], [("Origin", f"https://{REQUEST['header']}.example")]]
    for path in ("/mcp", "/metrics", "/health", "/", f"/{REQUEST['path']}", f"/mcp/token={REQUEST['path']}"):
        for method in ("GET", "POST", "DELETE", "OPTIONS", "PUT"):
            for credential in credentials:
                for place in places:
                    headers = [*credential, *place, *carrying(path), ACCEPT, JSON_BODY]
                    request = raw_request(
                        server.port, method, path + query, headers, b"{}" if method == "POST" else b""
                    )
                    yield exchange(server.port, request, source=next(stranger))
    yield exchange(server.port, f"GET /{REQUEST['path']} HTTP/9.9\r\nX: {REQUEST['header']}\r\n\r\n".encode())
    yield exchange(server.port, f"{REQUEST['header']}\r\n\r\n".encode())


MADE_UP: dict[str, object] = {
    "string": "a.ipynb",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
}


def made_up(schema: Mapping[str, Any]) -> dict[str, object]:
    """Values of the right type for what a tool requires."""
    kinds = {name: schema["properties"][name].get("type", "string") for name in schema.get("required", ())}
    return {name: MADE_UP[kind if isinstance(kind, str) else kind[0]] for name, kind in kinds.items()}


def tool_paths(server: HttpServer) -> Iterator[Answer]:
    token = CANARIES["CELLWRIGHT_TOKEN"]
    yield call_tool(server, "workspace_status", token=token)
    yield call_tool(server, "workspace_doctor", token=token)
    yield call_tool(server, "probe_crash", {"text": REQUEST["exception"]}, token=token)
    yield call_tool(server, "probe_nothing", token=token)
    yield call_tool(server, "probe_read", {"count": "x"}, token=token)
    session = Session(server, token, [("Cookie", f"a={REQUEST['cookie']}")])
    yield session.opening
    yield session.call("workspace_doctor")
    yield session.call("probe_crash", {"text": REQUEST["exception"]})
    yield session.send(b"{", [("Last-Event-ID", REQUEST["header"])])
    listed = post(server.port, rpc("tools/list"), modern_headers("tools/list", token=token))
    yield listed
    for tool in listed.json()["result"]["tools"]:
        if not tool["name"].startswith(("probe_", "workspace_")):
            # Jupyter is not there: each of these fails on the way to an address that carries a token.
            yield call_tool(server, tool["name"], made_up(tool["inputSchema"]), token=token)
    for uri in ("cellwright://status", "cellwright://errors/NOT_FOUND", "cellwright://nothing", "nothing"):
        yield post(server.port, rpc("resources/read", {"uri": uri}), modern_headers("resources/read", uri, token))
    yield exchange(server.port, raw_request(server.port, "GET", "/metrics", [bearer(token)]))


@requirement("adversarial:S1")
def test_no_secret_comes_out_of_a_server_that_is_made_to_complain(server: HttpServer) -> None:
    told = [str(answer) for answer in error_paths(server)] + [str(answer) for answer in tool_paths(server)]
    assert [found for answer in told for found in canaries_in(answer)] == []
    log = server.log.read_text(encoding="utf-8")
    assert "event=crash" in log, "the server was to be made to crash inside"
    # A path is no place for a secret, and a log without paths is of no use: those are logged, all else is not.
    assert [line for line in canaries_in(log) if WORD in line.replace(REQUEST["path"], "")] == []


@requirement("adversarial:S1")
def test_a_token_in_a_resource_address_or_a_path_is_not_logged(server: HttpServer) -> None:
    secret = f"cw_{REQUEST['uri']}"
    token = CANARIES["CELLWRIGHT_TOKEN"]
    for uri in (f"cellwright://status?token={secret}", f"cellwright://{secret}", f"other://x/?access_token={secret}"):
        post(server.port, rpc("resources/read", {"uri": uri}), modern_headers("resources/read", uri, token))
    exchange(server.port, raw_request(server.port, "GET", f"/{secret}", [bearer(token)]))
    exchange(server.port, raw_request(server.port, "GET", f"/x/token={secret}", [bearer(token)]))
    log = server.log.read_text(encoding="utf-8")
    assert [line for line in log.splitlines() if REQUEST["uri"] in line] == []


def cellwright(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return copies.run(*arguments, env=clean_environ(**environ))


@requirement("adversarial:S1")
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["lines", "json"])
@pytest.mark.parametrize("url", [JUPYTER_URL, WITH_PASSWORD], ids=["token in the address", "password in the address"])
def test_the_doctor_shows_no_secret(tmp_path: Path, form: list[str], url: str) -> None:
    flags = ("--jupyter-url", url, "--document-token", DOCUMENT_TOKEN, "--root", str(tmp_path))
    ended = cellwright("doctor", *form, *flags, "--state-dir", str(tmp_path / "state"), **CANARIES)
    assert "Traceback" not in ended.stderr
    assert canaries_in(ended.stdout + ended.stderr) == []


WRONG_FLAGS: dict[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "misspelt flag": (("serve", "--tokn=canary-1"), {}),
    "misspelt flag, value apart": (("serve", "--tokn", "canary-1"), {}),
    "misspelt flag of Jupyter": (("--jupyter-tokem=canary-1",), {}),
    "misspelt variable": (("doctor",), {"CELLWRIGHT_TOKE": "canary-1"}),
    "wrong value elsewhere": (
        ("serve", "--token", "canary-1", "--port", "x"),
        {"CELLWRIGHT_JUPYTER_TOKEN": "canary-2"},
    ),
    "no such folder": (("serve", "--token=canary-1", "--root", "/nowhere"), {}),
    "flag of another command": (("doctor", "--token=canary-1", "--transport", "stdio"), {}),
    "port in use": (("serve", "--token=canary-1", "--host", "203.0.113.1"), {}),
    "only part of OAuth": (("serve", "--token=canary-1", "--jwt-issuer", "https://i.example"), {}),
    "a Jupyter address that is none": (("serve", "--jupyter-url", "http://canary-1:canary-2@:x/?token=canary-3"), {}),
    "keys that cannot be had": (
        (
            *("serve", "--jwt-issuer", "https://i.example", "--jwt-audience", "https://us.example"),
            *("--jwt-jwks", "http://canary-1:canary-2@127.0.0.1:1/keys?api_key=canary-3"),
        ),
        {},
    ),
}


@requirement("adversarial:S1")
@pytest.mark.parametrize("case", WRONG_FLAGS)
def test_a_start_that_fails_shows_no_secret(case: str) -> None:
    arguments, environ = WRONG_FLAGS[case]
    ended = cellwright(*arguments, **environ)
    assert ended.returncode == 2, ended
    assert canaries_in(ended.stdout + ended.stderr) == []


@requirement("adversarial:S1")
def test_a_configuration_file_with_a_fault_shows_none_of_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    for text in (
        'token = "canary-1"\nport = "x"\n',
        'tokn = "canary-1"\n',
        'token = ["canary-1"]\n',
        'token = "canary-1\n',
    ):
        file.write_text(text, encoding="utf-8")
        ended = cellwright("serve", "--config", str(file))
        assert ended.returncode == 2, ended
        assert canaries_in(ended.stdout + ended.stderr) == []


@requirement("adversarial:S1")
def test_the_server_greets_without_the_token_it_was_given(folder: Path) -> None:
    # Only a token that was made here is shown, because nobody else can know it; one that was given is the giver's to keep.
    with http_server(folder, token=CANARIES["CELLWRIGHT_TOKEN"]) as running:
        assert call_status(running, CANARIES["CELLWRIGHT_TOKEN"]) == 200
        running.process.terminate()
        assert running.process.stdout is not None
        assert canaries_in(running.process.stdout.read() + running.log.read_text(encoding="utf-8")) == []


@requirement("adversarial:S1")
def test_listing_tokens_shows_neither_secret_nor_hash(tmp_path: Path) -> None:
    secret = create_token(tmp_path, "one", "read")
    digest = json.loads((tmp_path / "tokens.json").read_text(encoding="utf-8"))[0]["digest"]
    shown = [cellwright("token", "list", *form, "--state-dir", str(tmp_path)).stdout for form in ([], ["--json"])]
    assert all("one" in text and secret not in text and digest not in text for text in shown)
    assert secret not in (tmp_path / "tokens.json").read_text(encoding="utf-8")


# -- S2 a failure inside -----------------------------------------------------------------------------------------------------


@requirement("adversarial:S2")
def test_a_request_that_fails_inside_leaves_nothing_of_itself_in_the_log(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    keys = tmp_path / "keys.json"
    row = {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "one"}
    keys.write_text(json.dumps({"keys": [row]}), encoding="utf-8")
    oauth = ("--jwt-issuer", "https://i.example", "--jwt-audience", "https://us.example", "--jwt-jwks", str(keys))
    with probe_server(tmp_path, "--log-level", "debug", *oauth) as server:
        known = made_token(tmp_path / "state", "known", "read")
        claims = {"iss": "https://i.example", "aud": "https://us.example", "sub": WORD, "exp": 4e9, "scope": "read"}
        absurd = jwt.encode({**claims, "exp": 1e300}, key, "RS256", headers={"kid": "one"})
        call_tool(server, "probe_crash", {"text": REQUEST["exception"]}, more=carrying("/mcp")[:-1])
        # The verifier's own file is broken under it, and the claims hold what no verifier expects.
        (tmp_path / "state" / "tokens.json").write_text('[{"id": 5}]', encoding="utf-8")
        for token in (REQUEST["bearer"], known, absurd):
            for path in ("/mcp", "/metrics"):
                headers = [bearer(token), *carrying(path)]
                request = raw_request(server.port, "GET", f"{path}?token={REQUEST['query']}", headers)
                exchange(server.port, request, source="127.79.0.1")
        log = server.log.read_text(encoding="utf-8")
        assert "event=crash" in log, "the server was to fail inside"
        assert [*canaries_in(log), *(line for line in log.splitlines() if known in line or absurd in line)] == []


# -- S4 files ----------------------------------------------------------------------------------------------------------------


def open_to_others(folder: Path) -> list[str]:
    found = [folder, *folder.rglob("*")]
    return [f"{path.name} {stat.S_IMODE(path.stat().st_mode):o}" for path in found if path.stat().st_mode & 0o077]


@requirement("adversarial:S4")
def test_what_is_written_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    state = tmp_path / "state"
    before = os.umask(0)
    try:
        create_token(state, "one", "read")
        with http_server(tmp_path, token="") as server:
            assert (state / "serve-token").is_file()
            assert open_to_others(state) == []
            made = (state / "serve-token").read_text(encoding="utf-8").strip()
            assert call_status(server, made) == 200
    finally:
        os.umask(before)
    assert open_to_others(state) == []
    assert sorted(path.name for path in state.iterdir()) == ["serve-token", "tokens.json"]


def call_status(server: HttpServer, token: str) -> int:
    return post(server.port, rpc("tools/list"), modern_headers("tools/list", token=token)).status


@contextmanager
def started_or_refused(folder: Path, token: str, because: str) -> Generator[HttpServer | None]:
    """The server, or None if it would not start and said why."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(http_server(folder, token=token))
        except AssertionError as refusal:
            if because not in str(refusal):
                raise
            server = None
        yield server


@requirement("adversarial:S4")
@pytest.mark.parametrize(("mode", "given"), [(0o777, TOKEN), (0o777, ""), (0o1777, TOKEN), (0o755, TOKEN)])
def test_a_state_folder_that_others_can_enter_is_closed_or_refused(tmp_path: Path, mode: int, given: str) -> None:
    state = tmp_path / "state"
    made_token(state, "one", "read")
    state.chmod(mode)
    with started_or_refused(tmp_path, given, str(state)) as server:
        assert server is None or open_to_others(state) == []


@requirement("adversarial:S4")
@pytest.mark.parametrize("given", [TOKEN, ""], ids=["token given", "token made"])
def test_a_token_file_that_anybody_could_have_written_gives_nobody_a_token(tmp_path: Path, given: str) -> None:
    state = tmp_path / "state"
    planted = made_token(state, "planted", "read,write,run,admin")
    (state / "tokens.json").chmod(0o666)
    state.chmod(0o777)
    with started_or_refused(tmp_path, given, str(state)) as server:
        assert server is None or call_status(server, planted) == 401


@requirement("adversarial:S4")
def test_creating_a_token_closes_a_folder_that_others_can_read(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o755)
    create_token(state, "one", "read")
    assert open_to_others(state) == []


@requirement("adversarial:S4")
def test_a_state_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    planted = made_token(state, "planted", "read,write,run,admin")
    for path in (state / "tokens.json", state):
        os.chown(path, 65534, 65534)  # the tests run as root; nobody else could give a folder away
    with started_or_refused(tmp_path, TOKEN, "belongs to another user") as server:
        assert server is None or call_status(server, planted) == 401
    refused = cellwright("token", "create", "x", "--state-dir", str(state))
    assert (refused.returncode, "belongs to another user" in refused.stderr) == (2, True)


@requirement("adversarial:S4")
def test_a_link_in_place_of_a_token_file_is_not_written_through(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    victim = tmp_path / "victim"
    victim.write_text("[]", encoding="utf-8")
    (state / "tokens.json").symlink_to(victim)
    create_token(state, "one", "read")
    assert victim.read_text(encoding="utf-8") == "[]"
    assert not (state / "tokens.json").is_symlink()
    assert open_to_others(state) == []


@requirement("adversarial:S4")
def test_a_kept_serve_token_that_others_could_read_is_not_used_as_it_is(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    (state / "serve-token").write_text("cw_known-to-everybody\n", encoding="utf-8")
    (state / "serve-token").chmod(0o644)
    with http_server(tmp_path, token="") as server:
        assert call_status(server, "cw_known-to-everybody") == 401
        assert open_to_others(state) == []


@requirement("adversarial:S4")
def test_the_server_listens_on_loopback_alone_and_leaves_no_socket_file(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        listed = Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()
        own = [
            line.split()[1]
            for line in listed
            if line.split()[1].endswith(f":{server.port:04X}") and line.split()[3] == "0A"
        ]
        assert own == [f"0100007F:{server.port:04X}"]
    assert [path for path in tmp_path.rglob("*") if path.is_socket()] == []
