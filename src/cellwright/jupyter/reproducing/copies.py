"""A copy of a notebook as it was at one moment: the code to run, and the outputs to compare with."""

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from cellwright.core.errors import InvalidArgument
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.views import Sight
from cellwright.jupyter.notebooks.whole import whole_json
from cellwright.notebook.model import Kind, count_of, joined

PARAMETERS = "parameters"
INJECTED = "injected-parameters"
RAISES = "raises-exception"
LONGEST_PARAMETERS = 100_000


@dataclass(frozen=True, slots=True)
class CopiedCell:
    """A code cell of the copy."""

    index: int
    id: str
    source: str
    outputs: Sequence[JsonObject]
    execution_count: int | None
    tags: frozenset[str]
    has_run: bool
    """Whether anything is kept of an earlier run."""

    @property
    def may_raise(self) -> bool:
        return RAISES in self.tags


@dataclass(frozen=True, slots=True)
class NotebookCopy:
    path: NotebookPath
    cells: Sequence[CopiedCell]
    sight: Sight
    """The order of all cells at that moment, in which the indexes count."""
    metadata: Mapping[str, Any]

    @property
    def kernel_name(self) -> str | None:
        return _text(self.metadata.get("kernelspec"), "name")

    @property
    def language_version(self) -> str | None:
        """The version of the language by which the kept outputs were made, as far as the notebook says."""
        return _text(self.metadata.get("language_info"), "version")


@dataclass(frozen=True, slots=True)
class Injection:
    """Where parameters were put into the copy."""

    code: str
    before: int
    """The position among the copied cells before which the code runs."""
    note: str


async def copy_of(document: OpenDocument[LiveNotebook], path: NotebookPath) -> NotebookCopy:
    """The live notebook with what nobody has saved yet. Cells without code are left out."""
    content = await whole_json(document.view)
    # Nothing is awaited between the end of that reading and this, so both are of the same moment.
    sight = document.view.sight()
    raw_cells = enumerate(cast("list[JsonObject]", content["cells"]))
    cells = [_copied(index, sight.ids[index], raw) for index, raw in raw_cells if raw.get("cell_type") == Kind.CODE]
    return NotebookCopy(
        path,
        tuple(cell for cell in cells if cell.source.strip() or cell.outputs),
        sight,
        cast("JsonObject", content.get("metadata") or {}),
    )


def _copied(index: int, cell_id: str, raw: JsonObject) -> CopiedCell:
    metadata: object = raw.get("metadata")
    tags: object = cast("JsonObject", metadata).get("tags") if isinstance(metadata, dict) else None
    raw_outputs: object = raw.get("outputs")
    listed = cast("list[object]", raw_outputs) if isinstance(raw_outputs, list) else []
    outputs = [cast("JsonObject", output) for output in listed if isinstance(output, dict)]
    count = count_of(raw.get("execution_count"))
    return CopiedCell(
        index,
        cell_id,
        joined(raw.get("source")),
        outputs,
        count,
        frozenset(map(str, cast("list[object]", tags))) if isinstance(tags, list) else frozenset(),
        bool(outputs) or count is not None,
    )


def inject(copy: NotebookCopy, parameters: Mapping[str, object], language: str) -> tuple[NotebookCopy, Injection]:
    """The copy with parameters after its cell tagged `parameters`, or at the top, in a cell of their own."""
    if language != "python":
        raise InvalidArgument(
            f"parameters are written as Python, and the kernel runs {language or 'another language'}",
            hint="leave parameters out, or give the kernel_name of a Python kernel",
        )
    code = "# Parameters\n" + "\n".join(f"{_name(name)} = {value!r}" for name, value in parameters.items())
    if len(code) > LONGEST_PARAMETERS:
        raise InvalidArgument(
            f"the parameters have {len(code):,} characters, more than {LONGEST_PARAMETERS:,}",
            hint="give the name of a file in which the data is",
        )
    cells = [cell for cell in copy.cells if INJECTED not in cell.tags]
    replaced = " in place of those of an earlier run" if len(cells) < len(copy.cells) else ""
    rest = NotebookCopy(copy.path, cells, copy.sight, copy.metadata)
    for position, cell in enumerate(cells):
        if PARAMETERS in cell.tags:
            return rest, Injection(
                code, position + 1, f"after cell {cell.index}, which is tagged {PARAMETERS}{replaced}"
            )
    return rest, Injection(code, 0, f"at the top, because no cell is tagged {PARAMETERS}{replaced}")


def _name(name: str) -> str:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise InvalidArgument(f"{name[:80]!r} cannot be the name of a variable", hint='parameters: {"alpha": 0.5}')
    return name


def _text(value: object, key: str) -> str | None:
    text: object = cast("JsonObject", value).get(key) if isinstance(value, dict) else None
    return text if isinstance(text, str) and text else None
