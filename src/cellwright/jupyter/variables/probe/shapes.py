"""How large arrays, tensors and tables are, and of what type."""

from __future__ import annotations

from typing import Any

from cellwright.jupyter.variables.probe.kinds import cut, is_a, known_as, module_names

SHAPE_ONLY = {("jaxlib", "ArrayImpl"), ("jax", "ArrayImpl"), ("tensorflow", "EagerTensor"), ("cupy", "ndarray")}
"""Arrays of which only shape and type are told: their numbers are in another device's memory, or yet to be computed."""
SHAPED = {
    ("pandas", "DataFrame"),
    ("pandas", "Series"),
    ("polars", "DataFrame"),
    ("polars", "Series"),
    ("pyarrow", "Table"),
}


def plain_array(value: Any) -> Any:
    """The same memory as a plain numpy array, whatever class of the notebook inherits from it; None for all else."""
    array = module_names("numpy").get("ndarray")
    return array.view(value, array) if array is not None and is_a(value, array) else None


def is_tensor(value: Any) -> bool:
    return known_as(value) in (("torch", "Tensor"), ("torch", "Parameter"))


def array_head(value: Any) -> dict[str, Any] | None:
    """Shape and type of an array or tensor; None for all else."""
    array = plain_array(value)
    if array is not None:
        return {"shape": str(array.shape), "dtype": cut(str(array.dtype))}
    if is_tensor(value):
        return {
            "shape": str(tuple(value.shape)),
            "dtype": cut(str(value.dtype), 40),
            "device": cut(str(value.device), 40),
        }
    if known_as(value) in SHAPE_ONLY:
        return {"shape": str(tuple(int(side) for side in value.shape)), "dtype": cut(str(value.dtype), 80)}
    return None


def shape_line(value: Any) -> str:
    head = array_head(value)
    if head is not None:
        return f"{head['dtype']} {head['shape']}"
    return str(tuple(value.shape)) if known_as(value) in SHAPED else ""
