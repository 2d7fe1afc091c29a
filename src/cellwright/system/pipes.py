"""Pipes between processes. Only sockets can be waited for on every system, so a pipe is read in a thread."""

import os
import threading

PIECE_BYTES = 4096


def read_line(descriptor: int) -> bytes:
    """One line with its newline. Nothing after it is read. At the end of the pipe the line may be incomplete."""
    line = bytearray()
    while not line.endswith(b"\n"):
        letter = os.read(descriptor, 1)
        if not letter:
            break
        line += letter
    return bytes(line)


class EndOfPipe:
    """Sets an event when the other side of a pipe writes something or closes it."""

    def __init__(self, descriptor: int, noticed: threading.Event) -> None:
        self._descriptor = descriptor
        self._noticed = noticed
        self.is_silent_end = False
        """Whether the other side closed the pipe without writing anything."""
        # A buffered reader would hold its lock when the interpreter ends, so the descriptor is read directly.
        threading.Thread(target=self._read, name="end-of-pipe", daemon=True).start()

    def _read(self) -> None:
        try:
            self.is_silent_end = not os.read(self._descriptor, PIECE_BYTES)
        except OSError:
            # Windows reports the end of a pipe as an error.
            self.is_silent_end = True
        self._noticed.set()
