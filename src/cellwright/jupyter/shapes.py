"""Cells and outputs as a model reads them: cleaned, cut head and tail with exact counts, pictures apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote

from cellwright.core.clean import clean, clean_html
from cellwright.core.graphemes import may_split
from cellwright.core.running import RunStatus
from cellwright.core.sight import has_controls, seen
from cellwright.core.toolset import Image
from cellwright.jupyter.executions import CellRunView, ExecutionView
from cellwright.jupyter.images import FittedImage, fit_output_image
from cellwright.jupyter.model import Cell, DataOutput, ErrorOutput, JsonObject, Output, StreamOutput
from cellwright.jupyter.paths import DocPath
from cellwright.jupyter.ycells import UnreadableCell

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
TEXTS = ("text/plain", "text/markdown", "text/latex", "text/html")
HEAD_SHARE = 0.6
MAX_PICTURES = 8
MAX_DEPTH = 20


@dataclass(slots=True)
class Shaped:
    """Outputs in JSON, with what was done to them."""

    outputs: list[JsonObject] = field(default_factory=list[JsonObject])
    truncated: list[bool] = field(default_factory=list[bool])
    original_size: int = 0
    pictures: list[Image] = field(default_factory=list[Image])
    hidden: int = 0
    room: int = MAX_PICTURES


def cut_text(text: str, limit: int) -> tuple[str, bool]:
    """At most about `limit` characters: head and tail around a line that says exactly how many are missing."""
    if len(text) <= limit:
        return text, False
    head, tail = int(limit * HEAD_SHARE), limit - int(limit * HEAD_SHARE)
    start, end = head, len(text) - tail
    while start > 0 and not may_split(text, start):
        start -= 1
    while end < len(text) and not may_split(text, end):
        end += 1
    return f"{text[:start]}\n… {end - start:,} of {len(text):,} characters left out …\n{text[end:]}", True


def cell_uri(path: DocPath | str, cell_id: str) -> str:
    quoted = path.quoted if isinstance(path, DocPath) else path
    return f"jupyter://{quoted}/cells/{quote(cell_id, safe='')}"


def output_uri(path: DocPath | str, cell_id: str, number: int) -> str:
    return f"{cell_uri(path, cell_id)}/outputs/{number}"


def shape_outputs(
    outputs: Sequence[Output], limit: int, path: DocPath | None, cell_id: str, room: int = MAX_PICTURES
) -> Shaped:
    """All outputs of one cell, in order, with at most `room` pictures."""
    shaped = Shaped(room=room)
    for number, output in enumerate(outputs):
        link = output_uri(path, cell_id, number) if path is not None and cell_id else ""
        made, cut = _shape(output, limit, link, shaped)
        shaped.outputs.append(made)
        shaped.truncated.append(cut)
    return shaped


def _shape(output: Output, limit: int, link: str, shaped: Shaped) -> tuple[JsonObject, bool]:
    match output:
        case StreamOutput():
            text, cut = _text(output.text, limit, shaped)
            return {"output_type": "stream", "name": clean(output.name).text, "text": text}, cut
        case ErrorOutput():
            value, cut_value = _text(output.value, limit, shaped)
            lines, cut_lines = _text("\n".join(output.traceback), limit, shaped)
            made = {"output_type": "error", "name": clean(output.name).text, "value": value}
            return {**made, "traceback": lines.split("\n") if lines else []}, cut_value or cut_lines
        case DataOutput():
            return _shape_data(output, limit, link, shaped)
        case _:
            return {"output_type": clean(str(output.raw.get("output_type", "unknown"))).text, "omitted": True}, True


def _shape_data(output: DataOutput, limit: int, link: str, shaped: Shaped) -> tuple[JsonObject, bool]:
    data: JsonObject = {}
    cut = False
    has_plain = "text/plain" in output.data
    for mime, value in output.data.items():
        if mime in PICTURES and isinstance(value, str):
            data[mime] = _picture(value, mime, link, shaped)
        elif mime == "text/html" and has_plain:
            # What people see as a table stands in text/plain as well, for a tenth of the tokens.
            shaped.original_size += len(str(value))
            data[mime] = _left_out(mime, len(str(value)), link)
        elif mime in TEXTS and isinstance(value, str):
            decoded = clean_html(value) if mime == "text/html" else None
            shaped.hidden += decoded.hidden if decoded else 0
            data[mime], was_cut = _text(decoded.text if decoded else value, limit, shaped)
            cut = cut or was_cut
        else:
            data[clean(mime).text], was_cut = _other(mime, value, limit, link, shaped)
            cut = cut or was_cut
    kind = "execute_result" if output.is_result else "display_data"
    made: JsonObject = {"output_type": kind, "data": data, "metadata": told(dict(output.metadata))}
    return {**made, "execution_count": output.execution_count}, cut


def _text(text: str, limit: int, shaped: Shaped) -> tuple[str, bool]:
    cleaned = clean(text)
    shaped.hidden += cleaned.hidden
    shaped.original_size += len(text)
    return cut_text(cleaned.text, limit)


def _picture(encoded: str, mime: str, link: str, shaped: Shaped) -> JsonObject:
    shaped.original_size += len(encoded)
    if len(shaped.pictures) >= shaped.room:
        return _left_out(mime, len(encoded), link)
    fitted = fit_output_image(encoded, mime)
    if not isinstance(fitted, FittedImage):
        return {**_left_out(mime, len(encoded), link), "why": fitted.sentence()}
    shaped.pictures.append(Image(fitted.data, fitted.mime_type))
    return {"shown": True, "size": len(fitted.data), **({"resource": link} if link else {})}


def _other(mime: str, value: object, limit: int, link: str, shaped: Shaped) -> tuple[object, bool]:
    size = len(str(value))
    shaped.original_size += size
    if mime.endswith("json") and size <= limit:
        return told(value), False
    return _left_out(mime, size, link), True


def _left_out(mime: str, size: int, link: str) -> JsonObject:
    return {"omitted": clean(mime).text, "size": size, **({"resource": link} if link else {})}


def shape_cell(
    cell: Cell, path: DocPath, limit: int, outputs: str, room: int = MAX_PICTURES
) -> tuple[JsonObject, list[Image]]:
    """A cell as `read_nb_cells` gives it. `outputs` is full, summary or none."""
    cleaned = seen(cell.source)
    source, cut = cut_text(cleaned.text, limit)
    shaped = shape_outputs(cell.outputs, limit, path, cell.id, room) if outputs == "full" else Shaped()
    shown = shaped.outputs if outputs != "summary" else [_summary(output) for output in cell.outputs]
    made: JsonObject = {
        "index": cell.index,
        "id": cell.id,
        "cell_type": clean(cell.head.cell_type).text,
        "source": source,
        "revision": cell.head.revision,
        "metadata": _told(cell.metadata),
        "execution_count": cell.head.execution_count,
        "outputs": shown,
        "truncated": {"source": cut, "outputs": shaped.truncated},
    }
    if isinstance(cell.head, UnreadableCell):
        made["note"] = cell.head.note
    elif cleaned.text != cell.source and has_controls(cell.source):
        made["note"] = "control pictures like ␍ stand for control characters in the source"
    if cell.head.running:
        made["running"] = True
    if hidden := shaped.hidden + cleaned.hidden:
        made["hidden_characters_removed"] = hidden
    return made, shaped.pictures


def _summary(output: Output) -> JsonObject:
    match output:
        case StreamOutput():
            return {"output_type": "stream", "name": clean(output.name).text, "size": len(output.text)}
        case ErrorOutput():
            return {
                "output_type": "error",
                "name": clean(output.name).text,
                "value": cut_text(clean(output.value).text, 200)[0],
            }
        case DataOutput():
            return {"output_type": "display_data", "mime": [clean(mime).text for mime in sorted(output.data)]}
        case _:
            return {"output_type": "unknown"}


def _told(metadata: Mapping[str, Any]) -> JsonObject:
    """A cell's metadata without what JupyterLab keeps for itself."""
    return told({key: value for key, value in metadata.items() if key not in {"trusted", "execution"}})


