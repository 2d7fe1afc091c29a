"""Prompts: texts that a person picks in a client to set an agent to work."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cellwright.core.types import Call

Complete = Callable[[Call, str, str], Awaitable[Sequence[str]]]
"""Values that complete what was typed for an argument; called with its name and the typed prefix."""


async def _no_completions(_call: Call, _argument: str, _prefix: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a text for agents. It is left out if a tool that it names is not offered."""

    text: str
    needs: frozenset[str] = frozenset()


def passage(text: str, *needs: str) -> Passage:
    return Passage(text, frozenset(needs))


def composed(passages: Iterable[Passage], offered: AbstractSet[str]) -> str:
    """The text for an agent that is offered these tools."""
    return "".join(passage.text for passage in passages if passage.needs <= offered)


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
    write: Callable[[Mapping[str, str], AbstractSet[str]], str]
    """The text with these arguments, for an agent that is offered these tools. InvalidArgument if one is missing or unknown."""
    complete: Complete = _no_completions
    tools: frozenset[str] = frozenset()
    """The tools that it needs: it is only shown to callers who are offered all of them."""
