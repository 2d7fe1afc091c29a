"""Cells as a model reads them: whole, or in short."""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from cellwright.core.text.clean import Cleaned, clean
from cellwright.core.text.cutting import cut_text, from_file, gaps_of, mapped
from cellwright.core.text.sight import has_controls, seen
from cellwright.core.toolset import Image
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.kernels.images import Fitted
from cellwright.jupyter.model import DataOutput, ErrorOutput, JsonObject, LiveCell, Output, StreamOutput
from cellwright.jupyter.notebooks.cells import UnreadableCell
from cellwright.jupyter.notebooks.shapes import (
    MAX_PICTURES,
    SUMMARY_CHARACTERS,
    data_kind,
    shape_outputs,
    size_of,
    told,
)
from cellwright.notebook.shown import ShownOutput

SHORT_CHARACTERS = 80


class CellRemarks(TypedDict, total=False):
    note: str
    running: Literal[True]
    hidden_characters_removed: int


class CellBody(CellRemarks):
    """What every reading of a cell has."""

    index: int
    id: str
    cell_type: str
    source: str
    revision: str


class CellCuts(TypedDict):
    """What was cut: the source, and each of the outputs."""

    source: bool
    outputs: list[bool]


class CellReading(CellBody):
    """A cell with all of its keys, empty or not."""

    metadata: dict[str, Any]
    execution_count: int | None
    outputs: list[ShownOutput]
    truncated: CellCuts


def shape_cell(
    cell: LiveCell, path: DocPath, limit: int, fitted: Mapping[str, Fitted], room: int = MAX_PICTURES
) -> tuple[CellReading, list[Image]]:
    """A cell with its outputs, and the pictures in them."""
    cleaned = seen(cell.source)
    body = _body(cell, cleaned, limit)
    shaped = shape_outputs(cell.outputs, limit, path, cell.id, fitted, room)
    made: CellReading = {
        **body,
        "metadata": _told(cell.metadata),
        "execution_count": cell.head.execution_count,
        "outputs": shaped.outputs,
        "truncated": {"source": bool(gaps_of(body["source"])), "outputs": shaped.truncated},
        **_remarks(cell, cleaned, shaped.hidden),
    }
    return made, shaped.pictures


class OutputSummary(TypedDict):
    """What kind of output it is and how large; or the output itself, without what is empty in it."""

    output_type: str
    name: NotRequired[str]
    text: NotRequired[str]
    ename: NotRequired[str]
    evalue: NotRequired[str]
    value: NotRequired[str]
    traceback: NotRequired[list[str]]
    data: NotRequired[dict[str, Any]]
    metadata: NotRequired[dict[str, Any]]
    execution_count: NotRequired[int]
    mime: NotRequired[list[str]]
    size: NotRequired[int]


class SourceCut(TypedDict):
    source: Literal[True]


class CellDigest(CellBody):
    """A cell in short, without what is empty: a key that is missing says the same for less."""

    metadata: NotRequired[dict[str, Any]]
    execution_count: NotRequired[int]
    outputs: NotRequired[list[OutputSummary]]
    truncated: NotRequired[SourceCut]


def digest_cell(cell: LiveCell, limit: int, *, outputs: bool) -> CellDigest:
    """A cell with its outputs in short, or without them."""
    cleaned = seen(cell.source)
    made: CellDigest = {**_body(cell, cleaned, limit)}
    if metadata := _told(cell.metadata):
        made["metadata"] = metadata
    if cell.head.execution_count is not None:
        made["execution_count"] = cell.head.execution_count
    if outputs and cell.outputs:
        made["outputs"] = [_summary(output) for output in cell.outputs]
    if gaps_of(made["source"]):
        made["truncated"] = {"source": True}
    return {**made, **_remarks(cell, cleaned, 0)}


def _body(cell: LiveCell, cleaned: Cleaned, limit: int) -> CellBody:
    return {
        "index": cell.index,
        "id": cell.id,
        "cell_type": clean(cell.head.cell_type).text,
        "source": cut_text(cleaned.text, limit),
        "revision": cell.head.revision,
    }


def _remarks(cell: LiveCell, cleaned: Cleaned, hidden: int) -> CellRemarks:
    """What is to be said of a cell, of whose outputs `hidden` characters were taken out."""
    made: CellRemarks = {}
    if isinstance(cell.head, UnreadableCell):
        made["note"] = cell.head.note
    elif cleaned.text != cell.source and has_controls(cell.source):
        made["note"] = "control pictures like ␍ stand for control characters in the source"
    if cell.head.running:
        made["running"] = True
    if hidden + cleaned.hidden:
        made["hidden_characters_removed"] = hidden + cleaned.hidden
    return made


def _told(metadata: Mapping[str, Any]) -> JsonObject:
    """A cell's metadata without what JupyterLab keeps for itself."""
    return told({key: value for key, value in metadata.items() if key not in {"trusted", "execution"}})


def _summary(output: Output) -> OutputSummary:
    """A short output itself, which costs no more and says more; else what it is."""
    if size_of(output) <= SHORT_CHARACTERS:
        shaped = shape_outputs([output], SHORT_CHARACTERS, None, "", {}, room=0)
        if not shaped.truncated[0]:
            return _itself(shaped.outputs[0])
    return _kind_and_size(output)


def _itself(output: ShownOutput) -> OutputSummary:
    made: OutputSummary = {"output_type": output["output_type"]}
    if "text" in output:
        return {**output}
    if "traceback" in output:
        made = {**output}
        if not output["traceback"]:
            del made["traceback"]
    elif "data" in output:
        if output["data"]:
            made["data"] = output["data"]
        if output["metadata"]:
            made["metadata"] = output["metadata"]
        if output["execution_count"] is not None:
            made["execution_count"] = output["execution_count"]
    return made


def _kind_and_size(output: Output) -> OutputSummary:
    match output:
        case StreamOutput():
            return {"output_type": "stream", "name": clean(output.name).text, "size": len(output.text)}
        case ErrorOutput():
            value = cut_text(mapped(from_file(output.value), lambda piece: clean(piece).text), SUMMARY_CHARACTERS)
            return {"output_type": "error", "ename": clean(output.name).text, "evalue": value}
        case DataOutput():
            mime = [clean(mime).text for mime in sorted(output.data)]
            return {"output_type": data_kind(output), "mime": mime, "size": size_of(output)}
        case _:
            return {"output_type": "unknown"}
