"""What the tools of the current notebook share: whose notebook is meant, tables in pages, results as blocks of text and pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from cellwright.core.text.budget import estimate_tokens
from cellwright.core.text.counting import counted
from cellwright.core.text.cutting import joined, without_last_newline
from cellwright.core.text.tables import table
from cellwright.core.toolset import Image, Reply
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.shapes import PICTURES
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import compact
from cellwright.jupyter.tools.current.notebooks import CurrentNotebooks

PAGE_TOKENS = 5_000
TEXTS_IN_ORDER = ("text/plain", "text/markdown", "text/latex", "text/html")

NotebookName = Annotated[str | None, Field(description="name or path; without it the one in use")]
CellIndex = Annotated[int, Field(description="from 0")]
Offset = Annotated[int, Field(ge=0, description="row to begin with")]
Block = str | Image


@dataclass(frozen=True)
class CurrentCells:
    """The service of these tools: the one engine of all notebook tools, and who has chosen which notebook."""

    notebooks: LiveNotebooks
    current: CurrentNotebooks = field(default_factory=CurrentNotebooks)

    def path(self, call: Call, notebook: str | None) -> NotebookPath:
        return self.current.find(call, notebook)


def paged(what: str, columns: Sequence[str], rows: Sequence[Sequence[object]], offset: int) -> tuple[JsonObject, str]:
    """As many rows as fit, as records under `what` and as a table. The records have the columns' names in small letters."""
    keys = [column.lower() for column in columns]
    kept: list[Sequence[object]] = []
    left = PAGE_TOKENS
    for row in rows[offset:]:
        left -= estimate_tokens(compact(dict(zip(keys, row, strict=True))))
        if left < 0 and kept:
            break
        kept.append(row)
    following = offset + len(kept)
    data: JsonObject = {
        what: [dict(zip(keys, row, strict=True)) for row in kept],
        "total": len(rows),
        "next_offset": following if following < len(rows) else None,
    }
    return data, table(columns, kept)


def page_reply(data: JsonObject, text: str) -> Reply[dict[str, Any]]:
    """A table as the answer. What does not fit is told in a block of its own: the table stays a table."""
    if data["next_offset"] is None:
        return Reply(data, (text,))
    more = data["total"] - data["next_offset"]
    return Reply(data, (text, f"{counted(more, 'more row')}: go on with offset={data['next_offset']}"))


def pictures_of(reply: Reply[dict[str, Any]]) -> Iterator[Image]:
    return (part for part in reply.content or () if isinstance(part, Image))


def run_reply(reply: Reply[dict[str, Any]], *before: str) -> Reply[dict[str, Any]]:
    """A run's result as a list of blocks: its outputs in order, pictures in their place, then how it ended if not well."""
    data = reply.data
    pictures = pictures_of(reply)
    blocks: list[Block] = list(before)
    for result in data["execution_results"]:
        blocks += output_blocks(result["outputs"], pictures)
    if len(blocks) == len(before) and data.get("status") == "done":
        blocks.append("[done, no output]")
    blocks += _how_it_went(data)
    return Reply(data, tuple(blocks), reply.failed, reply.max_tokens)


def _how_it_went(data: JsonObject) -> list[str]:
    told: list[str] = []
    if (failure := data.get("error")) is not None:
        told.append(f"[{data.get('status')}] {failure['code']}: {failure['message']} ({failure['hint']})")
    elif data.get("status") != "done":
        told.append(f"[{data.get('status')}] execution_id {data.get('execution_id')}")
    for result in data["execution_results"]:
        if (error := result.get("error")) is not None:
            hint = f" ({error['hint']})" if error["hint"] else ""
            shown = any(output["output_type"] == "error" for output in result["outputs"])
            told.append(error["hint"] if shown and hint else joined([error["ename"], ": ", error["evalue"], hint]))
        told += result.get("notes", [])
    told += data.get("notes", [])
    if "next" in data:
        told.append(f"{data['next']}; restart_notebook ends it with all variables")
    return [joined(told, "\n")] if told else []


def output_blocks(outputs: Sequence[JsonObject], pictures: Iterator[Image]) -> list[Block]:
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


def _blocks(output: JsonObject, pictures: Iterator[Image]) -> list[Block]:
    match output["output_type"]:
        case "stream":
            return [output["text"] if output["name"] == "stdout" else joined([f"[{output['name']}]\n", output["text"]])]
        case "error":
            return [joined(output["traceback"], "\n") or joined([output["ename"], ": ", output["evalue"]])]
        case "execute_result" | "display_data":
            return _data_blocks(output["data"], pictures)
        case kind:
            return [f"[{kind} left out]"]


def _data_blocks(data: JsonObject, pictures: Iterator[Image]) -> list[Block]:
    pictured = [mime for mime, value in data.items() if mime in PICTURES and value.get("shown")]
    shown: list[Block] = [picture for _, picture in zip(pictured, pictures, strict=False)]
    if shown:
        # What stands beside a picture only says that there is one.
        return shown
    text = next((data[mime] for mime in TEXTS_IN_ORDER if isinstance(data.get(mime), str)), None)
    others = {mime: value for mime, value in data.items() if mime not in TEXTS_IN_ORDER}
    return [*([text] if text is not None else []), *(f"[{mime}] {compact(value)}" for mime, value in others.items())]
