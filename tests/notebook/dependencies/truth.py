"""The truth about which cells are stale: notebooks are run, one cell is edited, they are run again, and what changed is compared.

What the program says of the same edit, without running anything, is held against it.
"""

import ast
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from cellwright.notebook.dependencies.model import CellNames
from cellwright.notebook.dependencies.reading import names_of
from cellwright.notebook.dependencies.states import LastRun, NotebookStates, State
from locations import ROOT

HERE = Path(__file__).parent
CACHE = ROOT / ".cache" / "truth"
GOLDEN_FILE = HERE / "golden" / "notebooks.json"
SECONDS = 60.0
MOST_SECONDS = 20.0
"""Of a notebook: the proof has no time for others."""
LONG = 1.0
"""A notebook that takes so many seconds is edited once only."""
MOST_BYTES_OF_FOLDER = 60_000_000
MOST_TRIES = 3
"""Of edits, where one makes its cell fail or leaves everything as it was."""

CHANGE_AS_IMPORTED = frozenset(
    {"yellowbrick", "turtle", "this", "antigravity", "__future__", "pylab", "tkinter", "IPython"}
)
"""Modules that change others or show something when they are imported."""

Runs = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook of the proof, or of a test: the sources of its code cells, and the folder in which it runs."""

    name: str
    sources: Sequence[str]
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of one cell, and which others had another value once the notebook ran with it."""

    cell: int
    source: str
    failed: bool
    """Whether the edited cell failed."""
    itself: Sequence[str]
    """What was another of the edited cell."""
    changed: Mapping[int, Sequence[str]]
    """By cell, what was another: `output`, the names it bound, and with `~` those whose object it changed in place."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What runs of a notebook showed."""

    name: str
    sources: Sequence[str]
    unsettled: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    """By cell, what was not the same in two runs of the same notebook."""
    edits: Sequence[Edit] = ()
    refused: str = ""
    """Why the notebook cannot take part."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What the program said of a notebook's edits, held against the truth."""

    missed: Sequence[str] = ()
    needless: Sequence[str] = ()
    stale: int = 0
    """Cells called stale."""
    compared: int = 0
    """Cells that were not edited and are the same in two runs."""
    changed: int = 0
    left_out: int = 0


def called_stale(before: Sequence[str], after: Sequence[str], edited: int) -> dict[int, str]:
    """The cells that are not fresh after this edit, with why, once all cells had run in their order."""
    keys = [f"{number:05}" for number in range(len(before))]
    names = [_names(source) for source in before]
    states = NotebookStates()
    states.arrange(keys, dict(zip(keys, names, strict=True)))
    for number, (source, one) in enumerate(zip(before, names, strict=True), 1):
        states.ledger.add(number, source, one)
    states.note_runs({key: LastRun(State.FRESH, number) for number, key in enumerate(keys, 1)})
    states.judge()
    states.arrange(keys, {keys[edited]: _names(after[edited])})
    states.note_runs({keys[edited]: LastRun(State.EDITED, edited + 1)})
    states.judge()
    judged = states.states
    said: dict[int, str] = {}
    for number, key in enumerate(keys):
        state = judged[key]
        if number != edited and state.state is not State.FRESH:
            reason = state.reason
            why = "" if reason is None else reason.why.format(name=reason.name, cell=reason.cell and int(reason.cell))
            said[number] = f"{state.state}: {why}"
    return said


_KNOWN: dict[str, CellNames] = {}


def _names(source: str) -> CellNames:
    if source not in _KNOWN:
        _KNOWN[source] = names_of(source, "python")
    return _KNOWN[source]


def figures_of(truth: Truth) -> Figures:
    missed: list[str] = []
    needless: list[str] = []
    stale = compared = changed = left_out = 0
    for edit in truth.edits:
        after = [*truth.sources]
        after[edit.cell] = edit.source
        said = called_stale(truth.sources, after, edit.cell)
        for cell in range(len(after)):
            if cell == edit.cell:
                continue
            # A cell of which some is not settled may still be known to have changed.
            if cell in edit.changed:
                changed += 1
                if cell not in said:
                    missed.append(
                        f"{truth.name}: edit of {edit.cell} changes {', '.join(edit.changed[cell])} of {cell}"
                    )
            if cell in truth.unsettled:
                left_out += 1
                continue
            compared += 1
            if cell in said:
                stale += 1
                if cell not in edit.changed:
                    needless.append(f"{truth.name}: edit of {edit.cell}, cell {cell} {said[cell]}")
    return Figures(missed, needless, stale, compared, changed, left_out)


