"""MiniLM in numpy, for installations without onnxruntime: a third of its speed, the same vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cellwright.storage.search.embeddings.batches import Numbers, Vectors, in_batches, mean_of_tokens
from cellwright.storage.search.embeddings.onnx_file import Graph, read_graph
from cellwright.storage.search.embeddings.tokenizer import WordPiece

Array = NDArray[np.float32]
HEADS = 12
EPSILON = np.float32(1e-12)
HIDDEN = np.float32(-1e9)


@dataclass(frozen=True)
class Linear:
    weight: Array
    bias: Array

    def __call__(self, x: Array) -> Array:
        # One large product, because numpy computes many small ones for a stack of matrices.
        flat = x.reshape(-1, x.shape[-1]) @ self.weight
        flat += self.bias
        return flat.reshape(*x.shape[:-1], -1)


@dataclass(frozen=True)
class Norm:
    weight: Array
    bias: Array

    def __call__(self, x: Array) -> Array:
        x = x - x.mean(-1, keepdims=True)
        variance = np.square(x).mean(-1, keepdims=True)
        return x / np.sqrt(variance + EPSILON) * self.weight + self.bias


@dataclass(frozen=True)
class Layer:
    query: Linear
    key: Linear
    value: Linear
    attended: Linear
    attended_norm: Norm
    widened: Linear
    narrowed: Linear
    narrowed_norm: Norm

    def __call__(self, x: Array, bias: Array) -> Array:
        x = self.attended_norm(x + self.attended(self._attention(x, bias)))
        return self.narrowed_norm(x + self.narrowed(gelu(self.widened(x))))

    def _attention(self, x: Array, bias: Array) -> Array:
        rows, tokens, width = x.shape
        query, key, value = (
            part(x).reshape(rows, tokens, HEADS, -1).swapaxes(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = query @ key.swapaxes(2, 3) * np.float32(1 / np.sqrt(width // HEADS)) + bias
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        return (scores @ value).swapaxes(1, 2).reshape(rows, tokens, width)


def gelu(x: Array) -> Array:
    return x * np.float32(0.5) * (1 + _erf(x * np.float32(0.70710678)))


def _erf(x: Array) -> Array:
    """Abramowitz and Stegun 7.1.26: within 1.5e-7, the precision of float32."""
    size = np.abs(x)
    t = 1 / (1 + np.float32(0.3275911) * size)
    series = np.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + np.float32(factor)) * t
    return (np.sign(x) * (1 - series * np.exp(-size * size))).astype(np.float32)


class NumpyMiniLM:
    """Runs the same ONNX file that onnxruntime would run."""

    def __init__(self, name: str, file: Path, tokenizer: WordPiece) -> None:
        self.name = name
        self._tokenizer = tokenizer
        graph = read_graph(file)
        prefix = next(name.split("embeddings.")[0] for name in graph.constants if "embeddings." in name)
        self._words, self._positions, types = (
            graph.weight(f"{prefix}embeddings.{kind}_embeddings.weight") for kind in ("word", "position", "token_type")
        )
        self._type = types[0]
        self._norm = _norm(graph, f"{prefix}embeddings")
        weights = _weights_by_bias(graph)
        layers = sum(name.endswith("attention.self.query.bias") for name in graph.constants)
        self._layers = [_layer(graph, weights, f"{prefix}encoder.layer.{number}") for number in range(layers)]

    def embed(self, texts: Sequence[str]) -> Vectors:
        return in_batches([self._tokenizer.numbers(text) for text in texts], self._run)

    def _run(self, numbers: Numbers, mask: Numbers) -> Vectors:
        x = self._norm(self._words[numbers] + self._positions[: numbers.shape[1]] + self._type)
        bias = ((1 - mask)[:, None, None, :] * HIDDEN).astype(np.float32)
        for layer in self._layers:
            x = layer(x, bias)
        return mean_of_tokens(x, mask)


def _weights_by_bias(graph: Graph) -> dict[str, str]:
    """The name of the matrix that belongs to each bias. The file names biases only; the graph leads from them to the matrices."""
    matrices = {node.outputs[0]: node.inputs[1] for node in graph.nodes if node.kind == "MatMul"}
    return {
        node.inputs[1]: matrices[node.inputs[0]]
        for node in graph.nodes
        if node.kind == "Add" and node.inputs[0] in matrices
    }


def _norm(graph: Graph, place: str) -> Norm:
    return Norm(graph.weight(f"{place}.LayerNorm.weight"), graph.weight(f"{place}.LayerNorm.bias"))


def _layer(graph: Graph, weights: dict[str, str], place: str) -> Layer:
    def linear(name: str) -> Linear:
        bias = f"{place}.{name}.bias"
        return Linear(graph.weight(weights[bias]), graph.weight(bias))

    return Layer(
        linear("attention.self.query"),
        linear("attention.self.key"),
        linear("attention.self.value"),
        linear("attention.output.dense"),
        _norm(graph, f"{place}.attention.output"),
        linear("intermediate.dense"),
        linear("output.dense"),
        _norm(graph, f"{place}.output"),
    )
