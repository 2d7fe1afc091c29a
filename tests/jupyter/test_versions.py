"""Other versions of what shares documents in Jupyter, each in an environment of its own, installed here if it is not there yet."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

from jupyter_support import JupyterProcess, eventually, person_in, sources_on_disk, write_notebook
from locations import ROOT
from notebook_agent import agent_of, in_front_of
from requirements import requirement

INSTALL_SECONDS = 300


def python_with(*packages: str) -> str:
    """The Python of an environment with these packages, kept between runs."""
    name = hashlib.sha256(" ".join((sys.version, *packages)).encode()).hexdigest()[:12]
    home = ROOT / ".cache" / "versions" / name
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (home / "installed").exists():
        uv("venv", "--clear", "--python", sys.executable, str(home))
        uv("pip", "install", "--python", str(python), *packages)
        (home / "installed").touch()
    return str(python)


def uv(*arguments: str) -> None:
    """Many times as quick as pip, and what it has fetched once it does not fetch again."""
    environ = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    subprocess.run([find_uv_bin(), "--quiet", *arguments], check=True, timeout=INSTALL_SECONDS, env=environ)


@requirement("versions:collaboration-4")
@pytest.mark.timeout(600)
@pytest.mark.long(40)
def test_the_contract_of_rooms_on_collaboration_4() -> None:
    python = python_with("jupyter-collaboration>=4.1,<4.2", "jupyter-server>=2.18", "ipykernel")
    suite = [
        sys.executable,
        "-m",
        "pytest",
        "tests/jupyter/documents/test_room.py",
        "-k",
        "not local",
        "-q",
        "-p",
        "no:xdist",
    ]
    environ = {**os.environ, "CELLWRIGHT_TEST_SERVER_PYTHON": python}
    done = subprocess.run(suite, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 20, "the suite was not run"


@requirement("versions:server-documents")
@pytest.mark.timeout(500)
@pytest.mark.long(15)
@pytest.mark.anyio
async def test_notebooks_and_texts_on_server_documents(tmp_path: Path) -> None:
    jupyter = JupyterProcess(
        tmp_path, python=python_with("jupyter-server-documents", "jupyter-server>=2.18", "ipykernel")
    )
    try:
        jupyter.start()
        await use_notebooks_and_texts(jupyter, tmp_path)
    finally:
        jupyter.stop()


async def use_notebooks_and_texts(jupyter: JupyterProcess, tmp_path: Path) -> None:
    file = write_notebook(jupyter.root, "n.ipynb", ["x = 20 + 1", "print(x * 2)"])
    (jupyter.root / "t.md").write_text("one\n", encoding="utf-8")
    ours = tmp_path / "ours"
    ours.mkdir()
    with in_front_of(jupyter.address, ours, "--toolsets", "notebooks,editing,documents") as server:
        async with agent_of(server) as do, person_in(jupyter.address, "n.ipynb", "notebook") as person:
            edited = await do("edit_nb_cell", path="n.ipynb", cell="c0", old="20", new="40")
            assert edited["live"] is True
            await eventually(lambda: person.sources[0] == "x = 40 + 1", "the edit at the person's")
            person.text_of(1).insert(0, "# seen\n")
            await person.settle()
            assert await do.sources("n.ipynb") == ["x = 40 + 1", "# seen\nprint(x * 2)"]
            done = await do("execute_nb_cells", path="n.ipynb", ranges=[{"start": 0, "end": 2}], timeout=60)
            assert done["execution_results"][1]["outputs"][0]["text"] == "82\n"
            await eventually(
                lambda: sources_on_disk(file)[:1] == ["x = 40 + 1"], "the file, written by the server itself"
            )
            await do("insert_document_text", path="t.md", position=4, text="two\n")
            text = jupyter.root / "t.md"
            await eventually(lambda: text.read_text(encoding="utf-8") == "one\ntwo\n", "the text on disk")
