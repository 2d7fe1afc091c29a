"""What a file is, judged by its name."""

from collections.abc import Container, Mapping

SOURCE_LANGUAGES: Mapping[str, str] = {
    "py": "Python",
    "pyi": "Python",
    "js": "JavaScript",
    "jsx": "JavaScript",
    "mjs": "JavaScript",
    "cjs": "JavaScript",
    "ts": "TypeScript",
    "tsx": "TypeScript",
    "mts": "TypeScript",
    "cts": "TypeScript",
    "rs": "Rust",
    "go": "Go",
    "java": "Java",
    "kt": "Kotlin",
    "cs": "C#",
    "c": "C",
    "h": "C",
    "cc": "C++",
    "cpp": "C++",
    "hpp": "C++",
    "rb": "Ruby",
    "php": "PHP",
    "swift": "Swift",
    "scala": "Scala",
    "r": "R",
    "jl": "Julia",
    "sh": "Shell",
    "sql": "SQL",
    "vue": "JavaScript",
    "svelte": "JavaScript",
}
TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs", "testing", "e2e"})
SIDE_FOLDERS = frozenset(
    {
        "docs",
        "doc",
        "examples",
        "example",
        "samples",
        "bench",
        "benches",
        "benchmark",
        "benchmarks",
        "scripts",
        "tools",
        "ci",
        "dist",
        "vendor",
        "third_party",
        "generated",
    }
)


MAYBE_SIDE_FOLDERS = frozenset({"tools", "scripts"})
"""Side folders that count as code if they are packages, lie inside the code, or are imported by it."""
CODE_ROOTS = frozenset({"src", "lib"})


def extension(name: str) -> str:
    """The part after the last dot, in lower case; empty for a name whose only dot is its first character."""
    stem, _, ending = name.rpartition(".")
    return ending.lower() if stem and not stem.endswith("/") else ""


def language_of(path: str) -> str | None:
    """The programming language of a source file; None for anything else."""
    return SOURCE_LANGUAGES.get(extension(path))


def is_test(path: str) -> bool:
    """Whether a file is a test, by its name or folder."""
    folder, _, name = path.rpartition("/")
    return is_test_folder(folder) or is_test_name(name)


def is_test_folder(folder: str) -> bool:
    return bool(folder) and not TEST_FOLDERS.isdisjoint(folder.lower().split("/"))


def is_side_folder(folder: str, code: Container[str] = ()) -> bool:
    """Whether its contents are not the project's main code: documentation, examples, scripts, vendored or generated files.

    `code` are folders that are known to be code: Python packages, and folders that other code imports.
    """
    names = folder.lower().split("/")
    if SIDE_FOLDERS.isdisjoint(names):
        return False
    return any(name in SIDE_FOLDERS and not _is_code(folder, depth, code) for depth, name in enumerate(names))


def _is_code(folder: str, depth: int, code: Container[str]) -> bool:
    """Whether the side folder at this depth of a path counts as code."""
    parts = folder.split("/")
    if parts[depth].lower() not in MAYBE_SIDE_FOLDERS:
        return False
    here, above = "/".join(parts[: depth + 1]), "/".join(parts[:depth])
    return here in code or (bool(above) and (above in code or parts[0].lower() in CODE_ROOTS))


def is_test_name(name: str) -> bool:
    lower = name.lower()
    stem = lower.partition(".")[0]
    return (
        stem.startswith("test_")
        or stem.endswith(("_test", "_spec"))
        or ".test." in lower
        or ".spec." in lower
        or name.endswith(("Test.java", "Tests.java", "Tests.cs", "Test.cs"))
    )
