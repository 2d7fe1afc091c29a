"""What a source file imports, and which files of the project that means.

Statements are found by their first words, then parsed: Python's by `ast`, one statement at a time, because parsing whole files would
make a scan of a large project ten times slower. Other languages by expressions for their import statements, comments removed.
"""

import ast
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

_PYTHON = re.compile(r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+import|import)\b[^\n(;#]*(?:\([^)]{0,4000}\))?)", re.MULTILINE)
_TRIPLE = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''", re.DOTALL)
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


@dataclass(frozen=True, slots=True)
class Layout:
    """The project's files in the ways that imports name them."""

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


def layout_of(paths: Iterable[str], packages: Mapping[str, str]) -> Layout:
    files = frozenset(paths)
    python: dict[str, str] = {}
    java: dict[str, str] = {}
    go: dict[str, str] = {}
    for path in sorted(files, key=lambda one: (one.count("/"), one)):
        if path.endswith((".py", ".pyi")):
            for name in _dotted(path, files):
                python.setdefault(name, path)
        elif path.endswith((".java", ".kt")):
            parts = path.rpartition(".")[0].split("/")
            start = next((at + 1 for at, part in enumerate(parts) if part in {"java", "kotlin"}), 0)
            java.setdefault(".".join(parts[start:]), path)
        elif path.endswith(".go") and not path.endswith("_test.go"):
            go.setdefault(path.rpartition("/")[0], path)
    return Layout(files, python, java, go, packages)


def _dotted(path: str, files: frozenset[str]) -> Iterator[str]:
    """The names under which a Python file can be imported: from the top of its package, and from a `src` folder."""
    parts = path.rpartition(".")[0].split("/")
    if parts[-1] == "__init__":
        parts = parts[:-1]
    top = len(parts) - 1
    while top > 0 and "/".join([*parts[:top], "__init__.py"]) in files:
        top -= 1
    for start in sorted({top, 0, 1 if parts[:1] in (["src"], ["lib"]) else 0}):
        if parts[start:]:
            yield ".".join(parts[start:])


def imports_of(path: str, text: str, layout: Layout) -> list[str]:
    """The files of the project that this one imports, each once, in the order of the text."""
    resolver = _RESOLVERS.get(path.rpartition(".")[2].lower())
    if resolver is None:
        return []
    found = dict.fromkeys(target for target in resolver(path, text, layout) if target in layout.files)
    found.pop(path, None)
    return list(found)


def _python(path: str, text: str, layout: Layout) -> Iterator[str]:
    if "import" not in text:
        return
    quoted: list[tuple[int, int]] | None = None
    for found in _PYTHON.finditer(text):
        if quoted is None:
            quoted = [match.span() for match in _TRIPLE.finditer(text)]
        if any(start < found.start() < end for start, end in quoted):
            continue
        yield from _python_statement(path, found[1].strip().rstrip("\\"), layout)


def _python_statement(path: str, statement: str, layout: Layout) -> Iterator[str]:
    for node in _parsed(statement):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _python_name(alias.name, layout)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(path, node, layout)
            for alias in node.names:
                yield from _python_name(f"{base}.{alias.name}" if base else alias.name, layout)


@lru_cache(maxsize=4096)
def _parsed(statement: str) -> tuple[ast.stmt, ...]:
    """Most files of a project import the same things."""
    try:
        return tuple(ast.parse(statement).body)
    except (SyntaxError, ValueError, RecursionError):
        return ()


def _absolute(path: str, node: ast.ImportFrom, layout: Layout) -> str:
    if not node.level:
        return node.module or ""
    folder = path.split("/")[: -node.level] if node.level < path.count("/") + 2 else []
    for start in range(len(folder)):
        name = ".".join(folder[start:])
        if name in layout.python:
            return f"{name}.{node.module}" if node.module else name
    below = ".".join(folder)
    return f"{below}.{node.module}" if node.module else below


def _python_name(name: str, layout: Layout) -> Iterator[str]:
    """The file of the longest beginning of the name that is a module."""
    while name:
        if name in layout.python:
            yield layout.python[name]
            return
        name = name.rpartition(".")[0]


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
    source = re.sub(r"/src/.*$|^src/.*$", "", path) + "/src" if "/src/" in path else "src"
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
        yield from layout.namespaces.get(name, ())


def namespace_of(text: str) -> str:
    found = _NAMESPACE.search(text)
    return found[1] if found else ""


_RESOLVERS: Mapping[str, Callable[[str, str, Layout], Iterator[str]]] = {
    "py": _python, "pyi": _python,
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte"), _script),
    "rs": _rust, "go": _go, "java": _java, "kt": _java, "cs": _csharp,
}  # fmt: skip
