"""Reads manifests: name, languages, frameworks, runtime, package manager, and where programs begin."""

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

Read = Callable[[str], str]
LONGEST_LIST = 8_000


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts of one manifest."""

    path: str
    language: str
    name: str = ""
    description: str = ""
    runtime: str = ""
    manager: str = ""
    dependencies: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    """The entry files of programs or of the package, as the manifest names them."""
    module_path: str = ""
    """The prefix of imports of the project's own code: a Go module, an npm package."""


FRAMEWORKS: Mapping[str, str] = {
    "django": "Django", "flask": "Flask", "fastapi": "FastAPI", "starlette": "Starlette", "litestar": "Litestar", "aiohttp": "aiohttp",
    "tornado": "Tornado", "sqlalchemy": "SQLAlchemy", "pydantic": "Pydantic", "celery": "Celery", "click": "Click", "typer": "Typer",
    "streamlit": "Streamlit", "numpy": "NumPy", "pandas": "pandas", "polars": "Polars", "torch": "PyTorch", "tensorflow": "TensorFlow",
    "scikit-learn": "scikit-learn", "jupyterlab": "JupyterLab", "jupyter-server": "Jupyter Server", "pytest": "pytest", "mcp": "MCP",
    "react": "React", "next": "Next.js", "vue": "Vue", "nuxt": "Nuxt", "svelte": "Svelte", "@angular/core": "Angular", "vite": "Vite",
    "express": "Express", "@nestjs/core": "NestJS", "fastify": "Fastify", "koa": "Koa", "electron": "Electron", "jest": "Jest",
    "vitest": "Vitest", "tailwindcss": "Tailwind CSS", "prisma": "Prisma", "@modelcontextprotocol/sdk": "MCP", "hono": "Hono",
    "tokio": "Tokio", "axum": "Axum", "actix-web": "Actix Web", "rocket": "Rocket", "serde": "Serde", "clap": "clap", "bevy": "Bevy",
    "github.com/gin-gonic/gin": "Gin", "github.com/labstack/echo/v4": "Echo", "github.com/gofiber/fiber/v2": "Fiber",
    "github.com/spf13/cobra": "Cobra", "gorm.io/gorm": "GORM", "google.golang.org/grpc": "gRPC",
    "spring-boot": "Spring Boot", "quarkus": "Quarkus", "micronaut": "Micronaut", "junit-jupiter": "JUnit", "junit": "JUnit",
    "microsoft.net.sdk.web": "ASP.NET Core", "microsoft.entityframeworkcore": "Entity Framework Core", "xunit": "xUnit", "nunit": "NUnit",
}  # fmt: skip

LOCKS: Mapping[str, str] = {
    "uv.lock": "uv", "poetry.lock": "poetry", "pdm.lock": "pdm", "Pipfile.lock": "pipenv", "Pipfile": "pipenv", "conda-lock.yml": "conda",
    "environment.yml": "conda", "pixi.lock": "pixi", "pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun",
    "package-lock.json": "npm",
}  # fmt: skip
"""Package managers by their lock files, which say more than manifests; the first in this order counts."""

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


def frameworks(dependencies: Iterable[str]) -> list[str]:
    """The frameworks among these, each once, in the order they are declared."""
    names: dict[str, None] = {}
    for dependency in dependencies:
        lower = dependency.lower()
        framework = FRAMEWORKS.get(lower) or FRAMEWORKS.get(lower.replace("_", "-"))
        if framework is None and lower.startswith("spring-boot"):
            framework = "Spring Boot"
        if framework:
            names[framework] = None
    return list(names)


def read_manifest(path: str, read: Read) -> Manifest | None:
    """The facts of a manifest; None for a file that is no manifest, or that cannot be understood."""
    name = path.rpartition("/")[2]
    reader = _READERS.get(name) or _BY_EXTENSION.get(name.rpartition(".")[2])
    if reader is None:
        return None
    try:
        return reader(path, read(path))
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError, configparser.Error):
        # A manifest that its own tools would refuse says nothing.
        return None


