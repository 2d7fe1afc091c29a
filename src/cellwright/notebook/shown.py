"""Outputs as a model reads them, in JSON: cleaned, cut, without pictures."""

from typing import Any, Literal, NotRequired, final

from typing_extensions import TypedDict


@final
class ShownStream(TypedDict):
    output_type: Literal["stream"]
    name: str
    text: str


@final
class ShownError(TypedDict):
    """An error under the names of nbformat, as everywhere, and under those that the tool's contract has for outputs."""

    output_type: Literal["error"]
    ename: str
    evalue: str
    name: str
    value: str
    traceback: list[str]


@final
class ShownData(TypedDict):
    output_type: Literal["execute_result", "display_data"]
    data: dict[str, Any]
    metadata: dict[str, Any]
    execution_count: int | None


@final
class ShownUnknown(TypedDict):
    """An output of a type that nobody knows."""

    output_type: str
    omitted: Literal[True]


ShownOutput = ShownStream | ShownError | ShownData | ShownUnknown


class LeftOutData(TypedDict):
    """What stands for data that is not shown."""

    omitted: str
    size: int
    resource: NotRequired[str]
    why: NotRequired[str]


class ShownPicture(TypedDict):
    """What stands for a picture that is shown beside the JSON."""

    shown: Literal[True]
    size: int
    resource: NotRequired[str]
