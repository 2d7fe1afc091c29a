"""The lives of kernels, and in which of them each caller last ran something: whoever has lost variables is told so, once."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeVar

MOST_REMEMBERED = 5_000
"""Of the runners, and of the documents; those that ran something longest ago are forgotten first."""
SHUT_DOWN = "it was shut down, or its Jupyter server was restarted"
WHAT_IS_LOST = "variables, imports and open files of before are gone; run the cells again that define what you need"

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class KernelLife:
    """A kernel from one start to the next, as far as that can be told from its other lives."""

    kernel_id: str
    connection: str = ""
    """Our connection, which counted the restarts; empty if there is none."""
    restarts: int = 0
    process: str | None = None
    """How the kernel's process signs its messages; None if that is not known."""
    ending: str = ""
    """How the life before it ended, "died" or "was restarted"; empty if that is not known."""

    def differs_from(self, other: "KernelLife") -> bool:
        """Whether these are certainly two lives."""
        if self.kernel_id != other.kernel_id:
            return True
        if self.process is not None and other.process is not None:
            return self.process != other.process
        return self.connection == other.connection and self.restarts != other.restarts


@dataclass(frozen=True, slots=True)
class Runner:
    """Somebody who runs code, and the document in whose kernel they do."""

    caller: str
    document: str


class LastRuns:
    """In which life of its kernel each runner last ran something. None if they know that it is over."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._of: OrderedDict[Runner, KernelLife | None] = OrderedDict()
        self._latest: OrderedDict[str, KernelLife] = OrderedDict()

    def ran(self, runner: Runner, life: KernelLife) -> str:
        """Note a run. Returns what to tell the runner, if the variables of earlier runs are gone and they do not know it."""
        if runner in self._of:
            whose, before = "your last run", self._of[runner]
        else:
            whose, before = "the last run", self._latest.get(runner.document)
        self._remember(self._of, runner, life)
        self._remember(self._latest, runner.document, life)
        return _loss(before, life, whose)

    def looked(self, runner: Runner, life: KernelLife | None) -> str:
        """What to tell a runner who looks at the kernel, if it is not that of their last run. None: there is no kernel."""
        before = self._of.get(runner)
        if before is None:
            return ""
        if life is None:
            self._of[runner] = None
            return f"The kernel of your last run here is gone ({SHUT_DOWN}): {WHAT_IS_LOST}"
        if note := _loss(before, life, "your last run"):
            self._of[runner] = life
        return note

    def ended_by(self, runner: Runner, kernel_id: str | None = None) -> None:
        """The runner knows that this kernel, or the one of its last run, has begun anew or is gone. Other documents may share it."""
        before = self._of.get(runner)
        ended = {kernel_id, before.kernel_id if before else None}
        for other, life in self._of.items():
            if other.caller == runner.caller and life is not None and life.kernel_id in ended:
                self._of[other] = None
        self._remember(self._of, runner, None)

    def _remember(self, memory: OrderedDict[K, V], key: K, value: V) -> None:
        memory[key] = value
        memory.move_to_end(key)
        if len(memory) > self._most:
            memory.popitem(last=False)


def _loss(before: KernelLife | None, life: KernelLife, whose: str) -> str:
    if before is None or not life.differs_from(before):
        return ""
    return f"The kernel is new since {whose} here ({_how(before, life)}): {WHAT_IS_LOST}"


def _how(before: KernelLife, life: KernelLife) -> str:
    if before.kernel_id != life.kernel_id:
        return f"another one: {SHUT_DOWN}"
    known = before.connection == life.connection and life.restarts == before.restarts + 1
    match life.ending if known else "":
        case "died":
            return "it died and was started again"
        case "was restarted":
            return "somebody else restarted it"
        case _:
            return "it died, or somebody else restarted it"
