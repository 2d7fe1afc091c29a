"""Cells as the shared document keeps them, and as JSON.

Anybody in a room can put anything in the place of a cell, or of a part of one. Such an entry is read as a raw cell that says what
it is; the cells around it are not affected.
"""

import json
import math
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

from pycrdt import Array, Assoc, Map, StickyIndex, Text

from cellwright.core.errors import InvalidArgument, LimitReached
from cellwright.jupyter.model import CellHead, JsonObject, LiveCell, NewCell
from cellwright.notebook.model import Kind, count_of, joined, revision_of
from cellwright.notebook.outputs import read_output

MAX_SOURCE_BYTES = 10_000_000
LAST_OUTPUTS = 4
"""An error ends a run: it is among the last outputs, if there is one."""
MAX_ID_CHARACTERS = 200
MAX_DEPTH = 100
LARGE_PARTS = ("outputs", "metadata", "attachments")
TOO_DEEP = "(nested too deeply to be read)"
NOT_JSON = "(no JSON)"

YCell = Map[Any]


@dataclass(frozen=True, slots=True)
class UnreadableCell(CellHead):
    """An entry of the cells that is no cell, as far as it can be shown."""

    note: str = ""


def checked_source(source: str) -> str:
    """The text, if it is valid Unicode and not too large."""
    try:
        size = len(source.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "the text holds half of a surrogate pair, which is not valid Unicode", hint="send the text as plain UTF-8"
        ) from error
    if size > MAX_SOURCE_BYTES:
        raise LimitReached(
            f"a cell or edit of {size} bytes; at most {MAX_SOURCE_BYTES} are accepted",
            hint="split it into smaller cells",
        )
    return source


def new_id(taken_ids: Collection[str]) -> str:
    """An id that no cell has."""
    cell_id = uuid.uuid4().hex[:8]
    while cell_id in taken_ids:
        cell_id = uuid.uuid4().hex[:8]
    return cell_id


def new_cell_json(cell: NewCell, taken_ids: Collection[str]) -> JsonObject:
    """A new cell as JSON, with an id that is not in `taken_ids`."""
    cell_json: JsonObject = {
        "id": new_id(taken_ids),
        "cell_type": cell.cell_type.value,
        "source": checked_source(cell.source),
    }
    if cell.cell_type is Kind.CODE:
        # Trusted like JupyterLab's own new cells, because it has no outputs of somebody else yet.
        return cell_json | {"metadata": {"trusted": True}, "outputs": [], "execution_count": None}
    return cell_json | {"metadata": {}}


def to_ycell(cell: object) -> YCell:
    """A cell's JSON as the shared types that JupyterLab makes, so that it can follow every later change."""
    cell_json = cast("JsonObject", cell) if isinstance(cell, dict) else _raw_cell(cell)
    parts: JsonObject = {
        **cell_json,
        "source": Text(joined(cell_json.get("source"))),
        "metadata": Map(_dict(cell_json, "metadata")),
    }
    if not parts.get("id") or not isinstance(parts["id"], str):
        parts["id"] = uuid.uuid4().hex[:8]
    if not isinstance(parts.get("cell_type"), str):
        parts["cell_type"] = Kind.RAW.value
    if parts["cell_type"] == Kind.CODE:
        outputs: object = cell_json.get("outputs")
        output_list = cast("list[object]", outputs) if isinstance(outputs, list) else []
        parts["outputs"] = Array(
            [to_youtput(cast("JsonObject", output)) for output in output_list if isinstance(output, dict)]
        )
        parts.setdefault("execution_count", None)
        parts["execution_state"] = "idle"
    elif not parts.get("attachments"):
        parts.pop("attachments", None)
    return Map(parts)


def _dict(cell: JsonObject, key: str) -> JsonObject:
    value: object = cell.get(key)
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _raw_cell(value: object) -> JsonObject:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"cell_type": Kind.RAW.value, "source": text, "metadata": {}}


def to_youtput(output: JsonObject) -> YCell:
    if output.get("output_type") == "stream":
        return Map({**output, "text": Text(joined(output.get("text")))})
    return Map(dict(output))


def to_json(shared: object) -> JsonObject:
    """A cell as in files: with whole numbers as such, and without what only the shared document has.

    An entry that is no cell becomes a raw cell with the entry as its text.
    """
    return as_cell(shared, to_plain(shared))


def as_cell(shared: object, plain: object) -> JsonObject:
    """The same for an entry that was converted to plain JSON already."""
    if not isinstance(shared, Map) or not isinstance(plain, dict):
        return _raw_cell(plain)
    cell = cast("JsonObject", plain)
    cell.pop("execution_state", None)
    return cell


