"""Family A: tokens. Forged, stale, too weak, somebody else's, and where a good one may turn up."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from starlette.requests import Request
from starlette.responses import Response

from adversarial.probe import make_probed
from adversarial_support import (
    ACCEPT,
    JSON_BODY,
    LEGACY,
    MODERN,
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
    ran,
    raw_request,
    revoke_token,
    rpc,
    sources,
    tools_of,
)
from cellwright.app.http.gate import Gate
from cellwright.app.http.routes import Route
from cellwright.app.http.tokens import OneToken, TokenStore
from cellwright.app.http.turns import TurnLimits
from cellwright.app.settings import Settings
from cellwright.core.types import PRINCIPAL_KEY, Scope, Secret
from requirements import requirement
from support import TOKEN, HttpServer, wait_until

pytestmark = pytest.mark.anyio

ISSUER = "https://issuer.example"
AUDIENCE = "https://cellwright.example/mcp"
METADATA = "https://cellwright.example/.well-known/oauth-protected-resource"
EFFECTS = {"write": "probe_write", "run": "probe_run"}


@pytest.fixture(scope="module")
def beyond_read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every name, alias included, of every tool that needs more than `read`, and what it needs."""
    made = make_probed(Settings(root=tmp_path_factory.mktemp("catalogue"), toolsets=("all",)), "stdio")
    tools = [
        tool for toolset in made.catalogue.toolsets for tool in toolset.tools if tool.effect.scope is not Scope.READ
    ]
    found = {name: tool.effect.scope.value for tool in tools for name in (tool.name, *tool.aliases)}
    assert {"probe_write", "old_write", "probe_run", "old_run", "workspace_doctor"} <= set(found)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("authorization")


@dataclass(frozen=True)
class Keys:
    """The issuer's keys: one RSA, one elliptic, and the RSA one as a forger sees it."""

    rsa: RSAPrivateKey
    ec: EllipticCurvePrivateKey
    other: RSAPrivateKey

    @property
    def public_pem(self) -> bytes:
        encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        return self.rsa.public_key().public_bytes(encoding, form)

    def jwks(self) -> str:
        rows = [
            {**RSAAlgorithm.to_jwk(self.rsa.public_key(), as_dict=True), "kid": "rsa", "use": "sig"},
            {**ECAlgorithm.to_jwk(self.ec.public_key(), as_dict=True), "kid": "ec", "use": "sig"},
        ]
        return json.dumps({"keys": rows})


@pytest.fixture(scope="module")
def keys() -> Keys:
    return Keys(
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP256R1()),
        rsa.generate_private_key(65537, 2048),
    )


@pytest.fixture(scope="module")
def server(folder: Path, keys: Keys) -> Iterator[HttpServer]:
    jwks = folder / "keys.json"
    jwks.write_text(keys.jwks(), encoding="utf-8")
    flags = ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-jwks", str(jwks))
    with probe_server(folder, *flags) as running:
        yield running
        assert running.process.poll() is None, "an attack ended the server"


@pytest.fixture
def stranger() -> Iterator[str]:
    return sources()


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now + 600, "iat": now - 5, "scope": "read write run"}
    return {name: value for name, value in {**made, **changed}.items() if value is not None}


# -- A1 JWT ------------------------------------------------------------------------------------------------------------------


def encoded(part: bytes | Mapping[str, Any]) -> str:
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def by_hand(
    header: bytes | Mapping[str, Any], payload: bytes | Mapping[str, Any], signature: bytes = b"x" * 256
) -> str:
    return f"{encoded(header)}.{encoded(payload)}.{encoded(signature)}"


def hmac_signed(header: Mapping[str, Any], payload: Mapping[str, Any], key: bytes) -> str:
    signed = f"{encoded(header)}.{encoded(payload)}"
    return f"{signed}.{encoded(hmac.new(key, signed.encode(), hashlib.sha256).digest())}"


