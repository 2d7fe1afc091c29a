"""The states of a document's code cells as people look at them: which are told, and when they are looked at again."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from cellwright.core.errors import CellwrightError
from cellwright.core.types import Call
from cellwright.notebook.shelf import JsonObject
from cellwright.web.mirror import Mirror, number_seen
from cellwright.web.ports import Facts, ShownStates

log = logging.getLogger(__name__)

SOON_SECONDS = 0.1
"""Changes that come together are looked at together."""
REST = 4.0
"""For how many times as long as a look took nobody looks again: states of very many cells cost something."""
LONGEST_REST_SECONDS = 2.0
FRESH = "fresh"


class MarksOfCells:
    """The states as they were last seen, with the look in which each changed."""

    def __init__(self) -> None:
        self._run = secrets.token_hex(3)
        self._number = 1
        self._shown = ShownStates({}, {})
        self._changed_at: dict[str, int] = {}

    @property
    def revision(self) -> str:
        return f"{self._run}.{self._number}"

    def take(self, shown: ShownStates) -> bool:
        """Take over what is seen now. Returns whether it is anything else than before."""
        before, self._shown = self._shown, shown
        if shown is before or shown == before:
            return False
        self._number += 1
        for name in before.cells.keys() - shown.cells.keys():
            del self._changed_at[name]
        changed = (name for name, mark in shown.cells.items() if before.cells.get(name) != mark)
        self._changed_at |= dict.fromkeys(changed, self._number)
        return True

    def since(self, revision: str) -> JsonObject:
        """The states that changed since that revision, if it is one of ours; else of all cells that are not fresh."""
        seen = number_seen(revision, self._run)
        marks = {
            name: mark
            for name, mark in self._shown.cells.items()
            if (self._changed_at[name] > seen if seen else mark["state"] != FRESH)
        }
        return {**self._shown.about, "revision": self.revision, "whole": not seen, "cells": marks}


class FollowedStates:
    """Looks at the states of the documents that people have open, whenever something may have changed them."""

    def __init__(self, facts: Facts, tell: Callable[[Mirror, str], None]) -> None:
        """`tell` is called with a document whose states have changed, and their revision."""
        self._facts = facts
        self._tell = tell
        self._due: set[Mirror] = set()
        self._tasks: dict[Mirror, asyncio.Task[None]] = {}
        self._marks: WeakKeyDictionary[Mirror, MarksOfCells] = WeakKeyDictionary()

    async def since(self, call: Call, mirror: Mirror, revision: str) -> JsonObject:
        """What is new since a revision. Whoever comes first looks for themselves, and so does who asks while nobody follows."""
        if not (revision and mirror.viewers):
            await self._look(mirror, call)
        return self._marks_of(mirror).since(revision)

    def follow(self, mirror: Mirror) -> None:
        """Look soon, because something may have changed."""
        self._due.add(mirror)
        if mirror not in self._tasks:
            self._tasks[mirror] = asyncio.create_task(self._look_while_due(mirror), name="states")

    async def close(self) -> None:
        for task in tuple(self._tasks.values()):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _look_while_due(self, mirror: Mirror) -> None:
        loop = asyncio.get_running_loop()
        try:
            while mirror in self._due:
                await asyncio.sleep(SOON_SECONDS)
                self._due.discard(mirror)
                began = loop.time()
                await self._look(mirror, mirror.call)
                await asyncio.sleep(min(REST * (loop.time() - began), LONGEST_REST_SECONDS))
        except CellwrightError as error:
            log.info("states_not_seen uri=%s error=%s", mirror.uri, error.code)
        finally:
            self._due.discard(mirror)
            del self._tasks[mirror]

    async def _look(self, mirror: Mirror, call: Call) -> None:
        shown = await self._facts.states(call, mirror.uri)
        marks = self._marks_of(mirror)
        if shown is not None and marks.take(shown):
            self._tell(mirror, marks.revision)

    def _marks_of(self, mirror: Mirror) -> MarksOfCells:
        return self._marks.setdefault(mirror, MarksOfCells())
