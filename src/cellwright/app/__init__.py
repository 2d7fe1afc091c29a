"""The running program: settings, composition, transports, command line."""

from cellwright.system import machine

# Asked for as early as it can be: a parent that dies while the rest is loading would otherwise never be missed.
parent_lives = machine.parent_watch()
