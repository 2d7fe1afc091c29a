"""Everybody who looks: which documents are mirrored for whom, what they are told, and what is looked at again by and by."""

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

log = logging.getLogger(__name__)

MOST_MIRRORS = 200
IDLE_SECONDS = 60.0
LOOK_SECONDS = 1.0
"""How often is looked at what nobody announces: who is there, what runs, whether a document must be opened again."""
SOON_SECONDS = 0.05
LIST_SECONDS = 0.5
CELLS = "/cells/"

Key = tuple[str, str]
"""Whose document, empty for everybody's; and its URI."""


@dataclass(eq=False)
class _Kept:
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
        self._kept: dict[Key, _Kept] = {}
        self._opening: dict[Key, asyncio.Lock] = {}
        self._runs: dict[str, dict[str, RunningCode]] = {}
        self._open: frozenset[str] = frozenset()
        self._stale: set[str | None] = set()
        self._told_list = 0.0
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
        """The mirror of a document, made if there is none; it stays for a while after its last use."""
        shelf = self.shelf(uri)
        known = await shelf.resolve(call, uri)
        key = ("" if shelf.shared else call.principal.id, known)
        async with self._opening.setdefault(key, asyncio.Lock()):
            try:
                kept = self._kept.get(key) or await self._keep(key, shelf, call)
            finally:
                self._opening.pop(key, None)
        kept.used = asyncio.get_running_loop().time()
        return kept.mirror

    async def _keep(self, key: Key, shelf: Shelf, call: Call) -> _Kept:
        await self._make_room()
        mirror = Mirror(key[1], shelf, call, self._mask, lambda one: self._announce(key, one))
        kept = _Kept(mirror, AsyncExitStack(), 0.0)
        mirror.held = await kept.stack.enter_async_context(shelf.hold(call, key[1]))
        mirror.people = mirror.held.people()
        if (other := self._kept.get(key)) is not None:
            # Somebody was quicker, after an opening that failed.
            await kept.stack.aclose()
            return other
        self._kept[key] = kept
        self._begin()
        return kept

    def _announce(self, key: Key, mirror: Mirror) -> None:
        owner = key[0] or None
        self._feed.publish("changed", {"uri": mirror.uri, "revision": mirror.revision}, owner=owner, uri=mirror.uri)
        self.nudge()

    async def _make_room(self) -> None:
        if len(self._kept) >= MOST_MIRRORS:
            unused = sorted((kept.used, key) for key, kept in self._kept.items() if not kept.mirror.viewers)
            if not unused:
                raise LimitReached(f"{MOST_MIRRORS} documents are looked at already", hint="close some pages")
            await self._drop([unused[0][1]])

    async def _drop(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if (kept := self._kept.pop(key, None)) is not None:
                kept.mirror.close()
                with suppress(CellwrightError):
                    await kept.stack.aclose()

    # -- streams -------------------------------------------------------------------------------------------------------------

    async def view(self, call: Call, uri: str, last_seen: str) -> tuple[Viewer, Mirror | None]:
        """A stream for one page; it is told at once which revision of its document there is."""
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
        if not self._kept:
            return
        kept = self._kept.get((owner or "", change.uri))
        if kept is not None:
            kept.mirror.changed()
            return
        document, found, cell = change.uri.rpartition(CELLS)
        kept = self._kept.get((owner or "", document)) if found else None
        if kept is not None and kept.mirror.shelf.exact:
            kept.mirror.touched(unquote(cell))

    def list_changed(self, owner: str | None = None) -> None:
        """What is listed may be another, for one caller or for all: told soon, and not more than twice a second."""
        if self._task is None or self._task.done():
            self._feed.publish("things", {}, owner=owner)
            return
        self._stale.add(owner)
        self.nudge()

    def nudge(self) -> None:
        """Look soon: something happened that may have begun or ended a run."""
        self._nudge.set()

    # -- what nobody announces -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_by_and_by(), name="page")

    async def _look_by_and_by(self) -> None:
        loop = asyncio.get_running_loop()
        looked = loop.time()
        while self._kept or self._feed.listeners():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._nudge.wait()
            await asyncio.sleep(SOON_SECONDS)
            self._nudge.clear()
            if loop.time() - looked >= LOOK_SECONDS:
                looked = loop.time()
                await self._look_at_documents()
            self._look_at_runs()
            self._look_at_list()

    async def _look_at_documents(self) -> None:
        now = asyncio.get_running_loop().time()
        idle = [key for key, one in self._kept.items() if not one.mirror.viewers and now - one.used > IDLE_SECONDS]
        await self._drop(idle)
        for key, kept in tuple(self._kept.items()):
            mirror = kept.mirror
            if mirror.held is not None and mirror.held.is_open:
                self._tell_people(key, mirror, mirror.held.people())
            elif mirror.viewers:
                await self._hold_again(kept)
            else:
                await self._drop([key])

    def _tell_people(self, key: Key, mirror: Mirror, people: list[JsonObject]) -> None:
        if people != mirror.people:
            mirror.people = people
            told = {"uri": mirror.uri, "people": people}
            self._feed.publish("people", told, owner=key[0] or None, uri=mirror.uri)
            self._stale.add(key[0] or None)

    async def _hold_again(self, kept: _Kept) -> None:
        """Its connection was lost: what has changed meanwhile is not known."""
        mirror = kept.mirror
        try:
            await kept.stack.aclose()
            mirror.held = await kept.stack.enter_async_context(mirror.shelf.hold(mirror.call, mirror.uri))
        except CellwrightError as error:
            log.info("document_not_opened_again uri=%s error=%s", mirror.uri, error.code)
            return
        mirror.forget()

    def _look_at_runs(self) -> None:
        listeners = self._feed.listeners()
        self._runs = {owner: self._runs.get(owner, {}) for owner in listeners}
        for owner, known in self._runs.items():
            now = {run.execution: run for run in self._facts.running(owner)}
            for run in now.values():
                if known.get(run.execution) != run:
                    self._feed.publish("run", run.as_json(), owner=owner)
            for gone in known.keys() - now.keys():
                self._feed.publish("run", {**known[gone].as_json(), "state": "ended"}, owner=owner)
            self._runs[owner] = now

    def _look_at_list(self) -> None:
        now = self._facts.open_documents()
        if now != self._open:
            self._open = now
            self._stale.add(None)
        moment = asyncio.get_running_loop().time()
        if self._stale and moment - self._told_list >= LIST_SECONDS:
            self._told_list = moment
            # Who is told with everybody need not be told alone.
            for owner in [None] if None in self._stale else self._stale:
                self._feed.publish("things", {}, owner=owner)
            self._stale = set()

    async def close(self) -> None:
        """Let go of every document."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._drop(tuple(self._kept))
