"""Checks before a change is made: revisions, running cells, text that must occur once, limits."""

from collections.abc import Iterable

from cellwright.core.errors import Conflict, InvalidArgument, LimitReached, NotFound
from cellwright.core.text.counting import counted
from cellwright.jupyter.model import CellHead
from cellwright.jupyter.notebooks.cells import MAX_SOURCE_BYTES
from cellwright.jupyter.notebooks.views import NOT_SHOWN
from cellwright.notebook.textdiff import difference, nearest_line

MOST_NEW_CELLS = 500
MOST_CHANGED_CELLS = 1_000
MOST_PLACES = 20_000


def check_revision(index: int, head: CellHead, expect: str, as_seen: str | None) -> None:
    """Raise if the cell is not as the caller saw it. `as_seen` is the source that they saw, if it is known."""
    if head.revision == expect:
        return
    what = (
        "came after you looked, and was not shown to you"
        if expect == NOT_SHOWN
        else f"has changed since revision {expect}"
    )
    raise Conflict(
        f"cell {head.id} (index {index}) {what}; nothing was applied",
        hint=f"Look at the difference; if your edit still fits, repeat it with expect={head.revision}",
        details={
            "cell_id": head.id,
            "index": index,
            "revision": head.revision,
            "diff": difference(as_seen, head.source),
        },
    )


def check_idle(cells: Iterable[tuple[int, CellHead]]) -> None:
    for index, head in cells:
        if head.running:
            raise Conflict(f"cell {head.id} (index {index}) is running", hint="Wait for it, or interrupt the kernel")


def check_occurrences(head: CellHead, old: str, starts: list[int], *, every: bool) -> None:
    """Raise unless the text to replace occurs, and only once if not `every` occurrence is meant. `starts`: where it occurs."""
    source = head.source
    if not old:
        raise InvalidArgument("the text to replace is empty", hint="Give the text that is there now")
    if not starts:
        near = nearest_line(old, source)
        hint = f"The nearest line is: {near}" if near else "Read the cell again; the text must match exactly"
        raise NotFound(f"the text is not in cell {head.id}; nothing was changed", hint=hint)
    if len(starts) > 1 and not every:
        lines = ", ".join(str(source.count("\n", 0, start) + 1) for start in starts[:10])
        raise InvalidArgument(
            f"the text is {counted(len(starts), 'time')} in cell {head.id} (lines {lines}); nothing was changed",
            hint="Give more of what is around it, or ask for every occurrence",
        )


def check_count(cells: int) -> None:
    """Raise if these are more new cells than one edit may insert: for each, the shared document walks through all before it."""
    if cells > MOST_NEW_CELLS:
        raise LimitReached(
            f"{cells:,} new cells at once; at most {MOST_NEW_CELLS:,} are accepted, and nothing was changed",
            hint="Insert them in portions, or write the whole notebook to a new file with import_notebook",
        )


def check_changed(cells: int) -> None:
    """Raise if one edit would change more cells than is possible without keeping other callers waiting."""
    if cells > MOST_CHANGED_CELLS:
        raise LimitReached(
            f"{cells:,} cells at once; at most {MOST_CHANGED_CELLS:,} are changed by one edit, and nothing was changed",
            hint="Give narrower ranges, one part of the notebook after the other",
        )


def check_places(places: int) -> None:
    """Raise if one edit would change a text in more places than can be changed at once."""
    if places > MOST_PLACES:
        raise LimitReached(
            f"the text to replace occurs more than {MOST_PLACES:,} times; nothing was changed",
            hint="Give the whole new text with modify_nb_cells",
        )


def check_growth(text: str, places: int, growth: int) -> None:
    """Raise if a text that grows by so many characters in so many places would be larger than a text may be."""
    size = len(text) + places * growth
    if size > max(MAX_SOURCE_BYTES, len(text)):
        raise LimitReached(
            f"the text would have {size:,} characters after this edit; at most {MAX_SOURCE_BYTES:,} are accepted, and nothing was changed",
            hint="Replace fewer places, or put less in them",
        )
