"""What a tool returned, as an answer within its budget: data for programs, text for the model."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic_core import to_json

from cellwright.core.arguments import Signature
from cellwright.core.budget import MAX_TOKENS, MINIMUM_TOKENS, cut, estimate_tokens, fit
from cellwright.core.errors import CellwrightError
from cellwright.core.tokens import MOST_TOKENS_PER_CHARACTER
from cellwright.core.toolset import FailureShape, Image, Link, Reply

TRUNCATED = "cellwright/truncated"
LARGE_CHARACTERS = 500_000


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool's answer before it is put on the wire."""

    content: tuple[str | Image | Link, ...]
    data: dict[str, Any] | None = None
    failed: bool = False
    meta: dict[str, Any] = field(default_factory=dict[str, Any])


def compact_json(value: object) -> str:
    return to_json(value).decode("utf-8")


@dataclass(frozen=True, slots=True)
class Written:
    """A tool's result as JSON, whole: not yet cut to what an answer may cost."""

    reply: Reply[object]
    data: Any
    text: str

    @property
    def is_large(self) -> bool:
        """Whether others would notice how long it takes to cut it."""
        told = sum(len(part) for part in self.reply.content or () if isinstance(part, str))
        return len(self.text) + told > LARGE_CHARACTERS


def write_result(result: object, signature: Signature) -> Written:
    reply = cast("Reply[object]", result) if isinstance(result, Reply) else Reply(result)
    data = signature.result.dump_python(reply.data, mode="json", by_alias=True)
    return Written(reply, data, _text(data))


def answer_result(written: Written, signature: Signature, tokens: int) -> Answer:
    """The answer for a call that ended. Whatever the tool returned, nothing leaves over budget."""
    reply, text = written.reply, written.text
    budget = min(reply.max_tokens or tokens, MAX_TOKENS)
    # Nearly every result is small: written once, measured at most once.
    if reply.content is None and (len(text) * MOST_TOKENS_PER_CHARACTER <= budget or estimate_tokens(text) <= budget):
        return Answer((text,), written.data if signature.output_schema is not None else None, reply.failed)
    fitted = fit(written.data, budget)
    data = _conforming(fitted.value, signature.output_schema) if signature.output_schema is not None else None
    content = reply.content if reply.content is not None else (_text(fitted.value),)
    kept, cut_from = _within(content, budget)
    meta: dict[str, Any] = {}
    if fitted.truncated or cut_from:
        meta[TRUNCATED] = {"original_tokens": max(fitted.original_tokens, cut_from), "budget_tokens": budget}
    return Answer(kept, data, reply.failed, meta)


_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def _conforming(value: object, schema: dict[str, Any]) -> dict[str, Any]:
    """What is left of a result after cutting, without what is no longer of its declared kind: clients check that."""
    if not isinstance(value, dict):
        return {}
    kept: dict[str, Any] = {}
    for key, item in cast("dict[str, object]", value).items():
        declared: str | list[str] = schema["properties"].get(key, {}).get("type", [])
        kinds = [declared] if isinstance(declared, str) else declared
        if not kinds or any(isinstance(item, _PYTHON_TYPES[kind]) for kind in kinds):
            kept[key] = item
    return kept


def answer_error(error: CellwrightError, shape: FailureShape | None = None) -> Answer:
    """The answer for a call that failed in a way the caller can act on."""
    if shape is not None:
        data = shape(error)
        return Answer((compact_json(data),), data, failed=True)
    return Answer((f"{error.code}: {error}",), {"ok": False, "error": error.as_json()}, failed=True)


def masked(answer: Answer, secrets: Sequence[str]) -> Answer:
    """The answer without our own secrets, should a cell have printed one: they must not enter a conversation."""
    if not any(secret in part for part in answer.content if isinstance(part, str) for secret in secrets):
        return answer

    def hide(value: object) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, str):
            return masked_text(value, secrets)
        if isinstance(value, dict):
            return {key: hide(item) for key, item in cast("dict[str, object]", value).items()}
        return [hide(item) for item in cast("list[object]", value)] if isinstance(value, list) else value

    content = tuple(hide(part) if isinstance(part, str) else part for part in answer.content)
    return replace(answer, content=content, data=hide(answer.data))


def masked_text(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _text(value: object) -> str:
    return value if isinstance(value, str) else compact_json(value)


def _within(content: tuple[str | Image | Link, ...], budget: int) -> tuple[tuple[str | Image | Link, ...], int]:
    """The content with its text cut to share the budget; the tokens there were, if anything was cut."""
    texts = [part for part in content if isinstance(part, str)]
    total = sum(estimate_tokens(text) for text in texts)
    if total <= budget:
        return content, 0
    if budget // len(texts) < MINIMUM_TOKENS:
        # Too many parts for a share each: one text of them all.
        return (cut("\n".join(texts), budget).text, *(part for part in content if not isinstance(part, str))), total
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
    return tuple(kept), total
