"""Making a shared notebook into another one, outputs and all, in one step that can be taken back."""

from collections.abc import Sequence

from cellwright.jupyter.edits.history import CellPlace, Inserted, Removed, Retyped, Rewritten, Step
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.cellmetadata import TRUSTED, with_entries
from cellwright.jupyter.notebooks.cells import checked_source
from cellwright.jupyter.notebooks.guards import check_changed, check_count, check_idle
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.notebook.merging import in_order
from cellwright.notebook.textdiff import set_text

IN_FILES = ("id", "cell_type", "outputs", "execution_count", "attachments")
Pairs = Sequence[tuple[int, int]]
"""Which cell becomes which: the index before and after, both ascending."""


def overwrite(view: LiveNotebook, content: JsonObject, *, author: str) -> int:
    """Make the notebook have these cells and this metadata; entries that only the old metadata has stay. How many cells changed.

    A cell that stays the same is not touched, and of one whose text alone differs only the text: people may be in them.
    """
    wanted: list[JsonObject] = list(content["cells"])
    for cell in wanted:
        checked_source(str(cell["source"]))
    check_changed(view.cell_count)
    now = [view.json_at(index) for index in range(view.cell_count)]
    pairs = _pairs(view, now, wanted)
    replaced = [(old, new) for old, new in pairs if _beside(now[old]) != _beside(wanted[new])]
    alike = sorted({*pairs}.difference(replaced))
    rewritten = [(old, new) for old, new in alike if now[old].get("source") != wanted[new]["source"]]
    gone = sorted(set(range(len(now))) - {old for old, _ in pairs})
    came = sorted(set(range(len(wanted))) - {new for _, new in pairs})
    check_count(len(came) + len(replaced))
    check_idle((index, view.head(index)) for index in [*gone, *(old for old, _ in replaced)])
    steps: list[Step] = [
        Rewritten(view.id_at(old), now[old]["source"], wanted[new]["source"]) for old, new in rewritten
    ]
    steps += [Retyped(view.id_at(old), now[old], wanted[new]["source"]) for old, new in replaced]
    if gone:
        places = (CellPlace(view.id_at(index - 1) if index else None, index) for index in gone)
        steps.append(Removed(tuple(zip(places, (now[index] for index in gone), strict=True))))
    if came:
        steps.append(Inserted(tuple((str(wanted[index]["id"]), str(wanted[index]["source"])) for index in came)))
    with view.doc.transaction(origin=author):
        for old, new in rewritten:
            set_text(view.text_of(old), wanted[new]["source"])
        for old, new in replaced:
            view.put_over(old, _without_trust(wanted[new]))
        view.remove(gone)
        for index in came:
            view.put(index, [_without_trust(wanted[index])])
        for key, value in dict(content["metadata"]).items():
            if view.metadata.get(key) != value:
                view.set_metadata(key, value, author=author)
        view.keep_ids(author=author)
    view.history.add(author, "overwrite the notebook", steps)
    return len(rewritten) + len(replaced) + len(gone) + len(came)


def _pairs(view: LiveNotebook, now: Sequence[JsonObject], wanted: Sequence[JsonObject]) -> Pairs:
    """The cells that stay: by their ids, or where ids do not tell, those at the beginning and at the end that are the same."""
    if view.have_own_ids(range(view.cell_count)):
        index = {str(cell["id"]): place for place, cell in enumerate(wanted)}
        stay = in_order(view.ids, list(index))
        return [
            (old, index[cell_id]) for old, cell_id in enumerate(view.ids) if cell_id in stay and view.is_proper(old)
        ]
    head = _same(now, wanted)
    tail = _same(now[head:][::-1], wanted[head:][::-1])
    ends = zip(range(len(now) - tail, len(now)), range(len(wanted) - tail, len(wanted)), strict=True)
    return [*((place, place) for place in range(head)), *ends]


def _same(one: Sequence[JsonObject], other: Sequence[JsonObject]) -> int:
    """How many cells at the beginning of both are the same."""
    pairs = zip(one, other, strict=False)
    different = (
        index
        for index, (left, right) in enumerate(pairs)
        if _beside(left) != _beside(right) or left.get("source") != right.get("source")
    )
    return next(different, min(len(one), len(other)))


def _beside(cell: JsonObject) -> JsonObject:
    """What a file has of a cell beside its text; the shared document has more, about runs and trust."""
    shown = {key: cell.get(key) for key in IN_FILES if cell.get(key) not in (None, [], {})}
    metadata: JsonObject = dict(cell.get("metadata") or {})
    metadata.pop(TRUSTED, None)
    return {**shown, "metadata": metadata}


def _without_trust(cell: JsonObject) -> JsonObject:
    """Whoever writes a notebook's text cannot say that its outputs are to be trusted."""
    return {**cell, "metadata": with_entries(cell.get("metadata") or {}, {TRUSTED: None})}
