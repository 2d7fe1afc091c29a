"""What is looked at before a change is made: revisions, running cells, text that must occur once."""

import difflib
from collections.abc import Iterable

from cellwright.core.errors import Conflict, InvalidArgument, NotFound
from cellwright.jupyter.model import CellHead
from cellwright.jupyter.textdiff import difference


def check_revision(index: int, head: CellHead, expect: str, as_seen: str | None) -> None:
    """Raise if the cell is not as the caller saw it; `as_seen` is what they saw, if that is known."""
    if head.revision == expect:
        return
    raise Conflict(
        f"cell {head.id} (index {index}) has changed since revision {expect}; nothing was applied",
        hint=f"Look at the change; if your edit still fits, repeat it with expect={head.revision}",
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


def check_found(head: CellHead, old: str, found: list[int], *, every: bool) -> None:
    """Raise unless the text to replace is there, and once, or every occurrence is meant."""
    source = head.source
    if not old:
        raise InvalidArgument("the text to replace is empty", hint="Give the text that is there now")
    if not found:
        near = difflib.get_close_matches(old.strip(), source.splitlines()[:2000], n=1, cutoff=0.4)
        hint = f"The nearest line is: {near[0]}" if near else "Read the cell again; the text must match exactly"
        raise NotFound(f"the text is not in cell {head.id}; nothing was changed", hint=hint)
    if len(found) > 1 and not every:
        lines = ", ".join(str(source.count("\n", 0, start) + 1) for start in found[:10])
        raise InvalidArgument(
            f"the text is {len(found)} times in cell {head.id} (lines {lines}); nothing was changed",
            hint="Give more of what is around it, or ask for every occurrence",
        )