def told(value: object, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """Somebody else's JSON for a model: cleaned, and not deeper than anybody reads."""
    if isinstance(value, str):
        return clean(value).text
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        return {clean(key).text: told(item, depth + 1) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [told(item, depth + 1) for item in cast("list[object]", value)]
    return value


def shape_run(
    cell: CellRunView, path: DocPath | None, limit: int, room: int = MAX_PICTURES
) -> tuple[JsonObject, list[Image]]:
    """One cell's run as the seed's `execution_results` gives it, with what happened to it."""
    shaped = shape_outputs(cell.outputs, limit, path, cell.cell_id, room)
    made: JsonObject = {
        "id": cell.cell_id,
        "status": cell.state.value,
        "execution_count": cell.execution_count,
        "outputs": shaped.outputs,
        "truncated": any(shaped.truncated) or bool(cell.omitted),
        "original_size": shaped.original_size,
    }
    if cell.error is not None:
        made["error"] = _error(cell)
    if cell.omitted:
        made["omitted"] = str(cell.omitted)
    if shaped.hidden:
        made["hidden_characters_removed"] = shaped.hidden
    if cell.notes:
        made["notes"] = list(cell.notes)
    return made, shaped.pictures


def _error(cell: CellRunView) -> JsonObject:
    assert cell.error is not None
    value = cut_text(clean(cell.error.value).text, 1_000)[0]
    hint = cell.error.hint or (
        "mend the cell with edit_nb_cell, then run it again" if cell.state is RunStatus.ERROR else ""
    )
    return {"ename": clean(cell.error.name).text, "evalue": value, "cell_id": cell.cell_id, "hint": hint}


def shape_execution(view: ExecutionView, path: DocPath | None, limit: int) -> tuple[JsonObject, list[Image]]:
    """An execution's results, and the pictures in them."""
    results: list[JsonObject] = []
    pictures: list[Image] = []
    for cell in view.cells:
        made, shown = shape_run(cell, path, limit, MAX_PICTURES - len(pictures))
        results.append(made)
        pictures += shown
    shaped: JsonObject = {"execution_results": results, "execution_id": view.id, "status": view.state.value}
    if view.notes:
        shaped["notes"] = list(view.notes)
    return shaped, pictures
