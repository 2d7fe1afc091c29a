"""Checks the size and depth of an update of a shared document before it is applied.

The library that applies updates follows their nesting with its own stack: a few hundred kilobytes of lists in lists end the whole
process. And a few megabytes can hold so many parts that they fill all memory. So an update from a server is first walked through
without recursion.
"""

import sys
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from pycrdt import Encoder

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
ITEMS_AT_A_TIME = 10_000
"""How many items the library takes in at once; more are given to it in pieces, between which other tasks run."""

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
_LARGEST_NUMBER = 2**63
_NOBODY = 2**64 - 1
"""Stands for the client of an item that is not there."""

Id = tuple[int, int]
"""The name of an item: its client, and where it begins in what that client wrote."""


class Item(NamedTuple):
    """Where an item is in the document."""

    clock: int
    related: Id | None
    """The item that it is in, or beside; None if it is in the document itself."""
    inside: bool


class _Run:
    """What one client wrote, in the order of its clock.

    It is kept as plain numbers: hundreds of thousands of objects would have the garbage collector stop everything for a while.
    """

    def __init__(self, clock: int) -> None:
        self._clocks = array("Q")
        self.offsets = array("Q")
        """Where each struct begins in the update; the last one is where they end."""
        self._related = _Ids()
        self._right = _Ids()
        self._inside = bytearray()
        self.end = clock
        """The clock after the last struct."""

    def __len__(self) -> int:
        return len(self._clocks)

    def append(self, offset: int, related: Id | None = None, right: Id | None = None, *, inside: bool = False) -> None:
        self._clocks.append(self.end)
        self.offsets.append(offset)
        self._related.append(related)
        self._right.append(right)
        self._inside.append(inside)

    def clock(self, index: int) -> int:
        return self._clocks[index] if index < len(self._clocks) else self.end

    def needs(self, index: int) -> tuple[Id | None, Id | None]:
        """What must be in the document before the struct at this index."""
        return self._related[index], self._right[index]

    def item_at(self, clock: int) -> Item | None:
        """The item that has this clock, or the one that begins before it."""
        index = bisect_right(self._clocks, clock) - 1
        return Item(self._clocks[index], self._related[index], bool(self._inside[index])) if index >= 0 else None


class _Ids:
    """A list of names of items, some of which are None."""

    def __init__(self) -> None:
        self._clients = array("Q")
        self._clocks = array("Q")

    def append(self, name: Id | None) -> None:
        client, clock = name or (_NOBODY, 0)
        self._clients.append(client)
        self._clocks.append(clock)

    def __getitem__(self, index: int) -> Id | None:
        client = self._clients[index]
        return None if client == _NOBODY else (client, self._clocks[index])


class RefusedUpdate(InvalidArgument):
    """The server sent a state of a document that is not applied."""


class WaitingTypes:
    """Counts shared types in updates that build on missing ones: when those come, all of them are put into each other at once."""

    def __init__(self) -> None:
        self._types = 0

    def add(self, update: "IncomingUpdate", state: bytes) -> None:
        """Raise RefusedUpdate if too many types wait. `state` is the state vector of the document."""
        if update.builds_on_more_than(state):
            self._types += len(update.types)
        if self._types > MAX_WAITING_TYPES:
            raise _refused(f"with more than {MAX_WAITING_TYPES:,} parts that build on what is missing")


def nested_too_deeply() -> RefusedUpdate:
    return _refused(f"with more than {MAX_DEPTH} levels of nesting")


def _refused(
    problem: str,
    hint: str = "somebody has put this into the document: open the file itself, or restore an earlier version of it",
) -> RefusedUpdate:
    return RefusedUpdate(f"Jupyter sent a state of the document {problem}; it was not taken in", hint=hint)


