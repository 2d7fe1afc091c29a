"""Checks the size and depth of an update of a shared document before it is applied.

The library that applies updates follows their nesting with its own stack: a few hundred kilobytes of lists in lists end the whole
process. And a few megabytes can hold so many parts that they fill all memory. So an update from a server is first walked through
without recursion.
"""

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from cellwright.core.errors import InvalidArgument

MAX_MESSAGE_BYTES = 48 * 1024 * 1024
HARMLESS_BYTES = 8_192
"""An update of fewer bytes is too small to do harm, whatever is in it, unless other updates wait for it."""
MAX_TAKEN_BYTES = 5 * MAX_MESSAGE_BYTES
"""Of all updates since a document was opened. A document that is opened anew has only what it needs."""
MAX_WAITING_TYPES = 5_000
MAX_PARTS = 1_000_000
MAX_ITEMS = 250_000
"""Items can be changed one by one, and a cell has about ten. Each takes some hundred bytes here and in the library."""
MAX_TEXT_BYTES = 40 * 1024 * 1024
"""Of all texts in memory: one wide letter makes every character of its text four bytes wide."""
MAX_ENTRIES = 5_000
"""Of one object that is shared entry by entry, such as the metadata of a cell: reading it looks up every entry by itself."""
MAX_DEPTH = 200
PARTS_AT_A_TIME = 2_000

_GC, _DELETED, _JSON, _STRING, _TYPE, _ANY, _DOC, _SKIP = 0, 1, 2, 4, 7, 8, 9, 10
_PIECES = {3: 1, 5: 1, 6: 2}
"""For bytes, embedded content and formats: of how many pieces they consist, each with its length before it."""
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
    """The item that it is in, or beside; None if it is in the document itself."""
    inside: bool


class RefusedUpdate(InvalidArgument):
    """The server sent a state of a document that is not applied."""


