"""What is asked of a kernel, how it ends, and what is said when it does not end well."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from cellwright.core.errors import CellwrightError, Unavailable
from cellwright.jupyter.kernels.channel import JsonObject, KernelGone, Message

OnMessage = Callable[[Message], None]


class KernelDied(CellwrightError):
    """The process that held the variables is gone."""

    code = "KERNEL_DIED"
    meaning = "The kernel died or was restarted while code ran in it; its variables are lost, what it printed is kept."


class KernelNotStarted(CellwrightError):
    """A kernel was asked for, and its process ended before it answered."""

    code = "KERNEL_NOT_STARTED"
    meaning = "The kernel's process ended before it answered: its environment is broken, or its ipykernel is."


class ReplyLost(Unavailable):
    """The connection was cut and the kernel's answer with it."""

    code = "REPLY_LOST"
    meaning = (
        "The code ran, but the connection to the kernel was cut when it ended; its result and late output are unknown."
    )


@dataclass(frozen=True, slots=True)
class LanguageInfo:
    """What a kernel says it is."""

    language: str
    language_version: str
    implementation: str
    protocol_version: str


@dataclass(frozen=True, slots=True)
class ExecuteReply:
    """How code ended. `status` is the kernel's own word; `incomplete` means output may be missing after a cut."""

    status: Literal["ok", "error", "aborted"]
    execution_count: int | None = None
    ename: str = ""
    evalue: str = ""
    traceback: tuple[str, ...] = ()
    user_expressions: JsonObject = field(default_factory=dict[str, Any])
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """What may stand at the cursor; `start` and `end` count code points of the code that was asked about."""

    matches: tuple[str, ...]
    start: int
    end: int


class Request:
    """Something asked of the kernel. It is over when the reply is here and the kernel has published all output."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.started = False
        self.replied = False
        self.incomplete = False
        self.doubted = False
        """Whether it is being found out if the kernel ever got this."""
        self._events: asyncio.Queue[Message | CellwrightError | None] = asyncio.Queue()

    @property
    def runs_code(self) -> bool:
        return self.message.type == "execute_request"

    def receive(self, message: Message) -> None:
        self.started = True
        self.replied = self.replied or message.channel == self.message.channel
        self._events.put_nowait(message)

    def end_output(self) -> None:
        """Its output has ended, though the kernel's word for that was lost, and maybe more."""
        self.incomplete = True
        self._events.put_nowait(None)

    def fail(self, error: CellwrightError) -> None:
        self._events.put_nowait(error)

    async def finish(self, on_message: OnMessage | None = None) -> Message:
        reply: Message | None = None
        idle = begun = False
        # What was dropped before it began has put out nothing, and some kernels do not say that this has ended.
        while reply is None or not (idle or (_dropped(reply) and not begun)):
            event = await self._events.get()
            if isinstance(event, CellwrightError):
                raise event
            if event is None:
                idle = True
                continue
            if event.channel == self.message.channel:
                reply = event
            elif event.type == "status" and event.content.get("execution_state") == "idle":
                idle = True
            begun = begun or event.type == "execute_input"
            if event.channel == "iopub" and on_message is not None:
                on_message(event)
        return reply


def _dropped(reply: Message) -> bool:
    return reply.content.get("status") in ("abort", "aborted")


def death(kernel_id: str, how: str, *, started: bool) -> KernelDied:
    if started:
        return KernelDied(
            f"kernel {kernel_id} {how} while this ran; all its variables are lost",
            hint="Run the cells that make the variables again",
        )
    return KernelDied(
        f"kernel {kernel_id} {how} before it said that this began; all its variables are lost",
        hint="It may have run in part: look before you run it again",
    )


def not_started(kernel_id: str, last_words: str) -> KernelNotStarted:
    said = f": {last_words}" if last_words else ""
    return KernelNotStarted(
        f"kernel {kernel_id} ended before it answered{said}",
        hint="list_available_kernels shows the interpreters there are, assign_nb_kernel gives the notebook another one",
    )


def never_begun(kernel_id: str) -> ReplyLost:
    return ReplyLost(
        f"kernel {kernel_id} answers, but it never said that this began: it was lost on the way, or its answer was",
        hint="Look at its variables before you run it again",
    )


def gone(kernel_id: str) -> KernelGone:
    return KernelGone(
        f"kernel {kernel_id} was shut down while this ran; all its variables are lost",
        hint="Running a cell starts a new kernel; run the cells that make the variables again",
    )


def execute_reply(reply: Message, *, incomplete: bool) -> ExecuteReply:
    content = reply.content
    status = str(content.get("status", "error"))
    count = content.get("execution_count")
    return ExecuteReply(
        status="ok" if status == "ok" else "aborted" if _dropped(reply) else "error",
        execution_count=count if isinstance(count, int) else None,
        ename=str(content.get("ename", "")),
        evalue=str(content.get("evalue", "")),
        traceback=tuple(map(str, content.get("traceback") or ())),
        user_expressions=dict(content.get("user_expressions") or {}),
        incomplete=incomplete,
    )
