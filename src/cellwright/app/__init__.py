"""The running program: settings, composition, transports, command line."""

import os

# Asked for as early as it can be: a parent that dies while the rest is loading would otherwise never be missed.
PARENT_AT_START = os.getppid()
