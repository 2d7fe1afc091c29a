"""Outputs and runs as a model reads them: cleaned, cut head and tail with exact counts, pictures apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NotRequired, cast
from urllib.parse import quote

from typing_extensions import TypedDict

from cellwright.core.text.clean import clean, clean_html
from cellwright.core.text.cutting import cut_text, from_file, gaps_of, mapped, original_length
from cellwright.core.toolset import Image
from cellwright.core.weight import written_size
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.kernels.executions import CellRunView, ExecutionView
from cellwright.jupyter.kernels.images import Fitted, FittedImage
from cellwright.jupyter.model import JsonObject
from cellwright.notebook.outputs import PICTURES, Data, Error, Output, has_error, is_data, is_error, is_stream
from cellwright.notebook.run import RunStatus
from cellwright.notebook.shown import LeftOutData, ShownData, ShownError, ShownOutput, ShownPicture

TEXTS = ("text/plain", "text/markdown", "text/latex", "text/html")
MAX_PICTURES = 8
SUMMARY_CHARACTERS = 200
ERROR_CHARACTERS = 1_000
MAX_DEPTH = 20


@dataclass(slots=True)
class Shaped:
    """Outputs in JSON, and how they were changed."""

    outputs: list[ShownOutput] = field(default_factory=list[ShownOutput])
    truncated: list[bool] = field(default_factory=list[bool])
    original_size: int = 0
    pictures: list[Image] = field(default_factory=list[Image])
    hidden: int = 0
    room: int = MAX_PICTURES
    fitted: Mapping[str, Fitted] = field(default_factory=dict[str, Fitted])


def cell_uri(path: DocPath | str, cell_id: str) -> str:
    quoted = path.quoted if isinstance(path, DocPath) else path
    return f"jupyter://{quoted}/cells/{quote(cell_id, safe='')}"


def output_uri(path: DocPath | str, cell_id: str, number: int) -> str:
    return f"{cell_uri(path, cell_id)}/outputs/{number}"


def shape_outputs(
    outputs: Sequence[Output],
    limit: int,
    path: DocPath | None,
    cell_id: str,
    fitted: Mapping[str, Fitted],
    room: int = MAX_PICTURES,
    links: Sequence[str] = (),
) -> Shaped:
    """All outputs of one cell, in order, with at most `room` pictures, as `Pictures` has fitted them.

    `links`: their addresses, if they are in no file.
    """
    shaped = Shaped(room=room, fitted=fitted)
    for number, output in enumerate(outputs):
        link = (
            output_uri(path, cell_id, number) if path is not None and cell_id else "".join(links[number : number + 1])
        )
        shaped_output, cut = _shape(output, limit, link, shaped)
        shaped.outputs.append(shaped_output)
        shaped.truncated.append(cut)
    return shaped


def _shape(output: Output, limit: int, link: str, shaped: Shaped) -> tuple[ShownOutput, bool]:
    if is_stream(output):
        text, cut = _text(output["text"], limit, shaped)
        return {"output_type": "stream", "name": clean(output["name"]).text, "text": text}, cut
    if is_error(output):
        return _shape_error(output, limit, shaped)
    if is_data(output):
        return _shape_data(output, limit, link, shaped)
    return {"output_type": clean(str(output.get("output_type", "unknown"))).text, "omitted": True}, True


def _shape_error(output: Error, limit: int, shaped: Shaped) -> tuple[ShownError, bool]:
    value, cut_value = _text(output["evalue"], limit, shaped)
    lines, cut_lines = _text("\n".join(output["traceback"]), limit, shaped)
    name = clean(output["ename"]).text
    error: ShownError = {
        "output_type": "error",
        "ename": name,
        # A long message is whole only in `value`; the traceback ends with it as well.
        "evalue": cut_text(value, SUMMARY_CHARACTERS),
        "name": name,
        "value": value,
        # Cut lines stay one text, so that a later cut can still count its characters.
        "traceback": [lines] if cut_lines else lines.split("\n") if lines else [],
    }
    return error, cut_value or cut_lines


def _shape_data(output: Data, limit: int, link: str, shaped: Shaped) -> tuple[ShownData, bool]:
    data: JsonObject = {}
    cut = False
    has_plain = "text/plain" in output["data"]
    for mime, value in output["data"].items():
        if mime in PICTURES and isinstance(value, str):
            picture = _shape_picture(value, mime, link, shaped)
            data[mime] = picture
            cut = cut or "shown" not in picture
        elif mime == "text/html" and has_plain:
            # A table that people see is in text/plain as well, in a tenth of the tokens.
            size = _length(value)
            shaped.original_size += size
            data[mime] = _left_out(mime, size, link)
        elif mime in TEXTS and isinstance(value, str):
            decoded = clean_html(value) if mime == "text/html" else None
            shaped.hidden += decoded.hidden if decoded else 0
            data[mime], was_cut = _text(decoded.text if decoded else value, limit, shaped)
            cut = cut or was_cut
        else:
            data[clean(mime).text], was_cut = _shape_other(mime, value, limit, link, shaped)
            cut = cut or was_cut
    shaped_data: ShownData = {
        "output_type": output["output_type"],
        "data": data,
        "metadata": cleaned_json(output["metadata"]),
        "execution_count": output.get("execution_count"),
    }
    return shaped_data, cut


def _text(text: str, limit: int, shaped: Shaped) -> tuple[str, bool]:
    def cleaned(piece: str) -> str:
        result = clean(piece)
        shaped.hidden += result.hidden
        return result.text

    original = from_file(text)
    shaped.original_size += original_length(original)
    cut = cut_text(mapped(original, cleaned), limit)
    return cut, bool(gaps_of(cut))


def _shape_picture(encoded: str, mime: str, link: str, shaped: Shaped) -> ShownPicture | LeftOutData:
    shaped.original_size += len(encoded)
    fitted = shaped.fitted.get(encoded)
    if len(shaped.pictures) >= shaped.room or fitted is None:
        return _left_out(mime, len(encoded), link)
    if not isinstance(fitted, FittedImage):
        return {**_left_out(mime, len(encoded), link), "why": fitted.sentence()}
    shaped.pictures.append(Image(fitted.data, fitted.mime_type))
    shaped_picture: ShownPicture = {"shown": True, "size": len(fitted.data)}
    if link:
        shaped_picture["resource"] = link
    return shaped_picture


def _shape_other(mime: str, value: object, limit: int, link: str, shaped: Shaped) -> tuple[object, bool]:
    size = _length(value)
    shaped.original_size += size
    if mime.endswith("json") and size <= limit:
        return cleaned_json(value), False
    return _left_out(mime, size, link), True


def _length(value: object) -> int:
    return len(value) if isinstance(value, str) else written_size(value)


def _left_out(mime: str, size: int, link: str) -> LeftOutData:
    left_out: LeftOutData = {"omitted": clean(mime).text, "size": size}
    if link:
        left_out["resource"] = link
    return left_out


def size_of(output: Output) -> int:
    if is_stream(output):
        return len(output["text"])
    if is_error(output):
        return len(output["evalue"]) + sum(map(len, output["traceback"]))
    return sum(map(_length, output["data"].values())) if is_data(output) else 0


def cleaned_json(value: object, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """Somebody else's JSON for a model: all texts cleaned, and deep nesting cut."""
    if isinstance(value, str):
        return clean(value).text
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        return {
            clean(key).text: cleaned_json(item, depth + 1) for key, item in cast("dict[str, object]", value).items()
        }
    if isinstance(value, list):
        return [cleaned_json(item, depth + 1) for item in cast("list[object]", value)]
    return value


