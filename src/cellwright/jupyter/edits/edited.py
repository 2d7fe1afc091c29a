"""What an edit did to a notebook, in a few lines: every edit answers with it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from cellwright.core.text.counting import counted
from cellwright.core.text.sight import pictured
from cellwright.jupyter.model import CellHead
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.outline import one_word
from cellwright.jupyter.notebooks.views import Sight
from cellwright.notebook.shortdiff import changed_lines, short_diff

FIRST_LINE_CHARACTERS = 60
FEW = 8

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Edited(Generic[T]):
    """What an edit returned, what it changed, and the notebook right before and right after it: nobody else's change is between them."""

    result: T
    diff: str
    before: Sight
    after: Sight


def compared(edit: Callable[[LiveNotebook], T]) -> Callable[[LiveNotebook], Edited[T]]:
    """The edit, which then also says what it changed."""

    def edit_and_compare(view: LiveNotebook) -> Edited[T]:
        touched: set[str] = set()
        stop = view.on_change(lambda change: touched.update(change.cells))
        then = view.sight()
        try:
            with view.replaced() as replaced:
                result = edit(view)
        finally:
            stop()
        now = view.sight()
        places = _places(now, touched)
        places_then = places if now.order is then.order else _places(then, touched)
        before = {cell_id: (index, replaced[cell_id]) for cell_id, index in places_then if cell_id in replaced}
        after = {cell_id: (index, view.head(index)) for cell_id, index in places}
        return Edited(result, short_diff(_lines(before, after)), then, now)

    return edit_and_compare


def _places(sight: Sight, touched: set[str]) -> list[tuple[str, int]]:
    """The touched cells that are among these, with their indexes, in order."""
    if len(touched) > FEW:
        return [(cell_id, index) for index, cell_id in enumerate(sight.ids) if cell_id in touched]
    places: list[tuple[str, int]] = []
    for cell_id in touched:
        if cell_id in sight.positions:
            places.append((cell_id, sight.positions[cell_id]))
        elif cell_id in sight.ids:
            # Several cells have this id.
            places.append((cell_id, sight.ids.index(cell_id)))
    return sorted(places, key=lambda place: place[1])


def _lines(before: dict[str, tuple[int, CellHead]], after: dict[str, tuple[int, CellHead]]) -> Iterator[str]:
    for cell_id, (index, head) in before.items():
        if cell_id not in after:
            yield f"- {index} {_in_short(head)}"
    for cell_id, (index, head) in after.items():
        index_before, head_before = before.get(cell_id, (None, None))
        if index_before is None or head_before is None:
            yield f"+ {index} {_in_short(head)}"
            continue
        if head.cell_type != head_before.cell_type:
            yield f"{index} {one_word(head.id)} {one_word(head_before.cell_type)} → {one_word(head.cell_type)}"
        if head.source != head_before.source:
            yield f"{index} {one_word(head.id)}"
            yield from changed_lines(head_before.source, head.source)
        elif index != index_before:
            yield f"{index_before} → {index} {_in_short(head)}"


def _in_short(head: CellHead) -> str:
    lines = pictured(head.source[: 10 * FIRST_LINE_CHARACTERS]).strip().splitlines() or [""]
    first = lines[0] if len(lines[0]) <= FIRST_LINE_CHARACTERS else lines[0][: FIRST_LINE_CHARACTERS - 1] + "…"
    more = head.source.strip().count("\n")
    return f"{one_word(head.id)} {one_word(head.cell_type)} | {first}" + (
        f" (+{counted(more, 'line')})" if more else ""
    )
