"""Arrays and tensors: shape, type, device, and what their numbers are like."""

from __future__ import annotations

from typing import Any

from cellwright.jupyter.variables.probe.kinds import Budget, module_names
from cellwright.jupyter.variables.probe.shapes import array_head, is_tensor, plain_array
from cellwright.jupyter.variables.probe.texts import line

SAMPLE = 1_000_000
SHOWN_ELEMENTS = 10
SHOWN_LEVELS = 3


def array_detail(value: Any, budget: Budget) -> dict[str, Any]:
    detail = array_head(value) or {}
    array = plain_array(value)
    if array is not None:
        detail["bytes"] = int(array.nbytes)
        masked = module_names("numpy.ma").get("MaskedArray")
        if masked is not None and type(value) is masked:
            detail["note"] = "masked: the numbers below are of its data, masked ones too"
        return {**detail, **statistics(array, budget)}
    if not is_tensor(value):
        detail["note"] = "its numbers were not looked at: that may compute them, or copy them from another device"
        return detail
    detail["requires_grad"] = bool(value.requires_grad)
    if str(value.device) != "cpu" or str(value.layout) != "torch.strided" or value.is_quantized:
        detail["note"] = "its numbers were not looked at: they are not in plain memory"
        return detail
    return {**detail, **tensor_statistics(value, budget)}


def tensor_statistics(tensor: Any, budget: Budget) -> dict[str, Any]:
    """What the numbers of a tensor are like, from a copy: sharing its memory with numpy would fix the size of its storage."""
    sample = tensor.detach()[steps_through(tuple(tensor.shape))]
    if str(sample.dtype) in ("torch.bfloat16", "torch.float8_e4m3fn", "torch.float8_e5m2"):
        sample = sample.float()
    copied = sample.clone().resolve_conj().resolve_neg().numpy()
    about = statistics(copied, budget)
    if copied.size < tensor.numel():
        about["sample"] = sample_text(copied.size, tensor.numel())
    return about


def sample_text(looked_at: int, length: int) -> str:
    return f"{looked_at:,} of {length:,} elements, evenly spread"


def steps_through(shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Slices through an array of this shape that take evenly spread elements, not many more than SAMPLE."""
    steps = [1] * len(shape)

    def size() -> int:
        product = 1
        for axis, side in enumerate(shape):
            product *= -(-side // steps[axis])
        return product

    while size() > SAMPLE:
        longest = max(range(len(shape)), key=lambda axis: -(-shape[axis] // steps[axis]))
        steps[longest] *= 2
    return tuple(slice(None, None, step) for step in steps)


def statistics(array: Any, budget: Budget) -> dict[str, Any]:
    """Range, mean and missing numbers of a plain numpy array, and its first elements."""
    about: dict[str, Any] = {"elements": first_elements(array)}
    if array.size == 0 or array.dtype.kind not in "biufcmM" or budget.late:
        return about
    sample = array[steps_through(array.shape)]
    if sample.size < array.size:
        about["sample"] = sample_text(sample.size, array.size)
    return {**about, **numbers(sample)}


def first_elements(array: Any) -> list[str]:
    elements = [array.flat[position] for position in range(min(SHOWN_ELEMENTS, array.size))]
    # A record's own text would ask the objects in it for theirs.
    return [line(element.item() if array.dtype.names else element, 60) for element in elements]


def array_text(array: Any, level: int = 0) -> str:
    """The beginning of a plain numpy array, with its nesting."""
    if not array.ndim:
        return line(array[()], 40) if not array.dtype.names else line(array.item(), 40)
    if level >= SHOWN_LEVELS:
        return "[…]"
    texts = [array_text(array[place, ...], level + 1) for place in range(min(SHOWN_ELEMENTS >> level, array.shape[0]))]
    more = ["…"] if array.shape[0] > len(texts) else []
    return f"[{', '.join(texts + more)}]"


def present(sample: Any) -> Any:
    """The numbers or times that are not missing."""
    numpy: Any = module_names("numpy")
    kind = sample.dtype.kind
    if kind not in "fcmM":
        return sample
    return sample[~numpy["isnat" if kind in "mM" else "isnan"](sample)]


def numbers(sample: Any) -> dict[str, Any]:
    """What numbers and times are like. A function for numpy's errors that the notebook has set is not called."""
    numpy: Any = module_names("numpy")
    kind = sample.dtype.kind
    with numpy["errstate"](all="ignore"):
        if kind == "b":
            return {"true": int(numpy["count_nonzero"](sample))}
        there = present(sample)
        about: dict[str, Any] = {"nan": int(sample.size - there.size)} if kind in "fcmM" else {}
        if kind in "fc":
            infinite = int(numpy["count_nonzero"](numpy["isinf"](there)))
            about.update({"infinite": infinite} if infinite else {})
        if there.size and kind != "c":
            about["min"], about["max"] = line(there.min()), line(there.max())
        if there.size and kind not in "mM":
            about["mean"] = line(there.mean(dtype="complex128" if kind == "c" else "float64"))
    return about
