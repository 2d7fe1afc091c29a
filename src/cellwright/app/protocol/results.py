"""Turns what a tool returned into an answer within its budget: data for programs, text for the model."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic_core import to_json, to_jsonable_python

from cellwright.core.arguments import Signature
from cellwright.core.errors import CellwrightError
from cellwright.core.text.budget import MAX_TOKENS, MINIMUM_TOKENS, cut, estimate_tokens, fit
from cellwright.core.text.clean import may_hide, shown
from cellwright.core.text.cutting import CutText, joined
from cellwright.core.toolset import Content, DataAsText, FailureShape, Image, Link, Reply

TRUNCATED = "cellwright/truncated"
LARGE_CHARACTERS = 16_000
ERROR_TOKENS = 6_000
ERROR_CHARACTERS = 4_000
"""The limit of each text in an error, which may repeat megabytes that the caller sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool's answer before it is put on the wire."""

    content: tuple[str | Image | Link, ...]
    data: dict[str, Any] | None = None
    failed: bool = False
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    tokens: int = 0
    """The tokens of all its texts."""


def compact_json(value: object) -> str:
    return to_json(value).decode("utf-8")


@dataclass(frozen=True, slots=True)
class WholeResult:
    """A tool's whole result as JSON, not yet cut to its budget."""

    reply: Reply[object]
    data: Any
    text: str

    @property
    def is_large(self) -> bool:
        """Whether cutting it takes so long that other callers would notice."""
        content_characters = sum(len(part) for part in self.reply.content or () if isinstance(part, str))
        return len(self.text) + content_characters > LARGE_CHARACTERS


def write_result(result: object) -> WholeResult:
    """The result as JSON. Invisible characters are made visible here, before it is measured and cut."""
    reply = cast("Reply[object]", result) if isinstance(result, Reply) else Reply(result)
    data = to_jsonable_python(reply.data)
    text = _text(data)
    if may_hide(text) or isinstance(data, str):
        data = shown(data)
        text = _text(data)
    if reply.content is not None:
        reply = replace(reply, content=tuple(map(_visible_part, reply.content)))
    return WholeResult(reply, data, text)


def with_news(result: object, news: Sequence[str]) -> object:
    """The result with what the caller should know beside it, among its notes."""
    reply = cast("Reply[object]", result) if isinstance(result, Reply) else Reply(result)
    known: object = reply.data
    if not isinstance(known, dict):
        return reply
    data = cast("dict[str, Any]", known)
    content = reply.content if reply.content is None or DataAsText() in reply.content else (*reply.content, *news)
    return replace(reply, data={**data, "notes": [*data.get("notes", ()), *news]}, content=content)


def failure_with_news(error: CellwrightError, news: Sequence[str]) -> CellwrightError:
    """The failure with what the caller should know beside it, behind its hint."""
    return type(error)(error.message, hint=". ".join(filter(None, (error.hint, *news))), details=error.details)


def _visible_part(part: Content) -> Content:
    if isinstance(part, Link):
        return replace(part, name=shown(part.name), mime_type=shown(part.mime_type))
    return shown(part) if isinstance(part, str) else part


def answer_result(whole: WholeResult, signature: Signature, tokens: int) -> Answer:
    """The answer for a call that ended, never over budget."""
    reply, text = whole.reply, whole.text
    budget = min(reply.max_tokens or tokens, MAX_TOKENS)
    # Nearly every result is small, and is measured only once.
    if reply.content is None and (tokens := estimate_tokens(text)) <= budget:
        data = whole.data if signature.output_schema is not None else None
        return Answer((text,), data, reply.failed, tokens=tokens)
    fitted = fit(_with_gaps(reply.data, whole.data), budget)
    # Clients check the data against the schema, so data that was cut to less than an object becomes an empty one.
    fitted_data = cast("dict[str, Any]", fitted.value) if isinstance(fitted.value, dict) else {}
    data = fitted_data if signature.output_schema is not None else None
    content = (DataAsText(),) if reply.content is None else reply.content
    parts = tuple(_text(fitted.value) if isinstance(part, DataAsText) else part for part in content)
    content, tokens, cut_from = _within_budget(parts, budget)
    meta: dict[str, Any] = {}
    if fitted.truncated or cut_from:
        meta[TRUNCATED] = {"original_tokens": max(fitted.original_tokens, cut_from), "budget_tokens": budget}
    return Answer(content, data, reply.failed, meta, tokens)


def _with_gaps(returned: object, written: Any) -> Any:  # noqa: ANN401 - JSON
    """The JSON of a result with the tool's own CutText values put back, because JSON turns them into plain texts."""
    if isinstance(returned, CutText) and returned == written:
        return returned
    if isinstance(returned, dict) and isinstance(written, dict):
        returned_dict = cast("dict[object, object]", returned)
        return {key: _with_gaps(returned_dict.get(key), item) for key, item in cast("dict[str, Any]", written).items()}
    if isinstance(returned, list | tuple) and isinstance(written, list):
        pairs = zip(cast("Sequence[object]", returned), cast("list[Any]", written), strict=True)
        return [_with_gaps(part, item) for part, item in pairs]
    return written


def answer_error(error: CellwrightError, shape: FailureShape | None = None) -> Answer:
    """The answer for a call that failed in a way the caller can act on.

    It repeats little of what the caller sent, and nothing invisible.
    """
    failure = {"ok": False, "error": error.as_json()} if shape is None else shape(error)
    data = cast("dict[str, Any]", fit(shown(brief(failure)), ERROR_TOKENS).value)
    text = compact_json(data) if shape is not None else shown(brief(f"{error.code}: {error}"))
    return Answer((text,), data, failed=True, tokens=estimate_tokens(text))


def brief(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The JSON of an error with its long texts cut."""
    if isinstance(value, str):
        over = len(value) - ERROR_CHARACTERS
        return value if over <= 0 else f"{value[:ERROR_CHARACTERS]}… ({over} more characters)"
    if isinstance(value, dict):
        return {brief(key): brief(item) for key, item in cast("dict[str, Any]", value).items()}
    return [brief(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _text(value: object) -> str:
    return value if isinstance(value, str) else compact_json(value)


def _within_budget(
    content: tuple[str | Image | Link, ...], budget: int
) -> tuple[tuple[str | Image | Link, ...], int, int]:
    """The content with its texts cut to share the budget; its tokens; and the original tokens if anything was cut, else 0."""
    texts = [part for part in content if isinstance(part, str)]
    total = sum(estimate_tokens(text) for text in texts)
    if total <= budget:
        return content, total, 0
    if budget // len(texts) < MINIMUM_TOKENS:
        # There are too many texts for a share each, so they become one text.
        merged = cut(joined(texts, "\n"), budget).text
        return (merged, *(part for part in content if not isinstance(part, str))), estimate_tokens(merged), total
    shortened_parts: list[str | Image | Link] = []
    tokens_left = budget
    texts_left = len(texts)
    for part in content:
        if not isinstance(part, str):
            shortened_parts.append(part)
            continue
        share = max(tokens_left // texts_left, 1)
        shortened = cut(part, share).text
        shortened_parts.append(shortened)
        tokens_left -= estimate_tokens(shortened)
        texts_left -= 1
    return tuple(shortened_parts), budget - tokens_left, total
