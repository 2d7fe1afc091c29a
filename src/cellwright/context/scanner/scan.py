"""Scans a whole project: its files, its manifests, its modules and how they depend on each other."""

import os
import posixpath
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from cellwright.context.files.paths import ManyFiles, open_below
from cellwright.context.model import Module, Project
from cellwright.context.scanner.imports import Imports, namespace_of
from cellwright.context.scanner.languages import is_side_folder, is_test_folder, is_test_name, language_of
from cellwright.context.scanner.layout import Layout, layout_of
from cellwright.context.scanner.manifests import LOCKS, Manifest, frameworks, is_manifest, read_manifest
from cellwright.context.scanner.modules import Area, find_areas, module_by_file
from cellwright.context.scanner.roles import described, key_files, tests_for
from cellwright.context.scanner.walk import Listing, Progress, list_files
from cellwright.core.text.names import can_be_given, on_one_line
from cellwright.system.reach import BY_NAME, Reach

LARGEST_SOURCE = 256 << 10
LARGEST_MANIFEST = 256 << 10
HEAD = 1_200
CSHARP_HEAD = 8_000
MOST_HEADS = 20_000
PROGRESS_EVERY = 200
MOST_MANIFESTS = 200
MIN_LANGUAGE_SHARE = 0.05
MOST_LANGUAGES = 6
WEB = frozenset({"React", "Next.js", "Vue", "Nuxt", "Svelte", "Angular"})
SERVICES = frozenset(
    {"Django", "Flask", "FastAPI", "Starlette", "Litestar", "Express", "NestJS", "Fastify", "Koa", "Axum", "Actix Web", "Rocket",
     "Gin", "Echo", "Fiber", "Spring Boot", "Quarkus", "Micronaut", "ASP.NET Core", "Tornado", "aiohttp", "Hono"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProjectScan:
    """The results of a scan."""

    project: Project
    files: Sequence[str]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The source files of a project, divided into code and tests."""

    sources: Mapping[str, list[str]]
    """The names of all source files, by folder."""
    code: Mapping[str, list[str]]
    """The paths of those that are not tests, by folder."""
    tests: Sequence[str]
    languages: Mapping[str, int]
    """How many files there are in each language."""


@dataclass(frozen=True, slots=True)
class _Sources:
    heads: Mapping[str, str]
    imports: Mapping[str, list[str]]


def scan(root: str, progress: Progress = lambda _done, _total: None, reach: Reach = BY_NAME) -> ProjectScan:
    """Scan the project below `root`. Reads every source file that may be read once; writes nothing."""
    real = os.path.realpath(root)
    listing = list_files(real, progress=progress, reach=reach)
    paths = listing.paths()
    manifests = _manifests(real, listing)
    kinds = _kinds(listing)
    packages = {
        manifest.module_path: posixpath.dirname(manifest.path) for manifest in manifests if manifest.module_path
    }
    sources = _read_sources(real, kinds.sources, layout_of(listing, packages), progress)
    first = manifests[0] if manifests else None
    name = (first.name if first else "") or posixpath.basename(real)
    name = name if can_be_given(name) else on_one_line(name)
    areas = find_areas(kinds.code, name, _imported_folders(kinds, sources))
    modules = _modules(areas, kinds, manifests, sources)
    facts = _facts(name, paths, kinds, manifests, areas)
    project = replace(facts, modules={module.name: module for module in modules})
    return ProjectScan(project, paths, listing.truncated)


def _kinds(listing: Listing) -> _Kinds:
    sources: dict[str, list[str]] = {}
    code: dict[str, list[str]] = {}
    tests: list[str] = []
    languages: Counter[str] = Counter()
    for folder, names in listing.folders.items():
        language_of_name = {name: language for name in names if (language := language_of(name)) is not None}
        if language_of_name:
            prefix = f"{folder}/" if folder else ""
            languages.update(language_of_name.values())
            sources[folder] = list(language_of_name)
            test_names = (
                set(language_of_name)
                if is_test_folder(folder)
                else {name for name in language_of_name if is_test_name(name)}
            )
            tests += [prefix + name for name in language_of_name if name in test_names]
            code[folder] = [prefix + name for name in language_of_name if name not in test_names]
    return _Kinds(sources, {folder: paths for folder, paths in code.items() if paths}, tests, languages)


def _reader(real: str, largest: int) -> Callable[[str], str]:
    def read(path: str) -> str:
        descriptor = open_below(real, path)
        try:
            data = os.read(descriptor, largest)
        finally:
            os.close(descriptor)
        return data.decode("utf-8", "replace")

    return read


def _manifests(real: str, listing: Listing) -> list[Manifest]:
    """The manifests, those nearest the root first. A manifest among tests or examples says nothing about the project."""
    paths = [
        f"{folder}/{name}".lstrip("/")
        for folder, names in listing.folders.items()
        for name in names
        if is_manifest(name) and not is_test_folder(folder) and not is_side_folder(folder)
    ]
    read = _reader(real, LARGEST_MANIFEST)
    ordered = sorted(paths, key=lambda path: (path.count("/"), path.endswith("requirements.txt"), path))
    manifests = (read_manifest(path, read) for path in ordered[:MOST_MANIFESTS])
    return [manifest for manifest in manifests if manifest is not None]


def _read_sources(real: str, names: Mapping[str, list[str]], layout: Layout, progress: Progress) -> _Sources:
    heads: dict[str, str] = {}
    imports: dict[str, list[str]] = {}
    waiting: dict[str, str] = {}
    spaces: dict[str, list[str]] = defaultdict(list)
    resolve = Imports(layout)
    total = sum(map(len, names.values()))
    for count, (path, text) in enumerate(_texts(real, names), 1):
        if len(heads) < MOST_HEADS:
            heads[path] = text[:HEAD]
        if path.endswith(".cs"):
            # Namespaces are known only after all files have been read; until then the first lines are kept.
            waiting[path] = text[:CSHARP_HEAD]
            spaces[namespace_of(text)].append(path)
        elif targets := resolve.of(path, text):
            imports[path] = targets
        if count % PROGRESS_EVERY == 0:
            progress(count, total)
    progress(total, total)
    spaces.pop("", None)
    resolve = Imports(replace(layout, namespaces={name: tuple(paths) for name, paths in spaces.items()}))
    for path, text in waiting.items():
        imports[path] = resolve.of(path, text)
    return _Sources(heads, imports)


def _texts(real: str, sources: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """The source files that can be read and are not too large, each with its text."""
    room = memoryview(bytearray(LARGEST_SOURCE + 1))
    with ManyFiles(real) as files:
        for folder, names in sources.items():
            prefix = f"{folder}/" if folder else ""
            for name in names:
                size = files.read_into(room, folder, name)
                if 0 <= size <= LARGEST_SOURCE:
                    yield prefix + name, str(room[:size], "utf-8", "replace")


def _imported_folders(kinds: _Kinds, sources: _Sources) -> set[str]:
    """The folders from which code in other folders imports. Imports by tests and side folders do not count."""
    folders: set[str] = set()
    for folder, paths in kinds.code.items():
        if is_side_folder(folder):
            continue
        for target in chain.from_iterable(sources.imports.get(path, ()) for path in paths):
            if (target_folder := posixpath.dirname(target)) != folder:
                folders.add(target_folder)
    return folders


def _modules(areas: Sequence[Area], kinds: _Kinds, manifests: Sequence[Manifest], sources: _Sources) -> list[Module]:
    owner = module_by_file(areas)
    code = chain.from_iterable(kinds.code.values())
    importers = Counter(chain.from_iterable(sources.imports.get(path, ()) for path in code))
    entries = [
        posixpath.normpath(posixpath.join(posixpath.dirname(manifest.path), entry))
        for manifest in manifests
        for entry in manifest.entries
    ]
    entries += [entry for manifest in manifests for entry in manifest.entries if manifest.language == "Python"]
    return [
        Module(
            area.name,
            _description(area, manifests, sources.heads),
            key_files(
                area.files,
                tests_for(area.name, kinds.tests, [path.rpartition("/")[2].partition(".")[0] for path in area.files]),
                entries,
                importers,
                sources.heads,
            ),
            dependencies=tuple(
                sorted(
                    {
                        owner[target]
                        for path in area.files
                        for target in sources.imports.get(path, ())
                        if owner.get(target, area.name) != area.name
                    }
                )
            ),
        )
        for area in areas
    ]


def _description(area: Area, manifests: Iterable[Manifest], heads: Mapping[str, str]) -> str:
    for manifest in manifests:
        if manifest.description and posixpath.dirname(manifest.path) == area.folder:
            return manifest.description
    for name in ("__init__.py", "lib.rs", "src/lib.rs", "mod.rs", "doc.go", "index.ts", "index.js"):
        path = f"{area.folder}/{name}".lstrip("/")
        if path in heads and (text := described(path, heads[path])):
            return text
    languages = Counter(language for path in area.files if (language := language_of(path)))
    return ", ".join(f"{count} {name} file{'s' if count > 1 else ''}" for name, count in languages.most_common(3))


def _facts(
    name: str, paths: Sequence[str], kinds: _Kinds, manifests: Sequence[Manifest], areas: Sequence[Area]
) -> Project:
    total = sum(kinds.languages.values())
    ranked = sorted(kinds.languages.items(), key=lambda item: -item[1])[:MOST_LANGUAGES]
    languages = [language for language, count in ranked if count >= total * MIN_LANGUAGE_SHARE]
    used = frameworks(need for manifest in manifests for need in manifest.dependencies)
    notebooks = [path for path in paths if path.endswith(".ipynb")]
    extra = ["Jupyter notebooks"] if notebooks else []
    stack = tuple(dict.fromkeys((*languages, *used, *extra)))
    runtimes = list(
        {manifest.language: manifest.runtime for manifest in reversed(manifests) if manifest.runtime}.values()
    )[::-1]
    return Project(
        name,
        _type(used, manifests, bool(notebooks) and total <= len(notebooks)),
        ".",
        stack,
        ", ".join(runtimes[:3]),
        _manager(paths, manifests),
        _pattern(total, manifests, areas),
        next((manifest.description for manifest in manifests if manifest.description and "/" not in manifest.path), ""),
    )


def _type(used: Sequence[str], manifests: Sequence[Manifest], mostly_notebooks: bool) -> str:
    web, service = bool(WEB & set(used)), bool(SERVICES & set(used))
    if web and service:
        return "fullstack"
    if web or service:
        return "frontend" if web else "backend"
    if mostly_notebooks:
        return "notebooks"
    if any(manifest.entries and manifest.language == "Python" for manifest in manifests):
        return "application"
    return "library" if manifests else "project"


def _manager(paths: Sequence[str], manifests: Sequence[Manifest]) -> str:
    names = {path.rpartition("/")[2] for path in paths if path.count("/") <= 1}
    of_locks = [manager for lock, manager in LOCKS.items() if lock in names]
    of_manifests = [manifest.manager for manifest in manifests if manifest.manager]
    python = {"uv", "poetry", "pdm", "pipenv", "conda", "pixi"}
    if python & set(of_locks):
        of_manifests = [manager for manager in of_manifests if manager not in {"pip", "poetry"}]
    if set(of_locks) - python:
        of_manifests = [manager for manager in of_manifests if manager != "npm"]
    return ", ".join(dict.fromkeys([*of_locks, *of_manifests]))


def _pattern(sources: int, manifests: Sequence[Manifest], areas: Sequence[Area]) -> str:
    roots = {
        posixpath.dirname(manifest.path)
        for manifest in manifests
        if manifest.path.rpartition("/")[2] != "requirements.txt"
    }
    names = {area.name.lower() for area in areas}
    if len(roots) > 2:  # noqa: PLR2004 - the root's own and one for the documentation are ordinary
        return "monorepo"
    if {"models", "views", "controllers"} <= names:
        return "MVC"
    if len({"domain", "application", "infrastructure", "adapters", "ports"} & names) >= 2:  # noqa: PLR2004
        return "layered"
    if areas and not sources:
        return ""
    return "modular" if len(areas) > 1 else "single package" if areas else ""
