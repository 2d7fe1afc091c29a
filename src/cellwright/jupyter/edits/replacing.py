"""Replacing literal text in cells: in one, or wherever it is in the notebook."""

from collections.abc import Sequence
from dataclasses import dataclass

from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.text.counting import counted
from cellwright.jupyter.edits.history import Rewritten
from cellwright.jupyter.notebooks.cells import checked_source
from cellwright.jupyter.notebooks.notebook import LiveNotebook, replacements
from cellwright.notebook.addressing import CellRange
from cellwright.notebook.textdiff import apply, changed_text

NAMED = 6


@dataclass(frozen=True, slots=True)
class ReplacedText:
    """A cell whose text was replaced, before and after, and how often."""

    index: int
    before: str
    after: str
    count: int


def replace_in_cell(
    view: LiveNotebook, cell: CellRange, old: str, new: str, *, every: bool, expect: str | None, author: str
) -> list[ReplacedText]:
    """Replace text in one cell; it must occur there once, unless `every`."""
    index = view.resolve([cell])[0]
    before = view.head(index).source
    count = view.edit(cell, old, new, every=every, expect=expect, author=author)
    return [ReplacedText(index, before, view.head(index).source, count)]


def replace_in_all(view: LiveNotebook, old: str, new: str, *, every: bool, author: str) -> list[ReplacedText]:
    """Replace text in whichever cells have it, as one edit; it must occur once in the notebook, unless `every`."""
    checked_source(new)
    planned = [
        (index, view.head(index).source, made)
        for index in range(view.cell_count)
        if view.is_proper(index) and (made := replacements(view.head(index).source, old, new))
    ]
    changed = [ReplacedText(index, source, changed_text(source, made), len(made)) for index, source, made in planned]
    _check(view, old, changed, every=every)
    with view.doc.transaction(origin=author):
        for index, source, made in planned:
            apply(view.text_of(index), source, made)
    steps = [Rewritten(view.id_at(one.index), one.before, one.after) for one in changed]
    view.history.add(author, f"replace text in {counted(len(steps), 'cell')}", steps)
    view.note_touched([view.id_at(one.index) for one in changed])
    return changed


def _check(view: LiveNotebook, old: str, changed: Sequence[ReplacedText], *, every: bool) -> None:
    """Raise unless the text is there, and once, or every occurrence is meant."""
    if not old:
        raise InvalidArgument("the text to replace is empty", hint="Give the text that is there now")
    if not changed:
        raise NotFound(
            "the text is in no cell; nothing was changed", hint="search_nbs finds text; it must match exactly"
        )
    total = sum(one.count for one in changed)
    if total > 1 and not every:
        where = ", ".join(f"{view.id_at(one.index)} (index {one.index})" for one in changed[:NAMED])
        more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
        raise InvalidArgument(
            f"the text is {total} times in {counted(len(changed), 'cell')}: {where}{more}; nothing was changed",
            hint="name the cell, or give replace_all",
        )
