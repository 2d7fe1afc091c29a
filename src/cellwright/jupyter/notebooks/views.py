"""A notebook at one moment, and what a caller knows of it."""

import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import eq

from cellwright.notebook.addressing import execution_count_in, only_cell_showing

NAME_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
NAME_CHARACTERS = 4
NOT_SHOWN = "-"
"""Stands for the revision of a cell that came after the last view, and of which the text was not shown."""
COMPARED_AT_ONCE = 256
FEW = 8
"""So many cells are looked for one by one."""


def new_name() -> str:
    """A short word that nobody can foresee."""
    return _word(secrets.randbits(64))


def _word(number: int) -> str:
    """A short word for a number."""
    letters: list[str] = []
    for _ in range(NAME_CHARACTERS):
        number, letter = divmod(number, len(NAME_ALPHABET))
        letters.append(NAME_ALPHABET[letter])
    return "".join(letters)


def fingerprint(cell_id: str, revision: str, count: int | None) -> int:
    """What a cell adds to the fingerprint of its notebook."""
    return hash((cell_id, revision, count))


@dataclass(frozen=True)
class Order:
    """The cells of a notebook, one after the other. Sights between which no cell came, went or moved share one."""

    ids: tuple[str, ...]
    placed: tuple[int, ...] = field(default=(), compare=False)
    """Of each cell, a number that is another one whenever it is put somewhere; empty if that was not followed."""

    @cached_property
    def fingerprint(self) -> int:
        return hash(self.ids)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """A name for each cell that no other has: its id; for those that share one or have none, with its place among them."""
        distinct = set(self.ids)
        if len(distinct) == len(self.ids) and "" not in distinct:
            return self.ids
        occurrences = Counter(self.ids)
        places: Counter[str] = Counter()
        keys: list[str] = []
        for cell_id in self.ids:
            alone = cell_id and occurrences[cell_id] == 1
            keys.append(cell_id if alone else f"{cell_id}\0{places[cell_id]}/{occurrences[cell_id]}")
            places[cell_id] += 1
        return tuple(keys)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Where each cell was, by its key. An id that several cells have is none."""
        return {key: index for index, key in enumerate(self.keys)}

    def places_of(self, numbers: Collection[int]) -> dict[int, int]:
        """Where the cells with these numbers in `placed` were; those that were there."""
        if len(numbers) > FEW:
            return {number: index for index, number in enumerate(self.placed) if number in numbers}
        return {number: self.placed.index(number) for number in numbers if number in self.placed}


@dataclass(frozen=True, slots=True)
class Since:
    """How a sight differs from an earlier one with the same order: few cells do, and the others need not be looked at."""

    token: object
    """Of the earlier one, which itself may be forgotten."""
    changed: frozenset[int]
    """The indexes of the cells whose text or count may be another."""
    fingerprint: int
    """Of the later one."""


@dataclass(frozen=True)
class Sight:
    """A notebook at one moment: its cells in order, with the revision and the execution count of each."""

    order: Order
    revisions: tuple[str, ...]
    counts: tuple[int | None, ...]
    token: object = field(default_factory=object, compare=False, repr=False)
    since: "Since | None" = field(default=None, compare=False, repr=False)
    """How it differs from the one before it, if that is known."""

    @property
    def ids(self) -> tuple[str, ...]:
        return self.order.ids

    @property
    def keys(self) -> tuple[str, ...]:
        return self.order.keys

    @property
    def positions(self) -> Mapping[str, int]:
        return self.order.positions

    @cached_property
    def name(self) -> str:
        """A word that is the same for the same notebook, as long as this process lives."""
        return _word(abs(hash((self.order.fingerprint, self.fingerprint))))

    @cached_property
    def fingerprint(self) -> int:
        """A number that is the same for the same texts and counts."""
        if self.since is not None:
            return self.since.fingerprint
        return sum(map(fingerprint, self.ids, self.revisions, self.counts))

    def still_has(self, position: int, now: "Sight", index: int) -> bool:
        """Whether the cell that was at `position` is certainly the one at `index` now, and nobody put it there since."""
        placed, now_placed = self.order.placed, now.order.placed
        return bool(placed and now_placed) and placed[position] == now_placed[index]

    def has_order_of(self, other: "Sight") -> bool:
        """Whether the other has the same cells in the same order."""
        return self.order is other.order or self.order.ids == other.order.ids

    def position_of(self, name: str) -> int | None:
        """Where the cell with this id was, or the one that showed [12]; None if it was not there."""
        position = self.positions.get(name)
        count = None if position is not None else execution_count_in(name)
        if count is None:
            return position
        showing = [index for index, shown_count in enumerate(self.counts) if shown_count == count]
        return only_cell_showing(name, self.ids, showing) if showing else None


@dataclass(frozen=True, slots=True)
class View:
    """What a caller knows of a notebook: its cells at one moment, and of which of them the caller saw an older text."""

    sight: Sight
    unseen: Mapping[str, str]
    """By a cell's key: the revision that the caller saw, where the sight has another."""
    name: str
    """The word that stands for it in answers and later calls."""
    aside: bool = False
    """Whether it counts only in calls that name it."""

    @classmethod
    def of(cls, sight: Sight, unseen: Mapping[str, str], *, aside: bool = False) -> "View":
        """A view whose name is the same for the same notebook with the same texts unseen."""
        plain = not unseen and not aside
        name = sight.name if plain else _word(abs(hash((sight.name, frozenset(unseen.items()), aside))))
        return cls(sight, unseen, name, aside)

    def shows_as(self, other: "View") -> bool:
        """Whether the other view is of the same moment, with the same texts unseen."""
        same_sight = self.sight is other.sight or self.sight == other.sight
        return same_sight and self.unseen == other.unseen and self.aside == other.aside

    def knows(self, key: str) -> bool:
        """Whether the caller was shown the cell at all."""
        return key in self.sight.positions and self.unseen.get(key) != NOT_SHOWN

    def revision(self, position: int) -> str:
        """The revision of the cell at this position that the caller saw."""
        return self.unseen.get(self.sight.keys[position], self.sight.revisions[position])

    def unseen_in(self, now: Sight, shown: Collection[str]) -> dict[str, str]:
        """By a cell's key: the revision that the caller saw of cells that have another one now, and of which the text was not shown."""
        unseen = {
            key: revision
            for key, revision in self.unseen.items()
            # A text that came back to what the caller saw is seen.
            if (position := now.positions.get(key)) is not None and now.revisions[position] != revision
        }
        if now is not self.sight:
            for key in _changed(self.sight, now):
                if key not in self.unseen:
                    unseen[key] = self.sight.revisions[self.sight.positions[key]]
        if not now.has_order_of(self.sight):
            known = {*self.sight.revisions}.difference(
                self.sight.revisions[self.sight.positions[key]] for key in self.unseen if key in self.sight.positions
            )
            for key, position in now.positions.items():
                # A text that was shown under another id is known: older files keep no ids, and undo brings cells back.
                if key not in self.sight.positions and now.revisions[position] not in known:
                    unseen.setdefault(key, NOT_SHOWN)
        return {key: revision for key, revision in unseen.items() if key not in shown}


def _changed(before: Sight, now: Sight) -> Iterator[str]:
    """The keys of cells that are in both, with another revision."""
    if now.since is not None and now.since.token is before.token:
        changed = now.since.changed
        yield from (now.keys[index] for index in changed if now.revisions[index] != before.revisions[index])
        return
    if before.has_order_of(now):
        yield from (now.keys[index] for index in _differing(before.revisions, now.revisions))
        return
    for key, position in before.positions.items():
        now_at = now.positions.get(key)
        if now_at is not None and now.revisions[now_at] != before.revisions[position]:
            yield key


def _differing(before: Sequence[str], now: Sequence[str]) -> Iterator[int]:
    """Where two lists of the same length differ. Mostly in very few places, so that they are compared in pieces."""
    for start in range(0, len(before), COMPARED_AT_ONCE):
        piece, now_piece = before[start : start + COMPARED_AT_ONCE], now[start : start + COMPARED_AT_ONCE]
        if piece != now_piece:
            yield from (start + index for index, same in enumerate(map(eq, piece, now_piece)) if not same)
