"""Standard input and output of a stdio server, taken away from everybody else before anything heavy is loaded.

Afterwards descriptor 0 is empty and descriptor 1 is stderr: whatever a library, an exit handler or a child prints or reads, the protocol
is not disturbed.
"""

import io
import os
import threading
from dataclasses import dataclass


class NoticingInput(io.TextIOWrapper):
    """Lines from the client. Says when there will be no more."""

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
    """Take stdin and stdout for the protocol."""
    incoming, outgoing = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return Wire(
        NoticingInput(io.BufferedReader(io.FileIO(incoming, "rb"))),
        io.TextIOWrapper(io.BufferedWriter(io.FileIO(outgoing, "wb")), encoding="utf-8", newline="\n"),
    )
