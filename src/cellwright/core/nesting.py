"""How deeply JSON is nested, found without recursion, so that no depth is too much for this check itself."""

from typing import cast


def deeper_than(value: object, levels: int) -> bool:
    """Whether objects and lists are nested in more levels than this."""
    level = [value]
    for _ in range(levels):
        next_level: list[object] = []
        for container in level:
            if isinstance(container, dict):
                next_level += cast("dict[str, object]", container).values()
            elif isinstance(container, list):
                next_level += cast("list[object]", container)
        if not next_level:
            return False
        level = next_level
    return True