def forgeries(keys: Keys) -> dict[str, str]:
    def signed(payload: dict[str, Any], headers: dict[str, Any] | None = None, algorithm: str = "RS256") -> str:
        return jwt.encode(payload, keys.rsa, algorithm, headers={"kid": "rsa", **(headers or {})})

    good = signed(claims())
    head, payload, signature = good.split(".")
    now = time.time()
    by_curve = jwt.encode(claims(), keys.ec, "ES256", headers={"kid": "ec"})
    return {
        "alg none": jwt.encode(claims(), "", "none", headers={"kid": "rsa"}),
        "alg None": by_hand({"alg": "None", "kid": "rsa"}, claims(), b""),
        "alg none with a signature": by_hand({"alg": "none", "kid": "rsa"}, claims()),
        "no alg": by_hand({"kid": "rsa"}, claims()),
        "alg is a list": by_hand({"alg": ["RS256"], "kid": "rsa"}, claims()),
        "HS256 with the public key": hmac_signed({"alg": "HS256", "kid": "rsa"}, claims(), keys.public_pem),
        "HS256 with an empty key": hmac_signed({"alg": "HS256", "kid": "rsa"}, claims(), b""),
        **{
            f"{algorithm} claimed for the {kid} key": by_hand({"alg": algorithm, "kid": kid}, claims(), b"x" * 64)
            for algorithm in ("RS256", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS512", "XX")
            for kid in ("rsa", "ec")
        },
        "another key": jwt.encode(claims(), keys.other, "RS256", headers={"kid": "rsa"}),
        "wrong kid": jwt.encode(claims(), keys.rsa, "RS256", headers={"kid": "ec"}),
        "EC token under the RSA kid": jwt.encode(claims(), keys.ec, "ES256", headers={"kid": "rsa"}),
        "no kid": jwt.encode(claims(), keys.rsa, "RS256"),
        "kid is a path": signed(claims(), {"kid": "../../etc/passwd"}),
        "kid is SQL": signed(claims(), {"kid": "x' UNION SELECT 'key'--"}),
        "kid is a number": by_hand({"alg": "RS256", "kid": 1}, claims()),
        "kid is a list": by_hand({"alg": "RS256", "kid": ["rsa"]}, claims()),
        "key in the header": signed(
            claims(), {"kid": "mine", "jwk": RSAAlgorithm.to_jwk(keys.other.public_key(), as_dict=True)}
        ),
        "jku": signed(claims(), {"kid": "mine", "jku": "https://evil.example/keys.json"}),
        "crit": signed(claims(), {"crit": ["b64"], "b64": False}),
        "a logout token": signed(claims(), {"typ": "logout+jwt"}),
        "a security event": signed(claims(), {"typ": "secevent+jwt"}),
        "typ is a list": signed(claims(), {"typ": ["at+jwt"]}),
        "wrong aud": signed(claims(aud="https://other.example/mcp")),
        "aud is a prefix": signed(claims(aud=AUDIENCE.removesuffix("/mcp"))),
        "aud with more": signed(claims(aud=AUDIENCE + "/")),
        "aud is empty": signed(claims(aud=[])),
        "no aud": signed(claims(aud=None)),
        "wrong iss": signed(claims(iss="https://evil.example")),
        "iss with a slash": signed(claims(iss=ISSUER + "/")),
        "iss with more": signed(claims(iss=ISSUER + ".evil.example")),
        "no iss": signed(claims(iss=None)),
        "expired by 1 s": signed(claims(exp=int(now) - 1)),
        "no exp": signed(claims(exp=None)),
        "exp is text": signed(claims(exp="tomorrow")),
        "exp is negative": signed(claims(exp=-1)),
        "nbf in the future": signed(claims(nbf=int(now) + 300)),
        "iat in the future": signed(claims(iat=int(now) + 300)),
        "no sub": signed(claims(sub=None)),
        "sub is empty": signed(claims(sub="")),
        "payload changed": f"{head}.{encoded(claims(sub='mallory'))}.{signature}",
        "signature cut": f"{head}.{payload}.{signature[:-8]}",
        "signature empty": f"{head}.{payload}.",
        "signature flipped": f"{head}.{payload}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}",
        "two parts": f"{head}.{payload}",
        "four parts": f"{good}.x",
        "five parts": f"{good}.x.y",
        "dots": "..",
        "curve signature of zeros": by_curve.rpartition(".")[0] + "." + encoded(b"\0" * 64),
        "header is no JSON": by_hand(b"\xff\xfe", claims()),
        "header is a list": by_hand(b"[]", claims()),
        "header is null": by_hand(b"null", claims()),
        "header nested deeply": by_hand(b"[" * 12_000, b"{}", b""),
        "header nested deeply in an object": by_hand(b'{"alg":"RS256","kid":"rsa","x":' + b"[" * 6_000, b"{}", b""),
        "header with a number of 5,000 digits": by_hand(
            b'{"alg":"RS256","kid":"rsa","x":' + b"9" * 5_000 + b"}", b"{}"
        ),
        "payload nested deeply": by_hand({"alg": "RS256", "kid": "rsa"}, b"[" * 11_000, b""),
        "not ASCII": good.replace(".", "\xb7"),
        "60 kB": good + "A" * 60_000,
    }


@requirement("adversarial:A1")
def test_every_forged_jwt_gets_the_one_answer_of_a_wrong_token(
    server: HttpServer, folder: Path, keys: Keys, stranger: Iterator[str]
) -> None:
    before = ran(folder)
    plain = call_tool(server, "probe_write", token="wrong", source=next(stranger))
    assert (plain.status, set(plain.json())) == (401, {"jsonrpc", "id", "error"})
    assert f'resource_metadata="{METADATA}"' in (plain.header("www-authenticate") or "")
    wrong: dict[str, int] = {}
    for name, token in forgeries(keys).items():
        answer = call_tool(server, "probe_write", token=token, source=next(stranger))
        same = (plain.status, plain.body, plain.header("www-authenticate"))
        if (answer.status, answer.body, answer.header("www-authenticate")) != same:
            wrong[name] = answer.status
    assert wrong == {}
    assert ran(folder) == before


@requirement("adversarial:A1")
def test_a_token_of_a_megabyte_is_refused(server: HttpServer, folder: Path, stranger: Iterator[str]) -> None:
    before = ran(folder)
    try:
        answer = call_tool(server, "probe_write", token="A" * 1_000_000, source=next(stranger))
        # A head this large is no HTTP for the parser, which answers before the gate can.
        assert answer.status in {400, 401, 431}
    except ConnectionResetError:
        pass  # or it hangs up while we still send
    assert ran(folder) == before
    assert call_tool(server, "probe_read").status == 200


@requirement("adversarial:A1")
@pytest.mark.parametrize("kind", ["RS256", "PS256", "ES256"])
def test_a_good_jwt_is_let_in_with_its_scopes_and_no_others(
    server: HttpServer, folder: Path, keys: Keys, kind: str
) -> None:
    key, kid = (keys.ec, "ec") if kind == "ES256" else (keys.rsa, "rsa")
    token = jwt.encode(claims(scope="read"), key, kind, headers={"kid": kid})
    assert call_tool(server, "probe_read", token=token).status == 200
    before = ran(folder)
    assert call_tool(server, "probe_write", token=token).status == 403
    none = jwt.encode(claims(scope=None), key, kind, headers={"kid": kid})
    assert call_tool(server, "probe_read", token=none).status == 403
    absurd = jwt.encode(claims(scope={"read": True}), key, kind, headers={"kid": kid})
    assert call_tool(server, "probe_read", token=absurd).status == 403
    assert ran(folder) == before


@requirement("adversarial:A1")
def test_a_jwt_stops_the_moment_it_expires(server: HttpServer, keys: Keys, stranger: Iterator[str]) -> None:
    token = jwt.encode(claims(exp=int(time.time()) + 2), keys.rsa, "RS256", headers={"kid": "rsa"})
    session = Session(server, token)
    assert session.call("probe_read").status == 200
    wait_until(lambda: call_tool(server, "probe_read", token=token, source=next(stranger)).status == 401, "expiry", 5)
    assert session.call("probe_read").status == 401


# -- A2 scopes ---------------------------------------------------------------------------------------------------------------


def names_one_scope(answer: Answer, scope: str) -> None:
    challenge = answer.header("www-authenticate") or ""
    assert answer.status == 403, answer
    assert 'error="insufficient_scope"' in challenge
    assert challenge.count("scope=") == 1
    assert f'scope="{scope}"' in challenge


@requirement("adversarial:A2")
def test_a_read_token_sees_and_calls_nothing_that_writes_or_runs(
    server: HttpServer, folder: Path, beyond_read: dict[str, str]
) -> None:
    token = create_token(folder / "state", "reader", "read")
    everything = tools_of(post(server.port, rpc("tools/list"), modern_headers("tools/list")))
    seen = tools_of(post(server.port, rpc("tools/list"), modern_headers("tools/list", token=token)))
    session = Session(server, token)
    assert set(seen) == set(everything) - set(beyond_read)
    assert seen == tools_of(session.send(rpc("tools/list", version=LEGACY)))
    before = ran(folder)
    for name, scope in beyond_read.items():
        names_one_scope(call_tool(server, name, token=token), scope)
        names_one_scope(session.call(name), scope)
        for wish in (("X-Mcp-Tools", name), ("X-Mcp-Toolsets", "all"), ("X-Mcp-Readonly", "false")):
            names_one_scope(call_tool(server, name, token=token, more=[wish]), scope)
    assert ran(folder) == before


@requirement("adversarial:A2")
@pytest.mark.parametrize(
    "scopes", ["read", "write", "run", "admin", "read,write", "read,run", "write,run", "read,admin"]
)
def test_a_scope_gives_what_it_names_and_nothing_else(server: HttpServer, folder: Path, scopes: str) -> None:
    token = made_token(folder / "state", f"only {scopes}", scopes)
    held = set(scopes.split(","))
    for effect, tool in {"read": "probe_read", **EFFECTS}.items():
        before = ran(folder)
        answer = call_tool(server, tool, token=token)
        if "read" not in held:
            # The endpoint itself is for readers: that is the scope such a token lacks first.
            names_one_scope(answer, "read")
            assert ran(folder) == before
        elif effect in held:
            assert (answer.status, ran(folder)) == (200, [*before, tool])
        else:
            names_one_scope(answer, effect)
            assert ran(folder) == before


SPELLINGS: dict[str, bytes] = {
    "escaped slash": b'{"jsonrpc":"2.0","id":1,"method":"tools\\/call","params":{"name":"probe_write","arguments":{}}}',
    "escaped letters": b'{"jsonrpc":"2.0","id":1,"method":"\\u0074ools/\\u0063all","params":{"name":"probe_write","arguments":{}}}',
    "escaped name": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe\\u005fwrite","arguments":{}}}',
    "name twice": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_read","name":"probe_write","arguments":{}}}',
    "name twice, turned": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_write","name":"probe_read"}}',
    "method twice": b'{"jsonrpc":"2.0","method":"tools/list","id":1,"method":"tools/call","params":{"name":"probe_write","arguments":{}}}',
    "method twice, turned": b'{"jsonrpc":"2.0","method":"tools/call","id":1,"method":"tools/list","params":{"name":"probe_write"}}',
    "params twice": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_read"},"params":{"name":"probe_write"}}',
    "batch": b'[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_write","arguments":{}}}]',
    "no id": b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"probe_write","arguments":{}}}',
    "UTF-16": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_write","arguments":{}}}'.encode(
        "utf-16"
    ),
    "NaN beside it": b'{"jsonrpc":"2.0","id":1,"x":NaN,"method":"tools/call","params":{"name":"probe_write","arguments":{}}}',
    "many digits beside it": b'{"jsonrpc":"2.0","id":1,"x":%s,"method":"tools/call","params":{"name":"probe_write","arguments":{}}}'
    % (b"9" * 5000),
    "white space in the name": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":" probe_write","arguments":{}}}',
    "other case": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Probe_Write","arguments":{}}}',
    "deeply nested beside it": b'{"jsonrpc":"2.0","id":1,"x":'
    + b"[" * 2000
    + b"]" * 2000
    + b',"method":"tools/call","params":{"name":"probe_write","arguments":{}}}',
}


