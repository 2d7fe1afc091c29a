"""Batches of texts of similar length, which need little padding. Batches of long texts are small: memory grows with length squared."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]
BATCH = 8
MOST_PAIRS = 4 * 256 * 256
"""Pairs of tokens in one batch: each takes about fifty bytes while the model runs, in each of its layers."""


def in_batches(texts: Sequence[Sequence[int]], run: Callable[[Numbers, Numbers], Vectors]) -> Vectors:
    """Run a model on tokenized texts, passing it numbers and a mask. Returns one row of length 1 for each text, in order."""
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    results: list[Vectors] = []
    for batch in _batches(order, [len(text) for text in texts]):
        chosen = [texts[number] for number in batch]
        numbers = np.zeros((len(chosen), len(chosen[-1])), np.int64)
        mask = np.zeros_like(numbers)
        for row, text in enumerate(chosen):
            numbers[row, : len(text)] = text
            mask[row, : len(text)] = 1
        results.append(run(numbers, mask))
    sorted_rows = np.concatenate(results)
    rows = np.empty_like(sorted_rows)
    rows[order] = sorted_rows
    return normal(rows)


def _batches(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """The indexes of texts, grouped. `order` sorts the texts by length."""
    batch: list[int] = []
    for number in order:
        if batch and (len(batch) == BATCH or (len(batch) + 1) * lengths[number] ** 2 > MOST_PAIRS):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def normal(rows: Vectors) -> Vectors:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-9))


def mean_of_tokens(states: NDArray[np.float32], mask: Numbers) -> Vectors:
    weights = mask[..., None].astype(np.float32)
    return (states * weights).sum(1) / weights.sum(1)
