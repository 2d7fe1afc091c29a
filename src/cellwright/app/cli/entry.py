"""Where the program begins. It imports little: stdout may carry the protocol, so it is redirected while everything else is imported."""

import os
import sys
import threading

from cellwright.app.cli.loading import loading


def main() -> int:
    """Import the command line with stdout redirected to stderr, in case a library prints on import; then run it."""
    try:
        stdout = os.dup(1)
    except OSError:  # started without a stdout: nothing to protect
        stdout = None
    if stdout is not None:
        os.dup2(2, 1)
    try:
        with loading():
            from cellwright.app.cli.main import main as run  # noqa: PLC0415 - the point of this module
    finally:
        if stdout is not None:
            sys.stdout.flush()
            os.dup2(stdout, 1)
            os.close(stdout)
    return _end(run())


def _end(status: int) -> int:
    """The same status, unless a thread is still at work: then the process ends here.

    Returning would tear such a thread out of the library that it is in. onnxruntime, for one, aborts the process then.
    """
    if any(thread.daemon for thread in threading.enumerate()):
        # By print, which bears that there is no such stream.
        print(end="", flush=True)  # noqa: T201
        print(end="", flush=True, file=sys.stderr)  # noqa: T201
        os._exit(status)
    return status
