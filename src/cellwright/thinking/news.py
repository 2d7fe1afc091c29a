"""Remembers which notebook each connection used last, and announces notebooks that are added, changed or removed."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeVar

from cellwright.core.resources import Changes, ResourceListChanged, ResourceUpdated
from cellwright.core.types import Call
from cellwright.storage.cells import NotebookKey
from cellwright.thinking.reading import FORMS

K = TypeVar("K")
REMEMBERED_CONNECTIONS = 1_000
REMEMBERED_NOTEBOOKS = 20_000


class ThinkingNews:
    """Notebooks are announced under their session, which is learnt when the notebook is first used in this process."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._sessions: OrderedDict[NotebookKey, str] = OrderedDict()
        self._current: OrderedDict[tuple[str, str], str] = OrderedDict()

    def note_use(self, call: Call, key: NotebookKey, session: str) -> None:
        _remember(self._sessions, key, session, REMEMBERED_NOTEBOOKS)
        _remember(self._current, (key.owner, call.session), key.id, REMEMBERED_CONNECTIONS)

    def last_used(self, call: Call) -> str | None:
        """The notebook that this connection used last, which may be gone."""
        return self._current.get((call.principal.id, call.session))

    def added(self, key: NotebookKey) -> None:
        self._changes.publish(ResourceListChanged(key.owner))
        self.changed(key)

    def removed(self, key: NotebookKey, session: str) -> None:
        self._sessions[key] = session
        self.changed(key)
        self._changes.publish(ResourceListChanged(key.owner))
        del self._sessions[key]

    def changed(self, key: NotebookKey, cells: Sequence[str] = (), execution_id: str = "") -> None:
        """Announce every resource that reads differently now."""
        session = self._sessions.get(key)
        if session is None:
            return
        base = f"notebook://{session}/{key.id}"
        uris = [base, *(f"{base}/{form}" for form in FORMS), *(f"{base}/cells/{cell}" for cell in cells)]
        if execution_id:
            uris.append(f"{base}/executions/{execution_id}")
        for uri in (*uris, "notebook://list", "notebook://current"):
            self._changes.publish(ResourceUpdated(uri, key.owner))


def _remember(entries: OrderedDict[K, str], key: K, value: str, most: int) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > most:
        entries.popitem(last=False)
