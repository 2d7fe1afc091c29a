"""Pipes between processes. Only sockets can be waited for on every system, so a pipe is read in a thread."""

import os
import threading

PIECE_BYTES = 4096


def read_line(descriptor: int) -> bytes:
    """One line with its end, without taking anything of what follows; less at the end of the pipe."""
    line = bytearray()
    while not line.endswith(b"\n"):
        letter = os.read(descriptor, 1)
        if not letter:
            break
        line += letter
    return bytes(line)


class EndOfPipe:
    """Notices, by setting an event, when the other side of a pipe says something more or is gone."""

    def __init__(self, descriptor: int, noticed: threading.Event) -> None:
        self._descriptor = descriptor
        self._noticed = noticed
        self.is_silent_end = False
        """Whether the other side went without a word."""
        # Not with a buffered reader, whose lock would be held when the interpreter ends.
        threading.Thread(target=self._read, name="end-of-pipe", daemon=True).start()

    def _read(self) -> None:
        try:
            self.is_silent_end = not os.read(self._descriptor, PIECE_BYTES)
        except OSError:
            # Windows tells the end of a pipe as a failure.
            self.is_silent_end = True
        self._noticed.set()
