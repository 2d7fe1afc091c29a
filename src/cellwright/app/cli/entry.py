"""Where the program begins. Light on purpose: stdout may be a protocol, so it is out of reach while everything else is loaded."""

import os
import sys

from cellwright.app.cli.loading import loading


def main() -> int:
    """Load the command line with stdout turned to stderr, whatever a library prints on import; then run it."""
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
