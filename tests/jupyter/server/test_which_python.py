"""Which Python runs cells: a server of ours with a Jupyter of its own, in a workspace with real environments."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest
import six  # pyright: ignore[reportMissingModuleSource] - needed by ipykernel, and an easy one to have twice
from uv import find_uv_bin

from cellwright.jupyter.kernels.hints import hint_for_missing, missing_package
from cellwright.jupyter.server.workspace_kernels import borrowed
from environment_support import (
    files_in,
    packages_of,
    plain_environment,
    uv_environment,
    write_package,
    write_wheel,
)
from jupyter_support import JupyterServer, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer, http_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

VERSION = ".".join(map(str, sys.version_info[:3]))
PLENTY = 100.0
SIX = Path(six.__file__).read_text(encoding="utf-8")


class Place:
    """A workspace with environments: `.venv` without ipykernel and without pip, `venv` with both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "work space"
        self.root.mkdir()
        self.uv_python = uv_environment(self.root / ".venv")
        self.plain_python = plain_environment(self.root / "venv")
        link_ipykernel(self.plain_python)
        self.wheels = folder / "wheels"
        self.wheels.mkdir()

    @property
    def environ(self) -> dict[str, str]:
        """Folders of its own; packages come from our wheels and never from an index."""
        folders = {f"JUPYTER_{name}_DIR": str(self.folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
        uv = {"UV_FIND_LINKS": str(self.wheels), "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}
        pip = {"PIP_FIND_LINKS": str(self.wheels), "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        path = f"{Path(find_uv_bin()).parent}{os.pathsep}{os.environ['PATH']}"
        return {**folders, **uv, **pip, "PATH": path, "IPYTHONDIR": str(self.folder)}


def link_ipykernel(python: Path) -> None:
    """Install ipykernel with all that it needs, offline: as links to the installed files."""
    (source,), names = borrowed()
    for name in names:
        for entry in (Path(source) / name, Path(source) / f"{name}.py"):
            target = packages_of(python) / entry.name
            if entry.exists() and not target.exists():
                target.symlink_to(entry)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("which"))


@pytest.fixture(scope="module")
def server(place: Place) -> Generator[HttpServer]:
    flags = ("--root", str(place.root), "--toolsets", "all", "--rate", "0")
    with http_server(place.folder, *flags, environ=place.environ) as started:
        yield started


@pytest.fixture
async def do(server: HttpServer) -> AsyncGenerator[Agent]:
    async with agent_of(server) as agent:
        yield agent


def notebook(place: Place, name: str, *sources: str, kernel: str | None = None) -> str:
    metadata = {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}} if kernel else {}
    write_notebook(place.root, name, list(sources), metadata=metadata)
    return name


async def run(do: Agent, path: str, start: int, end: int | None = None) -> Any:
    result = await do.whole("execute_nb_cells", path=path, ranges=[{"start": start, "end": end}], timeout=PLENTY)
    return result.structured_content


async def printed(do: Agent, path: str, index: int = 0) -> str:
    result = await run(do, path, index)
    assert result["status"] == "done", result
    return "".join(output.get("text", "") for output in result["execution_results"][0]["outputs"])


async def failure(do: Agent, path: str, index: int) -> Any:
    return (await run(do, path, index))["execution_results"][0]["error"]


WHO = "import sys, shutil; print(sys.executable, sys.prefix, shutil.which('python'))"


@requirement("python:status")
async def test_before_anything_is_started_the_files_tell(do: Agent, place: Place) -> None:
    """The first test: nothing has been called yet that needs a Jupyter server."""
    status = await do("workspace_status")
    assert [part["state"] for part in status["parts"] if part["name"] == "jupyter"] == ["not connected"]
    line = status["cells_run_in"]
    assert line.startswith(f"{place.uv_python} (Python {VERSION}), kernel python3: .venv of the workspace")
    assert json.loads((await do.resource("cellwright://status")).text)["cells_run_in"] == line


@requirement("python:offered", "python:default", "python:status")
async def test_the_workspaces_environments_are_kernels(do: Agent, place: Place) -> None:
    kernels = {kernel["name"]: kernel for kernel in (await do("list_available_kernels"))["kernels"]}
    assert {name: (kernels[name]["interpreter"], kernels[name]["from"]) for name in kernels if name != "bash"} == {
        "python3": (str(place.uv_python), ".venv of the workspace"),
        "env-venv": (str(place.plain_python), "venv of the workspace"),
        "cellwright": (sys.executable, "the environment cellwright is installed in"),
    }
    assert [name for name, kernel in kernels.items() if kernel["default"]] == ["python3"]
    rows = (await do("list_kernels"))["kernelspecs"]
    assert {row["name"]: row["interpreter"] for row in rows if row["name"] != "bash"} == {
        name: kernel["interpreter"] for name, kernel in kernels.items() if name != "bash"
    }
    status = await do("workspace_status")
    assert status["cells_run_in"] == f"{place.uv_python} (Python {VERSION}), kernel python3: .venv of the workspace"


@requirement("python:default", "python:borrowed")
async def test_cells_run_in_the_workspaces_own_python(do: Agent, place: Place) -> None:
    write_package(packages_of(place.uv_python), "six", "0.1", f"{SIX}\nwhose = 'the environment'\n")
    before = files_in(place.root / ".venv")
    code = (
        "import importlib.metadata, six\n"
        "print(six.whose, [(one.name, one.version) for one in importlib.metadata.distributions()])"
    )
    path = notebook(place, "default.ipynb", WHO, code, "import numpy")
    expected = f"{place.uv_python} {place.root / '.venv'} {place.uv_python}\n"
    assert await printed(do, path) == expected
    # The environment's own packages come first; of ours, only what the kernel itself needs can be imported.
    assert await printed(do, path, 1) == "the environment [('six', '0.1')]\n"
    assert (await failure(do, path, 2))["ename"] == "ModuleNotFoundError"
    assert files_in(place.root / ".venv") == before
    named = notebook(place, "named.ipynb", WHO, kernel="python3")
    assert await printed(do, named) == expected
    assert (await do("get_nb_stat", path=named))["kernel"]["name"] == "python3"


@requirement("python:offered")
async def test_another_environment_and_ours_can_be_chosen(do: Agent, place: Place) -> None:
    path = notebook(place, "chosen.ipynb", WHO, "import ipykernel; print(ipykernel.__file__)")
    await do("assign_nb_kernel", path=path, kernel_name="env-venv")
    assert await printed(do, path) == f"{place.plain_python} {place.root / 'venv'} {place.plain_python}\n"
    assert (await printed(do, path, 1)).startswith(str(place.root / "venv"))
    await do("assign_nb_kernel", path=path, kernel_name="cellwright")
    assert (await printed(do, path)).startswith(f"{sys.executable} {sys.prefix} ")


@requirement("python:missing", "python:missing:names")
async def test_a_missing_package_is_added_as_the_hint_says(do: Agent, place: Place) -> None:
    write_wheel(place.wheels, "PyYAML", "yaml")
    path = notebook(place, "missing.ipynb", "import yaml", "")
    error = await failure(do, path, 0)
    assert (error["ename"], str(place.uv_python) in error["hint"]) == ("ModuleNotFoundError", True)
    command = error["hint"].partition("`")[2].partition("`")[0]
    assert command == f"uv pip install --python '{place.uv_python}' PyYAML"
    await do("modify_nb_cells", path=path, modifications=[{"range": {"start": 1}, "content": f"!{command}"}])
    assert (await run(do, path, 0))["status"] == "done"

    write_wheel(place.wheels, "beautifulsoup4", "bs4")
    path = notebook(place, "missing2.ipynb", "import bs4", "", kernel="env-venv")
    error = await failure(do, path, 0)
    assert str(place.plain_python) in error["hint"]
    command = error["hint"].partition("`")[2].partition("`")[0]
    assert command == "%pip install beautifulsoup4"
    await do("modify_nb_cells", path=path, modifications=[{"range": {"start": 1}, "content": command}])
    assert (await run(do, path, 0))["status"] == "done"


@requirement("python:missing")
async def test_thinking_notebooks_get_the_same_hint(do: Agent, place: Place) -> None:
    notebook_id = (await do("notebook_create"))["notebookId"]
    source = "raise ImportError(\"Missing optional dependency 'openpyxl'.  Use pip or conda to install openpyxl.\")"
    added = await do("notebook_add_cell", notebookId=notebook_id, cellType="code", source=source)
    ran = await do.failing("notebook_run_cell", notebookId=notebook_id, cellId=added["cell"]["id"], timeoutMs=100_000)
    hint = ran["results"][0]["error"]["hint"]
    assert f"'openpyxl' is not in {place.uv_python} (Python {VERSION})" in hint
    await do("notebook_close", notebookId=notebook_id)


@requirement("python:missing:names")
@pytest.mark.parametrize(
    ("ename", "evalue", "expected"),
    [
        ("ModuleNotFoundError", "No module named 'cv2'", ("cv2", "opencv-python")),
        ("ModuleNotFoundError", "No module named 'sklearn.svm'", ("sklearn.svm", "scikit-learn")),
        ("ModuleNotFoundError", "No module named PIL", ("PIL", "pillow")),
        ("ModuleNotFoundError", "No module named 'a; rm -rf /'", None),
        ("ModuleNotFoundError", "No module named 'yaml.x'; 'yaml' is not a package", ("yaml.x", "PyYAML")),
        ("ImportError", "`Import openpyxl` failed.  Use pip or conda to install it.", ("openpyxl", "openpyxl")),
        ("ImportError", "lxml not found, please run: pip install lxml.", ("lxml", "lxml")),
        ("ImportError", "cannot import name 'x' from 'y'", None),
        ("ModuleNotFoundError", "No module named '--index-url=http://h'", None),
        ("NameError", "No module named 'cv2'", None),
    ],
)
def test_what_is_missing_is_named_as_it_is_installed(ename: str, evalue: str, expected: tuple[str, str] | None) -> None:
    assert missing_package(ename, evalue) == expected
    if expected is not None:
        assert f"%pip install {expected[1]}" in hint_for_missing(*expected, None)


@requirement("python:missing:once", "python:environment")
async def test_asking_leaves_no_trace(do: Agent, place: Place) -> None:
    look = "import builtins\nprint(sorted(n for n in globals() if n not in ('_i', '_ii', '_iii', '_ih', '_dh')))"
    path = notebook(place, "trace.ipynb", "'mine'", "import no_such_module_1", look, "print(_, len(In))")
    assert (await run(do, path, 0))["execution_results"][0]["execution_count"] == 1
    before = await printed(do, path, 3)
    assert "no_such_module_1" in (await failure(do, path, 1))["hint"]
    names = await printed(do, path, 2)
    await do("kernel_environment", path=path)
    again = await run(do, path, 2)
    assert again["execution_results"][0]["execution_count"] == 5
    fresh = again["execution_results"][0]["outputs"][0]["text"]
    assert set(json.loads(fresh.replace("'", '"'))) - set(json.loads(names.replace("'", '"'))) == {"_i5"}
    assert (before, await printed(do, path, 3)) == ("mine 3\n", "mine 7\n")


@requirement("python:input")
async def test_a_question_that_nobody_can_answer(do: Agent, place: Place) -> None:
    path = notebook(place, "input.ipynb", "name = input('Who? ')", "print('below')")
    error = await failure(do, path, 0)
    assert "cannot be answered" in error["hint"]
    assert "Put a value in its place" in error["hint"]
    assert await printed(do, path, 1) == "below\n"


@requirement("python:environment")
async def test_the_packages_of_a_kernel(do: Agent, place: Place) -> None:
    folder = packages_of(place.plain_python)
    for number in range(230):
        write_package(folder, f"many_{number:03}", f"1.{number}")
    path = notebook(place, "packages.ipynb", "x = 1", kernel="env-venv")
    await printed(do, path)
    told = await do("kernel_environment", path=path)
    assert (told["interpreter"], told["version"]) == (str(place.plain_python), VERSION)
    assert (told["prefix"], told["folder"]) == (str(place.root / "venv"), str(place.root))
    assert len(told["packages"]) == 200
    assert f"{told['matching'] - 200} more" in told["note"]
    assert told["matching"] == told["installed"] >= 231
    some = await do("kernel_environment", path=path, filter="Many-22")
    assert some["packages"] == {f"many_{number}": f"1.{number}" for number in range(220, 230)}
    assert (some["matching"], some["installed"], "note" in some) == (10, told["installed"], False)
    none = await do("kernel_environment", path=path, filter="no such")
    assert (none["packages"], none["matching"]) == ({}, 0)


@requirement("python:environment:refuses")
async def test_it_starts_nothing_and_does_not_wait(do: Agent, place: Place) -> None:
    path = notebook(place, "busy.ipynb", "import time\ntime.sleep(60)")
    missing = await do.error("kernel_environment", path=path)
    assert (missing["code"], "execute_nb_cells" in missing["hint"]) == ("NOT_FOUND", True)
    assert (await do("get_nb_stat", path=path))["kernel"] is None
    begun = await do("execute_nb_cells", path=path, ranges=[{"start": 0}], timeout=0)
    busy = await do.error("kernel_environment", path=path)
    assert (busy["code"], "busy" in busy["message"]) == ("CONFLICT", True)
    await do("cancel_execution", execution_id=begun["execution_id"])


@requirement("python:environment:refuses")
async def test_of_other_languages_only_what_the_kernel_says_is_told(do: Agent, place: Place) -> None:
    spec = place.folder / "data" / "kernels" / "bash"
    spec.mkdir(parents=True)
    command = [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"]
    about = {"argv": command, "display_name": "Bash", "language": "bash", "env": {"PS1": "$"}}
    (spec / "kernel.json").write_text(json.dumps(about), encoding="utf-8")
    path = notebook(place, "bash.ipynb", "echo here", kernel="bash")
    assert "here" in await printed(do, path)
    told = await do("kernel_environment", path=path)
    assert (told["language"], told["packages"]) == ("bash", None)
    assert "Python" in told["note"]


@requirement("kernel:cursor")
async def test_a_cursor_outside_the_code_is_refused_before_the_kernel_is_asked(do: Agent, place: Place) -> None:
    path = notebook(place, "cursor.ipynb", "%config Completer.use_jedi = False\nvalue_one = 1")
    for cursor in (-1, 7, 10**9):
        # There is no kernel: had anything been asked for, the error would be another one.
        error = await do.error("complete_code", path=path, code="value_", cursor=cursor)
        assert (error["code"], "0 to 6" in error["hint"]) == ("INVALID_ARGUMENT", True)
    await printed(do, path)
    assert (await do("complete_code", path=path, code="value_ + 1", cursor=6))["matches"] == ["value_one"]
    assert (await do("complete_code", path=path, code="value_"))["matches"] == ["value_one"]


@requirement("python:later", "python:broken", "python:unusable")
async def test_an_environment_that_comes_later_and_does_not_start(do: Agent, place: Place) -> None:
    python = uv_environment(place.root / "env")
    python.unlink()
    python.write_text("#!/bin/sh\necho 'the base of this is gone' >&2\nexit 3\n", encoding="utf-8")
    python.chmod(0o755)
    kernels = {kernel["name"] for kernel in (await do("list_available_kernels"))["kernels"]}
    assert "env-env" in kernels
    path = notebook(place, "broken.ipynb", "1", kernel="env-env")
    error = await failure(do, path, 0)
    assert error["ename"] == "KERNEL_NOT_STARTED"
    assert "the base of this is gone" in error["evalue"]
    assert "assign_nb_kernel" in error["hint"]
    await do("assign_nb_kernel", path=path, kernel_name="python3")
    assert (await run(do, path, 0))["status"] == "done"

    config = place.root / "env" / "pyvenv.cfg"
    config.write_text("version = 3.8.1\nuv = 1\n", encoding="utf-8")
    listed = await do("list_available_kernels")
    assert "env-env" not in {kernel["name"] for kernel in listed["kernels"]}
    (reason,) = listed["unusable"]
    assert f"uv pip install --python '{python}' ipykernel" in reason


@requirement("python:off", "python:status")
async def test_it_can_be_switched_off(place: Place, tmp_path: Path) -> None:
    environ = place.environ | {"JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    flags = ("--root", str(place.root), "--no-workspace-kernels", "--rate", "0")
    with http_server(tmp_path, *flags, environ=environ) as server:
        async with agent_of(server) as do:
            line = (await do("workspace_status"))["cells_run_in"]
            assert line.startswith(f"{sys.executable} (Python {VERSION}), kernel python3: ")
            path = notebook(place, "off.ipynb", WHO)
            assert (await printed(do, path)).startswith(f"{sys.executable} {sys.prefix}")
            assert not {"env-venv", "cellwright"} & {
                kernel["name"] for kernel in (await do("list_available_kernels"))["kernels"]
            }


@requirement("python:status")
async def test_a_named_server_decides(jupyter_server: JupyterServer, tmp_path: Path) -> None:
    with in_front_of(jupyter_server, tmp_path) as server:
        async with agent_of(server) as do:
            line = (await do("workspace_status"))["cells_run_in"]
            assert line.startswith(f"the Jupyter server at {jupyter_server.url} decides; which kernels it has is known")
            await do("list_available_kernels")
            line = (await do("workspace_status"))["cells_run_in"]
            assert line.startswith(
                f"the Jupyter server at {jupyter_server.url} decides; its kernels are python3 (default)"
            )


@requirement("kernel:restart:told")
async def test_who_restarted_the_kernel_is_not_told_so(do: Agent, place: Place) -> None:
    path = notebook(place, "restart.ipynb", "x = 1")
    await printed(do, path)
    done = await do("restart_nb_kernel", path=path, timeout=PLENTY)
    assert "notes" not in done
    for _ in range(2):
        await do("restart_nb_kernel", path=path, exec=False)
        assert "notes" not in await run(do, path, 0)
    await do("restart_notebook", notebook_name=path)
    assert "notes" not in await run(do, path, 0)
    # Somebody else: here the code itself, which ends its process so that Jupyter starts another.
    write_notebook(place.root, "death.ipynb", ["x = 1", "import os; os._exit(1)"])
    await printed(do, "death.ipynb")
    assert (await failure(do, "death.ipynb", 1))["ename"] == "KERNEL_DIED"
    assert "notes" not in await run(do, "death.ipynb", 0)