@requirement("adversarial:A2")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_a_call_gets_past_the_scope(server: HttpServer, folder: Path, spelling: str) -> None:
    token = made_token(folder / "state", f"speller of {spelling}", "read")
    before = ran(folder)
    session = Session(server, token)
    session.send(SPELLINGS[spelling])
    stateless = json.dumps(rpc("x")["params"]["_meta"]).encode()
    body = SPELLINGS[spelling].replace(b'"arguments":{}', b'"arguments":{},"_meta":' + stateless)
    for name in ("probe_write", "probe_read"):
        post(server.port, body, modern_headers("tools/call", name, token))
    assert "probe_write" not in ran(folder)[len(before) :]


@requirement("adversarial:A2")
def test_a_call_beyond_the_scope_is_403_however_it_is_spelt(server: HttpServer, folder: Path) -> None:
    token = made_token(folder / "state", "speller", "read")
    session = Session(server, token)
    for spelling in ("escaped slash", "escaped letters", "escaped name", "name twice", "method twice"):
        names_one_scope(session.send(SPELLINGS[spelling]), "write")


@requirement("adversarial:A2")
def test_a_revoked_token_stops_at_once_in_both_eras(server: HttpServer, folder: Path) -> None:
    state = folder / "state"
    token = create_token(state, "shortlived", "read,write,run")
    session = Session(server, token)
    assert (call_tool(server, "probe_read", token=token).status, session.call("probe_read").status) == (200, 200)
    revoke_token(state, "shortlived")
    before = ran(folder)
    assert (call_tool(server, "probe_write", token=token).status, session.call("probe_write").status) == (401, 401)
    listing = [*modern_headers("tools/list", token=token)]
    assert post(server.port, rpc("tools/list"), listing).status == 401
    assert ran(folder) == before


