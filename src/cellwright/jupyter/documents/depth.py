"""Bounds the depth of a document, which many small updates together can make too deep."""

from typing import Any, cast

from pycrdt import Doc, Map, Subscription

from cellwright.jupyter.documents.updates import MAX_DEPTH, RefusedUpdate, nested_too_deeply

MAX_ROOTS = 100
FOLLOWED = frozenset({"cells"})
"""A notebook's view checks the depth of these itself."""


class Roots:
    """Follows all roots of a document, also those that we do not use: one update alone does not tell how deep the document becomes."""

    def __init__(self, document: Doc[Any]) -> None:
        self._document = document
        self._followed: dict[str, tuple[Any, Subscription] | None] = {}

    def follow(self) -> None:
        """Follow the roots that are new since the last call. Raises RefusedUpdate if there are far too many."""
        for name, root in tuple(self._document.items()):
            if name in self._followed:
                continue
            if len(self._followed) >= MAX_ROOTS:
                raise RefusedUpdate(
                    f"Jupyter sent a document with more than {MAX_ROOTS} parts at its top; it was not taken in",
                    hint="open the file itself, or restore an earlier version of it",
                )
            shared: Any = self._document.get(name, type=Map) if cast("object", root) is None else root
            self._followed[name] = None if name in FOLLOWED else (shared, shared.observe_deep(_check_depth))

    def close(self) -> None:
        """Stop following: the subscriptions would keep the document in memory."""
        for followed in self._followed.values():
            if followed is not None:
                followed[0].unobserve(followed[1])
        self._followed.clear()


def _check_depth(events: list[Any]) -> None:
    if any(len(event.path) > MAX_DEPTH for event in events):
        raise nested_too_deeply()
