"""cellwright export and import, as a person uses them."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from cellwright.app.cli.main import FORMATS, main
from cellwright.notebook.formats import md
from cellwright.notebook.formats import registry as formats
from cellwright.notebook.model import FormatName, ReadableFormat
from jupyter_support import write_notebook
from requirements import requirement
from support import clean_environ

STREAM = {"output_type": "stream", "name": "stdout", "text": "1\n"}


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "c",
        "metadata": {},
        "source": "print(1)",
        "outputs": [STREAM],
        "execution_count": 1,
    }
    return write_notebook(tmp_path, "a.ipynb", [], cells=[cell])


@pytest.fixture
def state(tmp_path: Path) -> list[str]:
    return ["--root", str(tmp_path), "--state-dir", str(tmp_path / "state")]


@requirement("exchange:command")
def test_a_file_becomes_every_format(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(formats.FORMATS) == ("srcmd", "ipynb", "json", "md", "html")
    assert set(FORMATS) == set(formats.FORMATS) == set(get_args(FormatName))
    assert set(get_args(ReadableFormat)) == set(formats.FORMATS) - {"html"}
    for name in FORMATS:
        assert main(["export", str(notebook), "--to", name]) == 0
        done = capsys.readouterr()
        assert "print" in done.out
        assert ("note: the outputs of 1 cell are not in srcmd" in done.err) == (name == "srcmd")
        assert (done.err == "") == (name in ("ipynb", "json"))


@requirement("exchange:command")
def test_a_file_is_written_whole_and_only_overwritten_when_told(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = notebook.with_name("a.md")
    assert main(["export", str(notebook), "-o", str(target)]) == 0
    assert md.decode(target.read_text(encoding="utf-8")).cells[0].source == "print(1)"
    before = target.read_bytes()
    assert main(["export", str(notebook), "--to", "html", "-o", str(target)]) == 1
    assert "--force" in capsys.readouterr().err
    assert target.read_bytes() == before
    assert main(["export", str(notebook), "--to", "html", "-o", str(target), "--force"]) == 0
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main(["export", str(notebook), "--to", "md", "-o", str(notebook / "no" / "b.md")]) == 1
    assert sorted(file.name for file in notebook.parent.iterdir()) == ["a.ipynb", "a.md"]


@requirement("exchange:command")
def test_pads_and_thinking_notebooks_go_in_and_out(
    notebook: Path, state: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(notebook), "--into", "scratchpad://mine", *state]) == 0
    done = capsys.readouterr()
    assert done.out == "scratchpad://mine\n"
    assert "note: a pad does not keep the outputs of 1 cell" in done.err
    assert main(["export", "scratchpad://mine", "--to", "json", *state]) == 0
    assert json.loads(capsys.readouterr().out)["cells"][0]["id"] == "c"
    assert main(["import", str(notebook), "--into", "scratchpad://mine", *state]) == 1
    assert "--force" in capsys.readouterr().err
    assert main(["import", str(notebook), "--into", "scratchpad://mine", "--force", *state]) == 0
    assert main(["export", "scratchpad://mine", "--to", "md", "--as", "ann", *state]) == 1
    assert "no pad 'mine'" in capsys.readouterr().err
    assert main(["import", "scratchpad://mine", "--into", "notebook://", *state]) == 0
    uri = capsys.readouterr().out.strip()
    assert main(["export", uri, "--to", "srcmd", *state]) == 0
    assert "print(1)" in capsys.readouterr().out


@requirement("exchange:command")
def test_what_cannot_be_done_says_what_can(
    notebook: Path, state: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (notebook.parent / "bytes.md").write_bytes(b"\xff\xfe")
    for arguments, word in (
        (["export", str(notebook)], "--to srcmd, ipynb"),
        (["export", str(notebook.parent / "none.md"), "--to", "md"], "scratchpad://ID"),
        (["export", str(notebook.parent / "bytes.md"), "--to", "ipynb"], "UTF-8"),
        (["export", str(notebook), "--from", "srcmd", "--to", "md"], "metadata comment"),
        (["export", "scratchpad://none", "--to", "md", *state], "no pad 'none'"),
        (["import", str(notebook), "--into", "b.ipynb", *state], "cellwright export FILE -o"),
    ):
        assert main(arguments) == 1
        done = capsys.readouterr()
        assert word in done.err, arguments
        assert done.out == ""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"# T\n\ntext")))
    assert main(["export", "-", "--to", "ipynb"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"][0]["source"] == "# T\n\ntext"


@requirement("exchange:command")
def test_the_real_program_prints_only_the_notebook_on_stdout(notebook: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cellwright", "export", str(notebook), "--to", "ipynb"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env=clean_environ(),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["cells"][0]["source"] == "print(1)"


@requirement("formats:srcmd:folder", "exchange:command")
def test_a_srcbook_folder_is_read_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(
        '<!-- srcbook:{"language":"javascript"} -->\n\n# T\n\n###### a.js\n\n[a.js](./src/a.js)\n', encoding="utf-8"
    )
    assert main(["export", str(readme), "--to", "md"]) == 1
    assert "cannot be read" in capsys.readouterr().err
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.js").write_text("1 + 1\n", encoding="utf-8")
    assert main(["export", str(readme), "--to", "md"]) == 0
    assert "```javascript\n1 + 1\n```" in capsys.readouterr().out