@requirement("adversarial:A2")
def test_a_revoked_token_hears_nothing_more_on_a_stream_that_was_open(server: HttpServer, folder: Path) -> None:
    state = folder / "state"
    token = create_token(state, "listener", "read")
    wanted = {"notifications": {"resourceSubscriptions": ["cellwright://status"]}}
    headers = dict(modern_headers("subscriptions/listen", token=token))
    with (
        httpx2.Client(timeout=httpx2.Timeout(15, read=3)) as client,
        client.stream("POST", server.url, json=rpc("subscriptions/listen", wanted), headers=headers) as stream,
    ):
        lines = stream.iter_lines()
        assert "acknowledged" in next(line for line in lines if line.startswith("data:"))
        revoke_token(state, "listener")
        assert call_tool(server, "probe_publish").status == 200
        heard: list[str] = []
        with suppress(httpx2.ReadTimeout):
            heard.extend(line for line in lines if line.startswith("data:"))
        assert [line for line in heard if "resources/updated" in line] == []


@requirement("adversarial:A2")
def test_an_expired_token_is_as_wrong_as_any(server: HttpServer, folder: Path, stranger: Iterator[str]) -> None:
    store = TokenStore(folder / "state", clock=lambda: time.time() - 3600)
    _, just = store.create("just expired", frozenset(Scope), 3599)
    _, valid = store.create("still valid", frozenset(Scope), 7200)
    before = ran(folder)
    refusal = call_tool(server, "probe_write", token=just.reveal(), source=next(stranger))
    wrong = call_tool(server, "probe_write", token="wrong", source=next(stranger))
    assert (refusal.status, refusal.body) == (wrong.status, wrong.body) == (401, wrong.body)
    assert ran(folder) == before
    assert call_tool(server, "probe_read", token=valid.reveal()).status == 200


