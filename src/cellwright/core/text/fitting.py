"""Shortens data until its compact JSON is within a budget."""

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
"""Dicts inside others are records: up to this many keys they stay whole while lists are shortened."""
DEEPEST = 32
"""Of a value that is too large, nothing below this depth is shown."""
EVERYTHING = sys.maxsize


@dataclass(frozen=True, slots=True)
class _Limits:
    """How much of each string, list and inner dict stays."""

    string_tokens: int
    items: int = EVERYTHING
    keys: int = EVERYTHING


class Fitting:
    """Searches for the most generous limits under which a value fits."""

    def __init__(self, value: Json, tokens: int) -> None:
        self._value = value
        self._tokens = tokens
        self._sizes: dict[str, int] = {}
        self._cuts: dict[tuple[str, tuple[Gap, ...], int], str] = {}

    def best(self, whole: str, total: int) -> Json:
        for attempt in (self._with_strings_cut, self._with_lists_shortened, self._keys_only):
            trimmed = attempt()
            if trimmed is not None:
                flag_cuts(self._value, trimmed)
                return trimmed
        return self._as_text(whole, total)

    def _with_strings_cut(self) -> Json:
        if self._surely_costs_more():
            return None
        _, trimmed = self._most_generous(_Limits, MINIMUM_TOKENS, self._tokens)
        return trimmed

    def _with_lists_shortened(self) -> Json:
        def keeping(items: int, string_tokens: int = MINIMUM_TOKENS) -> _Limits:
            return _Limits(string_tokens, items, max(items, RECORD_KEYS))

        items, shortest = self._most_generous(keeping, 0, 2 * self._tokens)
        if shortest is None:
            return None
        _, trimmed = self._most_generous(lambda tokens: keeping(items, tokens), MINIMUM_TOKENS, self._tokens)
        return trimmed

    def _keys_only(self) -> Json:
        """Notes in place of all inner values; else the top-level keys with their numbers; else only the keys."""
        candidates = [self._trimmed(self._value, _Limits(MINIMUM_TOKENS, 0, 0))]
        if isinstance(self._value, dict):
            scalar = int | float | None
            candidates.append({key: item if isinstance(item, scalar) else "…" for key, item in self._value.items()})
            candidates.append(dict.fromkeys(self._value, "…"))
        return next(filter(self._fits, candidates), None)

    def _as_text(self, whole: str, total: int) -> Json:
        tokens = self._tokens
        while tokens >= MINIMUM_TOKENS:
            candidate = shortened(whole, total, tokens)
            if self._fits(candidate):
                return candidate
            tokens = tokens * 3 // 4
        return marker(len(whole), total)

    def _most_generous(self, limits: Callable[[int], _Limits], least: int, most: int) -> tuple[int, Json]:
        """About the largest number whose limits make the value fit, and the trimmed value; None if not even `least` does."""
        fitting, too_many = least, most + 1
        best = self._trimmed(self._value, limits(least))
        if not self._fits(best):
            return least, None
        while too_many - fitting > 1 + fitting // 16:
            guess = min(2 * fitting + 1, (fitting + too_many) // 2)
            candidate = self._trimmed(self._value, limits(guess))
            if self._fits(candidate):
                fitting, best = guess, candidate
            else:
                too_many = guess
        return fitting, best

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
        # A text with gaps differs from a plain one that has the same characters.
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
        remaining = 2 * self._tokens
        pending = [self._value]
        while pending and remaining >= 0:
            node = pending.pop()
            if isinstance(node, str):
                remaining -= min(MARKER_TOKENS, self._size(node))
            elif isinstance(node, dict | list | tuple):
                remaining -= len(node)
                pending.extend(node.values() if isinstance(node, dict) else node)
        return remaining < 0

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
        trimmed = {key: self._trimmed(item, limits, depth + 1) for key, item in islice(value.items(), count)}
        return trimmed if len(value) <= count else {**trimmed, "…": f"{counted(len(value) - count, 'key')} left out"}


def compact_json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
