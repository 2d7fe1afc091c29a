"""Finds the modules of a project: the folders below the one where its code really begins."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cellwright.context.scanner.languages import TEST_FOLDERS, is_side_folder

CONTAINERS = frozenset(
    {"packages", "apps", "crates", "services", "libs", "modules", "cmd", "internal", "pkg", "plugins", "projects"}
)
"""Folders whose children are modules of their own, however many there are."""
MOST_MODULES = 40
FEW_FILES = 2
"""A folder with one child and no more files of its own than this only leads to the code."""


@dataclass(frozen=True, slots=True)
class Area:
    """A module of which only the name, the folder and the files are known yet."""

    name: str
    folder: str
    files: tuple[str, ...]


class _Tree:
    """Source files by folder, and the folders in each."""

    def __init__(self, sources: Mapping[str, list[str]], code: Container[str]) -> None:
        self.files = {folder: paths for folder, paths in sources.items() if not is_side_folder(folder, code)}
        self._code = code
        self.children: dict[str, set[str]] = defaultdict(set)
        for start in self.files:
            folder = start
            while folder:
                above = folder.rpartition("/")[0]
                self.children[above].add(folder)
                folder = above

    def below(self, folder: str) -> list[str]:
        paths = list(self.files.get(folder, ()))
        for child in sorted(self.children.get(folder, ())):
            paths += self.below(child)
        return paths

    def code_folders(self, folder: str) -> list[str]:
        """The folders in this one, without tests and side folders."""
        return [
            child
            for child in sorted(self.children.get(folder, ()))
            if child.rpartition("/")[2].lower() not in TEST_FOLDERS and not is_side_folder(child, self._code)
        ]


def find_areas(
    sources: Mapping[str, list[str]], project_name: str, imported_folders: AbstractSet[str] = frozenset()
) -> list[Area]:
    """The modules of a project, by the source files in its folders; largest first where there are too many.

    `imported_folders` are those that code in other folders imports from.
    """
    packages = {folder for folder, paths in sources.items() if any(path.endswith("__init__.py") for path in paths)}
    tree = _Tree(sources, packages | imported_folders)
    areas = _areas(tree, "", project_name or "main")
    areas = sorted(areas, key=lambda area: -len(area.files))[:MOST_MODULES]
    return _with_own_names(sorted(areas, key=lambda area: area.folder))


def _areas(tree: _Tree, folder: str, name: str) -> list[Area]:
    folder = _way_in(tree, folder)
    own = tree.files.get(folder, [])
    children = tree.code_folders(folder)
    areas: list[Area] = []
    for child in children:
        last = child.rpartition("/")[2]
        if last in CONTAINERS or (last in {"src", "lib"} and not folder):
            areas += _areas(tree, child, last) if last in {"src", "lib"} else _contained(tree, child)
        else:
            areas.append(Area(last, child, tuple(tree.below(child))))
    if own:
        areas.insert(0, Area(folder.rpartition("/")[2] or name, folder, tuple(own)))
    return areas


def _contained(tree: _Tree, container: str) -> list[Area]:
    areas = [Area(child.rpartition("/")[2], child, tuple(tree.below(child))) for child in tree.code_folders(container)]
    own = tree.files.get(container, [])
    return [Area(container.rpartition("/")[2], container, tuple(own)), *areas] if own else areas


def _way_in(tree: _Tree, folder: str) -> str:
    """The folder where the code begins, below folders that only lead to it: src, the one package, org/example/app."""
    while True:
        children = tree.code_folders(folder)
        if len(children) != 1 or len(tree.files.get(folder, ())) > (FEW_FILES if folder else 1):
            return folder
        if children[0].rpartition("/")[2] in CONTAINERS or not tree.code_folders(children[0]):
            # A folder without folders of its own is a module itself.
            return folder
        folder = children[0]


def _with_own_names(areas: Sequence[Area]) -> list[Area]:
    """The areas with unique names: names that occur twice get the folder above."""
    counts: dict[str, int] = defaultdict(int)
    for area in areas:
        counts[area.name] += 1
    return [
        Area("/".join(area.folder.split("/")[-2:]), area.folder, area.files)
        if counts[area.name] > 1 and area.folder
        else area
        for area in areas
    ]


def module_by_file(areas: Iterable[Area]) -> Mapping[str, str]:
    return {path: area.name for area in areas for path in area.files}
