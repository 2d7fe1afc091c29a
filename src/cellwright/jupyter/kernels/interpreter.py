"""Asks a running Python kernel about its own interpreter, without a trace.

Our code runs in a namespace of its own and without an execution count: it leaves no name behind, and changes neither `_` nor the count.
"""

import json
from dataclasses import dataclass
from typing import Any, cast

from cellwright.core.errors import CellwrightError, Unavailable
from cellwright.core.text.clean import clean
from cellwright.jupyter.kernels.connection import KernelConnection
from cellwright.jupyter.variables.asking import ask

ASK_SECONDS = 15.0
LONGEST_TEXT = 400
MAX_PACKAGES = 20_000

_ABOUT = """
import importlib.util, json, os, re, sys, sysconfig
def has(*parts):
    return os.path.exists(os.path.join(*parts))
in_environment = sys.prefix != sys.base_prefix
answer = {
    "executable": sys.executable or "",
    "version": ".".join(map(str, sys.version_info[:3])),
    "prefix": sys.prefix,
    "folder": os.getcwd(),
    "windows": os.name == "nt",
    "pip": importlib.util.find_spec("pip") is not None,
    "conda": has(sys.prefix, "conda-meta"),
    "temporary": bool(re.search(r"[/\\\\\\\\]archive-v\\d+[/\\\\\\\\]", sys.prefix)),
    "managed": not in_environment and has(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED"),
}
"""

_PACKAGES = """
import importlib.metadata
packages = {}
for package in importlib.metadata.distributions():
    name = package.metadata["Name"]
    if name and name not in packages:
        packages[str(name)] = str(package.version)
    if len(packages) >= most:
        break
answer["packages"] = packages
"""

_MEMORY = """
import sys
answer = {"now": None, "peak": None}
try:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer["peak"] = peak if sys.platform == "darwin" else peak * 1024
except ImportError:
    pass
try:
    import psutil  # IPython's kernel needs it itself
    used = psutil.Process().memory_info()
    answer["now"] = used.rss
    answer["peak"] = answer["peak"] or getattr(used, "peak_wset", None)
except ImportError:
    pass
"""


@dataclass(frozen=True, slots=True)
class KernelMemory:
    """Bytes of memory of a kernel's process, in its own words; None where it does not know."""

    now: int | None
    peak: int | None


@dataclass(frozen=True, slots=True)
class KernelPython:
    """The interpreter of a running kernel, in its own words."""

    executable: str
    version: str
    prefix: str
    folder: str
    """Its working folder, in which it looks for modules first."""
    windows: bool = False
    pip: bool = False
    conda: bool = False
    temporary: bool = False
    """Whether uvx made its environment, which will be deleted."""
    managed: bool = False
    """Whether it is the system's Python, into which pip does not install."""


async def python_of(kernel: KernelConnection) -> KernelPython:
    """The kernel's interpreter. Raises Unavailable if it is not Python, DeadlineExceeded if it is busy for long."""
    return _python(await _ask(kernel, _ABOUT))


async def python_and_packages(kernel: KernelConnection) -> tuple[KernelPython, dict[str, str]]:
    """The kernel's interpreter, and the versions of its installed packages, by name."""
    answer = await _ask(kernel, _ABOUT + _PACKAGES.replace("most", str(MAX_PACKAGES)))
    packages = cast("dict[str, object]", answer.get("packages") or {})
    named = {_text(name): _text(version) for name, version in packages.items()}
    return _python(answer), dict(sorted(named.items(), key=lambda package: package[0].lower()))


async def memory_of(kernel: KernelConnection) -> KernelMemory:
    """How much memory the process of a Python kernel takes now, and took at most. Raises as `python_of` does."""
    answer = await _ask(kernel, _MEMORY)
    now, peak = (value if isinstance(value := answer.get(key), int) else None for key in ("now", "peak"))
    return KernelMemory(now, peak)


def _python(answer: dict[str, Any]) -> KernelPython:
    return KernelPython(
        executable=_text(answer.get("executable")),
        version=_text(answer.get("version")),
        prefix=_text(answer.get("prefix")),
        folder=_text(answer.get("folder")),
        windows=bool(answer.get("windows")),
        pip=bool(answer.get("pip")),
        conda=bool(answer.get("conda")),
        temporary=bool(answer.get("temporary")),
        managed=bool(answer.get("managed")),
    )


def _text(value: object) -> str:
    return clean(str(value or "")).text[:LONGEST_TEXT]


async def _ask(kernel: KernelConnection, code: str) -> dict[str, Any]:
    """Run code that assigns to `answer`, and return that."""
    try:
        answer = json.loads(await ask(kernel, f"{code}\nimport json\nreply = json.dumps(answer)\n", ASK_SECONDS))
    except ValueError:
        raise Unavailable(
            f"kernel {kernel.kernel_id} did not say which Python it is",
            hint="ask in a cell: import sys; sys.executable",
        ) from None
    return cast("dict[str, Any]", answer)


class KnownPython:
    """The interpreter of one kernel. Each process of the kernel is asked once."""

    def __init__(self, kernel: KernelConnection) -> None:
        self._kernel = kernel
        self._answer: tuple[int, KernelPython | None] | None = None

    async def get(self) -> KernelPython | None:
        """The interpreter; None if the kernel does not say."""
        if self._answer is None or self._answer[0] != self._kernel.restarts:
            restarts = self._kernel.restarts
            try:
                self._answer = (restarts, await python_of(self._kernel))
            except CellwrightError:
                self._answer = (restarts, None)
        return self._answer[1]
