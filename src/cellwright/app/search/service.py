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
from cellwright.storage.search.port import Found, Hit, Mode, Query, SearchIndex
from cellwright.storage.search.words import words_of

DEPTH = 100
"""How many parts of each ranking of each tenant are merged; several may belong to one place."""
FIRST_WAIT, LATER_WAIT = 2.0, 0.5
"""Seconds that a search waits for the index: until it was built once, and later for changes."""
SNIPPETS = ((10, 240), (25, 140), (50, 80))
"""The longest snippet by the number of results, so that all of them together are within the budget of a result."""
LONGEST_TITLE = 80
REMEMBERED_CALLERS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Address):
    """A place that was found, by its best part."""

    kind: PlaceKind
    score: float
    snippet: str


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The results, best first, and how they were found."""

    results: list[Result]
    mode: Mode
    indexing: Progress


class Finder:
    """Searches everything. Places that their parts do not index are indexed when somebody first searches."""

    def __init__(self, index: SearchIndex, indexing: Indexing, changes: Changes, shelves: Sequence[Findable]) -> None:
        self._index = index
        self._indexing = indexing
        self._shelves = shelves
        self._shelf_of = {kind: shelf for shelf in shelves for kind in shelf.kinds}
        self._own: OrderedDict[str, list[Collection]] = OrderedDict()
        self._unsubscribe = changes.subscribe(self._look_again)

    async def search(self, call: Call, text: str, kinds: Sequence[PlaceKind], limit: int) -> SearchAnswer:
        kinds = tuple(kinds) or tuple(PlaceKind)
        collections = [
            collection
            for shelf in self._shelves
            if (collection := shelf.collection(call)) is not None and set(collection.kinds) & set(kinds)
        ]
        self._remember(call, collections)
        progress = await self._indexing.caught_up(collections, FIRST_WAIT, LATER_WAIT)
        by_words, by_meaning = await self._search_tenants(call, text, kinds)
        best = ranked(by_words.hits, by_meaning.hits, limit)
        longest = next(longest for most, longest in SNIPPETS if limit <= most)
        words = words_of(text)
        snippets = await self._index.of_each(
            [place.hit for place in best], lambda entry: snippet(clean(entry.text).text, words, longest)
        )
        results = [await self._result(place, snippet_text) for place, snippet_text in zip(best, snippets, strict=True)]
        return SearchAnswer(results, Mode.HYBRID if by_meaning.mode is Mode.SEMANTIC else Mode.TEXT, progress)

    async def close(self) -> None:
        self._unsubscribe()
        await self._indexing.close()

    async def _search_tenants(self, call: Call, text: str, kinds: Sequence[PlaceKind]) -> tuple[Found, Found]:
        """The hits of all tenants together, by words and by meaning; none by meaning where there is no model yet."""
        tenants: dict[str, list[PlaceKind]] = {}
        for kind in kinds:
            tenants.setdefault(self._shelf_of[kind].kinds[kind] or call.principal.id, []).append(kind)
        queries = [
            Query(tenant, text, tuple(tenant_kinds), limit=DEPTH, mode=Mode.TEXT)
            for tenant, tenant_kinds in tenants.items()
        ]
        by_words, by_meaning = await asyncio.gather(self._by_words(queries), self._by_meaning(queries))
        mode = Mode.SEMANTIC if by_meaning else Mode.TEXT
        return Found(_hits(by_words), Mode.TEXT), Found(_hits(by_meaning), mode)

    async def _by_words(self, queries: Sequence[Query]) -> list[Found]:
        return [await self._index.search(query) for query in queries]

    async def _by_meaning(self, queries: Sequence[Query]) -> list[Found]:
        """One after the other: the index embeds a question once, and if one tenant has no vectors, none has."""
        answers: list[Found] = []
        for query in queries:
            answer = await self._index.search(replace(query, mode=Mode.SEMANTIC))
            if answer.mode is not Mode.SEMANTIC:
                break
            answers.append(answer)
        return answers

    async def _result(self, best: Ranked, snippet_text: str) -> Result:
        entry = best.hit.entry
        place = Place(PlaceKind(entry.key.kind), entry.key.thing)
        reading = Reading(place, entry.text, entry.title, entry.namespace, entry.key.part)
        address = await self._shelf_of[place.kind].address(reading)
        title = address.title or on_one_line(address.path or (entry.title or place.id)[:LONGEST_TITLE])
        fields = asdict(replace(address, title=title))
        return Result(**fields, kind=place.kind, score=round(best.score, 4), snippet=snippet_text)

    # -- the callers' own collections, which may be gone at any time ---------------------------------------------------------

    def _remember(self, call: Call, collections: Sequence[Collection]) -> None:
        own = [collection for collection in collections if collection.tenant == call.principal.id]
        if own:
            self._own[call.principal.id] = own
            self._own.move_to_end(call.principal.id)
        while len(self._own) > REMEMBERED_CALLERS:
            self._own.popitem(last=False)

    def _look_again(self, change: Change) -> None:
        """Update the index as soon as owners throw something away, not only when they search again."""
        if isinstance(change, ResourceListChanged) and change.principal_id is not None:
            for collection in self._own.get(change.principal_id, ()):
                self._indexing.begin(collection, now=True)


def _hits(answers: Sequence[Found]) -> tuple[Hit, ...]:
    return tuple(hit for answer in answers for hit in answer.hits)
