"""The one search over everything that the caller may see."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cellwright.app.finding.addresses import address_of
from cellwright.app.finding.background import Indexing
from cellwright.app.finding.model import Kind, Place, Progress, Result
from cellwright.app.finding.ranking import Ranked, ranked, snippet
from cellwright.context.names import on_one_line
from cellwright.core.clean import clean
from cellwright.core.resources import Change, Changes, ResourceListChanged
from cellwright.core.types import Call
from cellwright.storage.search import Entry, Found, Hit, Mode, Query, SearchIndex
from cellwright.storage.words import words_of

DEPTH = 100
"""Parts that each ranking of each tenant is looked down before they are merged: several may be of one thing."""
FIRST_WAIT, LATER_WAIT = 2.0, 0.5
"""Seconds that a search waits for the index: until it was made once, and to take in what changed since."""
SNIPPETS = ((10, 240), (25, 140), (50, 80))
"""How long a snippet may be, by how many results are wanted: all of them together are within the budget of a result."""
LONGEST_TITLE = 80
REMEMBERED_CALLERS = 1_000
OWN = (Kind.PAD, Kind.THINKING)
"""What is the caller's alone."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found, best first, and how."""

    results: list[Result]
    mode: Mode
    indexing: Progress


class Finder:
    """Looks into everything. What nobody puts into the index by themselves is put there when somebody first searches."""

    def __init__(
        self,
        index: SearchIndex,
        indexing: Indexing,
        changes: Changes,
        *,
        shared: Mapping[Kind, str],
        places: Callable[[Call], Sequence[Place]],
        folder: Callable[[], Awaitable[str]],
    ) -> None:
        """`shared` are the tenants of what everybody may see who may read."""
        self._index = index
        self._indexing = indexing
        self._shared = shared
        self._places = places
        self._folder = folder
        self._own_places: OrderedDict[str, list[Place]] = OrderedDict()
        self._unsubscribe = changes.subscribe(self._look_again)

    async def search(self, call: Call, text: str, kinds: Sequence[Kind], limit: int) -> Answer:
        wanted = tuple(kinds) or tuple(Kind)
        places = [place for place in self._places(call) if set(place.kinds) & set(wanted)]
        self._remember(call, places)
        progress = await self._indexing.caught_up(places, FIRST_WAIT, LATER_WAIT)
        by_words, by_meaning = await self._asked(call, text, wanted)
        best = ranked(by_words.hits, by_meaning.hits, limit)
        is_about_notebooks = any(one.hit.entry.key.kind == Kind.NOTEBOOK for one in best)
        folder = await self._folder() if is_about_notebooks else ""
        longest = next(longest for most, longest in SNIPPETS if limit <= most)
        words = words_of(text)
        # Long texts take a while to be looked through, and others are not to wait for it.
        results = await asyncio.to_thread(lambda: [_result(one, words, folder, longest) for one in best])
        return Answer(results, Mode.HYBRID if by_meaning.mode is Mode.SEMANTIC else Mode.TEXT, progress)

    async def close(self) -> None:
        self._unsubscribe()
        await self._indexing.close()

    async def _asked(self, call: Call, text: str, kinds: Sequence[Kind]) -> tuple[Found, Found]:
        """What all tenants together have by words, and by meaning; nothing by meaning where there is no model yet."""
        tenants: dict[str, list[Kind]] = {}
        for kind in kinds:
            tenants.setdefault(call.principal.id if kind in OWN else self._shared[kind], []).append(kind)
        asked = [Query(tenant, text, tuple(of), limit=DEPTH, mode=Mode.TEXT) for tenant, of in tenants.items()]
        said, meant = await asyncio.gather(self._by_words(asked), self._by_meaning(asked))
        return Found(_hits(said), Mode.TEXT), Found(_hits(meant), Mode.SEMANTIC if meant else Mode.TEXT)

    async def _by_words(self, queries: Sequence[Query]) -> list[Found]:
        return [await self._index.search(query) for query in queries]

    async def _by_meaning(self, queries: Sequence[Query]) -> list[Found]:
        """One after the other: the index embeds a question once, and where one tenant has no vectors, none has."""
        found: list[Found] = []
        for query in queries:
            answer = await self._index.search(replace(query, mode=Mode.SEMANTIC))
            if answer.mode is not Mode.SEMANTIC:
                break
            found.append(answer)
        return found

    # -- the caller's own, which may be gone at any time ---------------------------------------------------------------------

    def _remember(self, call: Call, places: Sequence[Place]) -> None:
        own = [place for place in places if place.tenant == call.principal.id]
        if own:
            self._own_places[call.principal.id] = own
            self._own_places.move_to_end(call.principal.id)
        while len(self._own_places) > REMEMBERED_CALLERS:
            self._own_places.popitem(last=False)

    def _look_again(self, change: Change) -> None:
        """What its owner threw away is to leave the index too, and not only when they search again."""
        if isinstance(change, ResourceListChanged) and change.principal_id is not None:
            for place in self._own_places.get(change.principal_id, ()):
                self._indexing.begin(place, now=True)


def _hits(found: Sequence[Found]) -> tuple[Hit, ...]:
    return tuple(hit for one in found for hit in one.hits)


def _result(one: Ranked, words: Sequence[str], folder: str, longest: int) -> Result:
    entry = one.hit.entry
    address = address_of(entry, folder)
    return Result(
        Kind(entry.key.kind),
        _title(entry, address.path),
        address.uri,
        address.whole,
        round(one.score, 4),
        snippet(clean(entry.text).text, words, longest),
        address.path,
        address.cell_id,
        address.line,
    )


def _title(entry: Entry, path: str | None) -> str:
    if entry.key.kind == Kind.DISCOVERY:
        return f"{entry.title}: {' '.join(clean(entry.text).text.split())[:LONGEST_TITLE]}"
    return on_one_line(path or (entry.title or entry.key.thing)[:LONGEST_TITLE])
