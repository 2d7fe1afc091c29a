"""The kernels that the embedded server offers: the installed ones, and those of the workspace's environments.

Runs in the process of the embedded server. The environments are looked up each time, so that later ones are offered too.
"""

import importlib.metadata
import json
import os
import re
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from ipykernel.kernelspec import RESOURCES, get_kernel_dict  # pyright: ignore[reportUnknownVariableType] - untyped
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, KernelSpec, KernelSpecManager
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from traitlets import Unicode

from cellwright.jupyter.server.environments import OWN_ORIGIN, Environment, Interpreter, choose, programs_of

BOOTSTRAP = Path(__file__).parent / "kernel_bootstrap.py"
OWN_NAME = "cellwright"
METADATA_KEY = "cellwright"
KERNEL_ARGUMENTS = ("-f", "{connection_file}")


class WorkspaceKernelSpecs(KernelSpecManager):
    """`python3` is the Python of the workspace, if it has one; our own is then called `cellwright`."""

    root = Unicode(config=True)

    def find_kernel_specs(self) -> dict[str, str]:
        return super().find_kernel_specs() | dict.fromkeys(self._of_environments(), RESOURCES)

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        spec = self._of_environments().get(kernel_name)
        return _described(super().get_kernel_spec(kernel_name)) if spec is None else spec

    def _of_environments(self) -> dict[str, KernelSpec]:
        own = Interpreter.own()
        choice = choose(Path(self.root), os.environ, own)
        specs = {name_of(environment): _spec(environment) for environment in choice.others}
        if choice.default is not None:
            specs[NATIVE_KERNEL_NAME] = _spec(choice.default)
            display_name = f"Python {own.version} (cellwright's own)"
            traits: dict[str, Any] = {**get_kernel_dict(), "display_name": display_name}
            specs[OWN_NAME] = _described(KernelSpec(resource_dir=RESOURCES, **traits))
        return specs


def name_of(environment: Environment) -> str:
    """The name of its kernel in notebooks."""
    return "env-" + re.sub(r"[^a-z0-9._-]+", "-", environment.label.lower()).strip("-")


def _spec(environment: Environment) -> KernelSpec:
    if environment.has_ipykernel:
        label = environment.label
        arguments = ["-m", "ipykernel_launcher", *KERNEL_ARGUMENTS]
    else:
        label = f"{environment.label}, with cellwright's ipykernel"
        folders, names = borrowed()
        bootstrap = [str(BOOTSTRAP), EXTENSION_SUFFIXES[0], json.dumps(folders), ",".join(names)]
        arguments = [*bootstrap, *KERNEL_ARGUMENTS]
    return KernelSpec(
        argv=[str(environment.python), *arguments],
        display_name=f"Python {environment.version or '3'} ({label})",
        language="python",
        env=_activation(environment),
        resource_dir=RESOURCES,
        metadata={
            "debugger": True,
            METADATA_KEY: _about(environment.python, environment.version, environment.origin),
        },
    )


def _described(spec: KernelSpec) -> KernelSpec:
    """Add to a kernel of our own interpreter which one that is. A kernel that is just `python` runs in ours."""
    own = Interpreter.own()
    argv: list[str] = spec.argv
    if argv and argv[0] in ("python", "python3", str(own.executable)) and spec.language == "python":
        about = _about(own.executable, own.version, OWN_ORIGIN)
        spec.metadata = {**spec.metadata, METADATA_KEY: about}
    return spec


def _about(interpreter: Path, version: str, origin: str) -> dict[str, str]:
    return {"interpreter": str(interpreter), "version": version, "origin": origin}


def _activation(environment: Environment) -> dict[str, str]:
    """The variables with which shell commands in a cell use this environment, too."""
    folders = os.pathsep.join(str(folder) for folder in programs_of(environment))
    variable = "CONDA_PREFIX" if environment.conda else "VIRTUAL_ENV"
    return {variable: _literal(str(environment.prefix)), "PATH": f"{_literal(folders)}{os.pathsep}${{PATH}}"}


def _literal(text: str) -> str:
    """The text with its dollar signs escaped: Jupyter inserts variables there."""
    return text.replace("$", "$$")


@cache
def borrowed() -> tuple[list[str], list[str]]:
    """The folders of our ipykernel and its requirements, and the names under which these are imported."""
    distributions = _with_requirements("ipykernel").values()
    folders = list(dict.fromkeys(str(distribution.locate_file("")) for distribution in distributions))
    names = {file.parts[0].removesuffix(".py") for distribution in distributions for file in distribution.files or ()}
    return folders, sorted(name for name in names if name.isidentifier() and name != "__pycache__")


def _with_requirements(package: str) -> dict[str, importlib.metadata.Distribution]:
    """An installed package and all that it requires, directly or not."""
    distributions: dict[str, importlib.metadata.Distribution] = {}
    pending = [package]
    while pending:
        name = canonicalize_name(pending.pop())
        if name in distributions:
            continue
        distributions[name] = importlib.metadata.distribution(name)
        for line in distributions[name].requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending.append(requirement.name)
    return distributions
