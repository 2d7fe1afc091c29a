"""Two rankings as one: by reciprocal rank, so that scores of different kinds need not be compared."""

from collections.abc import Sequence

K = 10
"""How slowly a rank loses its worth. Chosen on one half of the judged questions of bench/search.py, confirmed on the other: there it puts
68.3 % of the answers among the best ten, where the usual 60 puts 66.3 %."""
CODE_WEIGHT = 2.0
"""Of meaning, for code: names and words in it often differ from those of the question. Chosen in the same way."""
PROSE = frozenset({"", "md", "markdown", "txt", "text", "plain", "rst", "html"})


def meaning_weight(languages: Sequence[str]) -> float:
    """How much meaning counts beside words, from what the entries nearest in meaning are written in.

    One weight for all: a weight for each entry would put code far down a ranking before prose at its top.
    """
    code = sum(language.lower() not in PROSE for language in languages)
    return 1.0 + (CODE_WEIGHT - 1.0) * code / max(1, len(languages))


def fused(words: Sequence[int], meaning: Sequence[int], weight: float) -> list[tuple[int, float]]:
    """Ids with their scores, best first. What both rankings have comes before what only one has, of equal rank."""
    scores: dict[int, float] = {}
    for rank, entry in enumerate(words, 1):
        scores[entry] = 1 / (K + rank)
    for rank, entry in enumerate(meaning, 1):
        scores[entry] = scores.get(entry, 0.0) + weight / (K + rank)
    return sorted(scores.items(), key=lambda found: -found[1])
