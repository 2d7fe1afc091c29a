"""One ranking over several tenants: hits by words and hits by meaning are ranked apart, each place by its best part, then both are fused.

Scores of one index are on one scale whoever the tenant is, so rankings of the same sort are merged by score. Words and meaning are not on
one scale, so they are fused by rank.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cellwright.storage.search.fusion import fused, meaning_weight
from cellwright.storage.search.port import Hit

NEAREST = 10
"""How many of the nearest entries decide, by their languages, how much meaning counts; as everywhere in search."""
LEAST_COSINE = 0.2
"""The least similarity of a hit by meaning. Nearly all right answers of bench/finding.py are nearer. While most places wait for their
vectors, those that have one do not come first for that alone."""
PlaceKey = tuple[str, str, str]
"""The tenant, kind and id of a place."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A place by its best part."""

    hit: Hit
    score: float


def ranked(by_words: Iterable[Hit], by_meaning: Iterable[Hit], limit: int) -> list[Ranked]:
    """The best places. Each is shown by the part that has the words, else by the part that is nearest in meaning."""
    word_hits = _best_parts(by_words)
    meaning_hits = _best_parts(hit for hit in by_meaning if hit.score >= LEAST_COSINE)
    best_parts = {**meaning_hits, **word_hits}
    places = list(dict.fromkeys([*word_hits, *meaning_hits]))
    numbers = {place: number for number, place in enumerate(places)}
    weight = meaning_weight([hit.entry.language for hit in list(meaning_hits.values())[:NEAREST]])
    order = fused([numbers[place] for place in word_hits], [numbers[place] for place in meaning_hits], weight)
    return [Ranked(best_parts[places[number]], score) for number, score in order[:limit]]


def _best_parts(hits: Iterable[Hit]) -> dict[PlaceKey, Hit]:
    """The best hit of each place, best first."""
    best: dict[PlaceKey, Hit] = {}
    for hit in sorted(hits, key=lambda hit: -hit.score):
        key = hit.entry.key
        best.setdefault((key.tenant, key.kind, key.thing), hit)
    return best


def snippet(text: str, words: Sequence[str], longest: int) -> str:
    """The line that has most of the words, and those after it as far as they fit, as one line."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    lines = [line for line in lines if line]
    if not lines:
        return ""
    unique_words = set(words)
    best = max(range(len(lines)), key=lambda number: (_count(lines[number], unique_words), -number))
    snippet_text = _around(lines[best], unique_words, longest)
    for line in lines[best + 1 :]:
        if len(snippet_text) + len(line) + 3 > longest:
            break
        snippet_text = f"{snippet_text} / {line}"
    return snippet_text


def _count(line: str, words: set[str]) -> int:
    lower = line.lower()
    return sum(word in lower for word in words)


def _around(line: str, words: set[str], longest: int) -> str:
    """A line, cut if it is long to begin a little before the first of the words."""
    if len(line) <= longest:
        return line
    lower = line.lower()
    places = [place for word in words if (place := lower.find(word)) >= 0]
    start = max(min(places, default=0) - longest // 4, 0)
    cut = line[start : start + longest - 2]
    return f"{'…' if start else ''}{cut}{'…' if start + len(cut) < len(line) else ''}"
