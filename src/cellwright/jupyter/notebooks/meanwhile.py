"""What others did to the order of cells since a caller saw it: an index that the caller remembers may mean another cell by now."""

from collections.abc import Sequence

from typing_extensions import TypedDict

from cellwright.jupyter.notebooks.views import Sight
from cellwright.notebook.addressing import runs_of
from cellwright.notebook.merging import certainly_in_order

MOST_PLACES = 40


class OrderNews(TypedDict, total=False):
    """Said in an answer whose view has another order than the last view of its caller, but that does not show all cells."""

    meanwhile: str


class ViewShown(OrderNews):
    view: str


def order_news(seen: Sight, before: Sight, after: Sight) -> OrderNews:
    """How `before` differs in its order from what was `seen`, with the indexes of `after`, which differs from `before` by an own edit."""
    # Files of older formats keep no ids: the same cells have others after the file was opened again.
    is_opened_again = seen.revisions == before.revisions and seen.positions.keys().isdisjoint(before.positions)
    if seen.has_order_of(before) or is_opened_again:
        return {}
    now = after.positions
    came = sorted(now[key] for key in before.positions if key not in seen.positions and key in now)
    gone = [index for index, key in enumerate(seen.keys) if key not in before.positions]
    unmoved = certainly_in_order(seen.keys, before.keys)
    moved = [
        (seen.positions[key], now[key])
        for key in before.keys
        if key in seen.positions and key in now and key not in unmoved
    ]
    places = [
        *(f"inserted {span}" for span in _spans(came)),
        *(f"deleted what was {span}" for span in _spans(gone)),
        *(f"moved {start} to {end}" for start, end in moved if start != end),
    ]
    if not places:
        return {}
    left_out = len(places) - MOST_PLACES
    rest = f"; {left_out} places more, which get_nb_stat with outline shows" if left_out > 0 else ""
    return {"meanwhile": f"others {', '.join(places[:MOST_PLACES])}{rest}. Indexes now count in the new view"}


def _spans(indexes: Sequence[int]) -> list[str]:
    return [str(start) if end == start + 1 else f"{start}-{end - 1}" for start, end in runs_of(indexes)]