@requirement("adversarial:A2")
def test_a_token_file_that_is_damaged_while_serving_lets_nobody_new_in_and_fails_nobody_else(tmp_path: Path) -> None:
    state = tmp_path / "state"
    token = made_token(state, "kept", "read")
    with probe_server(tmp_path) as server:
        assert call_tool(server, "probe_read", token=token).status == 200
        (state / "tokens.json").write_text('[{"id": "half', encoding="utf-8")
        assert call_tool(server, "probe_read", token="wrong").status == 401
        assert call_tool(server, "probe_read").status == 200, (
            "the token of the setting has nothing to do with that file"
        )


# -- A3 read-only ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def read_only_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("read-only")


@pytest.fixture(scope="module")
def read_only(read_only_folder: Path) -> Iterator[HttpServer]:
    with probe_server(read_only_folder, "--read-only", "--exclude-tools", "probe_noise") as running:
        yield running


WISHES = [
    [],
    [("X-Mcp-Readonly", "false")],
    [("X-Mcp-Readonly", "0"), ("X-Mcp-Toolsets", "all")],
    [("X-Mcp-Toolsets", "probe")],
]


@requirement("adversarial:A3")
@pytest.mark.parametrize("scopes", ["read,write,run,admin", "read"])
@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_on_a_read_only_server_a_tool_that_is_ruled_out_says_so_and_does_nothing(
    read_only: HttpServer,
    read_only_folder: Path,
    beyond_read: dict[str, str],
    scopes: str,
    wish: list[tuple[str, str]],
) -> None:
    token = made_token(read_only_folder / "state", f"{scopes} {wish}", scopes)
    session = Session(read_only, token, wish)
    ruled_out = [*beyond_read, "probe_noise"]
    assert not set(tools_of(session.send(rpc("tools/list", version=LEGACY)))) & set(ruled_out)
    answers = {
        name: (why_off(call_tool(read_only, name, token=token, more=wish)), why_off(session.call(name)))
        for name in ruled_out
    }
    expected = {name: "--exclude-tools" if name == "probe_noise" else "--read-only" for name in ruled_out}
    assert {name: seen for name, seen in answers.items() if seen != (expected[name], expected[name])} == {}
    assert ran(read_only_folder) == []


