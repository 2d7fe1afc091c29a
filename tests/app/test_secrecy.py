"""What is secret is out of reach: whichever root, tool, resource, search or link leads there, and whatever says it."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm
from mcp import Client, MCPError

from adversarial_support import made_token
from cellwright.app.http.jwt import JwtVerifier
from cellwright.app.masking import KnownSecrets
from cellwright.app.servers import secrets_of
from cellwright.app.settings import Settings
from cellwright.app.settings_loading import load_settings
from cellwright.app.workspace import Workspace, make_workspace
from cellwright.core.secrecy import is_secret
from cellwright.core.types import ALL_SCOPES, Call, Principal, Scope, Secret
from cellwright.jupyter.files.paths import DocPath
from requirements import requirement
from support import PATIENT_SECONDS, http_client, http_server, stop

pytestmark = pytest.mark.anyio

CANARY = "out-of-reach-5c1e"
READER = Principal("reader", frozenset({Scope.READ}))
WRITER = Principal("writer", frozenset({Scope.READ, Scope.WRITE}))
ANN, BEN = Principal("ann", ALL_SCOPES), Principal("ben", ALL_SCOPES)
PRIVATE = (
    "state/notes.md",
    "runtime/notes.md",
    "data/runtime/notes.md",
    "settings/jupyter/notes.md",
    "settings/config.toml",
    "settings/way-in.md",
    "kept/pads.md",
    "kept/pads.md-wal",
)
"""Ours and Jupyter's, in a workspace that is somebody's whole home. No name of these tells what is in it."""
LINKS = {"innocent.md": "state/notes.md", "folder": "runtime", "environ.md": "/proc/self/environ"}
HARD_LINKS = {"same-file.md": "state/notes.md", "same-runtime.md": "runtime/notes.md"}
THROUGH_LINKS = ("innocent.md", "folder/notes.md", "environ.md", *HARD_LINKS)
BY_NAME = (
    "id_rsa", "credentials.json", ".env", ".bash_history", ".python_history", ".config/gh/hosts.yml", ".netrc", ".pgpass", ".npmrc",
    ".pypirc", ".aws/config", ".ssh/config", ".kube/config", ".docker/config.json", ".gnupg/ring", "jpserver-7.json",
    "kernel-0a1b2c3d-0000-4000-8000-000000000000.json", "jupyter_server_config.json", "gcp-credentials.json", "serve-token",
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace that is a whole home, with everything in it that must not be had."""
    home = tmp_path / "home"
    for path in (*PRIVATE, *BY_NAME):
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {CANARY}\n", encoding="utf-8")
    (home / "settings" / "config.toml").write_text(f"# {CANARY}\nagent_name = 'Robin'\n", encoding="utf-8")
    (home / "kept" / "pads.md").unlink()
    (home / "open.md").write_text("# an open file\n", encoding="utf-8")
    for name, target in LINKS.items():
        (home / name).symlink_to(target)
    for name, target in HARD_LINKS.items():
        (home / name).hardlink_to(home / target)
    # A file of one's own may have several names.
    (home / "open-too.md").hardlink_to(home / "open.md")
    (home / "harmless.md").symlink_to(".env")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CANARY_OF_THE_ENVIRONMENT", CANARY)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(home / "runtime"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(home / "data"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(home / "settings" / "jupyter"))
    return home


@asynccontextmanager
async def working(home: Path, **more: Any) -> AsyncGenerator[Workspace]:
    flags = {
        "root": str(home),
        "state_dir": str(home / "state"),
        "toolsets": "all",
        "database": str(home / "kept" / "pads.md"),
        "token_file": str(home / "settings" / "way-in.md"),
        **more,
    }
    workspace = make_workspace(load_settings(flags, {}, home / "settings" / "config.toml"), "stdio")
    try:
        yield workspace
    finally:
        await workspace.close()


def connected(workspace: Workspace, who: Principal) -> Client:
    return Client(workspace.server(who), cache=None)


