"""The process that works on foreign content: `python -m cellwright.workers.worker`.

It writes a greeting to standard output, then reads frames from standard input and answers each. It ends when its input ends.

A question names a job, `module:function`, and its arguments. The function either returns the answer, or loads what it needs and returns a
function that answers. While that one runs, no file can be opened, and the system ends the process when the time is up.
"""

import gc
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from cellwright.core.errors import CellwrightError
from cellwright.system import machine
from cellwright.workers.confine import confine
from cellwright.workers.frames import LENGTH, Head, encode

LEFT_BEHIND = 20_000


def main() -> None:
    confine(int(sys.argv[1]))
    # Large data is created and dropped as a whole: looking for cycles while it grows costs more than the work.
    gc.disable()
    # Only answers may go to the pipe: what a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _reply(answers, {"ready": True})
    for question in _questions(sys.stdin.buffer):
        _reply(answers, _answer(question))
        if gc.get_count()[0] > LEFT_BEHIND:
            gc.collect()


def _questions(source: BinaryIO) -> Iterator[dict[str, Any]]:
    while len(length := source.read(LENGTH.size)) == LENGTH.size:
        head = Head.read(source.read(*LENGTH.unpack(length)))
        yield head.with_values(source.read(size) for _name, _kind, size in head.beside)


def _reply(answers: BinaryIO, message: Mapping[str, Any]) -> None:
    answers.writelines(encode(message))
    answers.flush()


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    module, _, name = str(question.pop("job")).partition(":")
    seconds: float = question.pop("seconds")
    try:
        work = getattr(importlib.import_module(module), name)(**question)
        if callable(work):
            with machine.sealed(seconds):
                work = work()
    except MemoryError:
        # A new process for the next question, which needs the memory that this one used up.
        return {"failed": "memory", "spent": True}
    except RecursionError:
        return {"failed": "nesting"}
    except CellwrightError as error:
        name = f"{type(error).__module__}:{type(error).__qualname__}"
        return {"error": [name, error.message, error.hint, error.details]}
    except Exception:  # noqa: BLE001 - an edge: the caller raises it again, with these words in its log
        return {"crashed": traceback.format_exc()}
    return {"answer": work}


if __name__ == "__main__":
    main()
