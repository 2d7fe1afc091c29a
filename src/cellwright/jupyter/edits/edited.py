"""What an edit did to a notebook, in a few lines: every edit answers with it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Generic, TypeVar

from cellwright.core.text.counting import counted
from cellwright.core.text.sight import pictured
from cellwright.jupyter.model import CellHead
from cellwright.jupyter.notebooks.cellindex import Replaced
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.outline import one_word
from cellwright.jupyter.notebooks.views import Order, Sight
from cellwright.notebook.shortdiff import changed_lines, short_diff

FIRST_LINE_CHARACTERS = 60

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
        then = view.sight()
        with view.replaced() as replaced:
            result = edit(view)
        now = view.sight()
        return Edited(result, short_diff(_lines(view, then.order, now.order, replaced)), then, now)

    return edit_and_compare


def _lines(view: LiveNotebook, then: Order, now: Order, replaced: Replaced) -> Iterator[str]:
    """What became of the replaced cells, and which came."""
    before = {
        number: (index, replaced.heads[number]) for number, index in then.places_of(replaced.heads.keys()).items()
    }
    after = now.places_of(before.keys())
    gone = {head.id: number for number, (_, head) in before.items() if number not in after}
    for number, index in now.places_of(replaced.came).items():
        # A cell that is moved, or gets another type, is taken away and put in again with the same id.
        after[gone.pop(now.ids[index], number)] = index
    for index, head in sorted((before[number] for number in before.keys() - after), key=itemgetter(0)):
        yield f"- {index} {_in_short(head)}"
    for number, index in sorted(after.items(), key=itemgetter(1)):
        yield from _change(*before.get(number, (None, None)), index, view.head(index))


def _change(index_before: int | None, head_before: CellHead | None, index: int, head: CellHead) -> Iterator[str]:
    if index_before is None or head_before is None:
        yield f"+ {index} {_in_short(head)}"
        return
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
