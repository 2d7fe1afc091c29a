"""Prompts: texts that a person picks in a client to set an agent to work."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from cellwright.core.types import Call

Complete = Callable[[Call, str, str], Awaitable[Sequence[str]]]
"""Values of an argument, by its name, that fit what was typed of it."""


async def _nothing_to_offer(_call: Call, _argument: str, _prefix: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class PromptArgument:
    name: str
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    title: str
    description: str
    arguments: tuple[PromptArgument, ...]
    write: Callable[[Mapping[str, str]], str]
    """The text with these arguments, or InvalidArgument that says which is missing or unknown."""
    complete: Complete = _nothing_to_offer
