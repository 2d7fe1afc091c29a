"""Everything that is special to an operating system, behind one port.

`machine` is this system: chosen once, when the program is loaded. Who needs a lock, a private file, the end of a process or a
signal asks it, and knows nothing of Linux, macOS or Windows.
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
