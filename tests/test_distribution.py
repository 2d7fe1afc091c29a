"""The files by which cellwright is distributed, read as those who read them do: manifests, package, container, workflow."""

import base64
import json
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest
import uv
import yaml

from cellwright import __version__
from cellwright.app.cli.main import make_parser
from cellwright.app.protocol.server import HOME_PAGE
from cellwright.app.settings import SPECS, Settings
from cellwright.app.workspace import local_user, make_workspace
from locations import ROOT
from requirements import requirement

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VARIABLES = {spec.env for spec in SPECS}
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def read_json(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def read_yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


@requirement("package:manifests")
def test_manifests_are_made_from_the_project() -> None:
    check = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    ended = subprocess.run(check, capture_output=True, text=True, timeout=100, check=False)
    assert "Traceback" not in ended.stderr, ended.stderr
    stale = [line for line in ended.stderr.splitlines() if line.startswith("not up to date") and "docs/" not in line]
    assert [line for line in stale if "tests/snapshots" not in line] == []
    versions = {read_json(path)["version"] for path in ("server.json", "gemini-extension.json")}
    versions |= {read_json(f"plugins/cellwright/.{kind}-plugin/plugin.json")["version"] for kind in ("claude", "codex")}
    assert versions | {read_json("distribution/mcpb/manifest.json")["version"]} == {__version__}


@requirement("package:registry")
def test_the_registry_gets_what_it_asks_for() -> None:
    entry = read_json("server.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 1 <= len(entry["description"]) <= 100
    assert 1 <= len(entry["title"]) <= 100
    assert entry["repository"] == {"url": PROJECT["urls"]["Repository"], "source": "github"}
    assert entry["name"].startswith(f"io.github.{urlsplit(str(entry['repository']['url'])).path.split('/')[1]}/")
    assert entry["websiteUrl"] == PROJECT["urls"]["Homepage"]
    for icon in entry["icons"]:
        assert icon["src"].startswith("https://")
        assert len(icon["src"]) <= 255
        assert icon["mimeType"] in {"image/png", "image/svg+xml"}
        assert all(re.fullmatch(r"\d+x\d+|any", size) for size in icon["sizes"])
        assert (ROOT / icon["src"].partition(f"/v{__version__}/")[2]).is_file()
    (package,) = entry["packages"]
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", package["version"])
    assert (package["registryType"], package["identifier"], package["transport"]) == (
        "pypi",
        PROJECT["name"],
        {"type": "stdio"},
    )
    for variable in package["environmentVariables"]:
        assert variable["name"] in VARIABLES
        assert variable.keys() <= {"name", "description", "format", "isSecret"}
        assert variable.get("format", "string") in {"string", "number", "boolean", "filepath"}


@requirement("package:icon")
def test_the_icon_is_ours_and_harmless() -> None:
    drawing = (ROOT / "src" / "cellwright" / "icon.svg").read_bytes()
    assert len(drawing) < 2_000
    names = {element.tag.rpartition("}")[2] for element in ET.fromstring(drawing).iter()}
    assert names <= {"svg", "rect", "path"}
    assert b"href" not in drawing
    server = make_workspace(Settings(), "stdio").server(local_user())
    assert server.icons is not None
    (icon,) = server.icons
    assert base64.b64decode(icon.src.removeprefix("data:image/svg+xml;base64,")) == drawing
    assert server.website_url == HOME_PAGE == PROJECT["urls"]["Homepage"]
    picture = (ROOT / "distribution" / "mcpb" / "icon.png").read_bytes()
    assert (picture[:8], int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])) == (
        b"\x89PNG\r\n\x1a\n",
        512,
        512,
    )