def added(all_figures: Iterable[Figures]) -> Figures:
    total = Figures()
    for one in all_figures:
        total = Figures(
            [*total.missed, *one.missed],
            [*total.needless, *one.needless],
            total.stale + one.stale,
            total.compared + one.compared,
            total.changed + one.changed,
            total.left_out + one.left_out,
        )
    return total


class Runner:
    """Runs notebooks in another Python; see truth_kernel.py."""

    def __init__(self, python: Path, folder: Path, imports: Sequence[str] = (), paths: Sequence[Path] = ()) -> None:
        """`folder`: where what is run lies, always at the same place, so that its paths are the same in each run.

        `imports`: what the notebooks import, so that not each run takes the time for it. `paths`: where they find it, if nowhere else.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "PYTHONHASHSEED": "0",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "IPYTHONDIR": str(folder / "ipython"),
            "MPLCONFIGDIR": str(folder / "matplotlib"),
            "PYTHONWARNINGS": "ignore",
            "PIP_NO_INDEX": "1",
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
        }
        self._process = subprocess.Popen(
            [python, "-B", HERE / "truth_kernel.py", *imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **settings},
            cwd=folder,
            text=True,
            encoding="utf-8",
        )
        assert "ready" in self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=2 * SECONDS)
        self._process.stdout.close()

    def run(self, notebook: Notebook, sources: Sequence[str], seconds: float, *, stop: bool = False) -> Runs | str:
        """What each cell did, or why that is not known. With `stop`, nothing is run after a cell that fails."""
        assert self._process.stdin is not None
        place = laid_out(notebook.folder, self.folder / "place")
        answer = self.folder / "answer.json"
        task = {"cells": sources, "folder": str(place), "answer": str(answer), "seconds": seconds, "stop": stop}
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        why = self._answer()["why"]
        return why or json.loads(answer.read_text(encoding="utf-8"))


def imports_of(notebooks: Iterable[Notebook]) -> Sequence[str]:
    """The modules that notebooks import."""
    found: dict[str, None] = {}
    for source in (source for notebook in notebooks for source in notebook.sources):
        for name in re.findall(r"^(?:import|from)[ \t]+([\w.]+)", source, re.MULTILINE):
            if name.partition(".")[0] not in CHANGE_AS_IMPORTED:
                found[name] = None
    return list(found)


def laid_out(folder: Path | None, place: Path) -> Path:
    """A fresh copy of a notebook's folder; what lies beside it is there, too."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if folder is None:
        return place
    root = next(parent for parent in (folder, *folder.parents) if parent.parent.name == "extracted")
    for step in reversed([folder, *(parent for parent in folder.parents if parent.is_relative_to(root))][:-1]):
        for other in step.parent.iterdir():
            if other != step:
                (place / other.name).symlink_to(other)
        place /= step.name
        place.mkdir()
    for file in folder.rglob("*"):
        target = place / file.relative_to(folder)
        if file.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif file.is_file() and file.suffix != ".ipynb":
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    return place


def differences(one: Runs, other: Runs) -> dict[int, list[str]]:
    """By cell, what was another in one run of a notebook than in the other."""
    found: dict[int, list[str]] = {}
    one_values: dict[str, str] = {}
    other_values: dict[str, str] = {}
    for number, (first, second) in enumerate(zip(one, other, strict=True)):
        one_values |= first["written"]
        other_values |= second["written"]
        differ = ["output"] if first["shown"] != second["shown"] else []
        bound = {*first["bound"], *second["bound"]}
        differ += [
            name if name in bound else f"~{name}"
            for name in sorted({*first["written"], *second["written"]})
            if one_values.get(name, "gone") != other_values.get(name, "gone")
        ]
        if differ:
            found[number] = differ
    return found


