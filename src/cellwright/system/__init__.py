"""Everything that is special to an operating system, behind one port.

`machine` is the present system, chosen once at import. Code that needs a lock, a private file, a signal or the end of a process
asks it, and knows nothing of Linux, macOS or Windows.
"""

import sys

from cellwright.system.port import Machine


def choose(platform: str) -> Machine:
    """The implementation for a system, named as in `sys.platform`."""
    if platform == "win32":
        from cellwright.system.windows import WindowsMachine  # noqa: PLC0415 - only one of the two can be used

        return WindowsMachine()
    from cellwright.system.posix import PosixMachine  # noqa: PLC0415

    return PosixMachine()


machine: Machine = choose(sys.platform)
