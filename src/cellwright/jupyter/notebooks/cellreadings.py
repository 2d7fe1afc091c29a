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
from cellwright.jupyter.model import JsonObject, LiveCell
from cellwright.jupyter.notebooks.cells import UnreadableCell
from cellwright.jupyter.notebooks.shapes import (
    MAX_PICTURES,
    SUMMARY_CHARACTERS,
    cleaned_json,
    shape_outputs,
    size_of,
)
from cellwright.notebook.dependencies.states import State
from cellwright.notebook.outputs import Output, is_data, is_error, is_stream
from cellwright.notebook.shown import ShownOutput

SHORT_CHARACTERS = 80


class CellStateShown(TypedDict, total=False):
    """The state of a code cell, and why it is not fresh."""

    state: str
    because: str


class CellRemarks(CellStateShown, total=False):
    note: str
    running: Literal[True]
    hidden_characters_removed: int


NO_STATE: CellStateShown = {}
UNSAID = (None, State.FRESH, State.NOT_RUN)


class CellBody(CellRemarks):
    """The keys of every reading of a cell."""

    index: int
    id: str
    cell_type: str
    source: str
    revision: str


class CellCuts(TypedDict):
    """Whether the source was cut, and whether each of the outputs was."""

    source: bool
    outputs: list[bool]


class CellReading(CellBody):
    """A cell with all of its keys, empty or not."""

    metadata: dict[str, Any]
    execution_count: int | None
    outputs: list[ShownOutput]
    truncated: CellCuts


def shape_cell(
    cell: LiveCell,
    path: DocPath,
    limit: int,
    fitted: Mapping[str, Fitted],
    room: int = MAX_PICTURES,
    state: CellStateShown = NO_STATE,
) -> tuple[CellReading, list[Image]]:
    """A cell with its outputs, and the pictures in them."""
    cleaned = seen(cell.source)
    body = _body(cell, cleaned, limit)
    shaped = shape_outputs(cell.outputs, limit, path, cell.id, fitted, room)
    reading: CellReading = {
        **body,
        "metadata": _shown_metadata(cell.metadata),
        "execution_count": cell.head.execution_count,
        "outputs": shaped.outputs,
        "truncated": {"source": bool(gaps_of(body["source"])), "outputs": shaped.truncated},
        **state,
        **_remarks(cell, cleaned, shaped.hidden),
    }
    return reading, shaped.pictures


class OutputSummary(TypedDict):
    """The kind and size of an output; or the output itself, without its empty values."""

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
    """A cell in short, without empty values: a missing key says the same in fewer tokens."""

    metadata: NotRequired[dict[str, Any]]
    execution_count: NotRequired[int]
    outputs: NotRequired[list[OutputSummary]]
    truncated: NotRequired[SourceCut]


def digest_cell(cell: LiveCell, limit: int, *, outputs: bool, state: CellStateShown = NO_STATE) -> CellDigest:
    """A cell with its outputs in short, or without them. A code cell without a state is fresh, or was not run and has no count."""
    cleaned = seen(cell.source)
    digest: CellDigest = {**_body(cell, cleaned, limit)}
    if metadata := _shown_metadata(cell.metadata):
        digest["metadata"] = metadata
    if cell.head.execution_count is not None:
        digest["execution_count"] = cell.head.execution_count
    if outputs and cell.outputs:
        digest["outputs"] = [_summary(output) for output in cell.outputs]
    if gaps_of(digest["source"]):
        digest["truncated"] = {"source": True}
    return {**digest, **(NO_STATE if state.get("state") in UNSAID else state), **_remarks(cell, cleaned, 0)}


def _body(cell: LiveCell, cleaned: Cleaned, limit: int) -> CellBody:
    return {
        "index": cell.index,
        "id": cell.id,
        "cell_type": clean(cell.head.cell_type).text,
        "source": cut_text(cleaned.text, limit),
        "revision": cell.head.revision,
    }


def _remarks(cell: LiveCell, cleaned: Cleaned, hidden: int) -> CellRemarks:
    """Remarks on a cell. `hidden` is the number of characters that were removed from its outputs."""
    remarks: CellRemarks = {}
    if isinstance(cell.head, UnreadableCell):
        remarks["note"] = cell.head.note
    elif cleaned.text != cell.source and has_controls(cell.source):
        remarks["note"] = "control pictures like ␍ stand for control characters in the source"
    if cell.head.running:
        remarks["running"] = True
    if hidden + cleaned.hidden:
        remarks["hidden_characters_removed"] = hidden + cleaned.hidden
    return remarks


def _shown_metadata(metadata: Mapping[str, Any]) -> JsonObject:
    """A cell's metadata without the entries that JupyterLab keeps for itself."""
    return cleaned_json({key: value for key, value in metadata.items() if key not in {"trusted", "execution"}})


def _summary(output: Output) -> OutputSummary:
    """The output itself if it is short, which costs no more and says more; else its kind and size."""
    if size_of(output) <= SHORT_CHARACTERS:
        shaped = shape_outputs([output], SHORT_CHARACTERS, None, "", {}, room=0)
        if not shaped.truncated[0]:
            return _without_empty_values(shaped.outputs[0])
    return _kind_and_size(output)


def _without_empty_values(output: ShownOutput) -> OutputSummary:
    summary: OutputSummary = {"output_type": output["output_type"]}
    if "text" in output:
        return {**output}
    if "traceback" in output:
        summary = {**output}
        if not output["traceback"]:
            del summary["traceback"]
    elif "data" in output:
        if output["data"]:
            summary["data"] = output["data"]
        if output["metadata"]:
            summary["metadata"] = output["metadata"]
        if output["execution_count"] is not None:
            summary["execution_count"] = output["execution_count"]
    return summary


def _kind_and_size(output: Output) -> OutputSummary:
    if is_stream(output):
        return {"output_type": "stream", "name": clean(output["name"]).text, "size": len(output["text"])}
    if is_error(output):
        value = cut_text(mapped(from_file(output["evalue"]), lambda piece: clean(piece).text), SUMMARY_CHARACTERS)
        return {"output_type": "error", "ename": clean(output["ename"]).text, "evalue": value}
    if is_data(output):
        mime = [clean(mime).text for mime in sorted(output["data"])]
        return {"output_type": output["output_type"], "mime": mime, "size": size_of(output)}
    return {"output_type": "unknown"}