def to_plain(value: object, depth: int = 0) -> object:
    """A part of the document as JSON; what no JSON can hold, and what nobody nests so deeply, is named in its place.

    Shared documents keep numbers as floats, where files have 1 and not 1.0.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else value
    if isinstance(value, float | Text):
        return str(value)
    return TOO_DEEP if depth >= MAX_DEPTH else _plain_container(value, depth + 1)


def _plain_container(value: object, depth: int) -> object:
    if isinstance(value, dict | Map):
        return {key: to_plain(item, depth) for key, item in cast("JsonObject", value).items()}
    if isinstance(value, list | Array):
        return [to_plain(item, depth) for item in cast("list[object]", value)]
    return NOT_JSON


def id_of(shared: object) -> str:
    """The cell's id; "" if it has none that could name it."""
    if not isinstance(shared, Map):
        return ""
    try:
        # Not `get`, which takes twice as long, and all ids of a notebook are read at once.
        cell_id: object = cast("YCell", shared)["id"]
    except KeyError:
        return ""
    return cell_id if isinstance(cell_id, str) and len(cell_id) <= MAX_ID_CHARACTERS else ""


def head_of(shared: object) -> CellHead:
    """The cell without its outputs' contents."""
    if not isinstance(shared, Map):
        return _unreadable(shared, "", "not a cell")
    ycell = cast("YCell", shared)
    cell_type: object = ycell.get("cell_type")
    if fault := _fault(ycell, cell_type):
        return _unreadable(ycell, id_of(ycell), fault)
    source = joined_text(ycell.get("source"))
    outputs = _outputs(ycell)
    count = len(outputs) if outputs is not None else 0
    last = range(max(0, count - LAST_OUTPUTS), count)
    return CellHead(
        id=id_of(ycell),
        cell_type=str(cell_type),
        source=source,
        revision=revision_of(source),
        execution_count=count_of(to_plain(ycell.get("execution_count"))),
        running=ycell.get("execution_state") == "running",
        output_count=count,
        failed=outputs is not None and any(_output_type(outputs[index]) == "error" for index in last),
    )


def _fault(ycell: YCell, cell_type: object) -> str:
    """Why this is not a cell; "" if it is one."""
    if not isinstance(cell_type, str) or not cell_type:
        return "a cell without a type"
    if not isinstance(ycell.get("source"), Text | str | None):
        return "a cell whose source is no text"
    if cell_type == Kind.CODE and "outputs" in ycell and _outputs(ycell) is None:
        return "a cell whose outputs are no list"
    return ""


def _unreadable(shared: object, cell_id: str, fault: str) -> UnreadableCell:
    source = joined(to_json(shared).get("source"))
    note = f"somebody put {fault} into the shared document; it can be deleted, and moving it makes it a raw cell"
    return UnreadableCell(cell_id, Kind.RAW.value, source, revision_of(source), note=note)


def _outputs(ycell: YCell) -> Array[Any] | None:
    outputs = ycell.get("outputs")
    return cast("Array[Any]", outputs) if isinstance(outputs, Array) else None


def text_name(shared: object) -> tuple[int, int] | None:
    """The name of a cell's text in the shared document: the client that made it, and the number of that change."""
    source = cast("YCell", shared).get("source") if isinstance(shared, Map) else None
    if not isinstance(source, Text):
        return None
    # The position before everything in a text has no neighbour, so it names the text itself.
    position = cast("JsonObject", StickyIndex.new(source, 0, Assoc.BEFORE).to_json())  # pyright: ignore[reportUnknownMemberType]
    name: object = position.get("type")
    return name_of(name)


def name_of(candidate: object) -> tuple[int, int] | None:
    """The name of a shared type, if this is one."""
    if not isinstance(candidate, dict):
        return None
    client, clock = (to_plain(cast("JsonObject", candidate).get(key)) for key in ("client", "clock"))
    return (client, clock) if isinstance(client, int) and isinstance(clock, int) else None


def joined_text(value: object) -> str:
    return str(value) if isinstance(value, Text) else joined(value)


def _output_type(output: object) -> str:
    if isinstance(output, Map):
        return str(cast("YCell", output).get("output_type", ""))
    return str(cast("JsonObject", output).get("output_type", "")) if isinstance(output, dict) else ""


def cell_of(shared: object, index: int, head: CellHead) -> LiveCell:
    """The whole cell."""
    if isinstance(head, UnreadableCell):
        return LiveCell(index, head)
    ycell = cast("YCell", shared)
    return cell_from({key: to_plain(ycell.get(key)) for key in LARGE_PARTS}, index, head)


def cell_from(parts: JsonObject, index: int, head: CellHead) -> LiveCell:
    """The whole cell, from parts that are plain JSON already."""
    if isinstance(head, UnreadableCell):
        return LiveCell(index, head)
    outputs = cast("list[object]", parts["outputs"]) if isinstance(parts["outputs"], list) else []
    return LiveCell(
        index=index,
        head=head,
        outputs=tuple(read_output(cast("JsonObject", output)) for output in outputs if isinstance(output, dict)),
        metadata=_dict(parts, "metadata"),
        attachments=_dict(parts, "attachments"),
    )