def is_manifest(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name in _READERS or name.rpartition(".")[2] in _BY_EXTENSION


def _requirements(lines: Iterable[str]) -> tuple[str, ...]:
    matches = (_REQUIREMENT.match(line) for line in lines if not line.lstrip().startswith(("#", "-")))
    return tuple(match[1].lower() for match in matches if match)


def _pyproject(path: str, text: str) -> Manifest:
    data: dict[str, Any] = tomllib.loads(text)
    project: dict[str, Any] = data.get("project", {})
    poetry: dict[str, Any] = data.get("tool", {}).get("poetry", {})
    needs = list(_requirements(project.get("dependencies", ())))
    for group in (*project.get("optional-dependencies", {}).values(), *data.get("dependency-groups", {}).values()):
        needs += _requirements(line for line in group if isinstance(line, str))
    needs += [name.lower() for name in poetry.get("dependencies", {}) if name != "python"]
    version = project.get("requires-python") or poetry.get("dependencies", {}).get("python", "")
    scripts: dict[str, str] = {**project.get("scripts", {}), **poetry.get("scripts", {})}
    return Manifest(
        path,
        "Python",
        str(project.get("name") or poetry.get("name") or ""),
        str(project.get("description") or poetry.get("description") or ""),
        f"Python {version}".strip(),
        "poetry" if poetry else "pip",
        tuple(dict.fromkeys(needs)),
        tuple(target.partition(":")[0].replace(".", "/") + ".py" for target in scripts.values()),
    )


def _setup_cfg(path: str, text: str) -> Manifest | None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    if not parser.has_section("metadata"):
        return None
    options: Mapping[str, str] = dict(parser["options"]) if parser.has_section("options") else {}
    return Manifest(
        path,
        "Python",
        parser["metadata"].get("name", ""),
        parser["metadata"].get("description", ""),
        f"Python {options.get('python_requires', '')}".strip(),
        "pip",
        _requirements(options.get("install_requires", "").splitlines()),
        _entry_points(parser.get("options.entry_points", "console_scripts", fallback="").splitlines()),
    )


def _entry_points(lines: Iterable[str]) -> tuple[str, ...]:
    """The files that `name = package.module:function` means."""
    targets = (line.partition("=")[2].partition(":")[0].strip() for line in lines)
    return tuple(target.replace(".", "/") + ".py" for target in targets if target)


def _setup_py(path: str, text: str) -> Manifest:
    name_match = re.search(r"\bname\s*=\s*[\"']([^\"']+)", text)
    version = re.search(r"python_requires\s*=\s*[\"']([^\"']+)", text)
    needs = _requirements(_quoted_items(text, r"install_requires\s*=\s*\["))
    entries = _entry_points(_quoted_items(text, r"console_scripts[\"']?\s*[:=]\s*\["))
    runtime = f"Python {version[1]}" if version else "Python"
    return Manifest(path, "Python", name_match[1] if name_match else "", "", runtime, "pip", needs, entries)


def _quoted_items(text: str, opening: str) -> list[str]:
    """The quoted texts of the list that the expression `opening` finds the beginning of."""
    match = re.search(opening, text)
    end = text.find("]", match.end(), match.end() + LONGEST_LIST) if match else -1
    return re.findall(r"[\"']([^\"']+)", text[match.end() : end]) if match and end >= 0 else []


def _requirements_txt(path: str, text: str) -> Manifest:
    return Manifest(path, "Python", runtime="Python", manager="pip", dependencies=_requirements(text.splitlines()))


def _package_json(path: str, text: str) -> Manifest:
    data: dict[str, Any] = json.loads(text)
    needs = {**data.get("dependencies", {}), **data.get("devDependencies", {}), **data.get("peerDependencies", {})}
    node = data.get("engines", {}).get("node", "")
    manager = str(data.get("packageManager", "")).partition("@")[0] or "npm"
    binaries: object = data.get("bin", {})
    programs = list(cast("dict[str, object]", binaries).values()) if isinstance(binaries, dict) else [binaries]
    entries: list[object] = [data.get("main"), data.get("module"), *programs]
    return Manifest(
        path,
        "TypeScript" if "typescript" in needs else "JavaScript",
        str(data.get("name", "")),
        str(data.get("description", "")),
        f"Node.js {node}".strip(),
        manager,
        tuple(needs),
        tuple(entry.removeprefix("./") for entry in entries if isinstance(entry, str)),
        str(data.get("name", "")),
    )


def _cargo(path: str, text: str) -> Manifest:
    data: dict[str, Any] = tomllib.loads(text)
    package: dict[str, Any] = data.get("package", {})
    workspace: dict[str, Any] = data.get("workspace", {})
    needs = [*data.get("dependencies", {}), *data.get("dev-dependencies", {}), *workspace.get("dependencies", {})]
    shared: dict[str, Any] = workspace.get("package", {})
    version = _plain(package.get("rust-version")) or _plain(shared.get("rust-version"))
    edition = _plain(package.get("edition")) or _plain(shared.get("edition"))
    runtime = f"Rust {version}" if version else f"Rust, edition {edition}" if edition else "Rust"
    binaries = [binary.get("path", "") for binary in data.get("bin", [])]
    name, about = str(package.get("name", "")), _plain(package.get("description"))
    return Manifest(path, "Rust", name, about, runtime, "cargo", tuple(needs), tuple(filter(None, binaries)), name)


def _go_mod(path: str, text: str) -> Manifest:
    module_match = re.search(r"^module\s+(\S+)", text, re.MULTILINE)
    version = re.search(r"^go\s+(\S+)", text, re.MULTILINE)
    needs = re.findall(r"^[ \t]*(?:require[ \t]+)?([\w.-]{1,200}\.[\w-]{1,60}/\S{1,300})[ \t]+v\S", text, re.MULTILINE)
    module = module_match[1] if module_match else ""
    runtime = f"Go {version[1]}" if version else "Go"
    return Manifest(path, "Go", module.rpartition("/")[2], "", runtime, "go modules", tuple(needs), (), module)


def _pom(path: str, text: str) -> Manifest:
    # Not an XML parser: only a few plain elements are needed, and a hostile file must cost nothing.
    own = text
    for name in ("parent", "dependencies", "build", "profiles"):
        own = _without(own, name)
    release = re.search(r"<(?:java\.version|maven\.compiler\.(?:release|source|target)|release)>([^<$]+)<", text)
    needs = re.findall(r"<artifactId>\s{0,20}([^<\s]{1,200})\s{0,20}</artifactId>", text)
    return Manifest(
        path,
        "Java",
        _element(own, "artifactId"),
        _element(own, "description"),
        f"Java {release[1].strip()}" if release else "Java",
        "maven",
        tuple(needs),
    )


def _gradle(path: str, text: str) -> Manifest:
    release = re.search(
        r"(?:languageVersion\D{0,40}|JavaVersion\.VERSION_|sourceCompatibility\s*=\s*['\"]?)(\d+)", text
    )
    needs = [name.split(":")[1] for name in re.findall(r"['\"]([\w.-]+:[\w.-]+(?::[^'\"]*)?)['\"]", text)]
    if "org.springframework.boot" in text:
        needs.append("spring-boot")
    language = "Kotlin" if "kotlin(" in text or "kotlin-" in text else "Java"
    runtime = f"Java {release[1]}" if release else "Java"
    return Manifest(path, language, runtime=runtime, manager="gradle", dependencies=tuple(needs))


def _csproj(path: str, text: str) -> Manifest:
    target = _element(text, "TargetFramework") or _element(text, "TargetFrameworks").partition(";")[0]
    needs = re.findall(r'<PackageReference\s+Include="([^"]+)"', text)
    sdk = re.search(r'<Project\s+Sdk="([^"]+)"', text)
    name = path.rpartition("/")[2].removesuffix(".csproj")
    needs = [*([sdk[1]] if sdk else []), *needs]
    return Manifest(path, "C#", name, _element(text, "Description"), f".NET {target}".strip(), "nuget", tuple(needs))


def _plain(value: object) -> str:
    return value if isinstance(value, str) else ""


def _without(text: str, name: str) -> str:
    """XML without the elements of this name."""
    parts: list[str] = []
    position = 0
    while (start := text.find(f"<{name}>", position)) >= 0 and (end := text.find(f"</{name}>", start)) >= 0:
        parts.append(text[position:start])
        position = end
    return "".join([*parts, text[position:]])


def _element(text: str, name: str) -> str:
    match = re.search(rf"<{name}>([^<]{{0,500}})</{name}>", text)
    return match[1].strip() if match else ""


_READERS: Mapping[str, Callable[[str, str], Manifest | None]] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
    "setup.py": _setup_py,
    "requirements.txt": _requirements_txt,
    "package.json": _package_json,
    "Cargo.toml": _cargo,
    "go.mod": _go_mod,
    "pom.xml": _pom,
    "build.gradle": _gradle,
    "build.gradle.kts": _gradle,
}
_BY_EXTENSION: Mapping[str, Callable[[str, str], Manifest | None]] = {"csproj": _csproj}