async def answer(client: Client, tool: str, **arguments: Any) -> tuple[str, str]:
    """The code of the failure, if it is one, and everything that was said."""
    result: Any = await client.call_tool(tool, arguments)
    said = json.dumps(result.model_dump(mode="json"))
    data: Any = result.structured_content
    return (data["error"]["code"] if result.is_error else ""), said


async def resource(client: Client, uri: str) -> tuple[str, str]:
    try:
        result = await client.read_resource(uri)
    except MCPError as refused:
        data: Any = refused.error.data
        return data["code"], json.dumps(refused.error.model_dump(mode="json"))
    return "", json.dumps(result.model_dump(mode="json"))


@requirement("secrecy:private-places")
@requirement("secrecy:links")
async def test_own_files_are_out_of_reach_of_the_projects_tools(home: Path) -> None:
    async with working(home, allow_secret_files=True) as workspace, connected(workspace, READER) as client:
        for path in (*PRIVATE, *THROUGH_LINKS):
            for code, said in (
                await answer(client, "read_file", path=path),
                await resource(client, f"context://file/{path}"),
            ):
                assert code in {"SECRET_FILE", "INVALID_ARGUMENT"}, (path, said)
                assert CANARY not in said
        found: Any = (await client.call_tool("grep_codebase", {"pattern": CANARY})).structured_content
        paths = {match["path"] for match in found["matches"]}
        assert paths == set(BY_NAME), "with --allow-secret-files those whose names tell, and nothing of ours"
        for tool in ("search_workspace", "context_search"):
            assert "notes.md" not in (await answer(client, tool, query=CANARY))[1]


@requirement("secrecy:private-places")
@requirement("secrecy:one-list")
@requirement("secrecy:links")
async def test_own_and_secret_files_are_out_of_reach_through_jupyter(home: Path) -> None:
    async with working(home, allow_hidden=True) as workspace:
        async with connected(workspace, READER) as client:
            for path in (*PRIVATE, *THROUGH_LINKS, *BY_NAME, "harmless.md"):
                for tool, argument in (("get_document_content", "path"), ("export_notebook", "source")):
                    code, said = await answer(client, tool, **{argument: path})
                    assert CANARY not in said
                    if DocPath(path).is_hidden:
                        # Jupyter itself has no hidden files.
                        assert code in {"NOT_FOUND", "INVALID_ARGUMENT"}, said
                    elif tool == "get_document_content" or path.endswith(".md"):
                        assert code == "SECRET_FILE", said
            listed = (await answer(client, "list_documents"))[1] + (await answer(client, "list_files"))[1]
            assert "open.md" in listed
            for name in ("state", "runtime", "way-in.md", "config.toml"):
                assert f'"{name}"' not in listed
            assert (await answer(client, "list_documents", path="state"))[0] == "SECRET_FILE"
            for path in ("open.md", "open-too.md"):
                assert (await answer(client, "get_document_content", path=path))[0] == ""
        async with connected(workspace, WRITER) as client:
            for path in ("state/notes.md", "innocent.md", "id_rsa", "harmless.md", "state"):
                for tool, argument in (("rename_document", "newPath"), ("copy_document", "copyPath")):
                    code, said = await answer(client, tool, path=path, **{argument: "mine.md"})
                    assert code == "SECRET_FILE", said
            assert (await answer(client, "rename_document", path="settings", newPath="mine"))[0] == "SECRET_FILE"
            assert (home / "settings").exists()
            for path in ("state/notes.md", "state", "settings"):
                assert (await answer(client, "delete_document", path=path))[0] == "SECRET_FILE"
            assert (await answer(client, "create_document", path="state/new.md", type="file"))[0] == "SECRET_FILE"
            assert not (home / "mine.md").exists()


