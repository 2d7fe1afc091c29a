"""Which cell of a notebook depends on which, when all run from top to bottom. Kept as cells come, go, move and change."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain

from cellwright.notebook.dependencies.linking import GIVEN, Effects, Link, effects_of, linked_names, links_of
from cellwright.notebook.dependencies.model import NONE, NOTHING, CellNames

MOST_CHAINED = 200
"""Of cells one after the other that may bind a name, the last so many count."""
MOST_LOOKED_BACK = 50
"""Of the cells that may have bound a name, or let it share an object, the last so many are looked at."""


@dataclass(frozen=True, slots=True)
class CellLink:
    """What a cell depends on."""

    effects: Effects = field(default_factory=Effects)
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """For each name that it uses, the cells above from which its value comes, if there are any: one that writes it, and those below that
    may do so."""
    depends_on: frozenset[str] = NONE

    @property
    def dark(self) -> str:
        """Why the cell may read and write any name; empty if it may not."""
        return self.effects.dark


class CellGraph:
    """The cells of a notebook by their keys, in their order, each linked to those above that it depends on."""

    def __init__(self) -> None:
        self.order: Sequence[str] = ()
        self.position: Mapping[str, int] = {}
        self._names: dict[str, CellNames] = {}
        self._links: dict[str, CellLink] = {}
        self._writers: dict[str, list[str]] = {}
        self._readers: dict[str, list[str]] = {}
        """For each name, the cells that use it, and those whose links it decides."""
        self._sharing: dict[str, list[str]] = {}
        """For each name, the cells that let it share an object with another."""
        self._dark: list[str] = []
        self._stars: list[str] = []
        self._dependents: dict[str, set[str]] = {}

    def link(self, key: str) -> CellLink:
        return self._links[key]

    def names(self, key: str) -> CellNames:
        return self._names[key]

    def readers(self, key: str) -> Collection[str]:
        """The cells that depend on a cell directly."""
        return self._dependents.get(key, ())

    def dependents(self, keys: Iterable[str]) -> set[str]:
        """These cells, and all that depend on them, over however many cells."""
        reached: set[str] = set()
        pending = list(keys)
        while pending:
            key = pending.pop()
            if key not in reached:
                reached.add(key)
                pending += self._dependents.get(key, ())
        return reached

    def certain_dependents(self, key: str) -> set[str]:
        """All cells that use what this one writes, over however many cells; not those of which that is only possible."""
        reached: set[str] = set()
        pending = [key]
        while pending:
            writer = pending.pop()
            certain = NONE if self._links[writer].dark else self._links[writer].effects.defines
            for reader in self._dependents.get(writer, ()) if certain else ():
                sources = self._links[reader].sources
                uses = any(sources[name][-1] == writer for name in certain & sources.keys() if not name.startswith("<"))
                if reader not in reached and uses:
                    reached.add(reader)
                    pending.append(reader)
        return reached - {key}

    def needed(self, key: str) -> set[str]:
        """All cells on which this one depends, over however many cells."""
        reached: set[str] = set()
        pending = [key]
        while pending:
            for source in self._links[pending.pop()].depends_on:
                if source not in reached:
                    reached.add(source)
                    pending.append(source)
        return reached

    def writers(self, name: str) -> Sequence[str]:
        """The cells that write a name, in their order."""
        return self._writers.get(name, ())

    def arrange(self, order: Sequence[str], changed: Mapping[str, CellNames]) -> set[str]:
        """Take over the cells as they stand now. `changed` has those that are new, moved or changed. Returns whose link was made anew."""
        position = self.position
        gone: Sequence[str] = [key for key in changed if key in position]
        if order is not self.order:
            position = {key: number for number, key in enumerate(order)}
            if [key for key in self.order if key in position and key not in changed] != [
                key for key in order if key not in changed
            ]:
                # More has moved than we were told of.
                changed = {**{key: self._names.get(key, NOTHING) for key in order}, **changed}
            gone = [key for key in self.order if key in changed or key not in position]
        queue: list[str] = []
        for key in gone:
            queue += self._affected(key, self._links[key])
            self._unlink(key)
        self.order, self.position = order, position
        self._names.update(changed)
        # In the order of the notebook, so that each is linked once those above it are.
        heap: list[tuple[int, str]] = []
        waiting = {key for key in (*queue, *changed) if key in position}
        for key in waiting:
            heappush(heap, (position[key], key))
        relinked: set[str] = set()
        while heap:
            _, key = heappop(heap)
            if key not in waiting:
                continue
            waiting.discard(key)
            before = self._links.get(key)
            below = self._relink(key, is_changed=key in changed)
            if self._links[key] != before:
                relinked.add(key)
            for reader in below:
                if reader not in waiting:
                    waiting.add(reader)
                    heappush(heap, (position[reader], reader))
        return relinked

    def _unlink(self, key: str) -> None:
        link, names = self._links.pop(key), self._names.pop(key)
        self._index(key, link, CellLink())
        for name in linked_names(names):
            self._take(self._sharing, name, key)
        if names.stars:
            self._stars.remove(key)
        self._dependents.pop(key, None)

    def _relink(self, key: str, *, is_changed: bool) -> set[str]:
        """Link a cell. Returns the cells below whose links may be others now."""
        before, names = self._links.get(key), self._names[key]
        if before is None:
            before = CellLink()
            for name in linked_names(names):
                self._put(self._sharing, name, key)
            if names.stars:
                self._insert(self._stars, key)
        link = self._links[key] = self._linked(key, names)
        self._index(key, before, link)
        if is_changed or before.effects.writes != link.effects.writes or before.dark != link.dark:
            return {*self._affected(key, before), *self._affected(key, link)}
        return set()

    def _index(self, key: str, before: CellLink, after: CellLink) -> None:
        """Note who writes and reads what, and who depends on whom."""
        for index, names_before, names_after in (
            (self._writers, before.effects.writes, after.effects.writes),
            (self._readers, before.effects.uses | before.effects.asked, after.effects.uses | after.effects.asked),
        ):
            for name in names_before - names_after:
                self._take(index, name, key)
            for name in names_after - names_before:
                self._put(index, name, key)
        if before.dark and not after.dark:
            self._dark.remove(key)
        elif after.dark and not before.dark:
            self._insert(self._dark, key)
        for source in before.depends_on - after.depends_on:
            self._dependents.get(source, set()).discard(key)
        for source in after.depends_on:
            self._dependents.setdefault(source, set()).add(key)

    def _linked(self, key: str, names: CellNames) -> CellLink:
        place = self.position[key]
        last_dark = self._last_before(self._dark, place)
        effects = effects_of(names, _Above(self, place))
        if effects.dark:
            first = self.position[last_dark] if last_dark is not None else 0
            return CellLink(effects, depends_on=frozenset(self.order[first:place]))
        last_star = self._last_before(self._stars, place)
        sources = {
            name: cells for name in effects.uses if (cells := self._chain(name, place, dark=last_dark, star=last_star))
        }
        return CellLink(effects, sources, frozenset(chain.from_iterable(sources.values())))

    def _chain(self, name: str, place: int, *, dark: str | None, star: str | None) -> Sequence[str]:
        """The cells from which a name has its value above this place."""
        lowest = self.position[dark] if dark is not None else -1
        writers = self._writers.get(name, ())
        above: list[str] = []
        for writer in reversed(writers[: self._bisect(writers, place)]):
            if self.position[writer] <= lowest:
                break
            above.append(writer)
            if self._settles(writer, name) or len(above) == MOST_CHAINED:
                return above[::-1]
        if dark is not None and (name not in GIVEN or above):
            above.append(dark)
        elif star is not None:
            above.append(star)
        return above[::-1]

    def _settles(self, writer: str, name: str) -> bool:
        """Whether after this cell the name has a value that the cell made, or has read before."""
        effects = self._links[writer].effects
        return name in effects.defines or name in effects.changes

    def binders_above(self, name: str, place: int) -> Sequence[CellNames]:
        """The cells above a place that may have bound a name, back to one that surely did."""
        binders: list[CellNames] = []
        for writer in self._lowest(self._writers, name, place):
            names = self._names[writer]
            if name in names.defines or name in names.perhaps:
                binders.append(names)
            if name in names.defines:
                break
        return binders

    def links_above(self, name: str, place: int) -> Iterable[tuple[Link, bool]]:
        """The links between a name and others that cells above a place have made, and whether they still hold there."""
        bound_at = self._bound_at(name, place)
        for cell in self._lowest(self._sharing, name, place):
            cell_place = self.position[cell]
            if cell_place < bound_at:
                return
            for link in links_of(self._names[cell]):
                if name in (link.name, link.other):
                    other = link.other if link.name == name else link.name
                    yield link, self._bound_at(other, place) <= cell_place

    def _bound_at(self, name: str, place: int) -> int:
        """Where the name was last surely bound above this place; -1 if it was not."""
        for writer in self._lowest(self._writers, name, place):
            if name in self._names[writer].defines:
                return self.position[writer]
        return -1

    def _lowest(self, index: Mapping[str, Sequence[str]], name: str, place: int) -> Iterable[str]:
        """The cells of a name above a place, from there on upwards; not endlessly many."""
        cells = index.get(name, ())
        number = self._bisect(cells, place)
        return reversed(cells[max(0, number - MOST_LOOKED_BACK) : number])

    def _affected(self, key: str, link: CellLink) -> Iterable[str]:
        """The cells below whose links lead to this one, or may."""
        place = self.position[key]
        names = self._names[key]
        if link.dark or names.stars:
            # Any name may be meant, as far as the next such cell.
            following = self._dark[self._bisect(self._dark, place + 1) :][:1]
            end = self.position[following[0]] + 1 if link.dark and following else len(self.order)
            return self.order[place + 1 : end]
        affected: list[str] = []
        if self._dark and (following := self._dark[self._bisect(self._dark, place + 1) :]):
            # It depends on all cells above, up to the one before it of its kind.
            affected.append(following[0])
        known_by = names.defines | names.perhaps | linked_names(names)
        for name in link.effects.writes | known_by:
            readers, writers = self._readers.get(name, ()), self._writers.get(name, ())
            below = writers[self._bisect(writers, place + 1) :]
            # What a name stands for is known by who bound it, its value by who changed it last.
            ends = (
                writer
                for writer in below
                if name in self._names[writer].defines or (name not in known_by and self._settles(writer, name))
            )
            last = next(ends, None)
            end = self.position[last] + 1 if last is not None else len(self.order)
            affected += readers[self._bisect(readers, place + 1) : self._bisect(readers, end)]
        return affected

    def _bisect(self, keys: Sequence[str], place: int) -> int:
        return bisect_left(keys, place, key=self.position.__getitem__)

    def _last_before(self, keys: Sequence[str], place: int) -> str | None:
        number = self._bisect(keys, place)
        return keys[number - 1] if number else None

    def _insert(self, keys: list[str], key: str) -> None:
        keys.insert(self._bisect(keys, self.position[key]), key)

    def _put(self, index: dict[str, list[str]], name: str, key: str) -> None:
        self._insert(index.setdefault(name, []), key)

    def _take(self, index: dict[str, list[str]], name: str, key: str) -> None:
        keys = index[name]
        del keys[self._bisect(keys, self.position[key])]
        if not keys:
            del index[name]


class _Above:
    """What is known of names at a place of a notebook, by the cells above it."""

    def __init__(self, graph: CellGraph, place: int) -> None:
        self._graph = graph
        self._place = place

    def binders(self, name: str) -> Sequence[CellNames]:
        return self._graph.binders_above(name, self._place)

    def links(self, name: str) -> Iterable[Link]:
        return [link for link, holds in self._graph.links_above(name, self._place) if holds]

    def broken_links(self, name: str) -> Iterable[str]:
        links = self._graph.links_above(name, self._place)
        return [end for link, holds in links if not holds for end in (link.name, link.other)]
