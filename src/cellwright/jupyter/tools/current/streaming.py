"""A run that is watched: its new output is sent as progress while it runs."""

import asyncio
from itertools import takewhile

from cellwright.core.text.clean import clean
from cellwright.core.types import Call
from cellwright.jupyter.kernels.executions import Execution, ExecutionView, call_cancelled
from cellwright.notebook.outputs import Output, is_data, is_error, is_stream
from cellwright.notebook.run import RunStatus

NEWS_CHARACTERS = 4_000


async def watched(execution: Execution, call: Call, wait: float, interval: float) -> ExecutionView:
    """Wait for the end, at most `wait` seconds, and send the caller the new output every `interval` seconds.

    The execution outlives the wait. A caller that cancels its call interrupts the kernel.
    """
    loop = asyncio.get_running_loop()
    began, previous = loop.time(), ""
    try:
        while not execution.ended and (seconds_left := began + wait - loop.time()) > 0:
            view = await execution.wait(min(interval, seconds_left))
            text = "".join(_text(output) for cell in view.cells for output in cell.outputs)
            new_text, previous = news(previous, text), text
            elapsed = loop.time() - began
            if new_text or not execution.ended:
                await call.progress(elapsed, wait, new_text or _waiting_message(view.state, elapsed))
    except asyncio.CancelledError:
        await call_cancelled(call, execution)
        raise
    return execution.view()


def news(previous: str, text: str) -> str:
    """The part of `text` that `previous` did not have, cleaned, from the first changed line on; only its end if it is long."""
    new_text = text[len(previous) :] if text.startswith(previous) else _changed_lines(previous, text)
    if len(new_text) <= NEWS_CHARACTERS:
        return clean(new_text).text
    return f"… {len(new_text) - NEWS_CHARACTERS:,} characters before …\n{clean(new_text[-NEWS_CHARACTERS:]).text}"


def _changed_lines(previous: str, text: str) -> str:
    lines = text.splitlines(keepends=True)
    pairs = zip(lines, previous.splitlines(keepends=True), strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return "".join(lines[same:])


def _waiting_message(state: RunStatus, elapsed: float) -> str:
    if state is RunStatus.QUEUED:
        return f"waiting for the kernel since {elapsed:.0f} s"
    return f"running since {elapsed:.0f} s, no new output"


def _text(output: Output) -> str:
    if is_stream(output):
        return output["text"]
    if is_error(output):
        return f"{output['ename']}: {output['evalue']}\n"
    if is_data(output):
        plain = output["data"].get("text/plain")
        return f"{plain}\n" if isinstance(plain, str) else f"[{', '.join(output['data'])}]\n"
    return ""
