"""Data made smaller until its compact JSON is within a budget."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from cellwright.core.text.counting import counted
from cellwright.core.text.cutting import MINIMUM_TOKENS, Gap, gaps_of, marker, shortened
from cellwright.core.text.flags import ItemsLeftOut, Json, flag_cuts
from cellwright.core.text.tokens import MOST_TOKENS_PER_CHARACTER, estimate_tokens

MARKER_TOKENS = 16
"""A marker costs at least this."""
RECORD_KEYS = 32
"""Dicts inside others are records: up to this many keys they stay whole while lists give way."""
DEEPEST = 32
"""Below this nothing is shown of a value that is too large anyway."""
EVERYTHING = sys.maxsize


@dataclass(frozen=True, slots=True)
class _Limits:
    """How much of each string, list and inner dict is kept."""

    string_tokens: int
    items: int = EVERYTHING
    keys: int = EVERYTHING


class Fitting:
    """The search for the most generous limits under which a value fits."""

    def __init__(self, value: Json, tokens: int) -> None:
        self._value = value
        self._tokens = tokens
        self._sizes: dict[str, int] = {}
        self._cuts: dict[tuple[str, tuple[Gap, ...], int], str] = {}

    def best(self, whole: str, total: int) -> Json:
        for attempt in (self._with_strings_cut, self._with_lists_shortened, self._bare):
            found = attempt()
            if found is not None:
                flag_cuts(self._value, found)
                return found
        return self._text(whole, total)

    def _with_strings_cut(self) -> Json:
        if self._surely_costs_more():
            return None
        _, found = self._most_generous(_Limits, MINIMUM_TOKENS, self._tokens)
        return found

    def _with_lists_shortened(self) -> Json:
        def keeping(items: int, string_tokens: int = MINIMUM_TOKENS) -> _Limits:
            return _Limits(string_tokens, items, max(items, RECORD_KEYS))

        items, found = self._most_generous(keeping, 0, 2 * self._tokens)
        if found is None:
            return None
        _, roomier = self._most_generous(lambda tokens: keeping(items, tokens), MINIMUM_TOKENS, self._tokens)
        return roomier

    def _bare(self) -> Json:
        """Hints instead of what is inside; else the top-level keys with their numbers; else the keys."""
        candidates = [self._trimmed(self._value, _Limits(MINIMUM_TOKENS, 0, 0))]
        if isinstance(self._value, dict):
            short = int | float | None
            candidates.append({key: item if isinstance(item, short) else "…" for key, item in self._value.items()})
            candidates.append(dict.fromkeys(self._value, "…"))
        return next(filter(self._fits, candidates), None)

    def _text(self, whole: str, total: int) -> Json:
        tokens = self._tokens
        while tokens >= MINIMUM_TOKENS:
            candidate = shortened(whole, total, tokens)
            if self._fits(candidate):
                return candidate
            tokens = tokens * 3 // 4
        return marker(len(whole), total)

    def _most_generous(self, limits: Callable[[int], _Limits], least: int, most: int) -> tuple[int, Json]:
        """The largest number whose limits make the value fit, with the value; None if not even `least` does."""
        kept, refused = least, most + 1
        found = self._trimmed(self._value, limits(least))
        if not self._fits(found):
            return least, None
        while refused - kept > 1 + kept // 16:
            guess = min(2 * kept + 1, (kept + refused) // 2)
            candidate = self._trimmed(self._value, limits(guess))
            if self._fits(candidate):
                kept, found = guess, candidate
            else:
                refused = guess
        return kept, found

    def _fits(self, value: Json) -> bool:
        return estimate_tokens(compact_json(value)) <= self._tokens

    def _trimmed(self, value: Json, limits: _Limits, depth: int = 0) -> Json:
        if isinstance(value, str):
            return self._trimmed_string(value, limits.string_tokens)
        if isinstance(value, list | tuple):
            return self._trimmed_list(value, limits, depth)
        if isinstance(value, dict):
            return self._trimmed_dict(value, limits, depth)
        return value

    def _trimmed_string(self, value: str, tokens: int) -> str:
        if len(value) * MOST_TOKENS_PER_CHARACTER <= tokens or self._size(value) <= tokens:
            return value
        # A text with gaps is not the same as a plain one that only looks like it.
        key = value, gaps_of(value), tokens
        if key not in self._cuts:
            self._cuts[key] = shortened(value, self._size(value), tokens)
        return self._cuts[key]

    def _size(self, value: str) -> int:
        if value not in self._sizes:
            self._sizes[value] = estimate_tokens(value)
        return self._sizes[value]

    def _surely_costs_more(self) -> bool:
        """Whether cutting strings cannot help: a node costs about a token, a cut string at least its marker."""
        left = 2 * self._tokens
        pending = [self._value]
        while pending and left >= 0:
            node = pending.pop()
            if isinstance(node, str):
                left -= min(MARKER_TOKENS, self._size(node))
            elif isinstance(node, dict | list | tuple):
                left -= len(node)
                pending.extend(node.values() if isinstance(node, dict) else node)
        return left < 0

    def _trimmed_list(self, value: list[Json] | tuple[Json, ...], limits: _Limits, depth: int) -> list[Json]:
        count = limits.items if depth < DEEPEST else 0
        if len(value) <= count:
            return [self._trimmed(item, limits, depth + 1) for item in value]
        start, end = count - count // 2, len(value) - count // 2
        head = [self._trimmed(item, limits, depth + 1) for item in value[:start]]
        tail = [self._trimmed(item, limits, depth + 1) for item in value[end:]]
        return [*head, ItemsLeftOut(end - start), *tail]

    def _trimmed_dict(self, value: dict[str, Json], limits: _Limits, depth: int) -> dict[str, Json]:
        count = len(value) if depth == 0 else limits.keys if depth < DEEPEST else 0
        kept = {key: self._trimmed(item, limits, depth + 1) for key, item in islice(value.items(), count)}
        return kept if len(value) <= count else {**kept, "…": f"{counted(len(value) - count, 'key')} left out"}


def compact_json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
