"""What callers were shown of notebooks. An index in a later call means the notebook as it was shown, not as it is by then."""

import secrets
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import eq

from cellwright.core.errors import NotFound
from cellwright.core.types import Call
from cellwright.notebook.addressing import execution_count_in, only_cell_showing

NAME_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
NAME_CHARACTERS = 4
NOT_SHOWN = "-"
"""Stands for the revision of a cell that came after the last view, and of which the text was not shown."""
REMEMBERED_CELLS = 1_000_000
"""Of all views together; each takes a few words of memory, of which those about the order are shared by views of the same one."""
REMEMBERED_VIEWS = 2_000
REMEMBERED_OF_A_NOTEBOOK = 64
"""Views of one notebook that are remembered for one principal, besides the last of each connection."""
REMEMBERED_CONNECTIONS = 256
COMPARED_AT_ONCE = 256
REMEMBERED_NOTEBOOKS = 10_000
"""Notebooks, each counted once for every principal, of which it is remembered that something was shown."""


def _new_name() -> str:
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
    def of(cls, sight: Sight, unseen: Mapping[str, str]) -> "View":
        """A view under a name of its own; for those who saw all of it, the sight's: the same notebook has the same name."""
        return cls(sight, unseen, _new_name() if unseen else sight.name)

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
        unseen = {key: revision for key, revision in self.unseen.items() if key in now.positions}
        if now is not self.sight:
            for key in _changed(self.sight, now):
                unseen.setdefault(key, self.sight.revisions[self.sight.positions[key]])
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


class ForgottenView(NotFound):
    code = "VIEW_FORGOTTEN"
    meaning = "The view that an index refers to is no longer remembered; nothing was done. Read the cells again."


@dataclass(slots=True)
class _Remembered:
    """The views of one notebook that one principal was given, oldest first, and the name of each connection's last one."""

    views: OrderedDict[str, View] = field(default_factory=OrderedDict[str, View])
    last: OrderedDict[str, str] = field(default_factory=OrderedDict[str, str])
    crowded: bool = False
    """Whether there were so many connections that the last view of some is forgotten."""


class Sights:
    """What was shown to whom. It is bounded: what was shown long ago is forgotten, and then refused instead of guessed."""

    def __init__(self) -> None:
        self._remembered: OrderedDict[tuple[str, str], _Remembered] = OrderedDict()
        self._with_views: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._cells = 0
        self._count = 0

    def remember(self, call: Call, path: str, view: View) -> str:
        """Note that the caller was shown this. Returns the name under which it can be referred to."""
        key = (call.principal.id, path)
        remembered = self._remembered.setdefault(key, _Remembered())
        self._remembered.move_to_end(key)
        self._with_views[key] = None
        self._with_views.move_to_end(key)
        latest = remembered.views.get(remembered.last.get(call.session, ""))
        if latest is not None and latest.shows_as(view):
            view = latest
        while not remembered.views.get(view.name, view).shows_as(view):
            # Another view has this name already.
            view = replace(view, name=_new_name())
        if view.name not in remembered.views:
            remembered.views[view.name] = view
            self._cells += _weight(view)
            self._count += 1
        remembered.views.move_to_end(view.name)
        if not view.aside:
            remembered.last[call.session] = view.name
            remembered.last.move_to_end(call.session)
        self._bound(remembered)
        return view.name

    def seen(self, call: Call, path: str, name: str | None = None) -> View | None:
        """The view with this name, or the last one that the caller was given; None if the caller was given none.

        Raises ForgottenView if it is no longer remembered.
        """
        remembered = self._remembered.get((call.principal.id, path))
        if name is None:
            name = remembered.last.get(call.session) if remembered else None
            if name is None and remembered is not None and remembered.crowded:
                raise ForgottenView(
                    f"so many connections use {path} that it is not known what yours was shown; nothing was done",
                    hint="Give the view of the answer in which you saw the cells; read_nb_cells shows them",
                )
            if name is None:
                return None
        if remembered is None or name not in remembered.views:
            raise ForgottenView(
                f"the view {name[:20]!r} of {path} is not remembered; nothing was done",
                hint="read_nb_cells shows the cells as they are now, with a new view",
            )
        return remembered.views[name]

    def latest(self, call: Call, path: str) -> View | None:
        """The last view that the connection was given, if it is remembered."""
        remembered = self._remembered.get((call.principal.id, path), _Remembered())
        return remembered.views.get(remembered.last.get(call.session, ""))

    def shown_to_any(self, call: Call, path: str, cell_id: str, revision: str) -> bool:
        """Whether any client of the principal was shown this text of the cell."""
        remembered = self._remembered.get((call.principal.id, path), _Remembered())
        return any(
            (position := view.sight.positions.get(cell_id)) is not None and view.revision(position) == revision
            for view in remembered.views.values()
            if not view.aside
        )

    def last_shown(self, call: Call, path: str, cell_id: str) -> str | None:
        """The revision of a cell that any client of the principal was shown last; None if none was."""
        remembered = self._remembered.get((call.principal.id, path), _Remembered())
        knowing = (view for view in reversed(remembered.views.values()) if view.knows(cell_id) and not view.aside)
        return next((view.revision(view.sight.positions[cell_id]) for view in knowing), None)

    def moved(self, before: str, after: str) -> None:
        """A notebook, or a folder with all that is in it, has another path now."""
        for principal, path in [key for key in self._remembered if f"{key[1]}/".startswith(f"{before}/")]:
            key, new_key = (principal, path), (principal, after + path[len(before) :])
            self._forget(new_key)
            self._remembered[new_key] = self._remembered.pop(key)
            if self._with_views.pop(key, self) is None:
                self._with_views[new_key] = None

    def forget(self, call: Call, path: str) -> None:
        """Forget all that the principal was shown of it: it has ended."""
        self._forget((call.principal.id, path))

    def _forget(self, key: tuple[str, str]) -> None:
        remembered = self._remembered.pop(key, None)
        self._with_views.pop(key, None)
        while remembered is not None and remembered.views:
            self._forget_oldest(remembered)

    def _bound(self, latest: _Remembered) -> None:
        if len(latest.views) > REMEMBERED_OF_A_NOTEBOOK + len(latest.last):
            self._forget_oldest(latest)
        if len(latest.last) > REMEMBERED_CONNECTIONS:
            latest.last.popitem(last=False)
            latest.crowded = True
        while self._count > REMEMBERED_VIEWS or self._cells > REMEMBERED_CELLS:
            key = next(iter(self._with_views))
            self._forget_oldest(self._remembered[key])
            if not self._remembered[key].views:
                del self._with_views[key]
        if len(self._remembered) > REMEMBERED_NOTEBOOKS:
            key, oldest = self._remembered.popitem(last=False)
            while oldest.views:
                self._forget_oldest(oldest)
            self._with_views.pop(key, None)

    def _forget_oldest(self, remembered: _Remembered) -> None:
        # The last view of a connection is likely to be needed, one of those before it is not.
        needed = set(remembered.last.values())
        name = next((name for name in remembered.views if name not in needed), next(iter(remembered.views)))
        view = remembered.views.pop(name)
        self._cells -= _weight(view)
        self._count -= 1


def _weight(view: View) -> int:
    return len(view.sight.ids) + len(view.unseen)
