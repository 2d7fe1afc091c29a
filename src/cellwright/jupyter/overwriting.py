"""Making a shared notebook into another one, outputs and all, in one step that can be taken back."""

from collections.abc import Sequence

from cellwright.jupyter.guards import check_idle
from cellwright.jupyter.history import Inserted, Place, Removed
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebook import Notebook
from cellwright.jupyter.ycells import checked_source

IN_FILES = ("id", "cell_type", "source", "outputs", "execution_count", "attachments")


def overwrite(view: Notebook, content: JsonObject, *, author: str) -> int:
    """Make the notebook have these cells and this metadata; entries that only the old metadata has stay. How many cells changed.

    Cells that are the same at the beginning and at the end are not touched: people may be in them.
    """
    wanted: list[JsonObject] = list(content["cells"])
    for cell in wanted:
        checked_source(str(cell["source"]))
    now: list[JsonObject] = list(view.as_json()["cells"])
    head = _same(now, wanted)
    tail = _same(now[head:][::-1], wanted[head:][::-1])
    gone = range(head, len(now) - tail)
    came = wanted[head : len(wanted) - tail]
    check_idle((index, view.head(index)) for index in gone)
    removed = Removed(tuple((Place(view.id_at(index - 1) if index else None, index), now[index]) for index in gone))
    with view.doc.transaction(origin=author):
        view.remove(gone)
        view.put(head, came)
        for key, value in dict(content["metadata"]).items():
            if view.metadata.get(key) != value:
                view.set_metadata(key, value, author=author)
        view.keep_ids(author=author)
    view.history.add(author, f"overwrite {len(gone)} cells", [removed] if gone else [])
    inserted = Inserted(tuple((str(cell["id"]), str(cell["source"])) for cell in came))
    view.history.add(author, f"insert {len(came)} cells", [inserted] if came else [])
    return len(gone) + len(came)


def _same(one: Sequence[JsonObject], other: Sequence[JsonObject]) -> int:
    """How many cells at the beginning of both are the same."""
    pairs = zip(one, other, strict=False)
    different = (index for index, (left, right) in enumerate(pairs) if _kept(left) != _kept(right))
    return next(different, min(len(one), len(other)))


def _kept(cell: JsonObject) -> JsonObject:
    """What a file has of a cell; the shared document has more, about runs and trust."""
    shown = {key: value for key, value in cell.items() if key in IN_FILES}
    metadata: JsonObject = dict(cell.get("metadata") or {})
    metadata.pop("trusted", None)
    return {**shown, "metadata": metadata}