class WaitingTypes:
    """Counts shared types in updates that build on missing ones: when those come, all of them are put into each other at once."""

    def __init__(self) -> None:
        self._types = 0

    def add(self, update: bytes, state: bytes) -> None:
        """Raise RefusedUpdate if too many types wait. `state` is the state vector of the document."""
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
    """Raise RefusedUpdate if the update has too many parts or is nested too deeply. Every next() works for a few milliseconds."""
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
    problem: str,
    hint: str = "somebody has put this into the document: open the file itself, or restore an earlier version of it",
) -> RefusedUpdate:
    return RefusedUpdate(f"Jupyter sent a state of the document {problem}; it was not taken in", hint=hint)


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
        """Of each client: the first clock in this update, and the one after the last."""
        self._needed: dict[int, int] = {}
        """Of each client: the last clock that an item here is in or beside."""
        self._has_gap = False

    def builds_on_more_than(self, state: bytes) -> bool:
        """Whether a document with this state vector lacks something that this update needs."""
        vector = _Walk(state)
        clocks = dict(vector._read_id() for _ in range(vector._read_number()))
        return (
            self._has_gap
            or any(begin > clocks.get(client, 0) for client, (begin, _) in self._spans.items())
            or any(
                clock >= max(clocks.get(client, 0), self._spans.get(client, (0, 0))[1])
                for client, clock in self._needed.items()
            )
        )

    def structs(self) -> Iterator[None]:
        for _ in range(self._read_number()):
            count, client, clock = self._read_number(), self._read_number(), self._read_number()
            places = self.places.setdefault(client, [])
            begin = clock
            for position in range(count):
                if position % PARTS_AT_A_TIME == 0:
                    yield
                self._count_part()
                self._items += 1
                if self._items > MAX_ITEMS:
                    raise _refused(f"with more than {MAX_ITEMS:,} items")
                clock += self._skip_struct(client, clock, places)
            self._spans[client] = (begin, clock)

    def deletions(self) -> Iterator[None]:
        for _ in range(self._read_number()):
            self._read_number()
            for position in range(self._read_number()):
                if position % PARTS_AT_A_TIME == 0:
                    yield
                self._count_part()
                self._read_id()

    def _skip_struct(self, client: int, clock: int, places: list[Item]) -> int:
        """Walk over one item. Returns how many clocks it takes."""
        info = self._read_byte()
        content = info & _CONTENT
        if content in (_GC, _SKIP):
            self._has_gap = self._has_gap or content == _SKIP
            return self._read_number()
        beside = self._read_needed_id() if info & _HAS_LEFT else None
        if info & _HAS_RIGHT:
            right = self._read_needed_id()
            beside = beside or right
        inside: Id | None = None
        if beside is None:
            if self._read_number() == 1:
                self._skip(self._read_number())
            else:
                inside = self._read_needed_id()
            if info & _HAS_KEY:
                self._skip(self._read_number())
                self._count_entry(inside)
        related = beside or inside
        places.append(Item(clock, related, beside is None))
        if content == _TYPE and related is not None:
            self.types.append((client, clock))
        return self._skip_content(content)

    def _read_needed_id(self) -> Id:
        client, clock = name = self._read_id()
        if self._needed.get(client, -1) < clock:
            self._needed[client] = clock
        return name

    def _count_entry(self, inside: Id | None) -> None:
        """Count an entry of a shared object."""
        self._entries[inside] += 1
        if self._entries[inside] > MAX_ENTRIES:
            raise _refused(f"with more than {MAX_ENTRIES:,} entries in one object")

    def _skip_content(self, content: int) -> int:
        if content in _PIECES:
            for _ in range(_PIECES[content]):
                self._skip(self._read_number())
        elif content == _DELETED:
            return self._read_number()
        elif content == _STRING:
            return self._skip_text()
        elif content in (_JSON, _ANY):
            return self._skip_values(as_texts=content == _JSON)
        elif content == _TYPE:
            self._skip_type()
        elif content == _DOC:
            self._skip(self._read_number())
            self._skip_value()
        else:
            raise ValueError(content)
        return 1

    def _skip_text(self) -> int:
        size = self._read_number()
        text = self._take_text(size)
        # Clocks count units of UTF-16.
        return len(text) if text.isascii() else len(text.decode("utf-8").encode("utf-16-le")) // 2

    def _take_text(self, size: int) -> bytes:
        """Read the text that comes next, and count the memory that it will take."""
        text = self._data[self._at : self._at + size]
        self._skip(size)
        self._text_bytes += size if text.isascii() else sys.getsizeof(text.decode("utf-8"))
        if self._text_bytes > MAX_TEXT_BYTES:
            raise _refused(
                f"whose texts take more than {MAX_TEXT_BYTES >> 20} MiB",
                "make it smaller: clear its outputs in JupyterLab, or split it",
            )
        return text

    def _skip_values(self, *, as_texts: bool) -> int:
        count = self._read_number()
        for _ in range(count):
            if as_texts:
                self._count_part()
                self._skip(self._read_number())
            else:
                self._skip_value()
        return count

    def _skip_type(self) -> None:
        kind = self._read_number()
        if kind in _NAMED_TYPES:
            self._skip(self._read_number())
        elif kind >= _KNOWN_TYPES:
            raise ValueError(kind)

    def _skip_value(self) -> None:
        """Walk over a value with all values inside it."""
        pending = [(1, False)]
        while pending:
            count, has_keys = pending.pop()
            if count == 0:
                continue
            pending.append((count - 1, has_keys))
            self._count_part()
            if has_keys:
                self._skip(self._read_number())
            tag = self._read_byte()
            if tag in (_ARRAY, _OBJECT):
                pending.append((self._read_number(), tag == _OBJECT))
                if len(pending) > MAX_DEPTH:
                    raise nested_too_deeply()
            elif tag == _TEXT:
                self._take_text(self._read_number())
            elif tag == _BYTES:
                self._skip(self._read_number())
            elif tag == _INTEGER:
                self._read_number()
            else:
                self._skip(_FIXED.get(tag, -1))

    def _count_part(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise _refused(f"with more than {MAX_PARTS:,} parts")

    def _read_byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _read_number(self) -> int:
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

    def _read_id(self) -> Id:
        return self._read_number(), self._read_number()

    def _skip(self, size: int) -> None:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError(size)
        self._at += size


def _check_types(types: Sequence[Id], places: Mapping[int, Sequence[Item]]) -> Iterator[None]:
    """Raise if shared types are nested too deeply, as far as this update tells."""
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
    index = bisect_right(items, clock, key=attrgetter("clock")) - 1
    return items[index] if index >= 0 else None