class _Reader:
    """Reads what the Y protocol writes: numbers of variable length, and what they count."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read_byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def read_number(self) -> int:
        at = self._at
        value = self._data[at]
        if value < 0x80:  # noqa: PLR2004 - most are
            self._at = at + 1
            return value
        value &= 0x7F
        for place in range(1, _LONGEST_NUMBER):
            byte = self._data[at + place]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80 and value <= _LARGEST_NUMBER:  # noqa: PLR2004
                self._at = at + place + 1
                return value
        raise ValueError(at)

    def read_id(self) -> Id:
        return self.read_number(), self.read_number()

    def skip(self, size: int) -> None:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError(size)
        self._at += size


class IncomingUpdate(_Reader):
    """An update in the format `v1`: checked in short steps, and given on in pieces."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._parts = 0
        self._items = 0
        self._text_bytes = 0
        self._entries: Counter[Id | None] = Counter()
        self.types: list[Id] = []
        """The shared types that are in or beside something."""
        self._runs: dict[int, _Run] = {}
        """What each client wrote."""
        self._begins: dict[int, int] = {}
        """Of each client: the first clock in this update."""
        self._needed: dict[int, int] = {}
        """Of each client: the last clock that an item here is in or beside."""
        self._has_gap = False
        self._deletions_at = 0

    @property
    def authors(self) -> frozenset[int]:
        """The clients who wrote what it has, once it was checked. Who deleted something is not said."""
        return frozenset(self._runs)

    def check(self) -> Iterator[None]:
        """Raise RefusedUpdate if it has too many parts or is nested too deeply. Every next() works for a few milliseconds."""
        if len(self._data) < HARMLESS_BYTES:
            # Whatever is wrong with it, the library says so.
            with suppress(RefusedUpdate):
                yield from self._walk()
        else:
            yield from self._walk()

    def _walk(self) -> Iterator[None]:
        try:
            yield from self._read_structs()
            self._deletions_at = self._at
            yield from self._read_deletions()
        except (IndexError, ValueError) as error:
            raise _refused("that cannot be read") from error
        yield from self._check_nesting()

    def pieces(self, state: bytes) -> Iterator[bytes]:
        """The update as several, each of which builds on those before it. `state` is the state vector of the document."""
        if self._items <= ITEMS_AT_A_TIME or self.builds_on_more_than(state):
            yield self._data
            return
        piece = _Piece(self._data, self._runs)
        reached = dict.fromkeys(self._runs, 0)
        for first in self._runs:
            # What a client wrote may build on what another wrote: that comes before it.
            pending = {first: None}
            while pending:
                client = next(reversed(pending))
                index = reached[client]
                if index == len(self._runs[client]):
                    del pending[client]
                elif (missing := self._missing(client, index, reached)) is None:
                    piece.add(client, index)
                    reached[client] += 1
                    if len(pending) > 1:
                        # It may have been all that the one before waits for.
                        del pending[client]
                    if piece.items == ITEMS_AT_A_TIME:
                        yield piece.encoded()
                        piece = _Piece(self._data, self._runs)
                elif missing in pending:
                    raise _refused("that cannot be read")
                else:
                    pending[missing] = None
        yield piece.encoded(self._data[self._deletions_at :])

    def _missing(self, client: int, index: int, reached: Mapping[int, int]) -> int | None:
        """The client whose next item has to come before this one; None if nothing is missing."""
        for name in self._runs[client].needs(index):
            run = None if name is None else self._runs.get(name[0])
            if name is not None and run is not None and run.clock(reached[name[0]]) <= name[1]:
                return name[0]
        return None

    def builds_on_more_than(self, state: bytes) -> bool:
        """Whether a document with this state vector lacks something that this update needs."""
        vector = _Reader(state)
        clocks = dict(vector.read_id() for _ in range(vector.read_number()))
        return (
            self._has_gap
            or any(begin > clocks.get(client, 0) for client, begin in self._begins.items())
            or any(
                clock >= max(clocks.get(client, 0), self._runs[client].end if client in self._runs else 0)
                for client, clock in self._needed.items()
            )
        )

    def _read_structs(self) -> Iterator[None]:
        for _ in range(self.read_number()):
            count, client, clock = self.read_number(), self.read_number(), self.read_number()
            if client in self._runs:
                raise ValueError(client)
            run = self._runs[client] = _Run(clock)
            self._begins[client] = clock
            for position in range(count):
                if position % PARTS_AT_A_TIME == 0:
                    yield
                self._count_part()
                self._items += 1
                if self._items > MAX_ITEMS:
                    raise _refused(f"with more than {MAX_ITEMS:,} items")
                run.end += self._read_struct(client, run)
                if run.end > _LARGEST_NUMBER:
                    raise ValueError(run.end)
            run.offsets.append(self._at)

    def _read_deletions(self) -> Iterator[None]:
        for _ in range(self.read_number()):
            self.read_number()
            for position in range(self.read_number()):
                if position % PARTS_AT_A_TIME == 0:
                    yield
                self._count_part()
                self.read_id()

    def _read_struct(self, client: int, run: _Run) -> int:
        """Walk over one item. Returns how many clocks it takes."""
        offset = self._at
        info = self.read_byte()
        content = info & _CONTENT
        if content in (_GC, _SKIP):
            self._has_gap = self._has_gap or content == _SKIP
            run.append(offset)
            return self.read_number()
        left = self._read_needed_id() if info & _HAS_LEFT else None
        right = self._read_needed_id() if info & _HAS_RIGHT else None
        beside = left or right
        inside: Id | None = None
        if beside is None:
            if self.read_number() == 1:
                self.skip(self.read_number())
            else:
                inside = self._read_needed_id()
            if info & _HAS_KEY:
                self.skip(self.read_number())
                self._count_entry(inside)
        related = beside or inside
        if content == _TYPE and related is not None:
            self.types.append((client, run.end))
        run.append(offset, related, right, inside=beside is None)
        return self._skip_content(content)

    def _read_needed_id(self) -> Id:
        client, clock = name = self.read_id()
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
                self.skip(self.read_number())
        elif content == _DELETED:
            return self.read_number()
        elif content == _STRING:
            return self._skip_text()
        elif content in (_JSON, _ANY):
            return self._skip_values(as_texts=content == _JSON)
        elif content == _TYPE:
            self._skip_type()
        elif content == _DOC:
            self.skip(self.read_number())
            self._skip_value()
        else:
            raise ValueError(content)
        return 1

    def _skip_text(self) -> int:
        size = self.read_number()
        text = self._take_text(size)
        # Clocks count units of UTF-16.
        return len(text) if text.isascii() else len(text.decode("utf-8").encode("utf-16-le")) // 2

    def _take_text(self, size: int) -> bytes:
        """Read the text that comes next, and count the memory that it will take."""
        text = self._data[self._at : self._at + size]
        self.skip(size)
        self._text_bytes += size if text.isascii() else sys.getsizeof(text.decode("utf-8"))
        if self._text_bytes > MAX_TEXT_BYTES:
            raise _refused(
                f"whose texts take more than {MAX_TEXT_BYTES >> 20} MiB",
                "make it smaller: clear its outputs in JupyterLab, or split it",
            )
        return text

    def _skip_values(self, *, as_texts: bool) -> int:
        count = self.read_number()
        for _ in range(count):
            if as_texts:
                self._count_part()
                self.skip(self.read_number())
            else:
                self._skip_value()
        return count

    def _skip_type(self) -> None:
        kind = self.read_number()
        if kind in _NAMED_TYPES:
            self.skip(self.read_number())
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
                self.skip(self.read_number())
            tag = self.read_byte()
            if tag in (_ARRAY, _OBJECT):
                pending.append((self.read_number(), tag == _OBJECT))
                if len(pending) > MAX_DEPTH:
                    raise nested_too_deeply()
            elif tag == _TEXT:
                self._take_text(self.read_number())
            elif tag == _BYTES:
                self.skip(self.read_number())
            elif tag == _INTEGER:
                self.read_number()
            else:
                self.skip(_FIXED.get(tag, -1))

    def _count_part(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise _refused(f"with more than {MAX_PARTS:,} parts")

    def _check_nesting(self) -> Iterator[None]:
        """Raise if shared types are nested too deeply, as far as this update tells."""
        depths: dict[Id, int] = {}
        steps = 0
        for name in self.types:
            chain: list[tuple[Id, bool]] = []
            at, depth = name, 0
            while (run := self._runs.get(at[0])) is not None and (item := run.item_at(at[1])) is not None:
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


class _Piece:
    """A part of an update, which is an update by itself: of each client the structs from one index to another."""

    def __init__(self, data: bytes, runs: Mapping[int, _Run]) -> None:
        self._data = data
        self._runs = runs
        self._spans: dict[int, tuple[int, int]] = {}
        self.items = 0

    def add(self, client: int, index: int) -> None:
        """The struct at this index, which is the next of its client."""
        self._spans[client] = (self._spans.get(client, (index, index))[0], index + 1)
        self.items += 1

    def encoded(self, deletions: bytes = b"\0") -> bytes:
        encoder = Encoder()
        encoder.write_var_uint(len(self._spans))
        pieces = [encoder.to_bytes()]
        for client, (start, end) in self._spans.items():
            run = self._runs[client]
            encoder = Encoder()
            for number in (end - start, client, run.clock(start)):
                encoder.write_var_uint(number)
            pieces += [encoder.to_bytes(), self._data[run.offsets[start] : run.offsets[end]]]
        return b"".join([*pieces, deletions])
