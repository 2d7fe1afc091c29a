"""What differs between two sequences, in a time that is bounded whatever they hold.

Lines that stand once on each side hold the two together, as a reader would hold them; between those the shortest way from one to the other
is looked for, step by step, until the work that is allowed is used up. What is left then counts as replaced as a whole.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

WORK = 150_000
"""Steps for one comparison: some tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class ReplacedItems:
    """Items `start` to `end` of the one sequence are items `new_start` to `new_end` of the other."""

    start: int
    end: int
    new_start: int
    new_end: int


@dataclass(slots=True)
class _Work:
    left: int


def replaced(before: Sequence[Hashable], after: Sequence[Hashable], work: int = WORK) -> list[ReplacedItems]:
    """Where the two differ, in ascending order, not touching each other."""
    numbers: dict[Hashable, int] = {}
    # Numbers compare in one step, lines do not.
    a = [numbers.setdefault(item, len(numbers)) for item in before]
    b = [numbers.setdefault(item, len(numbers)) for item in after]
    left = _Work(work)
    found: list[ReplacedItems] = []
    start = new_start = 0
    for anchor, new_anchor in [*_anchors(a, b), (len(a), len(b))]:
        for one in _between(a, b, ReplacedItems(start, anchor, new_start, new_anchor), left):
            _append(found, one)
        start, new_start = anchor, new_anchor
    return found


def unified(
    before: Sequence[str], after: Sequence[str], context: int = 2, names: tuple[str, str] | None = None
) -> list[str]:
    """The difference of two texts' lines as people know it: what goes with -, what comes with +, and lines around."""
    lines = [f"--- {names[0]}", f"+++ {names[1]}"] if names else []
    regions = replaced(before, after)
    for hunk in _hunks(regions, context):
        first, last = hunk[0], hunk[-1]
        start, end = max(first.start - context, 0), min(last.end + context, len(before))
        new_start = first.new_start - (first.start - start)
        new_end = last.new_end + (end - last.end)
        lines.append(f"@@ -{_span(start, end)} +{_span(new_start, new_end)} @@")
        at = start
        for region in hunk:
            lines += [f" {line}" for line in before[at : region.start]]
            lines += [f"-{line}" for line in before[region.start : region.end]]
            lines += [f"+{line}" for line in after[region.new_start : region.new_end]]
            at = region.end
        lines += [f" {line}" for line in before[at:end]]
    return lines if regions else []


def _hunks(regions: Sequence[ReplacedItems], context: int) -> Iterator[list[ReplacedItems]]:
    hunk: list[ReplacedItems] = []
    for region in regions:
        if hunk and region.start - hunk[-1].end > 2 * context:
            yield hunk
            hunk = []
        hunk.append(region)
    if hunk:
        yield hunk


def _span(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _append(found: list[ReplacedItems], one: ReplacedItems) -> None:
    """Regions that touch are one."""
    last = found[-1] if found else None
    if last is not None and last.end == one.start and last.new_end == one.new_start:
        found[-1] = ReplacedItems(last.start, one.end, last.new_start, one.new_end)
    else:
        found.append(one)


def _anchors(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Places of items that stand once in each, as many as keep their order."""
    once_in_a = {item for item, count in Counter(a).items() if count == 1}
    once_in_b = {item for item, count in Counter(b).items() if count == 1}
    place_in_b = {item: place for place, item in enumerate(b) if item in once_in_b}
    pairs = [(place, place_in_b[item]) for place, item in enumerate(a) if item in once_in_a and item in place_in_b]
    # The longest run of pairs whose second places ascend.
    lowest: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect_left(lowest, place)
        previous.append(ends[at - 1] if at else -1)
        if at == len(lowest):
            lowest.append(place)
            ends.append(number)
        else:
            lowest[at], ends[at] = place, number
    chosen: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chosen.append(pairs[at])
        at = previous[at]
    return chosen[::-1]


def _between(a: Sequence[int], b: Sequence[int], region: ReplacedItems, work: _Work) -> Iterator[ReplacedItems]:
    start, end, new_start, new_end = region.start, region.end, region.new_start, region.new_end
    while start < end and new_start < new_end and a[start] == b[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and a[end - 1] == b[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    if start == end and new_start == new_end:
        return
    steps = _shortest(a[start:end], b[new_start:new_end], work) if start < end and new_start < new_end else None
    if steps is None:
        yield ReplacedItems(start, end, new_start, new_end)
        return
    x = y = 0
    for match_x, match_y, length in [*steps, (end - start, new_end - new_start, 0)]:
        if match_x > x or match_y > y:
            yield ReplacedItems(start + x, start + match_x, new_start + y, new_start + match_y)
        x, y = match_x + length, match_y + length


def _shortest(a: Sequence[int], b: Sequence[int], work: _Work) -> list[tuple[int, int, int]] | None:
    """What the two have in common on the shortest way from one to the other: places and lengths. None if the work ran out."""
    farthest = {1: 0}
    history: list[dict[int, int]] = []
    for distance in range(len(a) + len(b) + 1):
        history.append(dict(farthest))
        work.left -= 2 * distance + 1
        if work.left < 0:
            return None
        for diagonal in range(-distance, distance + 1, 2):
            x = _step(farthest, diagonal, distance)
            begun = x
            while x < len(a) and x - diagonal < len(b) and a[x] == b[x - diagonal]:
                x += 1
            work.left -= x - begun
            farthest[diagonal] = x
            if x >= len(a) and x - diagonal >= len(b):
                return _way_back(history, len(a), len(b))
    raise AssertionError("the end is always reached")


def _step(farthest: dict[int, int], diagonal: int, distance: int) -> int:
    """Where a way on this diagonal begins: one item deleted, or one inserted, whichever leads farther."""
    inserts = diagonal == -distance or (diagonal != distance and farthest[diagonal - 1] < farthest[diagonal + 1])
    return farthest[diagonal + 1] if inserts else farthest[diagonal - 1] + 1


def _way_back(history: Sequence[dict[int, int]], x: int, y: int) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for distance in range(len(history) - 1, -1, -1):
        farthest, diagonal = history[distance], x - y
        begun = _step(farthest, diagonal, distance) if distance else 0
        if x > begun:
            found.append((begun, begun - diagonal, x - begun))
        if not distance:
            break
        inserts = diagonal == -distance or (diagonal != distance and farthest[diagonal - 1] < farthest[diagonal + 1])
        x, y = (begun, begun - diagonal - 1) if inserts else (begun - 1, begun - diagonal)
    return found[::-1]
