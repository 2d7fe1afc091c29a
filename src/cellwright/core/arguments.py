"""A tool function's signature, read once: the schema a client sees and the strict check of what it sends.

Strict means: unknown names are refused with the nearest known one, `true` is not 1, "5" is not 5, numbers are finite, text is valid
Unicode. Each name is accepted in camelCase and in snake_case, because models mix them up and nothing is lost by it.
"""

import difflib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticSerializationError, to_json

from cellwright.core.errors import InvalidArgument
from cellwright.core.nesting import deeper_than
from cellwright.core.text.clean import clean
from cellwright.core.toolset import Reply
from cellwright.core.types import Call

MAX_PROBLEMS_SHOWN = 5
SHOWN_VALUE_CHARS = 60
MANY_PROBLEMS = 1_000
"""Of more problems than these only some are put into words: for each, pydantic makes an object first."""
MOST_ITEMS = 20_000
"""Of a list: each is looked at on the event loop, and some kinds take a few microseconds."""
LOOKED_AT = 20
"""Items of each list that are looked at then."""
LONGEST_NAME = 80
"""Of a longer name only the beginning is compared with the known ones."""
DEEPEST = 201
"""Levels of nesting that the JSON parser takes."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=False)


@dataclass(frozen=True)
class Signature:
    """What a tool takes and gives."""

    model: type[BaseModel]
    takes_call: bool
    returns: Any

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """What a client is told. The check is stricter in one way, and takes a null for what may be left out."""
        schema = compact_schema(self.model.model_json_schema(by_alias=True))
        return {"additionalProperties": False, **cast("dict[str, Any]", _told(schema))}

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """That the result is an object, if it is one (the protocol wants an object at the root).

        No more than that: every client pays for the schema with each conversation, and a model reads the result itself.
        """
        return {"type": "object"} if _is_object(self.returns) else None

    @cached_property
    def names(self) -> dict[str, str]:
        """Every accepted spelling of every argument, to the published one."""
        published = [field.alias or name for name, field in self.model.model_fields.items()]
        return {spelling: name for name in published for spelling in (_snake(name), _camel(name), name)}

    def parse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them, or InvalidArgument that says what to change."""
        given = self._with_known_names(arguments)
        try:
            parsed = self.model.model_validate_json(to_json(given, inf_nan_mode="constants"))
        except (PydanticSerializationError, ValidationError) as error:
            raise self._refusal(given, error) from None
        return {name.removesuffix("_"): getattr(parsed, name) for name in type(parsed).model_fields}

    def _with_known_names(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for spelling, value in arguments.items():
            name = self.names.get(spelling)
            if name is None:
                raise _unknown(spelling, sorted({*self.names.values()}))
            if name in given:
                raise InvalidArgument(
                    f"the argument {name!r} is given twice, in two spellings", hint=f"give {name!r} once"
                )
            if isinstance(value, list) and len(cast("list[object]", value)) > MOST_ITEMS:
                raise InvalidArgument(
                    f"{name}: has {len(cast('list[object]', value)):,} items; at most {MOST_ITEMS:,} are taken",
                    hint="nothing was done; make several calls, each with a part of them",
                )
            given[name] = value
        return given

    def _refusal(
        self, given: Mapping[str, Any], error: PydanticSerializationError | ValidationError
    ) -> InvalidArgument:
        if deeper_than(given, DEEPEST):
            return InvalidArgument(f"the arguments are nested deeper than {DEEPEST} levels", hint="make them flatter")
        if not isinstance(error, ValidationError):
            return InvalidArgument(
                "an argument holds text that is not valid Unicode (a lone surrogate)", hint="send it as plain UTF-8"
            )
        count = error.error_count()
        if count <= MANY_PROBLEMS:
            return _explained(error.errors(include_url=False, include_context=False), count)
        try:
            self.model.model_validate_json(to_json(_beginnings(given), inf_nan_mode="constants"))
        except ValidationError as first:
            return _explained(first.errors(include_url=False, include_context=False), count)
        return _explained([], count)


def _beginnings(value: object) -> object:
    """The same with the first items of each list and object inside the arguments."""
    if isinstance(value, dict):
        found = cast("dict[str, object]", value)
        return {key: _beginnings(found[key]) for key in list(found)[:LOOKED_AT]}
    return [_beginnings(item) for item in cast("list[object]", value)[:LOOKED_AT]] if isinstance(value, list) else value


def signature_of(function: Callable[..., Any]) -> Signature:
    """Read a tool function: service first, then optionally the Call, then the arguments."""
    signature = inspect.signature(function, eval_str=True)
    parameters = list(signature.parameters.values())[1:]
    takes_call = bool(parameters) and parameters[0].annotation is Call
    fields: dict[str, Any] = {}
    for parameter in parameters[1:] if takes_call else parameters:
        default = ... if parameter.default is parameter.empty else parameter.default
        if hasattr(BaseModel, parameter.name):
            # `schema`, `copy`, … are names that the model has itself.
            fields[f"{parameter.name}_"] = (parameter.annotation, Field(default, alias=parameter.name))
        else:
            fields[parameter.name] = (parameter.annotation, default)
    model = create_model(f"{function.__name__}_arguments", __base__=_Arguments, **fields)
    returns = signature.return_annotation
    if get_origin(returns) is Reply:
        (returns,) = get_args(returns)
    return Signature(model, takes_call, returns)


def _is_object(kind: object) -> bool:
    """Whether a value of this type is an object in JSON; of a union, whichever it is. A `TypedDict` is a mapping."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _is_object(get_args(kind)[0])
    if origin in (Union, UnionType):
        return all(map(_is_object, get_args(kind)))
    made = kind if origin is None else origin
    if is_dataclass(made):
        return True
    return isinstance(made, type) and issubclass(made, Mapping | BaseModel) and not issubclass(made, RootModel)


def compact_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema with fewer tokens: no titles, no `anyOf` for "or null", no definitions that are used once."""
    definitions = cast("dict[str, Any]", schema.get("$defs", {}))
    counts: dict[str, int] = {}
    _count_references(schema, counts)
    once = {name: body for name, body in definitions.items() if counts.get(f"#/$defs/{name}", 0) <= 1}
    compacted = cast("dict[str, Any]", _compact({k: v for k, v in schema.items() if k != "$defs"}, once))
    kept = {name: _compact(body, once) for name, body in definitions.items() if name not in once}
    return {**compacted, "$defs": kept} if kept else compacted


def _count_references(node: object, counts: dict[str, int]) -> None:
    if isinstance(node, dict):
        for key, value in cast("dict[str, object]", node).items():
            if key == "$ref" and isinstance(value, str):
                counts[value] = counts.get(value, 0) + 1
            _count_references(value, counts)
    elif isinstance(node, list):
        for item in cast("list[object]", node):
            _count_references(item, counts)


def _compact(node: object, once: Mapping[str, object], *, names: bool = False) -> object:
    """`names`: the keys of this object are property names, not schema keywords."""
    if isinstance(node, list):
        return [_compact(item, once) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    found = cast("dict[str, object]", node)
    if names:
        return {key: _compact(value, once) for key, value in found.items()}
    reference = found.get("$ref")
    if isinstance(reference, str) and (name := reference.removeprefix("#/$defs/")) in once:
        rest = {key: value for key, value in found.items() if key != "$ref"}
        return _compact({**cast("dict[str, object]", once[name]), **rest}, once)
    compacted = {
        key: _compact(value, once, names=key == "properties")
        for key, value in found.items()
        if key != "title" and not (key == "default" and value is None)
    }
    return _null_folded(compacted)


def _null_folded(schema: dict[str, object]) -> dict[str, object]:
    options = schema.get("anyOf")
    if not isinstance(options, list):
        return schema
    kinds = cast("list[dict[str, object]]", options)
    real = [option for option in kinds if option != {"type": "null"}]
    if len(real) == 1 and len(kinds) == 2 and isinstance(real[0].get("type"), str) and "enum" not in real[0]:  # noqa: PLR2004
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return {**real[0], **rest, "type": [real[0]["type"], "null"]}
    return schema


def _told(node: object) -> object:
    """The schema without what every client would pay for and no model needs: whether objects are closed, that optional means or null."""
    if isinstance(node, list):
        return [_told(item) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    schema = {
        key: _told(value)
        for key, value in cast("dict[str, object]", node).items()
        if key != "additionalProperties" or not isinstance(value, bool)
    }
    needed = cast("list[str]", schema.get("required", []))
    properties = schema.get("properties")
    if isinstance(properties, dict):
        optional = cast("dict[str, Any]", properties)
        schema["properties"] = {name: body if name in needed else _or_absent(body) for name, body in optional.items()}
    return schema


def _or_absent(schema: object) -> object:
    """The schema of something that may be left out, which is what null would say."""
    if not isinstance(schema, dict):
        return schema
    body = cast("dict[str, Any]", schema)
    match body.get("type"):
        case [str(kind), "null"]:
            return {**body, "type": kind}
        case _:
            pass
    options = body.get("anyOf")
    if not isinstance(options, list):
        return body
    real = [option for option in cast("list[dict[str, Any]]", options) if option != {"type": "null"}]
    rest = {key: value for key, value in body.items() if key != "anyOf"}
    return {**real[0], **rest} if len(real) == 1 else {**rest, "anyOf": real}


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that was probably meant. Of two that are equally near, the one with the same letters: prot is port, not root."""
    lowered = {candidate.lower(): candidate for candidate in known}
    wanted = name[:LONGEST_NAME].lower()
    found = difflib.get_close_matches(wanted, list(lowered), n=5, cutoff=0.6)
    best = max(found, key=lambda near: (_similarity(wanted, near), sorted(near) == sorted(wanted)), default=None)
    return None if best is None else lowered[best]


def _similarity(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, one).ratio()


def _unknown(name: str, known: Sequence[str]) -> InvalidArgument:
    shown = clean(name[:SHOWN_VALUE_CHARS]).text + ("…" if len(name) > SHOWN_VALUE_CHARS else "")
    meant = nearest(shown, known)
    takes = ", ".join(known) if known else "no arguments"
    return InvalidArgument(
        f"unknown argument {shown!r}",
        hint=(f"did you mean {meant!r}? " if meant else "") + f"this tool takes: {takes}",
        details={"argument": shown, "nearest": meant},
    )


def _explained(problems: Sequence[Any], count: int) -> InvalidArgument:
    """The first problems in words, and how many there are in all."""
    shown = [
        f"{_place(problem['loc']) or 'arguments'}: {_sentence(problem)}" for problem in problems[:MAX_PROBLEMS_SHOWN]
    ]
    more = count - len(shown)
    if not shown:
        shown = [f"{count} values in the arguments are missing or of the wrong kind"]
    elif more > 0:
        shown.append(f"and {more} more")
    return InvalidArgument(
        "; ".join(shown),
        hint="nothing was done; call again with these changed",
    )


def _place(location: Sequence[int | str]) -> str:
    """Where in the arguments. Keys inside them are the caller's own words."""
    return ".".join(clean(str(part)[:SHOWN_VALUE_CHARS]).text for part in location)


def _sentence(problem: Any) -> str:  # noqa: ANN401 - pydantic's ErrorDetails has no public home
    if problem["type"] == "missing":
        return "is required"
    text = str(problem["msg"])
    value = problem["input"]
    if isinstance(value, str | int | float | bool) and problem["type"] != "extra_forbidden":
        shown = repr(value)
        text += f", got {shown if len(shown) <= SHOWN_VALUE_CHARS else shown[:SHOWN_VALUE_CHARS] + '…'}"
    return text[:1].lower() + text[1:]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), name)


def _camel(name: str) -> str:
    return re.sub(r"(?<=[a-zA-Z0-9])_([a-z0-9])", lambda found: found[1].upper(), name)