def truth_of(notebook: Notebook, runner: Runner, edits: int = 1) -> Truth:
    """Run a notebook, edit a cell, run it again, and so on."""
    name, sources = notebook.name, notebook.sources
    clean = runner.run(notebook, sources, MOST_SECONDS, stop=True)
    if isinstance(clean, str):
        return Truth(name, sources, refused=clean)
    if failed := [f"cell {number}: {one['begin'][-1]}" for number, one in enumerate(clean) if one["error"]]:
        return Truth(name, sources, refused=failed[0])
    chance = random.Random(name)
    took = sum(one["seconds"] + one["after"] for one in clean)
    limit = min(SECONDS, 4 + 3 * took)
    made: list[tuple[int, str, Runs]] = []
    for _ in range(edits if took < LONG else 1):
        one = _edited_run(notebook, runner, chance, limit, clean, {cell for cell, _, _ in made})
        if one is not None:
            made.append(one)
    if not made:
        return Truth(name, sources, refused="no edit of it was found that does anything")
    again = runner.run(notebook, sources, limit)
    if isinstance(again, str):
        return Truth(name, sources, refused=again)
    found = [(cell, source, runs, differences(clean, runs)) for cell, source, runs in made]
    unsettled = differences(clean, again)
    # No edit changes what stands above it.
    for cell, _, _, differ in found:
        for above in [number for number in differ if number < cell]:
            unsettled[above] = sorted({*unsettled.get(above, ()), *differ.pop(above)})
    told: list[Edit] = []
    for cell, source, runs, differ in found:
        changed = {
            number: rest
            for number, parts in differ.items()
            if (rest := [part for part in parts if part not in unsettled.get(number, ())])
        }
        itself = changed.pop(cell, [])
        told.append(Edit(cell, source, bool(runs[cell]["error"]), itself, changed))
    return Truth(name, sources, unsettled, told)


def _edited_run(
    notebook: Notebook, runner: Runner, chance: random.Random, limit: float, clean: Runs, used: set[int]
) -> tuple[int, str, Runs] | None:
    """One edit by chance that does something. One that makes its cell fail is taken only where no other is found soon."""
    failing: tuple[int, str, Runs] | None = None
    for _ in range(MOST_TRIES):
        cells = [number for number in range(len(notebook.sources)) if number not in used]
        chance.shuffle(cells)
        for cell in cells:
            source = edited(notebook.sources[cell], chance)
            if source is not None:
                break
        else:
            return failing
        after = [*notebook.sources]
        after[cell] = source
        runs = runner.run(notebook, after, limit)
        if isinstance(runs, str) or not differences(clean, runs):
            continue
        if not runs[cell]["error"]:
            return cell, source, runs
        failing = cell, source, runs
    return failing


