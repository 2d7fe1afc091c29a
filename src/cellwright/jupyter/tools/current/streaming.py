"""A run that is watched: what it puts out is told while it runs, piece by piece."""

import asyncio
from collections.abc import Sequence
from itertools import takewhile

from cellwright.core.text.clean import clean
from cellwright.core.types import Call
from cellwright.jupyter.kernels.executions import Execution, ExecutionView, call_cancelled
from cellwright.jupyter.model import DataOutput, ErrorOutput, Output, StreamOutput
from cellwright.notebook.run import RunStatus

NEWS_CHARACTERS = 4_000


async def watched(execution: Execution, call: Call, wait: float, interval: float) -> ExecutionView:
    """Wait for the end, at most `wait` seconds, and tell the caller every `interval` seconds what is new.

    The execution outlives the wait. A caller that cancels its call interrupts the kernel.
    """
    loop = asyncio.get_running_loop()
    began, told = loop.time(), ""
    try:
        while not execution.ended and (left := began + wait - loop.time()) > 0:
            view = await execution.wait(min(interval, left))
            now = "".join(_said(cell.outputs) for cell in view.cells)
            new, told = news(told, now), now
            elapsed = loop.time() - began
            if new or not execution.ended:
                await call.progress(elapsed, wait, new or _still(view.state, elapsed))
    except asyncio.CancelledError:
        await call_cancelled(call, execution)
        raise
    return execution.view()


def news(told: str, now: str) -> str:
    """What `now` says that `told` did not, cleaned, its end if it is long; from the start of a line that was changed."""
    new = now[len(told) :] if now.startswith(told) else _changed_lines(told, now)
    if len(new) <= NEWS_CHARACTERS:
        return clean(new).text
    return f"… {len(new) - NEWS_CHARACTERS:,} characters before …\n{clean(new[-NEWS_CHARACTERS:]).text}"


def _changed_lines(told: str, now: str) -> str:
    lines = now.splitlines(keepends=True)
    pairs = zip(lines, told.splitlines(keepends=True), strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return "".join(lines[same:])


def _still(state: RunStatus, elapsed: float) -> str:
    if state is RunStatus.QUEUED:
        return f"waiting for the kernel since {elapsed:.0f} s"
    return f"running since {elapsed:.0f} s, no new output"


def _said(outputs: Sequence[Output]) -> str:
    return "".join(_text(output) for output in outputs)


def _text(output: Output) -> str:
    match output:
        case StreamOutput():
            return output.text
        case ErrorOutput():
            return f"{output.name}: {output.value}\n"
        case DataOutput():
            plain = output.data.get("text/plain")
            return f"{plain}\n" if isinstance(plain, str) else f"[{', '.join(output.data)}]\n"
        case _:
            return ""
