"""The seven reasoning templates. Each is a `.src.md` file beside this one; they share the cell in `shared.src.md`."""

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from cellwright.notebook.formats import srcmd
from cellwright.notebook.model import Kind
from cellwright.thinking.templates.descriptions import DESCRIPTIONS
from cellwright.thinking.templates.model import Template

__all__ = ["TEMPLATES", "Template"]


def _text(name: str) -> str:
    return files(__name__).joinpath(f"{name}.src.md").read_text(encoding="utf-8")


def _load_templates() -> Mapping[str, Template]:
    shared = srcmd.decode(_text("shared"))
    linked_sources = {f"./{cell.filename}": cell.source for cell in shared.cells if cell.kind is Kind.CODE}
    templates: dict[str, Template] = {}
    for name, about in DESCRIPTIONS.items():
        notebook = srcmd.decode(_text(name), linked_sources)
        templates[name] = Template(name, notebook.title, about.description, about.arguments, notebook, about.steps)
    return MappingProxyType(templates)


TEMPLATES: Mapping[str, Template] = _load_templates()
