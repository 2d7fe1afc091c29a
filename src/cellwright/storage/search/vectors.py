"""One tenant's vectors in memory, as one bit for each dimension: a scan finds candidates, int8 vectors on disk decide.

An entry takes about 80 bytes. The data is in columns: each step of the scan runs over one machine word of every entry.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cellwright.storage.search.embeddings.batches import Vectors
from cellwright.storage.search.port import Query
from cellwright.storage.search.words import scope_number
from cellwright.storage.values import Row

WORD = 8
"""Bytes of a machine word, which are compared at once."""
FEW_TAGS = 500
"""Tags whose JSON has at most so many characters are cached once they are parsed."""

Ids = NDArray[np.int64]
Tokens = NDArray[np.uint64]
remembered_number = lru_cache(maxsize=100_000)(scope_number)


def code_of(vector: Vectors) -> bytes:
    """One bit for each dimension: whether it is positive."""
    bits = np.packbits(vector > 0).tobytes()
    return bits.ljust(-(-len(bits) // WORD) * WORD, b"\0")


def quantized(vector: Vectors) -> bytes:
    """A byte for each dimension. The scale is dropped: only the direction counts."""
    largest = float(np.abs(vector).max()) or 1.0
    return np.round(vector * (127 / largest)).astype(np.int8).tobytes()


def cosines(vector: Vectors, quantized_rows: Sequence[bytes]) -> Vectors:
    rows = np.frombuffer(b"".join(quantized_rows), np.int8).reshape(len(quantized_rows), -1).astype(np.float32)
    return (rows @ vector) / np.maximum(np.linalg.norm(rows, axis=1), np.float32(1e-9))


@dataclass(frozen=True)
class Codes:
    """Parallel columns: the id, code and filter values of each entry. `tag_rows` has the row of the entry that has the tag in `tags`."""

    ids: Ids
    words: Tokens
    kinds: Tokens
    namespaces: Tokens
    tag_rows: Ids
    tags: Tokens

    @property
    def nbytes(self) -> int:
        columns = (self.ids, self.words, self.kinds, self.namespaces, self.tag_rows, self.tags)
        return sum(column.nbytes for column in columns)

    def changed(self, removed: Iterable[int], rows: Sequence[Row]) -> "Codes":
        """A copy without the entries in `removed` and with those in `rows`."""
        keep = ~np.isin(self.ids, np.fromiter(removed, np.int64))
        place = np.cumsum(keep) - 1
        kept_tags = keep[self.tag_rows]
        new = codes_of(rows, self.words.shape[0])
        return Codes(
            np.concatenate([self.ids[keep], new.ids]),
            np.concatenate([self.words[:, keep], new.words], axis=1),
            np.concatenate([self.kinds[keep], new.kinds]),
            np.concatenate([self.namespaces[keep], new.namespaces]),
            np.concatenate([place[self.tag_rows[kept_tags]], new.tag_rows + int(keep.sum())]),
            np.concatenate([self.tags[kept_tags], new.tags]),
        )

    def nearest(self, vector: Vectors, query: Query, limit: int) -> list[int]:
        """Among the entries that pass the filters, those whose codes differ least from the vector's."""
        chosen = self._filter(query)
        code = np.frombuffer(code_of(vector), np.uint64)
        if len(code) != self.words.shape[0]:
            return []
        ids, words = (self.ids, self.words) if chosen is None else (self.ids[chosen], self.words[:, chosen])
        if len(ids) <= limit:
            return ids.tolist()
        distances = np.zeros(len(ids), np.uint16)
        for column, word in zip(words, code, strict=True):
            distances += np.bitwise_count(column ^ word)
        return ids[np.argpartition(distances, limit)[:limit]].tolist()

    def _filter(self, query: Query) -> NDArray[np.bool_] | None:
        """Which entries pass the filters; None if all do."""
        chosen: NDArray[np.bool_] | None = None
        for column, kind, values in ((self.kinds, "k", query.kinds), (self.namespaces, "n", query.namespaces)):
            if values:
                passing = np.isin(column, _numbers(kind, values))
                chosen = passing if chosen is None else chosen & passing
        if query.tags:
            tagged = np.zeros(len(self.ids), bool)
            tagged[self.tag_rows[np.isin(self.tags, _numbers("g", query.tags))]] = True
            chosen = tagged if chosen is None else chosen & tagged
        return None if chosen is None or chosen.all() else chosen


def _numbers(kind: str, values: Iterable[str]) -> Tokens:
    return np.array([scope_number(kind, value) for value in values], np.uint64)


def codes_of(rows: Sequence[Row], width: int | None = None) -> Codes:
    """From rows of entry, code, kind, namespace, tags."""
    codes = b"".join(cast("bytes", row[1]) for row in rows)
    width = width or (len(codes) // len(rows) // WORD if rows else 0)
    tagged = [
        (number, remembered_number("g", tag)) for number, row in enumerate(rows) for tag in _tags(cast("str", row[4]))
    ]
    return Codes(
        np.array([row[0] for row in rows], np.int64),
        np.ascontiguousarray(np.frombuffer(codes, np.uint64).reshape(len(rows), width).T),
        np.array([remembered_number("k", cast("str", row[2])) for row in rows], np.uint64),
        np.array([remembered_number("n", cast("str", row[3])) for row in rows], np.uint64),
        np.array([number for number, _ in tagged], np.int64),
        np.array([token for _, token in tagged], np.uint64),
    )


def _tags(text: str) -> tuple[str, ...]:
    # Many entries have the same few tags; caching those of an entry with thousands would take megabytes.
    return _few_tags(text) if len(text) <= FEW_TAGS else tuple(json.loads(text))


@lru_cache(maxsize=20_000)
def _few_tags(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text != "[]" else ()
