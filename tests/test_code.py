"""The shape of the code itself: which way imports point, who knows the SDK, where broad excepts stand."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from mcp import Client

from cellwright.app.settings import Settings
from cellwright.app.workspace import local_user, make_workspace
from locations import ROOT, TESTS
from requirements import requirement

SOURCE = ROOT / "src" / "cellwright"
LAYERS = {
    "core": 0,
    "notebook": 0.5,
    "system": 1,
    "workers": 2,
    "storage": 2,
    "jupyter": 3,
    "scratch": 3,
    "thinking": 3,
    "context": 3,
    "web": 1,
    "app": 4,
}
BROAD = {"Exception", "BaseException"}
MOST_MODULES = 16
OF_THE_WHOLE = {"adversarial", "clients", "conformance", "package"}
"""Folders of tests of the product as a whole: attacks, other programs, the protocol's own suite, the built package."""
# The edges of the process, where whatever is left over must not take the rest down. Each entry is a decision.
EDGES = {
    "app/protocol/calls.py": 1,  # a crash in a tool
    "app/protocol/server.py": 1,  # a crash in a resource
    "workers/worker.py": 1,  # a crash in a job, raised again where it is waited for
    "storage/workers.py": 1,  # what goes wrong in a thread is raised where it is waited for
}


@cache
def modules() -> list[tuple[Path, ast.Module]]:
    return [(file, ast.parse(file.read_text(encoding="utf-8"))) for file in sorted(SOURCE.rglob("*.py"))]


def imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            found.add(str(node.module))
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@requirement("code:imports")
def test_imports_point_one_way() -> None:
    wrong: list[str] = []
    for file, tree in modules():
        parts = file.relative_to(SOURCE).parts
        if len(parts) == 1:
            continue
        own = parts[0]
        for name in imported(tree):
            if not name.startswith("cellwright.") or name == "cellwright.__version__":
                continue
            other = name.split(".")[1]
            if other in LAYERS and other != own and LAYERS[other] >= LAYERS[own]:
                wrong.append(f"{own}/{parts[-1]} imports {name}")
    assert wrong == []


@requirement("code:shelves")
def test_what_works_across_parts_knows_them_by_their_shelves_alone() -> None:
    parts = tuple(f"cellwright.{name}." for name, layer in LAYERS.items() if layer == LAYERS["jupyter"])
    across = [(file, tree) for file, tree in modules() if file.is_relative_to(SOURCE / "app" / "search")]
    across += [(file, tree) for file, tree in modules() if file == SOURCE / "app" / "exchange" / "service.py"]
    assert len(across) > 1
    assert [name for _, tree in across for name in imported(tree) if name.startswith(parts)] == []


@requirement("code:imports")
def test_every_package_has_its_place() -> None:
    assert {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"} <= LAYERS.keys()


@requirement("code:map")
def test_the_map_names_every_package() -> None:
    page = (SOURCE.parent.parent / "docs" / "design.md").read_text(encoding="utf-8")
    drawn = page.split("```text\n")[1].split("```")[0]
    packages = [file.parent.relative_to(SOURCE) for file in SOURCE.rglob("__init__.py")]
    unnamed = {path.as_posix() for path in packages if path.name and not re.search(rf"\b{path.name}/", drawn)}
    assert unnamed == set()


@requirement("code:map")
def test_no_folder_has_more_modules_than_one_finds_a_file_among() -> None:
    counted = Counter(file.parent.relative_to(SOURCE).as_posix() for file, _ in modules() if file.stem != "__init__")
    assert {folder: count for folder, count in counted.items() if count > MOST_MODULES} == {}


@requirement("code:tests-mirror")
def test_tests_stand_where_the_code_stands() -> None:
    packages = {folder.relative_to(SOURCE) for folder in SOURCE.rglob("*") if folder.is_dir()}
    folders = {file.parent.relative_to(TESTS) for file in TESTS.rglob("test_*.py")} - {Path()}
    assert {folder for folder in folders if folder.parts[0] not in OF_THE_WHOLE} <= packages


@requirement("code:one-sdk-module")
def test_one_package_imports_the_sdk() -> None:
    knowing = {
        file.relative_to(SOURCE).parent.as_posix()
        for file, tree in modules()
        if any(name in {"mcp", "mcp_types"} or name.startswith(("mcp.", "mcp_types.")) for name in imported(tree))
    }
    assert knowing == {"app/protocol"}


def is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in BROAD for kind in kinds)


@requirement("code:broad-excepts")
def test_broad_excepts_stand_only_at_the_edges() -> None:
    found = {
        str(file.relative_to(SOURCE)): count
        for file, tree in modules()
        if (count := sum(isinstance(node, ast.ExceptHandler) and is_broad(node) for node in ast.walk(tree)))
    }
    assert found == EDGES


@requirement("code:sdk-seam")
@pytest.mark.anyio
async def test_the_private_name_of_the_sdk_is_what_we_take_it_for(tmp_path: Path) -> None:
    """`ServerSession._connection` is one object for the life of a handshake-era connection, and runs its exit stack at its end."""
    server = make_workspace(Settings(root=tmp_path), "stdio").server(local_user())
    async with Client(server, mode="legacy", cache=None) as client:
        await client.list_tools()
        (connection,) = server.watching.connections
        await client.list_tools()
        assert server.watching.connections == (connection,)
    assert server.watching.connections == ()
