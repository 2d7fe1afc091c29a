"""How much there is in an update of a shared document, found out before it is applied.

The library that applies updates follows their nesting with its own stack: a few hundred kilobytes of lists in lists end the whole
process. And a few megabytes can hold so many parts that they fill all memory. So what comes from a server is walked through first,
without recursion.
"""

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cellwright.core.errors import InvalidArgument

MAX_MESSAGE_BYTES = 48 * 1024 * 1024
HARMLESS_BYTES = 8_192
"""An update of fewer bytes is too small to do harm, however it is made, unless others wait for it."""
MAX_TAKEN_BYTES = 5 * MAX_MESSAGE_BYTES
"""Of all updates since a document was opened: what is opened anew has no more than it needs."""
MAX_WAITING_TYPES = 5_000
MAX_PARTS = 1_000_000
MAX_ITEMS = 250_000
"""Things that can be changed one by one, of which a cell has about ten: each takes some hundred bytes here and in the library."""
MAX_TEXT_BYTES = 40 * 1024 * 1024
"""Of all texts, once they are read: one wide letter makes all of its text four bytes wide."""
MAX_ENTRIES = 5_000
"""Of one object that is shared entry by entry, such as the metadata of a cell: each is looked up by itself whenever it is read."""
MAX_DEPTH = 200
PARTS_AT_A_TIME = 2_000

_GC, _DELETED, _JSON, _STRING, _TYPE, _ANY, _DOC, _SKIP = 0, 1, 2, 4, 7, 8, 9, 10
_PIECES = {3: 1, 5: 1, 6: 2}
"""Bytes, something embedded, a format: how many pieces of so many bytes they are."""
_HAS_LEFT, _HAS_RIGHT, _HAS_KEY, _CONTENT = 0x80, 0x40, 0x20, 0x1F
_ARRAY, _OBJECT, _TEXT, _BYTES = 117, 118, 119, 116
_FIXED = {120: 0, 121: 0, 126: 0, 127: 0, 122: 8, 123: 8, 124: 4}
_INTEGER = 125
_NAMED_TYPES = (3, 5)
_KNOWN_TYPES = 7
_LONGEST_NUMBER = 10

Id = tuple[int, int]
"""The name of an item: its client, and where it begins in what that client wrote."""


class Item(NamedTuple):
    """Where an item is in the document."""

    clock: int
    related: Id | None
    """What it is in, or beside; None if it is in the document itself."""
    inside: bool


class RefusedUpdate(InvalidArgument):
    """What the server sent of a document is not taken in."""


class WaitingTypes:
    """Shared types in updates that build on what has not come yet: when it comes, all of them are put into each other at once."""

    def __init__(self) -> None:
        self._types = 0

    def add(self, update: bytes, state: bytes) -> None:
        """Raise RefusedUpdate if too many wait, of a document with this state."""
        walk = _Walk(update)
        try:
            for _ in walk.structs():
                pass
        except (IndexError, ValueError):
            return  # the library says what is wrong with it
        if walk.builds_on_more_than(state):
            self._types += len(walk.types)
        if self._types > MAX_WAITING_TYPES:
            raise _refused(f"with more than {MAX_WAITING_TYPES:,} parts that build on what is missing")


def check_update(update: bytes) -> Iterator[None]:
    """Raise RefusedUpdate if it has too many parts or is nested too deeply. Every next() does a few milliseconds of that."""
    if len(update) < HARMLESS_BYTES:
        return
    walk = _Walk(update)
    try:
        yield from walk.structs()
        yield from walk.deletions()
    except (IndexError, ValueError) as error:
        raise _refused("that cannot be read") from error
    yield from _check_types(walk.types, walk.places)


def nested_too_deeply() -> RefusedUpdate:
    return _refused(f"with more than {MAX_DEPTH} levels of nesting")


def _refused(
    what: str,
    hint: str = "somebody has put this into the document: open the file itself, or restore an earlier version of it",
) -> RefusedUpdate:
    return RefusedUpdate(f"Jupyter sent a state of the document {what}; it was not taken in", hint=hint)


