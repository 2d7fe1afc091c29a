"""The process in which content is looked at: `python -m cellwright.scratch.validation.worker`.

One JSON object a line on standard input, one a line back: a greeting first, then an answer to every cell and every schema. It
ends when its input ends.
"""

import gc
import importlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, BinaryIO

from cellwright.scratch.validation.check import (
    BASIC_EXTRA,
    SCHEMA,
    NotInstalled,
    check_cell,
    failed,
    load,
    not_installed,
)
from cellwright.scratch.validation.confine import confine, sealed
from cellwright.scratch.validation.languages import find_language
from cellwright.scratch.validation.model import CellToCheck, Diagnostic, Validation

LEFT_BEHIND = 20_000
READY = {"ready": True}


def main() -> None:
    confine(int(sys.argv[1]))
    # Large data is made at once and dropped at once: looking for cycles while it grows costs more than the check.
    gc.disable()
    # Only we may write to the pipe: what a library prints goes where our log goes.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _reply(replies, READY)
    shared: dict[str, Any] = {}
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "schemas" in request:
            shared = request["schemas"]
        elif "cell" in request:
            _reply(replies, _answer_cell(request, shared))
        else:
            _reply(replies, _answer_schema(request, shared))
        if gc.get_count()[0] > LEFT_BEHIND:
            gc.collect()


def _reply(replies: BinaryIO, answer: Mapping[str, Any]) -> None:
    replies.write(json.dumps(answer).encode() + b"\n")
    replies.flush()


def _answer_cell(request: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    cell = CellToCheck(**request["cell"])
    try:
        return {"validation": asdict(_validated(cell, shared, request["seconds"])), "spent": False}
    except MemoryError:
        # Whoever comes next shall find the memory that this one used up.
        return {"validation": asdict(failed(cell, "it needs more memory than a check may use")), "spent": True}


def _validated(cell: CellToCheck, shared: Mapping[str, Any], seconds: float) -> Validation:
    language = find_language(cell.language)
    assert language is not None, "the caller asks for languages that have a validator"
    try:
        check = load(language, with_schema=cell.schema is not None)
    except NotInstalled as missing:
        return not_installed(cell, missing)
    with sealed(seconds):
        try:
            return check_cell(cell, language, check, shared)
        except RecursionError:
            return failed(cell, "it is nested too deeply to be checked")


def _answer_schema(request: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    try:
        engine = importlib.import_module(SCHEMA)
    except ModuleNotFoundError as missing:
        package = (missing.name or "").replace("_", "-")
        message = f"{package} is not installed: pip install 'cellwright[{BASIC_EXTRA}]' brings it"
        return {"diagnostics": [asdict(Diagnostic("warning", message, source="validator"))]}
    with sealed(request["seconds"]):
        found = engine.check_schema(request["schema"], shared)
    return {"diagnostics": [asdict(finding) for finding in found], "spent": False}


if __name__ == "__main__":
    main()
