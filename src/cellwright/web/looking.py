"""What viewers look at: which documents are mirrored for whom, what viewers are told, and what is checked regularly."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from urllib.parse import unquote

from cellwright.core.errors import CellwrightError, InvalidUri, LimitReached, NotFound
from cellwright.core.resources import Change, ResourceUpdated
from cellwright.core.types import Call
from cellwright.notebook.shelf import JsonObject, Shelf
from cellwright.web.feed import PageFeed, Viewer
from cellwright.web.mirror import Mask, Mirror
from cellwright.web.ports import Facts, RunningCode
from cellwright.web.states import FollowedStates

log = logging.getLogger(__name__)

MOST_MIRRORS = 200
IDLE_SECONDS = 60.0
LOOK_SECONDS = 1.0
"""How often we check what nobody announces: who is there, what runs, and whether a document must be opened again."""
SOON_SECONDS = 0.05
LIST_SECONDS = 0.5
CELLS = "/cells/"

Key = tuple[str, str]
"""The owner of a document, empty if everybody has it, and its URI."""


@dataclass(eq=False)
class _OpenMirror:
    mirror: Mirror
    stack: AsyncExitStack
    used: float


class Looking:
    """The mirrors, and the task that looks after them while there are any."""

    def __init__(self, shelves: Sequence[Shelf], facts: Facts, feed: PageFeed, mask: Mask) -> None:
        self._shelves = {shelf.scheme: shelf for shelf in shelves}
        self._facts = facts
        self._feed = feed
        self._mask = mask
        self._states = FollowedStates(facts, self._announce_states)
        self._mirrors: dict[Key, _OpenMirror] = {}
        self._opening: dict[Key, asyncio.Lock] = {}
        self._runs: dict[str, dict[str, RunningCode]] = {}
        self._open_documents: frozenset[str] = frozenset()
        self._stale_lists: set[str | None] = set()
        """The callers whose list may have changed; None means everybody's."""
        self._list_published = 0.0
        self._task: asyncio.Task[None] | None = None
        self._nudge = asyncio.Event()

    # -- documents -----------------------------------------------------------------------------------------------------------

    def shelf(self, uri: str) -> Shelf:
        scheme, separator, _ = uri.partition("://")
        if not separator or len(uri) > 2_000:  # noqa: PLR2004
            raise InvalidUri(f"{uri[:200]!r} is not the address of a document", hint="api/things has those there are")
        if scheme not in self._shelves:
            raise NotFound(f"no document {uri[:200]!r}", hint=f"schemes here: {', '.join(sorted(self._shelves))}")
        return self._shelves[scheme]

    async def mirror(self, call: Call, uri: str) -> Mirror:
        """The mirror of a document, made if there is none. It stays for a while after its last use."""
        shelf = self.shelf(uri)
        canonical_uri = await shelf.resolve(call, uri)
        key = ("" if shelf.shared else call.principal.id, canonical_uri)
        async with self._opening.setdefault(key, asyncio.Lock()):
            try:
                entry = self._mirrors.get(key) or await self._open_mirror(key, shelf, call)
            finally:
                self._opening.pop(key, None)
        entry.used = asyncio.get_running_loop().time()
        return entry.mirror

    async def _open_mirror(self, key: Key, shelf: Shelf, call: Call) -> _OpenMirror:
        await self._make_room()
        mirror = Mirror(key[1], shelf, call, self._mask, lambda changed: self._announce(key, changed))
        entry = _OpenMirror(mirror, AsyncExitStack(), 0.0)
        mirror.notebook = await entry.stack.enter_async_context(shelf.hold(call, key[1]))
        mirror.people = mirror.notebook.people()
        if (other := self._mirrors.get(key)) is not None:
            # Another request opened it first, after an opening that failed.
            await entry.stack.aclose()
            return other
        self._mirrors[key] = entry
        self._begin()
        return entry

    def _announce(self, key: Key, mirror: Mirror) -> None:
        owner = key[0] or None
        self._feed.publish("changed", {"uri": mirror.uri, "revision": mirror.revision}, owner=owner, uri=mirror.uri)
        self.nudge()

    async def states(self, call: Call, uri: str, since: str) -> JsonObject:
        """The states of a document's code cells that changed since a revision of them."""
        return await self._states.since(call, await self.mirror(call, uri), since)

    def _announce_states(self, mirror: Mirror, revision: str) -> None:
        self._feed.publish("states", {"uri": mirror.uri, "revision": revision}, uri=mirror.uri)

    async def _make_room(self) -> None:
        if len(self._mirrors) >= MOST_MIRRORS:
            unused = sorted((entry.used, key) for key, entry in self._mirrors.items() if not entry.mirror.viewers)
            if not unused:
                raise LimitReached(f"{MOST_MIRRORS} documents are looked at already", hint="close some pages")
            await self._drop([unused[0][1]])

    async def _drop(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if (entry := self._mirrors.pop(key, None)) is not None:
                entry.mirror.close()
                with suppress(CellwrightError):
                    await entry.stack.aclose()

    # -- streams -------------------------------------------------------------------------------------------------------------

    async def view(self, call: Call, uri: str, last_seen: str) -> tuple[Viewer, Mirror | None]:
        """A stream for one page. It begins with the current revision of the page's document."""
        mirror = await self.mirror(call, uri) if uri else None
        viewer = self._feed.open(call.principal.id, mirror.uri if mirror else "", last_seen)
        if mirror is not None:
            mirror.viewers += 1
            self._feed.tell(viewer, "changed", {"uri": mirror.uri, "revision": mirror.revision}, call.principal.id)
        self._runs.setdefault(call.principal.id, {})
        self._begin()
        return viewer, mirror

    def leave(self, owner: str, viewer: Viewer, mirror: Mirror | None) -> None:
        self._feed.leave(owner, viewer)
        if mirror is not None:
            mirror.viewers -= 1

    # -- what is announced ---------------------------------------------------------------------------------------------------

    def heard(self, change: Change) -> None:
        """A change that a part announced."""
        owner = change.principal_id
        if not isinstance(change, ResourceUpdated):
            self.list_changed(owner)
            return
        if not self._mirrors:
            return
        entry = self._mirrors.get((owner or "", change.uri))
        if entry is not None:
            entry.mirror.changed()
            return
        document, separator, cell = change.uri.rpartition(CELLS)
        entry = self._mirrors.get((owner or "", document)) if separator else None
        if entry is not None and entry.mirror.shelf.exact:
            entry.mirror.touched(unquote(cell))

    def list_changed(self, owner: str | None = None) -> None:
        """The list may have changed, for one caller or for all. They are told soon, but not more than twice a second."""
        if self._task is None or self._task.done():
            self._feed.publish("things", {}, owner=owner)
            return
        self._stale_lists.add(owner)
        self.nudge()

    def nudge(self) -> None:
        """Check soon, because something may have begun or ended a run."""
        self._nudge.set()

    # -- what nobody announces -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._check_regularly(), name="page")

    async def _check_regularly(self) -> None:
        loop = asyncio.get_running_loop()
        documents_checked = loop.time()
        while self._mirrors or self._feed.listeners():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._nudge.wait()
            await asyncio.sleep(SOON_SECONDS)
            self._nudge.clear()
            if loop.time() - documents_checked >= LOOK_SECONDS:
                documents_checked = loop.time()
                await self._check_documents()
            self._check_states()
            self._check_runs()
            self._check_lists()

    def _check_states(self) -> None:
        """A cell's state can change without the cell: by another cell, or by the kernel."""
        for mirror in (entry.mirror for entry in self._mirrors.values()):
            if mirror.viewers and mirror.shelf.shared and mirror.notebook is not None and mirror.notebook.is_open:
                self._states.follow(mirror)

    async def _check_documents(self) -> None:
        now = asyncio.get_running_loop().time()
        idle = [
            key for key, entry in self._mirrors.items() if not entry.mirror.viewers and now - entry.used > IDLE_SECONDS
        ]
        await self._drop(idle)
        for key, entry in tuple(self._mirrors.items()):
            mirror = entry.mirror
            if mirror.notebook is not None and mirror.notebook.is_open:
                self._tell_people(key, mirror, mirror.notebook.people())
            elif mirror.viewers:
                await self._hold_again(entry)
            else:
                await self._drop([key])

    def _tell_people(self, key: Key, mirror: Mirror, people: list[JsonObject]) -> None:
        if people != mirror.people:
            mirror.people = people
            owner = key[0] or None
            self._feed.publish("people", {"uri": mirror.uri, "people": people}, owner=owner, uri=mirror.uri)
            self._stale_lists.add(owner)

    async def _hold_again(self, entry: _OpenMirror) -> None:
        """Open a document again whose connection was lost. What changed meanwhile is not known."""
        mirror = entry.mirror
        try:
            await entry.stack.aclose()
            mirror.notebook = await entry.stack.enter_async_context(mirror.shelf.hold(mirror.call, mirror.uri))
        except CellwrightError as error:
            log.info("document_not_opened_again uri=%s error=%s", mirror.uri, error.code)
            return
        mirror.forget()

    def _check_runs(self) -> None:
        listeners = self._feed.listeners()
        self._runs = {owner: self._runs.get(owner, {}) for owner in listeners}
        for owner, earlier_runs in self._runs.items():
            runs = {run.execution: run for run in self._facts.running(owner)}
            for run in runs.values():
                if earlier_runs.get(run.execution) != run:
                    self._feed.publish("run", run.as_json(), owner=owner)
            for ended in earlier_runs.keys() - runs.keys():
                self._feed.publish("run", {**earlier_runs[ended].as_json(), "state": "ended"}, owner=owner)
            self._runs[owner] = runs

    def _check_lists(self) -> None:
        open_documents = self._facts.open_documents()
        if open_documents != self._open_documents:
            self._open_documents = open_documents
            self._stale_lists.add(None)
        now = asyncio.get_running_loop().time()
        if self._stale_lists and now - self._list_published >= LIST_SECONDS:
            self._list_published = now
            # If everybody is told, nobody need be told alone.
            for owner in [None] if None in self._stale_lists else self._stale_lists:
                self._feed.publish("things", {}, owner=owner)
            self._stale_lists = set()

    async def close(self) -> None:
        """Close every document."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._states.close()
        await self._drop(tuple(self._mirrors))
