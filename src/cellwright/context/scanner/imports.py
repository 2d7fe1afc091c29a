"""What a source file imports, and which files of the project that means.

Python's statements are parsed; those of other languages are found by expressions, comments removed.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from cellwright.context.scanner.layout import Layout
from cellwright.context.scanner.python_imports import PythonImports

_LINE_COMMENT = re.compile(r"^[ \t]*//[^\n]*", re.MULTILINE)
_SCRIPT = re.compile(
    r"""(?:^|[;\s])(?:import|export)\s[^;'"`]{0,1000}?from\s*['"]([^'"\n]+)['"]|(?:^|[;\s])import\s*['"]([^'"\n]+)['"]"""
    r"""|\b(?:require|import)\s*\(\s*['"]([^'"\n]+)['"]\s*\)""",
    re.MULTILINE,
)
_RUST = re.compile(
    r"^[ \t]*(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:use\s+((?:crate|super|self|\w+)(?:::\w+)*)|mod\s+(\w+)\s*;)", re.MULTILINE
)
_GO = re.compile(r"^[ \t]*import[ \t]*(?:\(([^)]{0,4000})\)|(?:[\w.]+\s+)?\"([^\"]+)\")", re.MULTILINE)
_JAVA = re.compile(r"^[ \t]*import[ \t]+(?:static[ \t]+)?([\w.]{1,300}?)(?:\.\*)?[ \t]*;?[ \t\r]*$", re.MULTILINE)
_CSHARP = re.compile(r"^[ \t]*(?:global[ \t]+)?using\s+(?:static\s+)?(?:\w+\s*=\s*)?([\w.]+)\s*;", re.MULTILINE)
_NAMESPACE = re.compile(r"^[ \t]*namespace\s+([\w.]+)", re.MULTILINE)


class Imports:
    """What the files of one project import of each other."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._python = PythonImports(layout)

    def of(self, path: str, text: str) -> list[str]:
        """The files of the project that this one imports, each once, in the order of the text."""
        ending = path.rpartition(".")[2].lower()
        if ending in {"py", "pyi"}:
            found = dict.fromkeys(self._python.of(path, text))
        elif resolver := _RESOLVERS.get(ending):
            files = self._layout.files
            found = dict.fromkeys(target for target in resolver(path, text, self._layout) if target in files)
        else:
            return []
        found.pop(path, None)
        return list(found)


_SCRIPT_ENDINGS = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".d.ts", ".vue", ".svelte", ".json")


def _without_comments(text: str) -> str:
    parts: list[str] = []
    position = 0
    while (start := text.find("/*", position)) >= 0:
        parts.append(text[position:start])
        end = text.find("*/", start)
        position = end + 2 if end >= 0 else len(text)
    return _LINE_COMMENT.sub("", "".join([*parts, text[position:]]))


def _script(path: str, text: str, layout: Layout) -> Iterator[str]:
    if "import" not in text and "require" not in text and "export" not in text:
        return
    folder = path.rpartition("/")[0]
    for groups in _SCRIPT.findall(_without_comments(text)):
        name = next((group for group in cast("tuple[str, ...]", groups) if group), "")
        if name.startswith("."):
            yield from _script_file(posixpath.normpath(posixpath.join(folder, name)), layout)
        elif name.startswith(("@/", "~/")):
            for base in ("src/", ""):
                yield from _script_file(base + name[2:], layout)
        else:
            yield from _script_package(name, layout)


def _script_file(target: str, layout: Layout) -> Iterator[str]:
    bare = re.sub(r"\.(?:js|jsx|mjs|cjs)$", "", target)
    for base in dict.fromkeys((target, bare)):
        for ending in _SCRIPT_ENDINGS:
            for candidate in (f"{base}{ending}", f"{base}/index{ending}" if ending else ""):
                if candidate in layout.files:
                    yield candidate
                    return


def _script_package(name: str, layout: Layout) -> Iterator[str]:
    for package, folder in layout.packages.items():
        if name == package or name.startswith(f"{package}/"):
            rest = name[len(package) :].strip("/") or "index"
            for base in (f"{folder}/src/{rest}", f"{folder}/{rest}"):
                yield from _script_file(base.strip("/"), layout)


def _rust(path: str, text: str, layout: Layout) -> Iterator[str]:
    folder, _, name = path.rpartition("/")
    own = folder if name in {"mod.rs", "lib.rs", "main.rs"} else f"{folder}/{name.removesuffix('.rs')}"
    source = re.sub(r"(?s)/src/.*$|^src/.*$", "", path) + "/src" if "/src/" in path else "src"
    for used, declared in _RUST.findall(text):
        if declared:
            yield from (f"{own}/{declared}.rs".lstrip("/"), f"{own}/{declared}/mod.rs".lstrip("/"))
            continue
        first, *rest = used.split("::")
        bases = {"crate": source, "self": own, "super": own.rpartition("/")[0]}
        base = bases.get(first) or next(
            (f"{at}/src".lstrip("/") for crate, at in layout.packages.items() if crate.replace("-", "_") == first), None
        )
        if base is not None:
            yield from _rust_file(base, rest)


def _rust_file(base: str, names: list[str]) -> Iterator[str]:
    for end in range(len(names), 0, -1):
        inner = "/".join([base, *names[:end]]).lstrip("/")
        yield from (f"{inner}.rs", f"{inner}/mod.rs")
    yield f"{base}/lib.rs".lstrip("/")


def _go(path: str, text: str, layout: Layout) -> Iterator[str]:
    del path
    for block, single in _GO.findall(text):
        for name in re.findall(r'"([^"]+)"', block) or [single]:
            for module, folder in layout.packages.items():
                if name == module or name.startswith(f"{module}/"):
                    inner = posixpath.join(folder, name[len(module) :].strip("/")).strip("/")
                    if inner in layout.go:
                        yield layout.go[inner]


def _java(path: str, text: str, layout: Layout) -> Iterator[str]:
    del path
    for name in _JAVA.findall(text):
        inner = name
        while inner:
            if inner in layout.java:
                yield layout.java[inner]
                break
            inner = inner.rpartition(".")[0]


def _csharp(path: str, text: str, layout: Layout) -> Iterator[str]:
    del path
    for name in _CSHARP.findall(text):
        # Who declares part of the platform's namespaces fills a gap of an older platform; others do not mean that file.
        if not name.startswith("System"):
            yield from layout.namespaces.get(name, ())


def namespace_of(text: str) -> str:
    found = _NAMESPACE.search(text)
    return found[1] if found else ""


_RESOLVERS: Mapping[str, Callable[[str, str, Layout], Iterator[str]]] = {
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte"), _script),
    "rs": _rust, "go": _go, "java": _java, "kt": _java, "cs": _csharp,
}  # fmt: skip
