"""Replacing literal text in one cell, or wherever it is in the notebook."""

from collections.abc import Sequence
from dataclasses import dataclass

from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.text.counting import counted
from cellwright.jupyter.edits.finding import replacements
from cellwright.jupyter.edits.history import Rewritten
from cellwright.jupyter.notebooks.cells import checked_source
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.notebook.addressing import at
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
    view: LiveNotebook,
    index: int,
    old: str,
    new: str,
    *,
    every: bool,
    expect: str | None,
    seen: str | None,
    author: str,
) -> list[ReplacedText]:
    """Replace text in one cell; it must occur there once, unless `every`."""
    before = view.head(index).source
    count = view.edit(at(index), old, new, every=every, expect=expect, seen=seen, author=author)
    return [ReplacedText(index, before, view.head(index).source, count)]


def replace_in_all(view: LiveNotebook, old: str, new: str, *, every: bool, author: str) -> list[ReplacedText]:
    """Replace text in whichever cells have it, as one edit; it must occur once in the notebook, unless `every`."""
    checked_source(new)
    planned = [
        (index, view.head(index).source, changes)
        for index in range(view.cell_count)
        if view.is_proper(index) and (changes := replacements(view.head(index).source, old, new))
    ]
    replaced = [
        ReplacedText(index, source, changed_text(source, changes), len(changes)) for index, source, changes in planned
    ]
    _check(view, old, replaced, every=every)
    view.own_ids([cell.index for cell in replaced], author=author)
    with view.doc.transaction(origin=author):
        for index, source, changes in planned:
            apply(view.text_of(index), source, changes)
    steps = [Rewritten(view.id_at(cell.index), cell.before, cell.after) for cell in replaced]
    view.history.add(author, f"replace text in {counted(len(steps), 'cell')}", steps)
    view.note_touched([view.id_at(cell.index) for cell in replaced])
    return replaced


def _check(view: LiveNotebook, old: str, replaced: Sequence[ReplacedText], *, every: bool) -> None:
    """Raise unless the text occurs, and only once unless `every`."""
    if not old:
        raise InvalidArgument("the text to replace is empty", hint="Give the text that is there now")
    if not replaced:
        raise NotFound(
            "the text is in no cell; nothing was changed", hint="search_nbs finds text; it must match exactly"
        )
    total = sum(cell.count for cell in replaced)
    if total > 1 and not every:
        named = ", ".join(f"{view.id_at(cell.index)} (index {cell.index})" for cell in replaced[:NAMED])
        more = f" and {len(replaced) - NAMED} more" if len(replaced) > NAMED else ""
        raise InvalidArgument(
            f"the text is {total} times in {counted(len(replaced), 'cell')}: {named}{more}; nothing was changed",
            hint="name the cell, or give replace_all",
        )