class _Walk:
    """One walk through an update in the format `v1`."""

    def __init__(self, update: bytes) -> None:
        self._data = update
        self._at = 0
        self._parts = 0
        self._items = 0
        self._text_bytes = 0
        self._entries: Counter[Id | None] = Counter()
        self.types: list[Id] = []
        """The shared types that are in or beside something."""
        self.places: dict[int, list[Item]] = {}
        """The items of each client."""
        self._spans: dict[int, tuple[int, int]] = {}
        """Of each client: the first name in this update, and the one after the last."""
        self._needed: dict[int, int] = {}
        """Of each client: the last name that something here is in or beside."""
        self._has_gap = False

    def builds_on_more_than(self, state: bytes) -> bool:
        """Whether a document with this state vector lacks something that is needed here."""
        vector = _Walk(state)
        known = dict(vector._id() for _ in range(vector._number()))
        return (
            self._has_gap
            or any(begin > known.get(client, 0) for client, (begin, _) in self._spans.items())
            or any(
                last >= max(known.get(client, 0), self._spans.get(client, (0, 0))[1])
                for client, last in self._needed.items()
            )
        )

    def structs(self) -> Iterator[None]:
        for _ in range(self._number()):
            count, client, clock = self._number(), self._number(), self._number()
            places = self.places.setdefault(client, [])
            begin = clock
            for position in range(count):
                if position % PARTS_AT_A_TIME == 0:
                    yield
                self._count()
                self._items += 1
                if self._items > MAX_ITEMS:
                    raise _refused(f"with more than {MAX_ITEMS:,} items")
                clock += self._struct(client, clock, places)
            self._spans[client] = (begin, clock)

    def deletions(self) -> Iterator[None]:
        for _ in range(self._number()):
            self._number()
            for position in range(self._number()):
                if position % PARTS_AT_A_TIME == 0:
                    yield
                self._count()
                self._id()

    def _struct(self, client: int, clock: int, places: list[Item]) -> int:
        """Walk over one item. How many names it takes."""
        info = self._byte()
        content = info & _CONTENT
        if content in (_GC, _SKIP):
            self._has_gap = self._has_gap or content == _SKIP
            return self._number()
        beside = self._need() if info & _HAS_LEFT else None
        if info & _HAS_RIGHT:
            right = self._need()
            beside = beside or right
        inside: Id | None = None
        if beside is None:
            if self._number() == 1:
                self._pass(self._number())
            else:
                inside = self._need()
            if info & _HAS_KEY:
                self._pass(self._number())
                self._entry(inside)
        related = beside or inside
        places.append(Item(clock, related, beside is None))
        if content == _TYPE and related is not None:
            self.types.append((client, clock))
        return self._content(content)

    def _need(self) -> Id:
        client, clock = name = self._id()
        if self._needed.get(client, -1) < clock:
            self._needed[client] = clock
        return name

    def _entry(self, inside: Id | None) -> None:
        """Count an entry of a shared object."""
        self._entries[inside] += 1
        if self._entries[inside] > MAX_ENTRIES:
            raise _refused(f"with more than {MAX_ENTRIES:,} entries in one object")

    def _content(self, content: int) -> int:
        if content in _PIECES:
            for _ in range(_PIECES[content]):
                self._pass(self._number())
        elif content == _DELETED:
            return self._number()
        elif content == _STRING:
            return self._text()
        elif content in (_JSON, _ANY):
            return self._values(as_texts=content == _JSON)
        elif content == _TYPE:
            self._type()
        elif content == _DOC:
            self._pass(self._number())
            self._value()
        else:
            raise ValueError(content)
        return 1

    def _text(self) -> int:
        size = self._number()
        text = self._weighed(size)
        # Names are counted in units of UTF-16.
        return len(text) if text.isascii() else len(text.decode("utf-8").encode("utf-16-le")) // 2

    def _weighed(self, size: int) -> bytes:
        """The text that comes next, passed over, with what it will take counted."""
        text = self._data[self._at : self._at + size]
        self._pass(size)
        self._text_bytes += size if text.isascii() else sys.getsizeof(text.decode("utf-8"))
        if self._text_bytes > MAX_TEXT_BYTES:
            raise _refused(
                f"whose texts take more than {MAX_TEXT_BYTES >> 20} MiB",
                "make it smaller: clear its outputs in JupyterLab, or split it",
            )
        return text

    def _values(self, *, as_texts: bool) -> int:
        count = self._number()
        for _ in range(count):
            if as_texts:
                self._count()
                self._pass(self._number())
            else:
                self._value()
        return count

    def _type(self) -> None:
        kind = self._number()
        if kind in _NAMED_TYPES:
            self._pass(self._number())
        elif kind >= _KNOWN_TYPES:
            raise ValueError(kind)

    def _value(self) -> None:
        """Walk over a value with all that is in it."""
        left = [(1, False)]
        while left:
            count, named = left.pop()
            if count == 0:
                continue
            left.append((count - 1, named))
            self._count()
            if named:
                self._pass(self._number())
            tag = self._byte()
            if tag in (_ARRAY, _OBJECT):
                left.append((self._number(), tag == _OBJECT))
                if len(left) > MAX_DEPTH:
                    raise nested_too_deeply()
            elif tag == _TEXT:
                self._weighed(self._number())
            elif tag == _BYTES:
                self._pass(self._number())
            elif tag == _INTEGER:
                self._number()
            else:
                self._pass(_FIXED.get(tag, -1))

    def _count(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise _refused(f"with more than {MAX_PARTS:,} parts")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _number(self) -> int:
        at = self._at
        value = self._data[at]
        if value < 0x80:  # noqa: PLR2004 - most are
            self._at = at + 1
            return value
        value &= 0x7F
        for place in range(1, _LONGEST_NUMBER):
            byte = self._data[at + place]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:  # noqa: PLR2004
                self._at = at + place + 1
                return value
        raise ValueError(at)

    def _id(self) -> Id:
        return self._number(), self._number()

    def _pass(self, size: int) -> None:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError(size)
        self._at += size


def _check_types(types: Sequence[Id], places: Mapping[int, Sequence[Item]]) -> Iterator[None]:
    """Raise if too many shared types are in each other, as far as this update tells."""
    depths: dict[Id, int] = {}
    steps = 0
    for name in types:
        chain: list[tuple[Id, bool]] = []
        at, depth = name, 0
        while (item := _item(places, at)) is not None:
            # One chain may go through all items.
            steps += 1
            if steps % PARTS_AT_A_TIME == 0:
                yield
            begin = (at[0], item.clock)
            if begin in depths:
                depth = depths[begin]
                break
            depths[begin] = 0
            chain.append((begin, item.inside))
            if item.related is None:
                break
            at = item.related
        for begin, inside in reversed(chain):
            depth += inside
            depths[begin] = depth
        if depth > MAX_DEPTH:
            raise nested_too_deeply()


def _item(places: Mapping[int, Sequence[Item]], name: Id) -> Item | None:
    client, clock = name
    items = places.get(client, ())
    index = bisect_right(items, clock, key=_clock) - 1
    return items[index] if index >= 0 else None


def _clock(item: Item) -> int:
    return item.clock
