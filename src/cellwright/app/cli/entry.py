"""Where the program begins. It imports little: stdout may carry the protocol, so it is redirected while everything else is imported."""

import os
import sys

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
    return run()
