"""What differs between two sequences, in a time that is bounded whatever they contain.

Lines that occur once on each side are matched first, as a reader would match them. Between those the shortest way from one sequence to the
other is searched for, step by step, until the allowed work is used up. The rest then counts as replaced as a whole.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

WORK = 150_000
"""Steps for one comparison: some tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class ReplacedItems:
    """Items `start` to `end` of the first sequence became items `new_start` to `new_end` of the second."""

    start: int
    end: int
    new_start: int
    new_end: int


@dataclass(slots=True)
class _Budget:
    steps: int


def replaced(before: Sequence[Hashable], after: Sequence[Hashable], work: int = WORK) -> list[ReplacedItems]:
    """The regions in which the two differ, in ascending order. No two regions touch."""
    numbers: dict[Hashable, int] = {}
    # Numbers are compared in one step, lines are not.
    a = [numbers.setdefault(item, len(numbers)) for item in before]
    b = [numbers.setdefault(item, len(numbers)) for item in after]
    budget = _Budget(work)
    regions: list[ReplacedItems] = []
    start = new_start = 0
    for anchor, new_anchor in [*_anchors(a, b), (len(a), len(b))]:
        for region in _between(a, b, ReplacedItems(start, anchor, new_start, new_anchor), budget):
            last = regions[-1] if regions else None
            if last is not None and last.end == region.start and last.new_end == region.new_start:
                # Regions that touch become one.
                regions[-1] = ReplacedItems(last.start, region.end, last.new_start, region.new_end)
            else:
                regions.append(region)
        start, new_start = anchor, new_anchor
    return regions


def unified(
    before: Sequence[str], after: Sequence[str], context: int = 2, names: tuple[str, str] | None = None
) -> list[str]:
    """The unified diff of two texts by lines: removed lines with -, added lines with +, and lines of context around them."""
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


def _anchors(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """The positions of items that occur once in each sequence: as many as have the same order in both."""
    once_in_a = {item for item, count in Counter(a).items() if count == 1}
    once_in_b = {item for item, count in Counter(b).items() if count == 1}
    position_in_b = {item: position for position, item in enumerate(b) if item in once_in_b}
    pairs = [
        (position, position_in_b[item])
        for position, item in enumerate(a)
        if item in once_in_a and item in position_in_b
    ]
    return [pairs[index] for index in longest_ascending([position for _, position in pairs])]


def longest_ascending(numbers: Sequence[int]) -> list[int]:
    """The indexes of as many of these numbers as ascend."""
    lowest_ends: list[int] = []  # the lowest number with which an ascending series of each length ends
    last_indexes: list[int] = []  # the index of that number
    previous: list[int] = []  # for each number, the index of the one before it in its series; -1 if it is the first
    for index, number in enumerate(numbers):
        length = bisect_left(lowest_ends, number)
        previous.append(last_indexes[length - 1] if length else -1)
        if length == len(lowest_ends):
            lowest_ends.append(number)
            last_indexes.append(index)
        else:
            lowest_ends[length], last_indexes[length] = number, index
    series: list[int] = []
    index = last_indexes[-1] if last_indexes else -1
    while index >= 0:
        series.append(index)
        index = previous[index]
    return series[::-1]


def in_all_longest_ascending(numbers: Sequence[int]) -> list[int]:
    """The indexes of the numbers that are in every series of as many as ascend: those that did not move, however one sees it."""
    up_to = _longest_ending(numbers)
    down_to = _longest_ending([-number for number in reversed(numbers)])[::-1]
    longest = max(up_to, default=0)
    members = [index for index in range(len(numbers)) if up_to[index] + down_to[index] > longest]
    at_place = Counter(up_to[index] for index in members)
    return [index for index in members if at_place[up_to[index]] == 1]


def _longest_ending(numbers: Sequence[int]) -> list[int]:
    """For each number, the length of the longest ascending series that ends with it."""
    lowest_ends: list[int] = []
    lengths: list[int] = []
    for number in numbers:
        length = bisect_left(lowest_ends, number)
        lowest_ends[length : length + 1] = [number]
        lengths.append(length + 1)
    return lengths


def _between(a: Sequence[int], b: Sequence[int], region: ReplacedItems, budget: _Budget) -> Iterator[ReplacedItems]:
    """The differences inside of a region."""
    start, end, new_start, new_end = region.start, region.end, region.new_start, region.new_end
    while start < end and new_start < new_end and a[start] == b[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and a[end - 1] == b[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    if start == end and new_start == new_end:
        return
    matches = _shortest(a[start:end], b[new_start:new_end], budget) if start < end and new_start < new_end else None
    if matches is None:
        yield ReplacedItems(start, end, new_start, new_end)
        return
    x = y = 0
    for match_x, match_y, length in [*matches, (end - start, new_end - new_start, 0)]:
        if match_x > x or match_y > y:
            yield ReplacedItems(start + x, start + match_x, new_start + y, new_start + match_y)
        x, y = match_x + length, match_y + length


def _shortest(a: Sequence[int], b: Sequence[int], budget: _Budget) -> list[tuple[int, int, int]] | None:
    """What the two share on the shortest way from one to the other: positions in both, and lengths. None if the budget ran out.

    This is the algorithm of Myers: `farthest` has the farthest position in `a` that was reached on each diagonal.
    """
    farthest = {1: 0}
    history: list[dict[int, int]] = []
    for distance in range(len(a) + len(b) + 1):
        history.append(dict(farthest))
        budget.steps -= 2 * distance + 1
        if budget.steps < 0:
            return None
        for diagonal in range(-distance, distance + 1, 2):
            inserts = _inserts(farthest, diagonal, distance)
            start = x = farthest[diagonal + 1] if inserts else farthest[diagonal - 1] + 1
            while x < len(a) and x - diagonal < len(b) and a[x] == b[x - diagonal]:
                x += 1
            budget.steps -= x - start
            farthest[diagonal] = x
            if x >= len(a) and x - diagonal >= len(b):
                return _way_back(history, len(a), len(b))
    raise AssertionError("the end is always reached")


def _inserts(farthest: dict[int, int], diagonal: int, distance: int) -> bool:
    """Whether the way to this diagonal goes farther by an insertion than by a deletion."""
    return diagonal == -distance or (diagonal != distance and farthest[diagonal - 1] < farthest[diagonal + 1])


def _way_back(history: Sequence[dict[int, int]], x: int, y: int) -> list[tuple[int, int, int]]:
    """The matches on the way that led to (x, y), from the first to the last."""
    matches: list[tuple[int, int, int]] = []
    for distance in range(len(history) - 1, -1, -1):
        farthest, diagonal = history[distance], x - y
        inserts = _inserts(farthest, diagonal, distance)
        start = farthest[diagonal + 1] if inserts else farthest[diagonal - 1] + 1
        if x > start:
            matches.append((start, start - diagonal, x - start))
        x, y = (start, start - diagonal - 1) if inserts else (start - 1, start - diagonal)
    return matches[::-1]
