"""Standard input and output of a stdio server, reserved for the protocol before anything heavy is imported.

Afterwards descriptor 0 is empty and descriptor 1 is stderr, so nothing that a library, an exit handler or a child process prints or reads
disturbs the protocol.
"""

import io
import os
import threading
from dataclasses import dataclass


class NoticingInput(io.TextIOWrapper):
    """Lines from the client. `at_end` is set when there will be no more."""

    def __init__(self, raw: io.BufferedReader) -> None:
        super().__init__(raw, encoding="utf-8", errors="replace")
        self.at_end = threading.Event()

    def readline(self, size: int = -1, /) -> str:
        line = super().readline(size)
        if not line:
            self.at_end.set()
        return line


@dataclass(frozen=True, slots=True)
class Wire:
    """The client's two pipes."""

    incoming: NoticingInput
    outgoing: io.TextIOWrapper


def claim() -> Wire:
    """Reserve stdin and stdout for the protocol."""
    incoming, outgoing = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return Wire(
        NoticingInput(io.BufferedReader(io.FileIO(incoming, "rb"))),
        io.TextIOWrapper(io.BufferedWriter(io.FileIO(outgoing, "wb")), encoding="utf-8", newline="\n"),
    )
