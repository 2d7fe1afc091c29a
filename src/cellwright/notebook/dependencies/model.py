"""What a cell does with the names of its kernel, as far as its source says."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NONE: frozenset[str] = frozenset()
Names = frozenset[str]
Links = Mapping[str, Names]

RANDOM = "<random>"
"""The state of numpy's random numbers, from which pandas and scikit-learn draw, too."""
RANDOM_OF_PYTHON = "<random of python>"
RANDOM_OF_TORCH = "<random of torch>"
RANDOM_OF_TENSORFLOW = "<random of tensorflow>"
RANDOMS = frozenset({RANDOM, RANDOM_OF_PYTHON, RANDOM_OF_TORCH, RANDOM_OF_TENSORFLOW})
FOLDER = "<folder>"
ENVIRONMENT = "<environment>"
FILES = "<files>"
"""Files whose names the source does not say: written by who may write any file, used by all who read one."""
ANY_FILE = "<any file>"
"""Written by all who write a file, used by who may read any."""
ARGUMENTS = "<arguments>"
"""What a function is given, in what it gives on to others."""


def listed(text: str) -> Names:
    """The names that stand in a text, with white space between them."""
    return frozenset(text.split())


def file_named(name: str) -> str:
    return f"<file {name}>"


def _no_links() -> Links:
    return {}


@dataclass(frozen=True, slots=True)
class Later:
    """What a function or class does with names of the kernel once it is called."""

    uses: Names = NONE
    changes: Names = NONE
    """What it changes in place."""
    perhaps: Names = NONE
    """What it binds by `global`."""
    calls: Links = field(default_factory=_no_links)
    """As of a cell. `<arguments>` stands for what the function is given itself."""
    arguments: bool = False
    """Whether it may change in place what it is given."""
    methods: Names = NONE
    """Of a class: the methods that change their object in place."""
    yields: bool = False
    """Whether its value is used up by being read."""
    makes: bool = False
    """Whether its value may hold code that does this again: a class makes instances, and a function may give back one, or a function."""
    opaque: str = ""


@dataclass(frozen=True, slots=True)
class CellNames:
    """The names that a cell reads and writes.

    Beside the names of variables there are some that no variable can have, for what cells share without one: `<random>` and
    others for the state of random numbers, `<folder>` for the working folder, `<environment>` for the environment's variables,
    `<file NAME>` for a file that is named by a literal text, `<files>` and `<any file>` for the others. Names that are built in
    are names like others, because a notebook may define them.
    """

    defines: Names = NONE
    """Surely bound or deleted, whatever they were before."""
    perhaps: Names = NONE
    """Bound or deleted only in some cases, such as in a loop that may be empty: afterwards it is this cell's value or the one from
    before."""
    changes: Names = NONE
    """Changed in place: what they were before still matters. All of them are in `uses`, too, but for `<files>` and `<any file>`: who writes
    a file does not read what others wrote."""
    deep: Names = NONE
    """Of the changes, those in which something inside may be changed, and so other names for a part of it."""
    uses: Names = NONE
    """Read while the cell runs, in the state that they had before it. A function or class that is used may be called."""
    later: Mapping[str, Later] = field(default_factory=dict[str, Later])
    """What the functions and classes that the cell defines do when they are called, by their names. Where the cell itself uses them after
    it defined them, its own names say it already."""
    calls: Links = field(default_factory=_no_links)
    """Names that are given to a function of the kernel, by the name of the function, or to a method, by the name of its object."""
    commands: Names = NONE
    """Functions in `calls` whose value is thrown away: if nobody knows what such a function does, it may well change what it is given."""
    methods: Links = field(default_factory=_no_links)
    """Methods that are called, by the name of their object, where only its class can say whether they change it."""
    aliases: Links = field(default_factory=_no_links)
    """For a name that is bound: other names with which it may share an object, so that changing one in place changes the other."""
    inside: Links = field(default_factory=_no_links)
    """For a name: the places in which its object may lie, `other[key]`, or `other` where the key is not known (`bindings.whole_of`
    gives the name). Changing it changes the other, and what else may lie in the same place; a deep change of the other changes it."""
    imports: Links = field(default_factory=_no_links)
    """For a name that is surely bound by an import and not changed afterwards: what it stands for. Another run gives the same."""
    settings: bool = False
    """Whether the cell only imports, and sets literal options of what it imports: another run of it leaves everything as it is."""
    code: Links = field(default_factory=_no_links)
    """For a name that is bound: the names its value was made with, whose code it may hold (an instance its class, a partial
    function its function). Using it may do what those of them do later that `makes` something. Names such as `<random>` stand for
    themselves: using it uses and changes them."""
    spent: Names = NONE
    """Bound to what is used up by being read, such as a generator: each use is a change."""
    stars: Names = NONE
    """Modules of which all names were imported."""
    opaque: str = ""
    """Why the cell may read and write names that its source does not say, such as "exec"; empty if it may not."""
    unknown: str = ""
    """Why nothing is known of the cell, such as "no grammar for R is installed"; empty if it was read."""
    broken: bool = False
    """Whether nothing is known because it is no code of its language, as far as that is known here: then it fails, and does nothing."""


NOTHING = CellNames()
