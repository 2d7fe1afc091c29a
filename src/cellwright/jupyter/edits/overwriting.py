"""Turning a shared notebook into another one, outputs included, in one step that can be undone."""

from collections.abc import Sequence

from cellwright.jupyter.edits.history import CellPlace, Inserted, Removed, Retyped, Rewritten, Step, rest_of
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.cellmetadata import TRUSTED, with_entries
from cellwright.jupyter.notebooks.cells import checked_source
from cellwright.jupyter.notebooks.guards import check_changed, check_count, check_idle
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.notebook.merging import in_order
from cellwright.notebook.textdiff import set_text

IN_FILES = ("id", "cell_type", "outputs", "execution_count", "attachments")
Pairs = Sequence[tuple[int, int]]
"""For each cell that stays, its index before and after, both ascending."""


def overwrite(view: LiveNotebook, content: JsonObject, *, author: str) -> int:
    """Give the notebook these cells and this metadata; entries that only the old metadata has stay. Returns how many cells changed.

    A cell that stays the same is not touched. Where only the text differs, only the text is changed: people may be in the cell.
    """
    new_cells: list[JsonObject] = list(content["cells"])
    for cell in new_cells:
        checked_source(str(cell["source"]))
    check_changed(view.cell_count)
    old_cells = [view.json_at(index) for index in range(view.cell_count)]
    pairs = _pairs(view, old_cells, new_cells)
    replaced = [(old, new) for old, new in pairs if _without_source(old_cells[old]) != _without_source(new_cells[new])]
    alike = sorted({*pairs}.difference(replaced))
    rewritten = [(old, new) for old, new in alike if old_cells[old].get("source") != new_cells[new]["source"]]
    removed = sorted(set(range(len(old_cells))) - {old for old, _ in pairs})
    inserted = sorted(set(range(len(new_cells))) - {new for _, new in pairs})
    check_count(len(inserted) + len(replaced))
    check_idle((index, view.head(index)) for index in [*removed, *(old for old, _ in replaced)])
    steps: list[Step] = [
        Rewritten(view.id_at(old), old_cells[old]["source"], new_cells[new]["source"]) for old, new in rewritten
    ]
    steps += [
        Retyped(view.id_at(old), old_cells[old], new_cells[new]["source"], rest_of(new_cells[new]))
        for old, new in replaced
    ]
    if removed:
        places = (CellPlace(view.id_at(index - 1) if index else None, index) for index in removed)
        steps.append(Removed(tuple(zip(places, (old_cells[index] for index in removed), strict=True))))
    if inserted:
        cells = (new_cells[index] for index in inserted)
        steps.append(Inserted(tuple((str(cell["id"]), str(cell["source"])) for cell in cells)))
    with view.doc.transaction(origin=author):
        for old, new in rewritten:
            set_text(view.text_of(old), new_cells[new]["source"])
        for old, new in replaced:
            view.put_over(old, _without_trust(new_cells[new]))
        view.remove(removed)
        for index in inserted:
            view.put(index, [_without_trust(new_cells[index])])
        for key, value in dict(content["metadata"]).items():
            if view.metadata.get(key) != value:
                view.set_metadata(key, value, author=author)
        view.keep_ids(author=author)
    view.history.add(author, "overwrite the notebook", steps)
    return len(rewritten) + len(replaced) + len(removed) + len(inserted)


def _pairs(view: LiveNotebook, old_cells: Sequence[JsonObject], new_cells: Sequence[JsonObject]) -> Pairs:
    """The cells that stay: by their ids, or where ids do not tell, the equal cells at the beginning and at the end."""
    if view.have_own_ids(range(view.cell_count)):
        new_index = {str(cell["id"]): index for index, cell in enumerate(new_cells)}
        staying = in_order(view.ids, list(new_index))
        return [
            (index, new_index[cell_id])
            for index, cell_id in enumerate(view.ids)
            if cell_id in staying and view.is_proper(index)
        ]
    head = _same(old_cells, new_cells)
    tail = _same(old_cells[head:][::-1], new_cells[head:][::-1])
    old_count, new_count = len(old_cells), len(new_cells)
    ends = zip(range(old_count - tail, old_count), range(new_count - tail, new_count), strict=True)
    return [*((index, index) for index in range(head)), *ends]


def _same(old_cells: Sequence[JsonObject], new_cells: Sequence[JsonObject]) -> int:
    """How many cells at the beginning of both are the same."""
    different = (
        index
        for index, (old, new) in enumerate(zip(old_cells, new_cells, strict=False))
        if _without_source(old) != _without_source(new) or old.get("source") != new.get("source")
    )
    return next(different, min(len(old_cells), len(new_cells)))


def _without_source(cell: JsonObject) -> JsonObject:
    """The cell as its file has it, but for the source. The shared document has more, about runs and trust."""
    in_file = {key: cell.get(key) for key in IN_FILES if cell.get(key) not in (None, [], {})}
    metadata: JsonObject = dict(cell.get("metadata") or {})
    metadata.pop(TRUSTED, None)
    return {**in_file, "metadata": metadata}


def _without_trust(cell: JsonObject) -> JsonObject:
    """The cell without its mark of trust: whoever writes a notebook's text cannot say that its outputs are to be trusted."""
    return {**cell, "metadata": with_entries(cell.get("metadata") or {}, {TRUSTED: None})}