@requirement("package:mcpb")
def test_the_bundle_asks_for_the_workspace_and_passes_it_on() -> None:
    manifest = read_json("distribution/mcpb/manifest.json")
    assert (manifest["manifest_version"], manifest["server"]["type"]) == ("0.4", "uv")
    arguments: list[str] = manifest["server"]["mcp_config"]["args"]
    asked = set(re.findall(r"\$\{user_config\.(\w+)\}", " ".join(arguments)))
    assert asked == manifest["user_config"].keys() == {"root", "toolsets"}
    assert manifest["user_config"]["root"]["type"] == "directory"
    after = arguments[arguments.index(manifest["server"]["entry_point"]) + 1 :]
    assert make_parser().parse_args(after).root == "${user_config.root}"
    project = tomllib.loads((ROOT / "distribution" / "mcpb" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == [f"cellwright=={__version__}"]


def instructions(name: str) -> list[str]:
    """The Dockerfile's instructions of one kind, each as one line."""
    joined = re.sub(r"\\\n\s*", " ", DOCKERFILE)
    return [line.split(maxsplit=1)[1] for line in joined.splitlines() if line.split(maxsplit=1)[:1] == [name]]


@requirement("package:container")
def test_what_the_container_is_built_from_is_there() -> None:
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in instructions("COPY"):
        *sources, _ = shlex.split(line)
        if sources[0].startswith("--from="):
            continue
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in allowed, f"{source} is kept from the builder"
    assert PROJECT["license-files"] == ["LICENSE"]
    extras = re.search(r"^ARG EXTRAS=(\w+)$", DOCKERFILE, re.MULTILINE)
    assert extras is not None
    assert extras[1] in PROJECT["optional-dependencies"]


@requirement("package:container")
def test_the_container_serves_without_root_and_with_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = dict(pair.split("=", 1) for line in instructions("ENV") for pair in shlex.split(line))
    settings = {name: value for name, value in environ.items() if name.startswith("CELLWRIGHT_")}
    assert settings.keys() <= VARIABLES
    assert settings["CELLWRIGHT_HOST"] == "0.0.0.0"
    assert json.loads(instructions("VOLUME")[0]) == [settings["CELLWRIGHT_ROOT"], settings["CELLWRIGHT_STATE_DIR"]]
    assert instructions("EXPOSE") == [settings["CELLWRIGHT_PORT"]]
    assert instructions("USER") == ["cellwright"]
    assert DOCKERFILE.index("\nUSER ") < DOCKERFILE.index("\nCMD ")
    program, *arguments = json.loads(instructions("CMD")[-1])
    assert (program, make_parser().parse_args(arguments).command) == ("cellwright", "serve")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    here = [*arguments, "--root", str(tmp_path), "--state-dir", str(tmp_path / "state"), "--port", "0"]
    ended = subprocess.run(
        [sys.executable, "-m", "cellwright", *here], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert "without a token" in ended.stderr


@requirement("package:container")
def test_the_containers_health_is_the_servers(tmp_path: Path) -> None:
    from support import http_server  # noqa: PLC0415 - signals, which Windows does not have

    (health,) = instructions("HEALTHCHECK")
    python, *arguments = json.loads(health.partition("CMD ")[2])
    assert python == "python"
    port = "4040"
    with http_server(tmp_path, "--host", "0.0.0.0") as server:
        command = [sys.executable, *(word.replace(f":{port}/", f":{server.port}/") for word in arguments)]
        assert subprocess.run(command, timeout=30, check=False).returncode == 0
    assert subprocess.run(command, timeout=30, check=False, capture_output=True).returncode == 1


@requirement("package:compose")
def test_the_services_have_settings_secrets_and_volumes_that_exist() -> None:
    compose = read_yaml("compose.yaml")
    ours, database = compose["services"]["cellwright"], compose["services"]["database"]
    assert ours["build"] == "."
    assert {name for name in ours["environment"] if name.startswith("CELLWRIGHT_")} <= VARIABLES
    assert ours["environment"].keys() <= VARIABLES
    assert ours["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert database["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    for service in (ours, database):
        assert set(service["secrets"]) <= compose["secrets"].keys()
        named = {volume.partition(":")[0] for volume in service["volumes"]} - {"./workspace"}
        assert named <= compose["volumes"].keys()
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    used = set(re.findall(r"/run/secrets/([\w-]+)", text))
    assert used == compose["secrets"].keys()
    assert all(secret["file"].startswith("./secrets/") for secret in compose["secrets"].values())
    assert "secrets/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    user = re.search(r"useradd .*--uid (\d+)", DOCKERFILE)
    assert user is not None
    assert f"chown {user[1]} workspace" in text, "what the daemon makes is root's, and could not be written"
    assert ours["ports"] == ["127.0.0.1:4040:4040"], "not open to the network unless somebody says so"
    address = urlsplit(str(ours["environment"]["CELLWRIGHT_DATABASE"]))
    assert (address.username, address.password, address.hostname) == (
        database["environment"]["POSTGRES_USER"],
        None,
        "database",
    )


@requirement("package:compose")
def test_the_services_command_reads_the_password_and_serves(tmp_path: Path) -> None:
    """The command as compose hands it to the container, with a program that tells what it was given."""
    shell, flag, script = read_yaml("compose.yaml")["services"]["cellwright"]["command"]
    (tmp_path / "database-password").write_text("p4ss\n", encoding="utf-8")
    teller = tmp_path / "cellwright"
    teller.write_text('#!/bin/sh\necho "$PGPASSWORD $*"\n', encoding="utf-8")
    teller.chmod(0o755)
    here = script.replace("$$", "$").replace("/run/secrets", str(tmp_path))
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ended = subprocess.run([shell, flag, here], env=environ, capture_output=True, text=True, timeout=20, check=True)
    assert ended.stdout == "p4ss serve\n"


def targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def commands(workflow: Any) -> list[str]:
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


@requirement("package:ci")
def test_the_workflow_runs_everything_everywhere() -> None:
    workflow = read_yaml(".github/workflows/ci.yml")
    jobs = workflow["jobs"]
    supported = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == supported == ["3.11", "3.12", "3.13"]
    others = jobs["others"]["strategy"]["matrix"]
    assert others == {"system": ["macos-latest", "windows-latest"], "python": supported}
    run = "\n".join(commands(workflow))
    assert {"lint", "test", "test-portable"} <= set(re.findall(r"\bmake ([\w-]+)", run)) <= targets()
    assert workflow["permissions"] == {"contents": "read"}
    portable = re.findall(r"tests/[\w/.]+", "\n".join(re.findall(r"^PORTABLE_TESTS.*$", MAKEFILE, re.MULTILINE)))
    assert portable
    assert [path for path in portable if not (ROOT / path).exists()] == []
    extras = set(re.findall(r"EXTRAS=(\w+)", run))
    assert extras
    assert extras <= PROJECT["optional-dependencies"].keys()
    command = ["make", "--dry-run", "--always-make", "tools", "EXTRAS=postgres"]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
    assert "'.[postgres]' --group dev" in planned
    assert ".[all]" not in planned


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@requirement("package:ci")
def test_a_release_needs_no_stored_secret(tmp_path: Path) -> None:
    workflow = read_yaml(".github/workflows/release.yml")
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "secrets." not in text
    assert workflow["jobs"]["package-index"]["permissions"] == {"id-token": "write"}
    assert set(re.findall(r"\bmake ([\w-]+)", "\n".join(commands(workflow)))) == {"dist"} <= targets()
    (notes,) = [command for command in commands(workflow) if "CHANGELOG.md" in command]
    environ = {"PATH": "/usr/bin:/bin", "GITHUB_REF_NAME": f"v{__version__}"}
    subprocess.run(
        ["sh", "-ec", notes.replace("notes.md", str(tmp_path / "notes.md"))], cwd=ROOT, env=environ, check=True
    )
    assert "The first release." in (tmp_path / "notes.md").read_text(encoding="utf-8")
    pinned = read_json("tests/clients/package.json")["dependencies"]["@anthropic-ai/mcpb"]
    assert f"@anthropic-ai/mcpb@{pinned} pack distribution/mcpb" in MAKEFILE
    lock = (ROOT / "tests" / "clients" / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock, "whoever installs has a registry of their own"


@requirement("package:ci")
def test_the_checks_before_a_commit_are_those_of_lint() -> None:
    (repository,) = read_yaml(".pre-commit-config.yaml")["repos"]
    entries = {hook["entry"] for hook in repository["hooks"]}
    assert {entry.split()[0] for entry in entries} == {".venv/bin/ruff", ".venv/bin/pyright", ".venv/bin/python"}
    assert {"ruff", "pyright"} <= {re.split(r"\W", need)[0] for need in dev_group()}


def dev_group() -> list[str]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["dev"]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([uv.find_uv_bin(), "build", "--quiet", "--out-dir", folder, ROOT], check=True, timeout=200)
    return folder


@requirement("package:metadata")
def test_the_package_says_whose_it_is_and_where_it_runs(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_string(archive.read(name).decode())
        assert "cellwright/icon.svg" in archive.namelist()
    assert metadata["Author"] == "cellwright maintainers"
    links = dict(str(value).split(", ") for value in metadata.get_all("Project-URL", []))
    assert links.keys() == {"Homepage", "Repository", "Documentation", "Changelog", "Issues"}
    assert set(links.values()) == set(PROJECT["urls"].values())
    assert all(link.startswith("https://github.com/cellwright/cellwright") for link in links.values())
    systems = {value for value in metadata.get_all("Classifier", []) if value.startswith("Operating System")}
    assert {"Operating System :: POSIX :: Linux", "Operating System :: MacOS"} <= systems
    assert metadata["Description-Content-Type"] == "text/markdown"


@requirement("package:readme")
def test_the_packages_readme_leads_somewhere_from_anywhere(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        readme = str(message_from_string(archive.read(name).decode()).get_payload())
    own = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "mcp-name: io.github.cellwright/cellwright" in readme
    addresses = re.findall(r'\]\(([^)\s]+)|(?:src|srcset|href)="([^"]+)', readme)
    there = [markdown or html for markdown, html in addresses]
    assert len(there) == len(re.findall(r'\]\([^)\s]+|(?:src|srcset|href)="[^"]+', own))
    assert [address for address in there if not re.match(r"https?://|#|mailto:|vscode:|cursor:", address)] == []
    for kind, host in (("raw", "raw.githubusercontent.com"), ("blob", "github.com")):
        prefix = f"https://{host}/cellwright/cellwright/{'blob/' if kind == 'blob' else ''}v{__version__}/"
        for address in there:
            if address.startswith(prefix):
                file = re.split(r"[#?]", address.removeprefix(prefix))[0]
                assert (ROOT / file).exists(), address
                assert kind == "blob" or not file.endswith(".svg") or address.endswith("?sanitize=true"), address
    pictures = re.findall(r'!\[[^\]]*\]\(([^)\s]+)|(?:src|srcset)="([^"]+)', readme)
    assert [one or other for one, other in pictures if "/blob/" in (one or other)] == []


@requirement("package:sdist")
def test_the_source_distribution_is_whole_and_clean(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "constraints.txt",
        "Makefile",
        "examples/try-me.ipynb",
        "skills/cellwright/SKILL.md",
        "tests/requirements.py",
        "tests/conformance/package-lock.json",
        "tests/clients/package-lock.json",
        "plugins/cellwright/.mcp.json",
        "distribution/mcpb/manifest.json",
        "docs/index.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
    }
    assert wanted - names == set()
    assert [name for name in names if re.search(r"__pycache__|node_modules|\.venv|\.cache|^secrets", name)] == []
    assert {name for name in names if not (ROOT / name).exists()} == {"PKG-INFO"}


@requirement("package:community")
def test_what_is_said_to_contributors_holds() -> None:
    pages = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in ("CONTRIBUTING.md", "SECURITY.md", "docs/releasing.md")
    }
    for name, text in pages.items():
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert ((ROOT / name).parent / target).exists(), f"{name}: {target}"
        assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= targets(), name
    assert f"{PROJECT['urls']['Repository']}/security/advisories/new" in pages["SECURITY.md"]
    release = read_yaml(".github/workflows/release.yml")
    assert f"environment `{release['jobs']['package-index']['environment']}`" in " ".join(
        pages["docs/releasing.md"].split()
    )
