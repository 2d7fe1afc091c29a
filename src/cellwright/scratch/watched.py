"""Which resources of pads somebody watches, and telling them. What nobody watches costs a change nothing."""

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
    """The pad's resource. One named `list` has a slash at its end; without it this is the list of pads."""
    return f"{SCHEME}://{pad_id}/" if pad_id == LIST else f"{SCHEME}://{pad_id}"


def parts(uri: str) -> tuple[str | None, list[str]]:
    """The pad that a URI is about, None for the list of them, and which part of it."""
    if uri == LIST_URI:
        return None, []
    pad_id, *rest = uri.removeprefix(f"{SCHEME}://").split("/")
    if not ID.fullmatch(pad_id):
        raise InvalidUri(f"{uri[:200]!r} names no pad", hint=f"{SCHEME}://ID")
    return pad_id, [] if rest == [""] else rest


class Watched:
    """Everything watched, by whose pad it is of."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._uris: dict[tuple[str, str | None], Counter[str]] = {}

    @asynccontextmanager
    async def holding(self, tenant: str, uri: str) -> AsyncGenerator[None]:
        """This caller is told of changes of `uri` for as long as the block runs."""
        about = (tenant, parts(uri)[0])
        self._uris.setdefault(about, Counter())[uri] += 1
        try:
            yield
        finally:
            left = self._uris[about]
            left[uri] -= 1
            if not left[uri]:
                del left[uri]
            if not left:
                del self._uris[about]

    def changed(self, key: NotebookKey, cell: str | None = None) -> None:
        """Tell that the pad has changed, in every format, and this cell of it."""
        self._tell(key, lambda rest: rest[:1] != ["cells"] or rest[1:] == [cell])

    def replaced(self, key: NotebookKey) -> None:
        """Tell that nothing of the pad is as it was: it was reset, restored, or is gone."""
        self._tell(key, lambda _: True)
        self.listed(key.owner)

    def listed(self, tenant: str) -> None:
        """Tell that the list of resources is another one."""
        self._changes.publish(ResourceListChanged(tenant))

    def _tell(self, key: NotebookKey, concerned: Callable[[list[str]], bool]) -> None:
        # The list shows how many cells each pad has and which changed last: it changes with every pad.
        for uri in (*self._uris.get((key.owner, None), ()), *self._uris.get((key.owner, key.id), ())):
            if concerned(parts(uri)[1]):
                self._changes.publish(ResourceUpdated(uri, principal_id=key.owner))
