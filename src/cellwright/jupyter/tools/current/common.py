"""Shared by the tools of the current notebook: the caller's notebook, tables in pages, results as blocks of text and pictures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from cellwright.core.text.counting import counted
from cellwright.core.text.cutting import joined, without_last_newline
from cellwright.core.text.tables import table
from cellwright.core.toolset import Image, Reply
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.shapes import TEXTS
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import RunFailure, RunIfAsked, RunReport, compact, first_of
from cellwright.jupyter.tools.current.notebooks import CurrentNotebooks
from cellwright.notebook.outputs import PICTURES, has_error
from cellwright.notebook.shown import ShownOutput

PAGE_TOKENS = 5_000

NotebookName = Annotated[str | None, Field(description="name or path; without it the one in use")]
CellIndex = Annotated[int, Field(description="from 0")]
Offset = Annotated[int, Field(ge=0, description="row to begin with")]
Block = str | Image
Row = TypeVar("Row", bound=Mapping[str, object])
Ran = TypeVar("Ran", bound=RunReport | RunIfAsked)


@dataclass(frozen=True)
class CurrentCells:
    """The service of these tools: the service of all notebook tools, and which notebook each caller has chosen."""

    notebooks: LiveNotebooks
    current: CurrentNotebooks = field(default_factory=CurrentNotebooks)

    def path(self, call: Call, notebook: str | None) -> NotebookPath:
        return self.current.find(call, notebook)

    def path_to_change(self, call: Call, notebook: str | None) -> NotebookPath:
        return self.current.find_to_change(call, notebook)

    def doubt(self, call: Call, notebook: str | None, path: NotebookPath) -> tuple[str, ...]:
        """A block that names the notebook, where another client may have chosen it."""
        return (
            (f"[of {path}, which another client may have chosen]",) if self.current.is_in_doubt(call, notebook) else ()
        )


@dataclass(frozen=True, slots=True)
class TablePage(Generic[Row]):
    """As many rows of a table as fit into an answer."""

    rows: list[Row]
    total: int
    next_offset: int | None

    def blocks(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The rows under these columns. A block of its own counts the rows that do not fit: the table stays a table."""
        text = table_of(columns, self.rows)
        if self.next_offset is None:
            return (text,)
        more = self.total - self.next_offset
        return text, f"{counted(more, 'more row')}: go on with offset={self.next_offset}"


def paged(rows: Sequence[Row], offset: int) -> TablePage[Row]:
    page_rows = first_of(rows[offset:], PAGE_TOKENS)
    next_offset = offset + len(page_rows)
    return TablePage(page_rows, len(rows), next_offset if next_offset < len(rows) else None)


def table_of(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """The rows as a table. Their keys are the columns in lower case, in the same order."""
    return table(columns, (tuple(row.values()) for row in rows))


def pictures_of(reply: Reply[Ran]) -> Iterator[Image]:
    return (part for part in reply.content or () if isinstance(part, Image))


def run_reply(reply: Reply[Ran], *before: str, failure: RunFailure | None = None) -> Reply[Ran]:
    """A run's result as a list of blocks: its outputs in order, pictures in their place, then how it ended if not well.

    `failure`: why nothing ran.
    """
    data = reply.data
    pictures = pictures_of(reply)
    blocks: list[Block] = list(before)
    for result in data["execution_results"]:
        blocks += output_blocks(result["outputs"], pictures)
    if len(blocks) == len(before) and data.get("status") == "done":
        blocks.append("[done, no output]")
    blocks += _how_it_went(data, failure)
    return Reply(data, tuple(blocks), reply.failed, reply.max_tokens)


def _how_it_went(data: RunReport | RunIfAsked, failure: RunFailure | None) -> list[str]:
    lines: list[str] = []
    if failure is not None:
        lines.append(f"[{data.get('status')}] {failure['code']}: {failure['message']} ({failure['hint']})")
    elif data.get("status") != "done":
        lines.append(f"[{data.get('status')}] execution_id {data.get('execution_id')}")
    for result in data["execution_results"]:
        if (error := result.get("error")) is not None:
            hint = f" ({error['hint']})" if error["hint"] else ""
            error_is_shown = has_error(result["outputs"])
            lines.append(
                error["hint"] if error_is_shown and hint else joined([error["ename"], ": ", error["evalue"], hint])
            )
        lines += result.get("notes", [])
    lines += data.get("notes", [])
    if "next" in data:
        lines.append(f"{data['next']}; restart_notebook ends it with all variables")
    return [joined(lines, "\n")] if lines else []


def output_blocks(outputs: Sequence[ShownOutput], pictures: Iterator[Image]) -> list[Block]:
    """Outputs, as they were shaped for JSON, as blocks; `pictures` are those they show, in order."""
    blocks: list[Block] = []
    for output in outputs:
        for block in _blocks(output, pictures):
            last = blocks[-1] if blocks else None
            if isinstance(block, str) and isinstance(last, str):
                blocks[-1] = joined([without_last_newline(last), block], "\n")
            else:
                blocks.append(block)
    return blocks


def _blocks(output: ShownOutput, pictures: Iterator[Image]) -> list[Block]:
    if "text" in output:
        return [output["text"] if output["name"] == "stdout" else joined([f"[{output['name']}]\n", output["text"]])]
    if "traceback" in output:
        return [joined(output["traceback"], "\n") or joined([output["ename"], ": ", output["evalue"]])]
    if "data" in output:
        return _data_blocks(output["data"], pictures)
    return [f"[{output['output_type']} left out]"]


def _data_blocks(data: JsonObject, pictures: Iterator[Image]) -> list[Block]:
    shown_mimes = [mime for mime, value in data.items() if mime in PICTURES and value.get("shown")]
    picture_blocks: list[Block] = [picture for _, picture in zip(shown_mimes, pictures, strict=False)]
    if picture_blocks:
        # The other values beside a picture only say that there is one.
        return picture_blocks
    text = next((data[mime] for mime in TEXTS if isinstance(data.get(mime), str)), None)
    others = {mime: value for mime, value in data.items() if mime not in TEXTS}
    return [*([text] if text is not None else []), *(f"[{mime}] {compact(value)}" for mime, value in others.items())]
