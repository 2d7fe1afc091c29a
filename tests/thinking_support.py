"""What tests of thinking notebooks share."""

from collections.abc import Callable

from cellwright.thinking.service import Thinking

MakeThinking = Callable[..., Thinking]


class Clock:
    """A time that only the test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now
