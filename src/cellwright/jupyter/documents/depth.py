"""How deep a document becomes, however small the updates are that make it so."""

from typing import Any, cast

from pycrdt import Doc, Map, Subscription

from cellwright.jupyter.documents.updates import MAX_DEPTH, RefusedUpdate, nested_too_deeply

MAX_ROOTS = 100
FOLLOWED = frozenset({"cells"})
"""A notebook's view looks at the depth of these itself."""


class Roots:
    """Follows everything that a document has at its top, also what nobody here knows: one update alone does not tell how deep it goes."""

    def __init__(self, document: Doc[Any]) -> None:
        self._document = document
        self._followed: dict[str, tuple[Any, Subscription] | None] = {}

    def follow(self) -> None:
        """Look at what has come since the last time. Raises RefusedUpdate if it is absurdly much."""
        for name, root in tuple(self._document.items()):
            if name in self._followed:
                continue
            if len(self._followed) >= MAX_ROOTS:
                raise RefusedUpdate(
                    f"Jupyter sent a document with more than {MAX_ROOTS} parts at its top; it was not taken in",
                    hint="open the file itself, or restore an earlier version of it",
                )
            known: Any = self._document.get(name, type=Map) if cast("object", root) is None else root
            self._followed[name] = None if name in FOLLOWED else (known, known.observe_deep(_check))

    def close(self) -> None:
        """Follow no more: the document would keep itself in memory."""
        for followed in self._followed.values():
            if followed is not None:
                followed[0].unobserve(followed[1])
        self._followed.clear()


def _check(events: list[Any]) -> None:
    if any(len(event.path) > MAX_DEPTH for event in events):
        raise nested_too_deeply()
