"""How deep JSON goes, found out without recursion: what is too deep for us must not be so for this."""

from typing import cast


def deeper_than(value: object, levels: int) -> bool:
    """Whether objects and lists stand inside each other more often than this."""
    level = [value]
    for _ in range(levels):
        inside: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inside += cast("dict[str, object]", one).values()
            elif isinstance(one, list):
                inside += cast("list[object]", one)
        if not inside:
            return False
        level = inside
    return True