def why_off(answer: Answer) -> str:
    """The setting that rules a tool out, in the words of the refusal."""
    result: dict[str, Any] = answer.json()["result"]
    error: dict[str, Any] = result.get("structuredContent", {}).get("error", {})
    message = str(error.get("message"))
    if not result["isError"] or error.get("code") != "TOOL_OFF":
        return json.dumps(result)
    return next((flag for flag in ("--read-only", "--exclude-tools") if flag in message), message)


@requirement("adversarial:A3")
def test_naming_a_ruled_out_tool_in_a_header_does_not_bring_it_back(
    read_only: HttpServer, read_only_folder: Path, beyond_read: dict[str, str]
) -> None:
    for name in (*beyond_read, "probe_noise"):
        assert why_off(call_tool(read_only, name, more=[("X-Mcp-Tools", name)])).startswith("--"), name
    assert ran(read_only_folder) == []


# -- A4 the token stays at the gate ------------------------------------------------------------------------------------------


@requirement("adversarial:A4")
@pytest.mark.parametrize("name", [b"authorization", b"Authorization"])
async def test_what_is_behind_the_gate_is_handed_who_calls_and_not_the_token(name: bytes) -> None:
    seen: list[MutableMapping[str, Any]] = []

    async def app(request: Request) -> Response:
        seen.append(request.scope)
        return Response()

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(_message: MutableMapping[str, Any]) -> None:
        return None

    gate = Gate(
        [Route("/mcp", frozenset({"POST"}), Scope.READ, app)],
        [OneToken(Secret(TOKEN))],
        hosts=frozenset({"us"}),
        origins=frozenset(),
        limits=TurnLimits(1024, 1, 0, 1, 1, max_streams=1, max_wait=1),
        tool_scope=lambda _name: None,
    )
    headers = [(b"host", b"us"), (name, f"Bearer {TOKEN}".encode()), (b"content-type", b"application/json")]
    await gate({"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, send)
    assert [scope[PRINCIPAL_KEY].id for scope in seen] == ["key:setting"]
    assert TOKEN not in repr(seen)


class Upstream(ThreadingHTTPServer):
    """Stands where Jupyter is configured and notes every request line and header it gets."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        super().__init__(("127.0.0.1", 0), _Noting)

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Noting(BaseHTTPRequestHandler):
    server: Upstream  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self.server.seen.append(f"{self.requestline}\n{self.headers}")
        self.send_error(404)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_GET  # noqa: N815 - the base class calls them by these names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        del format, args


@requirement("adversarial:A4")
def test_jupyter_sees_its_own_token_and_never_the_callers(tmp_path: Path) -> None:
    with Upstream() as upstream:
        flags = ("--jupyter-url", f"http://127.0.0.1:{upstream.server_port}", "--jupyter-token", "upstream-token-5c6d")
        with probe_server(tmp_path, *flags) as server:
            session = Session(server)
            for tool in ("list_nbs", "read_nb_cells", "execute_nb_cells", "list_available_kernels", "workspace_doctor"):
                arguments = {} if tool in {"list_nbs", "workspace_doctor"} else {"nb_path": "a.ipynb"}
                call_tool(server, tool, arguments)
                session.call(tool, arguments)
        seen = "\n".join(upstream.seen)
    assert "upstream-token-5c6d" in seen, "Jupyter was to be asked"
    assert TOKEN not in seen


# -- A5 guessing -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guessed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guessed")


@pytest.fixture(scope="module")
def guessed(guessed_folder: Path) -> Iterator[HttpServer]:
    with probe_server(guessed_folder) as running:
        yield running


@requirement("adversarial:A5")
def test_after_a_thousand_wrong_tokens_the_right_one_works_and_the_guesser_is_limited(
    guessed: HttpServer, guessed_folder: Path
) -> None:
    near = [TOKEN[:-1], TOKEN + "x", TOKEN[:-1] + "0", TOKEN.upper(), "x" * len(TOKEN), "", "Bearer"]
    guesser, other = "127.78.0.1", "127.78.0.2"

    def guess(number: int) -> int:
        token = near[number % len(near)] + str(number)
        return call_tool(guessed, "probe_write", token=token, source=guesser).status

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(guess, range(1000)))
    assert set(statuses) == {401, 429}
    assert statuses.count(429) > 900
    assert ran(guessed_folder) == []
    assert call_tool(guessed, "probe_read", source=guesser).status == 200
    assert call_tool(guessed, "probe_read", token="wrong", source=other).status == 401


@requirement("adversarial:A5")
@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "Client-IP"])
def test_a_guesser_cannot_pass_for_many_by_a_header(guessed: HttpServer, header: str) -> None:
    def guess(number: int) -> int:
        address = f"198.51.100.{number}"
        sent = [(header, f"for={address}" if header == "Forwarded" else address)]
        return call_tool(guessed, "probe_write", token=f"wrong{number}", more=sent).status

    statuses = [guess(number) for number in range(60)]
    assert statuses.count(429) > 30, statuses


@requirement("adversarial:A5")
def test_health_needs_no_token_and_is_not_limited_by_wrong_ones(guessed: HttpServer) -> None:
    for _ in range(50):
        sent = raw_request(guessed.port, "GET", "/health", [bearer("wrong")])
        assert exchange(guessed.port, sent, source="127.78.0.3").status == 200


# -- A6 requestState ---------------------------------------------------------------------------------------------------------


@requirement("adversarial:A6")
def test_a_request_state_is_never_trusted(server: HttpServer, folder: Path) -> None:
    first = made_token(folder / "state", "state of A", "read,write,run")
    second = made_token(folder / "state", "state of B", "read,write,run")
    sealed = base64.urlsafe_b64encode(b"\x01" * 96).decode()
    states: list[Any] = [
        None,
        sealed,
        sealed[:-1] + "A",
        "",
        "x" * 100_000,
        "../../etc/passwd",
        "\u202e",
        '{"ok":true}',
    ]
    answers: set[bytes] = set()
    for token in (first, second):
        for state in [*states, sealed]:
            params: dict[str, Any] = {"name": "probe_read", "arguments": {"count": 7}}
            params |= (
                {} if state is None else {"requestState": state, "inputResponses": {"confirm": {"action": "accept"}}}
            )
            answers.add(
                post(server.port, rpc("tools/call", params), modern_headers("tools/call", "probe_read", token)).body
            )
    assert len(answers) == 1
    assert json.loads(answers.pop())["result"]["structuredContent"] == {"tool": "probe_read", "count": 7}


@requirement("adversarial:A6")
@pytest.mark.parametrize("state", [5, True, [], {}, ["x"]])
def test_a_request_state_of_another_type_is_refused(server: HttpServer, folder: Path, state: Any) -> None:
    before = ran(folder)
    params: dict[str, Any] = {"name": "probe_read", "arguments": {}, "requestState": state}
    answer = post(server.port, rpc("tools/call", params), modern_headers("tools/call", "probe_read"))
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32602)
    assert ran(folder) == before


@requirement("adversarial:A6")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_a_guessed_task_is_unknown_and_a_made_up_one_no_different(server: HttpServer, method: str) -> None:
    answers: set[str] = set()
    for task in ("0" * 24, "../" * 8, "x" * 24):
        message = rpc(method, {"taskId": task})
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {
            "extensions": {"io.modelcontextprotocol/tasks": {}}
        }
        headers = [
            bearer(),
            JSON_BODY,
            ACCEPT,
            ("MCP-Protocol-Version", MODERN),
            ("Mcp-Method", method),
            ("Mcp-Name", task),
        ]
        answer = post(server.port, message, headers)
        assert answer.status == 400, answer
        answers.add(answer.body.decode().replace(task, "TASK"))
    assert len(answers) == 1
