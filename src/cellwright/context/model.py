"""The values of project context: the project, its modules, discoveries and sessions; and what can be wrong with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from cellwright.core.errors import CellwrightError, NotFound
from cellwright.core.text.names import on_one_line

SECONDS_A_DAY = 86_400.0


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class BrokenProjectFile(CellwrightError):
    code = "PROJECT_FILE_BROKEN"
    meaning = "project.yaml cannot be read as what it should be; the message names the line. It was not changed."
    rpc_code = -32603


class ModuleNotFound(NotFound):
    code = "MODULE_NOT_FOUND"
    meaning = "project.yaml has no module of this name."


class NoActiveSession(NotFound):
    code = "NO_ACTIVE_SESSION"
    meaning = "You have made no call yet in this connection, or the last one was too long ago."


class Unreadable(CellwrightError):
    code = "FILE_UNREADABLE"
    meaning = (
        "The file exists in the project but is a folder, a device, too large, not text, or not readable by this user."
    )


class Role(StrEnum):
    ENTRY = "entry"
    CONFIG = "config"
    CORE = "core"
    TEST = "test"


class DiscoveryType(StrEnum):
    PATTERN = "pattern"
    RULE = "rule"
    DECISION = "decision"
    ISSUE = "issue"


class SessionStatus(StrEnum):
    ACTIVE = "active"
    COMPLETED = "completed"
    ARCHIVED = "archived"


@dataclass(frozen=True, slots=True)
class KeyFile:
    path: str
    role: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Issue:
    description: str
    solution: str = ""
    discovered_at: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    description: str = ""
    key_files: tuple[KeyFile, ...] = ()
    patterns: tuple[str, ...] = ()
    business_rules: tuple[str, ...] = ()
    common_issues: tuple[Issue, ...] = ()
    dependencies: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    """Beyond the common keys: written only by enriching."""


@dataclass(frozen=True, slots=True)
class Project:
    """What `project.yaml` says."""

    name: str = ""
    type: str = ""
    path: str = ""
    stack: tuple[str, ...] = ()
    runtime: str = ""
    package_manager: str = ""
    pattern: str = ""
    description: str = ""
    modules: Mapping[str, Module] = field(default_factory=dict[str, Module])
    notes: Module = Module("")
    """What was learnt of the project as a whole."""

    def module(self, name: str) -> Module:
        module = self.modules.get(name)
        if module is None:
            names = ", ".join(map(on_one_line, list(self.modules)[:20])) or "none yet; context_scan makes a first draft"
            raise ModuleNotFound(
                f"Module not found: {on_one_line(name[:80])}",
                details={"reason": f"Module {name[:80]!r} not found in project.yaml; there are: {names}"},
            )
        return module

    def finder(self) -> Callable[[str], str | None]:
        """A function that names the module of a file: the one that has it as a key file, or has key files deepest above it."""
        files: dict[str, str] = {}
        folders: dict[str, str] = {}
        for module in self.modules.values():
            for key_file in module.key_files:
                files.setdefault(key_file.path, module.name)
                folders.setdefault(key_file.path.rpartition("/")[0], module.name)
        folders.pop("", None)

        def module_of(path: str) -> str | None:
            name, folder = files.get(path), path
            while name is None and (folder := folder.rpartition("/")[0]):
                name = folders.get(folder)
            return name

        return module_of


@dataclass(frozen=True, slots=True)
class Discovery:
    """Something that was learnt about the project. Times are seconds since 1970."""

    id: str
    type: DiscoveryType
    content: str
    module: str = ""
    solution: str = ""
    session: str = ""
    created: float = 0.0
    updated: float = 0.0
    times: int = 1
    """How often it was recorded."""
    archived: bool = False


@dataclass(frozen=True, slots=True)
class Touched:
    """A file, notebook or pad that a session used. `uri` leads to it, if it is a resource."""

    kind: str
    path: str
    uri: str = ""
    count: int = 1
    first: float = 0.0
    last: float = 0.0


@dataclass(frozen=True, slots=True)
class Session:
    """One stretch of work of one caller."""

    id: str
    status: SessionStatus
    started: float
    last: float
    ended: float | None = None
    client: str = ""
    calls: int = 0
    failures: int = 0
    discoveries: int = 0
    topics: tuple[str, ...] = ()
    touched: tuple[Touched, ...] = ()
