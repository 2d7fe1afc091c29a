"""Texts of similar length together: padding is work for nothing."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]
BATCH = 8


def in_batches(texts: Sequence[Sequence[int]], run: Callable[[Numbers, Numbers], Vectors]) -> Vectors:
    """Run a model on numbered texts, given as numbers and mask; one row of length 1 for each text, in order."""
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    found: list[Vectors] = []
    for start in range(0, len(order), BATCH):
        chosen = [texts[number] for number in order[start : start + BATCH]]
        numbers = np.zeros((len(chosen), len(chosen[-1])), np.int64)
        mask = np.zeros_like(numbers)
        for row, text in enumerate(chosen):
            numbers[row, : len(text)] = text
            mask[row, : len(text)] = 1
        found.append(run(numbers, mask))
    sorted_rows = np.concatenate(found)
    rows = np.empty_like(sorted_rows)
    rows[order] = sorted_rows
    return normal(rows)


def normal(rows: Vectors) -> Vectors:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-9))


def mean_of_tokens(states: NDArray[np.float32], mask: Numbers) -> Vectors:
    weights = mask[..., None].astype(np.float32)
    return (states * weights).sum(1) / weights.sum(1)
