"""What tests of thinking notebooks share."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from cellwright.notebook.run import Kernels
from cellwright.storage.location import Location
from cellwright.thinking.model import ThinkingLimits
from cellwright.thinking.service import Thinking

MakeThinking = Callable[..., Thinking]
Opening = Callable[[Location], AbstractAsyncContextManager[Callable[[Kernels, ThinkingLimits | None], Thinking]]]


class Clock:
    """A time that only the test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now
