"""What the variables of a notebook's running kernel hold: a row of each, or everything that is told of those that are named."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from cellwright.core.arguments import nearest
from cellwright.core.errors import Conflict, NotFound, Unavailable
from cellwright.core.text.clean import clean
from cellwright.core.text.cutting import cut_text
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.inside.permitted import require_run
from cellwright.jupyter.kernels.connection import KernelConnection
from cellwright.jupyter.kernels.images import Fitted, FittedImage
from cellwright.jupyter.kernels.queue import KernelQueue
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.variables.asking import ask
from cellwright.jupyter.variables.paths import parse_path
from cellwright.jupyter.variables.program import LOOKING, PROCESS, joined

LOOK_SECONDS = 3.0
"""How long the kernel may be kept from its own work."""
ANSWER_SECONDS = 15.0
TURN_SECONDS = 4.0
"""How long a question waits for another one of ours."""
MAX_VARIABLES = 100
MAX_PICTURES = 3
MAX_PARTS = 200
"""Items and attributes that are told of, in all variables together."""
VALUE_CHARACTERS = 300
LONGEST_TEXT = 4_000
DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Inspection:
    """The variables of a kernel, as somebody else's program describes them, cleaned."""

    language: str
    variables: dict[str, JsonObject | None]
    """None for what is not there."""
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """Why, for each that is not there."""
    pictures: dict[str, Fitted] = field(default_factory=dict[str, Fitted])
    more: int = 0
    """How many variables are not listed."""
    is_late: bool = False


async def queue_of(notebooks: LiveNotebooks, call: Call, path: NotebookPath) -> KernelQueue:
    """The queue of the notebook's kernel, if one runs: looking at things starts nothing."""
    return (await _queue_and_state(notebooks, call, path))[0]


async def _queue_and_state(
    notebooks: LiveNotebooks, call: Call, path: NotebookPath
) -> tuple[KernelQueue, Callable[[], str]]:
    connected = await notebooks.connected(call)
    session = await connected.found.jupyter.kernels.session_of(path)
    if session is None or session.kernel is None:
        raise NotFound(
            f"{path} has no running kernel",
            hint="execute_nb_cells starts one; list_available_kernels shows in which interpreter",
        )
    kernel = session.kernel
    return await notebooks.queue(call, session), lambda: connected.kernels.state_of(kernel)


@asynccontextmanager
async def idle_kernel(notebooks: LiveNotebooks, call: Call, path: NotebookPath) -> AsyncGenerator[KernelConnection]:
    """The notebook's kernel, to be asked about itself. Raises Conflict while it is busy.

    Our own questions make it busy too, for a moment: one is asked after the other.
    """
    queue, state = await _queue_and_state(notebooks, call, path)
    try:
        async with asyncio.timeout(TURN_SECONDS):
            await queue.kernel.questions.acquire()
    except TimeoutError:
        raise _busy(queue.kernel) from None
    try:
        if queue.busy or state() == "busy":
            raise _busy(queue.kernel)
        yield queue.kernel
    finally:
        queue.kernel.questions.release()


def _busy(kernel: KernelConnection) -> Conflict:
    return Conflict(
        f"kernel {kernel.kernel_id} is busy: it answers when what runs now has ended",
        hint="ask again then; interrupt_nb_kernel ends what runs",
    )


async def inspect_kernel(notebooks: LiveNotebooks, call: Call, path: NotebookPath, names: Sequence[str]) -> Inspection:
    """Rows of all variables, or the depth of those that are named. Raises Conflict, and does not wait, while the kernel is busy."""
    require_run(call, needed=())
    wanted = [parse_path(name) for name in names[:MAX_VARIABLES]]
    request = {
        "names": [{"name": entry.name, "root": entry.root, "steps": entry.steps} for entry in wanted],
        "most": MAX_VARIABLES,
        "seconds": LOOK_SECONDS,
        "parts": MAX_PARTS,
        "pictures": MAX_PICTURES,
    }
    async with idle_kernel(notebooks, call, path) as kernel:
        language = (await kernel.kernel_info()).language
        if language != "python":
            return await _inspect_by_name(kernel, names, language)
        answer = await _answer(kernel, LOOKING, request)
    inspection = Inspection(
        language,
        {},
        more=_number(answer.get("more")) + max(0, len(names) - MAX_VARIABLES),
        is_late=answer.get("late") is True,
    )
    for name, row in cast("dict[str, JsonObject]", answer.get("variables") or {}).items():
        shown = clean(name).text
        if "missing" in row:
            inspection.variables[shown] = None
            inspection.missing[shown] = _why_missing(row)
            continue
        png = row.pop("png", None)
        inspection.variables[shown] = cast("JsonObject", cleaned(row))
        if isinstance(png, str):
            inspection.pictures[shown] = await notebooks.pictures.fit(png, "image/png", call.principal.id)
    return inspection


def picture_note(picture: Fitted) -> str:
    if isinstance(picture, FittedImage):
        return f"{picture.width} x {picture.height} pixels"
    return picture.sentence()


async def process_of(kernel: KernelConnection) -> JsonObject:
    """What the process of a Python kernel uses, in its own words: numbers by name."""
    answer = await _answer(kernel, PROCESS, {})
    return {clean(key).text: number for key, number in answer.items() if isinstance(number, int | float)}


async def _answer(kernel: KernelConnection, modules: tuple[str, ...], request: Mapping[str, object]) -> JsonObject:
    program = f"{joined(modules)}\nimport json\nreply = answer(json.loads({json.dumps(request)!r}))\n"
    text = await ask(kernel, program, ANSWER_SECONDS)
    try:
        # In a thread, because somebody else's program may have written much.
        answer: object = await asyncio.to_thread(json.loads, text)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or "failed" in answer:
        raise Unavailable(
            "the kernel could not look at its variables", hint="a cell that prints what you want to know may"
        )
    return cast("JsonObject", answer)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _why_missing(row: JsonObject) -> str:
    names = [str(name) for name in cast("list[Any]", row.get("names") or [])]
    wanted = str(row.get("wanted") or "")
    near = nearest(wanted, names) if wanted and names else None
    meant = f": did you mean {near}?" if near is not None else ""
    return cut_text(clean(f"{row['missing']}{meant}").text, VALUE_CHARACTERS)


def cleaned(value: object, level: int = 0) -> object:
    """JSON of somebody else's, whose texts are cleaned and cut, to a depth."""
    if isinstance(value, str):
        return cut_text(clean(value).text, LONGEST_TEXT)
    if level >= DEEPEST:
        return None
    if isinstance(value, dict):
        entries = cast("dict[str, object]", value).items()
        return {cut_text(clean(key).text, VALUE_CHARACTERS): cleaned(entry, level + 1) for key, entry in entries}
    if isinstance(value, list):
        return [cleaned(item, level + 1) for item in cast("list[object]", value)]
    return value


async def _inspect_by_name(kernel: KernelConnection, names: Sequence[str], language: str) -> Inspection:
    variables: dict[str, JsonObject | None] = {}
    for name in names:
        details = await kernel.inspect(name, len(name))
        text = str((details or {}).get("text/plain", ""))
        variables[name] = {"value": cut_text(clean(text).text, VALUE_CHARACTERS)} if details else None
    return Inspection(language, variables)
