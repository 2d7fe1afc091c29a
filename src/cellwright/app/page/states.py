"""The states of a notebook's code cells and the links between them, as the page shows them. Looked at with the scope to read alone."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import islice
from weakref import WeakKeyDictionary

from typing_extensions import TypedDict

from cellwright.core.text.sight import seen
from cellwright.core.types import Call, Scope
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.shelf import path_of
from cellwright.jupyter.staleness.tracking import NO_NAME, StatesOfNotebook, index_of
from cellwright.jupyter.staleness.words import because_shown, name_shown, states_shown
from cellwright.notebook.dependencies.states import CellState, State
from cellwright.web.mirror import NAMELESS
from cellwright.web.ports import CellMark, ShownStates

MOST_NODES = 200
"""Of a notebook with more code cells, only those are drawn that have to do with one of them."""
MOST_NAMES = 20
FIRST_CHARACTERS = 80
SLICE = 500
FRESH = CellMark(state=State.FRESH.value, because="")
NOT_SEEN = CellState(State.UNKNOWN)

Links = Mapping[str, Mapping[str, Sequence[str]]]
"""For each code cell the names that it uses, and the cells that they come from."""


class Node(TypedDict):
    id: str
    index: int
    first: str
    state: str
    because: str
    opaque: str
    """Why the cell may use and change any name; empty if it may not."""


class Link(TypedDict):
    """What one cell uses of another."""

    source: str
    target: str
    names: list[str]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The states of an open notebook."""

    states: StatesOfNotebook
    view: LiveNotebook

    def mark(self, key: str, state: CellState) -> CellMark:
        if state.state is State.FRESH:
            return FRESH
        return {"state": state.state.value, "because": because_shown(self.states, self.view, key, state)}

    async def marks(self) -> dict[str, CellMark]:
        marks: dict[str, CellMark] = {}
        for number, (key, state) in enumerate(tuple(self.states.judged.items())):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            marks[_name(key)] = self.mark(key, state)
        return marks

    def together(self) -> Mapping[str, object]:
        """What the states mean together: whether a run from top to bottom would give what is shown, and which names are undefined."""
        return {} if self.states.is_late else {**states_shown(self.states, self.view)}

    def node(self, key: str) -> Node:
        index = index_of(self.view, key) or 0
        source = self.view.head(index).source.strip()[:FIRST_CHARACTERS]
        mark = self.mark(key, self.states.judged.get(key, NOT_SEEN))
        opaque = seen(self.states.opaque(key)).text
        first = next(iter(seen(source).text.splitlines()), "")
        return {"id": _name(key), "index": index, "first": first, **mark, "opaque": opaque}


class StatesOnPage:
    """The states and graphs of notebooks, as the page shows them."""

    def __init__(self, notebooks: LiveNotebooks) -> None:
        self._notebooks = notebooks
        self._shown: WeakKeyDictionary[StatesOfNotebook, tuple[int, ShownStates]] = WeakKeyDictionary()
        """What was last shown of a notebook, with the version of its states."""

    async def states(self, call: Call, uri: str) -> ShownStates | None:
        """None while they are still worked out: a large notebook that was just opened."""
        async with self._looked_at(call, uri) as notebook:
            if notebook.states.is_late:
                return None
            version = notebook.states.version
            known_version, known = self._shown.get(notebook.states, (-1, None))
            if known is None or known_version != version:
                known = ShownStates(await notebook.marks(), notebook.together())
                self._shown[notebook.states] = (version, known)
            return known

    async def graph(self, call: Call, uri: str, cell: str) -> Mapping[str, object]:
        """The code cells and their links, in their order. `around` names the cell to which the others belong, if these are not all."""
        async with self._looked_at(call, uri) as notebook:
            links = notebook.states.links()
            chosen, drawn = "", list(links)
            if len(drawn) > MOST_NODES:
                chosen = next((key for key in links if _name(key) == cell), drawn[0])
                near = _around(links, chosen)
                drawn = [key for key in drawn if key in near]
            return {
                "cells": [notebook.node(key) for key in drawn],
                "links": _links_among(links, drawn),
                "total": len(links),
                "around": _name(chosen),
                **notebook.together(),
            }

    @asynccontextmanager
    async def _looked_at(self, call: Call, uri: str) -> AsyncGenerator[_Seen]:
        reader = replace(call, principal=replace(call.principal, scopes=frozenset({Scope.READ})))
        async with self._notebooks.open(reader, path_of(uri), looks=True) as document:
            connected = await self._notebooks.connected(reader)
            states = await self._notebooks.states.look(reader, connected, document, aside=True)
            yield _Seen(states, document.view)


def _name(key: str) -> str:
    """The name that the page has for a cell."""
    return f"{NAMELESS}{key[len(NO_NAME) :]}" if key.startswith(NO_NAME) else key


def _links_among(links: Links, cells: Sequence[str]) -> list[Link]:
    places = {key: place for place, key in enumerate(cells)}
    found: list[Link] = []
    for target in cells:
        names: dict[str, list[str]] = {}
        for name, sources in links[target].items():
            for source in places.keys() & sources:
                names.setdefault(source, []).append(name_shown(name))
        found += [
            Link(source=_name(source), target=_name(target), names=sorted(used)[:MOST_NAMES])
            for source, used in sorted(names.items(), key=lambda entry: places[entry[0]])
        ]
    return found


def _around(links: Links, chosen: str) -> frozenset[str]:
    """A cell with those that it needs and those that need it, also over others; the nearest, where they are too many."""
    sources = {key: frozenset(source for found in used.values() for source in found) for key, used in links.items()}
    targets: dict[str, set[str]] = {}
    for key, found in sources.items():
        for source in found:
            targets.setdefault(source, set()).add(key)
    near = {chosen: None}
    above, below = {chosen}, {chosen}
    while (above or below) and len(near) < MOST_NODES:
        above = {source for key in above for source in sources[key]} - near.keys()
        below = {target for key in below for target in targets.get(key, ())} - near.keys()
        near |= dict.fromkeys(above) | dict.fromkeys(below)
    return frozenset(islice(near, MOST_NODES))
