"""Cells as the shared document keeps them, and as JSON."""

import uuid
from typing import Any, cast

from pycrdt import Array, Map, Text

from cellwright.core.errors import InvalidArgument, LimitReached
from cellwright.jupyter.model import (
    Cell,
    CellHead,
    CellType,
    JsonObject,
    NewCell,
    count_of,
    joined,
    output_from_json,
    revision_of,
)

MAX_SOURCE_BYTES = 10_000_000
LAST_OUTPUTS = 4
"""An error ends a run: it is among the last outputs, if there is one."""

YCell = Map[Any]


def checked_source(source: str) -> str:
    """The text, if it can be kept: valid Unicode, not enormous."""
    try:
        size = len(source.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidArgument("the text holds half of a surrogate pair, which is not valid Unicode") from error
    if size > MAX_SOURCE_BYTES:
        raise LimitReached(f"a cell or edit of {size} bytes; at most {MAX_SOURCE_BYTES} are accepted")
    return source


def new_cell_json(cell: NewCell, taken: set[str]) -> JsonObject:
    """A fresh cell, with an id that is not `taken`."""
    cell_id = uuid.uuid4().hex[:8]
    while cell_id in taken:
        cell_id = uuid.uuid4().hex[:8]
    made: JsonObject = {"id": cell_id, "cell_type": cell.cell_type.value, "source": checked_source(cell.source)}
    if cell.cell_type is CellType.CODE:
        # Trusted as JupyterLab's own new cells are: it has no output yet that somebody else made.
        return made | {"metadata": {"trusted": True}, "outputs": [], "execution_count": None}
    return made | {"metadata": {}}


def to_ycell(cell: JsonObject) -> YCell:
    """A cell's JSON as the shared types that JupyterLab makes, so that it can follow every later change."""
    made: JsonObject = {**cell, "source": Text(joined(cell.get("source"))), "metadata": Map(cell.get("metadata") or {})}
    made.setdefault("id", uuid.uuid4().hex[:8])
    if made.get("cell_type") == CellType.CODE:
        outputs: list[JsonObject] = cell.get("outputs") or []
        made["outputs"] = Array([to_youtput(output) for output in outputs])
        made.setdefault("execution_count", None)
        made["execution_state"] = "idle"
    elif not made.get("attachments"):
        made.pop("attachments", None)
    return Map(made)


def to_youtput(output: JsonObject) -> YCell:
    if output.get("output_type") == "stream":
        return Map({**output, "text": Text(joined(output.get("text")))})
    return Map(dict(output))


def to_json(ycell: YCell) -> JsonObject:
    """A cell as files have it: whole numbers as such, and without what only lives in the shared document."""
    cell = cast("JsonObject", _whole_numbers(ycell.to_py()))
    cell.pop("execution_state", None)
    return cell


def _whole_numbers(value: object) -> object:
    """Shared documents keep numbers as floats; in files 1.0 was 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in cast("JsonObject", value).items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in cast("list[object]", value)]
    return value


def head_of(ycell: YCell) -> CellHead:
    """The cell without its outputs' contents."""
    source = joined_text(ycell.get("source"))
    outputs = _outputs(ycell)
    count = len(outputs) if outputs is not None else 0
    last = range(max(0, count - LAST_OUTPUTS), count)
    return CellHead(
        id=str(ycell.get("id", "")),
        cell_type=str(ycell.get("cell_type", "")),
        source=source,
        revision=revision_of(source),
        execution_count=count_of(ycell.get("execution_count")),
        running=ycell.get("execution_state") == "running",
        output_count=count,
        failed=outputs is not None and any(_kind(outputs[index]) == "error" for index in last),
    )


def _outputs(ycell: YCell) -> Array[Any] | None:
    found = ycell.get("outputs")
    return cast("Array[Any]", found) if isinstance(found, Array) else None


def joined_text(value: object) -> str:
    return str(value) if isinstance(value, Text) else joined(value)


def _kind(output: object) -> str:
    if isinstance(output, Map):
        return str(cast("YCell", output).get("output_type", ""))
    return str(cast("JsonObject", output).get("output_type", "")) if isinstance(output, dict) else ""


def cell_of(ycell: YCell, index: int, head: CellHead) -> Cell:
    """The whole cell."""
    outputs = _outputs(ycell)
    raw = cast("list[object]", outputs.to_py() or []) if outputs is not None else []
    metadata = ycell.get("metadata")
    attachments = ycell.get("attachments")
    return Cell(
        index=index,
        head=head,
        outputs=tuple(output_from_json(cast("JsonObject", one)) for one in raw if isinstance(one, dict)),
        metadata=_plain(metadata),
        attachments=_plain(attachments),
    )


def _plain(value: object) -> JsonObject:
    plain: object = cast("YCell", value).to_py() if isinstance(value, Map) else value
    return cast("JsonObject", _whole_numbers(cast("object", plain))) if isinstance(plain, dict) else {}
