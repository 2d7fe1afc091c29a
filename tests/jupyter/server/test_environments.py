"""Python environments, found by their files: real ones of several makers, and what only looks like one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.jupyter.server.environments import (
    MAX_CONFIG_BYTES,
    Environment,
    Interpreter,
    choose,
    find,
    interpreter_of,
    programs_of,
)
from cellwright.jupyter.server.workspace_kernels import WorkspaceKernelSpecs
from environment_support import packages_of, plain_environment, uv_environment, write_package
from requirements import requirement

OWN = Interpreter.own()
VERSION = ".".join(map(str, sys.version_info[:3]))


def write_environment(prefix: Path, config: str, program: str = "#!/bin/sh\nexit 1\n") -> Path:
    """Files that look like an environment. Gives its interpreter."""
    python = prefix / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(program, encoding="utf-8")
    python.chmod(0o755)
    (prefix / "pyvenv.cfg").write_text(config, encoding="utf-8")
    (prefix / "lib" / "python3.8" / "site-packages").mkdir(parents=True)
    return python


@requirement("python:offered", "python:default")
def test_environments_of_several_makers_in_their_order(tmp_path: Path) -> None:
    root = tmp_path / "work space"
    root.mkdir()
    active = plain_environment(tmp_path / "active one")
    in_venv = plain_environment(root / "venv")
    in_env = uv_environment(root / "env")
    found = find(root, {"VIRTUAL_ENV": str(tmp_path / "active one")}, OWN)
    assert [(place.python, place.version, place.by_uv) for place in found] == [
        (in_venv, VERSION, False),
        (in_env, VERSION, True),
        (active, VERSION, False),
    ]
    assert [place.label for place in found] == ["venv", "env", "active: active one"]
    assert "VIRTUAL_ENV" in found[2].origin
    assert all(place.lends_to(OWN) and not place.has_ipykernel and not place.is_own for place in found)

    in_dot_venv = uv_environment(root / ".venv")
    choice = choose(root, {"VIRTUAL_ENV": str(root / ".venv")}, OWN)
    assert choice.default is not None
    assert (choice.default.python, choice.default.origin) == (in_dot_venv, ".venv of the workspace")
    assert [other.python for other in choice.others] == [in_venv, in_env]
    assert choice.unusable == {}


@requirement("python:own")
def test_the_environment_that_this_runs_in_is_not_another_one(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    other = uv_environment(tmp_path / "venv")
    choice = choose(tmp_path, {"VIRTUAL_ENV": sys.prefix}, OWN)
    assert choice.default is None, "ours comes first, as .venv does"
    assert [place.python for place in choice.others] == [other]
    names = WorkspaceKernelSpecs(root=str(tmp_path)).get_all_specs()
    assert names["python3"]["spec"]["metadata"]["cellwright"]["interpreter"] == sys.executable
    assert names["env-venv"]["spec"]["metadata"]["cellwright"]["interpreter"] == str(other)
    assert "cellwright" not in names


@requirement("python:offered")
def test_conda_environments_by_their_records(tmp_path: Path) -> None:
    prefix = tmp_path / "data"
    (prefix / "conda-meta").mkdir(parents=True)
    (prefix / "conda-meta" / "python-dateutil-2.9.0-py_0.json").touch()
    (prefix / "conda-meta" / f"python-{VERSION}-h955ad1f_0.json").touch()
    (prefix / "lib" / OWN.library / "site-packages" / "ipykernel").mkdir(parents=True)
    interpreter_of(prefix, conda=True).parent.mkdir(parents=True, exist_ok=True)
    interpreter_of(prefix, conda=True).touch()
    choice = choose(tmp_path, {"CONDA_PREFIX": str(prefix), "CONDA_DEFAULT_ENV": "data"}, OWN)
    assert choice.default is not None
    assert (choice.default.label, choice.default.version, choice.default.has_ipykernel) == (
        "conda: data",
        VERSION,
        True,
    )
    assert choice.default.to_install("numpy") == f"conda install --prefix {prefix} numpy"


@requirement("python:unusable")
def test_an_environment_of_another_python_needs_its_own_ipykernel(tmp_path: Path) -> None:
    python = write_environment(tmp_path / ".venv", "version = 3.8.1\n")
    fitting = uv_environment(tmp_path / "venv")
    choice = choose(tmp_path, {}, OWN)
    assert choice.default is not None
    assert choice.default.python == fitting
    (reason,) = choice.unusable.values()
    assert "Python 3.8.1 and no ipykernel" in reason
    assert reason.endswith(f"{python} -m pip install ipykernel")

    (tmp_path / ".venv" / "lib" / "python3.8" / "site-packages" / "ipykernel").mkdir()
    choice = choose(tmp_path, {}, OWN)
    assert choice.default is not None
    assert (choice.default.python, choice.unusable) == (python, {})

    python.unlink()
    choice = choose(tmp_path, {}, OWN)
    (reason,) = choice.unusable.values()
    assert "make the environment again" in reason


@requirement("python:unusable")
@pytest.mark.parametrize(
    ("version", "implementation", "library"),
    [
        ("3.8.1", "", OWN.library),
        (VERSION, "PyPy", OWN.library),
        (VERSION, "CPython", f"{OWN.library}t"),
        ("", "", ""),
    ],
)
def test_compiled_modules_go_only_where_they_fit(
    tmp_path: Path, version: str, implementation: str, library: str
) -> None:
    place = Environment(tmp_path, tmp_path / "python", "x", "x", version, implementation, library)
    assert not place.lends_to(OWN)


@requirement("python:listing")
def test_looking_runs_nothing_and_waits_for_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "it-ran"
    program = f"#!/bin/sh\ntouch '{marker}'\n"
    write_environment(tmp_path / ".venv", f"version = {VERSION}\nimplementation = CPython\n", program)
    place = tmp_path / ".venv" / "lib"
    (place / "python3.8").rename(place / OWN.library)
    (place / OWN.library / "site-packages" / "sitecustomize.py").write_text(
        f"open({str(marker)!r}, 'w')", encoding="utf-8"
    )
    (tmp_path / "venv").mkdir()
    os.mkfifo(tmp_path / "venv" / "pyvenv.cfg")
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").symlink_to("/dev/zero")
    specs = WorkspaceKernelSpecs(root=str(tmp_path)).get_all_specs()
    assert specs["python3"]["spec"]["argv"][0] == str(tmp_path / ".venv" / "bin" / "python")
    assert not {"env-venv", "env-env"} & specs.keys()
    assert not marker.exists()


@requirement("python:listing")
def test_of_a_huge_file_only_the_beginning_is_read(tmp_path: Path) -> None:
    write_environment(tmp_path / ".venv", "x = y\n" * MAX_CONFIG_BYTES + "version = 3.8.1\nimplementation = Other\n")
    (place,) = find(tmp_path, {}, OWN)
    assert (place.version, place.implementation) == ("3.8", "")


@requirement("python:listing")
def test_names_are_fit_for_kernels_and_paths_for_templates(tmp_path: Path) -> None:
    active = tmp_path / "Ünder $HOME {connection_file}"
    uv_environment(active)
    manager = WorkspaceKernelSpecs(root=str(tmp_path))
    os.environ["VIRTUAL_ENV"] = str(active)
    try:
        uv_environment(tmp_path / ".venv")
        specs = manager.get_all_specs()
    finally:
        del os.environ["VIRTUAL_ENV"]
    (name,) = [name for name in specs if name.startswith("env-")]
    assert name == "env-active-nder-home-connection_file"
    assert specs[name]["spec"]["env"]["VIRTUAL_ENV"] == str(active).replace("$", "$$")


@requirement("python:systems")
def test_each_system_keeps_its_interpreter_elsewhere(tmp_path: Path) -> None:
    assert interpreter_of(tmp_path, "linux") == interpreter_of(tmp_path, "darwin") == tmp_path / "bin" / "python"
    assert interpreter_of(tmp_path, "win32") == tmp_path / "Scripts" / "python.exe"
    assert interpreter_of(tmp_path, "win32", conda=True) == tmp_path / "python.exe"
    place = Environment(tmp_path, tmp_path / "python.exe", "x", "x")
    assert programs_of(place, "win32") == [tmp_path / "Scripts"]
    assert programs_of(place, "linux") == [tmp_path / "bin"]
    conda = Environment(tmp_path, tmp_path / "python.exe", "x", "x", conda=True)
    assert programs_of(conda, "win32")[0] == tmp_path
    assert tmp_path / "Library/bin" in programs_of(conda, "win32")


@requirement("python:borrowed")
def test_what_is_lent_is_ipykernel_and_what_it_needs(tmp_path: Path) -> None:
    python = uv_environment(tmp_path / ".venv")
    spec = WorkspaceKernelSpecs(root=str(tmp_path)).get_all_specs()["python3"]["spec"]
    names = spec["argv"][4].split(",")
    assert {"ipykernel", "IPython", "zmq", "tornado", "traitlets"} <= set(names)
    assert not {"numpy", "matplotlib", "pip", "cellwright", "mcp"} & set(names)
    assert "with cellwright's ipykernel" in spec["display_name"]
    (packages_of(python) / "ipykernel").mkdir()
    spec = WorkspaceKernelSpecs(root=str(tmp_path)).get_all_specs()["python3"]["spec"]
    assert spec["argv"] == [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    assert spec["display_name"] == f"Python {VERSION} (.venv)"


@requirement("python:borrowed", "python:broken")
def test_packages_that_do_not_go_together_are_named(tmp_path: Path) -> None:
    python = uv_environment(tmp_path / ".venv")
    argv = WorkspaceKernelSpecs(root=str(tmp_path)).get_all_specs()["python3"]["spec"]["argv"]
    write_package(packages_of(python), "traitlets", "0.1")
    ended = subprocess.run([*argv[:-2], "-f", str(tmp_path / "none.json")], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "traitlets" in ended.stderr
    assert f"install ipykernel in {tmp_path / '.venv'}" in ended.stderr

    other = [argv[0], argv[1], ".other-python.so", *argv[3:5]]
    ended = subprocess.run(other, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert f"install ipykernel in {tmp_path / '.venv'}" in ended.stderr
