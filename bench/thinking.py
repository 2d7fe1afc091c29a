"""Thinking notebooks through MCP: reading one, filling one, running in one, each beside the least that does the same."""

import dataclasses
import json
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from measure import Plan, Row, alternating, row
from notebooks import Action, Setting, beside, echoing, timed
from programs import HTTP, bare, ours, running, write_answer
from raw import RawKernel
from wire import META, MODERN, BenchError, Session, result_of
from workspace import workspace

READ_TARGET = 3.0
FILL_TARGET = 2.0
RUN_TARGET = 2.5
CELLS = 200
ADDED = 100
WARM_CALLS = 10
READ_NUMBER = 1_000_000
"""Beyond the numbers of the session's own requests."""


def thinking(plan: Plan) -> list[Row]:
    """One Jupyter server, one of ours that has found it, every row in turn."""
    with workspace(plan.work) as at:
        mine = ours(HTTP)
        command = (*mine.command, "--root", str(at.root), "--toolsets", "workspace,thinking")
        program = dataclasses.replace(mine, command=command, environment={"JUPYTER_RUNTIME_DIR": str(at.runtime)})
        with running(program, plan.work) as server, closing(server.connect(MODERN)) as session:
            setting = Setting(plan, at, program, server, session)
            return [*_reading(setting), *_filling(setting), *_running(setting)]


def _data(answer: bytes) -> dict[str, Any]:
    return result_of(answer)["structuredContent"]


def _notebook(session: Session, cells: int) -> dict[str, Any]:
    made = _data(session.call("notebook_create"))
    answers = [_add(session, made["notebookId"], number) for number in range(cells)]
    # Looked at afterwards, as the echoes' are: what a client does with an answer is not ours.
    for answer in answers:
        _data(answer)
    return made


def _add(session: Session, notebook_id: str, number: int) -> bytes:
    source = f"# step {number}\nvalue = {number}\nprint(value)"
    arguments = {"notebookId": notebook_id, "cellType": "code", "source": source}
    return session.call("notebook_add_cell", arguments)


def _reading(setting: Setting) -> list[Row]:
    """The floor answers a tool call with the same text: to the SDK a resource is no less work."""
    uri = _notebook(setting.session, CELLS)["uri"]

    body = {"jsonrpc": "2.0", "id": READ_NUMBER, "method": "resources/read", "params": {"uri": uri, **META}}
    request = json.dumps(body).encode()
    headers = {"Mcp-Protocol-Version": MODERN, "Mcp-Method": "resources/read", "Mcp-Name": uri}

    def read() -> bytes:
        return setting.session.wire.exchange(request, headers, READ_NUMBER)

    (content,) = result_of(read())["contents"]
    file = setting.plan.work / "thinking-read.json"
    answer = {"content": [{"type": "text", "text": content["text"]}], "structuredContent": content.get("_meta", {})}
    write_answer(file, answer)
    with running(bare(HTTP, file), setting.plan.work) as other, closing(other.connect(MODERN)) as session:
        echo = partial(session.call, "echo")
        for action in (echo, read):
            timed(action, WARM_CALLS)
        pairs = beside(setting.rounds, setting.plan.calls, read, echo)
    return [row(f"thinking: read a notebook of {CELLS} cells, beside echo", "ms", pairs, READ_TARGET)]


def _filling(setting: Setting) -> list[Row]:
    session = setting.session
    trial = _notebook(session, 0)["notebookId"]
    first: Callable[[], bytes] = partial(
        session.call, "notebook_add_cell", {"notebookId": trial, "cellType": "code", "source": "1"}
    )
    with echoing(setting.plan.work, first) as echo:
        pairs = [alternating(number, partial(_fill, session), partial(timed_many, echo)) for number in setting.rounds]
    return [row(f"thinking: create and add {ADDED} cells, beside {ADDED} echoes", "ms", pairs, FILL_TARGET)]


def _fill(session: Session) -> float:
    began = time.perf_counter()
    notebook_id = _data(session.call("notebook_create"))["notebookId"]
    answers = [_add(session, notebook_id, number) for number in range(ADDED)]
    took = time.perf_counter() - began
    for answer in answers:
        _data(answer)
    _data(session.call("notebook_close", {"notebookId": notebook_id}))
    return took * 1000


def timed_many(action: Action) -> float:
    return timed(action, ADDED) * ADDED


def _running(setting: Setting) -> list[Row]:
    session = setting.session
    notebook_id = _notebook(session, 0)["notebookId"]
    added = _data(session.call("notebook_add_cell", {"notebookId": notebook_id, "cellType": "code", "source": "1+1"}))
    run = partial(session.call, "notebook_run_cell", {"notebookId": notebook_id, "cellId": added["cell"]["id"]})
    result_of(run())
    kernels = setting.at.ask("GET", "api/kernels")
    if not kernels:
        raise BenchError("the notebook has no kernel")
    file = setting.at.runtime / f"kernel-{kernels[0]['id']}.json"
    with echoing(setting.plan.work, run) as echo, closing(RawKernel(file)) as kernel:
        raw = partial(kernel.run, "1+1")
        timed(raw, WARM_CALLS)
        pairs = beside(setting.rounds, setting.plan.calls, run, raw, echo)
    return [row("thinking: run 1+1, beside raw ZMQ + echo", "ms", pairs, RUN_TARGET)]