class CellRunError(TypedDict):
    ename: str
    evalue: str
    cell_id: str
    hint: str


class CellRunReport(TypedDict):
    """One cell's run, under the names of the seed's `execution_results`."""

    id: str
    status: str
    execution_count: int | None
    outputs: list[ShownOutput]
    truncated: bool
    original_size: int
    error: NotRequired[CellRunError]
    omitted: NotRequired[str]
    cleared: NotRequired[str]
    hidden_characters_removed: NotRequired[int]
    notes: NotRequired[list[str]]


def shape_run(
    cell: CellRunView, path: DocPath | None, limit: int, fitted: Mapping[str, Fitted], room: int = MAX_PICTURES
) -> tuple[CellRunReport, list[Image]]:
    """One cell's run, and the pictures in its outputs."""
    shaped = shape_outputs(cell.outputs, limit, path, cell.cell_id, fitted, room)
    report: CellRunReport = {
        "id": cell.cell_id,
        "status": cell.state.value,
        "execution_count": cell.execution_count,
        "outputs": shaped.outputs,
        "truncated": any(shaped.truncated) or bool(cell.omitted),
        "original_size": shaped.original_size,
    }
    if cell.error is not None:
        report["error"] = _error(cell)
    if cell.omitted:
        report["omitted"] = str(cell.omitted)
    if cell.cleared:
        report["cleared"] = "the outputs of before were cleared by the code; these are all there are now"
    if shaped.hidden:
        report["hidden_characters_removed"] = shaped.hidden
    if cell.notes:
        report["notes"] = list(cell.notes)
    return report, shaped.pictures


def _error(cell: CellRunView) -> CellRunError:
    assert cell.error is not None
    error_is_shown = has_error(cell.outputs)
    original = mapped(from_file(cell.error.value), lambda piece: clean(piece).text)
    value = cut_text(original, SUMMARY_CHARACTERS if error_is_shown else ERROR_CHARACTERS)
    hint = cell.error.hint or (
        "mend the cell with edit_nb_cell, then run it again" if cell.state is RunStatus.ERROR else ""
    )
    return {"ename": clean(cell.error.name).text, "evalue": value, "cell_id": cell.cell_id, "hint": hint}


class ShapedExecution(TypedDict):
    execution_results: list[CellRunReport]
    execution_id: str
    status: str
    notes: NotRequired[list[str]]


def shape_execution(
    view: ExecutionView, path: DocPath | None, limit: int, fitted: Mapping[str, Fitted]
) -> tuple[ShapedExecution, list[Image]]:
    """An execution's results, and the pictures in them."""
    results: list[CellRunReport] = []
    pictures: list[Image] = []
    skipped: set[str] = set()
    for cell in view.cells:
        report, cell_pictures = shape_run(cell, path, limit, fitted, MAX_PICTURES - len(pictures))
        if cell.state is RunStatus.NOT_RUN and cell.error is not None:
            # Of many cells that were not run for the same reason, only the first gives it.
            if cell.error.value in skipped:
                del report["error"]
            skipped.add(cell.error.value)
        results.append(report)
        pictures += cell_pictures
    shaped: ShapedExecution = {"execution_results": results, "execution_id": view.id, "status": view.state.value}
    if view.notes:
        shaped["notes"] = list(view.notes)
    return shaped, pictures