SWAPPED = {"+": "-", "-": "+", "*": "+", "/": "*", "<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}
_OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Lt: "<",
    ast.Gt: ">",
    ast.LtE: "<=",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def edited(source: str, chance: random.Random) -> str | None:
    """The cell with one small change that may well give it another value; None if there is nothing to change."""
    lines = source.splitlines(keepends=True)
    plain = "".join(
        re.sub(r"\S", "#", line, count=1) if line.lstrip().startswith(("%", "!")) else line for line in lines
    )
    try:
        tree = ast.parse(plain)
    except (SyntaxError, ValueError):
        return None
    places = [(kind, place) for kind, place in _places(tree, plain) if place[2] != place[3] or kind == "twice"]
    if not places:
        return None
    weights = {"number": 5.0, "operator": 3.0, "text": 1.5, "drop": 1.0, "twice": 0.5}
    kind, (first, last, start, end, new) = chance.choices(places, [weights[kind] for kind, _ in places])[0]
    encoded = [line.encode() for line in lines]
    if kind == "drop":
        kept = [*lines[:first], "", *lines[last + 1 :]]
        return "".join(kept)
    if kind == "twice":
        whole = "".join(lines[first : last + 1])
        return "".join([*lines[: last + 1], "" if whole.endswith("\n") else "\n", whole, *lines[last + 1 :]])
    encoded[first] = encoded[first][:start] + new.encode() + encoded[first][end:]
    return b"".join(encoded).decode()


Place = tuple[int, int, int, int, str]
"""The first and last line from 0, start and end in bytes, and what comes there."""


def _places(tree: ast.Module, source: str) -> Iterator[tuple[str, Place]]:
    formatted = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    texts = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in formatted:
            continue
        if isinstance(node, ast.Constant) and node.lineno == node.end_lineno and id(node) not in texts:
            yield from _constant(node, source)
        elif isinstance(node, ast.BinOp | ast.Compare):
            yield from _operator(node, source)
    taken: set[int] = set()
    for statement in tree.body:
        last = (statement.end_lineno or statement.lineno) - 1
        if statement.lineno - 1 in taken or isinstance(
            statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
        ):
            taken.add(last)
            continue
        taken.add(last)
        if isinstance(statement, ast.Expr | ast.AugAssign | ast.Assign):
            place = (statement.lineno - 1, last, 0, 1, "")
            if isinstance(statement, ast.Expr | ast.AugAssign) or len(tree.body) > 1:
                yield "drop", place
            if isinstance(statement, ast.Expr | ast.AugAssign):
                yield "twice", place


def _constant(node: ast.Constant, source: str) -> Iterator[tuple[str, Place]]:
    value, line = node.value, node.lineno - 1
    start, end = node.col_offset, node.end_col_offset or node.col_offset
    if isinstance(value, bool):
        yield "number", (line, line, start, end, str(not value))
    elif isinstance(value, int):
        yield "number", (line, line, start, end, str(value + 1 if value < 1000 else value - value // 10))
    elif isinstance(value, float):
        yield "number", (line, line, start, end, repr(value * 1.1 if value else 0.1))
    elif isinstance(value, str) and value.strip():
        text = source.splitlines()[line].encode()[start:end].decode(errors="replace")
        if text[:1] in "'\"" and text[1:3] != text[:1] * 2:
            yield "text", (line, line, end - 1, end, f"s{text[-1]}")


def _operator(node: ast.BinOp | ast.Compare, source: str) -> Iterator[tuple[str, Place]]:
    left, operator, right = (
        (node.left, node.op, node.right)
        if isinstance(node, ast.BinOp)
        else (node.left, node.ops[0], node.comparators[0])
    )
    sign = _OPERATORS.get(type(operator))
    if sign is None or left.end_lineno != right.lineno:
        return
    line, start, end = right.lineno - 1, left.end_col_offset or 0, right.col_offset
    between = source.splitlines()[line].encode()[start:end].decode(errors="replace")
    if between.strip() == sign:
        at = start + between.index(sign)
        yield "operator", (line, line, at, at + len(sign), SWAPPED[sign])


def sample() -> tuple[Sequence[Notebook], Sequence[Path]]:
    """A few notebooks that need no more than the packages that ship them, and where these packages are."""
    notebooks: list[Notebook] = []
    paths: list[Path] = []
    known = golden()
    for package, files in known["sample"].items():
        about = {**known["packages"][package], "notebooks": files}
        notebooks += notebooks_of(package, about)
        paths += (folder for folder in extracted(package, about).iterdir() if folder.is_dir())
    return notebooks, paths


def golden() -> dict[str, Any]:
    return json.loads(GOLDEN_FILE.read_text(encoding="utf-8"))


def python_of_proof() -> Path:
    """A Python that has what the notebooks import, at the versions with which they were found to run. It is made once."""
    python = CACHE / "venv" / "bin" / "python"
    wanted = CACHE / "requirements.txt"
    lines = "\n".join(golden()["environment"])
    if not python.exists() or not wanted.exists() or wanted.read_text(encoding="utf-8") != lines:
        CACHE.mkdir(parents=True, exist_ok=True)
        wanted.write_text(lines, encoding="utf-8")
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--clear", "--python", sys.executable, CACHE / "venv"], check=True)
        install = [*uv, "pip", "install", "--python", python, "--only-binary", ":all:", "-r", wanted]
        subprocess.run(install, check=True)
    return python


def notebooks_of(package: str, about: Mapping[str, Any]) -> Iterator[Notebook]:
    """The notebooks of a package that take part."""
    root = extracted(package, about)
    for path in about["notebooks"]:
        file = root / path
        yield Notebook(f"{package} {PurePosixPath(path).name}", sources_of(file), file.parent)


def sources_of(file: Path) -> Sequence[str]:
    """The sources of a notebook's code cells, but for the empty ones."""
    content = json.loads(file.read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]
    return [source for source in sources if source.strip()]


def extracted(package: str, about: Mapping[str, Any]) -> Path:
    """The files of a package's archive."""
    folder = CACHE / "extracted" / re.sub(r"\.(tar\.gz|zip)$", "", about["file"])
    if not folder.exists():
        draft = folder.with_name(f"{folder.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        file = archive(package, about)
        if file.suffix == ".zip":
            with zipfile.ZipFile(file) as packed:
                packed.extractall(draft)
        else:
            with tarfile.open(file) as packed:
                for one in packed:
                    if one.isfile() and not one.name.startswith("/") and ".." not in one.name.split("/"):
                        packed.extract(one, draft)
        draft.rename(folder)
    return folder


def archive(package: str, about: Mapping[str, Any]) -> Path:
    """The archive of a package, from the cache or its registry; what is not byte for byte the one we know is refused."""
    file = CACHE / "archives" / about["file"]
    if not file.exists():
        page = fetched(f"https://pypi.org/simple/{package}/").decode()
        found = re.search(rf'href="([^"#]*/{re.escape(about["file"])})[#"]', page)
        assert found is not None, f"the index has no {about['file']}"
        data = fetched(found[1])
        assert hashlib.sha256(data).hexdigest() == about["sha256"], f"{package} is not the archive that was checked"
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{id(data)}")
        draft.write_bytes(data)
        draft.replace(file)
    return file


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return answer.read()


def kept(notebook: Notebook) -> Path:
    """Where the truth about a notebook is kept."""
    mark = hashlib.sha256("\0".join([notebook.name, *notebook.sources]).encode()).hexdigest()[:16]
    return CACHE / "truths" / f"{mark}.json"


def read_truth(file: Path) -> Truth:
    about = json.loads(file.read_text(encoding="utf-8"))
    edits: list[Edit] = []
    for edit in about.pop("edits"):
        changed = {int(cell): parts for cell, parts in edit.pop("changed").items()}
        edits.append(Edit(**edit, changed=changed))
    unsettled = {int(cell): parts for cell, parts in about.pop("unsettled").items()}
    return Truth(**about, unsettled=unsettled, edits=edits)


def write_truth(file: Path, truth: Truth) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(truth)), encoding="utf-8")
    draft.replace(file)


def all_truths() -> Iterator[Truth]:
    """The truth about all notebooks of the proof: as it was found before, or from runs now."""
    for package, about in golden()["packages"].items():
        notebooks = list(notebooks_of(package, about))
        yield from (read_truth(kept(one)) for one in notebooks if kept(one).exists())
        missing = [one for one in notebooks if not kept(one).exists()]
        if missing:
            with Runner(python_of_proof(), CACHE / "runs", imports_of(notebooks)) as runner:
                for one in missing:
                    found = truth_of(one, runner, edits=2)
                    write_truth(kept(one), found)
                    yield found


def report(truths: Sequence[Truth], figures: Figures) -> str:
    """The figures in words."""
    known = [one for one in truths if not one.refused]
    edits = sum(len(one.edits) for one in known)
    needless = len(figures.needless)
    of_all, of_stale = needless / max(1, figures.compared), needless / max(1, figures.stale)
    lines = [
        f"{len(known)} notebooks with {sum(len(one.sources) for one in known)} cells, {edits} edits",
        f"{figures.changed} cells changed by them, {len(figures.missed)} of these called fresh",
        f"{figures.stale} of {figures.compared} other cells called stale",
        f"{needless} of these without need: {of_all:.1%} of all cells, {of_stale:.1%} of those called stale",
        f"{figures.left_out} cells left out, because they are not the same in two runs",
        *(f"not run: {one.name}: {one.refused}" for one in truths if one.refused),
        *(f"missed: {one}" for one in figures.missed),
    ]
    return "\n".join(lines)
