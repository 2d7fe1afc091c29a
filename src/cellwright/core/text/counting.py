"""Numbers in sentences."""


def counted(number: int, noun: str) -> str:
    """The number with its noun, whose singular is passed in: `1 cell`, `2 cells`, `1,024 matches`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {_plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith(("ch", "s", "x")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
