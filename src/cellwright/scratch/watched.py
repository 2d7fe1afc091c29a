"""Which resources of pads are watched by whom, and events for them. A change of a pad that nobody watches costs nothing."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from cellwright.core.errors import InvalidUri
from cellwright.core.resources import Changes, ResourceListChanged, ResourceUpdated
from cellwright.scratch.model import ID
from cellwright.storage.cells import NotebookKey

SCHEME = "scratchpad"
LIST = "list"
LIST_URI = f"{SCHEME}://{LIST}"


def uri_of(pad_id: str) -> str:
    """The URI of a pad. That of a pad named `list` ends in a slash, because without it the URI is the list of pads."""
    return f"{SCHEME}://{pad_id}/" if pad_id == LIST else f"{SCHEME}://{pad_id}"


def split_uri(uri: str) -> tuple[str | None, list[str]]:
    """The id of the pad that a URI names, None for the list of pads, and the segments that name a part of the pad."""
    if uri == LIST_URI:
        return None, []
    pad_id, *segments = uri.removeprefix(f"{SCHEME}://").split("/")
    if not ID.fullmatch(pad_id):
        raise InvalidUri(f"{uri[:200]!r} names no pad", hint=f"{SCHEME}://ID")
    return pad_id, [] if segments == [""] else segments


class Watched:
    """The URIs that are watched, by tenant and pad."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._uris: dict[tuple[str, str | None], Counter[str]] = {}

    @asynccontextmanager
    async def holding(self, tenant: str, uri: str) -> AsyncGenerator[None]:
        """Changes of `uri` are announced to this tenant for as long as the block runs."""
        pad = (tenant, split_uri(uri)[0])
        self._uris.setdefault(pad, Counter())[uri] += 1
        try:
            yield
        finally:
            uris = self._uris[pad]
            uris[uri] -= 1
            if not uris[uri]:
                del uris[uri]
            if not uris:
                del self._uris[pad]

    def changed(self, key: NotebookKey, cell: str | None = None) -> None:
        """Announce that the pad has changed, in every format, and this cell of it."""
        self._publish(key, lambda segments: segments[:1] != ["cells"] or segments[1:] == [cell])

    def replaced(self, key: NotebookKey) -> None:
        """Announce that the whole pad has changed: it was created, reset, restored or deleted."""
        self._publish(key, lambda _: True)
        self.list_changed(key.owner)

    def list_changed(self, tenant: str) -> None:
        """Announce that the list of resources has changed."""
        self._changes.publish(ResourceListChanged(tenant))

    def _publish(self, key: NotebookKey, is_affected: Callable[[list[str]], bool]) -> None:
        # The list shows the number of cells and the order of changes, so it changes with every pad.
        for uri in (*self._uris.get((key.owner, None), ()), *self._uris.get((key.owner, key.id), ())):
            if is_affected(split_uri(uri)[1]):
                self._changes.publish(ResourceUpdated(uri, principal_id=key.owner))
