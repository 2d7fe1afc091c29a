"""Combines two rankings by reciprocal rank, so that scores of different kinds need not be compared."""

from collections.abc import Sequence

K = 10
"""The larger it is, the smaller is the advantage of the first ranks. Chosen on one half of the judged questions of bench/search.py,
confirmed on the other: there it puts 68.3 % of the answers among the best ten, where the usual 60 puts 66.3 %."""
CODE_WEIGHT = 2.0
"""The weight of meaning for code, whose names and words often differ from those of the question. Chosen in the same way."""
PROSE = frozenset({"", "md", "markdown", "txt", "text", "plain", "rst", "html"})


def meaning_weight(languages: Sequence[str]) -> float:
    """How much meaning counts compared to words, given the languages of the entries nearest in meaning.

    There is one weight for all entries: with a weight for each, code far down a ranking would come before prose at its top.
    """
    code = sum(language.lower() not in PROSE for language in languages)
    return 1.0 + (CODE_WEIGHT - 1.0) * code / max(1, len(languages))


def fused(words: Sequence[int], meaning: Sequence[int], weight: float) -> list[tuple[int, float]]:
    """Ids with their scores, best first. At equal rank, an entry in both rankings comes before one in a single ranking."""
    scores: dict[int, float] = {}
    for rank, entry in enumerate(words, 1):
        scores[entry] = 1 / (K + rank)
    for rank, entry in enumerate(meaning, 1):
        scores[entry] = scores.get(entry, 0.0) + weight / (K + rank)
    return sorted(scores.items(), key=lambda entry: -entry[1])
