"""What a cell does with the names of its kernel, as far as its source says."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Later:
    """What a function or class does with names of the kernel once it is called."""

    uses: frozenset[str] = NONE
    changes: frozenset[str] = NONE
    """What it binds by `global`, or changes in place."""
    arguments: bool = False
    """Whether it may change in place what it is given."""


@dataclass(frozen=True, slots=True)
class CellNames:
    """The names that a cell reads and writes.

    Beside the names of variables there are some that no variable can have, for what cells share without one: `<random>` for the state of
    random numbers, `<folder>` for the working folder, `<file NAME>` for a file that is named by a literal text.
    """

    defines: frozenset[str] = NONE
    """Surely bound or deleted, whatever they were before."""
    changes: frozenset[str] = NONE
    """Changed in place, or bound only in some cases: what they were before still matters. All of them are in `uses`, too."""
    uses: frozenset[str] = NONE
    """Read while the cell runs, in the state that they had before it."""
    later: Mapping[str, Later] = field(default_factory=dict[str, Later])
    """What the functions and classes that the cell defines do when they are called, by their names."""
    calls: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Names that are given to a function of the kernel, by the name of the function."""
    aliases: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """For a name that is bound: other names with which it may share an object, so that changing one in place changes the other."""
    stars: frozenset[str] = NONE
    """Modules of which all names were imported."""
    opaque: str = ""
    """Why the cell may read and write names that its source does not say, such as "exec"; empty if it may not."""
    unknown: str = ""
    """Why nothing is known of the cell, such as "no grammar for R is installed"; empty if it was read."""


NOTHING = CellNames()
