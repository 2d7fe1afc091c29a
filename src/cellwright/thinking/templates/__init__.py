"""The seven reasoning templates. Each is a `.src.md` file beside this one; they share the cell in `shared.src.md`."""

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from cellwright.notebook.formats import srcmd
from cellwright.notebook.model import Kind, Notebook
from cellwright.thinking.templates.descriptions import DESCRIPTIONS
from cellwright.thinking.templates.model import Template

__all__ = ["TEMPLATES", "Template"]


def _text(name: str) -> str:
    return files(__name__).joinpath(f"{name}.src.md").read_text(encoding="utf-8")


def _shared() -> dict[str, str]:
    """The cells that templates link to, by their link."""
    shared = srcmd.decode(_text("shared"))
    return {f"./{cell.filename}": cell.source for cell in shared.cells if cell.kind is Kind.CODE}


def _notebooks() -> Mapping[str, Notebook]:
    shared = _shared()
    return {name: srcmd.decode(_text(name), shared) for name in DESCRIPTIONS}


def _templates() -> Mapping[str, Template]:
    return MappingProxyType(
        {
            name: Template(name, notebook.title, about.description, about.arguments, notebook, about.steps)
            for name, notebook in _notebooks().items()
            for about in (DESCRIPTIONS[name],)
        }
    )


TEMPLATES: Mapping[str, Template] = _templates()
