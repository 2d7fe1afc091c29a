"""Making a shared notebook into another version of itself, by the least that says what is meant, so that it can be taken back."""

from collections.abc import Sequence

from cellwright.core.errors import InvalidArgument
from cellwright.jupyter.guards import check_idle
from cellwright.jupyter.history import Inserted, Moved, Place, Removed, Retyped, Rewritten, Step
from cellwright.jupyter.model import CellType, JsonObject, NewCell
from cellwright.jupyter.notebook import Notebook
from cellwright.jupyter.textdiff import set_text
from cellwright.jupyter.threeway import CellChange, Plain, PlainCell, compare
from cellwright.jupyter.ycells import new_cell_json, to_json


def plain(view: Notebook) -> Plain:
    """The cells as proposals know them."""
    if not view.have_own_ids(range(view.cell_count)):
        raise InvalidArgument(
            f"cells of {view.name} have no id or share one, so a proposal cannot tell them apart; nothing was done",
            hint="Edit the notebook itself, without propose; running such a cell gives it an id of its own",
        )
    return tuple(PlainCell(head.id, head.cell_type, head.source) for head in view.outline())


def check_recastable(view: Notebook, changes: Sequence[CellChange]) -> None:
    """Raise if one of these changes would take a cell from under its run, or change what is no text."""
    for change in changes:
        if change.index is None:
            continue
        if change.kinds != ("changed",):
            check_idle([(change.index, view.head(change.index))])
        if "changed" in change.kinds:
            view.text_of(change.index)


def recast(view: Notebook, wanted: Plain, *, author: str, what: str) -> list[CellChange]:
    """Make the notebook have these cells, each with the outputs and metadata it has here. What was done, which undo knows."""
    changes = compare(plain(view), wanted)
    if not changes:
        return changes
    groups = _steps(view, changes)
    with view.doc.transaction(origin=author):
        for change in changes:
            if change.after is not None and change.index is not None and change.before != change.after:
                set_text(view.text_of(change.index), change.after.source)
        lifted = {change.id: _lifted(view, change) for change in changes if change.kinds != ("changed",)}
        view.remove(sorted(change.index for change in changes if change.id in lifted and change.index is not None))
        for index, cell in enumerate(wanted):
            if cell.id in lifted:
                view.put(index, [lifted[cell.id]])
    for steps in groups:
        view.history.add(author, what, steps)
    return changes


def _lifted(view: Notebook, change: CellChange) -> JsonObject:
    """A cell that is put where it was not, as JSON."""
    if change.index is None and change.after is not None:
        known = change.after.cell_type in list(CellType)
        made = NewCell(change.after.source, CellType(change.after.cell_type) if known else CellType.RAW)
        return {**new_cell_json(made, ()), "id": change.id}
    cell = to_json(view.shared_at(change.index or 0))
    if "retyped" not in change.kinds or change.after is None:
        return cell
    kept = {key: cell[key] for key in ("id", "metadata") if key in cell}
    return {**kept, "cell_type": change.after.cell_type, "source": change.after.source}


def _steps(view: Notebook, changes: Sequence[CellChange]) -> list[list[Step]]:
    """For undo: what went, what changed, what moved, what came, each to be taken back by itself and from the last on."""
    ids = view.ids
    removed: list[tuple[Place, JsonObject]] = []
    texts: list[Step] = []
    moved: list[tuple[str, Place]] = []
    for change in changes:
        if change.index is None or change.before is None:
            continue
        place = Place(ids[change.index - 1] if change.index else None, change.index)
        if change.after is None:
            removed.append((place, to_json(view.shared_at(change.index))))
            continue
        if "retyped" in change.kinds:
            texts.append(Retyped(change.id, to_json(view.shared_at(change.index)), change.after.source))
        elif "changed" in change.kinds:
            texts.append(Rewritten(change.id, change.before.source, change.after.source))
        if change.moved:
            moved.append((change.id, place))
    came = tuple((change.id, change.after.source) for change in changes if change.after and change.before is None)
    moved.sort(key=lambda one: one[1].index)
    return [
        [Removed(tuple(removed))] if removed else [],
        texts,
        [Moved(tuple(moved))] if moved else [],
        [Inserted(came)] if came else [],
    ]
