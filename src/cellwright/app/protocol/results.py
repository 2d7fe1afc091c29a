"""What a tool returned, as an answer within its budget: data for programs, text for the model."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic_core import to_json

from cellwright.core.arguments import Signature
from cellwright.core.errors import CellwrightError
from cellwright.core.text.budget import MAX_TOKENS, MINIMUM_TOKENS, cut, estimate_tokens, fit
from cellwright.core.text.clean import may_hide, shown
from cellwright.core.text.cutting import CutText, joined
from cellwright.core.toolset import Content, DataAsText, FailureShape, Image, Link, Reply

TRUNCATED = "cellwright/truncated"
LARGE_CHARACTERS = 50_000
ERROR_TOKENS = 6_000
ERROR_CHARACTERS = 4_000
"""Of each text in an error: it may be the caller's own, of megabytes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool's answer before it is put on the wire."""

    content: tuple[str | Image | Link, ...]
    data: dict[str, Any] | None = None
    failed: bool = False
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    tokens: int = 0
    """Of all texts in it."""


def compact_json(value: object) -> str:
    return to_json(value).decode("utf-8")


@dataclass(frozen=True, slots=True)
class WholeResult:
    """A tool's result as JSON, whole: not yet cut to what an answer may cost."""

    reply: Reply[object]
    data: Any
    text: str

    @property
    def is_large(self) -> bool:
        """Whether others would notice how long it takes to cut it."""
        told = sum(len(part) for part in self.reply.content or () if isinstance(part, str))
        return len(self.text) + told > LARGE_CHARACTERS


def write_result(result: object, signature: Signature) -> WholeResult:
    """The result as it will be said. From here on nothing in it is hidden, before it is measured and cut."""
    reply = cast("Reply[object]", result) if isinstance(result, Reply) else Reply(result)
    data = signature.result.dump_python(reply.data, mode="json", by_alias=True)
    text = _text(data)
    if may_hide(text) or isinstance(data, str):
        data = shown(data)
        text = _text(data)
    if reply.content is not None:
        reply = replace(reply, content=tuple(map(_shown_part, reply.content)))
    return WholeResult(reply, data, text)


def _shown_part(part: Content) -> Content:
    if isinstance(part, Link):
        return replace(part, name=shown(part.name), mime_type=shown(part.mime_type))
    return shown(part) if isinstance(part, str) else part


def answer_result(written: WholeResult, signature: Signature, tokens: int) -> Answer:
    """The answer for a call that ended. Whatever the tool returned, nothing leaves over budget."""
    reply, text = written.reply, written.text
    budget = min(reply.max_tokens or tokens, MAX_TOKENS)
    # Nearly every result is small: written once, measured once.
    if reply.content is None and (tokens := estimate_tokens(text)) <= budget:
        data = written.data if signature.output_schema is not None else None
        return Answer((text,), data, reply.failed, tokens=tokens)
    fitted = fit(_with_gaps(reply.data, written.data), budget)
    # What is cut to less than an object is no longer what the schema says: clients check that.
    cut = cast("dict[str, Any]", fitted.value) if isinstance(fitted.value, dict) else {}
    data = cut if signature.output_schema is not None else None
    content = (DataAsText(),) if reply.content is None else reply.content
    parts = tuple(_text(fitted.value) if isinstance(part, DataAsText) else part for part in content)
    kept, tokens, cut_from = _within(parts, budget)
    meta: dict[str, Any] = {}
    if fitted.truncated or cut_from:
        meta[TRUNCATED] = {"original_tokens": max(fitted.original_tokens, cut_from), "budget_tokens": budget}
    return Answer(kept, data, reply.failed, meta, tokens)


def _with_gaps(made: object, written: Any) -> Any:  # noqa: ANN401 - JSON
    """The result as JSON, in which texts that a tool has cut still know it: writing as JSON makes plain texts of them."""
    if isinstance(made, CutText) and made == written:
        return made
    if isinstance(made, dict) and isinstance(written, dict):
        tool_made = cast("dict[object, object]", made)
        return {key: _with_gaps(tool_made.get(key), item) for key, item in cast("dict[str, Any]", written).items()}
    if isinstance(made, list | tuple) and isinstance(written, list):
        pairs = zip(cast("Sequence[object]", made), cast("list[Any]", written), strict=True)
        return [_with_gaps(one, item) for one, item in pairs]
    return written


def answer_error(error: CellwrightError, shape: FailureShape | None = None) -> Answer:
    """The answer for a call that failed in a way the caller can act on.

    Whatever it repeats of what the caller sent is not long, and nothing in it is hidden.
    """
    told = {"ok": False, "error": error.as_json()} if shape is None else shape(error)
    data = cast("dict[str, Any]", fit(shown(brief(told)), ERROR_TOKENS).value)
    text = compact_json(data) if shape is not None else shown(brief(f"{error.code}: {error}"))
    return Answer((text,), data, failed=True, tokens=estimate_tokens(text))


def brief(value: Any) -> Any:  # noqa: ANN401 - JSON
    """What an error says, without the rest of texts that are too long for one."""
    if isinstance(value, str):
        over = len(value) - ERROR_CHARACTERS
        return value if over <= 0 else f"{value[:ERROR_CHARACTERS]}… ({over} more characters)"
    if isinstance(value, dict):
        return {brief(key): brief(item) for key, item in cast("dict[str, Any]", value).items()}
    return [brief(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _text(value: object) -> str:
    return value if isinstance(value, str) else compact_json(value)


def _within(content: tuple[str | Image | Link, ...], budget: int) -> tuple[tuple[str | Image | Link, ...], int, int]:
    """The content with its text cut to share the budget; the tokens there are; and those there were, if anything was cut."""
    texts = [part for part in content if isinstance(part, str)]
    total = sum(estimate_tokens(text) for text in texts)
    if total <= budget:
        return content, total, 0
    if budget // len(texts) < MINIMUM_TOKENS:
        # Too many parts for a share each: one text of them all.
        one = cut(joined(texts, "\n"), budget).text
        return (one, *(part for part in content if not isinstance(part, str))), estimate_tokens(one), total
    kept: list[str | Image | Link] = []
    left = budget
    remaining = len(texts)
    for part in content:
        if not isinstance(part, str):
            kept.append(part)
            continue
        share = max(left // remaining, 1)
        shortened = cut(part, share).text
        kept.append(shortened)
        left -= estimate_tokens(shortened)
        remaining -= 1
    return tuple(kept), budget - left, total
