"""How this copy was installed is read from what each program leaves behind, and remedies follow from it."""

import asyncio
from pathlib import Path

import pytest

from cellwright.app import installed, status
from cellwright.app.cli.doctor import FAILED, OK, examine
from cellwright.app.installed import PARTS
from cellwright.app.settings import Settings
from cellwright.app.workspace import local_user, make_workspace
from cellwright.core.installation import Installation, Way, installation_of
from cellwright.core.types import Call
from cellwright.jupyter.server import embedded
from cellwright.jupyter.server.embedded import LabNotInstalled
from requirements import requirement


def environment(folder: Path, *files: str) -> Path:
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).touch()
    return folder


@requirement("package:ways")
@pytest.mark.parametrize(
    ("place", "files", "way"),
    [
        ("cache/uv/archive-v0/Ab3", ("pyvenv.cfg",), Way.UVX),
        ("cache/uv/environments-v2/cellwright-1", ("pyvenv.cfg",), Way.UVX),
        ("share/uv/tools/cellwright", ("pyvenv.cfg", "uv-receipt.toml"), Way.UV_TOOL),
        ("share/pipx/venvs/cellwright", ("pyvenv.cfg", "pipx_metadata.json"), Way.PIPX),
        ("work/.venv", ("pyvenv.cfg",), Way.VENV),
        ("usr", (), Way.SYSTEM),
    ],
)
def test_the_way_is_read_from_the_files_of_the_environment(
    tmp_path: Path, place: str, files: tuple[str, ...], way: Way
) -> None:
    prefix = environment(tmp_path / place, *files)
    assert installation_of(prefix, "python").way is way


@requirement("package:ways")
def test_an_environment_of_conda_is_known(tmp_path: Path) -> None:
    (tmp_path / "conda-meta").mkdir()
    assert installation_of(tmp_path, "python").way is Way.CONDA


@requirement("package:ways")
@pytest.mark.parametrize(
    ("installation", "add", "mend"),
    [
        (Installation(Way.UVX, "x"), "uvx --from 'cellwright[lab]' cellwright", "uvx --refresh cellwright"),
        (
            Installation(Way.UV_TOOL, "x"),
            "uv tool install 'cellwright[lab]'",
            "uv tool install --reinstall cellwright",
        ),
        (Installation(Way.PIPX, "x"), "pipx install --force 'cellwright[lab]'", "pipx reinstall cellwright"),
        (
            Installation(Way.VENV, "/my env/bin/python"),
            "'/my env/bin/python' -m pip install 'cellwright[lab]'",
            "'/my env/bin/python' -m pip install cellwright",
        ),
        (
            Installation(Way.VENV, "/e/bin/python", has_pip=False),
            "uv pip install --python /e/bin/python 'cellwright[lab]'",
            "uv pip install --python /e/bin/python cellwright",
        ),
        (
            Installation(Way.CONDA, "/c/bin/python"),
            "/c/bin/python -m pip install 'cellwright[lab]'",
            "/c/bin/python -m pip install cellwright",
        ),
    ],
)
def test_the_command_fits_the_way(installation: Installation, add: str, mend: str) -> None:
    assert installation.add("lab") == add
    assert installation.mend() == mend


@pytest.fixture
def without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation from which somebody removed ipykernel."""
    version = installed.installed_version

    def without(package: str) -> str | None:
        return None if package == "ipykernel" else version(package)

    monkeypatch.setattr(installed, "installed_version", without)
    monkeypatch.setattr(embedded, "NEEDED", ("jupyter_server", "ipykernel_that_is_not_there"))
    status.incomplete_installation.cache_clear()


@requirement("package:incomplete")
@pytest.mark.usefixtures("without_a_kernel")
def test_a_missing_part_is_a_fault_with_its_remedy(tmp_path: Path) -> None:
    report = asyncio.run(examine(Settings(root=tmp_path, state_dir=tmp_path / "state")))
    check = next(check for check in report.checks if check.name == "embedded Jupyter")
    assert check.state == FAILED
    assert "ipykernel" in check.detail
    assert "pip install" in check.remedy
    assert not report.ok


@requirement("package:incomplete")
@pytest.mark.usefixtures("without_a_kernel")
@pytest.mark.anyio
async def test_the_status_says_that_a_part_is_missing(tmp_path: Path) -> None:
    workspace = make_workspace(Settings(root=tmp_path, state_dir=tmp_path / "state"), "stdio")
    offered = workspace.catalogue.find("workspace_status", local_user())
    answer = await offered.tool.function(offered.service, Call(local_user()))
    parts = {part.name: part for part in answer.parts}
    assert parts["embedded Jupyter"].state == "not installed"
    assert "pip install" in parts["embedded Jupyter"].detail
    assert "none can be started" in parts["jupyter"].detail
    await workspace.close()
    status.incomplete_installation.cache_clear()


@requirement("package:incomplete")
def test_a_sound_installation_has_every_part_that_is_not_extra(tmp_path: Path) -> None:
    report = asyncio.run(examine(Settings(root=tmp_path, state_dir=tmp_path / "state")))
    states = {check.name: check.state for check in report.checks}
    assert {states[part.name] for part in PARTS if not part.extra} == {OK}


@requirement("package:lab-missing")
@pytest.mark.anyio
async def test_jupyterlab_that_is_not_installed_is_said_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded.EmbeddedJupyter, "serves_lab", False)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "nobody-runs-here"))
    workspace = make_workspace(Settings(root=tmp_path, state_dir=tmp_path / "state"), "stdio")
    try:
        with pytest.raises(LabNotInstalled) as caught:
            await workspace.notebooks.lab_url(Call(local_user()))
        assert "cellwright[lab]" in caught.value.hint
    finally:
        await workspace.close()
