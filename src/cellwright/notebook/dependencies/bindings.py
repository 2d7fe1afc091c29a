"""What is known of the names at one place of a cell: which are bound, and which share an object."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cellwright.notebook.dependencies.model import NONE, Later, Links, Names

Parts = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Shares:
    """With which names a value may share objects."""

    same: Names = NONE
    """Names of the very object, or of the same memory."""
    wholes: Names = NONE
    """Places in which it lies: `name[key]`, or `name` where the key is not known."""
    parts: Parts = frozenset()
    """Names of objects that lie in it, each with its key, "" where that is not known."""

    @property
    def every(self) -> Names:
        """All names that have to do with the value."""
        return self.same | frozenset(map(whole_of, self.wholes)) | frozenset(name for name, _key in self.parts)

    def element(self, key: str = "") -> "Shares":
        """What an element of the value shares."""
        own = frozenset(f"{name}[{key}]" if key else name for name in self.same)
        return Shares(
            frozenset(name for name, place in self.parts if not key or not place or key == place), own | self.wholes
        )

    def holder(self, key: str = "") -> "Shares":
        """What an object shares that keeps the value inside."""
        return Shares(parts=frozenset((name, key) for name in self.every))

    def with_(self, other: "Shares") -> "Shares":
        return Shares(self.same | other.same, self.wholes | other.wholes, self.parts | other.parts)


def whole_of(place: str) -> str:
    """The name in `name[key]`."""
    return place.partition("[")[0]


ALONE = Shares()


def together(shares: Iterable[Shares]) -> Shares:
    result = ALONE
    for share in shares:
        result = result.with_(share)
    return result


def _links() -> dict[str, Names]:
    return {}


@dataclass(slots=True)
class Bindings:
    """The names at one place of a cell, on all the ways that lead there."""

    bound: set[str] = field(default_factory=set[str])
    """Surely bound, or surely deleted, by this cell."""
    perhaps: set[str] = field(default_factory=set[str])
    same: dict[str, Names] = field(default_factory=_links)
    wholes: dict[str, Names] = field(default_factory=_links)
    code: dict[str, Names] = field(default_factory=_links)
    functions: dict[str, Later] = field(default_factory=dict[str, Later])
    modules: dict[str, str] = field(default_factory=dict[str, str])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """Names whose value is a literal text."""
    spent: set[str] = field(default_factory=set[str])
    gone: bool = False
    """Whether nothing leads here, as after `raise`."""

    def copy(self) -> "Bindings":
        return Bindings(
            set(self.bound),
            set(self.perhaps),
            dict(self.same),
            dict(self.wholes),
            dict(self.code),
            dict(self.functions),
            dict(self.modules),
            dict(self.texts),
            set(self.spent),
            self.gone,
        )

    def take(self, other: "Bindings") -> None:
        """Become a copy of another state."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def forget(self, name: str) -> None:
        """The name is about to be bound anew: what it shared is no longer its."""
        for links in (self.same, self.wholes):
            if links:
                links.pop(name, None)
                for other, names in list(links.items()):
                    if kept := frozenset(place for place in names if whole_of(place) != name):
                        links[other] = kept
                    else:
                        del links[other]
        self.code.pop(name, None)
        self.functions.pop(name, None)
        self.modules.pop(name, None)
        self.texts.pop(name, None)
        self.spent.discard(name)

    def resolved(self, shares: Shares) -> Shares:
        """What a value shares, also by names other than those it was made with: these may be bound anew before it is."""
        if not self.same and not self.wholes:
            return shares
        alike, parts = _turned(self.same), _parts(self.wholes)
        result = shares
        for name in shares.same:
            inner = frozenset((part, key.rstrip("]")) for part, key in parts.get(name, ()))
            others = self.same.get(name, NONE) | frozenset(alike.get(name, ()))
            result = result.with_(Shares(others, self.wholes.get(name, NONE), inner))
        for place in shares.wholes:
            name = whole_of(place)
            others = self.same.get(name, NONE) | frozenset(alike.get(name, ())) | self.wholes.get(name, NONE)
            inside = frozenset(part for part, key in parts.get(name, ()) if not key or place in {name, f"{name}[{key}"})
            result = result.with_(Shares(inside, others))
        for name, key in shares.parts:
            others = self.same.get(name, NONE) | frozenset(alike.get(name, ()))
            others |= frozenset(part for part, _key in parts.get(name, ()))
            others |= frozenset(map(whole_of, self.wholes.get(name, NONE)))
            result = result.with_(Shares(parts=frozenset((other, key) for other in others)))
        return result

    def link(self, name: str, shares: Shares) -> None:
        """Let the name share what a value shares that is now its own, or inside of it."""
        if same := shares.same - {name}:
            self.same[name] = self.same.get(name, NONE) | same
        if wholes := frozenset(place for place in shares.wholes if whole_of(place) != name):
            self.wholes[name] = self.wholes.get(name, NONE) | wholes
        for part, key in shares.parts:
            if part != name:
                self.wholes[part] = self.wholes.get(part, NONE) | {f"{name}[{key}]" if key else name}

    def touched(self, name: str, *, deep: bool) -> dict[str, bool]:
        return touched(self.same, self.wholes, name, deep=deep)


