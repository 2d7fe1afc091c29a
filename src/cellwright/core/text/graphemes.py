"""Where a text may be split without breaking what a reader sees as one character."""

import unicodedata


def may_split(text: str, index: int) -> bool:
    """Whether a split at `index` separates no mark, joiner or pair from its partner."""
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if before.isascii() and after.isascii():
        return not (before == "\r" and after == "\n")
    if _is_regional(before) and _is_regional(after):
        return _regionals_before(text, index) % 2 == 0
    surrogates = "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"
    return before != "\u200d" and not surrogates and not _continues(after)


def _continues(character: str) -> bool:
    """Marks and variation selectors, joiners, tags, skin tones, vowels and finals of Korean syllables."""
    return (
        unicodedata.category(character)[0] == "M"
        or character in "\u200c\u200d"
        or "\u1160" <= character <= "\u11ff"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _is_regional(character: str) -> bool:
    """Two regional indicators make a flag."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _regionals_before(text: str, index: int) -> int:
    start = index
    while start > 0 and _is_regional(text[start - 1]):
        start -= 1
    return index - start
