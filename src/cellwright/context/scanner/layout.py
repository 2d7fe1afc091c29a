"""The project's files in the ways that imports name them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cellwright.context.scanner.walk import Listing


@dataclass(frozen=True, slots=True)
class Layout:
    """Names, as imports use them, and the files they mean."""

    files: frozenset[str]
    python: Mapping[str, str] = field(default_factory=dict[str, str])
    """From dotted names to files."""
    java: Mapping[str, str] = field(default_factory=dict[str, str])
    """From full class names to files."""
    go: Mapping[str, str] = field(default_factory=dict[str, str])
    """From the folder of a package to one file in it."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """From names of the project's own packages (npm, Go, Rust crates) to their folders."""
    namespaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """From C# namespaces to the files that declare them."""


def layout_of(listing: Listing, packages: Mapping[str, str]) -> Layout:
    """`packages` are the project's own, with their folders. If two files have the same name, the one nearer the root counts."""
    python: dict[str, str] = {}
    java: dict[str, str] = {}
    go: dict[str, str] = {}
    packages_of_python = {folder for folder, names in listing.folders.items() if "__init__.py" in names}
    for folder in sorted(listing.folders, key=lambda path: (path.count("/") + bool(path), path)):
        prefix = f"{folder}/" if folder else ""
        dotted: list[str] | None = None
        for name in listing.folders[folder]:
            stem, _, ending = name.rpartition(".")
            if ending in {"py", "pyi"}:
                dotted = _dotted(folder, packages_of_python) if dotted is None else dotted
                for above in dotted:
                    python.setdefault(above.rstrip(".") if stem == "__init__" else above + stem, prefix + name)
            elif ending in {"java", "kt"}:
                java.setdefault(_class_name(prefix + stem), prefix + name)
            elif ending == "go" and not stem.endswith("_test"):
                go.setdefault(folder, prefix + name)
    python.pop("", None)
    return Layout(frozenset(listing.paths()), python, java, go, packages)


def _dotted(folder: str, packages: set[str]) -> list[str]:
    """The prefixes of the names of modules in a folder: from the top of the package, from the root, and from a `src` folder."""
    parts = folder.split("/") if folder else []
    top = len(parts)
    while top > 0 and "/".join(parts[:top]) in packages:
        top -= 1
    starts = sorted({top, 0, 1 if parts[:1] in (["src"], ["lib"]) else 0})
    return ["".join(f"{part}." for part in parts[start:]) for start in starts]


def _class_name(path: str) -> str:
    parts = path.split("/")
    start = next((at + 1 for at, part in enumerate(parts) if part in {"java", "kotlin"}), 0)
    return ".".join(parts[start:])
