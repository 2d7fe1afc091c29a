"""Requests to a kernel, their replies, and the errors for those that fail."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from cellwright.core.errors import CellwrightError, Unavailable
from cellwright.jupyter.kernels.channel import JsonObject, KernelGone, Message

OnMessage = Callable[[Message], None]


class KernelDied(CellwrightError):
    """The kernel's process, and with it all variables, is gone."""

    code = "KERNEL_DIED"
    meaning = "The kernel died or was restarted while code ran in it; its variables are lost, what it printed is kept."


class KernelNotStarted(CellwrightError):
    """The process of a new kernel ended before it answered."""

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
    """The language and implementation of a kernel, in its own words."""

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
    """The completions at the cursor. `start` and `end` count code points of the code."""

    matches: tuple[str, ...]
    start: int
    end: int


class Request:
    """A request to the kernel. It is finished when the reply has come and the kernel has published all output."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.started = False
        self.replied = False
        self.incomplete = False
        self.doubted = False
        """Whether somebody already finds out if the kernel ever got this."""
        self._events: asyncio.Queue[Message | CellwrightError | None] = asyncio.Queue()

    @property
    def runs_code(self) -> bool:
        return self.message.type == "execute_request"

    @property
    def counts(self) -> bool:
        """Whether the kernel numbers it: a run of a cell, and not a look at the kernel's variables."""
        return self.runs_code and bool(self.message.content.get("store_history"))

    def receive(self, message: Message) -> None:
        self.started = True
        self.replied = self.replied or message.channel == self.message.channel
        self._events.put_nowait(message)

    def end_output(self) -> None:
        """Its output has ended, but the message that says so was lost, and maybe others."""
        self.incomplete = True
        self._events.put_nowait(None)

    def fail(self, error: CellwrightError) -> None:
        self._events.put_nowait(error)

    async def finish(self, on_message: OnMessage | None = None) -> Message:
        reply: Message | None = None
        idle = code_began = False
        # Code that was dropped before it began has no output, and some kernels do not report its end.
        while reply is None or not (idle or (_was_dropped(reply) and not code_began)):
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
            code_began = code_began or event.type == "execute_input"
            if event.channel == "iopub" and on_message is not None:
                on_message(event)
        return reply


def _was_dropped(reply: Message) -> bool:
    return reply.content.get("status") in ("abort", "aborted")


def kernel_died(kernel_id: str, event: str, *, started: bool) -> KernelDied:
    if started:
        return KernelDied(
            f"kernel {kernel_id} {event} while this ran; all its variables are lost",
            hint="Run the cells that make the variables again",
        )
    return KernelDied(
        f"kernel {kernel_id} {event} before it said that this began; all its variables are lost",
        hint="It may have run in part: look before you run it again",
    )


def not_started(kernel_id: str, last_words: str) -> KernelNotStarted:
    reason = f": {last_words}" if last_words else ""
    return KernelNotStarted(
        f"kernel {kernel_id} ended before it answered{reason}",
        hint="list_available_kernels shows the interpreters there are, assign_nb_kernel gives the notebook another one",
    )


def never_begun(kernel_id: str) -> ReplyLost:
    return ReplyLost(
        f"kernel {kernel_id} answers, but it never said that this began: it was lost on the way, or its answer was",
        hint="Look at its variables before you run it again",
    )


def kernel_gone(kernel_id: str) -> KernelGone:
    return KernelGone(
        f"kernel {kernel_id} was shut down while this ran; all its variables are lost",
        hint="Running a cell starts a new kernel; run the cells that make the variables again",
    )


def server_gone(kernel_id: str, seconds: float) -> Unavailable:
    return Unavailable(
        f"the Jupyter server of kernel {kernel_id} is gone: nothing has listened at its address for {seconds:g} s; "
        "what became of this run is not known",
        hint="Check that Jupyter runs; a kernel ends with its server, so run the cells that make the variables again",
    )


def execute_reply(reply: Message, *, incomplete: bool) -> ExecuteReply:
    content = reply.content
    status = str(content.get("status", "error"))
    count = content.get("execution_count")
    return ExecuteReply(
        status="ok" if status == "ok" else "aborted" if _was_dropped(reply) else "error",
        execution_count=count if isinstance(count, int) else None,
        ename=str(content.get("ename", "")),
        evalue=str(content.get("evalue", "")),
        traceback=tuple(map(str, content.get("traceback") or ())),
        user_expressions=dict(content.get("user_expressions") or {}),
        incomplete=incomplete,
    )
