"""One ranking over several tenants: words with words, meaning with meaning, each thing by its best part, then both fused.

Scores of one index are of one scale whoever the tenant is, so rankings of the same sort are merged by score, and only words and meaning,
which are not of one scale, by rank.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cellwright.storage.search.fusion import fused, meaning_weight
from cellwright.storage.search.port import Hit

NEAREST = 10
"""Of so many entries the language is looked at, as everywhere in search."""
LEAST_COSINE = 0.2
"""Of what is meant. Nearly all right answers of bench/finding.py are nearer; and while most things wait for their vectors, what has one
does not come first for that alone."""
Whole = tuple[str, str, str]
"""A thing: its tenant, its kind, its id."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A thing by its best part."""

    hit: Hit
    score: float


def ranked(by_words: Iterable[Hit], by_meaning: Iterable[Hit], limit: int) -> list[Ranked]:
    said, meant = _best_parts(by_words), _best_parts(hit for hit in by_meaning if hit.score >= LEAST_COSINE)
    things = list(dict.fromkeys([*said, *meant]))
    numbers = {thing: number for number, thing in enumerate(things)}
    weight = meaning_weight([hit.entry.language for hit in list(meant.values())[:NEAREST]])
    order = fused([numbers[thing] for thing in said], [numbers[thing] for thing in meant], weight)
    return [Ranked(_part(things[number], said, meant), score) for number, score in order[:limit]]


def _best_parts(hits: Iterable[Hit]) -> dict[Whole, Hit]:
    """Things in the order of their best parts."""
    found: dict[Whole, Hit] = {}
    for hit in sorted(hits, key=lambda hit: -hit.score):
        key = hit.entry.key
        found.setdefault((key.tenant, key.kind, key.thing), hit)
    return found


def _part(thing: Whole, said: "dict[Whole, Hit]", meant: "dict[Whole, Hit]") -> Hit:
    """What is shown of a thing: the part that has the words, else the one that is meant."""
    return said.get(thing) or meant[thing]


def snippet(text: str, words: Sequence[str], longest: int) -> str:
    """The lines around the one that has most of the words, as one line."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    lines = [line for line in lines if line]
    if not lines:
        return ""
    wanted = set(words)
    best = max(range(len(lines)), key=lambda number: (_count(lines[number], wanted), -number))
    shown = _around(lines[best], wanted, longest)
    for line in lines[best + 1 :]:
        if len(shown) + len(line) + 3 > longest:
            break
        shown = f"{shown} / {line}"
    return shown


def _count(line: str, words: set[str]) -> int:
    lower = line.lower()
    return sum(word in lower for word in words)


def _around(line: str, words: set[str], longest: int) -> str:
    """A long line from a little before its first word that is looked for."""
    if len(line) <= longest:
        return line
    lower = line.lower()
    places = [place for word in words if (place := lower.find(word)) >= 0]
    start = max(min(places, default=0) - longest // 4, 0)
    cut = line[start : start + longest - 2]
    return f"{'…' if start else ''}{cut}{'…' if start + len(cut) < len(line) else ''}"
