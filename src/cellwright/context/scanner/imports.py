"""Finds which files of the project a source file imports.

Python's statements are parsed; those of other languages are found by expressions, after comments are removed.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import islice

from cellwright.context.scanner.layout import Layout
from cellwright.context.scanner.python_imports import PythonImports

MOST_IMPORTS = 5_000
LONGEST_NAME = 300
MOST_NAMES = 32
"""How many nested names of one import are tried."""
_NAME, _DOTTED = rb"[\w\x80-\xff]+", rb"[\w.\x80-\xff]+"
_SCRIPT = (
    rb"""(?m)(?:^|[;\s])(?:import|export)\s[^;'"`]*?from\s*['"]([^'"\n]+)['"]|(?:^|[;\s])import\s*['"]([^'"\n]+)['"]"""
    rb"""|\b(?:require|import)\s*\(\s*['"]([^'"\n]+)['"]\s*\)"""
)
_RUST = (
    rb"(?m)^[ \t]*(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:use\s+("
    + _NAME
    + rb"(?:::"
    + _NAME
    + rb")*)|mod\s+("
    + _NAME
    + rb")\s*;)"
)
_GO = rb"(?m)^[ \t]*import[ \t]*(?:\(([^)]*)\)|(?:" + _DOTTED + rb'\s+)?"([^"]+)")'
_JAVA = rb"(?m)^[ \t]*import[ \t]+(?:static[ \t]+)?([\w.\x80-\xff]+?)(?:\.\*)?[ \t]*;?[ \t\r]*$"
_CSHARP = rb"(?m)^[ \t]*(?:global[ \t]+)?using\s+(?:static\s+)?(?:" + _NAME + rb"\s*=\s*)?(" + _DOTTED + rb")\s*;"
_NAMESPACE = rb"(?m)^[ \t]*namespace\s+(" + _DOTTED + rb")"


@cache
def _linear(expression: bytes) -> "re.Pattern[bytes]":
    """Compiled by RE2, whose time is linear in the text, and which lets other threads work meanwhile."""
    return import_module("re2").compile(expression)


def _groups(expression: bytes, text: str, most: int = MOST_IMPORTS) -> Iterator[tuple[str, ...]]:
    """The groups of each match."""
    for match in islice(_linear(expression).finditer(text.encode("utf-8", "replace")), most):
        yield tuple((group or b"").decode("utf-8", "replace") for group in match.groups())


class Imports:
    """What the files of one project import of each other."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._python = PythonImports(layout)

    def of(self, path: str, text: str) -> list[str]:
        """The files of the project that this one imports, each once, in the order of the text."""
        ending = path.rpartition(".")[2].lower()
        if ending in {"py", "pyi"}:
            targets = dict.fromkeys(self._python.of(path, text))
        elif resolver := _RESOLVERS.get(ending):
            files = self._layout.files
            targets = dict.fromkeys(target for target in resolver(path, text, self._layout) if target in files)
        else:
            return []
        targets.pop(path, None)
        return list(targets)


_SCRIPT_ENDINGS = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".d.ts", ".vue", ".svelte", ".json")


def _without_comments(text: str) -> str:
    parts: list[str] = []
    position = 0
    while (start := text.find("/*", position)) >= 0:
        parts.append(text[position:start])
        end = text.find("*/", start)
        position = end + 2 if end >= 0 else len(text)
    return "".join([*parts, text[position:]])


def _script(path: str, text: str, layout: Layout) -> Iterator[str]:
    if "import" not in text and "require" not in text and "export" not in text:
        return
    folder = path.rpartition("/")[0]
    lines = (line for line in _without_comments(text).split("\n") if not line.lstrip(" \t").startswith("//"))
    # An `import` may stand anywhere, and its `from` far behind it.
    for groups in _groups(_SCRIPT, "\n".join(lines)):
        name = next(group for group in groups if group)
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
            inner_path = name[len(package) :].strip("/") or "index"
            for base in (f"{folder}/src/{inner_path}", f"{folder}/{inner_path}"):
                yield from _script_file(base.strip("/"), layout)


def _rust(path: str, text: str, layout: Layout) -> Iterator[str]:
    folder, _, name = path.rpartition("/")
    own_folder = folder if name in {"mod.rs", "lib.rs", "main.rs"} else f"{folder}/{name.removesuffix('.rs')}"
    source = re.sub(r"(?s)/src/.*$|^src/.*$", "", path) + "/src" if "/src/" in path else "src"
    for use_path, declared in _groups(_RUST, text):
        if declared:
            yield from (f"{own_folder}/{declared}.rs".lstrip("/"), f"{own_folder}/{declared}/mod.rs".lstrip("/"))
            continue
        first, *names = use_path.split("::")
        bases = {"crate": source, "self": own_folder, "super": own_folder.rpartition("/")[0]}
        base = bases.get(first) or next(
            (
                f"{crate_folder}/src".lstrip("/")
                for crate, crate_folder in layout.packages.items()
                if crate.replace("-", "_") == first
            ),
            None,
        )
        if base is not None:
            yield from _rust_file(base, names)


def _rust_file(base: str, names: list[str]) -> Iterator[str]:
    for end in range(min(len(names), MOST_NAMES), 0, -1):
        inner = "/".join([base, *names[:end]]).lstrip("/")
        yield from (f"{inner}.rs", f"{inner}/mod.rs")
    yield f"{base}/lib.rs".lstrip("/")


def _go(path: str, text: str, layout: Layout) -> Iterator[str]:
    del path
    for block, single in _groups(_GO, text):
        for name in re.findall(r'"([^"]+)"', block) or [single]:
            for module, folder in layout.packages.items():
                if name == module or name.startswith(f"{module}/"):
                    inner = posixpath.join(folder, name[len(module) :].strip("/")).strip("/")
                    if inner in layout.go:
                        yield layout.go[inner]


def _java(path: str, text: str, layout: Layout) -> Iterator[str]:
    del path
    for (name,) in _groups(_JAVA, text):
        inner = name[:LONGEST_NAME]
        while inner:
            if inner in layout.java:
                yield layout.java[inner]
                break
            inner = inner.rpartition(".")[0]


def _csharp(path: str, text: str, layout: Layout) -> Iterator[str]:
    del path
    for (name,) in _groups(_CSHARP, text):
        # Who declares part of the platform's namespaces fills a gap of an older platform; others do not mean that file.
        if not name.startswith("System"):
            yield from layout.namespaces.get(name, ())


def namespace_of(text: str) -> str:
    return next(_groups(_NAMESPACE, text, 1), ("",))[0]


_RESOLVERS: Mapping[str, Callable[[str, str, Layout], Iterator[str]]] = {
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte"), _script),
    "rs": _rust, "go": _go, "java": _java, "kt": _java, "cs": _csharp,
}  # fmt: skip
