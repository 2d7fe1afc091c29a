"""The one search over everything that the caller may see."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from cellwright.app.search.background import Indexing, Progress
from cellwright.app.search.ranking import Ranked, ranked, snippet
from cellwright.core.resources import Change, Changes, ResourceListChanged
from cellwright.core.text.clean import clean
from cellwright.core.text.names import on_one_line
from cellwright.core.types import Call
from cellwright.notebook.places import Address, Collection, Findable, Place, PlaceKind, Reading
from cellwright.storage.search.port import Entry, Found, Hit, Mode, Query, SearchIndex
from cellwright.storage.search.words import words_of

DEPTH = 100
"""Parts that each ranking of each tenant is looked down before they are merged: several may be of one thing."""
FIRST_WAIT, LATER_WAIT = 2.0, 0.5
"""Seconds that a search waits for the index: until it was made once, and to take in what changed since."""
SNIPPETS = ((10, 240), (25, 140), (50, 80))
"""How long a snippet may be, by how many results are wanted: all of them together are within the budget of a result."""
LONGEST_TITLE = 80
REMEMBERED_CALLERS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Address):
    """One thing that was found, by its best part."""

    kind: PlaceKind
    score: float
    snippet: str


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What was found, best first, and how."""

    results: list[Result]
    mode: Mode
    indexing: Progress


class Finder:
    """Looks into everything. What nobody puts into the index by themselves is put there when somebody first searches."""

    def __init__(self, index: SearchIndex, indexing: Indexing, changes: Changes, shelves: Sequence[Findable]) -> None:
        self._index = index
        self._indexing = indexing
        self._shelves = shelves
        self._shelf_of = {kind: shelf for shelf in shelves for kind in shelf.kinds}
        self._own: OrderedDict[str, list[Collection]] = OrderedDict()
        self._unsubscribe = changes.subscribe(self._look_again)

    async def search(self, call: Call, text: str, kinds: Sequence[PlaceKind], limit: int) -> SearchAnswer:
        wanted = tuple(kinds) or tuple(PlaceKind)
        every = [shelf.collection(call) for shelf in self._shelves]
        collections = [one for one in every if one is not None and set(one.kinds) & set(wanted)]
        self._remember(call, collections)
        progress = await self._indexing.caught_up(collections, FIRST_WAIT, LATER_WAIT)
        by_words, by_meaning = await self._asked(call, text, wanted)
        best = ranked(by_words.hits, by_meaning.hits, limit)
        longest = next(longest for most, longest in SNIPPETS if limit <= most)
        words = words_of(text)
        seen = await self._index.of_each([one.hit for one in best], lambda entry: _seen(entry, words, longest))
        results = [await self._result(one, shown) for one, shown in zip(best, seen, strict=True)]
        return SearchAnswer(results, Mode.HYBRID if by_meaning.mode is Mode.SEMANTIC else Mode.TEXT, progress)

    async def close(self) -> None:
        self._unsubscribe()
        await self._indexing.close()

    async def _asked(self, call: Call, text: str, kinds: Sequence[PlaceKind]) -> tuple[Found, Found]:
        """What all tenants together have by words, and by meaning; nothing by meaning where there is no model yet."""
        tenants: dict[str, list[PlaceKind]] = {}
        for kind in kinds:
            tenants.setdefault(self._shelf_of[kind].kinds[kind] or call.principal.id, []).append(kind)
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

    async def _result(self, one: Ranked, shown: str) -> Result:
        entry = one.hit.entry
        place = Place(PlaceKind(entry.key.kind), entry.key.thing)
        found = Reading(place, entry.text, entry.title, entry.namespace, entry.key.part)
        address = await self._shelf_of[place.kind].address(found)
        title = address.title or on_one_line(address.path or (entry.title or place.id)[:LONGEST_TITLE])
        told = asdict(replace(address, title=title))
        return Result(**told, kind=place.kind, score=round(one.score, 4), snippet=shown)

    # -- the caller's own, which may be gone at any time ---------------------------------------------------------------------

    def _remember(self, call: Call, collections: Sequence[Collection]) -> None:
        own = [collection for collection in collections if collection.tenant == call.principal.id]
        if own:
            self._own[call.principal.id] = own
            self._own.move_to_end(call.principal.id)
        while len(self._own) > REMEMBERED_CALLERS:
            self._own.popitem(last=False)

    def _look_again(self, change: Change) -> None:
        """What its owner threw away is to leave the index too, and not only when they search again."""
        if isinstance(change, ResourceListChanged) and change.principal_id is not None:
            for collection in self._own.get(change.principal_id, ()):
                self._indexing.begin(collection, now=True)


def _hits(found: Sequence[Found]) -> tuple[Hit, ...]:
    return tuple(hit for one in found for hit in one.hits)


def _seen(entry: Entry, words: Sequence[str], longest: int) -> str:
    return snippet(clean(entry.text).text, words, longest)
