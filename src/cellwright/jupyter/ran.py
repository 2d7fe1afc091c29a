"""What ran in a kernel since it began: our runs and those of people, in the words of the kernel itself."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import cast

from cellwright.jupyter.kernels.channel import JsonObject, Message

USERNAME = "cellwright"
"""What agents of this program call themselves in their messages."""
MOST_RUNS = 10_000
MOST_CHARACTERS = 16_000_000
UNDER_WAY = 256


class RunEnd(StrEnum):
    RUNNING = "running"
    OK = "ok"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"
    """It ran before we listened."""


@dataclass(frozen=True, slots=True)
class RanCode:
    """One run of code, which the kernel numbered."""

    number: int
    """Its execution count."""
    source: str
    ended: RunEnd
    by_agent: bool | None
    """Whether an agent ran it, and not a person; None if it ran before we listened."""

    def ran(self, source: str) -> bool:
        """Whether this is the source that ran. Kernels leave out line breaks at its end."""
        return self.source.rstrip("\n") == source.rstrip("\n")


class KernelRuns:
    """The runs in the present life of a kernel, by their numbers."""

    def __init__(self) -> None:
        self.whole = False
        """Whether these are all: not until the kernel was asked for what ran before we listened."""
        self.version = 0
        """Another one whenever something ran, ended, or was forgotten."""
        self.life = 0
        """Another one whenever the kernel is new."""
        self.rewritten = 0
        """Another one whenever a number turns out to be that of another run: what runs without a number is announced with the next one."""
        self._is_gap = False
        self._runs: OrderedDict[int, RanCode] = OrderedDict()
        self._under_way: OrderedDict[str, int] = OrderedDict()
        self._characters = 0

    def __len__(self) -> int:
        return len(self._runs)

    def latest(self) -> Sequence[RanCode]:
        """All runs that are remembered, in the order in which they began."""
        return [self._runs[number] for number in sorted(self._runs)]

    def get(self, number: int) -> RanCode | None:
        return self._runs.get(number)

    def begin_life(self) -> None:
        """The kernel is new: nothing of what ran before counts any more."""
        self._runs.clear()
        self._under_way.clear()
        self._characters = 0
        # A life that began while we did not listen has more runs than we know.
        self.whole = not self._is_gap
        self.version += 1
        self.life += 1

    def note_gap(self) -> None:
        """Messages may have been missed."""
        self.whole = False
        self._is_gap = True
        self._under_way.clear()
        for number, run in self._runs.items():
            if run.ended is RunEnd.RUNNING:
                self._runs[number] = replace(run, ended=RunEnd.UNKNOWN)
        self.version += 1

    def receive(self, message: Message) -> None:
        """Note what a message of the kernel says of a run, whoever asked for it."""
        if message.type == "execute_input":
            number, source = message.content.get("execution_count"), message.content.get("code")
            if isinstance(number, int) and isinstance(source, str):
                by_agent = message.parent.get("username") == USERNAME
                self._note(RanCode(number, source, RunEnd.RUNNING, by_agent))
                self._under_way[message.parent_id] = number
                if len(self._under_way) > UNDER_WAY:
                    self._under_way.popitem(last=False)
        elif message.type == "error":
            interrupted = message.content.get("ename") == "KeyboardInterrupt"
            self._end(message.parent_id, RunEnd.INTERRUPTED if interrupted else RunEnd.ERROR)
        elif message.type == "status" and message.content.get("execution_state") == "idle":
            self._end(message.parent_id, RunEnd.OK)
            self._under_way.pop(message.parent_id, None)

    def complete(self, reply: JsonObject) -> bool:
        """Take in the kernel's own history of its present life. Returns whether it had one."""
        history: object = reply.get("history")
        if reply.get("status") != "ok" or not isinstance(history, list):
            return False
        for entry in cast("list[object]", history):
            match entry:
                case [int(), int(number), str(source)] if number not in self._runs and number > 0:
                    self._note(RanCode(number, source, RunEnd.UNKNOWN, None))
                case _:
                    pass
        self.whole, self._is_gap = True, False
        return True

    def _note(self, run: RanCode) -> None:
        before = self._runs.pop(run.number, None)
        self.rewritten += before is not None and before.source != run.source
        self._characters += len(run.source) - (len(before.source) if before else 0)
        self._runs[run.number] = run
        self.version += 1
        while len(self._runs) > MOST_RUNS or (self._characters > MOST_CHARACTERS and len(self._runs) > 1):
            _, oldest = self._runs.popitem(last=False)
            self._characters -= len(oldest.source)
            self.whole = False

    def _end(self, request_id: str, ended: RunEnd) -> None:
        number = self._under_way.get(request_id)
        run = self._runs.get(number) if number is not None else None
        if run is not None and run.ended is RunEnd.RUNNING:
            self._runs[run.number] = replace(run, ended=ended)
            self.version += 1