@requirement("secrecy:private-places")
async def test_a_workspace_inside_the_state_folder_is_read_and_the_state_is_not(tmp_path: Path) -> None:
    """As in a container with one volume."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.md").write_text("to be read", encoding="utf-8")
    (tmp_path / "work" / "up.md").symlink_to("../serve-token")
    (tmp_path / "serve-token").write_text(CANARY, encoding="utf-8")
    for root, readable, private in ((tmp_path / "work", "a.md", "up.md"), (tmp_path, "work/a.md", "serve-token")):
        settings = load_settings({"root": str(root), "state_dir": str(tmp_path), "toolsets": "context"}, {})
        workspace = make_workspace(settings, "stdio")
        async with connected(workspace, READER) as client:
            assert "to be read" in (await answer(client, "read_file", path=readable))[1]
            code, said = await answer(client, "read_file", path=private)
            assert code in {"SECRET_FILE", "INVALID_ARGUMENT"}
            assert CANARY not in said
        await workspace.close()


@requirement("secrecy:one-list")
@pytest.mark.parametrize(
    "name",
    [
        "#.env#", ".#.env", "sub/#id_rsa#", ".Renviron", ".Rhistory", ".Xauthority", ".authinfo", ".msmtprc", ".databrickscfg",
        ".smbcredentials", ".passwd-s3fs", ".curlrc", ".wgetrc", ".dev.vars", ".condarc", ".config/pip/pip.conf", ".codex/auth.json",
        ".claude.json", ".gemini/oauth_creds.json", ".kaggle/kaggle.json", ".config/github-copilot/apps.json", ".m2/settings.xml",
        ".gradle/gradle.properties", ".config/containers/auth.json", ".config/sops/age/keys.txt", ".config/doctl/config.yaml",
        ".config/google-chrome/Default/Cookies", ".mozilla/firefox/x/key4.db", ".local/state/bash_history", ".subversion/auth/x",
        ".fly/config.yml", ".ngrok2/ngrok.yml", ".oci/config", "AuthKey_ABC.p8", "gcp-key.json", "a-firebase-adminsdk-b.json",
        "my-private-key.json", "x_service_account_key.json",
    ],
)  # fmt: skip
def test_what_programs_keep_their_keys_in_is_secret(name: str) -> None:
    assert is_secret(name)


@requirement("secrecy:one-list")
def test_programs_notebooks_and_samples_are_no_secrets() -> None:
    for name in BY_NAME:
        assert is_secret(name), name
    for name in (
        "secrets.ipynb",
        "credentials.py",
        ".env.example",
        "kernel-tricks.md",
        "history.md",
        "hosts.yml",
        "docker/config.json",
        "#notes.md#",
        "gradle.properties",
        "primary-key.json",
        "auth.py",
        "training_history",
        ".claude/settings.json",
        ".config/pages.yml",
        "tokenizer.json",
    ):
        assert not is_secret(name), name


@requirement("secrecy:masked")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_served_token_and_those_of_others_leave_in_no_answer(tmp_path: Path, mode: str) -> None:
    state = tmp_path / "state"
    other = made_token(state, "other", "read,write,run,admin")
    with http_server(tmp_path, "--toolsets", "all", token="") as running:
        # The token of a server that was given none lies in its state folder.
        token = (state / "serve-token").read_text(encoding="utf-8").strip()
        reader = made_token(state, "reader", "read,write")
        for name, secret in (("served", token), ("other", other)):
            (tmp_path / "root" / f"{name}.md").write_text(f"way in: {secret}\n", encoding="utf-8")
            async with http_client(running, mode, {"Authorization": f"Bearer {reader}"}) as client:
                said = [
                    (await answer(client, "read_file", path=f"{name}.md"))[1],
                    (await resource(client, f"context://file/{name}.md"))[1],
                    (await answer(client, "grep_codebase", pattern="way in"))[1],
                    (await answer(client, "read_file", path=f"missing-{secret}.md"))[1],
                    (await resource(client, f"context://file/missing-{secret}.md"))[1],
                    (await resource(client, f"context://module/{secret}"))[1],
                    (await client.get_prompt("summarise-to-pad", {"path": f"{secret}.ipynb"})).model_dump_json(),
                ]
                with pytest.raises(MCPError) as unknown:
                    await client.call_tool(secret, {})
                said.append(str(unknown.value.error.model_dump()))
            for one in said:
                assert secret not in one
                assert "***" in one


@requirement("secrecy:masked")
async def test_the_embedded_servers_token_and_passwords_leave_in_no_answer(tmp_path: Path) -> None:
    settings = Settings(
        root=tmp_path,
        state_dir=tmp_path.with_name("state"),
        toolsets=("all",),
        jupyter_password=Secret('pass "word" \u00e9'),
    )
    workspace = make_workspace(settings, "stdio")
    found = (await workspace.notebooks.connected(Call(ANN))).found
    assert found.token is not None
    for secret in (found.token.reveal(), 'pass "word" \u00e9'):
        (tmp_path / "said.md").write_text(f"it is {secret}", encoding="utf-8")
        async with connected(workspace, READER) as client:
            for _, said in (
                await answer(client, "read_file", path="said.md"),
                await answer(client, "get_document_content", path="said.md"),
                await resource(client, "context://file/said.md"),
            ):
                assert secret not in json.loads(json.dumps(said))
                assert json.dumps(secret)[1:-1] not in said
                assert "it is ***" in said
        await (await workspace.notebooks.connected(Call(ANN))).rooms.close()
        await found.jupyter.documents.delete(DocPath("said.md"))
    await workspace.close()


@requirement("secrecy:masked")
def test_a_password_in_the_address_of_the_database_is_a_secret_of_its_own() -> None:
    known = KnownSecrets(secrets_of(Settings(database=Secret("postgresql://me:p%40ss%20word%2F9@host/db")), {}))
    for form in ("p@ss word/9", "p%40ss%20word%2F9", "postgresql://me:p%40ss%20word%2F9@host/db"):
        assert known.json({"a": [f"<{form}>"], form: 1}) == {"a": ["<***>"], "***": 1}
    assert known.data(b'\xff "p@ss word/9"') == b'\xff "***"'
    assert (
        known.text("cw_ is how our tokens begin; host and me are words")
        == "cw_ is how our tokens begin; host and me are words"
    )


ODD = 'p"a\\s\ts/w\u00f6r\U0001f512d'
OURS = "cw_" + "A" * 43
HALF = "\ud800"
PIECES = st.sampled_from(
    [ODD, json.dumps(ODD)[1:-1], json.dumps(ODD, ensure_ascii=False)[1:-1], OURS, "cw_", HALF, "\\", '"', "a"]
)
TEXTS = st.lists(PIECES, max_size=4).map("".join)
VALUES = st.recursive(
    TEXTS | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


@requirement("secrecy:masked")
@given(VALUES)
@settings(deadline=None)
def test_in_json_each_text_is_masked_as_it_is_by_itself(value: Any) -> None:
    known = KnownSecrets([Secret(ODD)])

    def one_by_one(part: Any) -> Any:
        if isinstance(part, str):
            return known.text(part)
        if isinstance(part, dict):
            return {known.text(key): one_by_one(inner) for key, inner in cast("dict[str, Any]", part).items()}
        return [one_by_one(inner) for inner in cast("list[Any]", part)] if isinstance(part, list) else part

    assert known.json(value) == one_by_one(value)


@requirement("secrecy:others")
def test_counts_of_everybodys_calls_are_for_the_operator(tmp_path: Path) -> None:
    with http_server(tmp_path) as running:
        for scopes, status in (("read,write,run", 403), ("admin", 200)):
            token = made_token(tmp_path / "state", scopes, scopes)
            answer = httpx2.get(
                f"{running.base}/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=PATIENT_SECONDS
            )
            assert answer.status_code == status


@requirement("secrecy:others")
async def test_a_thinking_kernel_is_there_for_nobody_but_its_owner(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, state_dir=tmp_path.with_name("state"), toolsets=("all",))
    workspace = make_workspace(settings, "stdio")
    async with connected(workspace, ANN) as ann, connected(workspace, BEN) as ben:
        made: Any = (await ann.call_tool("notebook_create", {})).structured_content
        notebook = made["notebookId"]
        await ann.call_tool("notebook_add_cell", {"notebookId": notebook, "source": "1 + 1"})
        await ann.call_tool("notebook_run_all", {"notebookId": notebook})
        (kernel,) = (await ann.call_tool("list_kernels", {})).structured_content["kernels"]  # pyright: ignore[reportOptionalSubscript]
        seen: Any = (await ben.call_tool("list_kernels", {})).structured_content
        assert seen["kernels"] == []
        use = {"notebook_name": "x", "notebook_path": "x.ipynb", "mode": "create"}
        refused = [await answer(ben, "use_notebook", **use, kernel_id=one) for one in (kernel["id"], "0" * 36)]
        assert refused[0][0] == "NOT_FOUND"
        assert refused[0][1].replace(kernel["id"], "0" * 36) == refused[1][1]
    await workspace.close()


@requirement("secrecy:private-places")
async def test_a_root_that_is_the_whole_disk_does_not_show_the_variables_of_the_process(tmp_path: Path) -> None:
    settings = load_settings({"root": "/", "state_dir": str(tmp_path), "toolsets": "context"}, {})
    workspace = make_workspace(settings, "stdio")
    async with connected(workspace, READER) as client:
        for path in ("proc/self/environ", f"proc/{os.getpid()}/cmdline", "proc/self/task/1/environ"):
            assert (await answer(client, "read_file", path=path))[0] in {"SECRET_FILE", "NOT_FOUND"}
    await workspace.close()


@requirement("secrecy:project-file")
@pytest.mark.parametrize("target", ["pipe", "/dev/zero"])
async def test_a_pipe_or_a_device_in_the_place_of_a_file_stops_nothing(tmp_path: Path, target: str) -> None:
    """As a cloned repository can hold them, and in the place of every file that is read by itself."""
    root = tmp_path / "root"
    os.mkfifo(tmp_path / "pipe")
    for place in (".cellwright/project.yaml", ".gitignore", "pyproject.toml", "main.py", ".venv/pyvenv.cfg"):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).symlink_to(tmp_path / "pipe" if target == "pipe" else target)
    os.mkfifo(root / "own.py")
    (root / "open.md").write_text("an open file", encoding="utf-8")
    with http_server(tmp_path, "--toolsets", "workspace,context") as running:
        async with http_client(running) as client:
            assert "an open file" in (await answer(client, "read_file", path="open.md"))[1]
            assert "open.md" in (await answer(client, "grep_codebase", pattern="open"))[1]
            assert (await answer(client, "context_scan"))[0] == "PROJECT_FILE_BROKEN"
            assert (await resource(client, "context://project/overview"))[0] == "PROJECT_FILE_BROKEN"
            for path in ("main.py", "own.py", ".cellwright/project.yaml"):
                assert (await answer(client, "read_file", path=path))[0] in {"INVALID_ARGUMENT", "FILE_UNREADABLE"}
        assert stop(running.process) == 0, "SIGTERM ends it"


@requirement("secrecy:jwt-kind")
def test_a_jwt_is_taken_for_an_access_token_only_if_it_says_nothing_else(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "one"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public]}), encoding="utf-8")
    verifier = JwtVerifier("https://issuer.example", "https://cellwright.example/mcp", str(tmp_path / "keys.json"))
    claims = {
        "iss": "https://issuer.example",
        "aud": "https://cellwright.example/mcp",
        "sub": "ann",
        "exp": 2**32,
        "scope": "read",
    }
    for kind, taken in (
        *((kind, True) for kind in ("JWT", "at+jwt", "AT+JWT", "application/at+jwt", None)),
        *((kind, False) for kind in ("logout+jwt", "dpop+jwt", "secevent+jwt", "id+jwt", ["at+jwt"])),
    ):
        token = jwt.encode(claims, key, "RS256", headers={"kid": "one", "typ": kind})
        assert (verifier.verify(token) is not None) is taken, kind
