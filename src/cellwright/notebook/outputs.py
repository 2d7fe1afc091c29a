"""The outputs of a cell, in the shape of nbformat. A text may be a list of lines in files; an `Output` has each text in one piece."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NotRequired, TypeGuard, cast

from typing_extensions import TypedDict

from cellwright.notebook.model import count_of, joined

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_PREFERRED = (*PICTURES, "image/svg+xml", "application/json", "text/html", "text/markdown", "text/latex", "text/plain")


class Stream(TypedDict):
    output_type: Literal["stream"]
    name: str
    text: str


class Data(TypedDict):
    """Values by mime type. An `execute_result` has a count as well."""

    output_type: Literal["display_data", "execute_result"]
    execution_count: NotRequired[int | None]
    data: dict[str, Any]
    metadata: dict[str, Any]


class Error(TypedDict):
    output_type: Literal["error"]
    ename: str
    evalue: str
    traceback: list[str]


class Unknown(TypedDict):
    """An output of another type, kept as it is."""

    output_type: NotRequired[object]


Output = Stream | Data | Error | Unknown


def is_stream(output: Output) -> TypeGuard[Stream]:
    return output.get("output_type") == "stream"


def is_data(output: Output) -> TypeGuard[Data]:
    return output.get("output_type") in ("display_data", "execute_result")


def is_error(output: Output) -> TypeGuard[Error]:
    return output.get("output_type") == "error"


def has_error(outputs: Iterable[Mapping[str, Any]]) -> bool:
    return any(output.get("output_type") == "error" for output in outputs)


def best_mime(data: Mapping[str, object]) -> str:
    """The form in which an output is given that has several: a picture, else the richest text."""
    return next((mime for mime in _PREFERRED if mime in data), next(iter(data), "text/plain"))


def read_output(raw: Mapping[str, Any]) -> Output:
    """An output from a file or a shared document. Missing texts are empty; nothing is guessed."""
    match raw.get("output_type"):
        case "stream":
            return {"output_type": "stream", "name": str(raw.get("name", "stdout")), "text": joined(raw.get("text"))}
        case "display_data" | "execute_result" as output_type:
            data = {
                mime: value if mime.endswith("json") else joined(value)
                for mime, value in _mapping(raw.get("data")).items()
            }
            output: Data = {"output_type": output_type, "data": data, "metadata": _mapping(raw.get("metadata"))}
            if "execution_count" in raw:
                output["execution_count"] = count_of(raw["execution_count"])
            return output
        case "error":
            lines = raw.get("traceback")
            traceback = [joined(line) for line in cast("list[object]", lines)] if isinstance(lines, list) else []
            ename, evalue = joined(raw.get("ename")), joined(raw.get("evalue"))
            return {"output_type": "error", "ename": ename, "evalue": evalue, "traceback": traceback}
        case _:
            return cast("Unknown", raw)


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
