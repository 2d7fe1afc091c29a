"""Starts a Python kernel in an environment without ipykernel, with the ipykernel of another environment of the same Python.

Run as a script by that environment's interpreter, with the standard library only. The packages of the environment come first; of
the other one, only ipykernel and its requirements can be imported, so that code sees the same packages as outside of a kernel.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType


class Borrowed:
    """Finds a few packages in folders that are not on the path."""

    def __init__(self, folders: list[str], names: set[str]) -> None:
        self._folders = folders
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or name not in self._names:
            return None
        return PathFinder.find_spec(name, self._folders, target)


def main() -> None:
    """Arguments: the suffix of compiled modules for which the packages were made, their folders (JSON), their names; then the kernel's."""
    import json  # noqa: PLC0415 - after the path is as the environment's own programs have it

    suffix, folders, names = sys.argv[1:4]
    del sys.argv[1:4]
    if suffix not in EXTENSION_SUFFIXES:
        sys.exit(f"this Python loads {EXTENSION_SUFFIXES[0]}, not {suffix}: install ipykernel in {sys.prefix}")
    sys.meta_path.append(Borrowed(json.loads(folders), set(names.split(","))))
    try:
        from ipykernel.kernelapp import launch_new_instance  # noqa: PLC0415 - can be imported only from here on
    except ImportError as error:
        sys.exit(f"{error}: install ipykernel in {sys.prefix}, with versions that go with what is there")
    launch_new_instance()


if __name__ == "__main__":
    # Python puts the folder of this script first, but people's code must not import the modules in it.
    if sys.path and Path(sys.path[0]) == Path(__file__).parent:
        del sys.path[0]
    main()
