"""Reads the weights of an ONNX file without onnx or protobuf. Only the parts of the format that such a file uses are supported."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
FLOAT, INT8 = 1, 3
_GRAPH, _NODE, _INITIALIZER = 7, 1, 5
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5


@dataclass
class Node:
    """One step of the graph."""

    kind: str = ""
    inputs: list[str] = field(default_factory=list[str])
    outputs: list[str] = field(default_factory=list[str])


@dataclass
class Graph:
    nodes: list[Node]
    constants: dict[str, NDArray[np.float32] | NDArray[np.int8]]

    def weight(self, name: str) -> Array:
        """A constant; one that is stored as int8 numbers is multiplied by its scale."""
        constant = self.constants.get(name)
        if constant is None:
            constant = self.constants[f"{name}_q"] * self.constants[f"{name}_scale"]
        return constant.astype(np.float32)


def read_graph(file: Path) -> Graph:
    model = memoryview(file.read_bytes())
    (graph,) = (value for number, value in _fields(model) if number == _GRAPH and isinstance(value, memoryview))
    nodes: list[Node] = []
    constants: dict[str, NDArray[np.float32] | NDArray[np.int8]] = {}
    for number, value in _fields(graph):
        if not isinstance(value, memoryview):
            continue
        if number == _NODE:
            nodes.append(_node(value))
        elif number == _INITIALIZER:
            _add_constant(constants, value)
    return Graph(nodes, constants)


def _node(data: memoryview) -> Node:
    node = Node()
    for number, value in _fields(data):
        if not isinstance(value, memoryview):
            continue
        text = bytes(value)
        if number == 1:
            node.inputs.append(text.decode())
        elif number == 2:  # noqa: PLR2004 - numbers of the format
            node.outputs.append(text.decode())
        elif number == 4:  # noqa: PLR2004
            node.kind = text.decode()
    return node


def _add_constant(constants: dict[str, NDArray[np.float32] | NDArray[np.int8]], data: memoryview) -> None:
    shape: list[int] = []
    kind, name, raw = 0, "", b""
    for number, value in _fields(data):
        match number, value:
            case 1, int():
                shape.append(value)
            case 2, int():
                kind = value
            case 8, memoryview():
                name = bytes(value).decode()
            case 9, memoryview():
                raw = bytes(value)
            case _:
                pass
    if kind in {FLOAT, INT8}:
        values = np.frombuffer(raw, np.float32) if kind == FLOAT else np.frombuffer(raw, np.int8)
        constants[name] = values.reshape(shape)


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of one protobuf message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if key & 7 == _BYTES:
            length, at = _varint(data, at)
        elif key & 7 in {_EIGHT_BYTES, _FOUR_BYTES}:
            length = 8 if key & 7 == _EIGHT_BYTES else 4
        else:
            raise ValueError("not an ONNX file")
        yield key >> 3, data[at : at + length]
        at += length


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:  # noqa: PLR2004
            return value, at
