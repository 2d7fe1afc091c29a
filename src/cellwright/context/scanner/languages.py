"""What a file is, by its name."""

from collections.abc import Mapping

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
    }
)


def extension(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name[1:] else ""


def language_of(path: str) -> str | None:
    """The programming language of a source file; None for anything else."""
    return SOURCE_LANGUAGES.get(extension(path))


def is_test(path: str) -> bool:
    """Whether a file by its name or folder is a test."""
    *folders, name = path.lower().split("/")
    stem = name.partition(".")[0]
    return (
        bool(TEST_FOLDERS & set(folders))
        or stem.startswith("test_")
        or stem.endswith(("_test", "_spec"))
        or ".test." in name
        or ".spec." in name
        or path.endswith(("Test.java", "Tests.java", "Tests.cs", "Test.cs"))
    )