def touched(same: Links, wholes: Links, name: str, *, deep: bool) -> dict[str, bool]:
    """The names whose objects change if that of `name` does, and whether inside of them something changes.

    An alias changes with it. What it lies in changes as well, and with that everything that may lie in the same place. What lies in it
    changes if the change is a deep one.
    """
    if not same and not wholes:
        return {name: deep}
    alike, parts = _turned(same), _parts(wholes)
    found: dict[str, bool] = {}
    seen: set[tuple[str, bool, str]] = set()
    pending = [(name, deep, "")]
    while pending:
        current, is_deep, place = step = pending.pop()
        if step in seen:
            continue
        seen.add(step)
        found[current] = found.get(current, False) or is_deep
        pending += [(other, is_deep, place) for other in (*same.get(current, ()), *alike.get(current, ()))]
        pending += [(whole_of(whole), True, whole.partition("[")[2] or "]") for whole in wholes.get(current, ())]
        if is_deep:
            pending += [(part, True, "") for part, key in parts.get(current, ()) if place in {"", "]", key} or not key]
    return found


def _turned(links: Links) -> dict[str, list[str]]:
    turned: dict[str, list[str]] = {}
    for name, others in links.items():
        for other in others:
            turned.setdefault(other, []).append(name)
    return turned


def _parts(wholes: Links) -> dict[str, list[tuple[str, str]]]:
    """For each name, what lies in it, with the key as it stands in its place."""
    parts: dict[str, list[tuple[str, str]]] = {}
    for part, places in wholes.items():
        for place in places:
            whole, _, key = place.partition("[")
            parts.setdefault(whole, []).append((part, key))
    return parts


def joined(states: Iterable[Bindings]) -> Bindings:
    """The state where several ways come together."""
    ways = [state for state in states if not state.gone]
    if not ways:
        return Bindings(gone=True)
    first, *others = ways
    result = first.copy()
    for other in others:
        result.perhaps |= other.perhaps | (result.bound ^ other.bound)
        result.bound &= other.bound
        for links, more in ((result.same, other.same), (result.wholes, other.wholes), (result.code, other.code)):
            for name, names in more.items():
                links[name] = links.get(name, NONE) | names
        for name, later in other.functions.items():
            mine = result.functions.get(name)
            result.functions[name] = later if mine is None else either(mine, later)
        result.modules.update(other.modules)
        result.texts = {name: text for name, text in result.texts.items() if other.texts.get(name) == text}
        result.spent |= other.spent
    return result


def either(one: Later, other: Later) -> Later:
    """What a function does that is one or the other."""
    if one == other:
        return one
    calls = dict(one.calls)
    for name, given in other.calls.items():
        calls[name] = calls.get(name, NONE) | given
    return Later(
        one.uses | other.uses,
        one.changes | other.changes,
        one.perhaps | other.perhaps,
        calls,
        one.arguments or other.arguments,
        one.methods | other.methods,
        one.yields or other.yields,
        one.makes or other.makes,
        one.opaque or other.opaque,
    )
